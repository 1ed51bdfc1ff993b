/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/baseline_buckets.h"

#include "base/rng.h"

#include <errno.h>

enum { QUEUES_MAX = 1 << 20 };

#define NONE UINT32_MAX

struct queue {
	struct base_packet *head, *tail;
	uint32_t count;
	uint32_t next; /* behind it in the round of queues that hold packets */
};

struct reframer_buckets {
	struct queue *queues; /* the last one is for packets without a flow */
	uint64_t multiplier;
	uint32_t queues_count, shift;
	uint32_t visit_packets_max;
	uint32_t round_head, round_tail;
	uint32_t visit_left; /* packets that the first queue of the round may still give */
	uint64_t packets_count;
	struct base_arena *arena;
};

void reframer_buckets_config_defaults(struct reframer_buckets_config *config)
{
	*config = (struct reframer_buckets_config){ .queues_count = 1024, .visit_packets_max = 16 };
}

static bool config_is_possible(const struct reframer_buckets_config *config)
{
	uint32_t count = config->queues_count;
	return config->arena != NULL && count >= 2 && count <= QUEUES_MAX &&
	       (count & (count - 1)) == 0 && config->visit_packets_max >= 1;
}

int reframer_buckets_create(
	struct reframer_buckets **out, const struct reframer_buckets_config *config)
{
	if (!config_is_possible(config))
		return -EINVAL;
	struct base_arena *arena = config->arena;
	struct reframer_buckets *buckets =
		base_arena_alloc(arena, sizeof(*buckets), BASE_CACHE_LINE);
	if (buckets == NULL)
		return -ENOMEM;
	uint64_t salt = config->salt;
	buckets->arena = arena;
	buckets->multiplier = base_rng_splitmix64(&salt) | 1;
	buckets->queues_count = config->queues_count;
	buckets->shift = 64 - (uint32_t)__builtin_ctz(config->queues_count);
	buckets->visit_packets_max = config->visit_packets_max;
	buckets->round_head = buckets->round_tail = NONE;
	buckets->queues = base_arena_alloc(
		arena, (buckets->queues_count + 1) * sizeof(*buckets->queues), BASE_CACHE_LINE);
	if (buckets->queues == NULL) {
		base_arena_free(arena, buckets, sizeof(*buckets));
		return -ENOMEM;
	}
	*out = buckets;
	return 0;
}

void reframer_buckets_destroy(struct reframer_buckets *buckets)
{
	if (buckets == NULL)
		return;
	BASE_ASSERT(buckets->packets_count == 0);
	struct base_arena *arena = buckets->arena;
	base_arena_free(
		arena, buckets->queues, (buckets->queues_count + 1) * sizeof(*buckets->queues));
	base_arena_free(arena, buckets, sizeof(*buckets));
}

uint64_t reframer_buckets_count(const struct reframer_buckets *buckets)
{
	return buckets->packets_count;
}

static inline uint32_t queue_of(
	const struct reframer_buckets *buckets, const struct base_packet *packet)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return buckets->queues_count;
	return (uint32_t)(packet->hash * buckets->multiplier >> buckets->shift);
}

static inline void round_append(struct reframer_buckets *buckets, uint32_t index)
{
	buckets->queues[index].next = NONE;
	if (buckets->round_head == NONE) {
		buckets->round_head = index;
		buckets->visit_left = buckets->visit_packets_max;
	} else {
		buckets->queues[buckets->round_tail].next = index;
	}
	buckets->round_tail = index;
}

void reframer_buckets_push_burst(
	struct reframer_buckets *buckets, struct base_packet *const *packets, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		uint32_t index = queue_of(buckets, packets[i]);
		struct queue *queue = &buckets->queues[index];
		if (queue->count++ == 0) {
			queue->head = packets[i];
			round_append(buckets, index);
		} else {
			queue->tail->next = packets[i];
		}
		queue->tail = packets[i];
	}
	buckets->packets_count += count;
}

/* The first queue of the round had its visit, or is empty. */
static inline void round_advance(struct reframer_buckets *buckets)
{
	uint32_t index = buckets->round_head;
	buckets->round_head = buckets->queues[index].next;
	buckets->visit_left = buckets->visit_packets_max;
	if (buckets->round_head == NONE)
		buckets->round_tail = NONE;
	if (buckets->queues[index].count != 0)
		round_append(buckets, index);
}

unsigned int reframer_buckets_pop_burst(struct reframer_buckets *buckets, struct base_burst *burst,
	unsigned int packets_max, uint64_t now_ns)
{
	BASE_ASSERT(packets_max <= BASE_BURST_MAX);
	unsigned int count = 0;
	while (count < packets_max && buckets->round_head != NONE) {
		struct queue *queue = &buckets->queues[buckets->round_head];
		while (count < packets_max && queue->count != 0 && buckets->visit_left != 0) {
			struct base_packet *packet = queue->head;
			queue->head = packet->next; /* of no meaning behind the last one */
			queue->count--;
			buckets->visit_left--;
			packet->release_ns = now_ns;
			burst->packets[count++] = packet;
		}
		if (queue->count == 0 || buckets->visit_left == 0)
			round_advance(buckets);
	}
	burst->count = (uint16_t)count;
	burst->drop_count = 0;
	base_burst_mark_runs(burst, false);
	buckets->packets_count -= count;
	return count;
}
