/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace info, gen, convert. */
#include "pipeline/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ETHERNET_OVERHEAD_BYTES = 24 }; /* preamble, checksum, gap: on the wire, not in a frame */

static void show_load(void *context, uint64_t done, uint64_t total)
{
	progress_show(context, "loading", done, total);
}

static enum pipeline_exit load(struct command *command, const struct options *options,
	const char *path, uint64_t packets_max, struct traces_trace **trace,
	struct traces_load_report *report)
{
	struct progress progress = {
		.stream = command->terminal && !options->quiet ? command->err : NULL,
	};
	struct traces_load_options load_options;
	traces_load_options_defaults(&load_options);
	load_options.packets_max = packets_max;
	load_options.progress = show_load;
	load_options.progress_context = &progress;
	int error = traces_trace_load(trace, &path, 1, &load_options, report);
	progress_end(&progress);
	if (error == 0)
		return PIPELINE_EXIT_OK;
	if (report->message[0] != '\0')
		return command_error(command, PIPELINE_EXIT_INPUT, "%s", report->message);
	return command_error(command, PIPELINE_EXIT_INPUT, "%s: %s", path, strerror(-error));
}

/* Damage goes to the error stream, one line each; DAMAGED when there is any. */
static enum pipeline_exit tell_damage(
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

static enum pipeline_exit info_file(struct command *command, struct options *options,
	const char *path, struct traces_info *info, struct results_builder *builder, json_t *files)
{
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	FILE *stream = command_table_stream(command, options);
	enum pipeline_exit code = load(command, options, path, 0, &trace, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	int error = traces_info_compute(info, trace, &options->info);
	traces_trace_destroy(trace);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(-error));
	if (stream != NULL && options->files_count > 1)
		fprintf(stream, "%s%s\n", path == options->files[0] ? "" : "\n", path);
	if (stream != NULL)
		traces_info_print(info, stream);
	results_append(builder, files, results_trace_info(path, &report, info));
	return tell_damage(command, path, &report);
}

enum pipeline_exit command_trace_info(struct command *command, struct options *options)
{
	enum pipeline_exit worst = PIPELINE_EXIT_OK;
	struct results_builder builder = { .failed = false };
	if (options->files_count == 0)
		return command_error(
			command, PIPELINE_EXIT_USAGE, "trace info: got no file, expected captures");
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

/* 0 or -errno. The writer tells a pcap file's link types apart. */
static int write_records(struct traces_writer *writer, const struct traces_trace *trace,
	const atomic_bool *stop, uint32_t snaplen)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	int error = 0;
	for (size_t i = 0; i < count && error == 0; i++) {
		const struct traces_record *record = &records[i];
		uint32_t cap_len = record->cap_len < snaplen ? record->cap_len : snaplen;
		error = traces_writer_write(writer, record->time_ns, record->link,
			bytes + record->offset, cap_len, record->wire_len);
		if ((i & 0xffff) == 0 && atomic_load_explicit(stop, memory_order_relaxed))
			error = -EINTR;
	}
	return error;
}

static enum pipeline_exit write_trace(struct command *command, const struct traces_trace *trace,
	const char *path, bool nanoseconds, uint32_t snaplen)
{
	struct traces_writer *writer;
	enum traces_format format = traces_format_from_path(path, nanoseconds);
	int error = traces_writer_create(&writer, path, format, snaplen);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(-error));
	error = write_records(writer, trace, command->stop, snaplen);
	int closed = traces_writer_close(writer);
	if (error == 0)
		error = closed;
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (error == -EPROTONOSUPPORT)
		return command_error(command, PIPELINE_EXIT_RUN,
			"%s: got packets of several link types, expected one: write pcapng", path);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(-error));
	return PIPELINE_EXIT_OK;
}

/* Packets per second from --rate, and whether timestamps need nanoseconds. */
static int plan_times(struct options *options, bool *nanoseconds)
{
	struct traces_synth_options *synth = &options->synth;
	if (options->rate_bits_per_s != 0) {
		uint64_t frame_bits = 8 * ((uint64_t)synth->frame_bytes + ETHERNET_OVERHEAD_BYTES);
		synth->packets_per_s = options->rate_bits_per_s / frame_bits;
		if (synth->packets_per_s == 0)
			return -EINVAL;
	}
	*nanoseconds = options->nanoseconds || 1000000 % synth->packets_per_s != 0;
	return 0;
}

enum pipeline_exit command_trace_gen(struct command *command, struct options *options)
{
	char message[TRACES_MESSAGE_SIZE] = "";
	struct traces_trace *trace;
	bool nanoseconds;
	if (options->files_count != 1)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace gen: got %zu files, expected one to write", options->files_count);
	if (options->synth_tcp)
		options->synth.protocol = BASE_PROTOCOL_TCP;
	if (plan_times(options, &nanoseconds) != 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--rate: got less than a packet per second, expected more");
	int error = traces_synth_generate(&trace, &options->synth, message);
	if (error == -EINVAL)
		return command_error(command, PIPELINE_EXIT_USAGE, "trace gen: %s", message);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "trace gen: %s", strerror(-error));
	enum pipeline_exit code = write_trace(
		command, trace, options->files[0], nanoseconds, TRACES_RECORD_BYTES_MAX);
	traces_trace_destroy(trace);
	return code;
}

enum pipeline_exit command_trace_convert(struct command *command, struct options *options)
{
	struct traces_load_report report;
	struct traces_trace *trace;
	uint32_t snaplen = options->snaplen == 0 ? TRACES_RECORD_BYTES_MAX : options->snaplen;
	if (options->files_count != 2)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace convert: got %zu files, expected one to read and one to write",
			options->files_count);
	enum pipeline_exit code = load(
		command, options, options->files[0], options->convert_packets, &trace, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	code = write_trace(command, trace, options->files[1],
		options->nanoseconds || report.nanoseconds, snaplen);
	traces_trace_destroy(trace);
	if (code != PIPELINE_EXIT_OK)
		return code;
	return tell_damage(command, options->files[0], &report);
}
