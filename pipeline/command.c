/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands share: errors, documents, facts of the machine. */
#include "pipeline/command.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

enum pipeline_exit command_error(
	struct command *command, enum pipeline_exit code, const char *fmt, ...)
{
	char text[2 * PIPELINE_MESSAGE_SIZE];
	va_list arguments;
	va_start(arguments, fmt);
	vsnprintf(text, sizeof(text), fmt, arguments);
	va_end(arguments);
	/* One line, whatever is in file names. */
	for (char *at = text; *at != '\0'; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			*at = '?';
	}
	fprintf(command->err, "sheaf: %s\n", text);
	return code;
}

/* The word of a command's name that is asked for; its length, 0: none. */
static size_t word_of(const char *name, const char *first, const char **word)
{
	size_t length = strcspn(name, " ");
	*word = name;
	if (first == NULL)
		return length;
	if (name[length] == '\0' || strlen(first) != length || strncmp(name, first, length) != 0)
		return 0;
	*word = name + length + 1;
	return strlen(*word);
}

void command_words(const char *first, const char *more, char *text, size_t text_size)
{
	const char *words[OPTIONS_COMMANDS_COUNT];
	size_t lengths[OPTIONS_COMMANDS_COUNT], count = 0, used = 0;
	for (enum options_command i = 0; i < OPTIONS_COMMANDS_COUNT; i++) {
		size_t length = word_of(options_command_name(i), first, &words[count]);
		bool again = count > 0 && lengths[count - 1] == length &&
			     strncmp(words[count - 1], words[count], length) == 0;
		if (length > 0 && !again)
			lengths[count++] = length;
	}
	text[0] = '\0';
	for (size_t i = 0; i < count && used < text_size; i++) {
		bool last = i + 1 == count && more == NULL;
		used += (size_t)snprintf(text + used, text_size - used, "%s%.*s",
			i == 0 ? ""
			: last ? " or "
			       : ", ",
			(int)lengths[i], words[i]);
	}
	if (more != NULL && used < text_size)
		snprintf(text + used, text_size - used, ", %s", more);
}

FILE *command_table_stream(struct command *command, const struct options *options)
{
	if (options->quiet)
		return NULL;
	bool taken = options->json != NULL && strcmp(options->json, "-") == 0;
	taken = taken || (options->config.sink == PIPELINE_SINK_FILE &&
				 strcmp(options->config.sink_path, "-") == 0);
	return taken ? command->err : command->out;
}

enum pipeline_exit command_json_write(
	struct command *command, const struct options *options, json_t *document)
{
	int error = 0;
	if (options->json == NULL) {
		json_decref(document);
		return PIPELINE_EXIT_OK;
	}
	char *text = results_text(document);
	json_decref(document);
	if (text == NULL)
		return command_error(
			command, PIPELINE_EXIT_RUN, "%s: out of memory", options->json);
	if (strcmp(options->json, "-") == 0)
		error = fputs(text, command->out) < 0 ? -errno : 0;
	else
		error = traces_file_save(options->json, text, strlen(text));
	free(text);
	if (error == 0)
		return PIPELINE_EXIT_OK;
	return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", options->json, strerror(-error));
}

json_t *command_document_begin(
	const struct command *command, struct results_builder *builder, const char *schema)
{
	struct command_machine machine;
	json_t *object = json_object();
	command_machine_read(&machine);
	results_put_text(builder, object, "schema", schema);
	results_put_text(builder, object, "command", command->typed);
	results_put_text(builder, object, "date", command->date);
	results_put_text(builder, object, "cpu", machine.cpu);
	return object;
}

static void read_cpu(char *text, size_t text_size)
{
	char row[256];
	snprintf(text, text_size, "not known");
	FILE *file = fopen("/proc/cpuinfo", "r");
	if (file == NULL)
		return;
	while (fgets(row, sizeof(row), file) != NULL) {
		const char *colon = strchr(row, ':');
		if (strncmp(row, "model name", 10) != 0 || colon == NULL)
			continue;
		snprintf(text, text_size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
		break;
	}
	fclose(file);
}

void command_machine_read(struct command_machine *machine)
{
	struct utsname name;
	cpu_set_t allowed;
	read_cpu(machine->cpu, sizeof(machine->cpu));
	if (uname(&name) == 0)
		snprintf(machine->kernel, sizeof(machine->kernel), "%.32s %.64s %.16s",
			name.sysname, name.release, name.machine);
	else
		snprintf(machine->kernel, sizeof(machine->kernel), "not known");
	machine->cpus = 0;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
		machine->cpus = (uint32_t)CPU_COUNT(&allowed);
}
