/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/packet_ring.h"

#include "base/mbuf.h"

#include <errno.h>
#include <stdlib.h>

enum { FETCH_CHUNK = 64 };

/* Bring buffers that a driver freed into the pool back to the reserve. */
static void fetch_from_pool(struct packet_ring *ring)
{
	void *objects[FETCH_CHUNK];
	while (ring->reserve_count + FETCH_CHUNK <= ring->reserve_limit &&
		rte_mempool_get_bulk(ring->pool, objects, FETCH_CHUNK) == 0) {
		for (int i = 0; i < FETCH_CHUNK; i++)
			ring->reserve[ring->reserve_count++] = base_packet_from_mbuf(objects[i]);
	}
	while (ring->reserve_count < ring->reserve_limit &&
		rte_mempool_get(ring->pool, objects) == 0)
		ring->reserve[ring->reserve_count++] = base_packet_from_mbuf(objects[0]);
}

static void fill(struct packet_ring *ring)
{
	void *object;
	while (ring->tail - ring->head < ring->slots_limit &&
		rte_mempool_get(ring->pool, &object) == 0)
		ring->slots[ring->tail++ & ring->slots_mask] = base_packet_from_mbuf(object);
	fetch_from_pool(ring);
}

int packet_ring_create(struct packet_ring *ring, const char *name, uint32_t ring_size,
	uint32_t reserve_size, uint32_t data_room)
{
	uint32_t capacity = 1;
	while (capacity < ring_size)
		capacity *= 2;
	uint32_t total = ring_size + reserve_size;
	memset(ring, 0, sizeof(*ring));
	ring->slots = calloc(capacity, sizeof(struct base_packet *));
	ring->reserve = calloc(total, sizeof(struct base_packet *));
	int error = -ENOMEM;
	if (ring->slots != NULL && ring->reserve != NULL)
		error = base_mbuf_pool_create(&ring->pool, name, total, data_room, 0);
	if (error != 0) {
		packet_ring_destroy(ring);
		return error;
	}
	ring->slots_mask = capacity - 1;
	ring->slots_limit = ring_size;
	ring->reserve_limit = total;
	ring->data_room = data_room;
	fill(ring);
	return 0;
}

void packet_ring_destroy(struct packet_ring *ring)
{
	rte_mempool_free(ring->pool);
	free(ring->slots);
	free(ring->reserve);
	memset(ring, 0, sizeof(*ring));
}

static unsigned int take_from_reserve(
	struct packet_ring *ring, struct base_packet **packets, unsigned int count)
{
	if (ring->reserve_count < count)
		fetch_from_pool(ring);
	if (ring->reserve_count < count)
		return 0;
	ring->reserve_count -= count;
	memcpy(packets, ring->reserve + ring->reserve_count, count * sizeof(struct base_packet *));
	return count;
}

unsigned int packet_ring_take(
	struct packet_ring *ring, struct base_packet **packets, unsigned int count)
{
	uint32_t at_hand = ring->tail - ring->head;
	uint32_t from_ring = count < at_hand ? count : at_hand;
	if (BASE_UNLIKELY(from_ring < count) &&
		take_from_reserve(ring, packets + from_ring, count - from_ring) == 0)
		return 0;
	for (uint32_t i = 0; i < from_ring; i++)
		packets[i] = ring->slots[(ring->head + i) & ring->slots_mask];
	ring->head += from_ring;
	return count;
}

void packet_ring_give(
	struct packet_ring *ring, struct base_packet *const *packets, unsigned int count)
{
	unsigned int i = 0;
	while (i < count && ring->tail - ring->head < ring->slots_limit)
		ring->slots[ring->tail++ & ring->slots_mask] = packets[i++];
	while (i < count)
		ring->reserve[ring->reserve_count++] = packets[i++];
}

uint32_t packet_ring_free_count(const struct packet_ring *ring)
{
	return ring->tail - ring->head + ring->reserve_count + rte_mempool_avail_count(ring->pool);
}
