/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/sketch.h"

#include <math.h>

/* A register counts up to this: all bits of a hash behind the register's number are 0. */
enum { RANK_MAX = 64 - TRACES_SKETCH_BITS + 1 };

/* What the registers that are still 0 add; x is their share. x + sum of x^(2^k) 2^(k-1). */
static double sum_of_low(double x)
{
	double sum = x, before, factor = 1;
	if (x >= 1)
		return INFINITY;
	do {
		x *= x;
		before = sum;
		sum += x * factor;
		factor *= 2;
	} while (sum > before);
	return sum;
}

/* The same for those that are full; x is the share of the others. */
static double sum_of_high(double x)
{
	if (x <= 0 || x >= 1)
		return 0;
	double sum = 1 - x, before, factor = 1;
	do {
		x = sqrt(x);
		before = sum;
		factor /= 2;
		sum -= (1 - x) * (1 - x) * factor;
	} while (sum < before);
	return sum / 3;
}

uint64_t traces_sketch_count(const struct traces_sketch *sketch)
{
	const double registers = TRACES_SKETCH_REGISTERS;
	uint32_t with_rank[RANK_MAX + 1] = { 0 };
	for (int i = 0; i < TRACES_SKETCH_REGISTERS; i++)
		with_rank[sketch->registers[i]]++;
	double sum = registers * sum_of_high(1 - with_rank[RANK_MAX] / registers);
	for (int rank = RANK_MAX - 1; rank >= 1; rank--)
		sum = (sum + with_rank[rank]) / 2;
	sum += registers * sum_of_low(with_rank[0] / registers);
	return (uint64_t)llround(registers * registers / (2 * M_LN2 * sum));
}
