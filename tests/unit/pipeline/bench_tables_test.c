/* SPDX-License-Identifier: BSD-2-Clause */
/* The turns of sheaf bench tables: what they count, charge, and refuse to believe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cycles.h"
#include "pipeline/bench_tables.h"
#include "pipeline/bench_tables_turn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 1024, SPIN_CYCLES = 3000, STALL_CYCLES = 32000000 };

/* A table that counts what it is asked, around the default one; with a bound, a fault, or delays
 * when told so. One at a time, as the benchmark has them. */
static struct watched {
	const struct conntrack_table_ops *inner;
	void *table;
	uint32_t entries_max; /* 0: as asked */
	uint32_t count, asked_max;
	uint64_t keys, hits, inserts, refused, removes;
	uint64_t slow_insert, slow_remove, slow_find; /* cycles, of each */
	uint64_t stall_at;                            /* this burst of lookups takes very long */
	bool hide, alter, invent;
} watched;

static void spin(uint64_t cycles)
{
	uint64_t start = base_cycles();
	while (base_cycles() - start < cycles)
		;
}

static int watched_create(void **table, const struct conntrack_table_config *config)
{
	watched.count = 0;
	watched.asked_max = config->entries_max;
	watched.inner = conntrack_table_at(0);
	*table = &watched;
	return watched.inner->create(&watched.table, config);
}

static void watched_destroy(void *table)
{
	assert_ptr_equal(table, &watched);
	watched.inner->destroy(watched.table);
}

static uint64_t watched_bytes(const void *table)
{
	(void)table;
	return 4321;
}

static void watched_find(const void *table, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	(void)table;
	watched.inner->find_burst(watched.table, mixed, keys, count, conns);
	for (unsigned int i = 0; i < count; i++) {
		watched.keys++;
		watched.hits += conns[i] != BASE_CONN_NONE;
		if (conns[i] == BASE_CONN_NONE && watched.invent)
			conns[i] = 1;
		else if (conns[i] != BASE_CONN_NONE && watched.alter)
			conns[i] ^= 1;
		else if (watched.hide)
			conns[i] = BASE_CONN_NONE;
		spin(watched.slow_find);
	}
	if (watched.stall_at != 0 && --watched.stall_at == 0)
		spin((uint64_t)STALL_CYCLES * count);
}

static int watched_insert(void *table, uint64_t mixed, uint32_t conn)
{
	(void)table;
	watched.inserts++;
	spin(watched.slow_insert);
	int error = watched.entries_max != 0 && watched.count >= watched.entries_max
			    ? -ENOSPC
			    : watched.inner->insert(watched.table, mixed, conn);
	watched.count += error == 0;
	watched.refused += error != 0;
	return error;
}

static void watched_remove(void *table, uint64_t mixed, uint32_t conn)
{
	(void)table;
	watched.removes++;
	spin(watched.slow_remove);
	watched.inner->remove(watched.table, mixed, conn);
	watched.count--;
}

static const struct conntrack_table_ops watched_ops = {
	.name = "watched",
	.summary = "counts",
	.create = watched_create,
	.destroy = watched_destroy,
	.bytes = watched_bytes,
	.find_burst = watched_find,
	.insert = watched_insert,
	.remove = watched_remove,
};

struct fixture {
	struct bench_tables_options options;
	struct bench_tables_world world;
	struct bench_tables_cell cell;
	struct bench_tables_full full;
	char message[BENCH_TABLES_MESSAGE_SIZE];
};

static void open_world(struct fixture *f, double hit_ratio)
{
	memset(f, 0, sizeof(*f));
	memset(&watched, 0, sizeof(watched));
	bench_tables_options_defaults(&f->options);
	f->options.hit_ratios[0] = hit_ratio;
	f->options.hit_ratios_count = 1;
	f->world.message = f->message;
	assert_int_equal(bench_tables_world_create(&f->world, &f->options, PLACES, false), 0);
}

static int turn(struct fixture *f, double load)
{
	int error = bench_tables_turn(&f->world, &watched_ops, load, &f->cell);
	bench_tables_world_destroy(&f->world);
	return error;
}

static void a_turn_counts_what_the_table_did(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 0.25);
	assert_int_equal(turn(&f, 0.75), 0);
	assert_int_equal(watched.asked_max, 768);
	assert_int_equal(f.cell.pairs, 768);
	assert_int_equal(f.cell.bytes, 4321);
	assert_int_equal(f.cell.refused, 0);
	/* Half of them leave and are replaced. */
	assert_int_equal(watched.removes, 384);
	assert_int_equal(watched.inserts, 768 + 384);
	assert_int_equal(watched.count, 768);
	double share = (double)watched.hits / (double)watched.keys;
	assert_true(share > 0.24 && share < 0.26);
	assert_int_equal(f.cell.lookup[0].count, 1);
	assert_int_equal(f.cell.lookup[1].count, 0);
	assert_int_equal(f.cell.fill.count, 1);
	assert_int_equal(f.cell.insert.count, 1);
	assert_int_equal(f.cell.open.count, 1);
	assert_int_equal(f.cell.remove.count, 1);
}

