/* SPDX-License-Identifier: BSD-2-Clause */
/* What single tables promise beyond what all do. */
#include "base/rng.h"
#include "conntrack/entry.h"
#include "conntrack/lab.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct fixture {
	const struct conntrack_table_ops *ops;
	void *table;
	struct base_arena *arena;
	struct conntrack_table_config config;
	struct conntrack_entry *entries;
	uint32_t *hashes;
};

static void setup(struct fixture *fixture, const char *name, uint32_t entries_max)
{
	*fixture = (struct fixture){ .ops = conntrack_table_by_name(name) };
	assert_non_null(fixture->ops);
	assert_int_equal(base_arena_create(&fixture->arena, false), 0);
	fixture->entries =
		base_arena_alloc(fixture->arena, entries_max * sizeof(*fixture->entries), 64);
	fixture->hashes =
		base_arena_alloc(fixture->arena, entries_max * sizeof(*fixture->hashes), 64);
	struct base_rng rng;
	base_rng_seed(&rng, entries_max);
	for (uint32_t i = 0; i < entries_max; i++) {
		fixture->entries[i].key.family = 4;
		memcpy(fixture->entries[i].key.address[0], &i, sizeof(i));
		fixture->hashes[i] = (uint32_t)base_rng_u64(&rng);
	}
	fixture->config = (struct conntrack_table_config){
		.entries_max = entries_max,
		.conns_max = entries_max,
		.salt = 5,
		.keys = (const uint8_t *)fixture->entries,
		.key_stride = sizeof(*fixture->entries),
		.hashes = fixture->hashes,
		.arena = fixture->arena,
	};
	assert_int_equal(fixture->ops->create(&fixture->table, &fixture->config), 0);
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
	return fixture->ops->insert(fixture->table, mixed_of(fixture, i), i);
}

static void take(struct fixture *fixture, uint32_t i)
{
	fixture->ops->remove(fixture->table, mixed_of(fixture, i), i);
}

static uint32_t find(const struct fixture *fixture, uint32_t i)
{
	const struct base_flow_key *key = &fixture->entries[i].key;
	uint64_t mixed = mixed_of(fixture, i);
	uint32_t conn;
	fixture->ops->find_burst(fixture->table, &mixed, &key, 1, &conn);
	return conn;
}

static void check(const struct fixture *fixture)
{
	const char *wrong = fixture->ops->check(fixture->table, NULL, NULL);
	if (wrong != NULL)
		fail_msg("table %s: %s", fixture->ops->name, wrong);
}

/* How many keys of one hash fit is each layout's own number; a place that is given up serves the
 * next key at once. */
static void keys_of_one_hash_fit_up_to_the_layouts_bound(void **state)
{
	static const struct {
		const char *name;
		uint32_t bound;
	} rows[] = {
		{ "bucket", 136 },
		{ "growing", 136 },
		{ "cuckoo", 16 },
		{ "hopscotch", 32 },
		{ "dlht", 28 },
		{ "robin_hood", 2048 },
		{ "chaining", 4000 },
	};
	(void)state;
	for (size_t r = 0; r < BASE_ARRAY_COUNT(rows); r++) {
		struct fixture fixture;
		uint32_t bound = rows[r].bound;
		setup(&fixture, rows[r].name, 4000);
		for (uint32_t i = 0; i < 4000; i++)
			fixture.hashes[i] = 9;
		for (uint32_t i = 0; i < 4000; i++)
			assert_int_equal(insert(&fixture, i), i < bound ? 0 : -ENOSPC);
		check(&fixture);
		for (uint32_t gone = 0; gone < bound && bound < 4000; gone += 1 + bound / 16) {
			take(&fixture, gone);
			check(&fixture);
			assert_int_equal(find(&fixture, gone), BASE_CONN_NONE);
			assert_int_equal(find(&fixture, (gone + 1) % bound), (gone + 1) % bound);
			assert_int_equal(insert(&fixture, gone), 0);
			assert_int_equal(insert(&fixture, bound), -ENOSPC);
		}
		for (uint32_t i = 0; i < bound; i++)
			take(&fixture, i);
		check(&fixture);
		teardown(&fixture);
	}
}

/* Refused insertions of a key whose buckets are full must become cheap: without credit no search
 * is made. Told by what a search would have changed: nothing, but the refusal stays right, and an
 * insertion with room is not affected. */
static void cuckoo_refuses_on_and_on_and_recovers(void **state)
{
	struct fixture fixture;
	(void)state;
	setup(&fixture, "cuckoo", 4000);
	for (uint32_t i = 0; i < 3000; i++)
		assert_int_equal(insert(&fixture, i), 0);
	for (uint32_t i = 3000; i < 4000; i++)
		fixture.hashes[i] = 9;
	uint32_t refused = 0;
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 3016; i < 4000 && round > 0; i++)
			refused += insert(&fixture, i) == -ENOSPC;
		for (uint32_t i = 3000; i < 3016 && round == 0; i++)
			assert_int_equal(insert(&fixture, i), 0);
		check(&fixture);
	}
	assert_int_equal(refused, 19 * (4000 - 3016));
	for (uint32_t i = 0; i < 3016; i++)
		assert_int_equal(find(&fixture, i), i);
	take(&fixture, 3003);
	assert_int_equal(insert(&fixture, 3999), 0);
	assert_int_equal(find(&fixture, 3999), 3999);
	check(&fixture);
	teardown(&fixture);
}

