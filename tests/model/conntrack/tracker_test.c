/* SPDX-License-Identifier: BSD-2-Clause */
/* Random packets through the tracker and the oracle: they must agree packet by packet. */
#include "base/arena.h"
#include "base/rng.h"
#include "conntrack/lab.h"
#include "conntrack/oracle.h"
#include "tests/model/conntrack/random_headers.h"
#include "tests/unit/conntrack/tables_under_test.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

enum { SEEDS = 4 }; /* for each table and strategy */
enum { PACKETS = 6000, HEADER = RANDOM_HEADER_SIZE, IDS_MAX = PACKETS + 1, CONNS_MAX = 8192 };

/* Where the tracker has put the oracle's connection `id`. */
struct place {
	uint32_t conn;
	uint32_t generation;
};

/* Table and strategy: NULL, NULL is the tracker's own, without the laboratory. */
struct variant {
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
};

struct world {
	uint64_t seed;
	struct variant variant;
	struct base_rng rng;
	struct conntrack_config config;
	struct base_arena *arena;
	struct conntrack *tracker;
	struct conntrack_oracle oracle;
	bool tight; /* the table may be full: the oracle is no judge of single packets then */
	uint64_t grain_ns; /* times and timeouts are multiples, so that they meet exactly */
	uint64_t time_ns;
	uint64_t horizon_ns[PACKETS + 1]; /* no packet from here on is earlier */
	struct base_packet packets[PACKETS];
	uint8_t headers[PACKETS][HEADER];
	struct place places[IDS_MAX];
	struct {
		size_t burst;
		uint64_t id;
	} named[CONNS_MAX]; /* by index: who was given it in which burst (its first packet + 1) */
	uint64_t removed;
	bool finished;        /* the tracker's own wheel is ahead of time for it */
	uint64_t advanced_ns; /* latest horizon that the tracker was told */
};

static uint64_t pick(struct world *world, uint64_t bound)
{
	return base_rng_below(&world->rng, bound);
}

static bool chance(struct world *world, unsigned int percent)
{
	return pick(world, 100) < percent;
}

static void fail_at(const struct world *world, size_t packet, const char *what)
{
	fail_msg("table %s, deletion %s, seed %llu, packet %zu: %s",
		world->variant.table != NULL ? world->variant.table->name : "-",
		world->variant.deletion != NULL ? world->variant.deletion->name : "-",
		(unsigned long long)world->seed, packet, what);
}

static void random_packet(struct world *world, size_t index, unsigned int flows)
{
	struct base_packet *packet = &world->packets[index];
	uint8_t *header = world->headers[index];
	base_packet_reset(packet);
	if (index > 0 && chance(world, 30))
		packet->key = world->packets[index - 1].key; /* runs */
	else
		random_key(&world->rng, &packet->key, flows);
	/* Some keys collide in all 32 bits, others in a few. */
	struct base_hash_config hash = { .kind = BASE_HASH_CRC32C };
	packet->hash = base_flow_key_hash(&packet->key, &hash);
	/* Two buckets hold few of them in some tables, which then refuse, as they should. */
	unsigned int alike = world->variant.table == NULL ? 32 : 12;
	if (packet->key.zone == 1 && packet->key.address[0][0] < alike &&
		(world->variant.table == NULL || packet->key.address[1][0] == 0))
		packet->hash = 7;

	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4;
	packet->flags |= packet->key.family == 6 ? BASE_PACKET_IP6 : BASE_PACKET_IP4;
	if (chance(world, 45))
		packet->flags |= BASE_PACKET_REVERSED;
	random_headers(&world->rng, packet, header,
		world->config.tcp_windows != CONNTRACK_TCP_WINDOWS_OFF);
	if (chance(world, 1))
		packet->flags |= BASE_PACKET_CHECKSUM_BAD;
	if (chance(world, 3)) {
		packet->flags |= BASE_PACKET_ICMP_ERROR;
		packet->flags &= (uint16_t)~BASE_PACKET_L4;
	} else if (chance(world, 3)) {
		packet->flags |= BASE_PACKET_FRAGMENT | BASE_PACKET_FRAGMENT_LATER;
		packet->flags &= (uint16_t)~BASE_PACKET_L4;
		if (chance(world, 30))
			packet->flags |= BASE_PACKET_FRAGMENT_ORPHAN;
		packet->tcp_flags = 0;
	} else if (chance(world, 3)) {
		packet->flags &= (uint16_t)~BASE_PACKET_L4;
		packet->tcp_flags = 0;
	} else if (chance(world, 1)) {
		packet->flags &= (uint16_t)~BASE_PACKET_FLOW;
	}
}

