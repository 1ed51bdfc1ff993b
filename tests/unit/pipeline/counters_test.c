/* SPDX-License-Identifier: BSD-2-Clause */
/* Hardware counters before a kernel that misbehaves in every way that it may, and before Linux. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "pipeline/bench_deletion.h"
#include "pipeline/bench_lb.h"
#include "pipeline/bench_sharing.h"
#include "pipeline/bench_tables.h"
#include "pipeline/counters.h"
#include "tests/support/fake_counters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void work(struct fake_counters *fake, uint64_t amount)
{
	for (unsigned int i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		fake->values[i] += amount * (i + 1);
}

/* Opens, works in two spans with something between them that is not counted, and closes. */
static void count(struct fake_counters *fake, struct counters_sum *sum)
{
	struct counters counters;
	*sum = (struct counters_sum){ .operations = 0 };
	counters_open(&counters, &fake->kernel);
	for (int span = 0; span < 2; span++) {
		counters_begin(&counters);
		work(fake, 1000);
		counters_end(&counters, sum, 50);
		work(fake, 77);
	}
	counters_close(&counters);
	assert_int_equal(fake->opens, fake->closes);
}

static void expect_why(const struct counters_sum *sum, const char *expected)
{
	char why[COUNTERS_WHY_SIZE];
	counters_why(sum, why);
	assert_string_equal(why, expected);
}

/* Nothing counted, all for one reason. */
static void expect_nothing(struct fake_counters *fake, const char *expected)
{
	struct counters_sum sum;
	count(fake, &sum);
	assert_false(counters_any(&sum));
	expect_why(&sum, expected);
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		assert_true(counters_per_operation(&sum, i) == 0);
}

static void spans_are_counted_and_nothing_else(void **state)
{
	struct fake_counters fake;
	struct counters_sum sum;
	(void)state;
	fake_counters_init(&fake);
	count(&fake, &sum);
	assert_int_equal(sum.operations, 100);
	assert_true(fake.all_user_mode);
	assert_true(counters_any(&sum));
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		assert_int_equal(counters_error(&sum, i), 0);
		assert_int_equal(sum.values[i], 2000 * (i + 1)); /* the reads' own are not in it */
		assert_true(counters_per_operation(&sum, i) == 20.0 * (i + 1));
	}
	expect_why(&sum, "");
}

static void every_error_of_open_has_a_reason(void **state)
{
	static const struct {
		int error;
		const char *why;
	} cases[] = {
		{ -ENOENT, "no such hardware counters on this machine (ENOENT)" },
		{ -ENODEV, "no such hardware counters on this machine (ENODEV)" },
		{ -EOPNOTSUPP, "no such hardware counters on this machine (EOPNOTSUPP)" },
		{ -ENOSYS, "no such hardware counters on this machine (ENOSYS)" },
		{ -EACCES, "not allowed, see /proc/sys/kernel/perf_event_paranoid (EACCES)" },
		{ -EPERM, "not allowed, see /proc/sys/kernel/perf_event_paranoid (EPERM)" },
		{ -EBUSY, "the processor has no counter free for it (EBUSY)" },
		{ -EMFILE, "Too many open files (EMFILE)" },
	};
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		struct fake_counters fake;
		fake_counters_init(&fake);
		for (unsigned int k = 0; k < COUNTERS_EVENTS_COUNT; k++)
			fake.refuse[k] = cases[i].error;
		expect_nothing(&fake, cases[i].why);
		assert_int_equal(fake.reads, 0);
	}
}

static void events_that_are_missing_are_left_out(void **state)
{
	struct fake_counters fake;
	struct counters_sum sum;
	(void)state;
	fake_counters_init(&fake);
	fake.refuse[COUNTERS_INSTRUCTIONS] = -ENOENT; /* another one leads */
	fake.refuse[COUNTERS_L1D_MISSES] = -EINVAL;
	fake.refuse[COUNTERS_DTLB_MISSES] = -ENOENT;
	count(&fake, &sum);
	assert_true(counters_any(&sum));
	assert_int_equal(sum.values[COUNTERS_CYCLES], 4000);
	assert_int_equal(sum.values[COUNTERS_BRANCH_MISSES], 12000);
	assert_int_equal(sum.values[COUNTERS_L1D_MISSES], 0);
	assert_int_equal(counters_error(&sum, COUNTERS_L1D_MISSES), -EINVAL);
	expect_why(&sum, "instructions, dtlb_misses: no such hardware counters on this machine "
			 "(ENOENT); l1d_misses: the processor has no counter free for it (EINVAL)");
}

