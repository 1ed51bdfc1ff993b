/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: several streams put in order of time. A binary heap holds the next packet of
 * each; ties go to the lower number. Merging and overlays differ in where a packet stands in time,
 * which `place` says. Cost: O(log heads) and one copy of the frame per packet.
 */
#pragma once

#include "traces/packets.h"

struct traces_head {
	struct traces_packets *from;
	struct traces_batch batch; /* of it, */
	size_t next;               /* and the packet that waits */
	uint64_t time_ns;          /* its place in the output */
	uint16_t number;
};

struct traces_heads {
	struct traces_packets *owner; /* the stream that is made of them; gets their messages */
	/* Where a packet of stream `number` stands in time; NULL: where it says. */
	uint64_t (*place)(struct traces_packets *owner, uint16_t number, uint64_t time_ns);
	bool started;
	size_t heap_count, streams_count;
	struct traces_head *heap;
	struct traces_packets **streams; /* owned from the owner's success on */
};

/* The rest of heads is set by the caller. The array is copied. -ENOMEM. */
int traces_heads_init(
	struct traces_heads *heads, struct traces_packets *const *streams, size_t streams_count);
/* Without the streams. */
void traces_heads_free(struct traces_heads *heads);
/* With them. */
void traces_heads_destroy(struct traces_heads *heads);

/* Append packets to batch until it is one; record.file becomes the stream's number. */
int traces_heads_take(struct traces_heads *heads, struct traces_trace *batch);
