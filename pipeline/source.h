/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources of one worker: a trace played from memory, or a DPDK port's queue. One struct with a
 * small ops table, since sources are one of the few things that truly vary.
 *
 * poll() fills packets (reset, with data, lengths, link, time and sequence set) and never more than
 * the limits say. `done` tells that nothing will ever come again.
 */
#pragma once

#include "pipeline/packet_ring.h"
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
};

/* Plays schedule->entries[worker] with the configured loops and overlay. -ENOMEM. */
int source_trace_create(struct source **out, const struct pipeline_config *config,
	const struct schedule *schedule, const struct traces_trace *trace, unsigned int worker,
	uint32_t reserve_buffers);

/* Queue `worker` of the port that port.h started; the port's pool is `pool`. */
int source_port_create(struct source **out, uint16_t port, uint16_t queue,
	const struct pipeline_config *config, char *message);
