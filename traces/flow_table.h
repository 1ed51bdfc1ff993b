/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: flows by their key. Flows stand in an array and keep their index as long as
 * they are in the table; a slot array with linear probing and half of it free finds them.
 *
 * Cost: a lookup reads one line of slots and one of the flow (both can be prefetched); insertion
 * and removal are O(1) but for the doubling of the slots. Memory: 64 bytes a flow and 16 to 32
 * for its slots.
 */
#pragma once

#include "base/rng.h"
#include "traces/trace.h"

#define TRACES_FLOW_NONE UINT32_MAX

/*
 * Multilinear hashing (Lemire and Kaser 2014, "Strongly universal string hashing is fast",
 * multilinear-HM): two keys collide with probability 2^-32 over the choice of the words, so a
 * capture cannot bring keys that collide here, as it can for a CRC; a quarter of SipHash's cost.
 * It is linear, so keys that count up would stand in rows and make chains long: the last step, a
 * permutation, scatters them.
 */
struct traces_flow_hash {
	uint64_t words[11];
};

static inline void traces_flow_hash_init(struct traces_flow_hash *hash, uint64_t seed)
{
	for (int i = 0; i < 11; i++)
		hash->words[i] = base_rng_splitmix64(&seed);
}

static inline uint32_t traces_flow_hash(
	const struct traces_flow_hash *hash, const struct base_flow_key *key)
{
	uint32_t parts[10];
	__builtin_memcpy(parts, key, sizeof(parts));
	uint64_t sum = hash->words[10];
	for (int i = 0; i < 10; i += 2)
		sum += (hash->words[i] + parts[i]) * (hash->words[i + 1] + parts[i + 1]);
	uint32_t high = (uint32_t)(sum >> 32);
	high = (high ^ high >> 16) * UINT32_C(0x7feb352d);
	return high ^ high >> 15;
}

struct traces_flow {
	struct base_flow_key key;
	uint64_t last_ns;     /* time of its last packet */
	uint64_t last_packet; /* number of its last packet, from 1; 0: it had none yet */
	uint32_t hash;
	uint8_t directions; /* bits 0 and 1: seen as the key stands, and reversed */
	bool live;          /* its idle timeout has not run out; it is in the idle queue */
};
static_assert(sizeof(struct traces_flow) == 64, "one cache line");

struct traces_flow_slot {
	uint32_t hash;
	uint32_t index_plus_one; /* 0: free */
};

struct traces_flow_table {
	struct traces_buffer flows, slots;
	uint32_t slots_mask;
	uint32_t count; /* in the table */
	uint32_t given; /* indices given out so far */
	uint32_t free_first;
};

/* -ENOMEM. */
int traces_flow_table_init(struct traces_flow_table *table);
void traces_flow_table_destroy(struct traces_flow_table *table);
/* Of a key that is not in the table. The flow has no packet. -ENOMEM. */
int traces_flow_table_insert(struct traces_flow_table *table, const struct base_flow_key *key,
	uint32_t hash, uint32_t *index);
void traces_flow_table_remove(struct traces_flow_table *table, uint32_t index);
uint64_t traces_flow_table_memory_bytes(const struct traces_flow_table *table);

static inline struct traces_flow *traces_flow_at(
	const struct traces_flow_table *table, uint32_t index)
{
	return (struct traces_flow *)(void *)table->flows.data + index;
}

static inline struct traces_flow_slot *traces_flow_slot_at(
	const struct traces_flow_table *table, uint32_t place)
{
	return (struct traces_flow_slot *)(void *)table->slots.data + place;
}

/* Lookups come in two steps, each of which can go on for several flows at once. */
static inline void traces_flow_prefetch_slot(const struct traces_flow_table *table, uint32_t hash)
{
	BASE_PREFETCH(traces_flow_slot_at(table, hash & table->slots_mask));
}

static inline void traces_flow_prefetch(const struct traces_flow_table *table, uint32_t hash)
{
	uint32_t place = hash & table->slots_mask;
	const struct traces_flow_slot *slot = traces_flow_slot_at(table, place);
	while (slot->index_plus_one != 0 && slot->hash != hash) {
		place = (place + 1) & table->slots_mask;
		slot = traces_flow_slot_at(table, place);
	}
	if (slot->index_plus_one != 0)
		BASE_PREFETCH_W(traces_flow_at(table, slot->index_plus_one - 1));
}

/* TRACES_FLOW_NONE when the key is not in the table. */
static inline uint32_t traces_flow_find(
	const struct traces_flow_table *table, const struct base_flow_key *key, uint32_t hash)
{
	uint32_t place = hash & table->slots_mask;
	const struct traces_flow_slot *slot = traces_flow_slot_at(table, place);
	while (slot->index_plus_one != 0) {
		uint32_t index = slot->index_plus_one - 1;
		if (slot->hash == hash &&
			base_flow_key_equal(&traces_flow_at(table, index)->key, key))
			return index;
		place = (place + 1) & table->slots_mask;
		slot = traces_flow_slot_at(table, place);
	}
	return TRACES_FLOW_NONE;
}