static void what_is_refused_is_neither_looked_up_nor_lost(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 1);
	watched.entries_max = 500;
	assert_int_equal(turn(&f, 0.75), 0);
	assert_int_equal(f.cell.pairs, 500);
	assert_int_equal(f.cell.refused, 268);
	assert_int_equal(f.cell.refused, watched.refused);
	/* The last burst opens half of its connections behind a lookup that misses. */
	assert_true(watched.hits < watched.keys);
	assert_true(watched.keys - watched.hits <= 250);
}

/* Several, so that the lowest of them is one that other processes left alone. */
static void turns(struct fixture *f)
{
	for (int i = 0; i < 5; i++)
		assert_int_equal(bench_tables_turn(&f->world, &watched_ops, 0.5, &f->cell), 0);
	bench_tables_world_destroy(&f->world);
}

static double lowest(const struct bench_tables_cost *cost)
{
	assert_int_equal(cost->count, 5);
	return bench_tables_summarise(cost).low;
}

static void cycles_go_to_the_operation_that_took_them(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 1);
	watched.slow_insert = SPIN_CYCLES;
	turns(&f);
	assert_true(lowest(&f.cell.fill) >= SPIN_CYCLES);
	assert_true(lowest(&f.cell.insert) >= SPIN_CYCLES);
	assert_true(lowest(&f.cell.open) >= SPIN_CYCLES);
	assert_true(lowest(&f.cell.remove) < SPIN_CYCLES);
	assert_true(lowest(&f.cell.lookup[0]) < SPIN_CYCLES);

	open_world(&f, 1);
	watched.slow_remove = SPIN_CYCLES;
	turns(&f);
	assert_true(lowest(&f.cell.remove) >= SPIN_CYCLES);
	assert_true(lowest(&f.cell.insert) < SPIN_CYCLES);
	assert_true(lowest(&f.cell.open) < SPIN_CYCLES);

	open_world(&f, 1);
	watched.slow_find = SPIN_CYCLES / 10;
	turns(&f);
	assert_true(lowest(&f.cell.lookup[0]) >= SPIN_CYCLES / 10);
	assert_true(lowest(&f.cell.open) >= SPIN_CYCLES / 10);
	assert_true(lowest(&f.cell.insert) < SPIN_CYCLES / 10);
}

static void a_burst_in_which_the_cpu_was_away_is_left_out(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 1);
	watched.stall_at = 6000; /* behind the warm-up of 4096 bursts */
	assert_int_equal(turn(&f, 0.5), 0);
	assert_true(f.cell.interrupted >= 1);
	/* It alone would add as much as STALL_CYCLES over 16384. */
	assert_int_equal(f.cell.lookup[0].count, 1);
	assert_true(f.cell.lookup[0].each[0] < STALL_CYCLES / 16384.0);
}

static void a_wrong_answer_ends_the_turn(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 1);
	watched.hide = true;
	assert_int_equal(turn(&f, 0.5), -EBADMSG);
	assert_string_equal(f.message, "table watched with 512 entries at load 0.50: a lookup's "
				       "answer is not the right one (a bug)");
	open_world(&f, 1);
	watched.alter = true;
	assert_int_equal(turn(&f, 0.5), -EBADMSG);
	open_world(&f, 0);
	watched.invent = true;
	assert_int_equal(turn(&f, 0.5), -EBADMSG);
	/* Every lookup a hit: only connections that begin can tell. */
	open_world(&f, 1);
	watched.invent = true;
	assert_int_equal(turn(&f, 0.5), -EBADMSG);
	assert_non_null(strstr(f.message, "a key that was never there is found"));
}

static void a_refusal_is_charged_to_its_reason(void **state)
{
	struct fixture f;
	(void)state;
	open_world(&f, 1);
	watched.entries_max = 900;
	assert_int_equal(bench_tables_turn_full(&f.world, &watched_ops, &f.full), 0);
	bench_tables_world_destroy(&f.world);
	assert_int_equal(f.full.pairs, 900);
	assert_int_equal(f.full.first_refused, 900);
	assert_int_equal(f.full.attempts, BENCH_TABLES_SPARE);
	assert_int_equal(f.full.refused, BENCH_TABLES_SPARE);
	assert_int_equal(f.full.no_place.count, 1);
	assert_int_equal(f.full.at_bound.count, 0);

	open_world(&f, 1);
	assert_int_equal(bench_tables_turn_full(&f.world, &watched_ops, &f.full), 0);
	bench_tables_world_destroy(&f.world);
	assert_int_equal(f.full.pairs, PLACES);
	assert_int_equal(f.full.first_refused, PLACES);
	assert_int_equal(f.full.no_place.count, 0);
	assert_int_equal(f.full.at_bound.count, 1);
}

