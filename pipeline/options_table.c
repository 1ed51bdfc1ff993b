/* SPDX-License-Identifier: BSD-2-Clause */
/* The one table of options. Order here is the order of the help text; the rows of trace commands
 * stand in options_table_trace.c. */
#include "pipeline/options_private.h"

#define RUNS (OPTIONS_OF(OPTIONS_REPLAY) | OPTIONS_OF(OPTIONS_COMPARE))
#define BENCHES                                                                                    \
	(OPTIONS_OF(OPTIONS_BENCH_LB) | OPTIONS_OF(OPTIONS_BENCH_DELETION) |                       \
		OPTIONS_OF(OPTIONS_BENCH_SHARING) | OPTIONS_OF(OPTIONS_BENCH_TABLES))
#define MODELS                                                                                     \
	(OPTIONS_OF(OPTIONS_INFER_VERIFY) | OPTIONS_OF(OPTIONS_INFER_BENCH) |                      \
		OPTIONS_OF(OPTIONS_INFER_PROBE))
#define EVERY       ((1u << OPTIONS_COMMANDS_COUNT) - 1)
#define REFRAMER(f) offsetof(struct reframer_config, f)
#define TIMEOUT(s)  ((s) * sizeof(uint64_t))

static const struct options_row reframer_items[] = {
	{ "delay", "T", "longest time a packet is held", OPTIONS_KIND_TIME,
		.offset = REFRAMER(delay_ns), .high = OPTIONS_YEAR_NS },
	{ "run", "N", "packets of one flow that are let go together", OPTIONS_KIND_COUNT32,
		.offset = REFRAMER(run_packets_max), .low = 1, .high = BASE_BURST_MAX },
	{ "held", "N", "packets held at a time", OPTIONS_KIND_COUNT32,
		.offset = REFRAMER(held_packets_max), .low = 1, .high = 1 << 20 },
	{ "flows", "N", "flows held at a time", OPTIONS_KIND_COUNT32,
		.offset = REFRAMER(held_flows_max), .low = 1, .high = 1 << 20 },
	{ "short", "T", "a delay of their own for pure ACKs and FINs", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_short },
	{ "bulk", "T", "a delay of their own for packets of --bulk", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_bulk },
	{ "bypass", "LIST", "what is never held: none or syn+rst+first", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_bypass, .otherwise = "syn+rst+first" },
	{ "seen", "N", "flows whose first packet is remembered", OPTIONS_KIND_COUNT32,
		.offset = REFRAMER(seen_flows), .low = 1, .high = 1 << 28 },
};

static_assert(
	offsetof(struct conntrack_config, tcp_unacknowledged_ns) ==
		offsetof(struct conntrack_config, timeout_ns) + TIMEOUT(CONNTRACK_STATES_COUNT),
	"tcp_unacknowledged stands behind the states' timeouts");
