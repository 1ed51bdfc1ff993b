/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_lb.h"

#include "base/cycles.h"
#include "base/rng.h"
#include "pipeline/bench_clock.h"
#include "pipeline/bench_judge.h"
#include "pipeline/bench_traffic.h"
#include "pipeline/lb_schedule.h"
#include "pipeline/memory.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	FRAME_ROOM = 2048,
	LOOKS_PER_PACKET = 4, /* of the timer wheel, as in a worker */
	FAMILY_BACKENDS_MAX = CHAIN_BACKENDS_MAX,
	STOP_CHECK_BURSTS = 1024,
};
static_assert((int)BENCH_LB_MESSAGE_SIZE >= (int)CHAIN_MESSAGE_SIZE, "one message for all");
static_assert((int)BENCH_LB_MESSAGE_SIZE >= (int)PIPELINE_MESSAGE_SIZE, "one message for all");
static_assert((int)BENCH_LB_MESSAGE_SIZE >= (int)TRACES_MESSAGE_SIZE, "one message for all");

/* One policy's path: what a worker has, without source and sink. */
struct world {
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker; /* NULL: the policy keeps nothing */
	struct chain *chain;
	struct base_burst burst;
	struct base_packet *packets; /* BASE_BURST_MAX */
	uint8_t *frames;             /* FRAME_ROOM each */
};

/* What every pass needs. */
struct bench {
	const struct bench_lb_options *options;
	struct bench_lb_result *result;
	const atomic_bool *stop;
	struct bench_traffic calm, flood;
	struct counters counters;
	struct counters_sum
		*counted; /* a pass counts into it, and is not timed; NULL: it is timed */
	double cycles[CHAIN_LB_POLICIES_COUNT][2][BENCH_LB_REPEATS_MAX];
};

void bench_lb_options_defaults(struct bench_lb_options *options)
{
	*options = (struct bench_lb_options){
		.policies = (1u << CHAIN_LB_POLICIES_COUNT) - 1,
		.backends = 16,
		.flows = 65536,
		.packets = 1 << 20,
		.duration_ns = UINT64_C(10000000000),
		.conns = 1 << 17,
		.burst = 64,
		.repeats = 3,
		.seed = 1,
	};
}

/* ---- the schedule ---- */

static void change(struct bench_lb_result *result, uint64_t at_ns, enum chain_lb_action action,
	const char *prefix, uint32_t number)
{
	struct chain_lb_change *next = &result->changes[result->changes_count++];
	next->at_ns = at_ns;
	next->action = action;
	snprintf(next->backend, sizeof(next->backend), "%s_%04u", prefix, number);
}

static void plan_default(struct bench_lb_result *result, uint32_t backends)
{
	static const char *const prefixes[] = { "ip4", "ip6" };
	uint64_t quarter_ns = result->duration_ns / 4;
	for (unsigned int step = 1; step <= 3 && backends >= step; step++) {
		for (unsigned int family = 0; family < 2; family++) {
			if (step == 1)
				change(result, quarter_ns, CHAIN_LB_DRAIN, prefixes[family], 1);
			else if (step == 2)
				change(result, 2 * quarter_ns, CHAIN_LB_REMOVE, prefixes[family],
					2);
			else
				change(result, 3 * quarter_ns, CHAIN_LB_ADD, prefixes[family],
					backends);
		}
	}
}

/* The schedule's word on generated backend `number` of a family at a time. */
static bool is_gone(
	const struct bench_lb_result *result, bool ip6, uint32_t number, uint64_t time_ns)
{
	char name[CHAIN_NAME_SIZE];
	bool gone = false;
	snprintf(name, sizeof(name), "%s_%04u", ip6 ? "ip6" : "ip4", number);
	for (uint32_t i = 0; i < result->changes_count; i++) {
		const struct chain_lb_change *at = &result->changes[i];
		if (strcmp(at->backend, name) == 0 && at->at_ns <= time_ns)
			gone = at->action == CHAIN_LB_REMOVE;
	}
	return gone;
}

