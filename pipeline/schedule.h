/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Schedule: what each worker plays, worked out once before the run and off the clock, as a NIC's
 * RSS would do it in hardware. Times become nanoseconds since the first packet, made monotone (a
 * time that runs backwards is clamped to the one before, counted) and with gaps above a limit cut
 * (counted). Packets are steered by the symmetric hash of their flow key through an indirection
 * table: both directions, all fragments of a datagram, and ICMP errors with the flow they quote
 * meet at one worker. Packets without a flow go to worker 0.
 *
 * Memory: 16 bytes per packet. Immutable once built.
 */
#pragma once

#include "pipeline/pipeline.h"

struct schedule_entry {
	uint64_t time_ns; /* since the first packet of the trace */
	uint32_t record;  /* index into the trace's records */
	uint32_t flags;   /* BASE_PACKET_OPERATOR marks */
};
static_assert(sizeof(struct schedule_entry) == 16, "documented memory");

struct schedule {
	struct schedule_entry *entries[PIPELINE_WORKERS_MAX];
	uint64_t counts[PIPELINE_WORKERS_MAX];
	uint64_t packets; /* of the trace */
	uint64_t wire_bytes, captured_bytes;
	uint64_t duration_ns; /* last time */
	uint64_t period_ns;   /* distance of two passes: duration + one mean gap */
	uint64_t time_clamped;
	uint64_t gaps_cut, gaps_cut_ns;
	uint64_t flows;
	uint32_t cap_len_max, wire_len_max;
	uint64_t epoch_ns; /* capture time of the first packet */
};

/* -ENOMEM; -EINVAL with message when the filter does not compile; -EINTR when stop was set. */
int schedule_create(struct schedule *schedule, const struct pipeline_config *config,
	const struct traces_trace *trace, const atomic_bool *stop, char *message);
void schedule_destroy(struct schedule *schedule);
