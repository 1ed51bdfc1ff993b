/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena for sanitizer builds: plain aligned allocations, so that the sanitizer knows each one's
 * bounds, kept in a list so that destroy can free what is left. */
#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (UINT64_C(1) << 38)

struct block {
	struct block *next;
	void *memory;
	size_t size;
};

struct base_arena {
	struct block *blocks;
	struct base_arena_stats stats;
};

int base_arena_create(struct base_arena **out, bool)
{
	struct base_arena *arena = calloc(1, sizeof(*arena));
	if (arena == NULL)
		return -ENOMEM;
	*out = arena;
	return 0;
}

void base_arena_destroy(struct base_arena *arena)
{
	if (arena == NULL)
		return;
	while (arena->blocks != NULL)
		base_arena_free(arena, arena->blocks->memory, arena->blocks->size);
	free(arena);
}

void *base_arena_alloc(struct base_arena *arena, size_t size, size_t align)
{
	void *memory = NULL;
	/* The sanitizer stops the program at sizes that no machine has, instead of failing. */
	if (size > SIZE_LIMIT)
		return NULL;
	struct block *block = malloc(sizeof(*block));
	if (size == 0 || block == NULL ||
		posix_memalign(&memory, align < 16 ? 16 : align, size) != 0) {
		free(block);
		return NULL;
	}
	memset(memory, 0, size);
	*block = (struct block){ arena->blocks, memory, size };
	arena->blocks = block;
	arena->stats.allocated_bytes += size;
	arena->stats.mapped_bytes += size;
	return memory;
}

void base_arena_free(struct base_arena *arena, void *memory, size_t size)
{
	if (memory == NULL)
		return;
	struct block **link = &arena->blocks;
	while (*link != NULL && (*link)->memory != memory)
		link = &(*link)->next;
	if (*link == NULL)
		abort(); /* not ours: a bug of the caller */
	struct block *block = *link;
	*link = block->next;
	arena->stats.allocated_bytes -= size;
	arena->stats.mapped_bytes -= size;
	free(memory);
	free(block);
}

void *base_arena_map(struct base_arena *arena, size_t size)
{
	return base_arena_alloc(arena, size, 4096);
}

void base_arena_unmap(struct base_arena *arena, void *memory, size_t size)
{
	base_arena_free(arena, memory, size);
}

void base_arena_stats(const struct base_arena *arena, struct base_arena_stats *stats)
{
	*stats = arena->stats;
}
