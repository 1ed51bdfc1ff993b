/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chunks of planned packets on their way from the reader to one worker: a bounded ring whose slots
 * are the chunks themselves. A chunk that the worker has emptied is the next one that the reader
 * fills, so nothing is allocated while packets flow.
 *
 * Threads: one producer, one consumer. `filled` is stored by the producer with release and loaded
 * by the consumer with acquire, so that a chunk's packets are seen whole; `emptied` the other way
 * round, so that a chunk is not written while it is read; `last` by the producer, before the last
 * chunk is published; `reached_ns` by the producer, behind the chunks that it speaks of. Counts run
 * freely; slot = count modulo CHUNK_RING_SLOTS.
 *
 * Memory: CHUNK_RING_SLOTS x (CHUNK_BYTES + CHUNK_PACKETS x 32) = 4 MiB, written once at create so
 * that no page is missing later. Cost: one cache line moves per chunk and direction.
 *
 *	producer: chunk = chunk_ring_open(ring);        NULL: full, the consumer will empty one
 *	          chunk_add(chunk, &packet, frame) ... chunk_ring_publish(ring) ...
 *	          chunk_ring_finish(ring)               publishes what is open, and ends
 *	consumer: chunk = chunk_ring_front(ring);       NULL: chunk_ring_is_over, or not yet there
 *	          ... chunk_ring_release(ring);
 */
#pragma once

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	CHUNK_RING_SLOTS = 8, /* a power of two, at least 2: one is filled while one is emptied */
	CHUNK_PACKETS = 4096,
	CHUNK_BYTES = 384 << 10,
	CHUNK_FRAME_MAX = UINT16_MAX, /* bytes of a frame that are kept: no buffer holds more */
};
static_assert(CHUNK_BYTES >= CHUNK_FRAME_MAX, "an empty chunk takes any frame");
static_assert((CHUNK_RING_SLOTS & (CHUNK_RING_SLOTS - 1)) == 0, "slots are masked");

struct chunk_packet {
	uint64_t time_ns; /* on the run's time line */
	uint32_t offset;  /* of the frame in the chunk's bytes */
	uint32_t cap_len; /* may be above CHUNK_FRAME_MAX; so many bytes are there at most */
	uint32_t wire_len;
	uint32_t number; /* of the copy, for its addresses; 0: as captured */
	uint16_t flags;  /* BASE_PACKET_OPERATOR marks */
	uint8_t link;
	uint8_t interface;
	uint32_t reserved;
};
static_assert(sizeof(struct chunk_packet) == 32, "documented memory");

struct chunk {
	uint32_t count;
	uint32_t bytes_used;
	struct chunk_packet *packets;
	uint8_t *bytes;
};

struct chunk_ring {
	/* the producer's line */
	atomic_uint_least64_t filled BASE_ALIGNED(64); /* partner: chunk_ring_front */
	atomic_uint_least64_t last; /* how many chunks there are in all; UINT64_MAX: not known */
	atomic_uint_least64_t reached_ns; /* what is not published is not earlier */
	uint64_t emptied_seen;
	/* the consumer's line */
	atomic_uint_least64_t emptied BASE_ALIGNED(64); /* partner: chunk_ring_open */
	uint64_t filled_seen;
	/* written at create only */
	struct chunk slots[CHUNK_RING_SLOTS] BASE_ALIGNED(64);
	uint8_t *memory;
	size_t memory_bytes;
};

/* The ring lies in the caller's memory, aligned to 64 bytes. -ENOMEM. */
int chunk_ring_create(struct chunk_ring *ring);
void chunk_ring_destroy(struct chunk_ring *ring); /* nothing happens to zeros */

/* ---- producer ---- */

/* An empty chunk, not published yet; NULL when the ring is full. */
static inline struct chunk *chunk_ring_open(struct chunk_ring *ring)
{
	uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed); /* own */
	if (filled - ring->emptied_seen == CHUNK_RING_SLOTS) {
		/* acquire: pairs with the release store in chunk_ring_release */
		ring->emptied_seen = atomic_load_explicit(&ring->emptied, memory_order_acquire);
		if (filled - ring->emptied_seen == CHUNK_RING_SLOTS)
			return NULL;
	}
	struct chunk *chunk = &ring->slots[filled % CHUNK_RING_SLOTS];
	chunk->count = chunk->bytes_used = 0;
	return chunk;
}

