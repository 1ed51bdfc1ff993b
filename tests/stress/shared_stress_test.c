/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing models under threads that meet: each connection inserted once, no update lost, views of
 * readers whole. Meant for ThreadSanitizer; passes without it too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/shared_world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_NS UINT64_C(1000000)

static uint64_t seed_now(void)
{
	uint64_t seed = (uint64_t)time(NULL);
	print_message("seed %llu\n", (unsigned long long)seed);
	return seed;
}

struct setting {
	struct base_arena *arena;
	struct shared_world world;
	struct conntrack_shared_judge *judge;
	struct conntrack_shared_config config;
};

static void set_up(struct setting *setting, const struct shared_world_options *options,
	const uint64_t *timeout_ns)
{
	memset(setting, 0, sizeof(*setting));
	shared_world_create(&setting->world, options);
	assert_int_equal(base_arena_create(&setting->arena, false), 0);
	conntrack_shared_config_defaults(&setting->config);
	setting->config.workers = options->workers;
	setting->config.entries_max = 2 * (options->flows + options->resident);
	setting->config.arena = setting->arena;
	setting->config.salt = options->seed;
	memcpy(setting->config.timeout_ns, timeout_ns, sizeof(setting->config.timeout_ns));
	assert_int_equal(
		conntrack_shared_judge_create(&setting->judge, options->workers, timeout_ns), 0);
	assert_int_equal(conntrack_shared_judge_expect(setting->judge, setting->world.packets,
				 setting->world.count, NULL),
		0);
	setting->config.on_remove = conntrack_shared_collect;
	setting->config.on_remove_context = setting->judge;
}

static void tear_down(struct setting *setting)
{
	conntrack_shared_judge_destroy(setting->judge);
	shared_world_destroy(&setting->world);
	base_arena_destroy(setting->arena);
}

static void run_and_judge(struct setting *setting, const struct conntrack_sharing_ops *sharing,
	bool spread, unsigned int burst)
{
	struct conntrack_shared *shared;
	struct conntrack_shared_verdict verdict;
	setting->config.sharing = sharing;
	assert_int_equal(conntrack_shared_create(&shared, &setting->config), 0);
	struct conntrack_shared_stats stats =
		shared_world_run(&setting->world, shared, burst, NULL);
	assert_int_equal(conntrack_shared_judge_verdict(setting->judge, spread, &verdict), 0);
	if (verdict.failures_sum != 0)
		fail_msg("%s: %llu failures; %s", sharing->name,
			(unsigned long long)verdict.failures_sum, verdict.first_failure);
	assert_true(verdict.compared_flows > 0 || spread);
	assert_int_equal(stats.live, 0);
	assert_true(sharing->any_worker || stats.backwards == 0);
	assert_int_equal(stats.refused_pool + stats.refused_bucket + stats.overflowed, 0);
	print_message("%-12s %s: %llu connections, %llu retries, %llu lost races, %llu contended, "
		      "%llu taken over, %llu parked\n",
		sharing->name, spread ? "spread" : "by hash", (unsigned long long)stats.inserted,
		(unsigned long long)stats.retries, (unsigned long long)stats.lost_races,
		(unsigned long long)stats.contended, (unsigned long long)stats.handovers,
		(unsigned long long)stats.parked);
	conntrack_shared_destroy(shared);
}

/* Timeouts that never pass within a flow, and some that do. */
static void judge_all(unsigned int workers, bool spread, const uint64_t *timeout_ns, uint64_t seed)
{
	const struct shared_world_options options = { .workers = workers,
		.flows = 6000,
		.packets_per_flow = 6,
		.step_ns = STEP_NS,
		.gap_ns = 40 * STEP_NS,
		.spread = spread,
		.seed = seed };
	const struct conntrack_sharing_ops *sharing;
	struct setting setting;
	set_up(&setting, &options, timeout_ns);
	for (size_t i = 0; (sharing = conntrack_sharing_at(i)) != NULL; i++) {
		if (sharing->any_worker || !spread)
			run_and_judge(&setting, sharing, spread, 8 + (unsigned int)(seed % 25));
	}
	tear_down(&setting);
}

static const uint64_t long_ns[] = { 100 * STEP_NS, 100 * STEP_NS, 100 * STEP_NS };
static const uint64_t short_ns[] = { 3 * STEP_NS, 20 * STEP_NS, STEP_NS };

static void packets_by_hash_give_what_one_thread_gives(void **)
{
	uint64_t seed = seed_now();
	judge_all(2, false, short_ns, seed);
	judge_all(4, false, long_ns, seed + 1);
}

static void packets_spread_over_workers_are_counted_once(void **)
{
	uint64_t seed = seed_now();
	judge_all(2, true, long_ns, seed);
	judge_all(4, true, long_ns, seed + 1);
	judge_all(3, true, short_ns, seed + 2);
}

/* Bursts so small, and flows so short, that workers race for most connections. */
static void workers_race_to_insert(void **)
{
	uint64_t seed = seed_now();
	for (unsigned int turn = 0; turn < 10; turn++) {
		const struct shared_world_options options = { .workers = 2 + turn % 2,
			.flows = 20000,
			.packets_per_flow = 2,
			.step_ns = STEP_NS,
			.spread = true,
			.seed = seed + turn };
		struct setting setting;
		set_up(&setting, &options, long_ns);
		run_and_judge(&setting, conntrack_sharing_by_name("lockfree"), true, 2 + turn);
		tear_down(&setting);
	}
}