/* Mostly small steps, some pauses about as long as a timeout, a few of hours or years. */
static void random_times(struct world *world)
{
	uint64_t now = chance(world, 50) ? 0 : UINT64_C(1700000000) * 1000 * MS;
	for (size_t i = 0; i < PACKETS; i++) {
		now += pick(world, 3 * MS);
		if (chance(world, 2))
			now += pick(world, 3000 * MS);
		if (pick(world, 2000) == 0)
			now += pick(world, UINT64_C(3000000000) * MS);
		uint64_t early = chance(world, 10) ? pick(world, 20 * MS) : 0;
		world->packets[i].time_ns = now > early ? now - early : now;
		world->packets[i].time_ns -= world->packets[i].time_ns % world->grain_ns;
	}
	now -= now % world->grain_ns;
	world->time_ns = now;
	world->horizon_ns[PACKETS] = now;
	for (size_t i = PACKETS; i-- > 0;) {
		uint64_t time_ns = world->packets[i].time_ns;
		uint64_t later = world->horizon_ns[i + 1];
		world->horizon_ns[i] = time_ns < later ? time_ns : later;
	}
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct world *world = context;
	struct conntrack_conn seen;
	uint64_t id;
	world->removed++;
	memcpy(&id, user, sizeof(id));
	if (conntrack_conn_get(world->tracker, conn, &seen) != 0)
		fail_at(world, 0, "a removed connection is not there while it is being removed");
	/* 0: opened and removed within a burst, before the test could write to it. */
	if (!world->tight && id != 0 && (id >= IDS_MAX || world->places[id].conn != conn))
		fail_at(world, 0, "a removed connection's memory is not its own");
}

static void random_knobs(struct world *world)
{
	static const uint64_t intervals_ns[] = { 0, 1000, 7777, MS, 50 * MS, 3000 * MS };
	static const uint32_t counts[] = { 0, 2, 3, 8, 64, 1000 };
	struct conntrack_deletion_knobs *knobs = &world->config.knobs;
	knobs->interval_ns = intervals_ns[pick(world, BASE_ARRAY_COUNT(intervals_ns))];
	knobs->budget = counts[pick(world, BASE_ARRAY_COUNT(counts))];
	knobs->slots = counts[pick(world, BASE_ARRAY_COUNT(counts))];
}

/* False: the strategy does not work with this table. */
static bool world_create(struct world *world, struct variant variant, uint64_t seed, bool tight)
{
	static const uint64_t ticks_ns[] = { 1000, 7777, MS, 4 * MS, 300 * MS, 5000 * MS };
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->variant = variant;
	world->tight = tight;
	base_rng_seed(&world->rng, seed);
	assert_int_equal(base_arena_create(&world->arena, false), 0);

	struct conntrack_config *config = &world->config;
	conntrack_config_defaults(config);
	config->arena = world->arena;
	config->entries_max = tight ? (uint32_t)pick(world, 40) + 1 : 2048;
	config->half_open_max = tight ? (uint32_t)pick(world, 20) : 2048;
	config->tick_ns = ticks_ns[pick(world, BASE_ARRAY_COUNT(ticks_ns))];
	config->full_policy = (enum conntrack_full_policy)pick(world, 3);
	config->tcp_pickup = chance(world, 70);
	config->drop_invalid = chance(world, 30);
	config->tcp_windows = (enum conntrack_tcp_windows)(chance(world, 40) ? 0 : pick(world, 3));
	config->user_bytes = 8 + (uint32_t)pick(world, 100);
	config->salt = base_rng_u64(&world->rng);
	config->no_prefetch = chance(world, 50);
	config->no_dedup = chance(world, 50);
	config->no_runs = chance(world, 50);
	config->no_bulk = chance(world, 50);
	config->table = variant.table;
	config->deletion = variant.deletion;
	if (variant.deletion != NULL) {
		config->no_close_hints = chance(world, 30);
		random_knobs(world);
	}
	config->on_remove = on_remove;
	config->on_remove_context = world;
	/* Short timeouts, some below a tick, some never. */
	bool defaults = chance(world, 20);
	world->grain_ns = chance(world, 50) ? 1 : 50 * MS;
	for (unsigned int i = 1; !defaults && i < CONNTRACK_STATES_COUNT; i++) {
		uint64_t grains = 1 + pick(world, 2500 * MS / world->grain_ns);
		config->timeout_ns[i] = chance(world, 5) ? 0 : grains * world->grain_ns;
	}
	/* UDP must live long enough to become a stream. */
	if (chance(world, 50))
		config->timeout_ns[CONNTRACK_STATE_UDP_REPLIED] *= 4;
	if (!defaults)
		config->tcp_unacknowledged_ns = pick(world, 3) * 500 * MS;
	int error = conntrack_create(&world->tracker, config);
	if (error == -ENOTSUP) {
		base_arena_destroy(world->arena);
		return false;
	}
	assert_int_equal(error, 0);
	conntrack_oracle_init(&world->oracle, config);

	unsigned int flows = 4 + (unsigned int)pick(world, chance(world, 50) ? 30 : 1500);
	for (size_t i = 0; i < PACKETS; i++)
		random_packet(world, i, flows);
	random_times(world);
	return true;
}

