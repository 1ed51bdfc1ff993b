/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which flows have been seen before, approximately and in fixed memory: sets of four 16-bit tags,
 * one 64-bit word each, most recently added first. A new flow in a full set takes the place of the
 * one added first. Errors: a flow that was forgotten counts as new again; two flows that share set
 * and tag (about 6 in 100,000 in a full set) count as one.
 *
 * A flow is given by its mixed hash (held_flows_mix): bits 32 to 63 choose the set, 16 to 31 are
 * the tag.
 */
#pragma once

#include "base/arena.h"
#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct seen_filter {
	uint64_t *sets;
	uint32_t sets_count;
};

/* Room for at least `flows` (>= 1). -ENOMEM. */
int reframer_seen_filter_create(
	struct seen_filter *filter, struct base_arena *arena, uint32_t flows);
void reframer_seen_filter_destroy(struct seen_filter *filter, struct base_arena *arena);

static inline uint64_t *seen_filter_set(const struct seen_filter *filter, uint64_t mixed)
{
	if (filter->sets == NULL) /* no filter */
		return NULL;
	return &filter->sets[((mixed >> 32) * filter->sets_count) >> 32];
}

/* Whether the flow, whose set is given, was seen before; it has been from now on. */
static inline bool seen_filter_touch(uint64_t *set, uint64_t mixed)
{
	const uint64_t ones = UINT64_C(0x0001000100010001);
	uint64_t tag = (mixed >> 16) & 0xffff;
	tag += tag == 0; /* 0 marks an empty place */
	uint64_t difference = *set ^ (tag * ones);
	/* Not 0 exactly when one of the four is 0: only from there can a borrow run on. */
	if (BASE_LIKELY(((difference - ones) & ~difference & (ones << 15)) != 0))
		return true;
	*set = *set << 16 | tag;
	return false;
}