static uint64_t mapped(const struct fixture *fixture)
{
	struct base_arena_stats stats;
	base_arena_stats(fixture->arena, &stats);
	return stats.allocated_bytes;
}

/* At every step of every doubling, all pairs can be found; and old arrays go back. */
static void growing_finds_everything_while_it_doubles(void **state)
{
	enum { ENTRIES = 30000 };
	struct fixture fixture;
	struct base_rng rng;
	base_rng_seed(&rng, 1);
	(void)state;
	setup(&fixture, "growing", ENTRIES);
	uint64_t start = fixture.ops->bytes(fixture.table), highest = start;
	uint64_t memory = mapped(&fixture);
	assert_true(start < 64 * 1024);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		assert_int_equal(insert(&fixture, i), 0);
		for (int look = 0; look < 8; look++) {
			uint32_t known = (uint32_t)base_rng_below(&rng, i + 1);
			assert_int_equal(find(&fixture, known), known);
		}
		if (i + 1 < ENTRIES)
			assert_int_equal(find(&fixture, i + 1), BASE_CONN_NONE);
		if (i % 997 == 0)
			check(&fixture);
		uint64_t bytes = fixture.ops->bytes(fixture.table);
		highest = bytes > highest ? bytes : highest;
	}
	check(&fixture);
	assert_int_equal(insert(&fixture, 0), -ENOSPC);
	for (uint32_t i = 0; i < ENTRIES; i++)
		assert_int_equal(find(&fixture, i), i);
	/* 4736 buckets, their overflow lines, and nothing of the arrays before. */
	uint64_t bytes = fixture.ops->bytes(fixture.table);
	assert_true(bytes < highest && bytes > 4736 * 64);
	assert_true(mapped(&fixture) - memory < bytes);
	for (uint32_t i = 0; i < ENTRIES; i++)
		take(&fixture, i);
	check(&fixture);
	teardown(&fixture);
}

/* When all pairs are in, the load is what it was made for, whatever their number, and not half of
 * it behind a doubling that the last pairs caused. */
static void growing_does_not_double_for_its_last_pairs(void **state)
{
	static const double loads[] = { 0, 0.5, 0.7, 0.95, 1 };
	(void)state;
	for (uint32_t entries = 1; entries < 40000; entries += 1 + entries / 7) {
		for (size_t l = 0; l < BASE_ARRAY_COUNT(loads); l++) {
			struct fixture fixture;
			setup(&fixture, "growing", entries);
			fixture.ops->destroy(fixture.table);
			fixture.config.load = loads[l];
			assert_int_equal(fixture.ops->create(&fixture.table, &fixture.config), 0);
			for (uint32_t i = 0; i < entries; i++)
				assert_int_equal(insert(&fixture, i), 0);
			double load = loads[l] > 0 ? loads[l] : 0.8;
			double places = entries / load;
			/* Lines of 64 bytes: eight places and, per eight pairs, one to overflow
			 * to, and per two buckets as many as a doubling may need. */
			double most = (places * 1.04 + 8 + entries + places / 2 + 64) * 8;
			if ((double)fixture.ops->bytes(fixture.table) > most + 1024)
				fail_msg("%u pairs at load %.2f: %lu bytes, expected %.0f", entries,
					load, fixture.ops->bytes(fixture.table), most);
			teardown(&fixture);
		}
	}
}

/* Removals carry a doubling on too, and pairs come and go in both arrays meanwhile. */
static void growing_bears_removals_while_it_doubles(void **state)
{
	enum { ENTRIES = 6000 };
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		static bool stored[ENTRIES];
		struct fixture fixture;
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		memset(stored, 0, sizeof(stored));
		setup(&fixture, "growing", ENTRIES);
		for (uint32_t step = 0; step < 4 * ENTRIES; step++) {
			uint32_t i = (uint32_t)base_rng_below(&rng, 1 + step / 4);
			if (stored[i] && base_rng_below(&rng, 3) == 0)
				take(&fixture, i), stored[i] = false;
			else if (!stored[i])
				assert_int_equal(insert(&fixture, i), 0), stored[i] = true;
			if (step % 50 == 0)
				check(&fixture);
		}
		for (uint32_t i = 0; i < ENTRIES; i++)
			assert_int_equal(find(&fixture, i), stored[i] ? i : BASE_CONN_NONE);
		teardown(&fixture);
	}
}

static void a_name_finds_its_table_and_no_other(void **state)
{
	const struct conntrack_table_ops *ops;
	size_t count = 0;
	(void)state;
	for (; (ops = conntrack_table_at(count)) != NULL; count++) {
		assert_ptr_equal(conntrack_table_by_name(ops->name), ops);
		assert_null(ops->library);
	}
	assert_int_equal(count, 8);
	assert_string_equal(conntrack_table_at(0)->name, "bucket");
	assert_null(conntrack_table_by_name("buckets"));
	assert_null(conntrack_table_by_name(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_one_hash_fit_up_to_the_layouts_bound),
		cmocka_unit_test(cuckoo_refuses_on_and_on_and_recovers),
		cmocka_unit_test(growing_finds_everything_while_it_doubles),
		cmocka_unit_test(growing_does_not_double_for_its_last_pairs),
		cmocka_unit_test(growing_bears_removals_while_it_doubles),
		cmocka_unit_test(a_name_finds_its_table_and_no_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
