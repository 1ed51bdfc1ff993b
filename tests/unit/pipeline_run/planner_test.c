/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan of a capture does not depend on how it is cut into batches; flows are counted up to a
 * limit. Times, gaps and steering are tested through schedules (schedule_test.c). */
#include "tests/unit/pipeline_run/test.h"

#include "base/rng.h"
#include "pipeline/planner.h"

#include <errno.h>

enum { PACKETS = 2000, FLOWS = 300 };

struct fixture {
	struct pipeline_config config;
	struct traces_trace *trace;
	const struct traces_record *records;
	const uint8_t *bytes;
	char message[PIPELINE_MESSAGE_SIZE];
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct traces_synth_options options;
	size_t count;
	traces_synth_options_defaults(&options);
	options.flows = FLOWS;
	options.packets = PACKETS;
	options.order = TRACES_ORDER_UNIFORM;
	options.start_ns = 1000;
	pipeline_config_defaults(&fixture->config);
	fixture->config.workers = 3;
	fixture->config.max_gap_ns = 500;
	fixture->config.bypass_filter = "udp[0] & 1 = 1";
	if (traces_synth_generate(&fixture->trace, &options, fixture->message) != 0)
		return -1;
	fixture->records = traces_trace_records(fixture->trace, &count);
	fixture->bytes = traces_trace_bytes(fixture->trace);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	traces_trace_destroy(fixture->trace);
	free(fixture);
	return 0;
}

/* Plan everything in batches of at most batch_max, each size drawn. */
static struct planner *plan(struct fixture *fixture, unsigned int batch_max, uint64_t flows_max,
	struct planner_step *steps)
{
	struct planner *planner;
	struct base_rng rng;
	base_rng_seed(&rng, batch_max);
	assert_int_equal(
		planner_create(&planner, &fixture->config, flows_max, fixture->message), 0);
	for (unsigned int at = 0; at < PACKETS;) {
		unsigned int count = 1 + (unsigned int)base_rng_below(&rng, batch_max);
		count = count < PACKETS - at ? count : PACKETS - at;
		assert_int_equal(planner_plan(planner, fixture->records + at, fixture->bytes, count,
					 steps + at),
			0);
		at += count;
	}
	return planner;
}

static void check_equal(const struct plan *a, const struct plan *b)
{
	assert_int_equal(a->packets, b->packets);
	assert_int_equal(a->wire_bytes, b->wire_bytes);
	assert_int_equal(a->captured_bytes, b->captured_bytes);
	assert_int_equal(a->duration_ns, b->duration_ns);
	assert_int_equal(a->period_ns, b->period_ns);
	assert_int_equal(a->time_clamped, b->time_clamped);
	assert_int_equal(a->gaps_cut, b->gaps_cut);
	assert_int_equal(a->gaps_cut_ns, b->gaps_cut_ns);
	assert_int_equal(a->flows, b->flows);
	assert_int_equal(a->cap_len_max, b->cap_len_max);
	assert_int_equal(a->wire_len_max, b->wire_len_max);
	assert_int_equal(a->epoch_ns, b->epoch_ns);
}

static void batches_of_every_size_give_the_same_plan(void **state)
{
	struct fixture *fixture = *state;
	static struct planner_step one[PACKETS], other[PACKETS];
	struct plan plan_one, plan_other;
	struct planner *planner = plan(fixture, 1, UINT64_MAX, one);
	planner_summary(planner, &plan_one);
	planner_destroy(planner);
	assert_int_equal(plan_one.packets, PACKETS);
	assert_true(plan_one.flows > FLOWS / 2);
	assert_int_equal(plan_one.epoch_ns, fixture->records[0].time_ns);
	bool marked = false, steered = false;
	for (unsigned int i = 0; i < PACKETS; i++) {
		marked = marked || one[i].flags != 0;
		steered = steered || one[i].worker != 0;
	}
	assert_true(marked && steered);
	for (unsigned int batch = 2; batch <= PLANNER_BATCH; batch += 31) {
		planner = plan(fixture, batch, UINT64_MAX, other);
		planner_summary(planner, &plan_other);
		planner_destroy(planner);
		assert_memory_equal(one, other, sizeof(one));
		check_equal(&plan_one, &plan_other);
	}
}

static void flows_are_counted_up_to_a_limit_and_no_further(void **state)
{
	struct fixture *fixture = *state;
	static struct planner_step steps[PACKETS];
	struct plan whole, limited;
	struct planner *planner = plan(fixture, 64, UINT64_MAX, steps);
	planner_summary(planner, &whole);
	planner_destroy(planner);
	assert_false(whole.flows_more);
	for (uint64_t limit = whole.flows - 1; limit <= whole.flows + 1; limit++) {
		planner = plan(fixture, 64, limit, steps);
		planner_summary(planner, &limited);
		planner_destroy(planner);
		assert_int_equal(limited.flows, limit < whole.flows ? limit : whole.flows);
		assert_int_equal(limited.flows_more, limit < whole.flows);
		assert_int_equal(limited.packets, PACKETS);
	}
	planner = plan(fixture, 64, 0, steps);
	planner_summary(planner, &limited);
	planner_destroy(planner);
	assert_int_equal(limited.flows, 0);
	assert_false(limited.flows_more);
}

static void a_filter_that_does_not_compile_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct planner *planner;
	fixture->config.bypass_filter = "no such thing";
	assert_int_equal(planner_create(&planner, &fixture->config, 0, fixture->message), -EINVAL);
	assert_non_null(strstr(fixture->message, "no such thing"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			batches_of_every_size_give_the_same_plan, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flows_are_counted_up_to_a_limit_and_no_further, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_filter_that_does_not_compile_is_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
