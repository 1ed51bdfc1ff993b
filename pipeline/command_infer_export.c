/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf infer export. */
#include "pipeline/command_trace.h"

#include <errno.h>
#include <inttypes.h>

/* The stream to its end. *failed_read: whether the error is the stream's. */
static int pump(const struct command *command, struct traces_packets *packets,
	struct infer_export *export, bool *failed_read)
{
	struct traces_batch batch;
	int error;
	do {
		error = traces_packets_next(packets, &batch);
		*failed_read = error != 0;
		if (error == 0)
			error = infer_export_add(export, &batch);
		if (error == 0 && atomic_load_explicit(command->stop, memory_order_relaxed))
			error = -EINTR;
	} while (error == 0 && batch.count > 0);
	return error;
}

static enum pipeline_exit refuse(struct command *command, const char *path,
	const struct traces_packets *packets, bool failed_read, int error)
{
	const char *message = failed_read ? traces_packets_message(packets) : "";
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (failed_read && message[0] != '\0')
		return command_error(command, PIPELINE_EXIT_INPUT, "%s", message);
	return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(-error));
}

static void tell(struct command *command, const struct options *options,
	const struct infer_export_report *report)
{
	if (report->untracked != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%" PRIu64 " packets are of no connection: not IP, none that begins one "
			"(such as a RST), or more connections than --conns",
			report->untracked);
	if (options->quiet)
		return;
	fprintf(command->out,
		"%s: %" PRIu64 " rows of %u inputs (depth %u) from %" PRIu64 " flows, %" PRIu64
		" too short; %" PRIu64 " packets, %" PRIu64 " malformed\n",
		options->output, report->rows, report->inputs, report->depth, report->flows,
		report->short_flows, report->packets, report->malformed);
}

static enum pipeline_exit export_file(struct command *command, const struct options *options,
	struct traces_packets *packets, struct infer_export *export)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct infer_export_report report;
	bool failed_read;
	int error = pump(command, packets, export, &failed_read);
	if (error != 0) {
		infer_export_abandon(export);
		return refuse(command, failed_read ? options->files[0] : options->output, packets,
			failed_read, error);
	}
	if (infer_export_close(export, &report, message) != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "%s", message);
	tell(command, options, &report);
	return PIPELINE_EXIT_OK;
}

/* FILE.csv beside FILE.npy. */
static enum pipeline_exit check_side_file(struct command *command, const struct options *options)
{
	char name[PIPELINE_MESSAGE_SIZE];
	const char *dot = strrchr(options->output, '.');
	int length = dot == NULL ? (int)strlen(options->output) : (int)(dot - options->output);
	int written = snprintf(name, sizeof(name), "%.*s.csv", length, options->output);
	if (written < 0 || (size_t)written >= sizeof(name))
		return PIPELINE_EXIT_OK; /* too long to be opened either */
	return command_check_output(
		command, options->files, options->files_count, "-o, beside it", name);
}

enum pipeline_exit command_infer_export(struct command *command, struct options *options)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct command_trace_progress progress;
	struct traces_load_report report;
	struct traces_packets *packets;
	struct infer_export *export;
	if (options->files_count != 1 || options->output == NULL)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"infer export: got %zu files%s, expected a capture and -o FILE",
			options->files_count, options->output == NULL ? " and no -o" : "");
	enum pipeline_exit code = command_check_output(
		command, options->files, options->files_count, "-o", options->output);
	if (code == PIPELINE_EXIT_OK)
		code = check_side_file(command, options);
	if (code == PIPELINE_EXIT_OK)
		code = command_trace_open_shown(
			command, options, options->files[0], &progress, &packets, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	int error = infer_export_create(&export, &options->infer_export, options->output, message);
	if (error == 0)
		code = export_file(command, options, packets, export);
	progress_end(&progress.line);
	traces_packets_destroy(packets);
	if (error != 0)
		return command_error(command,
			error == -EINVAL ? PIPELINE_EXIT_USAGE : PIPELINE_EXIT_RUN, "%s", message);
	return code != PIPELINE_EXIT_OK
		       ? code
		       : command_trace_tell_damage(command, options->files[0], &report);
}
