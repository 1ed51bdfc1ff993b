/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser inlines the hash; tests reach its parts. Nobody else includes this. */
#pragma once

#include "base/compiler.h"
#include "base/flow_key.h"

#include <stddef.h>

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

/* CRC32C of eight bytes without the customary inversions, as the CPU instructions compute it.
 * The table version serves CPUs without such an instruction; tests check it on all. */
uint32_t base_crc32c_u64_table(uint32_t crc, uint64_t word);
uint32_t base_crc32c_bits(uint32_t crc, const uint8_t *bytes, size_t size);

/* SipHash-c-d over any number of bytes, as in the paper. */
uint64_t base_siphash_reference(const uint8_t *bytes, size_t size, const uint64_t key[2],
	unsigned int compression_rounds, unsigned int final_rounds);

static inline uint32_t base_crc32c_u64(uint32_t crc, uint64_t word)
{
#if defined(__SSE4_2__)
	return (uint32_t)__builtin_ia32_crc32di(crc, word);
#elif defined(__ARM_FEATURE_CRC32)
	return __crc32cd(crc, word);
#else
	return base_crc32c_u64_table(crc, word);
#endif
}

/*
 * Two CRC streams, one per endpoint, run side by side and keep 64 bits of state: an IPv4 key is 104
 * significant bits, and one stream of 32 would let regular address plans collide by linearity. The
 * widening multiplication spreads the state over all bits of the result, the low ones included.
 */
static inline uint32_t base_hash_mix(uint32_t a, uint32_t b)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t state = (uint64_t)b << 32 | a;
	wide product = (wide)state * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(uint64_t)(product >> 64) ^ (uint32_t)((uint64_t)product >> 32);
}

static inline uint32_t base_hash_crc32c(const uint64_t words[5], uint64_t salt)
{
	uint32_t a = base_crc32c_u64((uint32_t)salt, words[0]);
	uint32_t b = base_crc32c_u64((uint32_t)(salt >> 32), words[2]);
	a = base_crc32c_u64(a, words[1]);
	b = base_crc32c_u64(b, words[3]);
	a = base_crc32c_u64(a, words[4]);
	return base_hash_mix(a, b);
}

static inline uint64_t base_rotate_left(uint64_t value, unsigned int bits)
{
	return value << (bits & 63) | value >> (-bits & 63);
}

struct base_sip_state {
	uint64_t v0, v1, v2, v3;
};

static inline void base_sip_round(struct base_sip_state *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = base_rotate_left(s->v1, 13) ^ s->v0;
	s->v3 = base_rotate_left(s->v3, 16) ^ s->v2;
	s->v0 = base_rotate_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = base_rotate_left(s->v1, 17) ^ s->v2;
	s->v3 = base_rotate_left(s->v3, 21) ^ s->v0;
	s->v2 = base_rotate_left(s->v2, 32);
}

static inline void base_sip_absorb(struct base_sip_state *s, uint64_t word)
{
	s->v3 ^= word;
	base_sip_round(s);
	s->v0 ^= word;
}

static inline struct base_sip_state base_sip_start(const uint64_t key[2])
{
	return (struct base_sip_state){ .v0 = key[0] ^ UINT64_C(0x736f6d6570736575),
		.v1 = key[1] ^ UINT64_C(0x646f72616e646f6d),
		.v2 = key[0] ^ UINT64_C(0x6c7967656e657261),
		.v3 = key[1] ^ UINT64_C(0x7465646279746573) };
}

/* SipHash-1-3 of the 40 bytes of a key. */
static inline uint32_t base_hash_siphash(const uint64_t words[5], const uint64_t key[2])
{
	struct base_sip_state state = base_sip_start(key);
	for (int i = 0; i < 5; i++)
		base_sip_absorb(&state, words[i]);
	base_sip_absorb(&state, (uint64_t)40 << 56);
	state.v2 ^= 0xff;
	base_sip_round(&state);
	base_sip_round(&state);
	base_sip_round(&state);
	uint64_t hash = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
	return (uint32_t)hash ^ (uint32_t)(hash >> 32);
}

static inline uint32_t base_hash_key(
	const struct base_flow_key *key, const struct base_hash_config *config)
{
	uint64_t words[5];
	memcpy(words, key, sizeof(words));
	if (BASE_LIKELY(config->kind == BASE_HASH_CRC32C))
		return base_hash_crc32c(words, config->salt[0]);
	return base_hash_siphash(words, config->salt);
}
