/* SPDX-License-Identifier: BSD-2-Clause */
/* What the trace commands share. */
#include "pipeline/command_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { PROGRESS_STEP_BYTES = 16 << 20 };

static enum pipeline_exit refuse_input(struct command *command, const char *path,
	const struct traces_load_report *report, int error)
{
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (report->message[0] != '\0')
		return command_error(command, PIPELINE_EXIT_INPUT, "%s", report->message);
	return command_error(command, PIPELINE_EXIT_INPUT, "%s: %s", path, strerror(-error));
}

static void show_reading(void *context, uint64_t done, uint64_t total)
{
	struct command_trace_progress *progress = context;
	if (done < progress->next_bytes)
		return;
	progress->next_bytes = done + PROGRESS_STEP_BYTES;
	progress_show(&progress->line, "reading", done, total);
}

enum pipeline_exit command_trace_open_shown(struct command *command, const struct options *options,
	const char *path, struct command_trace_progress *progress, struct traces_packets **packets,
	struct traces_load_report *report)
{
	bool shown = command->terminal && !options->quiet;
	*progress = (struct command_trace_progress){ .line.stream = shown ? command->err : NULL };
	struct traces_load_options load_options;
	traces_load_options_defaults(&load_options);
	load_options.stop = command->stop;
	load_options.progress = show_reading;
	load_options.progress_context = progress;
	int error = traces_packets_open(packets, path, &load_options, report);
	if (error == 0)
		return PIPELINE_EXIT_OK;
	progress_end(&progress->line);
	return refuse_input(command, path, report, error);
}

enum pipeline_exit command_trace_open_as(struct command *command, const char *path,
	const struct traces_load_options *options, struct traces_packets **packets,
	struct traces_load_report *report)
{
	struct traces_load_options watched = *options;
	watched.stop = command->stop;
	int error = traces_packets_open(packets, path, &watched, report);
	return error == 0 ? PIPELINE_EXIT_OK : refuse_input(command, path, report, error);
}

enum pipeline_exit command_trace_open(struct command *command, const char *path,
	uint64_t packets_max, struct traces_packets **packets, struct traces_load_report *report)
{
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.packets_max = packets_max;
	return command_trace_open_as(command, path, &options, packets, report);
}

/* Damage goes to the error stream, one line each; DAMAGED when there is any. */
enum pipeline_exit command_trace_tell_damage(
	struct command *command, const char *path, const struct traces_load_report *report)
{
	for (uint64_t i = 0; i < report->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		const struct traces_damage *damage = &report->damages[i];
		command_error(command, PIPELINE_EXIT_DAMAGED,
			"%s: damaged at packet %" PRIu64 ", byte %" PRIu64 ": %s", path,
			damage->packet, damage->offset, damage->reason);
	}
	if (report->skipped_oversize != 0)
		command_error(command, PIPELINE_EXIT_DAMAGED,
			"%s: skipped %" PRIu64 " oversized records", path,
			report->skipped_oversize);
	return report->damages_count == 0 ? PIPELINE_EXIT_OK : PIPELINE_EXIT_DAMAGED;
}

/* One line for each kind of thing that is not as the input had it. */
void command_trace_tell_changes(
	struct command *command, const char *path, const struct traces_load_report *report)
{
	if (strcmp(path, "-") == 0)
		path = "standard input";
	if (report->time_clamped != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " timestamps before 1970 or after 2262 set to the nearest",
			path, report->time_clamped);
	if (report->time_missing != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets without a time were given one", path,
			report->time_missing);
	if (report->packets_folded != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: lines that count for several packets gave one each: %" PRIu64
			" packets less",
			path, report->packets_folded);
	if (report->fields_ignored != 0)
		command_error(command, PIPELINE_EXIT_OK, "%s: %" PRIu64 " columns left out%s%s",
			path, report->fields_ignored,
			report->field_strange[0] != '\0' ? ", unknown " : "",
			report->field_strange);
}

const char *command_trace_output_name(const char *path)
{
	return strcmp(path, "-") == 0 ? "standard output" : path;
}

/* error: of the stream when failed_read, else of the writer, whose message it is. */
static enum pipeline_exit refuse_write(struct command *command, struct traces_packets *packets,
	const char *path, bool failed_read, const char *message, int error)
{
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (failed_read) {
		message = traces_packets_message(packets);
		return command_error(command, PIPELINE_EXIT_INPUT, "%s",
			message[0] != '\0' ? message : strerror(-error));
	}
	/* A link type or a time that the format cannot hold is the input's fault. */
	bool unfit = error == -EPROTONOSUPPORT || error == -ERANGE;
	return command_error(command, unfit ? PIPELINE_EXIT_INPUT : PIPELINE_EXIT_RUN, "%s: %s",
		command_trace_output_name(path), message[0] != '\0' ? message : strerror(-error));
}

static void tell_losses(
	struct command *command, const char *path, const struct traces_writer_losses *losses)
{
	if (losses->time_rounded != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " timestamps cut to microseconds",
			command_trace_output_name(path), losses->time_rounded);
	if (losses->left_out != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets without an IPv4 header left out",
			command_trace_output_name(path), losses->left_out);
}

enum pipeline_exit command_trace_write_as(struct command *command, struct traces_packets *packets,
	const char *path, const struct traces_writer_options *options)
{
	struct traces_writer *writer;
	struct traces_writer_losses losses = { 0 };
	char message[TRACES_MESSAGE_SIZE] = "";
	bool failed_read = false;
	struct traces_writer_options watched = *options;
	watched.stop = command->stop;
	int error = traces_writer_open(&writer, path, &watched);
	if (error != 0)
		return refuse_write(command, packets, path, false, message, error);
	error = traces_writer_pump(writer, packets, command->stop, &failed_read);
	snprintf(message, sizeof(message), "%s", traces_writer_message(writer));
	traces_writer_losses(writer, &losses);
	if (error == 0)
		error = traces_writer_close(writer);
	else
		traces_writer_abandon(writer);
	if (error != 0)
		return refuse_write(command, packets, path, failed_read, message, error);
	tell_losses(command, path, &losses);
	return PIPELINE_EXIT_OK;
}

enum pipeline_exit command_trace_write(struct command *command, struct traces_packets *packets,
	const char *path, bool nanoseconds, uint32_t snaplen)
{
	struct traces_writer_options options;
	traces_writer_options_defaults(&options, path, nanoseconds);
	options.snaplen = snaplen;
	return command_trace_write_as(command, packets, path, &options);
}
