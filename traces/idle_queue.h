/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: which flow has been idle for longest, exactly, without a word to the queue
 * when a packet arrives: a flow's last_ns is looked at when its turn comes, and if it was busy
 * since, it waits on from there.
 *
 * A calendar: flows are listed by the tick of their last packet (1024 ticks to the timeout); those
 * of the tick whose turn it is are in a heap by time. Each flow that waits is touched once per
 * timeout. Memory: 4.3 bytes a flow, 16 for each of the fullest tick, and 150 KiB.
 */
#pragma once

#include "traces/flow_table.h"

enum {
	TRACES_IDLE_TICKS = 1024,
	TRACES_IDLE_LISTS = 2 * TRACES_IDLE_TICKS,
	TRACES_IDLE_CHUNK_FLOWS = 15,
};

struct traces_idle_item {
	uint64_t last_ns;
	uint32_t index;
	uint32_t reserved;
};

/* Lists are in pieces, so that their flows can be fetched without waiting for one another. */
struct traces_idle_chunk {
	uint32_t next_plus_one; /* the list's next, or the next free one; 0: the last */
	uint32_t indices[TRACES_IDLE_CHUNK_FLOWS];
};

struct traces_idle_list {
	uint32_t first_plus_one; /* its chunks; only the first may not be full */
	uint32_t count;
};

struct traces_idle_queue {
	uint64_t tick_ns;
	uint64_t tick;               /* flows of this one and earlier ones are in the heap */
	uint64_t next_ns;            /* nothing waits since before this */
	struct traces_buffer heap;   /* of struct traces_idle_item */
	struct traces_buffer chunks; /* of struct traces_idle_chunk */
	uint32_t free_plus_one;
	uint64_t filled[TRACES_IDLE_LISTS / 64]; /* bit i: list i has flows */
	struct traces_idle_list lists[TRACES_IDLE_LISTS];
};

/* Of flows that wait at most for timeout_ns before somebody takes them. */
void traces_idle_init(struct traces_idle_queue *queue, uint64_t timeout_ns);
void traces_idle_destroy(struct traces_idle_queue *queue);
uint64_t traces_idle_memory_bytes(const struct traces_idle_queue *queue);
/* A flow that is not in the queue, whose last packet is of last_ns. -ENOMEM. */
int traces_idle_add(struct traces_idle_queue *queue, uint32_t index, uint64_t last_ns);
/* Take out the flow that is idle for longest, if it is so since before limit_ns;
 * TRACES_FLOW_NONE if none is. limit_ns is at most now + 1. -ENOMEM. */
int traces_idle_take(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint64_t limit_ns, uint32_t *index);
