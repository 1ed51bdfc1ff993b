/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to chain/: 64-bit hashes of per-connection results, for comparing runs. Not keyed. */
#pragma once

#include "base/rng.h"
#include "conntrack/conntrack.h"

#include <stdint.h>
#include <string.h>

static inline uint64_t chain_digest_word(uint64_t digest, uint64_t word)
{
	uint64_t state = digest ^ word;
	return base_rng_splitmix64(&state);
}

/* Who talks to whom, and who began. Starting point of a function's digest. */
static inline uint64_t chain_digest_conn(const struct conntrack_conn *conn)
{
	uint64_t words[5];
	memcpy(words, &conn->key, sizeof(words));
	uint64_t digest = conn->origin_reversed ? 2 : 1;
	for (unsigned int i = 0; i < 5; i++)
		digest = chain_digest_word(digest, words[i]);
	return digest;
}
