/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace gen. */
#include "pipeline/command_trace.h"

#include <errno.h>

enum {
	ETHERNET_OVERHEAD_BYTES = 24, /* preamble, checksum, gap: on the wire, not in a frame */
	TRACE_GEN_BATCH_PACKETS = 65536,
	PACKETS_DEFAULT = 1000000,
};

/* Options that one kind of traffic knows and the other does not. */
static const char *const plain_only[] = { "run-length", "order", "frame", "tcp", "ip6" };
static const char *const preset_only[] = { "new-flows", "ways", "link", "vlans", "cold",
	"ip6-share", "unanswered", "retransmitted", "reordered", "fragmented", "icmp-errors" };

static enum pipeline_exit check_given(struct command *command, const struct options *options,
	const char *const *names, size_t count, const char *expected)
{
	for (size_t i = 0; i < count; i++)
		if (options_given(options, names[i]))
			return command_error(command, PIPELINE_EXIT_USAGE,
				"trace gen: got --%s, expected it %s --preset", names[i], expected);
	return PIPELINE_EXIT_OK;
}

/* ---- by a model ---- */

static enum pipeline_exit open_preset(
	struct command *command, struct options *options, struct traces_packets **packets)
{
	char message[TRACES_MESSAGE_SIZE] = "";
	struct traces_generate_options *generate = &options->generate;
	generate->preset = (enum traces_preset)(options->gen_preset - 1);
	generate->packets = options->synth.packets;
	generate->flows = options->synth.flows;
	generate->duration_ns = options->gen_duration_ns;
	generate->packets_per_s = options->synth.packets_per_s;
	generate->seed = options->synth.seed;
	generate->microseconds = options->microseconds;
	if (options->rate_bits_per_s != 0)
		generate->bits_per_s = options->rate_bits_per_s;
	if (generate->packets == 0 && generate->flows == 0 && generate->duration_ns == 0)
		generate->packets = PACKETS_DEFAULT;
	int error = traces_packets_generate(packets, generate, message);
	if (error == -EINVAL)
		return command_error(command, PIPELINE_EXIT_USAGE, "trace gen: %s", message);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "trace gen: %s", strerror(-error));
	return PIPELINE_EXIT_OK;
}

static enum pipeline_exit write_preset(struct command *command, struct options *options)
{
	struct traces_packets *packets;
	enum pipeline_exit code =
		check_given(command, options, plain_only, BASE_ARRAY_COUNT(plain_only), "without");
	if (code == PIPELINE_EXIT_OK)
		code = open_preset(command, options, &packets);
	if (code != PIPELINE_EXIT_OK)
		return code;
	/* Packets of a burst are less than a microsecond apart. */
	code = command_trace_write(command, packets, options->files[0], !options->microseconds,
		TRACES_RECORD_BYTES_MAX);
	traces_packets_destroy(packets);
	return code;
}

/* ---- with a chosen order ---- */

/* Packets, their rate, and whether timestamps need nanoseconds. */
static int plan_times(struct options *options, bool *nanoseconds)
{
	struct traces_synth_options *synth = &options->synth, defaults;
	traces_synth_options_defaults(&defaults);
	if (options->rate_bits_per_s != 0) {
		uint64_t frame_bits = 8 * ((uint64_t)synth->frame_bytes + ETHERNET_OVERHEAD_BYTES);
		synth->packets_per_s = options->rate_bits_per_s / frame_bits;
		if (synth->packets_per_s == 0)
			return -EINVAL;
	}
	if (synth->flows == 0)
		synth->flows = defaults.flows;
	if (synth->packets_per_s == 0)
		synth->packets_per_s = defaults.packets_per_s;
	if (synth->packets == 0 && options->gen_duration_ns != 0)
		synth->packets = (uint64_t)((double)synth->packets_per_s *
					    (double)options->gen_duration_ns / 1e9);
	else if (synth->packets == 0)
		synth->packets = PACKETS_DEFAULT;
	*nanoseconds = options->nanoseconds ||
		       (1000000 % synth->packets_per_s != 0 && !options->microseconds);
	return 0;
}

static enum pipeline_exit write_plain(struct command *command, struct options *options)
{
	char message[TRACES_MESSAGE_SIZE] = "";
	struct traces_trace *trace;
	bool nanoseconds;
	enum pipeline_exit code =
		check_given(command, options, preset_only, BASE_ARRAY_COUNT(preset_only), "with");
	if (code != PIPELINE_EXIT_OK)
		return code;
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
	code = PIPELINE_EXIT_RUN;
	if (error == 0)
		code = command_trace_write(command, packets, options->files[0], nanoseconds,
			options->generate.snaplen == 0 ? TRACES_RECORD_BYTES_MAX
						       : options->generate.snaplen);
	else
		command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	return code;
}

enum pipeline_exit command_trace_gen(struct command *command, struct options *options)
{
	if (options->files_count != 1)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace gen: got %zu files, expected one to write", options->files_count);
	if (options->nanoseconds && options->microseconds)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace gen: got --ns and --us, expected one of them");
	if (options->synth.packets != 0 && options->gen_duration_ns != 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace gen: got --packets and --duration, expected one of them");
	if (options->gen_preset != 0)
		return write_preset(command, options);
	return write_plain(command, options);
}
