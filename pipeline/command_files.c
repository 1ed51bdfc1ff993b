/* SPDX-License-Identifier: BSD-2-Clause */
/* No output of a command may be one of its inputs, nor another of its outputs. */
#include "pipeline/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dash(const char *path)
{
	return strcmp(path, "-") == 0;
}

/* The full name that a new file would have. */
static bool name_new(const char *path, char name[PATH_MAX])
{
	char folder[PATH_MAX], full[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int length = snprintf(folder, sizeof(folder), "%.*s",
		slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
	if (length < 0 || (size_t)length >= sizeof(folder) || realpath(folder, full) == NULL)
		return false;
	length = snprintf(name, PATH_MAX, "%s/%s", full, slash == NULL ? path : slash + 1);
	return length > 0 && length < PATH_MAX;
}

bool command_same_file(const char *one, const char *other)
{
	struct stat a, b;
	char a_name[PATH_MAX], b_name[PATH_MAX];
	bool a_is = stat(one, &a) == 0, b_is = stat(other, &b) == 0;
	if (a_is && b_is)
		return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
	return !a_is && !b_is && name_new(one, a_name) && name_new(other, b_name) &&
	       strcmp(a_name, b_name) == 0;
}

static bool is_input(const char *input, const struct stat *out)
{
	struct stat in;
	int error = is_dash(input) ? fstat(STDIN_FILENO, &in) : stat(input, &in);
	return error == 0 && in.st_dev == out->st_dev && in.st_ino == out->st_ino;
}

/* Standard input and pipes: what was read is gone. */
static bool is_read_once(const char *input, struct stat *status)
{
	if (is_dash(input))
		return fstat(STDIN_FILENO, status) == 0;
	return stat(input, status) == 0 && !S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode);
}

enum pipeline_exit command_check_once(
	struct command *command, const char *where, const char *const *inputs, size_t inputs_count)
{
	struct stat one, other;
	for (size_t i = 0; i < inputs_count; i++) {
		if (!is_read_once(inputs[i], &one))
			continue;
		for (size_t k = 0; k < i; k++) {
			if (is_read_once(inputs[k], &other) && one.st_dev == other.st_dev &&
				one.st_ino == other.st_ino)
				return command_error(command, PIPELINE_EXIT_USAGE,
					"%s: got %s twice, expected it once: it can be read only "
					"once",
					where, inputs[i]);
		}
	}
	return PIPELINE_EXIT_OK;
}

enum pipeline_exit command_check_output(struct command *command, const char *const *inputs,
	size_t inputs_count, const char *where, const char *output)
{
	struct stat out;
	if (output == NULL || is_dash(output) || stat(output, &out) != 0 || !S_ISREG(out.st_mode))
		return PIPELINE_EXIT_OK;
	for (size_t i = 0; i < inputs_count; i++)
		if (inputs[i] != NULL && is_input(inputs[i], &out))
			return command_error(command, PIPELINE_EXIT_USAGE,
				"%s: got %s, which is an input, expected another file", where,
				output);
	return PIPELINE_EXIT_OK;
}

/* A long run whose document has no place to go to is not begun. */
enum pipeline_exit command_check_folder(struct command *command, const char *path)
{
	char folder[PATH_MAX];
	struct stat status;
	if (path == NULL || is_dash(path) || stat(path, &status) == 0)
		return PIPELINE_EXIT_OK;
	const char *slash = strrchr(path, '/');
	snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
		slash == NULL ? "." : path);
	if (access(folder, W_OK | X_OK) == 0)
		return PIPELINE_EXIT_OK;
	return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(errno));
}

enum pipeline_exit command_check_json(struct command *command, const struct options *options)
{
	const char *const others[] = { options->config_file, options->config.infer.model,
		options->infer.model.file, options->bench_deletion.trace, options->bench_lb.trace,
		options->bench_lb.schedule, options->bench_sharing.trace };
	enum pipeline_exit code = command_check_output(
		command, options->files, options->files_count, "--json", options->json);
	if (code == PIPELINE_EXIT_OK)
		code = command_check_output(
			command, others, BASE_ARRAY_COUNT(others), "--json", options->json);
	return code == PIPELINE_EXIT_OK ? command_check_folder(command, options->json) : code;
}
