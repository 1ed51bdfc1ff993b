/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rng.h"
#include "conntrack/table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
	struct base_arena *arena;
	struct conntrack_table table;
	struct conntrack_entry *entries;
	uint64_t *mixed;
	bool *stored;
	uint32_t count;
};

static void setup(struct fixture *fixture, uint32_t entries_max)
{
	assert_int_equal(base_arena_create(&fixture->arena, false), 0);
	assert_int_equal(conntrack_table_init(&fixture->table, entries_max, CONNTRACK_TABLE_LOAD,
				 77, fixture->arena),
		0);
	fixture->count = entries_max;
	fixture->entries =
		base_arena_alloc(fixture->arena, entries_max * sizeof(*fixture->entries), 64);
	fixture->mixed = calloc(entries_max, sizeof(*fixture->mixed));
	fixture->stored = calloc(entries_max, sizeof(*fixture->stored));
	for (uint32_t i = 0; i < entries_max; i++) {
		fixture->entries[i].key.family = 4;
		memcpy(fixture->entries[i].key.address[0], &i, sizeof(i));
	}
}

static void teardown(struct fixture *fixture)
{
	free(fixture->mixed);
	free(fixture->stored);
	conntrack_table_release(&fixture->table);
	base_arena_destroy(fixture->arena);
}

static uint32_t find(const struct fixture *fixture, uint32_t i)
{
	return conntrack_table_find(
		&fixture->table, fixture->mixed[i], &fixture->entries[i].key, fixture->entries);
}

static void count_pair(void *context, uint32_t bucket, uint16_t tag, uint32_t index)
{
	(void)bucket;
	(void)tag;
	(void)index;
	++*(uint32_t *)context;
}

static void check(const struct fixture *fixture)
{
	uint32_t stored = 0, found = 0;
	for (uint32_t i = 0; i < fixture->count; i++) {
		assert_int_equal(find(fixture, i), fixture->stored[i] ? i : BASE_CONN_NONE);
		stored += fixture->stored[i];
	}
	for (uint32_t i = 0; i < fixture->table.buckets_count; i++) {
		const char *wrong =
			conntrack_table_check_bucket(&fixture->table, i, count_pair, &found);
		if (wrong != NULL)
			fail_msg("%s", wrong);
	}
	assert_int_equal(found, stored);
}

static void a_full_table_takes_and_finds_every_entry(void **state)
{
	(void)state;
	static const uint32_t sizes[] = { 1, 2, 7, 8, 9, 100, 6553, 6554, 65536 };
	for (unsigned int s = 0; s < BASE_ARRAY_COUNT(sizes); s++) {
		struct fixture fixture;
		struct base_rng rng;
		setup(&fixture, sizes[s]);
		base_rng_seed(&rng, s);
		assert_true(fixture.count <= fixture.table.buckets_count * 8 * 80 / 100 + 1);
		for (uint32_t i = 0; i < fixture.count; i++) {
			fixture.mixed[i] =
				conntrack_table_mix(&fixture.table, (uint32_t)base_rng_u64(&rng));
			assert_int_equal(
				conntrack_table_insert(&fixture.table, fixture.mixed[i], i), 0);
			fixture.stored[i] = true;
		}
		check(&fixture);
		teardown(&fixture);
	}
}

static void entries_of_one_bucket_fill_it_to_its_bound_and_leave_in_any_order(void **state)
{
	(void)state;
	const uint32_t bound = 8 * (1 + CONNTRACK_TABLE_LINES_MAX);
	struct fixture fixture;
	struct base_rng rng;
	base_rng_seed(&rng, 5);
	setup(&fixture, bound + 1);
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < bound; i++) {
			if (fixture.stored[i])
				continue;
			/* One bucket; tags differ, some do not. */
			fixture.mixed[i] = (i % 40) << 26;
			assert_int_equal(
				conntrack_table_insert(&fixture.table, fixture.mixed[i], i), 0);
			fixture.stored[i] = true;
		}
		assert_int_equal(conntrack_table_insert(&fixture.table, 0, bound), -ENOSPC);
		check(&fixture);
		uint64_t leave = 1 + base_rng_below(&rng, bound);
		for (uint64_t n = 0; n < leave; n++) {
			uint32_t i = (uint32_t)base_rng_below(&rng, bound);
			if (!fixture.stored[i])
				continue;
			conntrack_table_remove(&fixture.table, fixture.mixed[i], i);
			fixture.stored[i] = false;
		}
		check(&fixture);
	}
	teardown(&fixture);
}