/* ---- a world ---- */

static void destroy_world(struct world *world)
{
	conntrack_destroy(world->tracker);
	chain_destroy(world->chain);
	base_parser_destroy(world->parser);
	if (world->arena != NULL)
		base_arena_destroy(world->arena);
	free(world->packets);
	free(world->frames);
}

static int create_chain(struct world *world, const struct bench *bench, enum chain_lb_policy policy)
{
	struct chain_config config = { .functions_count = 1, .arena = world->arena };
	chain_function_config_defaults(&config.functions[0], CHAIN_LB);
	struct chain_lb_config *lb = &config.functions[0].lb;
	lb->policy = policy;
	lb->backends_count = bench->options->backends;
	lb->seed = bench->options->seed;
	lb->changes = bench->result->changes;
	lb->changes_count = bench->result->changes_count;
	return chain_create(&world->chain, &config, bench->result->message);
}

static int create_tracker(struct world *world, const struct bench *bench)
{
	struct conntrack_config config;
	conntrack_config_defaults(&config);
	config.entries_max = bench->options->conns;
	config.arena = world->arena;
	config.salt = bench->options->seed;
	config.user_bytes = chain_user_bytes(world->chain);
	config.on_remove = chain_on_remove;
	config.on_remove_context = world->chain;
	if (chain_filters_connections(world->chain)) {
		config.admit = chain_admit;
		config.admit_context = world->chain;
	}
	return conntrack_create(&world->tracker, &config);
}

static int create_world(struct world *world, const struct bench *bench, enum chain_lb_policy policy)
{
	struct base_parse_config parse;
	memset(world, 0, sizeof(*world));
	base_parse_config_defaults(&parse);
	world->packets = aligned_alloc(BASE_CACHE_LINE, BASE_BURST_MAX * sizeof(*world->packets));
	world->frames = aligned_alloc(BASE_CACHE_LINE, (size_t)BASE_BURST_MAX * FRAME_ROOM);
	if (world->packets == NULL || world->frames == NULL)
		return -ENOMEM;
	int error = base_arena_create(&world->arena, false);
	if (error == 0)
		error = base_parser_create(&world->parser, &parse);
	if (error == 0)
		error = create_chain(world, bench, policy);
	if (error == 0 && policy != CHAIN_LB_STATELESS)
		error = create_tracker(world, bench);
	if (error == 0 && world->tracker != NULL)
		chain_attach(world->chain, world->tracker);
	return error;
}

/* Not measured: what a source and a parser do. */
static void prepare(struct world *world, const struct traces_record *records, const uint8_t *bytes,
	uint16_t count)
{
	struct base_burst *burst = &world->burst;
	burst->drop_count = burst->run_count = 0;
	burst->count = count;
	for (uint16_t i = 0; i < count; i++) {
		struct base_packet *packet = &world->packets[i];
		uint8_t *frame = world->frames + (size_t)i * FRAME_ROOM;
		uint32_t cap_len =
			records[i].cap_len < FRAME_ROOM ? records[i].cap_len : FRAME_ROOM;
		base_packet_reset(packet);
		memcpy(frame, bytes + records[i].offset, cap_len);
		packet->data = frame;
		packet->time_ns = records[i].time_ns;
		packet->cap_len = cap_len;
		packet->wire_len = records[i].wire_len;
		packet->link = records[i].link;
		burst->packets[i] = packet;
	}
	base_parse_burst(world->parser, burst, false);
	base_burst_mark_runs(burst, false);
}