static void a_group_that_never_runs_loses_its_last_events(void **state)
{
	(void)state;
	for (unsigned int room = 1; room < COUNTERS_EVENTS_COUNT; room++) {
		struct fake_counters fake;
		struct counters_sum sum;
		fake_counters_init(&fake);
		fake.room = room;
		count(&fake, &sum);
		for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
			assert_int_equal(counters_error(&sum, i), i < room ? 0 : -EBUSY);
			assert_int_equal(sum.values[i], i < room ? 2000 * (i + 1) : 0);
		}
	}
}

static void what_did_not_count_all_the_time_is_refused(void **state)
{
	struct fake_counters fake;
	(void)state;
	for (unsigned int percent = 1; percent <= 99; percent += 49) {
		fake_counters_init(&fake);
		fake.idle_percent = percent;
		expect_nothing(&fake, "did not count all the time: others use the counters");
	}
	fake_counters_init(&fake);
	fake.idle_percent = 100; /* not even one event alone */
	expect_nothing(&fake, "the processor has no counter free for it (EBUSY)");
}

static void answers_that_make_no_sense_are_refused(void **state)
{
	static const char strange[] = "the kernel's answer is not what was asked for";
	struct fake_counters fake;
	(void)state;
	for (size_t bytes = 1; bytes <= 24 + COUNTERS_EVENTS_COUNT * 16; bytes++) {
		fake_counters_init(&fake);
		fake.short_by = bytes;
		expect_nothing(&fake, strange);
	}
	fake_counters_init(&fake);
	fake.strange_id = true;
	expect_nothing(&fake, strange);
	fake_counters_init(&fake);
	fake.same_ids = true;
	expect_nothing(&fake, strange);
	fake_counters_init(&fake);
	fake.events_surplus = 1;
	expect_nothing(&fake, strange);
	fake.events_surplus = UINT64_MAX - COUNTERS_EVENTS_COUNT + 1; /* none */
	expect_nothing(&fake, strange);
	fake_counters_init(&fake);
	fake.backwards = true;
	expect_nothing(&fake, strange);
}

static void errors_behind_open_have_a_reason(void **state)
{
	struct fake_counters fake;
	(void)state;
	fake_counters_init(&fake);
	fake.identify_error = -ENOTTY;
	expect_nothing(&fake, "Inappropriate ioctl for device (ENOTTY)");
	fake_counters_init(&fake);
	fake.enable_error = -EACCES;
	expect_nothing(&fake, "not allowed, see /proc/sys/kernel/perf_event_paranoid (EACCES)");
	fake_counters_init(&fake);
	fake.read_error = -ENOSPC;
	expect_nothing(&fake, "the processor has no counter free for it (ENOSPC)");
}

static void one_bad_read_spoils_the_sum(void **state)
{
	struct fake_counters fake;
	struct counters counters;
	struct counters_sum sum = { .operations = 0 };
	(void)state;
	fake_counters_init(&fake);
	counters_open(&counters, &fake.kernel);
	for (int span = 0; span < 3; span++) {
		counters_begin(&counters);
		work(&fake, 10);
		fake.read_error = span == 1 ? -EIO : 0;
		counters_end(&counters, &sum, 1);
		fake.read_error = 0;
	}
	counters_close(&counters);
	assert_false(counters_any(&sum));
	expect_why(&sum, "the kernel's answer is not what was asked for");
}

static void nobody_asked_and_nothing_ran(void **state)
{
	struct counters counters;
	struct counters_sum sum = { .operations = 0 };
	(void)state;
	expect_why(&sum, "nothing was counted");
	counters_open(&counters, NULL);
	assert_false(counters_work(&counters));
	counters_begin(&counters);
	counters_end(&counters, &sum, 10);
	counters_close(&counters);
	expect_why(&sum, "turned off");
}

static void sums_of_threads_lack_what_one_lacks(void **state)
{
	struct fake_counters whole, part;
	struct counters_sum sum, other;
	(void)state;
	fake_counters_init(&whole);
	fake_counters_init(&part);
	part.refuse[COUNTERS_LLC_MISSES] = -ENOENT;
	count(&whole, &sum);
	count(&part, &other);
	counters_add(&sum, &other);
	assert_int_equal(sum.operations, 200);
	assert_int_equal(sum.values[COUNTERS_CYCLES], 8000);
	assert_true(counters_per_operation(&sum, COUNTERS_CYCLES) == 40);
	expect_why(&sum, "llc_misses: no such hardware counters on this machine (ENOENT)");
}

