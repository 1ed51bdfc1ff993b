/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to chain/: 64-bit hashes of per-connection results, for comparing runs. Not keyed. */
#pragma once

#include "base/rng.h"
#include "conntrack/conntrack.h"

#include <stdint.h>
#include <string.h>

/* Places of a digest's words, in pairs; a connection takes the first three. */
enum { CHAIN_DIGEST_FIRST = 3 };

/* The share of two words in a digest, which is the sum of all shares: they do not depend on one
 * another, so that the processor makes them side by side, for every connection that leaves pays for
 * its digest. Both halves of the product, as in wyhash. The chain mixes the sum once more, so that
 * connections cannot swap shares. */
static inline uint64_t chain_digest_pair(unsigned int place, uint64_t one, uint64_t other)
{
	uint64_t turn = (2 * (uint64_t)place + 1) * UINT64_C(0x9e3779b97f4a7c15);
	__extension__ unsigned __int128 product =
		(unsigned __int128)(one ^ turn) * (other ^ (turn + UINT64_C(0xd6e8feb86659fd93)));
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Who talks to whom, and who began. Starting point of a function's digest. */
static inline uint64_t chain_digest_conn(const struct conntrack_conn *conn)
{
	uint64_t words[5];
	static_assert(sizeof(words) == sizeof(conn->key), "all of the key");
	memcpy(words, &conn->key, sizeof(words));
	return chain_digest_pair(0, words[0], words[1]) + chain_digest_pair(1, words[2], words[3]) +
	       chain_digest_pair(2, words[4], conn->origin_reversed ? 2 : 1);
}
