/* SPDX-License-Identifier: BSD-2-Clause */
/* Every table with every deletion strategy, judged packet by packet; faults must be seen. */
#include "base/arena.h"
#include "conntrack/judge.h"
#include "tests/model/conntrack/actors.h"
#include "tests/model/conntrack/faults.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

enum { SEEDS = 4, SEEDS_PER_PAIR = 1, FAULT_SEEDS = 20 };

struct trial {
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
	bool tight;
	uint64_t seed;
};

static void random_config(
	struct conntrack_config *config, const struct trial *trial, struct base_rng *rng)
{
	static const uint64_t intervals_ns[] = { 0, 0, 7777, MS, 50 * MS, 500 * MS };
	static const uint32_t counts[] = { 0, 0, 2, 8, 64, 1000 };
	conntrack_config_defaults(config);
	config->table = trial->table;
	config->deletion = trial->deletion;
	config->entries_max = trial->tight ? 64 + (uint32_t)base_rng_below(rng, 200) : 8192;
	config->half_open_max = trial->tight ? (uint32_t)base_rng_below(rng, 100) : 8192;
	config->full_policy = (enum conntrack_full_policy)base_rng_below(rng, 3);
	config->tcp_pickup = base_rng_below(rng, 4) != 0;
	config->drop_invalid = base_rng_below(rng, 3) == 0;
	config->salt = base_rng_u64(rng);
	config->no_close_hints = base_rng_below(rng, 3) == 0;
	config->knobs.interval_ns =
		intervals_ns[base_rng_below(rng, BASE_ARRAY_COUNT(intervals_ns))];
	config->knobs.budget = counts[base_rng_below(rng, BASE_ARRAY_COUNT(counts))];
	config->knobs.slots = counts[base_rng_below(rng, BASE_ARRAY_COUNT(counts))];
	for (unsigned int i = 1; i < CONNTRACK_STATES_COUNT; i++)
		config->timeout_ns[i] = (1 + base_rng_below(rng, 400)) * MS;
	/* Now and then a state that never ends. */
	if (base_rng_below(rng, 4) == 0)
		config->timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED] = 0;
}

static void run_packets(struct conntrack_judge *judge, struct actors *actors, unsigned int packets,
	struct base_rng *rng)
{
	unsigned int burst_max = base_rng_below(rng, 4) == 0 ? 1 : BASE_BURST_MAX;
	const struct conntrack_verdict *verdict = conntrack_judge_verdict(judge);
	/* A broken tracker is not driven on. */
	for (unsigned int at = 0; at < packets && verdict->failures_sum == 0;) {
		struct base_burst burst = { .count = (uint16_t)(1 +
								base_rng_below(rng, burst_max)) };
		if (burst.count > packets - at)
			burst.count = (uint16_t)(packets - at);
		for (unsigned int i = 0; i < burst.count; i++)
			burst.packets[i] = &actors->packets[at + i];
		base_burst_mark_runs(&burst, false);
		conntrack_judge_process(judge, &burst);
		at += burst.count;
		unsigned int budget = base_rng_below(rng, 3) == 0
					      ? 1 + (unsigned int)base_rng_below(rng, 20)
					      : 100000;
		if (base_rng_below(rng, 4) != 0)
			conntrack_judge_advance(judge, actors->horizon_ns[at], budget);
	}
}

/* False: the pair does not work together. */
static bool run_trial(const struct trial *trial, struct conntrack_verdict *verdict)
{
	static struct actors actors;
	struct conntrack_config config;
	struct conntrack_judge *judge;
	struct base_rng rng;
	base_rng_seed(&rng, trial->seed);
	random_config(&config, trial, &rng);
	assert_int_equal(base_arena_create(&config.arena, false), 0);
	int error = conntrack_judge_create(&judge, &config);
	if (error == -ENOTSUP) {
		base_arena_destroy(config.arena);
		return false;
	}
	assert_int_equal(error, 0);
	struct actors_config traffic = {
		.actors = 1 + (unsigned int)base_rng_below(&rng, trial->tight ? 400 : ACTORS_MAX),
		.step_ns = MS / 10 + base_rng_below(&rng, MS),
		.pause_ns = 300 * MS,
		.lag_ns = base_rng_below(&rng, 2) * 20 * MS,
		.flood = trial->tight ? (unsigned int)base_rng_below(&rng, 50) : 0,
		.packets = 4000,
	};
	actors_fill(&actors, &traffic, &rng);
	run_packets(judge, &actors, traffic.packets, &rng);
	if (conntrack_judge_verdict(judge)->failures_sum == 0)
		conntrack_judge_drain(judge);
	*verdict = *conntrack_judge_verdict(judge);
	conntrack_judge_destroy(judge);
	base_arena_destroy(config.arena);
	return true;
}

