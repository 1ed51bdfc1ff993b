/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs that were released and wait to be popped: a fixed array of descriptors, filled from the
 * front. Putting a flow's whole list here costs one descriptor however long the list is. It starts
 * over at its first place whenever it is empty, so that in steady use it stays in a few lines.
 */
#pragma once

#include "base/packet.h"

#include <string.h>

/* Places behind the last one that may be read ahead (never written, null). */
enum { RUN_QUEUE_MARGIN = 4 };

#define RUN_QUEUE_FLOW (UINT64_C(1) << 32)

struct released_run {
	struct base_packet *head; /* linked through next; count says where it ends */
	uint64_t release_ns;
	uint64_t flow_hash; /* run_queue_flow_hash */
	uint64_t count;
};

struct run_queue {
	struct released_run *runs;
	uint32_t capacity;
	uint32_t first, end;
};

/* Different between different hashes, and between packets with and without a flow. */
static inline uint64_t run_queue_flow_hash(const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_FLOW) != 0 ? packet->hash | RUN_QUEUE_FLOW : 0;
}

static inline uint32_t run_queue_count(const struct run_queue *queue)
{
	return queue->end - queue->first;
}

/* Make sure that `count` appends fit; the caller keeps its promise that they can. */
static inline void run_queue_reserve(struct run_queue *queue, uint64_t count)
{
	if (BASE_LIKELY(queue->end + count <= queue->capacity))
		return;
	BASE_ASSERT(run_queue_count(queue) + count <= queue->capacity);
	memmove(queue->runs, queue->runs + queue->first,
		run_queue_count(queue) * sizeof(*queue->runs));
	queue->end -= queue->first;
	queue->first = 0;
}

static inline void run_queue_append(struct run_queue *queue, struct base_packet *head,
	uint64_t release_ns, uint64_t flow_hash, uint64_t count)
{
	BASE_DEBUG_ASSERT(queue->end < queue->capacity);
	struct released_run *run = &queue->runs[queue->end++];
	run->head = head;
	run->release_ns = release_ns;
	run->flow_hash = flow_hash;
	run->count = count;
}