static void world_destroy(struct world *world)
{
	conntrack_oracle_release(&world->oracle);
	conntrack_destroy(world->tracker);
	base_arena_destroy(world->arena);
}

static void check_structures(const struct world *world, size_t packet)
{
	char message[256] = "";
	if (conntrack_check(world->tracker, message, sizeof(message)) != 0)
		fail_at(world, packet, message);
}

/* What a strategy says of itself: nothing that was due that long ago is still there. */
static void check_slack(const struct world *world, size_t packet)
{
	struct conntrack_conn conn;
	uint64_t slack_ns = conntrack_slack_ns(world->tracker);
	if (slack_ns > world->advanced_ns || world->finished)
		return;
	for (uint32_t i = 0; i < CONNS_MAX; i++) {
		if (conntrack_conn_get(world->tracker, i, &conn) == 0 &&
			conn.due_ns < world->advanced_ns - slack_ns)
			fail_at(world, packet, "a connection is there past its slack");
	}
}

/* One packet's answer. */
static void check_packet(
	struct world *world, size_t at, const struct conntrack_oracle_answer *answer)
{
	const struct base_packet *packet = &world->packets[at];
	if ((packet->drop_reason != BASE_DROP_NONE) != answer->dropped)
		fail_at(world, at, "dropped, or not dropped");
	if (packet->conn_flags != answer->conn_flags)
		fail_at(world, at, "connection flags differ");
	if ((packet->conn == BASE_CONN_NONE) != (answer->id == 0))
		fail_at(world, at, "tracked, or not tracked");
	if (answer->id == 0)
		return;
	struct place *place = &world->places[answer->id];
	if ((packet->conn_flags & BASE_CONN_NEW) != 0) {
		place->conn = packet->conn;
		return;
	}
	if (packet->conn != place->conn)
		fail_at(world, at, "the packet went to another connection");
}

/* User memory: zeroed at insertion, kept until removal. The connection may have been removed by a
 * later packet of the burst, so only living ones are looked at. */
static void check_user(struct world *world, size_t at, const struct conntrack_oracle_answer *answer)
{
	const struct base_packet *packet = &world->packets[at];
	const struct conntrack_oracle_conn *conn =
		conntrack_oracle_find(&world->oracle, &packet->key);
	if (answer->id == 0 || conn == NULL || conn->id != answer->id)
		return;
	uint64_t id;
	void *user = conntrack_user(world->tracker, packet->conn);
	memcpy(&id, user, sizeof(id));
	if (id != 0 && id != answer->id)
		fail_at(world, at, "user memory is another connection's");
	if (id == 0 && (packet->conn_flags & BASE_CONN_NEW) == 0 &&
		world->places[answer->id].generation != 0)
		fail_at(world, at, "user memory was lost");
	world->places[answer->id].generation = 1;
	memcpy(user, &answer->id, sizeof(id));

	struct conntrack_conn seen;
	uint32_t found = BASE_CONN_NONE;
	if (conntrack_find(world->tracker, &packet->key, packet->hash, &found) != 0 ||
		found != packet->conn ||
		conntrack_conn_get(world->tracker, packet->conn, &seen) != 0)
		fail_at(world, at, "the connection cannot be found");
	if (seen.state != conn->state || seen.assured != conn->assured ||
		seen.origin_reversed != conn->reversed || seen.packets != conn->packets ||
		seen.last_seen_ns != conn->last_seen_ns || seen.due_ns != conn->due_ns)
		fail_at(world, at, "the connection's state differs");
}

