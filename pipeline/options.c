/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: arguments to rows and values, in order. */
#include "pipeline/options_private.h"

#include "pipeline/config_file.h"
#include "pipeline/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* One block of kept memory, in a list that options_destroy walks. */
struct kept {
	struct kept *next;
	max_align_t memory[];
};

/* A row that was set. */
struct given {
	struct given *next;
	const struct options_row *row;
};

struct options_store {
	struct kept *kept;
	struct given *given;
	const char **files;
	size_t files_capacity;
};

/* An option as it stood on the command line, before values are looked at. */
struct argument {
	const struct options_row *row;
	const char *spelled; /* "--burst", "-o" */
	const char *value;   /* NULL: a switch without one */
};

static const char *const command_names[OPTIONS_COMMANDS_COUNT] = {
	[OPTIONS_REPLAY] = "replay",
	[OPTIONS_COMPARE] = "compare",
	[OPTIONS_TRACE_INFO] = "trace info",
	[OPTIONS_TRACE_GEN] = "trace gen",
	[OPTIONS_TRACE_CONVERT] = "trace convert",
	[OPTIONS_TRACE_ANONYMIZE] = "trace anonymize",
	[OPTIONS_TRACE_SCALE] = "trace scale",
	[OPTIONS_TRACE_SLICE] = "trace slice",
	[OPTIONS_TRACE_MERGE] = "trace merge",
	[OPTIONS_TRACE_FILTER] = "trace filter",
	[OPTIONS_TRACE_SHUFFLE] = "trace shuffle",
	[OPTIONS_TRACE_REGROUP] = "trace regroup",
	[OPTIONS_BENCH_LB] = "bench lb",
	[OPTIONS_BENCH_DELETION] = "bench deletion",
	[OPTIONS_BENCH_SHARING] = "bench sharing",
	[OPTIONS_BENCH_TABLES] = "bench tables",
	[OPTIONS_INFER_EXPORT] = "infer export",
	[OPTIONS_INFER_VERIFY] = "infer verify",
	[OPTIONS_INFER_BENCH] = "infer bench",
	[OPTIONS_INFER_PROBE] = "infer probe",
	[OPTIONS_REPORT] = "report",
};

const char *options_command_name(enum options_command command)
{
	return command_names[command];
}

void *options_keep(struct options *options, size_t size)
{
	struct kept *kept = calloc(1, sizeof(*kept) + size);
	if (kept == NULL)
		return NULL;
	kept->next = options->store->kept;
	options->store->kept = kept;
	return kept->memory;
}

char *options_keep_text(struct options *options, const char *text, size_t length)
{
	char *copy = options_keep(options, length + 1);
	if (copy != NULL)
		memcpy(copy, text, length);
	return copy;
}

int options_create(struct options **out, enum options_command command)
{
	struct options *options = calloc(1, sizeof(*options));
	struct options_store *store = calloc(1, sizeof(*store));
	if (options == NULL || store == NULL) {
		free(options);
		free(store);
		return -ENOMEM;
	}
	options->store = store;
	options->command = command;
	options->compare_ablations = (1u << OPTIONS_ABLATIONS_COUNT) - 1;
	pipeline_config_defaults(&options->config);
	if (command == OPTIONS_COMPARE)
		options->config.repeats = OPTIONS_COMPARE_REPEATS;
	traces_info_options_defaults(&options->info);
	traces_synth_options_defaults(&options->synth);
	options->transform = (struct options_transform){
		.scale = { .copies = 1, .shift_ns = 1000000, .speed = 1 },
		.shuffle = { .seed = 1 },
		.regroup = { .delay_ns = 64000, .held_max = 65536 },
	};
	bench_lb_options_defaults(&options->bench_lb);
	bench_deletion_options_defaults(&options->bench_deletion);
	bench_sharing_options_defaults(&options->bench_sharing);
	bench_tables_options_defaults(&options->bench_tables);
	options_set_counters(options, counters_linux());
	infer_export_options_defaults(&options->infer_export);
	infer_options_defaults(&options->infer);
	traces_relink_options_defaults(&options->convert.relink, BASE_LINK_ETHERNET);
	options->gen = (struct options_gen){
		.seed = options->synth.seed,
		.run_seed = options->config.seed,
		.conns = options->config.conntrack.entries_max,
	};
	traces_generate_options_defaults(&options->generate);
	*out = options;
	return 0;
}

void options_destroy(struct options *options)
{
	if (options == NULL)
		return;
	for (struct kept *kept = options->store->kept; kept != NULL;) {
		struct kept *next = kept->next;
		free(kept);
		kept = next;
	}
	free(options->store->files);
	free(options->store);
	free(options);
}

