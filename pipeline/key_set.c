/* SPDX-License-Identifier: BSD-2-Clause */
/* Open addressing with linear probing, at most half full; family 0 marks an empty slot. */
#include "pipeline/key_set.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A cache line each: whether a flow is known costs one. */
struct slot {
	struct base_flow_key key;
	uint32_t hash;
} BASE_ALIGNED(64);

struct key_set {
	struct slot *slots;
	uint64_t mask;
	uint64_t count;
};

enum { SLOTS_AT_START = 1 << 12, HUGE_PAGE_BYTES = 2 << 20 };

static int allocate(struct key_set *set, uint64_t slots_count)
{
	size_t bytes = slots_count * sizeof(struct slot);
	bool large = bytes >= HUGE_PAGE_BYTES;
	struct slot *slots = aligned_alloc(large ? HUGE_PAGE_BYTES : BASE_CACHE_LINE, bytes);
	if (slots == NULL)
		return -ENOMEM;
	if (large) /* a wish: failure costs speed only */
		(void)madvise(slots, bytes, MADV_HUGEPAGE);
	memset(slots, 0, bytes);
	set->slots = slots;
	set->mask = slots_count - 1;
	return 0;
}

int key_set_create(struct key_set **out)
{
	struct key_set *set = calloc(1, sizeof(*set));
	if (set == NULL)
		return -ENOMEM;
	int error = allocate(set, SLOTS_AT_START);
	if (error != 0) {
		free(set);
		return error;
	}
	*out = set;
	return 0;
}

void key_set_destroy(struct key_set *set)
{
	if (set == NULL)
		return;
	free(set->slots);
	free(set);
}

static uint64_t first_slot(const struct key_set *set, uint32_t hash)
{
	return (hash * UINT64_C(0x9e3779b97f4a7c15) >> 20) & set->mask;
}

/* Slot of the key, or the empty slot where it belongs. */
static uint64_t find(const struct key_set *set, const struct base_flow_key *key, uint32_t hash)
{
	uint64_t slot = first_slot(set, hash);
	while (set->slots[slot].key.family != 0 &&
		(set->slots[slot].hash != hash || !base_flow_key_equal(&set->slots[slot].key, key)))
		slot = (slot + 1) & set->mask;
	return slot;
}

static void put(struct key_set *set, const struct base_flow_key *key, uint32_t hash, uint64_t slot)
{
	set->slots[slot].key = *key;
	set->slots[slot].hash = hash;
}

static int grow(struct key_set *set)
{
	struct key_set old = *set;
	int error = allocate(set, (old.mask + 1) * 2);
	if (error != 0)
		return error;
	for (uint64_t i = 0; i <= old.mask; i++) {
		const struct slot *slot = &old.slots[i];
		if (slot->key.family != 0)
			put(set, &slot->key, slot->hash, find(set, &slot->key, slot->hash));
	}
	free(old.slots);
	return 0;
}

int key_set_add(struct key_set *set, const struct base_flow_key *key, uint32_t hash)
{
	if (set->count * 2 > set->mask) {
		int error = grow(set);
		if (error != 0)
			return error;
	}
	uint64_t slot = find(set, key, hash);
	if (set->slots[slot].key.family != 0)
		return 0;
	put(set, key, hash, slot);
	set->count++;
	return 1;
}

bool key_set_has(const struct key_set *set, const struct base_flow_key *key, uint32_t hash)
{
	return set->slots[find(set, key, hash)].key.family != 0;
}

void key_set_prefetch(const struct key_set *set, uint32_t hash)
{
	BASE_PREFETCH(&set->slots[first_slot(set, hash)]);
}

uint64_t key_set_count(const struct key_set *set)
{
	return set->count;
}
