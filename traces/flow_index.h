/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: a bounded set of flow keys that gives each a small number, which stays its
 * own until it is removed. Numbers are below the capacity: users keep arrays beside it.
 *
 * Chained hashing; every operation is O(1) but clear, which is O(keys added since the last clear).
 * Memory is asked for at once and touched as it is used: 60 bytes for each key, at most.
 */
#pragma once

#include "base/flow_key.h"

#define TRACES_FLOW_NONE UINT32_MAX

struct traces_flow_entry {
	struct base_flow_key key;
	uint32_t hash;
	uint32_t next_plus_one; /* in its chain, or in the list of removed ones */
};

struct traces_flow_index {
	uint32_t *chains; /* number + 1 of the first key, 0: none */
	struct traces_flow_entry *entries;
	uint32_t mask;
	uint32_t capacity;
	uint32_t used; /* numbers ever given since the last clear */
	uint32_t removed_plus_one;
	uint32_t count;
};

/* capacity 1..2^31. -ENOMEM. */
int traces_flow_index_init(struct traces_flow_index *index, uint32_t capacity);
void traces_flow_index_destroy(struct traces_flow_index *index);
/* TRACES_FLOW_NONE when it is not there. */
uint32_t traces_flow_index_find(
	const struct traces_flow_index *index, const struct base_flow_key *key, uint32_t hash);
/* A key that is not there; there must be room (count < capacity). */
uint32_t traces_flow_index_add(
	struct traces_flow_index *index, const struct base_flow_key *key, uint32_t hash);
void traces_flow_index_remove(struct traces_flow_index *index, uint32_t number);
void traces_flow_index_clear(struct traces_flow_index *index);
