/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/collect.h"

static struct collect_sample sample_of(uint64_t cycles)
{
	struct collect_sample sample = { .packets = 100, .wire_bytes = 10000 };
	sample.cycles.total = cycles;
	sample.cycles.parse = cycles / 2;
	sample.elapsed_cycles = cycles;
	return sample;
}

static void cost_is_the_median_and_spread_the_range_over_it(void **)
{
	struct collect_sample samples[3] = { sample_of(3000), sample_of(1000), sample_of(2000) };
	struct pipeline_cost cost = { 0 };
	for (uint64_t i = 0; i < 3; i++)
		samples[i].start_cycles = 5000 + 4000 * i;
	collect_cost(&cost, samples, 3, 4000, 1000.0);
	assert_float_equal(cost.total, 20.0, 1e-9);
	assert_float_equal(cost.parse, 10.0, 1e-9);
	assert_float_equal(cost.spread, 1.0, 1e-9);
	assert_float_equal(cost.elapsed_s, 2.0, 1e-9);
	assert_float_equal(cost.packets_per_s, 50.0, 1e-9);
	assert_float_equal(cost.bits_per_s, 40000.0, 1e-9);
	/* the repeats themselves stay in order */
	assert_float_equal(cost.repeat_total[1], 10.0, 1e-9);
	assert_float_equal(cost.repeat_began_s[0], 1.0, 1e-9);
	assert_float_equal(cost.repeat_began_s[2], 9.0, 1e-9);
}

static void no_packets_cost_nothing_and_divide_by_nothing(void **)
{
	struct collect_sample samples[1] = { 0 };
	struct pipeline_cost cost = { 0 };
	collect_cost(&cost, samples, 1, 0, 1000.0);
	assert_float_equal(cost.total, 0.0, 0.0);
	assert_float_equal(cost.packets_per_s, 0.0, 0.0);
}

static void the_fingerprint_sees_a_changed_drop_count(void **)
{
	struct pipeline_result *result = calloc(1, sizeof(*result));
	struct pipeline_config config = { .workers = 1 };
	collect_reset(result);
	uint64_t before = collect_fingerprint(result, &config);
	result->books.dropped[BASE_DROP_ROUTER_TTL]++;
	assert_true(collect_fingerprint(result, &config) != before);
	free(result);
}

/* When a connection was removed is not the same in two runs that share; whether it was, is. */
static void the_fingerprint_of_a_shared_run_forgets_moments_alone(void **)
{
	struct pipeline_result *result = calloc(1, sizeof(*result));
	struct pipeline_config config = { .workers = 2 };
	for (int kind = 0; kind < PIPELINE_SHARING_KINDS_COUNT; kind++) {
		config.sharing = (enum pipeline_sharing_kind)kind;
		collect_reset(result);
		uint64_t before = collect_fingerprint(result, &config);
		result->conntrack.peak_live++;
		result->conntrack.timers_fired++;
		bool same = collect_fingerprint(result, &config) == before;
		bool moments = kind == PIPELINE_SHARING_SHARD || kind == PIPELINE_SHARING_HANDOVER;
		assert_true(same == !moments);
		before = collect_fingerprint(result, &config);
		result->conntrack.expired++;
		assert_true(collect_fingerprint(result, &config) != before);
	}
	free(result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_is_the_median_and_spread_the_range_over_it),
		cmocka_unit_test(no_packets_cost_nothing_and_divide_by_nothing),
		cmocka_unit_test(the_fingerprint_sees_a_changed_drop_count),
		cmocka_unit_test(the_fingerprint_of_a_shared_run_forgets_moments_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
