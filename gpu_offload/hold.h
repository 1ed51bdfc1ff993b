/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to the stage: packets that wait for their flow's answer, first in first out, each up to a
 * bound. A flow's packets are a list inside the queue, so that an answer lets all of them go, in
 * order, without a search. When there is no room the packet that has waited longest goes.
 *
 * What has been let go waits in a second queue until it is popped, which must be done before more
 * than a burst is added.
 *
 * Threads: one owner. Memory: a slot for packets_max packets and a burst, at
 * create. Cost: constant per packet.
 */
#pragma once

#include "base/arena.h"
#include "gpu_offload/flow_features.h"

struct gpu_offload_hold_slot {
	struct base_packet *packet;
	struct gpu_offload_flow *flow; /* NULL: let go, or the connection is gone */
	uint64_t due_ns;
	uint32_t older, newer; /* places + 1; 0: none */
	uint32_t next_of_flow; /* place + 1 */
};

struct gpu_offload_hold {
	uint32_t packets_max, held, let_go;
	uint32_t oldest, newest, free; /* places + 1 */
	uint32_t ready_first, ready_last;
	struct gpu_offload_hold_slot *slots;
};

/* -ENOMEM. */
int gpu_offload_hold_create(
	struct gpu_offload_hold *hold, uint32_t packets_max, struct base_arena *arena);
void gpu_offload_hold_destroy(struct gpu_offload_hold *hold, struct base_arena *arena);

/* Hold a packet of the flow until due_ns, no earlier than those before. Returns whether another one
 * had to go for it. */
bool gpu_offload_hold_add(struct gpu_offload_hold *hold, struct gpu_offload_flow *flow,
	struct base_packet *packet, uint64_t due_ns);
/* Let a flow's packets go. orphan: their connection is gone. Returns how many. */
uint32_t gpu_offload_hold_let_go(
	struct gpu_offload_hold *hold, struct gpu_offload_flow *flow, bool orphan);
/* Let go what is due. Returns how many. */
uint32_t gpu_offload_hold_expire(struct gpu_offload_hold *hold, uint64_t now_ns);
/* The next that was let go, NULL: none. */
struct base_packet *gpu_offload_hold_pop(struct gpu_offload_hold *hold);
