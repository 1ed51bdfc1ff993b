/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/leavers.h"

#include <string.h>

static struct traces_leaver *notes_of(const struct traces_leavers *leavers)
{
	return (struct traces_leaver *)(void *)leavers->notes.data;
}

int traces_leavers_push(struct traces_leavers *leavers, struct traces_leaver leaver)
{
	struct traces_buffer *notes = &leavers->notes;
	size_t count = traces_leavers_count(leavers);
	if (leavers->first > count) { /* more room in front than there is to move */
		memmove(notes_of(leavers), notes_of(leavers) + leavers->first,
			count * sizeof(leaver));
		notes->used = count * sizeof(leaver);
		leavers->first = 0;
	}
	int error = traces_buffer_reserve(notes, notes->used + sizeof(leaver));
	if (error)
		return error;
	notes_of(leavers)[leavers->first + count] = leaver;
	notes->used += sizeof(leaver);
	return 0;
}

struct traces_leaver traces_leavers_front(const struct traces_leavers *leavers)
{
	BASE_DEBUG_ASSERT(traces_leavers_count(leavers) > 0);
	return notes_of(leavers)[leavers->first];
}

void traces_leavers_pop(struct traces_leavers *leavers)
{
	BASE_DEBUG_ASSERT(traces_leavers_count(leavers) > 0);
	leavers->first++;
}

void traces_leavers_destroy(struct traces_leavers *leavers)
{
	traces_buffer_destroy(&leavers->notes);
}
