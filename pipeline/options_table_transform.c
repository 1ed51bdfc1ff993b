/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of the commands that make captures out of captures. */
#include "pipeline/options_private.h"

#define SCALE   OPTIONS_OF(OPTIONS_TRACE_SCALE)
#define SLICE   OPTIONS_OF(OPTIONS_TRACE_SLICE)
#define MERGE   OPTIONS_OF(OPTIONS_TRACE_MERGE)
#define FILTER  OPTIONS_OF(OPTIONS_TRACE_FILTER)
#define SHUFFLE OPTIONS_OF(OPTIONS_TRACE_SHUFFLE)
#define REGROUP OPTIONS_OF(OPTIONS_TRACE_REGROUP)
/* Those that say what they did to the traffic. */
#define TOLD (SCALE | SHUFFLE | REGROUP)

static const struct options_row transform_rows[] = {
	{ "overlay", "N", "lay N copies over each other, with addresses of their own",
		OPTIONS_KIND_COUNT32, .commands = SCALE,
		.offset = OPTIONS_FIELD(transform.scale.copies), .low = 1,
		.high = TRACES_COPIES_MAX },
	{ "overlay-shift", "T", "each copy starts T later than the one before", OPTIONS_KIND_TIME,
		.commands = SCALE, .offset = OPTIONS_FIELD(transform.scale.shift_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "slice", "T", "each copy is another part of the capture, T long", OPTIONS_KIND_TIME,
		.commands = SCALE, .offset = OPTIONS_FIELD(transform.scale.window_ns), .low = 1,
		.high = OPTIONS_YEAR_NS },
	{ "speed", "X", "X times as fast as captured", OPTIONS_KIND_FACTOR, .commands = SCALE,
		.offset = OPTIONS_FIELD(transform.scale.speed), .high = 1000000000 },
	{ "from", "TIME", "from TIME on, such as 1.5s, or @SECONDS since 1970", OPTIONS_KIND_CUSTOM,
		.commands = SLICE, .parse = options_parse_slice_from },
	{ "to", "TIME", "up to TIME, which is not kept", OPTIONS_KIND_CUSTOM, .commands = SLICE,
		.parse = options_parse_slice_to },
	{ "flow", "FLOW", "of one flow: ADDRESS:PORT-ADDRESS:PORT/PROTOCOL", OPTIONS_KIND_CUSTOM,
		.commands = SLICE, .parse = options_parse_slice_flow },
	{ "flows", "N", "of the first N flows", OPTIONS_KIND_COUNT32, .commands = SLICE,
		.offset = OPTIONS_FIELD(transform.slice.flows_max), .low = 1,
		.high = TRACES_SLICE_FLOWS_MAX },
	{ "skip", "N", "without the first N packets", OPTIONS_KIND_COUNT64, .commands = SLICE,
		.offset = OPTIONS_FIELD(transform.slice.packets_skip) },
	{ "packets", "N", "at most N packets", OPTIONS_KIND_COUNT64, .commands = SLICE,
		.offset = OPTIONS_FIELD(transform.slice.packets_max), .low = 1, .high = INT64_MAX },
	{ "output", "FILE", "the capture to write", OPTIONS_KIND_TEXT, .letter = 'o',
		.commands = MERGE, .offset = OPTIONS_FIELD(output) },
	{ "match", "EXPRESSION", "a pcap filter, as for tcpdump", OPTIONS_KIND_TEXT,
		.commands = FILTER, .offset = OPTIONS_FIELD(transform.expression) },
	{ "window", "N", "permute every N packets", OPTIONS_KIND_COUNT32, .commands = SHUFFLE,
		.offset = OPTIONS_FIELD(transform.shuffle.window_packets), .low = 1,
		.high = TRACES_SHUFFLE_PACKETS_MAX },
	{ "time", "T", "permute the packets of every T", OPTIONS_KIND_TIME, .commands = SHUFFLE,
		.offset = OPTIONS_FIELD(transform.shuffle.window_ns), .low = 1,
		.high = OPTIONS_YEAR_NS },
	{ "flow-order", NULL, "keep the order of packets inside their flow", OPTIONS_KIND_SWITCH,
		.commands = SHUFFLE, .offset = OPTIONS_FIELD(transform.shuffle.flow_order) },
	{ "seed", "N", "of the permutations", OPTIONS_KIND_COUNT64, .commands = SHUFFLE,
		.offset = OPTIONS_FIELD(transform.shuffle.seed), .low = 0, .high = INT64_MAX },
	{ "delay", "T", "longest time a packet is held", OPTIONS_KIND_TIME, .commands = REGROUP,
		.offset = OPTIONS_FIELD(transform.regroup.delay_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "run", "N", "packets of one flow that are let go together", OPTIONS_KIND_COUNT32,
		.commands = REGROUP, .offset = OPTIONS_FIELD(transform.regroup.run_packets),
		.low = 1, .high = UINT32_MAX },
	{ "held", "N", "packets held at a time", OPTIONS_KIND_COUNT32, .commands = REGROUP,
		.offset = OPTIONS_FIELD(transform.regroup.held_max), .low = 1,
		.high = TRACES_REGROUP_HELD_MAX },
	{ "keep-times", NULL, "packets keep their own timestamps", OPTIONS_KIND_SWITCH,
		.commands = SHUFFLE, .offset = OPTIONS_FIELD(transform.shuffle.keep_times) },
	{ "keep-times", NULL, "packets keep their own timestamps", OPTIONS_KIND_SWITCH,
		.commands = REGROUP, .offset = OPTIONS_FIELD(transform.regroup.keep_times) },
	{ "idle-timeout", "T", "when a flow counts as over", OPTIONS_KIND_TIME, .commands = TOLD,
		.offset = OPTIONS_FIELD(info.idle_timeout_ns), .low = 1, .high = OPTIONS_YEAR_NS },
	{ "flows-max", "N", "flows that are kept; figures are exact up to so many",
		OPTIONS_KIND_COUNT64, .commands = TOLD, .offset = OPTIONS_FIELD(info.flows_max),
		.low = 1, .high = TRACES_INFO_FLOWS_LIMIT },
	{ "ns", NULL, "write nanoseconds", OPTIONS_KIND_SWITCH,
		.commands = TOLD | SLICE | MERGE | FILTER, .offset = OPTIONS_FIELD(nanoseconds) },
	{ "json", "FILE", "write the results document; - is standard output", OPTIONS_KIND_TEXT,
		.commands = TOLD, .offset = OPTIONS_FIELD(json) },
	{ "quiet", NULL, "print no table", OPTIONS_KIND_SWITCH, .letter = 'q',
		.commands = TOLD | SLICE | MERGE | FILTER, .offset = OPTIONS_FIELD(quiet) },
};

const struct options_row *options_transform_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(transform_rows);
	return transform_rows;
}
