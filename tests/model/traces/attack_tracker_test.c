/* SPDX-License-Identifier: BSD-2-Clause */
/* Attacks do to the connection tracker what they say. */
#include "tests/unit/traces/test.h"

#include "base/arena.h"
#include "base/parse.h"
#include "conntrack/conntrack.h"
#include "conntrack/tracker.h"
#include "traces/traces.h"

#include <stdlib.h>

enum { BURST = 64, ENTRIES = 4096 };

#define S UINT64_C(1000000000)

struct world {
	struct base_arena *arena;
	struct conntrack_config config;
	struct conntrack *tracker;
	struct base_parse_config parse;
	struct base_parser *parser;
	struct conntrack_stats stats;
	uint64_t expired_at_once; /* most that one advance removed */
	struct base_packet packets[BURST];
	struct base_burst burst;
};

static void world_open(struct world *world)
{
	assert_int_equal(base_arena_create(&world->arena, false), 0);
	world->config.arena = world->arena;
	world->config.salt = world->parse.hash.salt[0];
	assert_int_equal(conntrack_create(&world->tracker, &world->config), 0);
	assert_int_equal(base_parser_create(&world->parser, &world->parse), 0);
}

static struct world *world_create(void)
{
	struct world *world = calloc(1, sizeof(*world));
	conntrack_config_defaults(&world->config);
	base_parse_config_defaults(&world->parse);
	world->config.entries_max = ENTRIES;
	world->parse.hash.salt[0] = 77;
	world->parse.hash.salt[1] = 78;
	return world;
}

static void world_destroy(struct world *world)
{
	conntrack_destroy(world->tracker);
	base_parser_destroy(world->parser);
	base_arena_destroy(world->arena);
	free(world);
}

static void pass_burst(struct world *world)
{
	struct base_burst *burst = &world->burst;
	struct conntrack_stats before, after;
	conntrack_stats(world->tracker, &before);
	conntrack_advance(world->tracker, burst->packets[0]->time_ns, UINT32_MAX);
	conntrack_stats(world->tracker, &after);
	base_burst_mark_runs(burst, false);
	conntrack_process_burst(world->tracker, burst);
	if (after.expired - before.expired > world->expired_at_once)
		world->expired_at_once = after.expired - before.expired;
	burst->count = 0;
	burst->drop_count = 0;
}

static void attack(struct world *world, const struct traces_attack_options *options)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_packets *packets;
	struct traces_batch batch;
	assert_int_equal(traces_packets_attack(&packets, options, message), 0);
	while (traces_packets_next(packets, &batch) == 0 && batch.count > 0) {
		for (size_t i = 0; i < batch.count; i++) {
			const struct traces_record *record = &batch.records[i];
			struct base_packet *packet = &world->packets[world->burst.count];
			base_packet_reset(packet);
			packet->data = (uint8_t *)(uintptr_t)(batch.bytes + record->offset);
			packet->time_ns = record->time_ns - options->start_ns;
			packet->cap_len = packet->wire_len = record->wire_len;
			packet->link = record->link;
			assert_int_equal(base_parse_packet(world->parser, packet), BASE_PARSE_FLOW);
			world->burst.packets[world->burst.count++] = packet;
			if (world->burst.count == BURST || i + 1 == batch.count)
				pass_burst(world);
		}
	}
	traces_packets_destroy(packets);
	conntrack_stats(world->tracker, &world->stats);
}

static uint32_t bucket_of(const void *context, uint32_t hash)
{
	const struct world *world = context;
	return conntrack_bucket_of(world->config.entries_max, world->config.salt, hash);
}

/* Entries in the fullest bucket of the tracker's own table. */
static uint32_t fullest_bucket(const struct conntrack *tracker)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < tracker->table.buckets_count; i++)
		if (tracker->table.buckets[i].count > most)
			most = tracker->table.buckets[i].count;
	return most;
}

