/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources of one worker: a trace played from memory, chunks from a reader, or a DPDK port's queue.
 * One struct with a small ops table, since sources are one of the few things that truly vary.
 *
 * poll() fills packets (reset, with data, lengths, link, time and sequence set) and never more than
 * the limits say. `done` tells that nothing will ever come again.
 */
#pragma once

#include "pipeline/packet_ring.h"
#include "pipeline/reader.h"
#include "pipeline/schedule.h"

struct source;

struct source_ops {
	/* Up to `count` packets whose time is at most limit_ns. Returns how many. */
	unsigned int (*poll)(struct source *source, uint64_t limit_ns, struct base_packet **packets,
		unsigned int count);
	/* Packets that were handled by the worker and may be used again. */
	void (*give_back)(
		struct source *source, struct base_packet *const *packets, unsigned int count);
	void (*destroy)(struct source *source);
};

struct source {
	const struct source_ops *ops;
	bool done;
	uint64_t end_ns;                 /* when done: capture time at which timers stop */
	uint64_t frames_cut;             /* longer than a packet buffer */
	struct base_histogram *lateness; /* wall clock: emission minus schedule; may be NULL */

	/* what a reader did to the latest poll; always false without one */
	bool failed;         /* when done: reading failed, there are no results */
	bool starved;        /* a packet was wanted that is not there yet ... */
	uint64_t reached_ns; /* ... and is not earlier than this */
	bool took;           /* a chunk has come, ... */
	uint64_t took_ns;    /* ... whose first packet has this time */
	uint64_t pauses;     /* the reader's, when the latest chunk came */
};

/* Plays schedule->entries[worker] with the configured loops and overlay. -ENOMEM. */
int source_trace_create(struct source **out, const struct pipeline_config *config,
	const struct schedule *schedule, const struct traces_trace *trace, unsigned int worker,
	uint32_t reserve_buffers);

/* Plays what the reader hands to the worker: the same as a trace source of the same capture.
 * -ENOMEM. */
int source_stream_create(struct source **out, const struct pipeline_config *config,
	struct reader *reader, unsigned int worker, uint32_t reserve_buffers);
/* Longest frame that its buffers are made for; longer ones lie elsewhere, or are cut for a port. */
uint32_t source_stream_frame_max(const struct pipeline_config *config);

/* Queue `worker` of the port that port.h started; the port's pool is `pool`. */
int source_port_create(struct source **out, uint16_t port, uint16_t queue,
	const struct pipeline_config *config, char *message);
