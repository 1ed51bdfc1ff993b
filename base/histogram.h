/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log-linear histogram of 64-bit values: exact below 64, then 32 sub-buckets per power of two
 * (relative error below 3.2 %). Fixed size, no allocation; one writer; merge on read.
 * Cost of an addition: about 5 cycles.
 */
#pragma once

#include <stdint.h>

enum { BASE_HISTOGRAM_BUCKETS = 64 + (64 - 6) * 32 };

struct base_histogram {
	uint64_t count;
	uint64_t sum; /* wraps; means are for display */
	uint64_t min; /* UINT64_MAX when empty */
	uint64_t max;
	uint64_t buckets[BASE_HISTOGRAM_BUCKETS];
};

static inline unsigned int base_histogram_index(uint64_t value)
{
	if (value < 64)
		return (unsigned int)value;
	unsigned int log = 63u - (unsigned int)__builtin_clzll(value);
	unsigned int sub = (unsigned int)(value >> (log - 5)) & 31u;
	return 64u + (log - 6u) * 32u + sub;
}

static inline void base_histogram_add_n(
	struct base_histogram *histogram, uint64_t value, uint64_t n)
{
	histogram->count += n;
	histogram->sum += value * n;
	if (value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->buckets[base_histogram_index(value)] += n;
}

static inline void base_histogram_add(struct base_histogram *histogram, uint64_t value)
{
	base_histogram_add_n(histogram, value, 1);
}

void base_histogram_reset(struct base_histogram *histogram);
void base_histogram_merge(struct base_histogram *into, const struct base_histogram *from);

/* Highest value of bucket `index`. */
uint64_t base_histogram_bucket_high(unsigned int index);

/* Value at quantile q in [0, 1]: the high edge of the bucket that holds it, never above max;
 * 0 when empty. */
uint64_t base_histogram_quantile(const struct base_histogram *histogram, double q);
