/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf replay, sheaf compare. */
#include "pipeline/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Baseline, reframer, and the reframer without each of the optimisations. */
enum { RUNS_MAX = 2 + OPTIONS_ABLATIONS_COUNT, NAME_SIZE = 32 };

static bool writes_stdout(const char *path)
{
	return strcmp(path, "-") == 0;
}

/* The file of verdicts is none that is read or written otherwise. */
static enum pipeline_exit check_verdicts(struct command *command, const struct options *options)
{
	const struct pipeline_config *config = &options->config;
	const char *path = config->infer.enabled ? config->infer.verdicts : NULL;
	const char *model = config->infer.model;
	bool file = config->sink == PIPELINE_SINK_FILE;
	if (path == NULL)
		return PIPELINE_EXIT_OK;
	enum pipeline_exit code = command_check_output(
		command, options->files, options->files_count, "--infer: verdicts", path);
	if (code == PIPELINE_EXIT_OK)
		code = command_check_output(command, &model, 1, "--infer: verdicts", path);
	if (code == PIPELINE_EXIT_OK &&
		((file && command_same_file(path, config->sink_path)) ||
			(options->json != NULL && command_same_file(path, options->json))))
		code = command_error(command, PIPELINE_EXIT_USAGE,
			"--infer: verdicts: got %s, where --sink or --json writes, expected "
			"another file",
			path);
	return code == PIPELINE_EXIT_OK ? command_check_folder(command, path) : code;
}

static enum pipeline_exit check(struct command *command, const struct options *options)
{
	char message[PIPELINE_MESSAGE_SIZE];
	if (options->config.source == PIPELINE_SOURCE_PORT && options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"got captures and --source port, expected one of them");
	if (pipeline_config_check(&options->config, message) != 0)
		return command_error(command, PIPELINE_EXIT_USAGE, "%s", message);
	bool file = options->config.sink == PIPELINE_SINK_FILE;
	const char *sink = file ? options->config.sink_path : NULL;
	enum pipeline_exit code = command_check_once(command,
		options_command_name(options->command), options->files, options->files_count);
	if (code == PIPELINE_EXIT_OK)
		code = command_check_output(
			command, options->files, options->files_count, "--sink", sink);
	if (code == PIPELINE_EXIT_OK)
		code = command_check_output(
			command, &options->config.infer.model, 1, "--sink", sink);
	if (code == PIPELINE_EXIT_OK && file && options->json != NULL &&
		command_same_file(options->json, options->config.sink_path))
		code = command_error(command, PIPELINE_EXIT_USAGE,
			"--json: got %s, where --sink writes, expected another file",
			options->json);
	if (code == PIPELINE_EXIT_OK && file && writes_stdout(options->config.sink_path) &&
		options->json != NULL && writes_stdout(options->json))
		code = command_error(command, PIPELINE_EXIT_USAGE,
			"--json: got -, where --sink writes, expected a file");
	return code == PIPELINE_EXIT_OK ? check_verdicts(command, options) : code;
}

/* Whether a run that ended so has results. */
static bool has_results(enum pipeline_exit code)
{
	return code == PIPELINE_EXIT_OK || code == PIPELINE_EXIT_BOOKS ||
	       code == PIPELINE_EXIT_DAMAGED || code == PIPELINE_EXIT_INTERRUPTED ||
	       code == PIPELINE_EXIT_LOST;
}

static struct progress progress_of(const struct command *command, const struct options *options)
{
	return (struct progress){
		.stream = command->terminal && !options->quiet ? command->err : NULL,
	};
}

static enum pipeline_exit tell(
	struct command *command, enum pipeline_exit code, const struct pipeline_result *result)
{
	if (code != PIPELINE_EXIT_OK)
		command_error(command, code, "%s",
			result->message[0] == '\0' ? "the run failed" : result->message);
	return code;
}

static enum pipeline_exit run(
	struct command *command, const struct options *options, struct pipeline_result *result)
{
	struct progress progress = progress_of(command, options);
	enum pipeline_exit code =
		pipeline_run(&options->config, result, command->stop, progress_show, &progress);
	progress_end(&progress);
	return tell(command, code, result);
}

static struct results_origin origin_of(struct command *command, struct command_machine *machine)
{
	command_machine_read(machine);
	return (struct results_origin){
		.command = command->typed,
		.date = command->date,
		.cpu = machine->cpu,
		.kernel = machine->kernel,
		.cpus = machine->cpus,
	};
}

/* Results stay right; what they cost does not. */
static void warn_crowded(struct command *command, const struct options *options, uint32_t cpus)
{
	if (!options->quiet && cpus != 0 && options->config.workers > cpus)
		fprintf(command->err,
			"sheaf: %" PRIu32 " workers share %" PRIu32
			" CPU%s: costs and rates will be off\n",
			options->config.workers, cpus, cpus == 1 ? "" : "s");
}

