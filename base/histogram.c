/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/histogram.h"

#include <string.h>

void base_histogram_reset(struct base_histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->min = UINT64_MAX;
}

void base_histogram_merge(struct base_histogram *into, const struct base_histogram *from)
{
	into->count += from->count;
	into->sum += from->sum;
	if (from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t base_histogram_bucket_high(unsigned int index)
{
	if (index < 64)
		return index;
	unsigned int log = (index - 64) / 32 + 6;
	uint64_t sub = (index - 64) % 32;
	/* The last bucket's upper neighbour would be 2^64: the sum wraps to it, then to the max. */
	return ((32 + sub + 1) << (log - 5)) - 1;
}

/* Rank of the quantile, 1-based: the smallest rank whose share of the count reaches q. */
static uint64_t quantile_rank(uint64_t count, double q)
{
	if (!(q > 0.0))
		return 1;
	if (q >= 1.0)
		return count;
	double exact = q * (double)count;
	uint64_t rank = (uint64_t)exact;
	if ((double)rank < exact)
		rank++;
	if (rank == 0)
		return 1;
	return rank < count ? rank : count;
}

uint64_t base_histogram_quantile(const struct base_histogram *histogram, double q)
{
	if (histogram->count == 0)
		return 0;
	uint64_t rank = quantile_rank(histogram->count, q), seen = 0;
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen >= rank) {
			uint64_t high = base_histogram_bucket_high(i);
			return high < histogram->max ? high : histogram->max;
		}
	}
	return histogram->max;
}