/* Six reasons, each as long as they come: still one line. */
static void the_longest_reason_fits(void **state)
{
	static const int errors[] = { -EACCES, -EPERM, -EBUSY, -EINVAL, -ENOSPC, -EOPNOTSUPP };
	struct counters_sum sum = { .operations = 1, .enabled_ns = 1, .running_ns = 1 };
	char why[COUNTERS_WHY_SIZE];
	(void)state;
	for (unsigned int i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		sum.errors[i] = errors[i];
	counters_why(&sum, why);
	assert_true(strlen(why) < COUNTERS_WHY_SIZE - 1);
	assert_non_null(strstr(why, "branch_misses: no such"));
	assert_null(strchr(why, '\n'));
}

static void tables_are_counted_behind_what_is_timed(void **state)
{
	struct fake_counters fake;
	struct bench_tables_options options;
	struct bench_tables_result result;
	(void)state;
	fake_counters_init(&fake);
	bench_tables_options_defaults(&options);
	options.tables[0] = conntrack_table_by_name("bucket");
	options.entries[0] = 1024;
	options.loads[0] = 0.5;
	options.tables_count = options.entries_count = options.loads_count = 1;
	options.hit_ratios_count = 2;
	options.repeats = 2;
	options.no_huge = true;
	options.counters = &fake.kernel;
	assert_int_equal(bench_tables_run(&options, &result, NULL, NULL, NULL), 0);
	assert_int_equal(fake.opens, fake.closes);
	const struct bench_tables_cell *cell = bench_tables_cell_at(&result, 0, 0, 0);
	for (unsigned int i = 0; i < 2; i++) {
		const struct counters_sum *counted = &cell->lookup[i].counted;
		assert_true(counted->operations > 0);
		assert_int_equal(counted->enabled_ns,
			counted->operations / options.burst * FAKE_COUNTERS_STEP_NS);
		assert_int_equal(cell->lookup[i].count, 2); /* timed as ever */
	}
	/* Half of the connections leave, and as many come: every other burst behind a lookup. */
	assert_int_equal(cell->remove.counted.operations, 2 * 256);
	assert_int_equal(cell->insert.counted.operations + cell->open.counted.operations, 2 * 256);
	assert_true(cell->insert.counted.operations > 0 && cell->open.counted.operations > 0);
	assert_int_equal(cell->fill.counted.operations, 0);
	assert_int_equal(cell->insert.count, 2);
	assert_int_equal(counters_error(&result.counted, COUNTERS_CYCLES), 0);
	bench_tables_release(&result);
}

static void deletion_is_counted_in_a_pass_of_its_own(void **state)
{
	struct fake_counters fake;
	struct bench_deletion_options options;
	(void)state;
	fake_counters_init(&fake);
	bench_deletion_options_defaults(&options);
	options.strategies = 1;
	options.packets = 5000;
	options.due = 0;
	options.repeats = 2;
	options.no_judge = true;
	options.counters = &fake.kernel;
	struct bench_deletion_result *result = calloc(1, sizeof(*result));
	assert_non_null(result);
	assert_int_equal(bench_deletion_run(&options, result, NULL, NULL, NULL), 0);
	assert_int_equal(fake.opens, fake.closes);
	const struct counters_sum *counted = &result->rows[0].counted;
	assert_int_equal(counted->operations, result->counted_packets);
	assert_int_equal(counters_error(counted, COUNTERS_DTLB_MISSES), 0);
	assert_int_equal(counters_error(&result->counted, COUNTERS_DTLB_MISSES), 0);
	assert_true(result->rows[0].cost.total > 0);
	free(result);
}

static void sharing_is_counted_by_each_worker(void **state)
{
	struct fake_counters fake;
	struct bench_sharing_options options;
	(void)state;
	fake_counters_init(&fake);
	bench_sharing_options_defaults(&options);
	options.models = 1;
	options.workers_count = 1; /* the fake knows one thread */
	options.flows = 100;
	options.packets = 2000;
	options.rounds = 3;
	options.counters = &fake.kernel;
	struct bench_sharing_result *result = calloc(1, sizeof(*result));
	assert_non_null(result);
	assert_int_equal(bench_sharing_run(&options, result, NULL), 0);
	assert_int_equal(fake.opens, fake.closes);
	assert_int_equal(fake.opens, 3 * COUNTERS_EVENTS_COUNT); /* not in the judged pass */
	const struct counters_sum *counted = &result->rows[0].counted;
	assert_int_equal(counted->operations, 3 * 2000);
	assert_int_equal(counted->enabled_ns, 3 * FAKE_COUNTERS_STEP_NS);
	assert_int_equal(counters_error(&result->counted, COUNTERS_CYCLES), 0);
	free(result);
}

/* Counters are read in passes of their own, and what they say is per packet. */
static void a_benchmark_counts_beside_what_it_times(void **state)
{
	struct fake_counters fake;
	struct bench_lb_options options;
	(void)state;
	fake_counters_init(&fake);
	bench_lb_options_defaults(&options);
	options.flows = 50;
	options.packets = 1000;
	options.repeats = 2;
	options.policies = 1;
	options.flood = 1;
	options.counters = &fake.kernel;
	struct bench_lb_result *result = calloc(1, sizeof(*result));
	assert_non_null(result);
	assert_int_equal(bench_lb_run(&options, result, NULL), 0);
	assert_int_equal(fake.opens, fake.closes);
	const struct bench_lb_row *row = &result->rows[0];
	assert_int_equal(row->calm.counted.operations, 1000);
	assert_int_equal(row->flood.counted.operations, 1000 + result->flood_packets);
	/* A read before and one behind each burst of 64. */
	uint64_t bursts = (1000 + 63) / 64;
	assert_int_equal(row->calm.counted.enabled_ns, bursts * FAKE_COUNTERS_STEP_NS);
	assert_int_equal(counters_error(&row->calm.counted, COUNTERS_CYCLES), 0);
	assert_int_equal(counters_error(&result->counted, COUNTERS_CYCLES), 0);
	free(result);
}

/* Linux's system calls, with the events replaced by one that needs no hardware. */
static int open_task_clock(void *context, const struct perf_event_attr *attributes, int group)
{
	struct perf_event_attr other = *attributes;
	other.type = PERF_TYPE_SOFTWARE;
	other.config = PERF_COUNT_SW_TASK_CLOCK;
	return counters_linux()->open(context, &other, group);
}

static void linux_counts(void **state)
{
	struct counters_kernel kernel = *counters_linux();
	struct counters counters;
	struct counters_sum sum = { .operations = 0 };
	char why[COUNTERS_WHY_SIZE];
	(void)state;
	kernel.open = open_task_clock;
	counters_open(&counters, &kernel);
	counters_begin(&counters);
	uint64_t number = 1;
	for (int i = 0; i < 3000000; i++)
		number = number * 6364136223846793005 + (number >> 60);
	counters_end(&counters, &sum, number != 0);
	counters_close(&counters);
	counters_why(&sum, why);
	if (!counters_any(&sum)) {
		print_message("no software counters either: %s\n", why);
		skip();
	}
	assert_string_equal(why, "");
	for (unsigned int i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		/* three million dependent multiplications */
		assert_in_range(sum.values[i], 1000000, UINT64_C(60000000000));
		assert_in_range(sum.enabled_ns, sum.values[i] / 2, 2 * sum.values[i]);
	}
}

/* Whatever the machine: counted, or a reason, and never a zero that passes for one. */
static void this_machine_counts_or_says_why(void **state)
{
	struct counters counters;
	struct counters_sum sum = { .operations = 0 };
	char why[COUNTERS_WHY_SIZE];
	(void)state;
	counters_open(&counters, counters_linux());
	counters_begin(&counters);
	uint64_t number = 1;
	for (int i = 0; i < 100000; i++)
		number = number * 6364136223846793005 + (number >> 60);
	counters_end(&counters, &sum, number != 0);
	counters_close(&counters);
	counters_why(&sum, why);
	print_message("hardware counters: %s\n", why[0] == '\0' ? "all" : why);
	assert_true(counters_any(&sum) || why[0] != '\0');
	if (counters_error(&sum, COUNTERS_INSTRUCTIONS) == 0)
		assert_in_range(sum.values[COUNTERS_INSTRUCTIONS], 100000, 10000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_are_counted_and_nothing_else),
		cmocka_unit_test(every_error_of_open_has_a_reason),
		cmocka_unit_test(events_that_are_missing_are_left_out),
		cmocka_unit_test(a_group_that_never_runs_loses_its_last_events),
		cmocka_unit_test(what_did_not_count_all_the_time_is_refused),
		cmocka_unit_test(answers_that_make_no_sense_are_refused),
		cmocka_unit_test(errors_behind_open_have_a_reason),
		cmocka_unit_test(one_bad_read_spoils_the_sum),
		cmocka_unit_test(nobody_asked_and_nothing_ran),
		cmocka_unit_test(sums_of_threads_lack_what_one_lacks),
		cmocka_unit_test(the_longest_reason_fits),
		cmocka_unit_test(a_benchmark_counts_beside_what_it_times),
		cmocka_unit_test(tables_are_counted_behind_what_is_timed),
		cmocka_unit_test(deletion_is_counted_in_a_pass_of_its_own),
		cmocka_unit_test(sharing_is_counted_by_each_worker),
		cmocka_unit_test(linux_counts),
		cmocka_unit_test(this_machine_counts_or_says_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
