/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/large_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

int large_frames_create(struct large_frames *frames, uint32_t count)
{
	size_t bytes = (size_t)count * LARGE_FRAME_BYTES;
	memset(frames, 0, sizeof(*frames));
	uint32_t *free_list = malloc(count * sizeof(*free_list));
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (free_list == NULL || memory == MAP_FAILED) {
		free(free_list);
		if (memory != MAP_FAILED)
			munmap(memory, bytes);
		return -ENOMEM;
	}
	/* The place used last is the next one taken: few places see use. */
	for (uint32_t i = 0; i < count; i++)
		free_list[i] = count - 1 - i;
	frames->memory = memory;
	frames->free = free_list;
	frames->free_count = frames->count = count;
	return 0;
}

void large_frames_destroy(struct large_frames *frames)
{
	if (frames->memory != NULL)
		munmap(frames->memory, (size_t)frames->count * LARGE_FRAME_BYTES);
	free(frames->free);
	memset(frames, 0, sizeof(*frames));
}
