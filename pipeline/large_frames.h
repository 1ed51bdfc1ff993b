/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for the few frames that do not fit a usual packet buffer, when nobody knows beforehand
 * whether there will be any: one address range, of which memory is taken only where a frame has
 * lain. 64 KiB of addresses per frame.
 *
 * Threads: one owner. Cost: O(1), no call to the system (the first use of a place is a page fault).
 */
#pragma once

#include "pipeline/source_frame.h"

enum { LARGE_FRAME_BYTES = 64 << 10 };

struct large_frames {
	uint8_t *memory;
	uint32_t *free;
	uint32_t free_count, count;
};

int large_frames_create(struct large_frames *frames, uint32_t count); /* -ENOMEM */
void large_frames_destroy(struct large_frames *frames);               /* zeros are allowed */

/* Where a frame of up to SOURCE_FRAME_ROOM_MAX bytes goes; NULL when all places are taken. */
static inline uint8_t *large_frames_take(struct large_frames *frames)
{
	if (frames->free_count == 0)
		return NULL;
	uint32_t index = frames->free[--frames->free_count];
	return frames->memory + (size_t)index * LARGE_FRAME_BYTES + RTE_PKTMBUF_HEADROOM;
}

/* Give back those of the packets whose frames lie here. */
static inline void large_frames_give(
	struct large_frames *frames, struct base_packet *const *packets, unsigned int count)
{
	size_t bytes = (size_t)frames->count * LARGE_FRAME_BYTES;
	if (BASE_LIKELY(frames->free_count == frames->count))
		return;
	for (unsigned int i = 0; i < count; i++) {
		uintptr_t offset = (uintptr_t)packets[i]->data - (uintptr_t)frames->memory;
		if (offset < bytes)
			frames->free[frames->free_count++] = (uint32_t)(offset / LARGE_FRAME_BYTES);
	}
}
