/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace convert. */
#include "pipeline/command_trace.h"

enum pipeline_exit command_trace_convert(struct command *command, struct options *options)
{
	struct traces_load_report report;
	struct traces_packets *packets;
	uint32_t snaplen = options->snaplen == 0 ? TRACES_RECORD_BYTES_MAX : options->snaplen;
	if (options->files_count != 2)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace convert: got %zu files, expected one to read and one to write",
			options->files_count);
	enum pipeline_exit code = command_check_output(
		command, options->files, 1, "trace convert", options->files[1]);
	if (code != PIPELINE_EXIT_OK)
		return code;
	code = command_trace_open(
		command, options->files[0], options->convert_packets, &packets, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	/* Nanoseconds are known once packets were read: a pcap file's header tells. */
	code = command_trace_write(command, packets, options->files[1],
		options->nanoseconds || report.nanoseconds, snaplen);
	traces_packets_destroy(packets);
	if (code != PIPELINE_EXIT_OK)
		return code;
	return command_trace_tell_damage(command, options->files[0], &report);
}
