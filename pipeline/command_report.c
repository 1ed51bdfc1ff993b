/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf report: hands the files to the report generator, a Python script (bench/report.py). */
#include "pipeline/command.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Debian's own, where its matplotlib and Jinja2 are; a python3 in PATH may be another. */
static const char python[] = "/usr/bin/python3";

/* Where the script may be: as told, installed, beside the sources of an uninstalled build. */
static const char *find_script(void)
{
	const char *told = getenv("SHEAF_REPORT");
	if (told != NULL && *told != '\0')
		return told;
	if (access(PIPELINE_REPORT_INSTALLED, R_OK) == 0)
		return PIPELINE_REPORT_INSTALLED;
	return access(PIPELINE_REPORT_SOURCE, R_OK) == 0 ? PIPELINE_REPORT_SOURCE : NULL;
}

enum pipeline_exit command_report(struct command *command, struct options *options)
{
	const char *script = find_script();
	if (options->files_count == 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"report: got no file, expected results documents");
	if (options->output == NULL)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--output: got nothing, expected the page to write");
	enum pipeline_exit code = command_check_output(
		command, options->files, options->files_count, "--output", options->output);
	if (code != PIPELINE_EXIT_OK)
		return code;
	if (script == NULL)
		return command_error(command, PIPELINE_EXIT_RUN,
			"report: the script is not installed; set SHEAF_REPORT to its path");
	/* python3 script -o OUTPUT FILES... NULL */
	char **arguments = calloc(options->files_count + 6, sizeof(*arguments));
	size_t count = 0;
	if (arguments == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	arguments[count++] = (char *)(uintptr_t)python;
	arguments[count++] = (char *)(uintptr_t)script;
	arguments[count++] = (char *)(uintptr_t) "-o";
	arguments[count++] = (char *)(uintptr_t)options->output;
	for (size_t i = 0; i < options->files_count; i++)
		arguments[count++] = (char *)(uintptr_t)options->files[i];
	fflush(command->out);
	fflush(command->err);
	execv(python, arguments);
	int error = errno;
	free(arguments);
	return command_error(command, PIPELINE_EXIT_RUN, "report: %s: %s", python, strerror(error));
}