static void one_bucket_fills_one_bucket(void **state)
{
	(void)state;
	static const uint32_t flows[] = { 100, 500 };
	for (int i = 0; i < 4; i++) {
		struct world *world = world_create();
		struct traces_attack_options options;
		world->parse.hash.kind = i & 1 ? BASE_HASH_SIPHASH : BASE_HASH_CRC32C;
		world_open(world);
		traces_attack_options_defaults(&options, TRACES_ATTACK_ONE_BUCKET);
		options.flows = flows[i / 2];
		options.packets = 4 * options.flows;
		options.hash = world->parse.hash;
		options.bucket_of = bucket_of;
		options.bucket_context = world;
		attack(world, &options);
		/* A bucket holds 8 pairs in its line and as many in each of 16 more. */
		uint64_t most = 8 * 17, fit = options.flows < most ? options.flows : most;
		assert_int_equal(fullest_bucket(world->tracker), fit);
		assert_int_equal(world->stats.live, fit);
		assert_int_equal(world->stats.insert_failures != 0, options.flows > most);
		world_destroy(world);
	}
}

static void a_syn_flood_fills_the_half_open_share(void **state)
{
	(void)state;
	struct world *world = world_create();
	struct traces_attack_options options;
	world_open(world);
	traces_attack_options_defaults(&options, TRACES_ATTACK_SYN_FLOOD);
	options.flows = 20000;
	attack(world, &options);
	assert_int_equal(world->stats.peak_half_open, ENTRIES / 2);
	assert_int_equal(world->stats.state_live[CONNTRACK_STATE_TCP_SYN_SENT], ENTRIES / 2);
	assert_int_equal(world->stats.insert_failures, 20000 - ENTRIES / 2);
	world_destroy(world);
}

static void one_tick_makes_all_entries_due_at_once(void **state)
{
	(void)state;
	struct world *world = world_create();
	struct traces_attack_options options;
	world_open(world);
	traces_attack_options_defaults(&options, TRACES_ATTACK_ONE_TICK);
	options.flows = ENTRIES;
	attack(world, &options);
	assert_int_equal(world->stats.peak_live, ENTRIES);
	/* The first burst of a round ends all of the round before. */
	assert_int_equal(world->expired_at_once, ENTRIES);
	assert_int_equal(world->stats.inserted, 3 * ENTRIES);
	world_destroy(world);
}

static void keep_alives_keep_every_entry(void **state)
{
	(void)state;
	struct world *world = world_create();
	struct traces_attack_options options;
	for (int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		world->config.timeout_ns[i] = 5 * S;
	world_open(world);
	traces_attack_options_defaults(&options, TRACES_ATTACK_KEEP_ALIVE);
	options.flows = ENTRIES;
	options.period_ns = 49 * S / 10;
	attack(world, &options);
	assert_int_equal(world->stats.inserted, ENTRIES);
	assert_int_equal(world->stats.live, ENTRIES);
	assert_int_equal(world->stats.expired, 0);
	world_destroy(world);

	world = world_create();
	for (int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		world->config.timeout_ns[i] = 48 * S / 10; /* just too short: all for nothing */
	world_open(world);
	attack(world, &options);
	assert_int_equal(world->stats.inserted, 10 * ENTRIES);
	world_destroy(world);
}

static void ever_new_flows_overrun_the_table(void **state)
{
	(void)state;
	struct world *world = world_create();
	struct traces_attack_options options;
	world_open(world);
	traces_attack_options_defaults(&options, TRACES_ATTACK_EVER_NEW);
	options.flows = 10 * ENTRIES;
	attack(world, &options);
	assert_int_equal(world->stats.live, ENTRIES);
	assert_int_equal(world->stats.inserted, ENTRIES);
	assert_int_equal(world->stats.insert_failures, 9 * ENTRIES);
	assert_int_equal(world->stats.hits, 0);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_bucket_fills_one_bucket),
		cmocka_unit_test(a_syn_flood_fills_the_half_open_share),
		cmocka_unit_test(one_tick_makes_all_entries_due_at_once),
		cmocka_unit_test(keep_alives_keep_every_entry),
		cmocka_unit_test(ever_new_flows_overrun_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