int options_files_clear(struct options *options)
{
	options->files_count = 0;
	options->config.paths_count = 0;
	return 0;
}

int options_files_add(struct options *options, const char *path, char *message)
{
	struct options_store *store = options->store;
	if (*path == '\0')
		return options_refuse(message, path, "a file name");
	if (options->files_count == PIPELINE_PATHS_MAX)
		return options_refuse(message, path, "at most %d files", PIPELINE_PATHS_MAX);
	if (options->files_count == store->files_capacity) {
		size_t capacity = store->files_capacity == 0 ? 16 : 2 * store->files_capacity;
		const char **files = realloc(store->files, capacity * sizeof(*files));
		if (files == NULL)
			return options_refuse_memory(message);
		store->files = files;
		store->files_capacity = capacity;
	}
	const char *copy = options_keep_text(options, path, strlen(path));
	if (copy == NULL)
		return options_refuse_memory(message);
	store->files[options->files_count++] = copy;
	options->files = store->files;
	options->config.paths = store->files;
	options->config.paths_count = options->files_count;
	return 0;
}

int options_set_item(struct options *options, const struct options_row *row, const char *key,
	const char *value, char *message)
{
	const struct options_row *item = options_item_find(row, key);
	int error;
	if (item == NULL)
		return options_refuse_key(message, key, row->items, row->items_count);
	error = options_value_set(options, item, (uint8_t *)options + row->offset, value, message);
	if (error)
		return options_refuse_at(message, error, "%s", key);
	return row->parse == NULL ? 0 : row->parse(options, options, "on", message);
}

/* "delay=64us,run=128", or a word alone. */
static int set_items(
	struct options *options, const struct options_row *row, const char *text, char *message)
{
	if (row->parse != NULL && (strcmp(text, "on") == 0 || strcmp(text, "off") == 0))
		return row->parse(options, options, text, message);
	char *rest = options_keep_text(options, text, strlen(text));
	if (rest == NULL)
		return options_refuse_memory(message);
	for (char *word; (word = options_split(&rest, ",")) != NULL;) {
		int error = options_rows_set_word(options, row->items, row->items_count,
			(uint8_t *)options + row->offset, word, message);
		if (error)
			return error;
	}
	return row->parse == NULL ? 0 : row->parse(options, options, "on", message);
}

/* "stats,firewall:rules=20000,lb", or "none". */
static int set_chain(struct options *options, const char *text, char *message)
{
	int error = options_chain_clear(options);
	if (strcmp(text, "none") == 0)
		return error;
	char *rest = options_keep_text(options, text, strlen(text));
	if (rest == NULL)
		return options_refuse_memory(message);
	for (char *word; error == 0 && (word = options_split(&rest, ",")) != NULL;)
		error = options_chain_add_text(options, word, message);
	return error;
}

bool options_given(const struct options *options, const char *name)
{
	for (const struct given *given = options->store->given; given != NULL; given = given->next)
		if (strcmp(given->row->name, name) == 0)
			return true;
	return false;
}

int options_set(
	struct options *options, const struct options_row *row, const char *text, char *message)
{
	struct given *given = options_keep(options, sizeof(*given));
	if (given == NULL)
		return options_refuse_memory(message);
	*given = (struct given){ options->store->given, row };
	options->store->given = given;
	switch (row->kind) {
	case OPTIONS_KIND_ITEMS:
		return set_items(options, row, text, message);
	case OPTIONS_KIND_CHAIN:
		return set_chain(options, text, message);
	default:
		return options_value_set(options, row, options, text, message);
	}
}

const struct options_row *options_find(enum options_command command, const char *name)
{
	const struct options_row *row;
	for (size_t i = 0; (row = options_row_at(i)) != NULL; i++) {
		if ((row->commands >> command & 1) != 0 && strcmp(row->name, name) == 0)
			return row;
	}
	return NULL;
}

static const struct options_row *find_letter(enum options_command command, char letter)
{
	const struct options_row *row;
	for (size_t i = 0; (row = options_row_at(i)) != NULL; i++) {
		if ((row->commands >> command & 1) != 0 && row->letter == letter)
			return row;
	}
	return NULL;
}

const struct options_row *options_item_find(const struct options_row *row, const char *key)
{
	return options_rows_find(row->items, row->items_count, key);
}