/* Measured. */
static uint64_t process(struct world *world)
{
	struct base_burst *burst = &world->burst;
	uint64_t now_ns = burst->packets[burst->count - 1]->time_ns;
	uint64_t start = base_cycles();
	if (world->tracker != NULL)
		conntrack_process_burst(world->tracker, burst);
	chain_function_process(world->chain, 0, burst, now_ns);
	if (world->tracker != NULL)
		conntrack_advance(world->tracker, now_ns, LOOKS_PER_PACKET * burst->count);
	return base_cycles() - start;
}

/* ---- passes ---- */

static bool stopped(const struct bench *bench)
{
	/* no partner: a hint */
	return bench->stop != NULL && atomic_load_explicit(bench->stop, memory_order_relaxed);
}

/* Counts connections by backend, for the imbalance. */
struct tally {
	struct bench_judge *judge;
	uint64_t connections[2][FAMILY_BACKENDS_MAX + 1];
	const struct bench *bench;
	const struct world *world;
	struct bench_lb_case *out;
	bool keeps_all;
};

/* Number of the generated backend that the packet now goes to; 0: none. */
static uint32_t backend_of(const struct base_packet *packet)
{
	const uint8_t *ip = packet->data + packet->l3_offset;
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	const uint8_t *at = ip6 ? ip + 24 : ip + 16;
	static const uint8_t prefix4[2] = { 198, 18 }, prefix6[4] = { 0x20, 0x01, 0x00, 0x02 };
	if (packet->l3_offset + (ip6 ? 40u : 20u) > packet->cap_len ||
		memcmp(at, ip6 ? prefix6 : prefix4, ip6 ? 4 : 2) != 0)
		return 0;
	const uint8_t *low = ip6 ? at + 14 : at + 2;
	return (uint32_t)low[0] << 8 | low[1];
}

static int judge_packet(struct tally *tally, const struct base_packet *packet)
{
	struct bench_lb_case *out = tally->out;
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	out->packets++;
	if (packet->drop_reason != BASE_DROP_NONE) {
		out->dropped_packets++;
		return 0;
	}
	uint32_t backend = backend_of(packet);
	if (backend == 0 || backend > FAMILY_BACKENDS_MAX) {
		out->passed_packets++;
		return 0;
	}
	uint32_t before = bench_judge_backend(tally->judge, packet);
	bool known = bench_judge_knows(tally->judge, packet);
	if (!known)
		tally->connections[ip6][backend]++;
	if (known && tally->keeps_all && packet->conn == BASE_CONN_NONE)
		out->untracked_packets++;
	bool gone = before != UINT32_MAX && before != backend &&
		    is_gone(tally->bench->result, ip6, before, packet->time_ns);
	return bench_judge_see(tally->judge, packet, backend, gone);
}

static double imbalance_of(const struct tally *tally)
{
	uint64_t most = 0, sum = 0, used = 0;
	for (uint32_t i = 1; i <= FAMILY_BACKENDS_MAX; i++) {
		uint64_t count = tally->connections[0][i];
		most = count > most ? count : most;
		sum += count;
		used += count != 0;
	}
	return sum == 0 ? 0 : (double)most * (double)used / (double)sum;
}

static void finish_case(struct tally *tally)
{
	struct bench_lb_case *out = tally->out;
	struct bench_verdict verdict = bench_judge_verdict(tally->judge);
	out->connections = verdict.connections;
	out->moved_packets = verdict.moved_packets;
	out->broken_connections = verdict.broken_connections;
	out->orphaned_connections = verdict.orphaned_connections;
	out->imbalance = imbalance_of(tally);
	if (tally->world->tracker == NULL)
		return;
	struct conntrack_stats stats;
	conntrack_stats(tally->world->tracker, &stats);
	out->inserted = stats.inserted;
	out->peak_live = stats.peak_live;
	out->insert_failures = stats.insert_failures;
	out->not_admitted = stats.not_admitted;
	out->state_bytes = (uint64_t)((double)stats.peak_live * stats.bytes_per_entry);
}

