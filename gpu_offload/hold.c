/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/hold.h"

#include "base/compiler.h"

#include <errno.h>

static inline struct gpu_offload_hold_slot *slot_of(struct gpu_offload_hold *hold, uint32_t place)
{
	return &hold->slots[place - 1];
}

/* Out of the queue of those that wait, behind those that were let go. */
static void move(struct gpu_offload_hold *hold, uint32_t place)
{
	struct gpu_offload_hold_slot *slot = slot_of(hold, place);
	if (slot->older == 0)
		hold->oldest = slot->newer;
	else
		slot_of(hold, slot->older)->newer = slot->newer;
	if (slot->newer == 0)
		hold->newest = slot->older;
	else
		slot_of(hold, slot->newer)->older = slot->older;
	slot->flow = NULL;
	slot->newer = 0;
	if (hold->ready_last == 0)
		hold->ready_first = place;
	else
		slot_of(hold, hold->ready_last)->newer = place;
	hold->ready_last = place;
	hold->held--;
	hold->let_go++;
}

/* The packet that has waited longest is the first of its flow, too. */
static void let_oldest_go(struct gpu_offload_hold *hold)
{
	struct gpu_offload_hold_slot *slot = slot_of(hold, hold->oldest);
	BASE_DEBUG_ASSERT(slot->flow->held_first == hold->oldest);
	slot->flow->held_first = slot->next_of_flow;
	if (slot->next_of_flow == 0)
		slot->flow->held_last = 0;
	move(hold, hold->oldest);
}

bool gpu_offload_hold_add(struct gpu_offload_hold *hold, struct gpu_offload_flow *flow,
	struct base_packet *packet, uint64_t due_ns)
{
	bool pressed = hold->held == hold->packets_max;
	if (pressed)
		let_oldest_go(hold);
	uint32_t place = hold->free;
	BASE_ASSERT(place != 0);
	struct gpu_offload_hold_slot *slot = slot_of(hold, place);
	hold->free = slot->newer;
	*slot = (struct gpu_offload_hold_slot){
		.packet = packet,
		.flow = flow,
		.due_ns = due_ns,
		.older = hold->newest,
	};
	if (hold->newest == 0)
		hold->oldest = place;
	else
		slot_of(hold, hold->newest)->newer = place;
	hold->newest = place;
	if (flow->held_last == 0)
		flow->held_first = place;
	else
		slot_of(hold, flow->held_last)->next_of_flow = place;
	flow->held_last = place;
	hold->held++;
	return pressed;
}

uint32_t gpu_offload_hold_let_go(
	struct gpu_offload_hold *hold, struct gpu_offload_flow *flow, bool orphan)
{
	uint32_t count = 0;
	for (uint32_t place = flow->held_first; place != 0; count++) {
		struct gpu_offload_hold_slot *slot = slot_of(hold, place);
		if (orphan) {
			slot->packet->conn = BASE_CONN_NONE;
			slot->packet->conn_flags = 0;
		}
		uint32_t next = slot->next_of_flow;
		move(hold, place);
		place = next;
	}
	flow->held_first = flow->held_last = 0;
	return count;
}

uint32_t gpu_offload_hold_expire(struct gpu_offload_hold *hold, uint64_t now_ns)
{
	uint32_t count = 0;
	for (; hold->oldest != 0 && slot_of(hold, hold->oldest)->due_ns <= now_ns; count++)
		let_oldest_go(hold);
	return count;
}

struct base_packet *gpu_offload_hold_pop(struct gpu_offload_hold *hold)
{
	uint32_t place = hold->ready_first;
	if (place == 0)
		return NULL;
	struct gpu_offload_hold_slot *slot = slot_of(hold, place);
	hold->ready_first = slot->newer;
	if (slot->newer == 0)
		hold->ready_last = 0;
	slot->newer = hold->free;
	hold->free = place;
	hold->let_go--;
	return slot->packet;
}

int gpu_offload_hold_create(
	struct gpu_offload_hold *hold, uint32_t packets_max, struct base_arena *arena)
{
	uint32_t slots_count = packets_max + BASE_BURST_MAX;
	hold->slots = base_arena_alloc(arena, slots_count * sizeof(*hold->slots), BASE_CACHE_LINE);
	if (hold->slots == NULL)
		return -ENOMEM;
	hold->packets_max = packets_max;
	for (uint32_t place = slots_count; place > 0; place--) {
		slot_of(hold, place)->newer = hold->free;
		hold->free = place;
	}
	return 0;
}

void gpu_offload_hold_destroy(struct gpu_offload_hold *hold, struct base_arena *arena)
{
	base_arena_free(
		arena, hold->slots, (hold->packets_max + BASE_BURST_MAX) * sizeof(*hold->slots));
}