/* An index names one connection for the whole burst: the chain sees packets after all of them. */
static void check_index(struct world *world, size_t at, size_t burst, uint64_t id)
{
	uint32_t conn = world->packets[at].conn;
	if (id == 0)
		return;
	if (conn >= CONNS_MAX)
		fail_at(world, at, "an index is out of range");
	if (world->named[conn].burst == burst && world->named[conn].id != id)
		fail_at(world, at, "an index names two connections in one burst");
	world->named[conn].burst = burst;
	world->named[conn].id = id;
}

/* The same without an oracle: packets that were given one index have one key. */
static void check_keys(struct world *world, size_t at, uint16_t count)
{
	for (size_t i = at; i < at + count; i++) {
		uint32_t conn = world->packets[i].conn;
		if (conn == BASE_CONN_NONE)
			continue;
		if (world->named[conn].burst == at + 1 &&
			!base_flow_key_equal(
				&world->packets[world->named[conn].id].key, &world->packets[i].key))
			fail_at(world, i, "an index names two flows in one burst");
		world->named[conn].burst = at + 1;
		world->named[conn].id = i;
	}
}

static bool is_udp(void *context, const struct conntrack_conn *conn, void *user)
{
	(void)context;
	(void)user;
	return conn->key.protocol == BASE_PROTOCOL_UDP;
}

static void between_bursts(struct world *world, size_t next)
{
	if (chance(world, 60)) {
		unsigned int budget = chance(world, 30) ? 1 + (unsigned int)pick(world, 9) : 100000;
		world->advanced_ns = world->horizon_ns[next];
		conntrack_advance(world->tracker, world->advanced_ns, budget);
		check_slack(world, next);
	}
	if (!world->tight && pick(world, 200) == 0) {
		/* An oracle that still holds what the wheel removed would count it as purged. */
		world->advanced_ns = world->horizon_ns[next];
		conntrack_advance(world->tracker, world->advanced_ns, UINT32_MAX);
		conntrack_finish(world->tracker, world->horizon_ns[next]);
		world->finished = world->variant.deletion == NULL;
		conntrack_oracle_advance(&world->oracle, world->horizon_ns[next]);
		if (conntrack_purge(world->tracker, is_udp, NULL) !=
			conntrack_oracle_purge(&world->oracle, BASE_PROTOCOL_UDP))
			fail_at(world, next, "purged another number of connections");
	}
}

/* What both have counted of the packets so far. */
static void check_counters(struct world *world, size_t packet, const struct conntrack_stats *stats)
{
	const struct conntrack_oracle *oracle = &world->oracle;
	const struct {
		const char *name;
		uint64_t tracker, oracle;
	} counters[] = {
		{ "hits differ", stats->hits, oracle->hits },
		{ "misses differ", stats->misses, oracle->misses },
		{ "invalid packets differ", stats->invalid_packets, oracle->invalid },
		{ "related packets differ", stats->related_packets, oracle->related },
		{ "resyncs differ", stats->resyncs, oracle->resyncs },
		{ "out-of-window packets differ", stats->out_of_window_packets,
			oracle->out_of_window },
		{ "untracked packets differ", stats->untracked_packets, oracle->untracked },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(counters); i++)
		if (counters[i].tracker != counters[i].oracle)
			fail_at(world, packet, counters[i].name);
}

static void check_books(struct world *world)
{
	struct conntrack_stats stats;
	const struct conntrack_oracle *oracle = &world->oracle;
	conntrack_stats(world->tracker, &stats);
	if (stats.inserted !=
			stats.live + stats.expired + stats.closed + stats.evicted + stats.purged ||
		stats.inserted - stats.live != world->removed)
		fail_at(world, PACKETS, "the books do not balance");
	if (world->tight)
		return;
	if (stats.inserted != oracle->inserted || stats.expired != oracle->expired ||
		stats.closed != oracle->closed || stats.purged != oracle->purged ||
		stats.live != oracle->count || stats.evicted != 0 || stats.insert_failures != 0)
		fail_at(world, PACKETS, "the books differ");
	check_counters(world, PACKETS, &stats);
}