static const struct options_row timeout_items[] = {
	{ "tcp_syn_sent", "T", "SYN seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_SYN_SENT), .high = OPTIONS_YEAR_NS },
	{ "tcp_syn_sent2", "T", "SYN seen from both sides", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_SYN_SENT2), .high = OPTIONS_YEAR_NS },
	{ "tcp_syn_recv", "T", "SYN and SYN-ACK seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_SYN_RECV), .high = OPTIONS_YEAR_NS },
	{ "tcp_established", "T", "open", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_ESTABLISHED), .high = OPTIONS_YEAR_NS },
	{ "tcp_fin_wait", "T", "one side has sent FIN", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_FIN_WAIT), .high = OPTIONS_YEAR_NS },
	{ "tcp_close_wait", "T", "FIN acknowledged", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_CLOSE_WAIT), .high = OPTIONS_YEAR_NS },
	{ "tcp_last_ack", "T", "both sides have sent FIN", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_LAST_ACK), .high = OPTIONS_YEAR_NS },
	{ "tcp_time_wait", "T", "closed in order", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_TIME_WAIT), .high = OPTIONS_YEAR_NS },
	{ "tcp_close", "T", "closed by RST", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_TCP_CLOSE), .high = OPTIONS_YEAR_NS },
	{ "tcp_unacknowledged", "T", "bound on tcp_established without an answer",
		OPTIONS_KIND_TIME, .offset = TIMEOUT(CONNTRACK_STATES_COUNT),
		.high = OPTIONS_YEAR_NS },
	{ "udp_unreplied", "T", "one direction seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_UDP_UNREPLIED), .high = OPTIONS_YEAR_NS },
	{ "udp_replied", "T", "both directions seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_UDP_REPLIED), .high = OPTIONS_YEAR_NS },
	{ "udp_stream", "T", "both directions seen, and active for more than 2 s",
		OPTIONS_KIND_TIME, .offset = TIMEOUT(CONNTRACK_STATE_UDP_STREAM),
		.high = OPTIONS_YEAR_NS },
	{ "icmp", "T", "ICMP and ICMPv6 queries", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_ICMP), .high = OPTIONS_YEAR_NS },
	{ "gre_unreplied", "T", "one direction of GRE seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_GRE_UNREPLIED), .high = OPTIONS_YEAR_NS },
	{ "gre_replied", "T", "both directions of GRE seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_GRE_REPLIED), .high = OPTIONS_YEAR_NS },
	{ "sctp_closed", "T", "INIT, ABORT or SHUTDOWN COMPLETE seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_CLOSED), .high = OPTIONS_YEAR_NS },
	{ "sctp_cookie_wait", "T", "INIT ACK seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_COOKIE_WAIT), .high = OPTIONS_YEAR_NS },
	{ "sctp_cookie_echoed", "T", "COOKIE ECHO seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_COOKIE_ECHOED), .high = OPTIONS_YEAR_NS },
	{ "sctp_established", "T", "COOKIE ACK seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_ESTABLISHED), .high = OPTIONS_YEAR_NS },
	{ "sctp_shutdown_sent", "T", "SHUTDOWN of the opener seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_SHUTDOWN_SENT), .high = OPTIONS_YEAR_NS },
	{ "sctp_shutdown_recd", "T", "SHUTDOWN of its peer seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_SHUTDOWN_RECD), .high = OPTIONS_YEAR_NS },
	{ "sctp_shutdown_ack_sent", "T", "SHUTDOWN ACK seen", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT),
		.high = OPTIONS_YEAR_NS },
	{ "sctp_heartbeat_sent", "T", "HEARTBEAT seen first", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_SCTP_HEARTBEAT_SENT), .high = OPTIONS_YEAR_NS },
	{ "generic", "T", "everything else", OPTIONS_KIND_TIME,
		.offset = TIMEOUT(CONNTRACK_STATE_GENERIC), .high = OPTIONS_YEAR_NS },
};

static const struct options_row run_rows[] = {
	{ "config", "FILE", "read options from a YAML file; the command line overrides it",
		OPTIONS_KIND_TEXT, .letter = 'c', .commands = RUNS,
		.offset = OPTIONS_FIELD(config_file) },
	{ "source", "SOURCE", "port:DEVICE receives from a DPDK device instead of captures",
		OPTIONS_KIND_CUSTOM, .commands = RUNS, .parse = options_parse_source },
	{ "concat", NULL, "play captures one after the other, not merged by time",
		OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.concatenate) },
	{ "stream", "WHEN", "read captures while they are played, not before: auto|on|off",
		OPTIONS_KIND_CHOICE, .commands = RUNS, .offset = OPTIONS_FIELD(config.stream),
		.choices = "auto|on|off" },
	{ "packets", "N", "play the first N packets only", OPTIONS_KIND_COUNT64, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.packets_max), .low = 1, .high = INT64_MAX },
	{ "loop", "N", "passes over the captures", OPTIONS_KIND_COUNT64, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.loops), .low = 1, .high = UINT32_MAX },
	{ "loop-shift", NULL, "every pass has addresses of its own", OPTIONS_KIND_SWITCH,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.loop_shift) },
	{ "overlay", "N", "play N copies together, with addresses of their own",
		OPTIONS_KIND_COUNT32, .commands = RUNS, .offset = OPTIONS_FIELD(config.overlay),
		.low = 1, .high = PIPELINE_OVERLAY_MAX },
	{ "overlay-shift", "T", "each copy starts T later than the one before", OPTIONS_KIND_TIME,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.overlay_shift_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "pad", NULL, "fill packets that the capture cut with zeros up to their wire length",
		OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.pad_to_wire) },
	{ "rx", "HOW", "packet buffers stay in cache or not: hot|cold", OPTIONS_KIND_CHOICE,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.rx), .choices = "hot|cold" },
	{ "rx-ring", "N", "packet buffers in rotation", OPTIONS_KIND_COUNT32, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.rx_ring), .low = 2, .high = 1 << 20 },
	{ "duration", "T", "stop a port source after T; 0 means on SIGINT", OPTIONS_KIND_TIME,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.duration_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "clock", "CLOCK", "time from the capture, or real time: virtual|wall",
		OPTIONS_KIND_CHOICE, .commands = RUNS, .offset = OPTIONS_FIELD(config.clock),
		.choices = "virtual|wall" },
	{ "speed", "X", "play X times as fast as captured", OPTIONS_KIND_FACTOR, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.speed), .high = 1000000000 },
	{ "max-gap", "T", "cut longer gaps in the capture; 0 means never", OPTIONS_KIND_TIME,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.max_gap_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "workers", "N", "worker threads", OPTIONS_KIND_COUNT32, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.workers), .low = 1, .high = PIPELINE_WORKERS_MAX },
	{ "burst", "N", "packets that go through the stages together", OPTIONS_KIND_COUNT32,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.burst), .low = 1,
		.high = BASE_BURST_MAX },
	{ "repeat", "N", "run N times; cost is the median", OPTIONS_KIND_COUNT32, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.repeats), .low = 1, .high = PIPELINE_REPEATS_MAX },
	{ "seed", "N", "of every random choice", OPTIONS_KIND_COUNT64, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.seed), .low = 0, .high = INT64_MAX },
	{ "ablate", "LIST", "turn off: prefetch,runs,dedup,burst", OPTIONS_KIND_SET,
		.commands = OPTIONS_OF(OPTIONS_REPLAY), .offset = OPTIONS_FIELD(config.ablations),
		.choices = "prefetch|runs|dedup|burst" },
	{ "ablations", "LIST", "compare also without each of prefetch,runs,dedup,burst",
		OPTIONS_KIND_SET, .commands = OPTIONS_OF(OPTIONS_COMPARE),
		.offset = OPTIONS_FIELD(compare_ablations),
		.choices = "prefetch|runs|dedup|burst" },
	{ "no-huge", NULL, "do without huge pages even when there are some", OPTIONS_KIND_SWITCH,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.no_huge) },
	{ "hash", "HASH", "of flow keys: crc32c|siphash", OPTIONS_KIND_CHOICE, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.parse.hash.kind), .choices = "crc32c|siphash" },
	{ "zone", "ZONE", "part of the flow key: none, vlan, or a number", OPTIONS_KIND_CUSTOM,
		.commands = RUNS, .parse = options_parse_zone, .otherwise = "none" },
	{ "inner", NULL, "key tunnels by their inner header", OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.parse.inner) },
	{ "verify-checksums", NULL, "count bad checksums; such packets are invalid",
		OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.parse.verify_checksums) },
	{ "keep-malformed", NULL, "forward packets that the parser refuses, untracked",
		OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.keep_malformed) },
	{ "reframer", "ITEMS", "regroup packets by flow: on, off, or delay=64us,run=128,...",
		OPTIONS_KIND_ITEMS, .commands = RUNS, .offset = OPTIONS_FIELD(config.reframer),
		.parse = options_parse_reframer, .items = reframer_items,
		.items_count = BASE_ARRAY_COUNT(reframer_items) },
	{ "bypass", "FILTER", "packets that the reframer never holds, as a pcap filter",
		OPTIONS_KIND_TEXT, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.bypass_filter) },
	{ "bulk", "FILTER", "packets that the reframer holds by bulk=T, as a pcap filter",
		OPTIONS_KIND_TEXT, .commands = RUNS, .offset = OPTIONS_FIELD(config.bulk_filter) },
	{ "conns", "N", "connections tracked by each worker", OPTIONS_KIND_COUNT32,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.conntrack.entries_max), .low = 1,
		.high = 1 << 28 },
	{ "table-size", "N", "the same as --conns", OPTIONS_KIND_COUNT32, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.entries_max), .low = 1, .high = 1 << 28 },
	{ "table", "NAME", "of connections, to compare with: see sheaf bench tables",
		OPTIONS_KIND_CUSTOM, .commands = RUNS, .parse = options_parse_table },
	{ "deletion", "NAME",
		"how idle connections leave: a strategy of sheaf bench deletion, and "
		"interval=T, budget=N, slots=N, hints=off behind it",
		OPTIONS_KIND_CUSTOM, .commands = RUNS, .parse = options_parse_deletion },
	{ "sharing", "NAME",
		"of connections between workers: shard|mutex|spinlock|bucket_lock|"
		"handover[,every=T]",
		OPTIONS_KIND_CUSTOM, .commands = RUNS, .parse = options_parse_sharing,
		.otherwise = "shard" },
	{ "timeout", "ITEMS", "idle time until a connection ends: STATE=T,...; 0 means never",
		OPTIONS_KIND_ITEMS, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.timeout_ns), .items = timeout_items,
		.items_count = BASE_ARRAY_COUNT(timeout_items) },
	{ "full", "POLICY", "new connections when the table is full: drop|pass|evict",
		OPTIONS_KIND_CHOICE, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.full_policy),
		.choices = "drop|pass|evict" },
	{ "half-open", "N", "half-open connections at a time; 0 means half of --conns",
		OPTIONS_KIND_COUNT32, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.half_open_max), .low = 0,
		.high = 1 << 28 },
	{ "drop-invalid", NULL, "drop packets that do not fit their connection's state",
		OPTIONS_KIND_SWITCH, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.drop_invalid) },
	{ "tcp-window", "HOW", "TCP sequence numbers: off|liberal|strict", OPTIONS_KIND_CHOICE,
		.commands = RUNS, .offset = OPTIONS_FIELD(config.conntrack.tcp_windows),
		.choices = "off|liberal|strict" },
	{ "no-pickup", NULL, "do not track connections that began before the capture",
		OPTIONS_KIND_SWITCH_OFF, .commands = RUNS,
		.offset = OPTIONS_FIELD(config.conntrack.tcp_pickup) },
	{ "infer", "ITEMS", "classify flows by a model: on, off, or model=FILE,depth=10,...",
		OPTIONS_KIND_ITEMS, .commands = RUNS, .offset = OPTIONS_FIELD(config.infer),
		.parse = options_parse_infer, .items = options_infer_items,
		.items_count = OPTIONS_INFER_ITEMS },
	{ "chain", "LIST", "functions in order: stats,router,firewall:rules=20000,nat,lb",
		OPTIONS_KIND_CHAIN, .commands = RUNS },
	{ "sink", "SINK", "null, pcap:FILE, pcap-us:FILE, pcapng:FILE, port:DEVICE",
		OPTIONS_KIND_CUSTOM, .commands = RUNS, .parse = options_parse_sink,
		.otherwise = "null" },
};

