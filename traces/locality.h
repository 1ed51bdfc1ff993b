/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: what the order of packets says about their flows, in one pass.
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
 *
 * Memory: one entry for each flow, until there are flows_max. From then on flows that are neither
 * live nor in a window leave the table and distinct flows are counted by sketches. When that is not
 * enough, one that only a window needs leaves early, and should it come back, it is one group too
 * many there. When all flows_max are live and one more comes, the one idle for longest leaves:
 * should it come back in time, it is one insertion too many as well.
 */
#pragma once

#include "traces/flow_table.h"
#include "traces/idle_queue.h"
#include "traces/leavers.h"

struct traces_sketch;

enum { TRACES_LOCALITY_WINDOWS = 2 * TRACES_WINDOWS };

struct traces_locality {
	struct traces_flow_table table;
	struct traces_idle_queue idle; /* of the live ones */
	struct traces_leavers leavers; /* with sketches: not live, and maybe in a window */
	uint64_t flows_unidirectional;
	uint32_t flows_max;
	/* of distinct flows, two-way and one-way; NULL while all flows are in the table */
	struct traces_sketch *sketches;
	struct base_hash_config sketch_hash[2]; /* halves of a 64-bit hash */

	uint64_t packets;
	uint64_t runs;
	uint32_t last_flow; /* of the packet before */

	uint64_t window_first[TRACES_LOCALITY_WINDOWS];  /* number of its first packet, from 1 */
	uint64_t window_end[TRACES_LOCALITY_WINDOWS];    /* in packets, in ns since first_ns */
	uint64_t next_end_packet, next_end_ns;           /* the earliest of each kind */
	uint64_t groups[TRACES_LOCALITY_WINDOWS];        /* flow runs if grouped */
	uint64_t groups_before[TRACES_LOCALITY_WINDOWS]; /* the current window */
	uint32_t joined[TRACES_LOCALITY_WINDOWS];   /* its flow that goes on from the one before */
	bool window_short[TRACES_LOCALITY_WINDOWS]; /* one of its flows left the table early */

	uint64_t idle_timeout_ns;
	uint64_t first_ns, now_ns;
	uint64_t live, peak_live, insertions;
	uint64_t early_evictions;
};

/* Of options: idle_timeout_ns, flows_max, seed. -ENOMEM. */
int traces_locality_init(
	struct traces_locality *locality, const struct traces_info_options *options);
void traces_locality_destroy(struct traces_locality *locality);
/* A packet of a flow; reversed is its direction. The table's lines for hash should be near:
 * traces_flow_prefetch. -ENOMEM. */
int traces_locality_add(struct traces_locality *locality, uint64_t time_ns,
	const struct base_flow_key *key, uint32_t hash, bool reversed);
/* A packet without a flow. -ENOMEM. */
int traces_locality_add_other(struct traces_locality *locality, uint64_t time_ns);
/* Write the results into info. */
void traces_locality_finish(const struct traces_locality *locality, struct traces_info *info);
uint64_t traces_locality_memory_bytes(const struct traces_locality *locality);

/* ---- traits.c: what a packet's headers show, counted into info ---- */

void traces_traits_count(struct traces_info *info, const struct base_packet *packet, bool is_flow);
