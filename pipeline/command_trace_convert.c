/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace convert. */
#include "pipeline/command_trace.h"

void command_convert_load_options(
	struct traces_load_options *load, const struct options_convert *convert)
{
	traces_load_options_defaults(load);
	load->packets_max = convert->packets_max;
	load->input = convert->from;
	load->made_start_ns = convert->start_ns;
	load->made_packets_per_s = convert->packets_per_s;
	load->made_ip_bytes = convert->ip_bytes;
}

void command_convert_writer_options(struct traces_writer_options *writer, const char *path,
	const struct options_convert *convert, bool nanoseconds)
{
	static const enum traces_format formats[] = {
		[OPTIONS_TO_PCAP_US] = TRACES_FORMAT_PCAP_US,
		[OPTIONS_TO_PCAP_NS] = TRACES_FORMAT_PCAP_NS,
		[OPTIONS_TO_PCAPNG] = TRACES_FORMAT_PCAPNG,
		[OPTIONS_TO_IPSUM] = TRACES_FORMAT_IPSUM,
		[OPTIONS_TO_IPSUM_BINARY] = TRACES_FORMAT_IPSUM_BINARY,
		[OPTIONS_TO_TUPLES] = TRACES_FORMAT_TUPLES,
	};
	traces_writer_options_defaults(writer, path, nanoseconds);
	if (convert->to == OPTIONS_TO_PCAP)
		writer->format = nanoseconds ? TRACES_FORMAT_PCAP_NS : TRACES_FORMAT_PCAP_US;
	else if (convert->to != OPTIONS_TO_AUTO)
		writer->format = formats[convert->to];
	writer->snaplen = convert->snaplen;
	writer->fields = convert->fields;
}

static enum pipeline_exit convert(struct command *command, const struct options *options,
	struct traces_packets *packets, const struct traces_load_report *report)
{
	struct traces_writer_options writer;
	/* Nanoseconds are known once packets were read: a pcap file's header tells. */
	command_convert_writer_options(&writer, options->files[1], &options->convert,
		options->nanoseconds || report->nanoseconds);
	enum pipeline_exit code =
		command_trace_write_as(command, packets, options->files[1], &writer);
	if (code != PIPELINE_EXIT_OK)
		return code;
	command_trace_tell_changes(command, options->files[0], report);
	return command_trace_tell_damage(command, options->files[0], report);
}

enum pipeline_exit command_trace_convert(struct command *command, struct options *options)
{
	struct traces_load_options load;
	struct traces_load_report report;
	struct traces_packets *packets;
	if (options->files_count != 2)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace convert: got %zu files, expected one to read and one to write",
			options->files_count);
	enum pipeline_exit code = command_check_output(
		command, options->files, 1, "trace convert", options->files[1]);
	if (code != PIPELINE_EXIT_OK)
		return code;
	command_convert_load_options(&load, &options->convert);
	code = command_trace_open_as(command, options->files[0], &load, &packets, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	code = convert(command, options, packets, &report);
	traces_packets_destroy(packets);
	return code;
}
