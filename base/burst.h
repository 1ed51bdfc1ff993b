/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Burst: the unit that crosses a stage boundary, up to BASE_BURST_MAX packets, with its flow
 * runs. A flow run is a range of consecutive packets with one flow key; packets without a key are
 * runs of their own. Runs cover the burst exactly, in order.
 *
 * Dropping: a stage calls base_burst_drop on packets it refuses; the worker calls
 * base_burst_compact after each stage, which moves the dropped packets out and mends the runs.
 * Nothing is freed here.
 *
 * Threads: a burst belongs to one worker. Cost: compaction is O(packets) and only runs when
 * something was dropped.
 */
#pragma once

#include "base/packet.h"

enum { BASE_BURST_MAX = 256 };

struct base_run {
	uint16_t first; /* index into packets */
	uint16_t count; /* >= 1 */
};

struct base_burst {
	uint16_t count;
	uint16_t run_count;
	uint16_t drop_count; /* packets marked and not yet compacted away */
	struct base_packet *packets[BASE_BURST_MAX];
	struct base_run runs[BASE_BURST_MAX];
};

/* Mark packet `index` as refused. The first reason stays. */
static inline void base_burst_drop(
	struct base_burst *burst, unsigned int index, enum base_drop_reason reason)
{
	struct base_packet *packet = burst->packets[index];
	if (packet->drop_reason == BASE_DROP_NONE) {
		packet->drop_reason = (uint8_t)reason;
		burst->drop_count++;
	}
}

/* Find runs by comparing neighbours' hashes, then keys. With `single`, every packet becomes a run
 * of its own (the ablation "runs"). */
void base_burst_mark_runs(struct base_burst *burst, bool single);

/* Move packets with a drop reason to `dropped` (room for burst->count), keep order, mend runs.
 * Returns how many were moved. */
unsigned int base_burst_compact(struct base_burst *burst, struct base_packet **dropped);
