/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flows that hold packets, and nothing else: a fixed arena of 64-byte slots and an
 * open-addressed index from hash to slot.
 *
 * The index has at least two entries of 8 bytes per slot and probes linearly, so a lookup reads one
 * line nearly always; a removal shifts later entries back, so there are no tombstones and cost does
 * not drift with time. A flow whose probe would be longer than HELD_PROBES_MAX is not taken
 * (only many equal 32-bit hashes do that), which keeps every operation bounded.
 *
 * Slots 0 .. REFRAMER_CLASSES_COUNT - 1 never hold packets: they are the ends of the flush lists
 * (flush_list.h). Slot 0 therefore doubles as "none", and zeroed memory is an empty index.
 */
#pragma once

#include "base/arena.h"
#include "base/packet.h"
#include "reframer/reframer.h"

enum {
	HELD_NONE = 0,
	HELD_SLOT_FIRST = REFRAMER_CLASSES_COUNT,
	HELD_PROBES_MAX = 64,
};

#define HELD_NO_PLACE UINT32_MAX

struct held_link {
	uint32_t prev, next;
};

struct held_slot {
	struct base_packet *head, *tail;
	uint64_t deadline_ns; /* UINT64_MAX in the ends of the lists */
	uint32_t hash;
	uint32_t at; /* its entry in the index */
	uint16_t count;
	uint16_t class;
	struct held_link due; /* in its class's flush list; next: next free slot while free */
	struct held_link age; /* in the list of all held flows, longest waiting first */
} BASE_ALIGNED(64);
static_assert(sizeof(struct held_slot) == 64, "one line per flow");

struct held_flows {
	struct held_slot *slots;
	uint64_t *index; /* hash in the high half, slot in the low one */
	uint64_t multiplier;
	uint32_t mask;
	uint32_t shift;
	uint32_t free_head;
	uint32_t slots_count, index_count; /* allocated */
};

/* Where a flow is: slot or HELD_NONE, and then `at` is where it would go or HELD_NO_PLACE. */
struct held_place {
	uint32_t slot;
	uint32_t at;
};

/* -ENOMEM. multiplier must be odd. */
int reframer_held_flows_create(
	struct held_flows *held, struct base_arena *arena, uint32_t flows_max, uint64_t multiplier);
void reframer_held_flows_destroy(struct held_flows *held, struct base_arena *arena);

/* Empty the entry at `hole` and move entries behind it closer to their homes. */
void reframer_held_flows_close_gap(struct held_flows *held, uint32_t hole);

/* A flow's hash, mixed: its high bits depend on all of the hash's, and steering fixed the low ones.
 */
static inline uint64_t held_flows_mix(const struct held_flows *held, uint32_t hash)
{
	return hash * held->multiplier;
}

static inline uint32_t held_flows_home(const struct held_flows *held, uint64_t mixed)
{
	return (uint32_t)(mixed >> held->shift);
}

static inline struct held_place held_flows_find(
	const struct held_flows *held, const struct base_packet *packet, uint64_t mixed)
{
	uint32_t at = held_flows_home(held, mixed);
	for (unsigned int probes = 0; probes < HELD_PROBES_MAX; probes++) {
		uint64_t entry = held->index[at];
		uint32_t slot = (uint32_t)entry;
		if (slot == HELD_NONE)
			return (struct held_place){ .slot = HELD_NONE, .at = at };
		/* The tail's line is needed next anyway: the packet is linked behind it. */
		if (entry >> 32 == packet->hash &&
			base_flow_key_equal(&held->slots[slot].tail->key, &packet->key))
			return (struct held_place){ .slot = slot, .at = at };
		at = (at + 1) & held->mask;
	}
	return (struct held_place){ .slot = HELD_NONE, .at = HELD_NO_PLACE };
}

/* Take a slot for a flow that held_flows_find did not find, at the place it gave (nothing was
 * added or removed since). There must be a free slot. The caller fills in the rest. */
static inline uint32_t held_flows_add(struct held_flows *held, uint32_t at, uint32_t hash)
{
	uint32_t index = held->free_head;
	BASE_DEBUG_ASSERT(index != HELD_NONE && at != HELD_NO_PLACE);
	struct held_slot *slot = &held->slots[index];
	held->free_head = slot->due.next;
	slot->hash = hash;
	slot->at = at;
	held->index[at] = (uint64_t)hash << 32 | index;
	return index;
}

static inline void held_flows_remove(struct held_flows *held, uint32_t index)
{
	struct held_slot *slot = &held->slots[index];
	uint32_t at = slot->at;
	if (BASE_LIKELY((uint32_t)held->index[(at + 1) & held->mask] == HELD_NONE))
		held->index[at] = 0;
	else
		reframer_held_flows_close_gap(held, at);
	slot->due.next = held->free_head;
	held->free_head = index;
}
