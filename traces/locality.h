/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: what the order of a trace's packets says about its flows. One pass, one
 * entry per flow:
 *
 * runs         flow runs as they stand; the SLF is packets / runs
 * windows      flow runs that would be left if packets were grouped by flow inside consecutive
 *              windows (so many packets, or so long): the sum of the windows' distinct flows, less
 *              one where a run goes on from one window into the next. A window's group can touch
 *              one neighbour only, unless it is the window's only one. Never more runs than before.
 * concurrency  entries that a table with an idle timeout would hold, and how often it inserts
 *
 * A packet without a flow is a run of its own everywhere. Time never runs backwards here: a packet
 * earlier than its predecessor counts as simultaneous with it.
 */
#pragma once

#include "traces/trace.h"

enum { TRACES_LOCALITY_WINDOWS = 2 * TRACES_WINDOWS };

struct traces_flow {
	struct base_flow_key key;
	uint64_t last_ns;
	uint32_t hash;
	uint32_t older, newer;                     /* live flows by time of their last packet */
	uint32_t windows[TRACES_LOCALITY_WINDOWS]; /* the last window of each kind that it is in */
	uint8_t directions;
	bool live;
};

struct traces_locality {
	/* flow table: open addressing over indices, hash beside them */
	struct traces_buffer flows;
	struct traces_flow_slot *slots;
	uint64_t slots_mask;
	uint64_t flows_count;
	uint64_t flows_unidirectional;

	uint64_t packets;
	uint64_t runs;
	uint32_t last_flow; /* of the packet before */

	uint32_t window[TRACES_LOCALITY_WINDOWS]; /* running number */
	uint64_t window_end[TRACES_LOCALITY_WINDOWS];
	uint64_t groups[TRACES_LOCALITY_WINDOWS];        /* flow runs if grouped */
	uint64_t groups_before[TRACES_LOCALITY_WINDOWS]; /* the current window */
	uint32_t joined[TRACES_LOCALITY_WINDOWS]; /* its flow that goes on from the one before */

	uint64_t idle_timeout_ns;
	uint64_t first_ns, now_ns;
	uint32_t oldest, newest;
	uint64_t live, peak_live, insertions;
};

/* -ENOMEM. */
int traces_locality_init(struct traces_locality *locality, uint64_t idle_timeout_ns);
void traces_locality_destroy(struct traces_locality *locality);
/* Bring the table's line for a hash nearer. */
void traces_locality_prefetch(const struct traces_locality *locality, uint32_t hash);
/* A packet of a flow; reversed is its direction. -ENOMEM. */
int traces_locality_add(struct traces_locality *locality, uint64_t time_ns,
	const struct base_flow_key *key, uint32_t hash, bool reversed);
/* A packet without a flow. */
void traces_locality_add_other(struct traces_locality *locality, uint64_t time_ns);
/* Write the results into info. */
void traces_locality_finish(const struct traces_locality *locality, struct traces_info *info);

/* ---- traits.c: what a packet's headers show, counted into info ---- */

void traces_traits_count(struct traces_info *info, const struct base_packet *packet, bool is_flow);
