/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rng.h"
#include "reframer/baseline_buckets.h"
#include "reframer/baseline_partition.h"
#include "tests/unit/reframer/kit.h"

#include <errno.h>

/* The kit is used for its packets only. */
static void fill(
	struct kit *kit, struct base_burst *burst, unsigned int count, const uint32_t *flows)
{
	burst->count = (uint16_t)count;
	for (unsigned int i = 0; i < count; i++)
		burst->packets[i] = kit_packet(kit, flows[i], i);
}

static void partition_joins_each_flow_at_its_first_packet(void **state)
{
	struct kit *kit = *state;
	static const uint32_t flows[] = { 1, 2, 1, 0, 3, 2, 0, 1 };
	static const unsigned int seqs[] = { 0, 2, 7, 1, 5, 3, 4, 6 };
	struct base_burst burst;
	fill(kit, &burst, 8, flows);
	reframer_partition_burst(&burst);
	assert_int_equal(burst.count, 8);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(burst.packets[i]->seq, seqs[i]);
	assert_int_equal(burst.run_count, 5);
	assert_int_equal(burst.runs[0].count, 3);
	assert_int_equal(burst.runs[1].count, 2);
}

static void partition_of_nothing_is_nothing(void **state)
{
	(void)state;
	struct base_burst burst = { .count = 0 };
	reframer_partition_burst(&burst);
	assert_int_equal(burst.count, 0);
	assert_int_equal(burst.run_count, 0);
}

/* Same packets, order within each flow kept. */
static void expect_whole_and_ordered(
	struct base_packet *const *packets, unsigned int count, unsigned int flows)
{
	uint64_t next_seq[64] = { 0 };
	bool seen[KIT_PACKETS_MAX] = { false };
	assert_true(flows < 64);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t flow;
		memcpy(&flow, packets[i]->key.address[0], sizeof(flow));
		assert_false(seen[packets[i]->seq]);
		seen[packets[i]->seq] = true;
		if (flow == 0)
			continue;
		assert_true(packets[i]->seq >= next_seq[flow]);
		next_seq[flow] = packets[i]->seq + 1;
	}
}

static void random_bursts_are_grouped_whole_and_in_order(void **state)
{
	struct kit *kit = *state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct base_rng rng;
		struct base_burst burst;
		uint32_t flows[BASE_BURST_MAX];
		base_rng_seed(&rng, seed);
		unsigned int count = 1 + (unsigned int)base_rng_below(&rng, BASE_BURST_MAX);
		unsigned int flows_count = 1 + (unsigned int)base_rng_below(&rng, 40);
		bool present[64] = { false };
		unsigned int groups = 0;
		for (unsigned int i = 0; i < count; i++) {
			flows[i] = (uint32_t)base_rng_below(&rng, flows_count);
			groups += flows[i] == 0 || !present[flows[i]];
			present[flows[i]] = true;
		}
		kit->packets_count = 0;
		fill(kit, &burst, count, flows);
		reframer_partition_burst(&burst);
		expect_whole_and_ordered(burst.packets, burst.count, flows_count);
		if (burst.count != count || burst.run_count != groups)
			fail_msg("seed %u", (unsigned int)seed);
	}
}

static void flows_with_one_hash_keep_their_order(void **state)
{
	struct kit *kit = *state;
	static const uint32_t flows[] = { 1, 2, 1, 2, 1, 3 };
	struct base_burst burst;
	fill(kit, &burst, 6, flows);
	for (unsigned int i = 0; i < 5; i++)
		burst.packets[i]->hash = 5;
	reframer_partition_burst(&burst);
	expect_whole_and_ordered(burst.packets, 6, 4);
	assert_int_equal(burst.run_count, 6);
}

static struct reframer_buckets *make_buckets(struct kit *kit, uint32_t queues, uint32_t visit)
{
	struct reframer_buckets_config config;
	struct reframer_buckets *buckets;
	reframer_buckets_config_defaults(&config);
	config.arena = kit->arena;
	config.queues_count = queues;
	config.visit_packets_max = visit;
	assert_int_equal(reframer_buckets_create(&buckets, &config), 0);
	return buckets;
}

