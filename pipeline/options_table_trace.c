/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of the trace commands. */
#include "pipeline/options_private.h"

static const struct options_row trace_rows[] = {
	{ "idle-timeout", "T", "when a flow counts as over", OPTIONS_KIND_TIME,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(info.idle_timeout_ns), .low = 1, .high = OPTIONS_YEAR_NS },
	{ "inner", NULL, "key tunnels by their inner header", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO), .offset = OPTIONS_FIELD(info.inner) },
	{ "vlan-zone", NULL, "the VLAN is part of the flow key", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(info.vlan_zone) },
	{ "flows", "N", "distinct connections", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN), .offset = OPTIONS_FIELD(synth.flows),
		.low = 1, .high = UINT32_MAX },
	{ "packets", "N", "packets in all", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN), .offset = OPTIONS_FIELD(synth.packets),
		.low = 1, .high = UINT32_MAX },
	{ "run-length", "N", "consecutive packets of one flow", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN),
		.offset = OPTIONS_FIELD(synth.run_length), .low = 1, .high = UINT32_MAX },
	{ "order", "ORDER", "of flows: round-robin, uniform, zipf or zipf:EXPONENT",
		OPTIONS_KIND_CUSTOM, .commands = OPTIONS_OF(OPTIONS_TRACE_GEN),
		.parse = options_parse_order },
	{ "frame", "N", "bytes of a frame, without checksum", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN),
		.offset = OPTIONS_FIELD(synth.frame_bytes), .low = 64, .high = 65535 },
	{ "pps", "N", "packets per second of the timestamps", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN),
		.offset = OPTIONS_FIELD(synth.packets_per_s), .low = 1, .high = 1000000000 },
	{ "rate", "RATE", "the same as bits per second on Ethernet, such as 10Gb",
		OPTIONS_KIND_RATE, .commands = OPTIONS_OF(OPTIONS_TRACE_GEN),
		.offset = OPTIONS_FIELD(rate_bits_per_s), .low = 1,
		.high = UINT64_C(1000000000000) },
	{ "seed", "N", "of addresses and order", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN), .offset = OPTIONS_FIELD(synth.seed),
		.low = 0, .high = INT64_MAX },
	{ "tcp", NULL, "TCP, not UDP", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN), .offset = OPTIONS_FIELD(synth_tcp) },
	{ "ip6", NULL, "IPv6, not IPv4", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN), .offset = OPTIONS_FIELD(synth.ip6) },
	{ "packets", "N", "copy the first N packets only", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.offset = OPTIONS_FIELD(convert_packets) },
	{ "snaplen", "N", "cut packets to N captured bytes", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT), .offset = OPTIONS_FIELD(snaplen),
		.low = 1, .high = TRACES_RECORD_BYTES_MAX },
	{ "ns", NULL, "write nanoseconds", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN) | OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.offset = OPTIONS_FIELD(nanoseconds) },
};

const struct options_row *options_trace_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(trace_rows);
	return trace_rows;
}
