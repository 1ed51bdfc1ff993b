/* SPDX-License-Identifier: BSD-2-Clause */
/* What every table of the laboratory promises, whatever its layout. */
#include "base/rng.h"
#include "conntrack/entry.h"
#include "tests/unit/conntrack/tables_under_test.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
	const struct conntrack_table_ops *ops;
	void *table;
	struct base_arena *arena;
	struct conntrack_table_config config;
	struct conntrack_entry *entries;
	uint32_t *hashes;
	bool *stored;
	uint8_t *seen;
	uint32_t stored_count;
	uint64_t seed;
};

static void fail_of(const struct fixture *fixture, const char *what, uint32_t at)
{
	fail_msg("table %s, entries %u, load %.2f, seed %llu: %s at %u", fixture->ops->name,
		fixture->config.entries_max, fixture->config.load,
		(unsigned long long)fixture->seed, what, at);
}

/* Indices beyond entries_max are for keys that are not there, or do not fit. */
static void setup(struct fixture *fixture, const struct conntrack_table_ops *ops,
	uint32_t entries_max, double load, uint64_t seed)
{
	uint32_t conns = entries_max + 64;
	*fixture = (struct fixture){ .ops = ops, .seed = seed };
	assert_int_equal(base_arena_create(&fixture->arena, false), 0);
	fixture->entries = base_arena_alloc(fixture->arena, conns * sizeof(*fixture->entries), 64);
	fixture->hashes = base_arena_alloc(fixture->arena, conns * sizeof(*fixture->hashes), 64);
	fixture->stored = base_arena_alloc(fixture->arena, conns, 64);
	fixture->seen = base_arena_alloc(fixture->arena, conns, 64);
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < conns; i++) {
		fixture->entries[i].key.family = 4;
		memcpy(fixture->entries[i].key.address[0], &i, sizeof(i));
		fixture->hashes[i] = (uint32_t)base_rng_u64(&rng);
	}
	fixture->config = (struct conntrack_table_config){
		.entries_max = entries_max,
		.conns_max = conns,
		.load = load,
		.salt = base_rng_u64(&rng),
		.keys = (const uint8_t *)fixture->entries,
		.key_stride = sizeof(*fixture->entries),
		.hashes = fixture->hashes,
		.no_prefetch = base_rng_below(&rng, 2) != 0,
		.arena = fixture->arena,
	};
	if (ops->create(&fixture->table, &fixture->config) != 0)
		fail_of(fixture, "cannot be created", 0);
}

static void teardown(struct fixture *fixture)
{
	fixture->ops->destroy(fixture->table);
	base_arena_destroy(fixture->arena);
}

static uint64_t mixed_of(const struct fixture *fixture, uint32_t i)
{
	return conntrack_lab_mix(fixture->config.salt, fixture->hashes[i]);
}

static int insert(struct fixture *fixture, uint32_t i)
{
	int error = fixture->ops->insert(fixture->table, mixed_of(fixture, i), i);
	if (error != 0 && error != -ENOSPC)
		fail_of(fixture, "another error than no space", i);
	if (error == 0) {
		fixture->stored[i] = true;
		fixture->stored_count++;
	}
	return error;
}

static void take(struct fixture *fixture, uint32_t i)
{
	fixture->ops->remove(fixture->table, mixed_of(fixture, i), i);
	fixture->stored[i] = false;
	fixture->stored_count--;
}

static void see(void *context, uint32_t conn)
{
	struct fixture *fixture = context;
	if (conn >= fixture->config.conns_max)
		fail_of(fixture, "an index out of range", conn);
	if (fixture->seen[conn]++ != 0)
		fail_of(fixture, "an index is there twice", conn);
}

