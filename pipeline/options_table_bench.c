/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of the bench commands. */
#include "pipeline/options_private.h"

#define TABLES OPTIONS_OF(OPTIONS_BENCH_TABLES)

static const struct options_row bench_rows[] = {
	{ "policies", "LIST", "to compare, by name", OPTIONS_KIND_SET,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.policies), .low = 1,
		.choices = "maglev|round-robin|least-connections|jet|stateless" },
	{ "trace", "FILE", "a capture's packets from clients; made traffic unless given",
		OPTIONS_KIND_TEXT, .commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.trace) },
	{ "schedule", "FILE", "YAML: when backends come, drain and go", OPTIONS_KIND_TEXT,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.schedule) },
	{ "backends", "N", "generated backends of each family", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.backends), .low = 1, .high = 512 },
	{ "flows", "N", "connections of made traffic", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.flows),
		.low = 1, .high = 1 << 24 },
	{ "packets", "N", "packets of made traffic, at least three per connection",
		OPTIONS_KIND_COUNT64, .commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.packets), .low = 1, .high = 1 << 28 },
	{ "duration", "T", "of made traffic", OPTIONS_KIND_TIME,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB),
		.offset = OPTIONS_FIELD(bench_lb.duration_ns), .low = 1000000,
		.high = OPTIONS_YEAR_NS },
	{ "flood", "X", "again with X SYNs of nobody per packet", OPTIONS_KIND_FACTOR,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.flood),
		.high = 100 },
	{ "conns", "N", "connections that the tracker can keep", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.conns),
		.low = 1, .high = 1 << 28 },
	{ "burst", "N", "packets that are worked on together", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.burst),
		.low = 1, .high = BASE_BURST_MAX },
	{ "repeat", "N", "timed passes; cost is the median", OPTIONS_KIND_COUNT32,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.repeats),
		.low = 1, .high = BENCH_LB_REPEATS_MAX },
	{ "seed", "N", "of traffic, flood and tables", OPTIONS_KIND_COUNT64,
		.commands = OPTIONS_OF(OPTIONS_BENCH_LB), .offset = OPTIONS_FIELD(bench_lb.seed),
		.low = 0, .high = INT64_MAX },
	{ "tables", "LIST", "to compare, by name", OPTIONS_KIND_CUSTOM, .commands = TABLES,
		.parse = options_parse_tables, .otherwise = "all" },
	{ "entries", "LIST", "places of a table, rounded up to a power of two", OPTIONS_KIND_CUSTOM,
		.commands = TABLES, .parse = options_parse_entries, .otherwise = "64Ki,1Mi" },
	{ "load", "LIST", "share of the places that is filled", OPTIONS_KIND_CUSTOM,
		.commands = TABLES, .parse = options_parse_loads, .otherwise = "0.5,0.8,0.95" },
	{ "hit-ratio", "LIST", "share of lookups whose key is there", OPTIONS_KIND_CUSTOM,
		.commands = TABLES, .parse = options_parse_hit_ratios, .otherwise = "1,0.5,0" },
	{ "order", "ORDER", "of hits: uniform|zipf", OPTIONS_KIND_CHOICE, .commands = TABLES,
		.offset = OPTIONS_FIELD(bench_tables.order), .choices = "uniform|zipf" },
	{ "burst", "N", "lookups that are made together", OPTIONS_KIND_COUNT32, .commands = TABLES,
		.offset = OPTIONS_FIELD(bench_tables.burst), .low = 1, .high = BASE_BURST_MAX },
	{ "repeat", "N", "rounds; cost is the median", OPTIONS_KIND_COUNT32, .commands = TABLES,
		.offset = OPTIONS_FIELD(bench_tables.repeats), .low = 1,
		.high = BENCH_TABLES_REPEATS_MAX },
	{ "seed", "N", "of keys, hashes and order", OPTIONS_KIND_COUNT64, .commands = TABLES,
		.offset = OPTIONS_FIELD(bench_tables.seed), .low = 0, .high = INT64_MAX },
	{ "no-huge", NULL, "do without explicit huge pages even when there are some",
		OPTIONS_KIND_SWITCH, .commands = TABLES,
		.offset = OPTIONS_FIELD(bench_tables.no_huge) },
};

const struct options_row *options_bench_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(bench_rows);
	return bench_rows;
}