/* All packets once; tally NULL: timed only. *cycles: per packet. */
static int pass(struct bench *bench, const struct bench_traffic *traffic,
	enum chain_lb_policy policy, struct bench_lb_case *judged, double *cycles)
{
	struct world world;
	size_t count;
	uint64_t spent = 0;
	const struct traces_record *records = traces_trace_records(traffic->trace, &count);
	const uint8_t *bytes = traces_trace_bytes(traffic->trace);
	struct tally *tally = judged != NULL ? calloc(1, sizeof(*tally)) : NULL;
	int error = judged != NULL && tally == NULL ? -ENOMEM : create_world(&world, bench, policy);
	if (error == 0 && tally != NULL) {
		*tally = (struct tally){ .bench = bench, .world = &world, .out = judged };
		tally->keeps_all = policy != CHAIN_LB_JET && policy != CHAIN_LB_STATELESS;
		error = bench_judge_create(&tally->judge);
	}
	for (size_t at = 0; at < count && error == 0; at += bench->options->burst) {
		size_t left = count - at, burst = bench->options->burst;
		uint16_t taken = (uint16_t)(left < burst ? left : burst);
		prepare(&world, records + at, bytes, taken);
		if (bench->counted != NULL)
			counters_begin(&bench->counters);
		spent += process(&world);
		if (bench->counted != NULL)
			counters_end(&bench->counters, bench->counted, taken);
		for (uint16_t i = 0; tally != NULL && i < taken && error == 0; i++) {
			if (traffic->is_flood == NULL || traffic->is_flood[at + i] == 0)
				error = judge_packet(tally, &world.packets[i]);
		}
		if (at / burst % STOP_CHECK_BURSTS == 0 && stopped(bench))
			error = -EINTR;
	}
	if (error == 0 && tally != NULL)
		finish_case(tally);
	if (error == 0 && cycles != NULL)
		*cycles = count == 0 ? 0 : (double)spent / (double)count;
	if (tally != NULL)
		bench_judge_destroy(tally->judge);
	free(tally);
	destroy_world(&world);
	return error;
}

static int judge_all(struct bench *bench)
{
	struct bench_lb_result *result = bench->result;
	int error = 0;
	for (unsigned int policy = 0; policy < CHAIN_LB_POLICIES_COUNT && error == 0; policy++) {
		if ((bench->options->policies >> policy & 1) == 0)
			continue;
		struct bench_lb_row *row = &result->rows[result->rows_count++];
		row->policy = (enum chain_lb_policy)policy;
		error = pass(bench, &bench->calm, row->policy, &row->calm, NULL);
		if (error == 0 && bench->options->flood > 0)
			error = pass(bench, &bench->flood, row->policy, &row->flood, NULL);
	}
	return error;
}

/* Policies take turns, so that what drifts on the machine meets all of them. */
static int time_all(struct bench *bench)
{
	struct bench_lb_result *result = bench->result;
	int error = 0;
	for (uint32_t repeat = 0; repeat < bench->options->repeats; repeat++) {
		for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
			enum chain_lb_policy policy = result->rows[i].policy;
			error = pass(bench, &bench->calm, policy, NULL,
				&bench->cycles[policy][0][repeat]);
			if (error == 0 && bench->options->flood > 0)
				error = pass(bench, &bench->flood, policy, NULL,
					&bench->cycles[policy][1][repeat]);
		}
	}
	return error;
}

static int count_case(struct bench *bench, const struct bench_traffic *traffic,
	enum chain_lb_policy policy, struct bench_lb_case *to)
{
	bench->counted = &to->counted;
	int error = pass(bench, traffic, policy, NULL, NULL);
	bench->counted = NULL;
	counters_add(&bench->result->counted, &to->counted);
	return error;
}