static void check_lookups(struct fixture *fixture)
{
	const struct base_flow_key *keys[BASE_BURST_MAX];
	uint64_t mixed[BASE_BURST_MAX];
	uint32_t conns[BASE_BURST_MAX];
	unsigned int step = 1;
	for (uint32_t at = 0; at < fixture->config.conns_max;) {
		unsigned int count = 0;
		for (; count < step && at + count < fixture->config.conns_max; count++) {
			keys[count] = &fixture->entries[at + count].key;
			mixed[count] = mixed_of(fixture, at + count);
		}
		fixture->ops->find_burst(fixture->table, mixed, keys, count, conns);
		for (unsigned int k = 0; k < count; k++) {
			uint32_t expected = fixture->stored[at + k] ? at + k : BASE_CONN_NONE;
			if (conns[k] != expected)
				fail_of(fixture, "a lookup is wrong", at + k);
		}
		at += count;
		step = step * 2 > BASE_BURST_MAX ? 1 : step * 2;
	}
}

static void check(struct fixture *fixture)
{
	uint32_t count = 0;
	memset(fixture->seen, 0, fixture->config.conns_max);
	const char *wrong = fixture->ops->check(fixture->table, see, fixture);
	if (wrong != NULL)
		fail_of(fixture, wrong, 0);
	for (uint32_t i = 0; i < fixture->config.conns_max; i++) {
		if ((fixture->seen[i] != 0) != fixture->stored[i])
			fail_of(fixture, "a pair is missing, or left over", i);
		count += fixture->stored[i];
	}
	assert_int_equal(count, fixture->stored_count);
	check_lookups(fixture);
}

static void every_table_takes_as_many_as_it_must_and_no_more(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 7, 8, 9, 31, 100, 1000, 6553, 6554, 65536 };
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		for (unsigned int s = 0; s < BASE_ARRAY_COUNT(sizes); s++) {
			struct fixture fixture;
			setup(&fixture, ops, sizes[s], 0, s + 1);
			for (int round = 0; round < 2; round++) {
				check(&fixture);
				for (uint32_t i = 0; i < sizes[s]; i++) {
					if (insert(&fixture, i) != 0)
						fail_of(&fixture, "refused while there is room", i);
				}
				/* What a library does beyond that is its own. */
				for (uint32_t i = sizes[s];
					i < sizes[s] + 64 && ops->library == NULL; i++) {
					if (insert(&fixture, i) == 0)
						fail_of(&fixture, "took more than it may", i);
				}
				check(&fixture);
				for (uint32_t i = 0; i < sizes[s]; i++)
					take(&fixture, i);
			}
			check(&fixture);
			teardown(&fixture);
		}
	}
}

static void random_steps(struct fixture *fixture, unsigned int hashes_count)
{
	struct base_rng rng;
	base_rng_seed(&rng, fixture->seed);
	for (unsigned int step = 0; step < 4000; step++) {
		uint32_t i = (uint32_t)base_rng_below(&rng, fixture->config.conns_max);
		if (fixture->stored[i]) {
			take(fixture, i);
		} else {
			fixture->hashes[i] = (uint32_t)base_rng_below(&rng, hashes_count) * 77;
			(void)insert(fixture, i);
		}
		if (step % 500 == 0)
			check(fixture);
	}
	check(fixture);
}

/* Few hashes for many keys: whatever is refused, what is in can be found and taken out. */
static void colliding_hashes_do_no_harm(void **state)
{
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		for (uint64_t seed = 1; seed <= 12; seed++) {
			struct fixture fixture;
			uint32_t entries = 1 + (uint32_t)(seed * 7919 % 700);
			double load = seed % 3 == 0 ? 0.98 : 0;
			setup(&fixture, ops, entries, load, seed);
			random_steps(&fixture, 1 + (unsigned int)seed * seed);
			teardown(&fixture);
		}
	}
}

static void keys_of_one_hash_fit_up_to_a_few(void **state)
{
	enum { ALIKE = 8 };
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		struct fixture fixture;
		setup(&fixture, ops, 1000, 0, 3);
		for (uint32_t i = 0; i < 1000; i++) {
			if (i < ALIKE)
				fixture.hashes[i] = 7;
			if (insert(&fixture, i) != 0)
				fail_of(&fixture, "refused", i);
		}
		check(&fixture);
		for (uint32_t i = 0; i < ALIKE; i += 2)
			take(&fixture, i);
		check(&fixture);
		teardown(&fixture);
	}
}

