/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Planner: what happens to each packet of a capture, decided off the packet path as a NIC's RSS
 * would do it in hardware, in one walk. Times become nanoseconds since the first packet, made
 * monotone (a time that runs backwards is clamped to the one before, counted) and with gaps above a
 * limit cut (counted). Packets are steered by the symmetric hash of their flow key through an
 * indirection table: both directions, all fragments of a datagram, and ICMP errors with the flow
 * they quote meet at one worker. Packets without a flow go to worker 0.
 *
 * A schedule plans a trace in memory before the run, the reader of a stream plans as it goes: the
 * same packets in the same order give the same plan.
 *
 * Threads: one user at a time. Memory: the parser's, and 128 to 256 bytes for each flow counted.
 */
#pragma once

#include "pipeline/pipeline.h"

/* Packets planned together: enough to fetch the flow set's lines ahead of their use. */
enum { PLANNER_BATCH = 64 };

/* What is known of one pass over a capture when it has been planned. */
struct plan {
	uint64_t packets;
	uint64_t wire_bytes, captured_bytes;
	uint64_t duration_ns; /* last time */
	uint64_t period_ns;   /* distance of two passes: duration + one mean gap */
	uint64_t time_clamped;
	uint64_t gaps_cut, gaps_cut_ns;
	uint64_t flows;  /* distinct keys */
	bool flows_more; /* there were more than were counted */
	uint32_t cap_len_max, wire_len_max;
	uint64_t epoch_ns; /* capture time of the first packet */
	enum base_link first_link;
};

/* Of one packet. */
struct planner_step {
	uint64_t time_ns; /* since the first packet of the trace */
	uint16_t flags;   /* BASE_PACKET_OPERATOR marks */
	uint16_t worker;
	uint16_t group;      /* handover: of steering buckets, and ... */
	bool first_fragment; /* ... whether later ones take this packet's key */
};

struct planner;

/* flows_max: distinct flows to count (0: none). config must outlive the planner. -ENOMEM; -EINVAL
 * with message (PIPELINE_MESSAGE_SIZE) when a filter does not compile. */
int planner_create(struct planner **out, const struct pipeline_config *config, uint64_t flows_max,
	char *message);
void planner_destroy(struct planner *planner);

/* The next packets, at most PLANNER_BATCH. -ENOMEM. */
int planner_plan(struct planner *planner, const struct traces_record *records, const uint8_t *bytes,
	unsigned int count, struct planner_step *steps);

/* What has been planned so far, as if the capture ended here. */
void planner_summary(const struct planner *planner, struct plan *plan);

/* Time at which the last packet of the last pass and copy is due. */
uint64_t plan_end_ns(const struct plan *plan, const struct pipeline_config *config);