/* The least mixed hash of a bucket, rounded up to 32 bits. */
static uint64_t first_of(const struct conntrack_table *table, uint64_t bucket)
{
	return ((bucket << 32) / table->buckets_count + 1) << 32;
}

static void overflow_lines_suffice_for_the_worst_distribution(void **state)
{
	(void)state;
	/* Nine entries in as many buckets as there are entries for, 17 in others. */
	struct fixture fixture;
	setup(&fixture, 4096);
	for (uint32_t per_bucket = 9; per_bucket <= 129; per_bucket += 8) {
		for (uint32_t i = 0; i < fixture.count; i++) {
			uint64_t bucket = i / per_bucket;
			fixture.mixed[i] = first_of(&fixture.table, bucket) | (uint64_t)(i & 0xffff)
										      << 16;
			assert_int_equal(
				conntrack_table_insert(&fixture.table, fixture.mixed[i], i), 0);
		}
		for (uint32_t i = 0; i < fixture.count; i++)
			conntrack_table_remove(&fixture.table, fixture.mixed[i], i);
		assert_int_equal(fixture.table.overflow_used, 0);
	}
	check(&fixture);
	teardown(&fixture);
}

static void random_insertions_and_removals_agree_with_a_list(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fixture fixture;
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		setup(&fixture, 1 + (uint32_t)base_rng_below(&rng, 300));
		for (int step = 0; step < 3000; step++) {
			uint32_t i = (uint32_t)base_rng_below(&rng, fixture.count);
			if (fixture.stored[i]) {
				conntrack_table_remove(&fixture.table, fixture.mixed[i], i);
				fixture.stored[i] = false;
				continue;
			}
			fixture.mixed[i] = conntrack_table_mix(
				&fixture.table, (uint32_t)base_rng_below(&rng, 40));
			if (conntrack_table_insert(&fixture.table, fixture.mixed[i], i) == 0)
				fixture.stored[i] = true;
		}
		check(&fixture);
		teardown(&fixture);
	}
}

static void vector_and_scalar_tag_comparison_agree(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 1);
	for (int i = 0; i < 20000; i++) {
		struct conntrack_table_line line = { 0 };
		uint16_t tag = conntrack_table_tag(base_rng_u64(&rng));
		for (unsigned int k = 0; k < CONNTRACK_TABLE_LINE_PAIRS; k++)
			line.tag[k] =
				base_rng_below(&rng, 3) == 0 ? tag : (uint16_t)base_rng_u64(&rng);
		assert_int_equal(conntrack_table_match(&line, tag),
			conntrack_table_match_scalar(&line, tag));
	}
}

/* Packets of one worker share the low bits of their hash (steering). */
static void hashes_that_share_their_low_bits_spread(void **state)
{
	(void)state;
	struct fixture fixture;
	setup(&fixture, 65536);
	uint32_t fullest = 0;
	for (uint32_t i = 0; i < fixture.count; i++) {
		uint64_t mixed = conntrack_table_mix(&fixture.table, i << 8 | 0x55);
		assert_int_equal(conntrack_table_insert(&fixture.table, mixed, i), 0);
		uint32_t count = conntrack_table_bucket(&fixture.table, mixed)->count;
		fullest = count > fullest ? count : fullest;
	}
	assert_true(fullest < 24);
	teardown(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_table_takes_and_finds_every_entry),
		cmocka_unit_test(entries_of_one_bucket_fill_it_to_its_bound_and_leave_in_any_order),
		cmocka_unit_test(overflow_lines_suffice_for_the_worst_distribution),
		cmocka_unit_test(random_insertions_and_removals_agree_with_a_list),
		cmocka_unit_test(vector_and_scalar_tag_comparison_agree),
		cmocka_unit_test(hashes_that_share_their_low_bits_spread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