/* Rows that many commands share stand last. */
static const struct options_row common_rows[] = {
	{ "output", "FILE", "the page to write", OPTIONS_KIND_TEXT, .letter = 'o',
		.commands = OPTIONS_OF(OPTIONS_REPORT), .offset = OPTIONS_FIELD(output) },
	{ "counters", "HOW", "hardware counters, where the machine has them: on|off",
		OPTIONS_KIND_CUSTOM, .commands = RUNS | BENCHES, .parse = options_parse_counters },
	{ "json", "FILE", "write the results document; - is standard output", OPTIONS_KIND_TEXT,
		.commands = RUNS | BENCHES | MODELS | OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(json) },
	{ "quiet", NULL, "print no table and no progress", OPTIONS_KIND_SWITCH, .letter = 'q',
		.commands = RUNS | BENCHES | MODELS | OPTIONS_OF(OPTIONS_TRACE_INFO) |
			    OPTIONS_OF(OPTIONS_TRACE_ANONYMIZE) | OPTIONS_OF(OPTIONS_INFER_EXPORT),
		.offset = OPTIONS_FIELD(quiet) },
	{ "help", NULL, "show this help", OPTIONS_KIND_SWITCH, .letter = 'h', .commands = EVERY,
		.offset = OPTIONS_FIELD(help) },
};