static void run_burst(struct world *world, size_t at, uint16_t count)
{
	struct base_burst burst = { .count = count };
	struct conntrack_oracle_answer answers[BASE_BURST_MAX];
	for (uint16_t i = 0; i < count; i++)
		burst.packets[i] = &world->packets[at + i];
	base_burst_mark_runs(&burst, chance(world, 20));
	struct conntrack_stats before, after;
	conntrack_stats(world->tracker, &before);
	conntrack_process_burst(world->tracker, &burst);
	conntrack_stats(world->tracker, &after);
	if (world->tight) {
		if (after.insert_failures != before.insert_failures && count == 1 &&
			after.live < world->config.entries_max &&
			after.half_open < world->config.half_open_max)
			fail_at(world, at, "refused although there was room");
		if (after.live > world->config.entries_max)
			fail_at(world, at, "more connections than entries");
		check_keys(world, at, count);
		return;
	}
	for (uint16_t i = 0; i < count; i++) {
		answers[i] = conntrack_oracle_packet(&world->oracle, burst.packets[i], false);
		check_packet(world, at + i, &answers[i]);
		check_index(world, at + i, at + 1, answers[i].id);
	}
	check_counters(world, at, &after);
	for (uint16_t i = 0; i < count; i++)
		check_user(world, at + i, &answers[i]);
}

static void run_world(struct variant variant, uint64_t seed, bool tight)
{
	static struct world world;
	if (!world_create(&world, variant, seed, tight))
		return;
	uint16_t burst_max = (uint16_t)(chance(&world, 25) ? 1 : 1 + pick(&world, BASE_BURST_MAX));
	for (size_t at = 0; at < PACKETS;) {
		uint64_t count = 1 + pick(&world, burst_max);
		if (count > PACKETS - at)
			count = PACKETS - at;
		run_burst(&world, at, (uint16_t)count);
		at += count;
		between_bursts(&world, at);
		if (chance(&world, burst_max > 8 ? 10 : 1))
			check_structures(&world, at);
	}
	uint64_t end_ns = world.time_ns + pick(&world, 3000 * MS);
	end_ns -= end_ns % world.grain_ns;
	conntrack_finish(world.tracker, end_ns);
	conntrack_oracle_advance(&world.oracle, end_ns);
	check_structures(&world, PACKETS);
	check_books(&world);
	conntrack_purge(world.tracker, NULL, NULL);
	conntrack_oracle_purge(&world.oracle, 0);
	check_structures(&world, PACKETS);
	check_books(&world);
	world_destroy(&world);
}

static void tracker_agrees_with_the_oracle(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++)
		run_world((struct variant){ 0 }, seed, false);
}

static void a_full_table_keeps_its_books_and_bounds(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_world((struct variant){ 0 }, seed, true);
}

/* A strategy that compares times on lookup gives what the oracle gives, packet by packet, whenever
 * it removes: in every table. */
static void every_table_agrees_with_the_oracle(void **state)
{
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
	(void)state;
	for (size_t i = 0; (table = tables_under_test_at(i)) != NULL; i++) {
		for (size_t j = 0; (deletion = conntrack_deletion_at(j)) != NULL; j++) {
			struct variant variant = { table, deletion };
			for (uint64_t seed = 1; seed <= SEEDS && !deletion->stale_hits; seed++)
				run_world(variant, 1000 * i + 100 * j + seed, false);
		}
	}
}

static void every_strategy_keeps_books_and_bounds_when_full(void **state)
{
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
	(void)state;
	for (size_t i = 0; (table = tables_under_test_at(i)) != NULL; i++) {
		for (size_t j = 0; (deletion = conntrack_deletion_at(j)) != NULL; j++) {
			struct variant variant = { table, deletion };
			for (uint64_t seed = 1; seed <= SEEDS; seed++)
				run_world(variant, 1000 * i + 100 * j + seed, true);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tracker_agrees_with_the_oracle),
		cmocka_unit_test(a_full_table_keeps_its_books_and_bounds),
		cmocka_unit_test(every_table_agrees_with_the_oracle),
		cmocka_unit_test(every_strategy_keeps_books_and_bounds_when_full),
	};
	return cmocka_run_group_tests(tests, tables_under_test_start, NULL);
}