static inline void chunk_ring_publish(struct chunk_ring *ring)
{
	uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed); /* own */
	/* release: pairs with the acquire load in chunk_ring_front */
	atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
}

/* There is no more than what is published, and the open chunk when one_more. Said before that last
 * chunk is published, so that its consumer knows the end when it gets there. */
static inline void chunk_ring_finish(struct chunk_ring *ring, bool one_more)
{
	uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed); /* own */
	/* release: pairs with the acquire load in chunk_ring_is_over */
	atomic_store_explicit(&ring->last, filled + one_more, memory_order_release);
	if (one_more)
		chunk_ring_publish(ring);
}

/* No packet that is still to be published is earlier than time_ns; none waits in an open chunk. */
static inline void chunk_ring_reach(struct chunk_ring *ring, uint64_t time_ns)
{
	/* release: pairs with the acquire load in chunk_ring_reached_ns */
	atomic_store_explicit(&ring->reached_ns, time_ns, memory_order_release);
}

/* Whether the consumer has emptied everything, as far as one can tell from here. */
static inline bool chunk_ring_is_hungry(const struct chunk_ring *ring)
{
	/* relaxed: a hint, nothing is read behind it */
	return atomic_load_explicit(&ring->emptied, memory_order_relaxed) ==
	       atomic_load_explicit(&ring->filled, memory_order_relaxed);
}

/* Room for a frame of so many captured bytes? */
static inline bool chunk_has_room(const struct chunk *chunk, uint32_t cap_len)
{
	uint32_t kept = cap_len < CHUNK_FRAME_MAX ? cap_len : CHUNK_FRAME_MAX;
	return chunk->count < CHUNK_PACKETS && CHUNK_BYTES - chunk->bytes_used >= kept;
}

/* There must be room. The packet's offset is set here. */
static inline void chunk_add(
	struct chunk *chunk, const struct chunk_packet *packet, const uint8_t *frame)
{
	uint32_t kept = packet->cap_len < CHUNK_FRAME_MAX ? packet->cap_len : CHUNK_FRAME_MAX;
	struct chunk_packet *place = &chunk->packets[chunk->count++];
	*place = *packet;
	place->offset = chunk->bytes_used;
	memcpy(chunk->bytes + chunk->bytes_used, frame, kept);
	chunk->bytes_used += kept;
}

/* ---- consumer ---- */

/* The oldest chunk that is there; stays until released. */
static inline const struct chunk *chunk_ring_front(struct chunk_ring *ring)
{
	uint64_t emptied = atomic_load_explicit(&ring->emptied, memory_order_relaxed); /* own */
	if (emptied == ring->filled_seen) {
		/* acquire: pairs with the release store in chunk_ring_publish */
		ring->filled_seen = atomic_load_explicit(&ring->filled, memory_order_acquire);
		if (emptied == ring->filled_seen)
			return NULL;
	}
	return &ring->slots[emptied % CHUNK_RING_SLOTS];
}

static inline void chunk_ring_release(struct chunk_ring *ring)
{
	uint64_t emptied = atomic_load_explicit(&ring->emptied, memory_order_relaxed); /* own */
	/* release: pairs with the acquire load in chunk_ring_open */
	atomic_store_explicit(&ring->emptied, emptied + 1, memory_order_release);
}

/* When chunk_ring_front gives NULL afterwards, no packet will come that is earlier than this. */
static inline uint64_t chunk_ring_reached_ns(const struct chunk_ring *ring)
{
	/* acquire: pairs with the release store in chunk_ring_reach */
	return atomic_load_explicit(&ring->reached_ns, memory_order_acquire);
}

/* Everything has come and was released. What the producer did before chunk_ring_finish is seen. */
static inline bool chunk_ring_is_over(const struct chunk_ring *ring)
{
	/* acquire: pairs with the release store in chunk_ring_finish */
	return atomic_load_explicit(&ring->last, memory_order_acquire) ==
	       atomic_load_explicit(&ring->emptied, memory_order_relaxed); /* own */
}
