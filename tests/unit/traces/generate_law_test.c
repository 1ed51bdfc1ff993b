/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "traces/generate.h"

#include <math.h>

static const struct traces_law_term terms[] = {
	{ 0.3, 0, 1 },
	{ 0.2, 0, 6 },
	{ 0.4, 0.5, 8 },
	{ 0.1, 1.5, 500 },
};
static const struct traces_law_mixture mixture = { terms, 4 };

static void mixture_cdf_and_quantile_are_inverse(void **state)
{
	(void)state;
	assert_true(traces_law_mixture_cdf(&mixture, 0) == 0);
	/* By hand: 0.3 + 0.2 / 2 + 0.4 * Phi(log(3 / 8) / 0.5) + 0.1 * Phi(log(3 / 500) / 1.5). */
	double by_hand = 0.4 + 0.4 * 0.5 * erfc(-log(3. / 8) / 0.5 / sqrt(2)) +
			 0.1 * 0.5 * erfc(-log(3. / 500) / 1.5 / sqrt(2));
	assert_true(fabs(traces_law_mixture_cdf(&mixture, 3) - by_hand) < 1e-12);
	for (double p = 0.31; p < 1; p += 0.01) {
		double x = traces_law_mixture_quantile(&mixture, p);
		assert_true(fabs(traces_law_mixture_cdf(&mixture, x) - p) < 1e-6);
	}
}

/* The sum over all whole numbers of P(X > n). */
static double mean_by_summing(uint32_t max)
{
	double whole = traces_law_mixture_cdf(&mixture, max), mean = 0;
	for (uint32_t n = 0; n < max; n++)
		mean += 1 - traces_law_mixture_cdf(&mixture, n) / whole;
	return mean;
}

static void law_has_the_mixtures_mean(void **state)
{
	(void)state;
	static struct traces_law law;
	static const uint32_t maxima[] = { 1, 2, 31, 32, 33, 1000, 1 << 20 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(maxima); i++) {
		traces_law_build(&law, &mixture, maxima[i]);
		double expected = mean_by_summing(maxima[i]);
		assert_true(fabs(traces_law_mean(&law) / expected - 1) < 0.002);
		assert_int_equal(law.last[law.bins], maxima[i]);
		assert_true(law.below[law.bins] == 1);
	}
}

/* Largest distance of draws from the mixture at whole numbers. */
static double distance(const struct traces_law *law, uint32_t draws, uint64_t seed, uint32_t max)
{
	static uint32_t counts[4096];
	struct base_rng rng;
	unsigned int bin;
	double whole = traces_law_mixture_cdf(&mixture, max), worst = 0;
	base_rng_seed(&rng, seed);
	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < draws; i++) {
		uint32_t n = traces_law_draw(law, &rng, &bin);
		assert_in_range(n, 1, max);
		assert_in_range(n, law->last[bin] + 1, law->last[bin + 1]);
		counts[n < 4095 ? n : 4095]++;
	}
	uint32_t sum = 0;
	for (uint32_t n = 1; n < 4095; n++) {
		sum += counts[n];
		double off =
			fabs((double)sum / draws - traces_law_mixture_cdf(&mixture, n) / whole);
		worst = off > worst ? off : worst;
	}
	return worst;
}

static void draws_follow_the_mixture(void **state)
{
	(void)state;
	static struct traces_law law;
	traces_law_build(&law, &mixture, 1 << 20);
	enum { DRAWS = 200000 };
	/* Kolmogorov-Smirnov: above 1.95 / sqrt(n) once in 1000 seeds. */
	assert_true(distance(&law, DRAWS, 1, 1 << 20) < 1.95 / sqrt(DRAWS));
	assert_true(distance(&law, DRAWS, 2, 1 << 20) < 1.95 / sqrt(DRAWS));
}

static void shortening_and_tilting_move_what_they_say(void **state)
{
	(void)state;
	static struct traces_law law, same;
	traces_law_build(&law, &mixture, 1 << 20);
	same = law;
	traces_law_shorten(&same, 0);
	assert_memory_equal(&same, &law, sizeof(law));
	traces_law_tilt(&same, 1024, 1);
	assert_true(fabs(traces_law_mean(&same) / traces_law_mean(&law) - 1) < 1e-9);

	double one = traces_law_probability(&law, 0), mean = traces_law_mean(&law);
	traces_law_shorten(&law, 0.5);
	assert_true(fabs(traces_law_probability(&law, 0) - (0.5 * one + 0.35)) < 1e-12);
	assert_true(fabs(traces_law_mean(&law) - (0.5 * mean + 0.65)) < 1e-9);

	double above = 0;
	for (unsigned int bin = 0; bin < law.bins; bin++)
		above += law.last[bin] >= 1024 ? traces_law_probability(&law, bin) : 0;
	double sum = traces_law_tilt(&law, 1024, 3);
	assert_true(fabs(sum - (1 + 2 * above)) < 1e-9);
	double after = 0;
	for (unsigned int bin = 0; bin < law.bins; bin++)
		after += law.last[bin] >= 1024 ? traces_law_probability(&law, bin) : 0;
	assert_true(fabs(after - 3 * above / sum) < 1e-9);
}

static void quantiles_are_those_of_a_log_normal(void **state)
{
	(void)state;
	static struct traces_quantiles quantiles;
	traces_quantiles_build(&quantiles, 0.8);
	assert_true(fabs((double)quantiles.value[512] - 1) < 1e-6);
	/* Phi(1) = 0.841345: bit pattern of that quantile. */
	float one_sigma = traces_quantiles_at(&quantiles, (uint32_t)(0.841345 * 0x1.0p32));
	assert_true(fabs(log((double)one_sigma) - 0.8) < 0.002);
	assert_true(fabs(quantiles.mean / exp(0.8 * 0.8 / 2) - 1) < 0.01);
	for (int i = 0; i < TRACES_QUANTILES; i++)
		assert_true(quantiles.value[i] < quantiles.value[i + 1]);
}

static void waits_add_up_and_their_inverse_finds_the_packet(void **state)
{
	(void)state;
	static const double bursts[] = { 1, 1.6, 5.1 }, windows[] = { 1.4, 16, 64 };
	for (int i = 0; i < 9; i++) {
		double burst = bursts[i % 3], window = windows[i / 3], sum = 0;
		for (uint32_t sent = 1; sent < 3000; sent++) {
			sum += (double)traces_gen_wait(burst, window, sent);
			double waits = traces_gen_waits(burst, window, sent);
			/* The integral of what is summed. */
			assert_true(fabs(waits - sum) < 1);
			double at = traces_gen_waits_inverse(burst, window, waits);
			assert_true(fabs(at - sent) < 1e-6 * sent + 1e-6);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixture_cdf_and_quantile_are_inverse),
		cmocka_unit_test(law_has_the_mixtures_mean),
		cmocka_unit_test(draws_follow_the_mixture),
		cmocka_unit_test(shortening_and_tilting_move_what_they_say),
		cmocka_unit_test(quantiles_are_those_of_a_log_normal),
		cmocka_unit_test(waits_add_up_and_their_inverse_finds_the_packet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
