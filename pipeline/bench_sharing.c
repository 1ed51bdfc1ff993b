/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_sharing.h"

#include "pipeline/bench_clock.h"
#include "pipeline/bench_sharing_private.h"
#include "pipeline/bench_traffic.h"
#include "pipeline/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNS_SPARE = 4096 };
static_assert((int)BENCH_SHARING_MESSAGE_SIZE >= (int)TRACES_MESSAGE_SIZE, "one message for all");

void bench_sharing_options_defaults(struct bench_sharing_options *options)
{
	*options = (struct bench_sharing_options){
		.workers = { 1, 2 },
		.workers_count = 2,
		.flows = 65536,
		.packets = 1 << 20,
		.duration_ns = UINT64_C(10000000000),
		.timeout_ns = UINT64_C(1000000000),
		.moves = 64,
		.burst = 64,
		.rounds = 5,
		.seed = 1,
	};
}

/* ---- packets --------------------------------------------------------------------------------- */

static int load_made(struct bench_sharing *bench)
{
	const struct bench_sharing_options *options = bench->options;
	struct bench_traffic traffic;
	struct traces_packets *stream;
	int error = bench_traffic_make(&traffic, options->flows, options->packets,
		options->duration_ns, options->seed, bench->stop);
	if (error != 0)
		return error;
	error = traces_packets_of_trace(&stream, traffic.trace, 0);
	if (error == 0) {
		error = bench_packets_load(&bench->packets, stream, UINT64_MAX, bench->stop);
		traces_packets_destroy(stream);
	}
	bench_traffic_destroy(&traffic);
	return error;
}

static int load_trace(struct bench_sharing *bench)
{
	struct traces_load_options load;
	struct traces_packets *stream;
	struct traces_load_report *report = calloc(1, sizeof(*report));
	char *message = bench->result->message;
	if (report == NULL)
		return -ENOMEM;
	traces_load_options_defaults(&load);
	int error = traces_packets_open(&stream, bench->options->trace, &load, report);
	if (error != 0) {
		snprintf(message, BENCH_SHARING_MESSAGE_SIZE, "%s", report->message);
		free(report);
		return error;
	}
	error = bench_packets_load(&bench->packets, stream, bench->options->packets, bench->stop);
	if (error != 0 && error != -EINTR)
		snprintf(message, BENCH_SHARING_MESSAGE_SIZE, "%s", traces_packets_message(stream));
	if (error == 0)
		bench_packets_tell_damage(
			report, bench->options->trace, message, BENCH_SHARING_MESSAGE_SIZE);
	traces_packets_destroy(stream);
	free(report);
	if (error == 0 && bench->packets.flow_packets == 0) {
		snprintf(message, BENCH_SHARING_MESSAGE_SIZE, "%s: no packet of a flow",
			bench->options->trace);
		error = -EINVAL;
	}
	return error;
}

/* Flows, and how many connections one thread makes of the packets. */
static int expect(struct bench_sharing *bench)
{
	uint64_t timeout_ns[CONNTRACK_SHARED_TIMEOUTS_COUNT];
	struct conntrack_shared_verdict nothing;
	for (unsigned int i = 0; i < CONNTRACK_SHARED_TIMEOUTS_COUNT; i++)
		timeout_ns[i] = bench->options->timeout_ns;
	int error = conntrack_shared_judge_create(
		&bench->judge, CONNTRACK_SHARED_WORKERS_MAX, timeout_ns);
	if (error == 0)
		error = conntrack_shared_judge_expect(
			bench->judge, bench->packets.packets, bench->packets.count, bench->stop);
	if (error == 0)
		error = conntrack_shared_judge_verdict(bench->judge, false, &nothing);
	if (error != 0)
		return error;
	bench->expected_connections = nothing.connections;
	bench->result->flows = nothing.flows;
	return 0;
}