/* Edit distance of short names (Levenshtein), for "did you mean". */
static unsigned int distance(const char *a, const char *b)
{
	enum { NAME_MAX_LENGTH = 32 };
	unsigned int row[NAME_MAX_LENGTH + 1];
	size_t length = strlen(b);
	if (strlen(a) > NAME_MAX_LENGTH || length > NAME_MAX_LENGTH)
		return UINT32_MAX;
	for (unsigned int j = 0; j <= length; j++)
		row[j] = j;
	for (unsigned int i = 1; a[i - 1] != '\0'; i++) {
		unsigned int diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			unsigned int best = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[length];
}

static int refuse_unknown(enum options_command command, const char *name, char *message)
{
	char quoted[64];
	unsigned int best = 3;
	const char *near = NULL;
	const struct options_row *row;
	for (size_t i = 0; (row = options_row_at(i)) != NULL; i++) {
		unsigned int d = distance(name, row->name);
		if ((row->commands >> command & 1) != 0 && d < best) {
			best = d;
			near = row->name;
		}
	}
	units_quote(name, quoted, sizeof(quoted));
	if (near != NULL)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "--%s: unknown option, did you mean --%s?",
			quoted, near);
	else
		snprintf(message, PIPELINE_MESSAGE_SIZE, "--%s: unknown option, see sheaf help %s",
			quoted, options_command_name(command));
	return -EINVAL;
}

/* One option at argv[*at]; *at moves to its last argument. */
static int read_option(struct options *options, int argc, char *const *argv, int *at,
	struct argument *argument, char *message)
{
	const char *spelled = argv[*at];
	const char *value = NULL;
	const struct options_row *row;
	if (spelled[1] == '-') {
		size_t length = strcspn(spelled + 2, "=");
		char *name = options_keep_text(options, spelled + 2, length);
		if (name == NULL)
			return options_refuse_memory(message);
		if (spelled[2 + length] == '=')
			value = spelled + 3 + length;
		row = options_find(options->command, name);
		if (row == NULL)
			return refuse_unknown(options->command, name, message);
	} else {
		row = find_letter(options->command, spelled[1]);
		if (row == NULL) {
			options_refuse(message, spelled, "an option, see sheaf help %s",
				options_command_name(options->command));
			return -EINVAL;
		}
		if (spelled[2] != '\0')
			value = spelled + 2;
	}
	if (value == NULL && row->argument != NULL) {
		if (*at + 1 == argc) {
			snprintf(message, PIPELINE_MESSAGE_SIZE, "--%s: got nothing, expected %s",
				row->name, row->argument);
			return -EINVAL;
		}
		value = argv[++*at];
	}
	*argument = (struct argument){ row, row->name, value };
	return 0;
}

/* Split argv into options and files. */
static int read_arguments(struct options *options, int argc, char *const *argv,
	struct argument *arguments, size_t *arguments_count, const char **files,
	size_t *files_count, char *message)
{
	bool only_files = false;
	for (int i = 0; i < argc; i++) {
		const char *text = argv[i];
		if (only_files || text[0] != '-' || text[1] == '\0') {
			files[(*files_count)++] = text;
		} else if (strcmp(text, "--") == 0) {
			only_files = true;
		} else {
			int error = read_option(
				options, argc, argv, &i, &arguments[*arguments_count], message);
			if (error)
				return error;
			(*arguments_count)++;
		}
	}
	return 0;
}

/* The file first, so that the command line has the last word. */
static int apply_arguments(struct options *options, const struct argument *arguments,
	size_t arguments_count, char *message)
{
	int error = 0;
	for (size_t i = 0; i < arguments_count && error == 0; i++) {
		if (strcmp(arguments[i].row->name, "config") == 0)
			error = config_file_read(options, arguments[i].value, message);
	}
	for (size_t i = 0; i < arguments_count && error == 0; i++) {
		const struct argument *argument = &arguments[i];
		const char *value = argument->value == NULL ? "on" : argument->value;
		error = options_set(options, argument->row, value, message);
		if (error)
			options_refuse_at(message, error, "--%s", argument->spelled);
	}
	return error;
}

int options_parse(struct options *options, int argc, char *const *argv, char *message)
{
	size_t arguments_count = 0, files_count = 0;
	size_t room = argc > 0 ? (size_t)argc : 1;
	struct argument *arguments = calloc(room, sizeof(*arguments));
	const char **files = calloc(room, sizeof(*files));
	int error = 0;
	if (arguments == NULL || files == NULL)
		error = options_refuse_memory(message);
	if (error == 0)
		error = read_arguments(options, argc, argv, arguments, &arguments_count, files,
			&files_count, message);
	if (error == 0)
		error = apply_arguments(options, arguments, arguments_count, message);
	if (error == 0 && files_count > 0)
		options_files_clear(options); /* those of the configuration file */
	for (size_t i = 0; i < files_count && error == 0; i++)
		error = options_files_add(options, files[i], message);
	free(arguments);
	free(files);
	return error;
}
