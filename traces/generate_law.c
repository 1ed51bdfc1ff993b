/* SPDX-License-Identifier: BSD-2-Clause */
/* Distributions of the generator: mixtures, whole numbers drawn from them, quantiles of gaps. */
#include "traces/generate.h"

#include <math.h>

enum { EXACT_UP_TO = 32, BINS_PER_OCTAVE = 16 };

static double normal_cdf(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

static double term_cdf(const struct traces_law_term *term, double x)
{
	if (x <= 0)
		return 0;
	if (term->sigma == 0)
		return x < term->scale ? x / term->scale : 1;
	return normal_cdf(log(x / term->scale) / term->sigma);
}

double traces_law_mixture_cdf(const struct traces_law_mixture *mixture, double x)
{
	double sum = 0, weights = 0;
	for (unsigned int i = 0; i < mixture->count; i++) {
		sum += mixture->terms[i].weight * term_cdf(&mixture->terms[i], x);
		weights += mixture->terms[i].weight;
	}
	return sum / weights;
}

double traces_law_mixture_quantile(const struct traces_law_mixture *mixture, double p)
{
	double low = 1e-3, high = 1e15;
	/* In logarithms: the numbers span many magnitudes. */
	for (int i = 0; i < 80; i++) {
		double middle = sqrt(low * high);
		if (traces_law_mixture_cdf(mixture, middle) < p)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void make_guide(struct traces_law *law)
{
	unsigned int bin = 0;
	for (unsigned int i = 0; i < TRACES_LAW_GUIDES; i++) {
		while (bin + 1 < law->bins && law->below[bin + 1] <= (double)i / TRACES_LAW_GUIDES)
			bin++;
		law->guide[i] = (uint16_t)bin;
	}
}

void traces_law_build(
	struct traces_law *law, const struct traces_law_mixture *mixture, uint32_t max)
{
	double whole = traces_law_mixture_cdf(mixture, max);
	unsigned int bins = 0;
	law->last[0] = 0;
	law->below[0] = 0;
	for (unsigned int step = 1; law->last[bins] < max; step++) {
		double edge = step;
		if (step > EXACT_UP_TO)
			edge = floor(
				EXACT_UP_TO * exp2((double)(step - EXACT_UP_TO) / BINS_PER_OCTAVE));
		uint32_t last = edge < max ? (uint32_t)edge : max;
		BASE_ASSERT(bins < TRACES_LAW_BINS_MAX);
		bins++;
		law->last[bins] = last;
		law->below[bins] = traces_law_mixture_cdf(mixture, last) / whole;
	}
	law->bins = bins;
	law->below[bins] = 1;
	make_guide(law);
}

void traces_law_shorten(struct traces_law *law, double share)
{
	static const double one = 0.7; /* the rest are two */
	for (unsigned int bin = 0; bin + 1 < law->bins; bin++)
		law->below[bin + 1] =
			(1 - share) * law->below[bin + 1] + share * (bin == 0 ? one : 1);
	make_guide(law);
}

double traces_law_tilt(struct traces_law *law, uint32_t above, double factor)
{
	double sum = 0, before = 0;
	for (unsigned int bin = 0; bin < law->bins; bin++) {
		double probability = law->below[bin + 1] - before;
		before = law->below[bin + 1];
		sum += law->last[bin] >= above ? probability * factor : probability;
		law->below[bin + 1] = sum;
	}
	for (unsigned int bin = 0; bin < law->bins; bin++)
		law->below[bin + 1] /= sum;
	make_guide(law);
	return sum;
}

double traces_law_mean(const struct traces_law *law)
{
	double mean = 0;
	for (unsigned int bin = 0; bin < law->bins; bin++)
		mean += traces_law_probability(law, bin) * traces_law_middle(law, bin);
	return mean;
}

uint32_t traces_law_draw(const struct traces_law *law, struct base_rng *rng, unsigned int *bin)
{
	double u = base_rng_unit(rng);
	unsigned int at = law->guide[(unsigned int)(u * TRACES_LAW_GUIDES)];
	while (at + 1 < law->bins && law->below[at + 1] <= u)
		at++;
	double inside = (u - law->below[at]) / traces_law_probability(law, at);
	uint32_t width = law->last[at + 1] - law->last[at];
	uint32_t offset = (uint32_t)(inside * width);
	*bin = at;
	return law->last[at] + 1 + (offset < width ? offset : width - 1);
}

/* z with P(Z <= z) = p; set-up only, so by bisection. */
static double normal_quantile(double p)
{
	double low = -10, high = 10;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (normal_cdf(middle) < p)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void traces_quantiles_build(struct traces_quantiles *quantiles, double sigma)
{
	double sum = 0;
	for (int i = 0; i <= TRACES_QUANTILES; i++) {
		double p = i == 0 ? 0.5 : i == TRACES_QUANTILES ? i - 0.5 : i;
		quantiles->value[i] = (float)exp(sigma * normal_quantile(p / TRACES_QUANTILES));
	}
	for (int i = 0; i < TRACES_QUANTILES; i++)
		sum += ((double)quantiles->value[i] + (double)quantiles->value[i + 1]) / 2;
	quantiles->mean = sum / TRACES_QUANTILES;
}
