/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: how many distinct hashes were there, in 64 KiB whatever their number.
 *
 * HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007) with 64-bit hashes as Heule, Nunkesser, Hall
 * 2013 have it, read out with the estimator of Ertl (arXiv:1702.01284, 2017), which is unbiased
 * from nothing to 2^60 without tables of corrections. The hashes must be uniform: a keyed hash.
 * Cost: one byte per hash; reading out passes over all registers.
 */
#pragma once

#include <stdint.h>

enum { TRACES_SKETCH_BITS = 16, TRACES_SKETCH_REGISTERS = 1 << TRACES_SKETCH_BITS };

/* Relative: 1.04 / sqrt(registers). Fewer hashes than registers are counted more precisely. */
#define TRACES_SKETCH_STANDARD_ERROR (1.04 / 256)

/* Starts as zeros. */
struct traces_sketch {
	uint8_t registers[TRACES_SKETCH_REGISTERS];
};

static inline void traces_sketch_add(struct traces_sketch *sketch, uint64_t hash)
{
	uint8_t *place = &sketch->registers[hash >> (64 - TRACES_SKETCH_BITS)];
	/* Position of the first 1 behind the register's number; one past the end without one. */
	uint64_t rest = hash << TRACES_SKETCH_BITS | UINT64_C(1) << (TRACES_SKETCH_BITS - 1);
	uint8_t rank = (uint8_t)(__builtin_clzll(rest) + 1);
	if (rank > *place)
		*place = rank;
}

uint64_t traces_sketch_count(const struct traces_sketch *sketch);