/* Of a hundred insertions. Hopscotch's range of 32 is known to end at about 95 % load. */
static uint32_t refusals_allowed(const struct conntrack_table_ops *ops)
{
	bool narrow = strcmp(ops->name, "hopscotch") == 0 || ops->library != NULL;
	return narrow ? 8 : 2;
}

/* Nearly full, and full for long: hardly anything is refused, everything else is found. */
static void a_load_of_98_percent_is_borne(void **state)
{
	enum { ENTRIES = 40000, ROUNDS = 8 };
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		struct fixture fixture;
		struct base_rng rng;
		uint32_t refused = 0;
		base_rng_seed(&rng, 9);
		setup(&fixture, ops, ENTRIES, 0.98, 4);
		for (uint32_t i = 0; i < ENTRIES; i++)
			refused += insert(&fixture, i) != 0;
		check(&fixture);
		for (uint32_t step = 0; step < ROUNDS * ENTRIES; step++) {
			uint32_t i = (uint32_t)base_rng_below(&rng, ENTRIES);
			if (fixture.stored[i])
				take(&fixture, i);
			fixture.hashes[i] = (uint32_t)base_rng_u64(&rng);
			refused += insert(&fixture, i) != 0;
		}
		check(&fixture);
		if (refused > (1 + ROUNDS) * ENTRIES / 100 * refusals_allowed(ops))
			fail_of(&fixture, "refused too many", refused);
		teardown(&fixture);
	}
}

static void impossible_sizes_are_refused(void **state)
{
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		struct base_arena *arena;
		struct conntrack_entry entry = { .state = 0 };
		void *table = NULL;
		assert_int_equal(base_arena_create(&arena, false), 0);
		struct conntrack_table_config config = {
			.entries_max = 1,
			.conns_max = 2,
			.load = 1.5,
			.keys = (const uint8_t *)&entry,
			.key_stride = sizeof(entry),
			.arena = arena,
		};
		if (ops->create(&table, &config) != -EINVAL || table != NULL)
			fail_msg("table %s takes a load of 1.5", ops->name);
		base_arena_destroy(arena);
	}
}

static void neighbours_are_pairs_that_are_in(void **state)
{
	const struct conntrack_table_ops *ops;
	(void)state;
	for (size_t t = 0; (ops = tables_under_test_at(t)) != NULL; t++) {
		struct fixture fixture;
		uint32_t found = 0;
		setup(&fixture, ops, 1000, 0, 5);
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(insert(&fixture, i), 0);
		for (uint32_t i = 0; i < 1000 && ops->neighbours != NULL; i++) {
			uint32_t conns[4];
			unsigned int count = ops->neighbours(
				fixture.table, mixed_of(&fixture, i), conns, 1 + i % 4);
			if (count > 1 + i % 4)
				fail_of(&fixture, "more neighbours than asked for", i);
			for (unsigned int k = 0; k < count; k++) {
				if (conns[k] >= 1000 || !fixture.stored[conns[k]])
					fail_of(&fixture, "a neighbour is not in", i);
			}
			found += count;
		}
		if (ops->neighbours != NULL && found < 1000)
			fail_of(&fixture, "hardly any neighbours", found);
		teardown(&fixture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_table_takes_as_many_as_it_must_and_no_more),
		cmocka_unit_test(colliding_hashes_do_no_harm),
		cmocka_unit_test(keys_of_one_hash_fit_up_to_a_few),
		cmocka_unit_test(a_load_of_98_percent_is_borne),
		cmocka_unit_test(impossible_sizes_are_refused),
		cmocka_unit_test(neighbours_are_pairs_that_are_in),
	};
	return cmocka_run_group_tests(tests, tables_under_test_start, NULL);
}