enum pipeline_exit command_replay(struct command *command, struct options *options)
{
	struct command_machine machine;
	struct results_origin origin = origin_of(command, &machine);
	enum pipeline_exit code = check(command, options);
	if (code != PIPELINE_EXIT_OK)
		return code;
	warn_crowded(command, options, machine.cpus);
	struct pipeline_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	code = run(command, options, result);
	FILE *stream = command_table_stream(command, options);
	if (has_results(code) && stream != NULL)
		pipeline_result_print(&options->config, result, stream);
	if (has_results(code) && options->json != NULL) {
		enum pipeline_exit written = command_json_write(
			command, options, results_document(&options->config, result, &origin));
		if (written != PIPELINE_EXIT_OK)
			code = written;
	}
	free(result);
	return code;
}

/* The runs of a comparison, in the order of the table. */
struct comparison {
	size_t count;
	char names[RUNS_MAX][NAME_SIZE];
	struct pipeline_config configs[RUNS_MAX];
	struct pipeline_result results[RUNS_MAX];
};

static void add_run(struct comparison *comparison, const struct pipeline_config *config,
	const char *prefix, const char *name)
{
	snprintf(comparison->names[comparison->count], NAME_SIZE, "%s%s", prefix, name);
	comparison->configs[comparison->count++] = *config;
}

static void plan(struct comparison *comparison, const struct options *options)
{
	struct pipeline_config config = options->config;
	config.reframer_enabled = false;
	add_run(comparison, &config, "", "baseline");
	config.reframer_enabled = true;
	add_run(comparison, &config, "", "reframer");
	for (unsigned int i = 0; i < OPTIONS_ABLATIONS_COUNT; i++) {
		if ((options->compare_ablations >> i & 1) == 0)
			continue;
		config.ablations = 1u << i;
		add_run(comparison, &config, "no-", options_ablation_name(i));
	}
}

static enum pipeline_exit execute(
	struct command *command, const struct options *options, struct comparison *comparison)
{
	struct progress progress = progress_of(command, options);
	size_t told;
	enum pipeline_exit code = pipeline_compare(comparison->configs, comparison->results,
		comparison->count, &told, command->stop, progress_show, &progress);
	progress_end(&progress);
	return tell(command, code, &comparison->results[told]);
}

static json_t *comparison_document(
	const struct comparison *comparison, const struct results_origin *origin)
{
	struct results_builder builder = { .failed = false };
	json_t *document = json_object(), *runs = json_array();
	results_put_text(&builder, document, "schema", RESULTS_COMPARISON_SCHEMA);
	for (size_t i = 0; i < comparison->count; i++) {
		json_t *entry = json_object();
		results_put_text(&builder, entry, "name", comparison->names[i]);
		results_put(&builder, entry, "result",
			results_document(&comparison->configs[i], &comparison->results[i], origin));
		results_append(&builder, runs, entry);
	}
	results_put(&builder, document, "runs", runs);
	if (!builder.failed)
		return document;
	json_decref(document);
	return NULL;
}

static enum pipeline_exit report(struct command *command, struct options *options,
	const struct comparison *comparison, const struct results_origin *origin)
{
	const char *names[RUNS_MAX];
	FILE *stream = command_table_stream(command, options);
	for (size_t i = 0; i < comparison->count; i++)
		names[i] = comparison->names[i];
	if (stream != NULL)
		pipeline_comparison_print(
			names, comparison->configs, comparison->results, comparison->count, stream);
	if (options->json == NULL)
		return PIPELINE_EXIT_OK;
	return command_json_write(command, options, comparison_document(comparison, origin));
}

enum pipeline_exit command_compare(struct command *command, struct options *options)
{
	struct command_machine machine;
	struct results_origin origin = origin_of(command, &machine);
	enum pipeline_exit code;
	options->config.reframer_enabled = true;
	if (options->config.sink == PIPELINE_SINK_FILE)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--sink: got a file, expected null or a port: every run would write it");
	if (options->config.source == PIPELINE_SOURCE_PORT)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--source: got a port, expected captures: every run needs the same "
			"packets");
	code = check(command, options);
	if (code != PIPELINE_EXIT_OK)
		return code;
	struct comparison *comparison = calloc(1, sizeof(*comparison));
	if (comparison == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	warn_crowded(command, options, machine.cpus);
	plan(comparison, options);
	code = execute(command, options, comparison);
	if (has_results(code) && code != PIPELINE_EXIT_INTERRUPTED) {
		enum pipeline_exit written = report(command, options, comparison, &origin);
		if (written != PIPELINE_EXIT_OK)
			code = written;
	}
	free(comparison);
	return code;
}
