/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/seen_filter.h"

#include <errno.h>

int reframer_seen_filter_create(
	struct seen_filter *filter, struct base_arena *arena, uint32_t flows)
{
	struct seen_filter made = { .sets_count = flows / 4 + (flows % 4 != 0) };
	made.sets = base_arena_alloc(arena, made.sets_count * sizeof(*made.sets), BASE_CACHE_LINE);
	if (made.sets == NULL)
		return -ENOMEM;
	*filter = made;
	return 0;
}

void reframer_seen_filter_destroy(struct seen_filter *filter, struct base_arena *arena)
{
	base_arena_free(arena, filter->sets, filter->sets_count * sizeof(*filter->sets));
}
