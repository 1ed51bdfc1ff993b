/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arena over jemalloc: one jemalloc arena whose extents come from our own mmap, on explicit huge
 * pages while there are any, else on transparent ones. Extents are never given back before destroy
 * (dalloc refuses), so that counters stay simple and memory is stable; jemalloc then keeps and
 * reuses them. No thread cache: allocations are few and large.
 */
#include "base/arena.h"

#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

struct mapping {
	struct mapping *next;
	void *memory;
	size_t size;
	bool huge; /* on explicit huge pages */
};

struct base_arena {
	extent_hooks_t hooks; /* first: hooks find the arena by it */
	unsigned int index;   /* jemalloc's number */
	bool try_huge;
	struct mapping *mappings;
	struct base_arena_stats stats;
};

static void *map(size_t size, int flags)
{
	void *memory = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* Map `size` bytes aligned to `align`, which mmap alone does only for pages. */
static void *map_aligned(size_t size, size_t align)
{
	uint8_t *memory = map(size + align, 0);
	if (memory == NULL)
		return NULL;
	size_t skip = (align - (uintptr_t)memory % align) % align;
	if (skip != 0)
		(void)munmap(memory, skip);
	if (align - skip != 0)
		(void)munmap(memory + skip + size, align - skip);
	memory += skip;
	(void)madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

static bool remember(struct base_arena *arena, void *memory, size_t size, bool huge)
{
	struct mapping *mapping = malloc(sizeof(*mapping));
	if (mapping == NULL)
		return false;
	*mapping = (struct mapping){ arena->mappings, memory, size, huge };
	arena->mappings = mapping;
	arena->stats.mapped_bytes += size;
	arena->stats.huge_bytes += huge ? size : 0;
	return true;
}

/* Memory for whole pages, on explicit huge pages if there are any. touch: page faults must not fall
 * on whoever uses it first. */
static void *map_pages(struct base_arena *arena, size_t size, size_t alignment, bool touch)
{
	void *memory = NULL;
	bool huge = arena->try_huge && alignment <= HUGE_PAGE && size % HUGE_PAGE == 0;
	if (huge)
		memory = map(size, MAP_HUGETLB | (touch ? MAP_POPULATE : 0));
	if (memory == NULL) {
		huge = false;
		memory = map_aligned(size, alignment);
		if (memory != NULL && touch)
			(void)madvise(memory, size, MADV_POPULATE_WRITE);
	}
	if (memory == NULL || remember(arena, memory, size, huge))
		return memory;
	(void)munmap(memory, size);
	return NULL;
}

static void *extent_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t alignment,
	bool *zero, bool *commit, unsigned int)
{
	struct base_arena *arena = (struct base_arena *)hooks;
	if (address != NULL) /* a place is asked for: never needed */
		return NULL;
	/* Whole huge pages, whatever jemalloc asks: what is beyond `size` stays unused. */
	size_t full = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *memory = map_pages(arena, full, alignment < HUGE_PAGE ? HUGE_PAGE : alignment, true);
	if (memory == NULL)
		return NULL;
	*zero = true;
	*commit = true;
	return memory;
}

static bool extent_refuse_dalloc(extent_hooks_t *, void *, size_t, bool, unsigned int)
{
	return true;
}

static bool extent_split(extent_hooks_t *, void *, size_t, size_t, size_t, bool, unsigned int)
{
	return false;
}

/* Extents of different mappings must not be merged: their sizes would no longer be known. */
static bool extent_merge(extent_hooks_t *, void *, size_t, void *, size_t, bool, unsigned int)
{
	return true;
}

/* jemalloc would ask for ever larger extents, ahead of need, and each is populated at once. */
static void ask_for_no_more_than_needed(const struct base_arena *arena)
{
	char name[48];
	size_t limit = HUGE_PAGE;
	snprintf(name, sizeof(name), "arena.%u.retain_grow_limit", arena->index);
	/* Refused where jemalloc does not keep memory: it does not ask ahead then. */
	(void)mallctl(name, NULL, NULL, &limit, sizeof(limit));
}

int base_arena_create(struct base_arena **out, bool try_huge)
{
	struct base_arena *arena = calloc(1, sizeof(*arena));
	if (arena == NULL)
		return -ENOMEM;
	arena->try_huge = try_huge;
	arena->hooks.alloc = extent_alloc;
	arena->hooks.dalloc = extent_refuse_dalloc;
	arena->hooks.split = extent_split;
	arena->hooks.merge = extent_merge;
	extent_hooks_t *hooks = &arena->hooks;
	size_t size = sizeof(arena->index);
	int error = mallctl("arenas.create", &arena->index, &size, &hooks, sizeof(hooks));
	if (error != 0) {
		free(arena);
		return -error;
	}
	ask_for_no_more_than_needed(arena);
	*out = arena;
	return 0;
}

void base_arena_destroy(struct base_arena *arena)
{
	char name[48];
	if (arena == NULL)
		return;
	/* Destroying discards jemalloc's view; the mappings are ours. */
	snprintf(name, sizeof(name), "arena.%u.destroy", arena->index);
	(void)mallctl(name, NULL, NULL, NULL, 0);
	while (arena->mappings != NULL) {
		struct mapping *mapping = arena->mappings;
		arena->mappings = mapping->next;
		(void)munmap(mapping->memory, mapping->size);
		free(mapping);
	}
	free(arena);
}

static int flags_of(const struct base_arena *arena, size_t align)
{
	return (int)(MALLOCX_ARENA(arena->index) | MALLOCX_TCACHE_NONE |
		     MALLOCX_ALIGN(align < 16 ? 16 : align));
}

void *base_arena_alloc(struct base_arena *arena, size_t size, size_t align)
{
	if (size == 0 || size > SIZE_MAX / 2)
		return NULL;
	void *memory = mallocx(size, flags_of(arena, align) | MALLOCX_ZERO);
	if (memory != NULL)
		arena->stats.allocated_bytes += sallocx(memory, 0);
	return memory;
}

void base_arena_free(struct base_arena *arena, void *memory, size_t size)
{
	(void)size;
	if (memory == NULL)
		return;
	arena->stats.allocated_bytes -= sallocx(memory, 0);
	dallocx(memory, MALLOCX_ARENA(arena->index) | MALLOCX_TCACHE_NONE);
}

/* Whole huge pages once it is worth one. */
static size_t pages_size(size_t size)
{
	size_t page = size < HUGE_PAGE ? 4096 : HUGE_PAGE;
	return (size + page - 1) / page * page;
}

void *base_arena_map(struct base_arena *arena, size_t size)
{
	if (size == 0 || size > SIZE_MAX / 2)
		return NULL;
	size_t full = pages_size(size);
	void *memory = map_pages(arena, full, full < HUGE_PAGE ? 4096 : HUGE_PAGE, false);
	if (memory != NULL)
		arena->stats.allocated_bytes += full;
	return memory;
}

void base_arena_unmap(struct base_arena *arena, void *memory, size_t size)
{
	if (memory == NULL)
		return;
	struct mapping **link = &arena->mappings;
	while (*link != NULL && (*link)->memory != memory)
		link = &(*link)->next;
	if (*link == NULL)
		abort(); /* not ours: a bug of the caller */
	struct mapping *mapping = *link;
	*link = mapping->next;
	arena->stats.allocated_bytes -= pages_size(size);
	arena->stats.mapped_bytes -= mapping->size;
	arena->stats.huge_bytes -= mapping->huge ? mapping->size : 0;
	(void)munmap(mapping->memory, mapping->size);
	free(mapping);
}

void base_arena_stats(const struct base_arena *arena, struct base_arena_stats *stats)
{
	*stats = arena->stats;
}