static void backlog_is_grouped_in_turns(void **state)
{
	struct kit *kit = *state;
	static const uint32_t flows[] = { 1, 2, 1, 2, 1, 2, 1 };
	static const unsigned int seqs[] = { 0, 2, 1, 3, 4, 6, 5 };
	struct reframer_buckets *buckets = make_buckets(kit, 1024, 2);
	struct base_burst burst;
	fill(kit, &burst, 7, flows);
	reframer_buckets_push_burst(buckets, burst.packets, 7);
	assert_int_equal(reframer_buckets_count(buckets), 7);
	assert_int_equal(reframer_buckets_pop_burst(buckets, &burst, 256, 99), 7);
	for (unsigned int i = 0; i < 7; i++) {
		assert_int_equal(burst.packets[i]->seq, seqs[i]);
		assert_int_equal(burst.packets[i]->release_ns, 99);
	}
	assert_int_equal(burst.run_count, 4);
	assert_int_equal(reframer_buckets_pop_burst(buckets, &burst, 256, 99), 0);
	reframer_buckets_destroy(buckets);
}

static void visit_goes_on_in_the_next_burst(void **state)
{
	struct kit *kit = *state;
	static const uint32_t flows[] = { 1, 1, 1, 1, 2, 2 };
	static const unsigned int seqs[] = { 0, 1, 2, 4, 5, 3 };
	struct reframer_buckets *buckets = make_buckets(kit, 1024, 3);
	struct base_burst burst;
	fill(kit, &burst, 6, flows);
	reframer_buckets_push_burst(buckets, burst.packets, 6);
	for (unsigned int i = 0; i < 6; i++) {
		assert_int_equal(reframer_buckets_pop_burst(buckets, &burst, 1, 0), 1);
		assert_int_equal(burst.packets[0]->seq, seqs[i]);
	}
	reframer_buckets_destroy(buckets);
}

static void buckets_lose_nothing_and_keep_order(void **state)
{
	struct kit *kit = *state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct reframer_buckets *buckets = make_buckets(
			kit, 2u << base_rng_below(&rng, 6), 1 + (uint32_t)base_rng_below(&rng, 20));
		struct base_packet *out[KIT_PACKETS_MAX];
		struct base_burst burst;
		unsigned int out_count = 0;
		kit->packets_count = 0;
		while (kit->packets_count + BASE_BURST_MAX < KIT_PACKETS_MAX) {
			uint32_t flows[BASE_BURST_MAX];
			unsigned int count = 1 + (unsigned int)base_rng_below(&rng, 256);
			for (unsigned int i = 0; i < count; i++)
				flows[i] = (uint32_t)base_rng_below(&rng, 30);
			fill(kit, &burst, count, flows);
			reframer_buckets_push_burst(buckets, burst.packets, count);
			count = (unsigned int)base_rng_below(&rng, 257);
			reframer_buckets_pop_burst(buckets, &burst, count, 0);
			memcpy(&out[out_count], burst.packets, burst.count * sizeof(out[0]));
			out_count += burst.count;
			if (out_count + reframer_buckets_count(buckets) != kit->packets_count)
				fail_msg("seed %u", (unsigned int)seed);
		}
		while (reframer_buckets_pop_burst(buckets, &burst, 100, 0) != 0) {
			memcpy(&out[out_count], burst.packets, burst.count * sizeof(out[0]));
			out_count += burst.count;
		}
		assert_int_equal(out_count, kit->packets_count);
		expect_whole_and_ordered(out, out_count, 30);
		reframer_buckets_destroy(buckets);
	}
}

static void impossible_buckets_are_refused(void **state)
{
	struct kit *kit = *state;
	struct reframer_buckets *buckets = NULL;
	struct reframer_buckets_config config;
	reframer_buckets_config_defaults(&config);
	assert_int_equal(reframer_buckets_create(&buckets, &config), -EINVAL);
	config.arena = kit->arena;
	config.queues_count = 1000;
	assert_int_equal(reframer_buckets_create(&buckets, &config), -EINVAL);
	config.queues_count = 0;
	assert_int_equal(reframer_buckets_create(&buckets, &config), -EINVAL);
	config.queues_count = 16;
	config.visit_packets_max = 0;
	assert_int_equal(reframer_buckets_create(&buckets, &config), -EINVAL);
	assert_null(buckets);
	reframer_buckets_destroy(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(partition_joins_each_flow_at_its_first_packet),
		TEST(partition_of_nothing_is_nothing),
		TEST(random_bursts_are_grouped_whole_and_in_order),
		TEST(flows_with_one_hash_keep_their_order),
		TEST(backlog_is_grouped_in_turns),
		TEST(visit_goes_on_in_the_next_burst),
		TEST(buckets_lose_nothing_and_keep_order),
		TEST(impossible_buckets_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