static void run_good(const struct trial *trial, struct conntrack_verdict *sum)
{
	struct conntrack_verdict verdict;
	if (!run_trial(trial, &verdict))
		return;
	if (verdict.failures_sum != 0)
		fail_msg("table %s, deletion %s, seed %llu, %s: %llu failures, the first: %s",
			trial->table->name, trial->deletion->name, (unsigned long long)trial->seed,
			trial->tight ? "tight" : "roomy", (unsigned long long)verdict.failures_sum,
			verdict.first_failure);
	sum->hits += verdict.hits;
	sum->misses += verdict.misses;
	sum->stale_hits += verdict.stale_hits;
	sum->refused += verdict.refused;
	sum->evicted_live += verdict.evicted_live;
	sum->late.count += verdict.late.count;
}

/* What a strategy is there for must have happened, or nothing was tested. */
static void check_sum(
	const struct conntrack_deletion_ops *deletion, const struct conntrack_verdict *sum)
{
	bool idle = strcmp(deletion->name, "none") == 0;
	if (sum->hits == 0 || sum->misses == 0 || (!idle && sum->late.count == 0) ||
		(deletion->stale_hits && sum->stale_hits == 0) ||
		(deletion->evicts && sum->evicted_live == 0) ||
		(!deletion->evicts && sum->refused == 0))
		fail_msg("deletion %s: was not put to the test", deletion->name);
}

static const struct conntrack_table_ops *table_for(const struct conntrack_deletion_ops *deletion)
{
	const struct conntrack_table_ops *own = conntrack_table_by_name(deletion->name);
	return own != NULL ? own : conntrack_table_at(0);
}

static void strategies_satisfy_the_judge(void **state)
{
	const struct conntrack_deletion_ops *deletion;
	(void)state;
	for (size_t i = 0; (deletion = conntrack_deletion_at(i)) != NULL; i++) {
		struct conntrack_verdict sum = { 0 };
		for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
			struct trial trial = {
				.table = table_for(deletion),
				.deletion = deletion,
				.tight = seed % 2 == 0,
				.seed = 1000 * i + seed,
			};
			run_good(&trial, &sum);
		}
		check_sum(deletion, &sum);
	}
}

static void every_pair_satisfies_the_judge(void **state)
{
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
	(void)state;
	for (size_t i = 0; (table = conntrack_table_at(i)) != NULL; i++) {
		for (size_t j = 0; (deletion = conntrack_deletion_at(j)) != NULL; j++) {
			struct conntrack_verdict sum = { 0 };
			for (uint64_t seed = 1; seed <= 2 * SEEDS_PER_PAIR; seed++) {
				struct trial trial = {
					.table = table,
					.deletion = deletion,
					.tight = seed % 2 == 0,
					.seed = 100000 * (i + 1) + 1000 * j + seed,
				};
				run_good(&trial, &sum);
			}
		}
	}
}

static void the_judge_sees_faults(void **state)
{
	const struct fault *fault;
	(void)state;
	for (size_t i = 0; (fault = fault_at(i)) != NULL; i++) {
		uint64_t seen = 0, other = 0;
		struct conntrack_verdict verdict = { 0 };
		for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++) {
			struct trial trial = {
				.table =
					fault->table != NULL ? fault->table : conntrack_table_at(0),
				.deletion = fault->deletion,
				.seed = seed,
			};
			assert_true(run_trial(&trial, &verdict));
			seen += verdict.failures[fault->expected] != 0;
			other +=
				verdict.failures[fault->expected] == 0 && verdict.failures_sum != 0;
		}
		if (seen < FAULT_SEEDS / 2)
			fail_msg("%s: seen as %s with %llu of %u seeds, as other failures with "
				 "%llu, such as: %s",
				fault->what, conntrack_failure_name(fault->expected),
				(unsigned long long)seen, FAULT_SEEDS, (unsigned long long)other,
				verdict.first_failure);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strategies_satisfy_the_judge),
		cmocka_unit_test(every_pair_satisfies_the_judge),
		cmocka_unit_test(the_judge_sees_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
