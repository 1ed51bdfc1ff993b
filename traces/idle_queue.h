/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: which flow has been idle for longest, exactly, without a word to the queue
 * when a packet arrives: a flow's last_ns is looked at when its turn comes, and if it was busy
 * since, it waits on from there.
 *
 * A calendar: flows are listed by the tick of their last packet (1024 ticks to the timeout); those
 * of the tick whose turn it is are in a heap by time. Each flow that waits is touched once per
 * timeout. Memory: 16 bytes for each flow of the fullest tick, 8 KiB, and the table's links.
 */
#pragma once

#include "traces/flow_table.h"

enum { TRACES_IDLE_TICKS = 1024, TRACES_IDLE_LISTS = 2 * TRACES_IDLE_TICKS };

struct traces_idle_item {
	uint64_t since_ns;
	uint32_t index;
	uint32_t reserved;
};

struct traces_idle_queue {
	uint64_t tick_ns;
	uint64_t tick;    /* flows of this one and earlier ones are in the heap */
	uint64_t next_ns; /* nothing waits since before this */
	uint64_t count;
	struct traces_buffer heap; /* of struct traces_idle_item */
	uint32_t lists[TRACES_IDLE_LISTS];
};

/* Of flows that wait at most for timeout_ns before somebody takes them. */
void traces_idle_init(struct traces_idle_queue *queue, uint64_t timeout_ns);
void traces_idle_destroy(struct traces_idle_queue *queue);
/* A flow that is not in the queue waits since since_ns, not before its last packet. -ENOMEM. */
int traces_idle_add(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint32_t index, uint64_t since_ns);
/* Take out the flow that is idle for longest, if it is so since before limit_ns;
 * TRACES_FLOW_NONE if none is. limit_ns is at most now + 1. -ENOMEM. */
int traces_idle_take(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint64_t limit_ns, uint32_t *index);
