/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracker's deletion strategy: a hierarchical timer wheel with lazy re-arm.
 *
 * The wheel knows indices and due times, nothing of connections. Packets do not touch it: they
 * only move an entry's due time later. When an entry's slot fires, its owner compares the true due
 * time with the horizon and either removes the entry or arms it again. An entry whose due time
 * moves earlier is moved at once (conntrack_expiry_shorten). So an entry fires never after its due
 * time (by more than a tick) and is never removed before it.
 *
 * Six levels of 64 slots; a slot of level l spans 64^l ticks and fires when its span begins, which
 * sends its entries on to a finer level. Due times beyond the last level (2^36 ticks) wait in its
 * farthest slot. One bitmap word per level finds the next slot that holds anything, so a clock that
 * jumps by years costs as much as the slots that are not empty, not the ticks.
 *
 * A slot is a list of 64-byte chunks of 14 indices, all full but the first: firing hands out
 * indices in bulk, so that their owner can prefetch, and touches 4.6 bytes per entry instead of a
 * chain of links. Each entry is in at most one slot by construction: position[] holds where.
 *
 * Cost: arm and disarm O(1), two lines; firing O(entries handed out). Nothing drifts: slots are
 * absolute times. Threads: the tracker's owner.
 *
 * This is the seam for other strategies: arm, shorten, disarm, fire.
 */
#pragma once

#include "base/arena.h"
#include "base/compiler.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	CONNTRACK_EXPIRY_LEVELS = 6,
	CONNTRACK_EXPIRY_SLOT_BITS = 6,
	CONNTRACK_EXPIRY_SLOTS = 1 << CONNTRACK_EXPIRY_SLOT_BITS,
	CONNTRACK_EXPIRY_CHUNK_INDICES = 14,
	CONNTRACK_EXPIRY_PLACES = 16, /* numbers for a chunk's places in position[] */
};

#define CONNTRACK_EXPIRY_NEVER UINT64_MAX

struct conntrack_expiry_chunk {
	uint32_t next; /* in its slot, or in the free list */
	uint16_t slot; /* level * 64 + slot */
	uint16_t count;
	uint32_t index[CONNTRACK_EXPIRY_CHUNK_INDICES];
} BASE_ALIGNED(64);
static_assert(sizeof(struct conntrack_expiry_chunk) == 64, "one cache line per chunk");

struct conntrack_expiry {
	uint64_t tick_ns;
	uint64_t current;      /* tick up to which everything has fired */
	uint64_t next_fire_ns; /* nothing fires earlier (a lower bound) */
	uint64_t moved_earlier;
	uint32_t armed;
	uint32_t entries_max;
	uint32_t chunks_count;
	uint32_t chunk_free;
	uint32_t chunks_used;
	uint32_t *position; /* per entry: chunk * 16 + place, or UINT32_MAX */
	struct conntrack_expiry_chunk *chunks;
	struct base_arena *arena;
	uint64_t occupied[CONNTRACK_EXPIRY_LEVELS]; /* bit: slot has a chunk */
	uint32_t head[CONNTRACK_EXPIRY_LEVELS * CONNTRACK_EXPIRY_SLOTS];
};

/* -ENOMEM. tick_ns >= 1, entries_max <= 2^28. */
int conntrack_expiry_init(struct conntrack_expiry *expiry, uint32_t entries_max, uint64_t tick_ns,
	struct base_arena *arena);
void conntrack_expiry_release(struct conntrack_expiry *expiry);
uint64_t conntrack_expiry_bytes(const struct conntrack_expiry *expiry);

/* Bring an empty wheel to now, so that the first entries land near. Nothing when it is not empty
 * or already there. */
void conntrack_expiry_start(struct conntrack_expiry *expiry, uint64_t now_ns);

/* Fire at the first tick at or after due_ns, but after the present one. CONNTRACK_EXPIRY_NEVER
 * leaves it out. The entry must not be armed. */
void conntrack_expiry_arm(struct conntrack_expiry *expiry, uint32_t index, uint64_t due_ns);

/* The due time of an entry has moved earlier: see that it fires in time. Armed or not. */
void conntrack_expiry_shorten(struct conntrack_expiry *expiry, uint32_t index, uint64_t due_ns);

/* Nothing when it is not armed. */
void conntrack_expiry_disarm(struct conntrack_expiry *expiry, uint32_t index);

/* It is about to be disarmed. */
static inline void conntrack_expiry_prefetch(const struct conntrack_expiry *expiry, uint32_t index)
{
	uint32_t position = expiry->position[index];
	if (position != UINT32_MAX)
		BASE_PREFETCH_W(&expiry->chunks[position / CONNTRACK_EXPIRY_PLACES]);
}

/* Take up to `max` entries whose slots begin at or before horizon_ns out of the wheel; the caller
 * removes those that are due by horizon_ns and arms the others again. 0: nothing left to do. */
unsigned int conntrack_expiry_fire(
	struct conntrack_expiry *expiry, uint64_t horizon_ns, uint32_t *indices, unsigned int max);

/* Smallest horizon at which everything that is due by end_ns has fired. */
uint64_t conntrack_expiry_end_ns(const struct conntrack_expiry *expiry, uint64_t end_ns);

static inline bool conntrack_expiry_is_armed(const struct conntrack_expiry *expiry, uint32_t index)
{
	return expiry->position[index] != UINT32_MAX;
}

/* Tick at which an armed entry fires, and the one it should fire at for due_ns. */
uint64_t conntrack_expiry_fire_tick(const struct conntrack_expiry *expiry, uint32_t index);
uint64_t conntrack_expiry_due_tick(const struct conntrack_expiry *expiry, uint64_t due_ns);

/* Nothing that was due this long before now_ns is armed: a tick, more while firing lags. */
uint64_t conntrack_expiry_slack_ns(const struct conntrack_expiry *expiry, uint64_t now_ns);

/* NULL or what is wrong. */
const char *conntrack_expiry_check(const struct conntrack_expiry *expiry);