static int prepare_lists(struct bench_sharing *bench)
{
	uint64_t count = bench->packets.count;
	bench->worker_of = malloc(count);
	bench->laid = aligned_alloc(BASE_CACHE_LINE, count * sizeof(*bench->laid));
	bench->list = malloc(count * sizeof(*bench->list));
	if (bench->worker_of == NULL || bench->laid == NULL || bench->list == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++)
		bench->list[i] = &bench->laid[i];
	return 0;
}

static int prepare(struct bench_sharing *bench)
{
	const struct bench_sharing_options *options = bench->options;
	struct bench_sharing_result *result = bench->result;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	result->tsc_hz = bench_clock_tsc_hz();
	int error = options->trace != NULL ? load_trace(bench) : load_made(bench);
	if (error == 0)
		error = expect(bench);
	if (error != 0)
		return error;
	result->cpus = cpus > 0 ? (uint32_t)cpus : 0;
	result->packets = bench->packets.count;
	result->flow_packets = bench->packets.flow_packets;
	result->left_out = bench->packets.left_out;
	result->duration_ns = bench->packets.duration_ns;
	uint64_t conns = options->conns != 0 ? options->conns
					     : result->flows + result->flows / 4 + CONNS_SPARE;
	/* A worker that runs alone for a while may open them all, from its own pool. */
	if (options->conns == 0 && options->spread)
		conns *= options->workers[options->workers_count - 1];
	result->conns = conns < CONNTRACK_SHARED_ENTRIES_MAX ? (uint32_t)conns
							     : CONNTRACK_SHARED_ENTRIES_MAX;
	error = pipeline_memory_check_conns(result->conns, PIPELINE_MEMORY_LAB_BYTES, "--conns",
		result->message, sizeof(result->message));
	if (error != 0)
		return error;
	error = prepare_lists(bench);
	if (error != 0)
		return error;
	error = bench_sharing_route_create(bench, &bench->still, 0);
	return error != 0 ? error
			  : bench_sharing_route_create(bench, &bench->moving, options->moves);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void make_rows(struct bench_sharing *bench)
{
	const struct bench_sharing_options *options = bench->options;
	struct bench_sharing_result *result = bench->result;
	const struct conntrack_sharing_ops *sharing;
	for (size_t i = 0; (sharing = conntrack_sharing_at(i)) != NULL; i++) {
		for (uint32_t k = 0; k < options->workers_count; k++) {
			if ((options->models != 0 && (options->models >> i & 1) == 0) ||
				result->rows_count == BENCH_SHARING_ROWS_MAX)
				continue;
			result->rows[result->rows_count++] = (struct bench_sharing_row){
				.sharing = sharing,
				.workers = options->workers[k],
				.works = sharing->any_worker || !options->spread ||
					 options->workers[k] == 1,
			};
		}
	}
}

static void note_pass(
	struct bench_sharing_row *row, const struct bench_sharing_pass *pass, bool first)
{
	if (first || pass->packets_per_s > row->packets_per_s) {
		row->packets_per_s = pass->packets_per_s;
		row->fairness = pass->fairness;
	}
	row->cycles = first || pass->cycles < row->cycles ? pass->cycles : row->cycles;
	row->cycles_max = pass->cycles > row->cycles_max ? pass->cycles : row->cycles_max;
	row->stats = pass->stats;
	row->bytes_per_entry = (double)pass->stats.memory_bytes / (double)pass->dump.places;
}

/* The same packets with and without a dump, over connections that are there already. */
static int measure_dump(struct bench_sharing *bench, struct bench_sharing_row *row, bool first)
{
	struct bench_sharing_pass without, with;
	struct bench_sharing_how how = { .warm = true };
	int error = bench_sharing_pass(bench, row->sharing, row->workers, how, &without);
	if (error != 0)
		return error;
	how.dumps = true;
	how.dump_cycles = without.wall_cycles / 5 * 4;
	if (bench->options->dump_ns != 0)
		how.dump_cycles =
			(uint64_t)((double)bench->options->dump_ns * 1e-9 * bench->result->tsc_hz);
	error = bench_sharing_pass(bench, row->sharing, row->workers, how, &with);
	if (error != 0)
		return error;
	struct bench_sharing_dump before = row->dump;
	row->dump = with.dump;
	row->dump.whole = with.dump.whole && (first || before.whole);
	row->dump.cycles = first || with.cycles < before.cycles ? with.cycles : before.cycles;
	row->dump.cycles_without = first || without.cycles < before.cycles_without
					   ? without.cycles
					   : before.cycles_without;
	return 0;
}

static int measure_row(struct bench_sharing *bench, struct bench_sharing_row *row, uint32_t round)
{
	const struct bench_sharing_options *options = bench->options;
	struct bench_sharing_pass pass;
	int error = bench_sharing_pass(bench, row->sharing, row->workers,
		(struct bench_sharing_how){ .counts = true }, &pass);
	if (error != 0)
		return error;
	counters_add(&row->counted, &pass.counted);
	counters_add(&bench->result->counted, &pass.counted);
	note_pass(row, &pass, round == 0);
	if (row->sharing->readable && !options->no_dump)
		error = measure_dump(bench, row, round == 0);
	return error;
}

static int judge_row(struct bench_sharing *bench, struct bench_sharing_row *row)
{
	struct bench_sharing_pass pass;
	int error = bench_sharing_pass(bench, row->sharing, row->workers,
		(struct bench_sharing_how){ .judged = true }, &pass);
	if (error == 0)
		error = conntrack_shared_judge_verdict(
			bench->judge, bench->options->spread && row->workers > 1, &row->verdict);
	row->judged_refused = pass.stats.refused_pool + pass.stats.refused_bucket;
	return error;
}

/* Rows of one number of workers take turns; the judge comes first, so that no timed round is the
 * first to touch the packets. */
static int measure_count(struct bench_sharing *bench, uint32_t workers)
{
	struct bench_sharing_result *result = bench->result;
	int error = 0;
	bench_sharing_route_plan(bench, &bench->still, workers, 0);
	bench_sharing_route_plan(
		bench, &bench->moving, workers, workers > 1 ? bench->options->moves : 0);
	for (uint32_t round = 0; round <= bench->options->rounds && error == 0; round++) {
		for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
			struct bench_sharing_row *row = &result->rows[i];
			if (row->workers != workers || !row->works)
				continue;
			if (round != 0)
				error = measure_row(bench, row, round - 1);
			else if (!bench->options->no_judge)
				error = judge_row(bench, row);
		}
	}
	return error;
}

