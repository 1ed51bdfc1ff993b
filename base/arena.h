/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explicit memory arenas: table, flow and buffer memory of one worker comes from one arena, so that
 * results can report bytes per flow and memory sits on huge pages where the system has them.
 *
 * Two implementations, chosen by Meson: jemalloc arenas with extent hooks that map huge pages
 * (MAP_HUGETLB, then transparent huge pages, then plain pages), and a plain one for sanitizer
 * builds (so that the sanitizer sees each allocation's bounds).
 *
 * Memory is zeroed. Allocation happens at start only, but for what grows while it is used
 * (base_arena_map); one thread at a time per arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_arena;

struct base_arena_stats {
	uint64_t allocated_bytes; /* asked for, rounded to the allocator's size classes */
	uint64_t mapped_bytes;    /* from the operating system */
	uint64_t huge_bytes;      /* of those, on explicit huge pages */
};

/* try_huge: use explicit huge pages while they last. -ENOMEM. */
int base_arena_create(struct base_arena **out, bool try_huge);

/* Frees everything that was allocated from it. */
void base_arena_destroy(struct base_arena *arena);

/* Zeroed, aligned to `align` (power of two, at least 16); NULL when out of memory or size is 0. */
void *base_arena_alloc(struct base_arena *arena, size_t size, size_t align);

/* NULL is fine. size must be what was asked for. */
void base_arena_free(struct base_arena *arena, void *memory, size_t size);

/* Memory of its own that is zeroed when it is first touched (whoever does so pays for the page) and
 * goes back to the system at once when it is unmapped. Aligned to a page. NULL as above. */
void *base_arena_map(struct base_arena *arena, size_t size);

/* NULL is fine. size must be what was asked for. */
void base_arena_unmap(struct base_arena *arena, void *memory, size_t size);

void base_arena_stats(const struct base_arena *arena, struct base_arena_stats *stats);
