/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "traces/flow_table.h"

#include <stdlib.h>

enum { KEYS = 3000, STEPS = 60000 };

static struct base_flow_key key_of(uint32_t number)
{
	struct base_flow_key key = { .protocol = 17, .family = 4 };
	memcpy(key.address[0], &number, sizeof(number));
	return key;
}

/* The hash keeps few bits, so that chains are long and overlap at both ends of the slots. */
static uint32_t few_bits(uint32_t number)
{
	return (number * 2654435761u >> 7 & 63) - 32;
}

static void flows_are_found_until_they_are_removed(void **state)
{
	(void)state;
	static uint32_t index_of[KEYS];
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct traces_flow_table table;
		struct base_rng rng;
		uint32_t count = 0;
		base_rng_seed(&rng, seed);
		assert_int_equal(traces_flow_table_init(&table), 0);
		for (int i = 0; i < KEYS; i++)
			index_of[i] = TRACES_FLOW_NONE;
		uint32_t keys = seed % 2 == 1 ? KEYS : 300;
		for (int step = 0; step < STEPS; step++) {
			uint32_t number = (uint32_t)base_rng_below(&rng, keys);
			struct base_flow_key key = key_of(number);
			uint32_t hash = keys < KEYS ? few_bits(number) : number * 2654435761u;
			traces_flow_prefetch_slot(&table, hash);
			traces_flow_prefetch(&table, hash);
			uint32_t index = traces_flow_find(&table, &key, hash);
			if (index != index_of[number])
				fail_msg("seed %llu, step %d", (unsigned long long)seed, step);
			if (index == TRACES_FLOW_NONE) {
				assert_int_equal(traces_flow_table_insert(
							 &table, &key, hash, &index_of[number]),
					0);
				count++;
			} else if (base_rng_below(&rng, 3) > 0) {
				traces_flow_table_remove(&table, index);
				index_of[number] = TRACES_FLOW_NONE;
				count--;
			}
			assert_int_equal(table.count, count);
		}
		assert_true(table.given <= keys); /* indices of removed flows come again */
		traces_flow_table_destroy(&table);
	}
}

/* Slots passed over by a lookup on average, over keys of a plan. */
static double chain_length(
	const struct traces_flow_table *table, const struct traces_flow_hash *hash, uint32_t count)
{
	uint64_t passed = 0;
	for (uint32_t index = 0; index < count; index++) {
		uint32_t place = traces_flow_hash(hash, &traces_flow_at(table, index)->key);
		while (traces_flow_slot_at(table, place & table->slots_mask)->index_plus_one !=
			index + 1) {
			place++;
			passed++;
		}
	}
	return (double)passed / count;
}

/* Addresses and ports that count up, as tests, scans and NATs have them. */
static struct base_flow_key planned(int plan, uint32_t i)
{
	struct base_flow_key key = { .protocol = 6, .family = 4, .port = { 1000, 80 } };
	uint32_t low = __builtin_bswap32(0x0a000000 + i), high = __builtin_bswap32(0x0b000000 + i);
	switch (plan) {
	case 0: /* a row of clients */
		memcpy(key.address[0], &low, 4);
		break;
	case 1: /* pairs that count up together */
		memcpy(key.address[0], &low, 4);
		memcpy(key.address[1], &high, 4);
		break;
	case 2: /* one pair of hosts, all ports */
		key.port[0] = (uint16_t)i;
		key.port[1] = (uint16_t)(i >> 16);
		break;
	case 3: /* a square of addresses */
		low = __builtin_bswap32(0x0a000000 + (i & 0x1ff));
		high = __builtin_bswap32(0x0b000000 + (i >> 9));
		memcpy(key.address[0], &low, 4);
		memcpy(key.address[1], &high, 4);
		break;
	default: /* IPv6, steps of 2^64 */
		key.family = 6;
		memcpy(key.address[0] + 4, &low, 4);
		memcpy(key.address[1] + 12, &high, 4);
	}
	return key;
}

static void regular_address_plans_do_not_crowd(void **state)
{
	(void)state;
	enum { COUNT = 131072, PLANS = 5 }; /* half of the slots, the most there can be */
	for (int plan = 0; plan < PLANS; plan++) {
		for (uint64_t seed = 1; seed <= 4; seed++) {
			struct traces_flow_table table;
			struct traces_flow_hash hash;
			traces_flow_hash_init(&hash, seed);
			assert_int_equal(traces_flow_table_init(&table), 0);
			for (uint32_t i = 0; i < COUNT; i++) {
				struct base_flow_key key = planned(plan, i);
				uint32_t index;
				assert_int_equal(traces_flow_table_insert(&table, &key,
							 traces_flow_hash(&hash, &key), &index),
					0);
			}
			double length = chain_length(&table, &hash, COUNT);
			if (length > 0.7) /* 0.5 for a random function */
				fail_msg("plan %d, seed %llu: %f slots", plan,
					(unsigned long long)seed, length);
			traces_flow_table_destroy(&table);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_are_found_until_they_are_removed),
		cmocka_unit_test(regular_address_plans_do_not_crowd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