/* What the processor counts, in passes of their own. */
static int count_all(struct bench *bench)
{
	struct bench_lb_result *result = bench->result;
	int error = 0;
	counters_open(&bench->counters, bench->options->counters);
	if (!counters_work(&bench->counters)) {
		counters_end(&bench->counters, &result->counted, 0); /* why */
		return 0;
	}
	for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
		struct bench_lb_row *row = &result->rows[i];
		error = count_case(bench, &bench->calm, row->policy, &row->calm);
		if (error == 0 && bench->options->flood > 0)
			error = count_case(bench, &bench->flood, row->policy, &row->flood);
	}
	counters_close(&bench->counters);
	return error;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void summarise(struct bench_lb_case *to, double *cycles, uint32_t repeats)
{
	qsort(cycles, repeats, sizeof(*cycles), compare_doubles);
	to->cycles = repeats % 2 != 0 ? cycles[repeats / 2]
				      : (cycles[repeats / 2 - 1] + cycles[repeats / 2]) / 2;
	to->cycles_min = cycles[0];
	to->cycles_max = cycles[repeats - 1];
}

static int load_traffic(struct bench *bench)
{
	const struct bench_lb_options *options = bench->options;
	int error = options->trace != NULL
			    ? bench_traffic_load(&bench->calm, options->trace, bench->stop,
				      bench->result->message)
			    : bench_traffic_make(&bench->calm, options->flows, options->packets,
				      options->duration_ns, options->seed, bench->stop);
	size_t count = 0;
	if (error == 0)
		traces_trace_records(bench->calm.trace, &count);
	if (error == 0 && count == 0) {
		snprintf(bench->result->message, sizeof(bench->result->message),
			"%s: no packet from a client", options->trace);
		return -EINVAL;
	}
	if (error == 0 && options->flood > 0)
		error = bench_traffic_flood(
			&bench->flood, &bench->calm, options->flood, options->seed, bench->stop);
	return error;
}

static int load_schedule(struct bench *bench)
{
	struct bench_lb_result *result = bench->result;
	size_t count;
	traces_trace_records(bench->calm.trace, &count);
	result->packets = count;
	result->flood_packets = bench->flood.flood_packets;
	result->left_out_packets = bench->calm.left_out_packets;
	result->duration_ns = bench->calm.duration_ns;
	if (bench->options->schedule != NULL)
		return lb_schedule_read(bench->options->schedule, result->changes,
			&result->changes_count, result->message);
	plan_default(result, bench->options->backends);
	return 0;
}

int bench_lb_run(const struct bench_lb_options *options, struct bench_lb_result *result,
	const atomic_bool *stop)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	char damage[BENCH_LB_MESSAGE_SIZE];
	memset(result, 0, sizeof(*result));
	if (bench == NULL)
		return -ENOMEM;
	bench->options = options;
	bench->result = result;
	bench->stop = stop;
	result->tsc_hz = bench_clock_tsc_hz();
	/* A connection with what the load balancer keeps of it. */
	const uint64_t conn_bytes = PIPELINE_MEMORY_CONN_BYTES + chain_kind_user_bytes(CHAIN_LB);
	int error = pipeline_memory_check_conns(
		options->conns, conn_bytes, "--conns", result->message, sizeof(result->message));
	if (error == 0)
		error = load_traffic(bench);
	memcpy(damage, result->message, sizeof(damage)); /* chains write there, too */
	if (error == 0)
		error = load_schedule(bench);
	if (error == 0)
		error = judge_all(bench);
	if (error == 0)
		error = time_all(bench);
	if (error == 0)
		error = count_all(bench);
	for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
		struct bench_lb_row *row = &result->rows[i];
		summarise(&row->calm, bench->cycles[row->policy][0], options->repeats);
		if (options->flood > 0)
			summarise(&row->flood, bench->cycles[row->policy][1], options->repeats);
	}
	if (error == 0)
		memcpy(result->message, damage, sizeof(damage));
	bench_traffic_destroy(&bench->calm);
	bench_traffic_destroy(&bench->flood);
	free(bench);
	return error;
}
