/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: the consistent-hash table of Maglev (Eisenbud et al., NSDI 2016, §3.4), with
 * weights. Pure.
 *
 * Each backend prefers the slots in an order of its own, made from two keyed hashes of its identity
 * (name, family, address), and takes free slots in turn. The table is a function of the set of
 * backends, the size and the seed: the order in which they are listed does not enter. When one of N
 * equal backends goes away, its slots move, and a few others with them.
 */
#pragma once

#include "chain/chain.h"

enum { CHAIN_MAGLEV_SIZE_MAX = 1 << 22 };

/* Prime, and room for more than 100 slots per backend. */
bool chain_maglev_size_valid(uint32_t size, uint32_t backends_count);

/* Order by name, then family, then address: for qsort and for finding a backend twice. */
int chain_maglev_compare(const struct chain_backend *a, const struct chain_backend *b);

/* Keyed hash of a backend's identity. */
uint64_t chain_maglev_identity(const struct chain_backend *backend, uint64_t seed);

/*
 * Fill table[size] with members' positions in backends[]. members[] are such positions, in the
 * order of chain_maglev_compare; those of weight 0 get no slot. At least one has a weight. size is
 * valid. -ENOMEM. Cost: O(size log size) steps when weights are alike.
 */
int chain_maglev_populate(uint16_t *table, uint32_t size, const struct chain_backend *backends,
	const uint16_t *members, uint32_t members_count, uint64_t seed);
