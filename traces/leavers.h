/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: flows that fell idle while a window still needed them, in the order in which
 * they did. A flow that comes back is not looked for here: its entry no longer has the packet
 * number of the note, which tells that the note is void. Every operation is O(1), amortised.
 */
#pragma once

#include "traces/trace.h"

struct traces_leaver {
	uint64_t last_packet; /* the flow's, when it fell idle */
	uint32_t index;
	uint32_t reserved;
};

/* Starts as zeros. */
struct traces_leavers {
	struct traces_buffer notes; /* of struct traces_leaver */
	size_t first;
};

static inline size_t traces_leavers_count(const struct traces_leavers *leavers)
{
	return leavers->notes.used / sizeof(struct traces_leaver) - leavers->first;
}

/* -ENOMEM. */
int traces_leavers_push(struct traces_leavers *leavers, struct traces_leaver leaver);
/* The one that fell idle first; there must be one. */
struct traces_leaver traces_leavers_front(const struct traces_leavers *leavers);
void traces_leavers_pop(struct traces_leavers *leavers);
void traces_leavers_destroy(struct traces_leavers *leavers);
