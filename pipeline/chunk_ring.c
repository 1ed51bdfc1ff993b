/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/chunk_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

int chunk_ring_create(struct chunk_ring *ring)
{
	const size_t packets_bytes = CHUNK_PACKETS * sizeof(struct chunk_packet);
	const size_t slot_bytes = packets_bytes + CHUNK_BYTES;
	memset(ring, 0, sizeof(*ring));
	ring->memory_bytes = CHUNK_RING_SLOTS * slot_bytes;
	ring->memory_bytes =
		(ring->memory_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	ring->memory = aligned_alloc(HUGE_PAGE_BYTES, ring->memory_bytes);
	if (ring->memory == NULL)
		return -ENOMEM;
	/* A wish: failure costs speed only. */
	(void)madvise(ring->memory, ring->memory_bytes, MADV_HUGEPAGE);
	memset(ring->memory, 0, ring->memory_bytes);
	for (size_t i = 0; i < CHUNK_RING_SLOTS; i++) {
		uint8_t *slot = ring->memory + i * slot_bytes;
		ring->slots[i].packets = (struct chunk_packet *)(void *)slot;
		ring->slots[i].bytes = slot + packets_bytes;
	}
	atomic_init(&ring->last, UINT64_MAX);
	return 0;
}

void chunk_ring_destroy(struct chunk_ring *ring)
{
	free(ring->memory);
	memset(ring, 0, sizeof(*ring));
}