/* What needs other rows. */
static void finish_rows(struct bench_sharing *bench)
{
	struct bench_sharing_result *result = bench->result;
	const struct bench_sharing_row *least = NULL;
	for (uint32_t i = 0; i < result->rows_count; i++) {
		struct bench_sharing_row *row = &result->rows[i];
		if (!row->works)
			continue;
		if (least == NULL || least->sharing != row->sharing)
			least = row;
		row->scaling = row->packets_per_s / least->packets_per_s;
		if (row->dump.measured)
			row->dump.cycles_per_place = (row->dump.cycles - row->dump.cycles_without) *
						     (double)result->packets /
						     (double)row->dump.places;
	}
}

int bench_sharing_run(const struct bench_sharing_options *options,
	struct bench_sharing_result *result, const atomic_bool *stop)
{
	struct bench_sharing *bench = calloc(1, sizeof(*bench));
	memset(result, 0, sizeof(*result));
	if (bench == NULL)
		return -ENOMEM;
	bench->options = options;
	bench->result = result;
	bench->stop = stop;
	int error = prepare(bench);
	if (error == 0)
		make_rows(bench);
	for (uint32_t i = 0; i < options->workers_count && error == 0; i++)
		error = measure_count(bench, options->workers[i]);
	if (error == 0)
		finish_rows(bench);
	conntrack_shared_judge_destroy(bench->judge);
	bench_sharing_route_destroy(&bench->still);
	bench_sharing_route_destroy(&bench->moving);
	free(bench->worker_of);
	free(bench->laid);
	free(bench->list);
	bench_packets_destroy(&bench->packets);
	free(bench);
	return error;
}
