/* SPDX-License-Identifier: BSD-2-Clause */
/* Small seedable generator (xoshiro256++, Blackman and Vigna 2019, seeded by SplitMix64). State is
 * the caller's; no global. Not for secrets. Same seed, same numbers, on every machine. */
#pragma once

#include <stdint.h>

struct base_rng {
	uint64_t state[4];
};

static inline uint64_t base_rng_splitmix64(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline void base_rng_seed(struct base_rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->state[i] = base_rng_splitmix64(&seed);
}

static inline uint64_t base_rng_u64(struct base_rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t sum = s[0] + s[3];
	uint64_t result = ((sum << 23) | (sum >> 41)) + s[0];
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = (s[3] << 45) | (s[3] >> 19);
	return result;
}

/* Uniform in [0, bound), bound >= 1 (multiply-shift; bias below bound/2^64). */
static inline uint64_t base_rng_below(struct base_rng *rng, uint64_t bound)
{
	__extension__ typedef unsigned __int128 wide;
	return (uint64_t)(((wide)base_rng_u64(rng) * bound) >> 64);
}

/* Uniform in [0, 1). */
static inline double base_rng_unit(struct base_rng *rng)
{
	return (double)(base_rng_u64(rng) >> 11) * 0x1.0p-53;
}