const struct options_row *options_row_at(size_t index)
{
	size_t trace_count, transform_count, bench_count, gen_count, deletion_count, infer_count;
	size_t sharing_count;
	const struct options_row *gen_rows = options_gen_rows(&gen_count);
	const struct options_row *trace_rows = options_trace_rows(&trace_count);
	const struct options_row *transform_rows = options_transform_rows(&transform_count);
	const struct options_row *bench_rows = options_bench_rows(&bench_count);
	const struct options_row *deletion_rows = options_deletion_rows(&deletion_count);
	const struct options_row *sharing_rows = options_sharing_rows(&sharing_count);
	const struct options_row *infer_rows = options_infer_rows(&infer_count);
	const struct {
		const struct options_row *rows;
		size_t count;
	} parts[] = {
		{ run_rows, BASE_ARRAY_COUNT(run_rows) },
		{ gen_rows, gen_count },
		{ trace_rows, trace_count },
		{ transform_rows, transform_count },
		{ bench_rows, bench_count },
		{ deletion_rows, deletion_count },
		{ sharing_rows, sharing_count },
		{ infer_rows, infer_count },
		{ common_rows, BASE_ARRAY_COUNT(common_rows) },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(parts); i++) {
		if (index < parts[i].count)
			return &parts[i].rows[index];
		index -= parts[i].count;
	}
	return NULL;
}

const char *options_ablation_name(unsigned int index)
{
	static const char *const names[OPTIONS_ABLATIONS_COUNT] = { "prefetch", "runs", "dedup",
		"burst" };
	BASE_ASSERT(index < OPTIONS_ABLATIONS_COUNT);
	return names[index];
}
