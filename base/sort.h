/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sort that can be stopped, for millions of records that are prepared while somebody may lose
 * patience. libc's sort takes a piece at a time, and pieces are merged: equal items keep their
 * order as far as libc keeps it within a piece.
 *
 * Memory: the caller's, as much again as the items. Cost: n log n, and a look at the flag for each
 * piece or merged piece. Threads: none.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

enum { BASE_SORT_PIECE = 1 << 17 }; /* items: some 10 ms */

/* Sorts `count` items of `size` bytes; spare: room for as many, or NULL when there are no more than
 * BASE_SORT_PIECE. -EINTR when stop (may be NULL) is set: the items are then in no order and not
 * all there. */
int base_sort(void *items, void *spare, size_t count, size_t size,
	int (*compare)(const void *one, const void *other), const atomic_bool *stop);
