/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet buffers of one worker, rotating first-in first-out through a ring of the size of a NIC's
 * receive ring, so that a replay touches as much memory as a NIC's DMA would and no more. Buffers
 * beyond the ring (for packets that stages hold) wait in a reserve that is only used when the ring
 * runs short.
 *
 * Threads: one owner. Cost: a few cycles per packet, no atomics; buffers that a device's driver
 * freed into the pool are fetched again when both are short.
 */
#pragma once

#include "base/packet.h"

#include <rte_mempool.h>

struct packet_ring {
	struct base_packet **slots;
	uint32_t slots_mask;
	uint32_t slots_limit; /* ring size asked for, <= slots_mask + 1 */
	uint32_t head, tail;  /* free running; take at head, give at tail */
	struct base_packet **reserve;
	uint32_t reserve_count, reserve_limit;
	struct rte_mempool *pool;
	uint32_t data_room;
};

/* Buffers: ring_size rotate, reserve_size more are kept back. -ENOMEM, -EINVAL. */
int packet_ring_create(struct packet_ring *ring, const char *name, uint32_t ring_size,
	uint32_t reserve_size, uint32_t data_room);
void packet_ring_destroy(struct packet_ring *ring);

/* Take exactly `count` buffers, or none: returns count or 0. */
unsigned int packet_ring_take(
	struct packet_ring *ring, struct base_packet **packets, unsigned int count);
void packet_ring_give(
	struct packet_ring *ring, struct base_packet *const *packets, unsigned int count);

/* Buffers at hand; equals the total when nothing is in flight. */
uint32_t packet_ring_free_count(const struct packet_ring *ring);
