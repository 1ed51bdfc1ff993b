/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/histogram.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void buckets_cover_all_values_in_order(void **)
{
	uint64_t low = 0;
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS; i++) {
		uint64_t high = base_histogram_bucket_high(i);
		assert_true(high >= low);
		assert_int_equal(base_histogram_index(low), i);
		assert_int_equal(base_histogram_index(high), i);
		assert_true(high - low <= low / 32); /* 3.2 % */
		low = high + 1;
	}
	assert_true(low == 0); /* the last bucket ends at the largest value */
}

static void small_values_are_exact(void **)
{
	struct base_histogram h;
	base_histogram_reset(&h);
	for (uint64_t value = 0; value < 64; value++)
		base_histogram_add(&h, value);
	assert_int_equal(base_histogram_quantile(&h, 0.0), 0);
	assert_int_equal(base_histogram_quantile(&h, 0.5), 31);
	assert_int_equal(base_histogram_quantile(&h, 1.0), 63);
	assert_int_equal(h.sum, 63 * 64 / 2);
}

static void empty_histogram_answers_zero(void **)
{
	struct base_histogram h;
	base_histogram_reset(&h);
	assert_int_equal(base_histogram_quantile(&h, 0.5), 0);
	assert_true(h.min == UINT64_MAX && h.max == 0);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void quantiles_stay_within_the_promised_error(void **)
{
	enum { COUNT = 5000 };
	static uint64_t values[COUNT];
	static const double quantiles[] = { 0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0 };
	struct base_histogram h;
	struct base_rng rng;
	base_rng_seed(&rng, 6);
	base_histogram_reset(&h);
	for (int i = 0; i < COUNT; i++) {
		values[i] = base_rng_u64(&rng) >> base_rng_below(&rng, 64);
		base_histogram_add(&h, values[i]);
	}
	qsort(values, COUNT, sizeof(values[0]), compare);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		double exact_rank = quantiles[i] * COUNT;
		size_t rank = (size_t)exact_rank;
		rank += (double)rank < exact_rank || rank == 0;
		uint64_t exact = values[rank - 1], got = base_histogram_quantile(&h, quantiles[i]);
		assert_true(got >= exact && got - exact <= exact / 32);
	}
	assert_true(base_histogram_quantile(&h, 1.0) == values[COUNT - 1]);
	assert_true(base_histogram_quantile(&h, 7.0) == values[COUNT - 1]);
	assert_true(h.min == values[0] && h.max == values[COUNT - 1] && h.count == COUNT);
}

static void merging_equals_adding_everything_to_one(void **)
{
	struct base_histogram a, b, all;
	struct base_rng rng;
	base_rng_seed(&rng, 7);
	base_histogram_reset(&a);
	base_histogram_reset(&b);
	base_histogram_reset(&all);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = base_rng_u64(&rng) >> base_rng_below(&rng, 64);
		uint64_t n = base_rng_below(&rng, 3);
		if (n == 0)
			continue;
		base_histogram_add_n(i % 3 != 0 ? &a : &b, value, n);
		base_histogram_add_n(&all, value, n);
	}
	base_histogram_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(a));
	base_histogram_reset(&b);
	base_histogram_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_cover_all_values_in_order),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(empty_histogram_answers_zero),
		cmocka_unit_test(quantiles_stay_within_the_promised_error),
		cmocka_unit_test(merging_equals_adding_everything_to_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
