/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace gen. */
#include "pipeline/command_trace.h"

#include <errno.h>

enum {
	ETHERNET_OVERHEAD_BYTES = 24, /* preamble, checksum, gap: on the wire, not in a frame */
	TRACE_GEN_BATCH_PACKETS = 65536,
};

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
	struct traces_packets *packets = NULL;
	error = traces_packets_of_trace(&packets, trace, TRACE_GEN_BATCH_PACKETS);
	enum pipeline_exit code = PIPELINE_EXIT_RUN;
	if (error == 0)
		code = command_trace_write(
			command, packets, options->files[0], nanoseconds, TRACES_RECORD_BYTES_MAX);
	else
		command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	return code;
}
