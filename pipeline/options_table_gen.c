/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of trace gen. */
#include "pipeline/options_private.h"

#define GEN OPTIONS_OF(OPTIONS_TRACE_GEN)

static const struct options_row gen_rows[] = {
	{ "preset", "PRESET", "traffic by a model: campus|backbone|scan|datacenter|worst-case",
		OPTIONS_KIND_CHOICE, .commands = GEN, .offset = OPTIONS_FIELD(gen.preset),
		.choices = "none|campus|backbone|scan|datacenter|worst-case" },
	{ "attack", "ATTACK", "on a table: syn-flood|one-tick|one-bucket|keep-alive|ever-new",
		OPTIONS_KIND_CHOICE, .commands = GEN, .offset = OPTIONS_FIELD(gen.attack),
		.choices = "none|syn-flood|one-tick|one-bucket|keep-alive|ever-new" },
	{ "flows", "N", "distinct connections", OPTIONS_KIND_COUNT64, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.flows), .low = 1, .high = UINT32_MAX },
	{ "packets", "N", "packets in all", OPTIONS_KIND_COUNT64, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.packets), .low = 1,
		.high = UINT64_C(1000000000000000) },
	{ "duration", "T", "length of the trace, instead of packets", OPTIONS_KIND_TIME,
		.commands = GEN, .offset = OPTIONS_FIELD(gen.duration_ns), .low = 1,
		.high = OPTIONS_YEAR_NS },
	{ "pps", "N", "packets per second of the timestamps", OPTIONS_KIND_COUNT64, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.packets_per_s), .low = 1, .high = 1000000000 },
	{ "rate", "RATE", "the same as bits per second on Ethernet, such as 10Gb",
		OPTIONS_KIND_RATE, .commands = GEN, .offset = OPTIONS_FIELD(gen.bits_per_s),
		.low = 1, .high = UINT64_C(1000000000000) },
	{ "seed", "N", "of addresses and order", OPTIONS_KIND_COUNT64, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.seed), .low = 0, .high = INT64_MAX },
	{ "snaplen", "N", "cut packets to N captured bytes", OPTIONS_KIND_COUNT32, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.snaplen), .low = 1, .high = TRACES_RECORD_BYTES_MAX },
	{ "us", NULL, "write microseconds", OPTIONS_KIND_SWITCH, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.microseconds) },

	/* In a chosen order. */
	{ "run-length", "N", "consecutive packets of one flow", OPTIONS_KIND_COUNT64,
		.commands = GEN, .offset = OPTIONS_FIELD(synth.run_length), .low = 1,
		.high = UINT32_MAX },
	{ "slf", "X", "mean run length, instead, such as 1.5", OPTIONS_KIND_FACTOR, .commands = GEN,
		.offset = OPTIONS_FIELD(synth.slf), .high = 1000000000 },
	{ "order", "ORDER", "of flows: round-robin, uniform, zipf[:EXPONENT] or lru:LAW=N",
		OPTIONS_KIND_CUSTOM, .commands = GEN, .parse = options_parse_order,
		.otherwise = "round-robin" },
	{ "flow-packets", "N", "packets of a flow before a new one takes its place",
		OPTIONS_KIND_COUNT64, .commands = GEN, .offset = OPTIONS_FIELD(synth.flow_packets),
		.low = 1, .high = INT32_MAX },
	{ "frame", "N", "bytes of a frame, without checksum", OPTIONS_KIND_COUNT32, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.frame_bytes), .low = 64, .high = 65535 },
	{ "tcp", NULL, "TCP, not UDP", OPTIONS_KIND_SWITCH, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.tcp) },
	{ "ip6", NULL, "IPv6, not IPv4", OPTIONS_KIND_SWITCH, .commands = GEN,
		.offset = OPTIONS_FIELD(synth.ip6) },

	/* By a model. */
	{ "new-flows", "N", "of a preset: flows that begin per second", OPTIONS_KIND_COUNT64,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.new_flows_per_s), .low = 1,
		.high = 1000000000 },
	{ "ways", "WAYS", "of a preset: directions that are seen: preset|one|both",
		OPTIONS_KIND_CHOICE, .commands = GEN, .offset = OPTIONS_FIELD(generate.ways),
		.choices = "preset|one|both" },
	{ "link", "LINK", "of a preset: what packets begin with: preset|ethernet|raw",
		OPTIONS_KIND_CHOICE, .commands = GEN, .offset = OPTIONS_FIELD(generate.frames),
		.choices = "preset|ethernet|raw" },
	{ "vlans", "N", "of a preset: spread flows over so many VLANs; 0 is none",
		OPTIONS_KIND_COUNT16, .commands = GEN, .offset = OPTIONS_FIELD(generate.vlans),
		.low = 0, .high = 4094 },
	{ "cold", NULL, "of a preset: begin without flows in progress", OPTIONS_KIND_SWITCH,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.cold) },
	{ "ip6-share", "SHARE", "of a preset: flows over IPv6", OPTIONS_KIND_SHARE, .commands = GEN,
		.offset = OPTIONS_FIELD(generate.ip6_share) },
	{ "unanswered", "SHARE", "of a preset: short flows without an answer", OPTIONS_KIND_SHARE,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.unanswered_share) },
	{ "retransmitted", "SHARE", "of a preset: TCP data sent twice", OPTIONS_KIND_SHARE,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.retransmit_share) },
	{ "reordered", "SHARE", "of a preset: TCP data overtaken", OPTIONS_KIND_SHARE,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.reorder_share) },
	{ "fragmented", "SHARE", "of a preset: UDP data in two fragments", OPTIONS_KIND_SHARE,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.fragment_share) },
	{ "icmp-errors", "SHARE", "of a preset: UDP requests refused by ICMP", OPTIONS_KIND_SHARE,
		.commands = GEN, .offset = OPTIONS_FIELD(generate.icmp_error_share) },

	/* Attacks. */
	{ "period", "T", "of an attack: time between a flow's packets", OPTIONS_KIND_TIME,
		.commands = GEN, .offset = OPTIONS_FIELD(gen.period_ns), .low = 1,
		.high = OPTIONS_YEAR_NS },
	{ "hash", "HASH", "of one-bucket: the run's, crc32c|siphash", OPTIONS_KIND_CHOICE,
		.commands = GEN, .offset = OPTIONS_FIELD(gen.hash), .choices = "crc32c|siphash" },
	{ "run-seed", "N", "of one-bucket: the run's seed", OPTIONS_KIND_COUNT64, .commands = GEN,
		.offset = OPTIONS_FIELD(gen.run_seed), .low = 0, .high = INT64_MAX },
	{ "conns", "N", "of one-bucket: connections that the run tracks", OPTIONS_KIND_COUNT32,
		.commands = GEN, .offset = OPTIONS_FIELD(gen.conns), .low = 1,
		.high = UINT32_C(1) << 28 },
};

const struct options_row *options_gen_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(gen_rows);
	return gen_rows;
}