static void tables_take_turns_and_each_begins_a_round(void **state)
{
	struct bench_tables_options options;
	struct bench_tables_result result;
	(void)state;
	memset(&watched, 0, sizeof(watched));
	bench_tables_options_defaults(&options);
	options.tables[0] = conntrack_table_by_name("dlht");
	options.tables[1] = &watched_ops;
	options.tables_count = 2;
	options.entries[0] = 1000; /* rounded up */
	options.entries_count = options.loads_count = options.hit_ratios_count = 1;
	options.repeats = 2;
	options.no_huge = true;
	assert_int_equal(bench_tables_run(&options, &result, NULL, NULL, NULL), 0);
	assert_int_equal(result.options.entries[0], 1024);
	for (uint32_t table = 0; table < 2; table++) {
		assert_int_equal(bench_tables_cell_at(&result, 0, 0, table)->pairs, 512);
		assert_int_equal(bench_tables_cell_at(&result, 0, 0, table)->insert.count, 2);
		assert_int_equal(
			bench_tables_full_at(&result, 0, table)->attempts, 2 * BENCH_TABLES_SPARE);
	}
	bench_tables_release(&result);
}

struct seen {
	char order[256];
	atomic_bool stop;
	unsigned int left;
};

static void note_turn(void *context, const char *what, uint64_t done, uint64_t total)
{
	struct seen *seen = context;
	(void)done;
	(void)total;
	size_t used = strlen(seen->order);
	snprintf(seen->order + used, sizeof(seen->order) - used, "%s ", what);
	if (seen->left != 0 && --seen->left == 0)
		atomic_store(&seen->stop, true);
}

static void rounds_begin_with_another_table(void **state)
{
	struct bench_tables_options options;
	struct bench_tables_result result;
	struct seen seen = { .left = 0 };
	(void)state;
	bench_tables_options_defaults(&options);
	options.tables[0] = conntrack_table_by_name("dlht");
	options.tables[1] = conntrack_table_by_name("bucket");
	options.tables_count = 2;
	options.entries[0] = 64;
	options.entries_count = options.loads_count = options.hit_ratios_count = 1;
	options.repeats = 2;
	options.no_huge = true;
	assert_int_equal(bench_tables_run(&options, &result, &seen.stop, note_turn, &seen), 0);
	assert_string_equal(seen.order, "dlht bucket dlht bucket " /* at a load, and full */
					"bucket dlht bucket dlht ");
	bench_tables_release(&result);

	seen = (struct seen){ .left = 3 };
	assert_int_equal(bench_tables_run(&options, &result, &seen.stop, note_turn, &seen), -EINTR);
	bench_tables_release(&result);
}

static void a_summary_is_median_and_range(void **state)
{
	struct bench_tables_cost cost = { .count = 3, .each = { 9, 1, 4 } };
	(void)state;
	struct bench_tables_summary summary = bench_tables_summarise(&cost);
	assert_true(summary.median == 4 && summary.low == 1 && summary.high == 9);
	cost = (struct bench_tables_cost){ .count = 4, .each = { 9, 1, 4, 5 } };
	assert_true(bench_tables_summarise(&cost).median == 4.5);
	cost.count = 0;
	summary = bench_tables_summarise(&cost);
	assert_true(summary.median == 0 && summary.low == 0 && summary.high == 0);
}

static void what_the_machine_has_no_memory_for_is_refused(void **state)
{
	struct bench_tables_options options;
	struct bench_tables_result result;
	(void)state;
	bench_tables_options_defaults(&options);
	options.tables[0] = &watched_ops;
	options.tables_count = 1;
	options.entries[0] = UINT64_C(1) << 50;
	options.entries_count = 1;
	assert_int_equal(bench_tables_run(&options, &result, NULL, NULL, NULL), -ENOMEM);
	assert_non_null(strstr(result.message, "lower --entries"));
	bench_tables_release(&result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_counts_what_the_table_did),
		cmocka_unit_test(what_is_refused_is_neither_looked_up_nor_lost),
		cmocka_unit_test(cycles_go_to_the_operation_that_took_them),
		cmocka_unit_test(a_burst_in_which_the_cpu_was_away_is_left_out),
		cmocka_unit_test(a_wrong_answer_ends_the_turn),
		cmocka_unit_test(a_refusal_is_charged_to_its_reason),
		cmocka_unit_test(tables_take_turns_and_each_begins_a_round),
		cmocka_unit_test(rounds_begin_with_another_table),
		cmocka_unit_test(a_summary_is_median_and_range),
		cmocka_unit_test(what_the_machine_has_no_memory_for_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
