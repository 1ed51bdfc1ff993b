/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sort.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct sort {
	size_t count, size;
	int (*compare)(const void *one, const void *other);
	const atomic_bool *stop;
};

static bool stopped(const struct sort *sort)
{
	/* Partner: whoever asks for the end; nothing is read behind it. */
	return sort->stop != NULL && atomic_load_explicit(sort->stop, memory_order_relaxed);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Items begin..middle and middle..end, both in order, from one array to the other. */
static int merge(const struct sort *sort, const uint8_t *from, uint8_t *to, size_t begin,
	size_t middle, size_t end)
{
	size_t size = sort->size, left = begin, right = middle;
	for (size_t at = begin; at < end; at++) {
		bool take_left =
			left < middle && (right == end || sort->compare(from + left * size,
								  from + right * size) <= 0);
		memcpy(to + at * size, from + (take_left ? left++ : right++) * size, size);
		if (at % BASE_SORT_PIECE == 0 && stopped(sort))
			return -EINTR;
	}
	return 0;
}

int base_sort(void *items, void *spare, size_t count, size_t size,
	int (*compare)(const void *one, const void *other), const atomic_bool *stop)
{
	const struct sort sort = { count, size, compare, stop };
	uint8_t *from = items, *to = spare;
	BASE_ASSERT(spare != NULL || count <= BASE_SORT_PIECE);
	for (size_t at = 0; at < count; at += BASE_SORT_PIECE) {
		if (stopped(&sort))
			return -EINTR;
		qsort(from + at * size, least(BASE_SORT_PIECE, count - at), size, compare);
	}
	for (size_t width = BASE_SORT_PIECE; width < count; width *= 2) {
		for (size_t at = 0; at < count; at += 2 * width) {
			int error = merge(&sort, from, to, at, least(at + width, count),
				least(at + 2 * width, count));
			if (error)
				return error;
		}
		uint8_t *swap = from;
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, count * size);
	return 0;
}
