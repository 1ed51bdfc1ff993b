/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace info. */
#include "pipeline/command_trace.h"

#include <errno.h>
#include <stdlib.h>

/* The stream to its end; -EINTR when the command is stopped. */
static int info_collect(const struct command *command, struct traces_packets *packets,
	struct traces_info_collector *collector)
{
	struct traces_batch batch;
	int error;
	do {
		error = traces_packets_next(packets, &batch);
		if (error == 0)
			error = traces_info_collector_add(collector, &batch);
		if (error == 0 && atomic_load_explicit(command->stop, memory_order_relaxed))
			error = -EINTR; /* the flag stands for nothing else: no order is needed */
	} while (error == 0 && batch.count > 0);
	return error;
}

static enum pipeline_exit info_refuse(
	struct command *command, const char *path, const struct traces_packets *packets, int error)
{
	const char *message = traces_packets_message(packets);
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (message[0] != '\0')
		return command_error(command, PIPELINE_EXIT_INPUT, "%s", message);
	return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(-error));
}

/* What one capture holds. */
static enum pipeline_exit info_read(struct command *command, struct options *options,
	const char *path, struct traces_info *info, struct traces_load_report *report)
{
	struct command_trace_progress progress;
	struct traces_packets *packets;
	struct traces_info_collector *collector = NULL;
	enum pipeline_exit code =
		command_trace_open_shown(command, options, path, &progress, &packets, report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	int error = traces_info_collector_create(&collector, &options->info);
	if (error == 0)
		error = info_collect(command, packets, collector);
	progress_end(&progress.line);
	if (error == 0)
		traces_info_collector_finish(collector, info);
	else
		code = info_refuse(command, path, packets, error);
	traces_info_collector_destroy(collector);
	traces_packets_destroy(packets);
	return code;
}

static enum pipeline_exit info_file(struct command *command, struct options *options,
	const char *path, struct traces_info *info, struct results_builder *builder, json_t *files)
{
	struct traces_load_report report;
	FILE *stream = command_table_stream(command, options);
	enum pipeline_exit code = info_read(command, options, path, info, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	if (stream != NULL && options->files_count > 1)
		fprintf(stream, "%s%s\n", path == options->files[0] ? "" : "\n", path);
	if (stream != NULL)
		traces_info_print(info, stream);
	results_append(builder, files, results_trace_info(path, &report, info));
	return command_trace_tell_damage(command, path, &report);
}

enum pipeline_exit command_trace_info(struct command *command, struct options *options)
{
	enum pipeline_exit worst = PIPELINE_EXIT_OK;
	struct results_builder builder = { .failed = false };
	if (options->files_count == 0)
		return command_error(
			command, PIPELINE_EXIT_USAGE, "trace info: got no file, expected captures");
	enum pipeline_exit once =
		command_check_once(command, "trace info", options->files, options->files_count);
	if (once != PIPELINE_EXIT_OK)
		return once;
	struct traces_info *info = calloc(1, sizeof(*info));
	if (info == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	json_t *document = json_object(), *files = json_array();
	for (size_t i = 0; i < options->files_count && !atomic_load(command->stop); i++) {
		enum pipeline_exit code =
			info_file(command, options, options->files[i], info, &builder, files);
		/* One bad file does not hide the others; not readable is worse than damaged. */
		if (worst == PIPELINE_EXIT_OK || code == PIPELINE_EXIT_RUN ||
			(code == PIPELINE_EXIT_INPUT && worst == PIPELINE_EXIT_DAMAGED))
			worst = code == PIPELINE_EXIT_OK ? worst : code;
	}
	free(info);
	results_put_text(&builder, document, "schema", RESULTS_TRACE_SCHEMA);
	results_put(&builder, document, "files", files);
	if (builder.failed) {
		json_decref(document);
		document = NULL;
	}
	enum pipeline_exit written = command_json_write(command, options, document);
	if (atomic_load(command->stop))
		return PIPELINE_EXIT_INTERRUPTED;
	return written != PIPELINE_EXIT_OK ? written : worst;
}
