/* SPDX-License-Identifier: BSD-2-Clause */
/* Distinct counts by a sketch: within the error that is stated, without a lean to either side. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "traces/sketch.h"

#include <math.h>
#include <stdlib.h>

enum { SEEDS = 16 };

static const uint64_t sizes[] = { 1, 10, 100, 1000, 10000, 65536, 163840, 330000, 1000000 };

static struct traces_sketch *sketch_new(void)
{
	struct traces_sketch *sketch = calloc(1, sizeof(*sketch));
	assert_non_null(sketch);
	return sketch;
}

static void nothing_counts_as_nothing(void **state)
{
	(void)state;
	struct traces_sketch *sketch = sketch_new();
	assert_int_equal(traces_sketch_count(sketch), 0);
	free(sketch);
}

/* Relative errors at all sizes, for one seed. Every hash comes twice: that must not show. */
static void measure(uint64_t seed, double errors[BASE_ARRAY_COUNT(sizes)])
{
	struct traces_sketch *sketch = sketch_new();
	struct base_rng rng, again;
	uint64_t count = 0;
	base_rng_seed(&rng, seed);
	base_rng_seed(&again, seed);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
		for (; count < sizes[i]; count++) {
			traces_sketch_add(sketch, base_rng_u64(&rng));
			if (count % 2 == 1)
				traces_sketch_add(sketch, base_rng_u64(&again));
		}
		errors[i] = (double)traces_sketch_count(sketch) / (double)sizes[i] - 1;
	}
	free(sketch);
}

static void errors_are_as_large_as_stated(void **state)
{
	(void)state;
	double sum[BASE_ARRAY_COUNT(sizes)] = { 0 }, squares[BASE_ARRAY_COUNT(sizes)] = { 0 };
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		double errors[BASE_ARRAY_COUNT(sizes)];
		measure(seed, errors);
		for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
			sum[i] += errors[i];
			squares[i] += errors[i] * errors[i];
			/* One in ten thousand passes four standard errors. */
			if (fabs(errors[i]) > 4 * TRACES_SKETCH_STANDARD_ERROR)
				fail_msg("seed %llu: %llu counted with an error of %f",
					(unsigned long long)seed, (unsigned long long)sizes[i],
					errors[i]);
		}
	}
	for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
		double mean = sum[i] / SEEDS, spread = sqrt(squares[i] / SEEDS);
		if (fabs(mean) > 4 * TRACES_SKETCH_STANDARD_ERROR / sqrt(SEEDS))
			fail_msg("%llu: the mean error is %f", (unsigned long long)sizes[i], mean);
		if (spread > 1.6 * TRACES_SKETCH_STANDARD_ERROR)
			fail_msg("%llu: errors spread by %f", (unsigned long long)sizes[i], spread);
		if (sizes[i] == 1000000 && spread < TRACES_SKETCH_STANDARD_ERROR / 2)
			fail_msg("the stated error is not that of this sketch: %f", spread);
	}
}

static void a_few_are_counted_exactly(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct traces_sketch *sketch = sketch_new();
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		for (uint64_t count = 1; count <= 10; count++) {
			traces_sketch_add(sketch, base_rng_u64(&rng));
			assert_int_equal(traces_sketch_count(sketch), count);
		}
		free(sketch);
	}
}

/* All bits 0 behind the register's number, and the largest ranks there are. */
static void extreme_hashes_stay_in_range(void **state)
{
	(void)state;
	struct traces_sketch *sketch = sketch_new();
	for (uint64_t i = 0; i < TRACES_SKETCH_REGISTERS; i++)
		traces_sketch_add(sketch, i << (64 - TRACES_SKETCH_BITS));
	assert_int_equal(sketch->registers[0], 64 - TRACES_SKETCH_BITS + 1);
	assert_true(traces_sketch_count(sketch) > UINT64_C(1) << 60);
	free(sketch);
	sketch = sketch_new();
	traces_sketch_add(sketch, UINT64_MAX);
	assert_int_equal(sketch->registers[TRACES_SKETCH_REGISTERS - 1], 1);
	free(sketch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_counts_as_nothing),
		cmocka_unit_test(errors_are_as_large_as_stated),
		cmocka_unit_test(a_few_are_counted_exactly),
		cmocka_unit_test(extreme_hashes_stay_in_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