/* Thousands of hand-overs while packets run: nothing lost, nothing reordered. */
static void buckets_move_between_workers(void **)
{
	uint64_t seed = seed_now();
	for (unsigned int workers = 2; workers <= 4; workers++) {
		const struct shared_world_options options = { .workers = workers,
			.flows = 6000,
			.packets_per_flow = 6,
			.step_ns = STEP_NS,
			.gap_ns = 40 * STEP_NS,
			.moves = 3000,
			.seed = seed + workers };
		struct setting setting;
		set_up(&setting, &options, workers == 2 ? long_ns : short_ns);
		run_and_judge(&setting, conntrack_sharing_by_name("handover"), false, 16);
		tear_down(&setting);
	}
}

/* ---- readers --------------------------------------------------------------------------------- */

enum { RESIDENT = 40, LOOKED_AT_FLOWS = 4000 };

struct reader {
	const struct conntrack_shared *shared;
	const struct shared_world *world;
	bool exact; /* fields of a view are of one instant */
	uint64_t views, dumps, whole_dumps, misses;
	unsigned int once; /* flows below this have one connection at most in a dump */
	unsigned int seen[RESIDENT + LOOKED_AT_FLOWS]; /* in this dump */
	atomic_bool stopped;
	const char *wrong; /* read after the join */
};

static void look_at(void *context, const struct conntrack_shared_conn *conn)
{
	struct reader *reader = context;
	uint32_t flow;
	memcpy(&flow, conn->key.address[0], sizeof(flow));
	reader->views++;
	if (conn->packets == 0 || conn->bytes != conn->packets * shared_world_length(&conn->key))
		reader->wrong = "packets and bytes are not of one instant";
	if (flow >= RESIDENT)
		return;
	/* One packet a step from the first step on. */
	if (reader->exact && conn->last_seen_ns != conn->packets * STEP_NS)
		reader->wrong = "packets and time are not of one instant";
}

static void count_at(void *context, const struct conntrack_shared_conn *conn)
{
	struct reader *reader = context;
	uint32_t flow;
	memcpy(&flow, conn->key.address[0], sizeof(flow));
	if (++reader->seen[flow] > 1 && flow < reader->once)
		reader->wrong = "a connection stood in a dump twice";
	look_at(reader, conn);
}

static void *read_on(void *context)
{
	struct reader *reader = context;
	while (!atomic_load_explicit(&reader->stopped, memory_order_relaxed)) {
		struct conntrack_shared_conn conn;
		memset(reader->seen, 0, sizeof(reader->seen));
		conntrack_shared_dump(reader->shared, 0, UINT32_MAX, count_at, reader);
		reader->dumps++;
		unsigned int there = 0;
		for (unsigned int i = 0; i < RESIDENT; i++)
			there += reader->seen[i];
		/* Once they have all come they stay to the end. */
		if (there < RESIDENT && reader->whole_dumps != 0 &&
			!atomic_load_explicit(&reader->stopped, memory_order_relaxed))
			reader->wrong = "a connection that lives was not in a dump";
		reader->whole_dumps += there == RESIDENT;
		for (uint64_t i = 0; i < reader->world->count; i += 101) {
			const struct base_packet *packet = &reader->world->packets[i];
			if (conntrack_shared_read(
				    reader->shared, &packet->key, packet->hash, &conn) != 0)
				reader->misses++;
			else if (!base_flow_key_equal(&conn.key, &packet->key))
				reader->wrong = "another connection was read";
			else
				look_at(reader, &conn);
		}
	}
	return NULL;
}

/* spread: flows are never idle for long, and their packets race to open them. */
static void read_while_writing(const char *name, bool exact, bool spread, uint64_t seed)
{
	const struct shared_world_options options = { .workers = 2,
		.flows = LOOKED_AT_FLOWS,
		.packets_per_flow = 6,
		.resident = RESIDENT,
		.step_ns = STEP_NS,
		.gap_ns = 40 * STEP_NS,
		.spread = spread,
		.seed = seed };
	struct setting setting;
	struct conntrack_shared *shared;
	pthread_t thread;
	set_up(&setting, &options, spread ? long_ns : short_ns);
	setting.config.sharing = conntrack_sharing_by_name(name);
	if (!spread)
		setting.config.entries_max = 2000; /* used again while they are looked at */
	assert_int_equal(conntrack_shared_create(&shared, &setting.config), 0);
	struct reader reader = { .shared = shared, .world = &setting.world, .exact = exact };
	reader.once = spread ? RESIDENT + LOOKED_AT_FLOWS : RESIDENT;
	assert_int_equal(pthread_create(&thread, NULL, read_on, &reader), 0);
	struct conntrack_shared_stats stats =
		shared_world_run(&setting.world, shared, 16, &reader.stopped);
	pthread_join(thread, NULL);
	if (reader.wrong != NULL)
		fail_msg("%s: %s", name, reader.wrong);
	assert_true(reader.views > 0);
	print_message("%-12s read %llu views in %llu dumps, %llu with all residents\n", name,
		(unsigned long long)reader.views, (unsigned long long)reader.dumps,
		(unsigned long long)reader.whole_dumps);
	assert_true(spread || stats.inserted > setting.config.entries_max);
	conntrack_shared_destroy(shared);
	tear_down(&setting);
}

static void views_are_whole_while_workers_write(void **)
{
	uint64_t seed = seed_now();
	read_while_writing("readers", true, false, seed);
	read_while_writing("lockfree", false, false, seed + 1);
	read_while_writing("lockfree", false, true, seed + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_by_hash_give_what_one_thread_gives),
		cmocka_unit_test(packets_spread_over_workers_are_counted_once),
		cmocka_unit_test(workers_race_to_insert),
		cmocka_unit_test(buckets_move_between_workers),
		cmocka_unit_test(views_are_whole_while_workers_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
