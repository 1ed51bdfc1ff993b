/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/held_flows.h"

#include <errno.h>

void reframer_held_flows_close_gap(struct held_flows *held, uint32_t hole)
{
	uint32_t at = hole;
	/* Whoever stands HELD_PROBES_MAX or more behind the gap would be too far from home there.
	 * */
	while (((at - hole) & held->mask) < HELD_PROBES_MAX) {
		at = (at + 1) & held->mask;
		uint64_t entry = held->index[at];
		if ((uint32_t)entry == HELD_NONE)
			break;
		uint32_t home =
			held_flows_home(held, held_flows_mix(held, (uint32_t)(entry >> 32)));
		if (((at - home) & held->mask) < ((at - hole) & held->mask))
			continue;
		held->index[hole] = entry;
		held->slots[(uint32_t)entry].at = hole;
		hole = at;
	}
	held->index[hole] = 0;
}

static void make_ends(struct held_flows *held)
{
	for (uint32_t i = 0; i < HELD_SLOT_FIRST; i++) {
		held->slots[i].deadline_ns = UINT64_MAX;
		held->slots[i].due = (struct held_link){ .prev = i, .next = i };
		held->slots[i].age = (struct held_link){ .prev = i, .next = i };
	}
}

static void chain_free_slots(struct held_flows *held)
{
	held->free_head = HELD_SLOT_FIRST;
	for (uint32_t i = HELD_SLOT_FIRST; i < held->slots_count; i++)
		held->slots[i].due.next = i + 1 < held->slots_count ? i + 1 : HELD_NONE;
}

int reframer_held_flows_create(
	struct held_flows *held, struct base_arena *arena, uint32_t flows_max, uint64_t multiplier)
{
	struct held_flows made = { .slots_count = flows_max + HELD_SLOT_FIRST,
		.multiplier = multiplier };
	uint8_t bits = 1;
	while ((UINT64_C(1) << bits) < 2 * (uint64_t)flows_max)
		bits++;
	made.index_count = UINT32_C(1) << bits;
	made.mask = made.index_count - 1;
	made.shift = (uint8_t)(64 - bits);
	made.slots =
		base_arena_alloc(arena, made.slots_count * sizeof(*made.slots), BASE_CACHE_LINE);
	made.index =
		base_arena_alloc(arena, made.index_count * sizeof(*made.index), BASE_CACHE_LINE);
	if (made.slots == NULL || made.index == NULL) {
		reframer_held_flows_destroy(&made, arena);
		return -ENOMEM;
	}
	make_ends(&made);
	chain_free_slots(&made);
	*held = made;
	return 0;
}

void reframer_held_flows_destroy(struct held_flows *held, struct base_arena *arena)
{
	base_arena_free(arena, held->slots, held->slots_count * sizeof(*held->slots));
	base_arena_free(arena, held->index, held->index_count * sizeof(*held->index));
}
