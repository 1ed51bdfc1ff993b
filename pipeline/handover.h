/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handover: groups of steering buckets that change their worker while packets go on. Capture time
 * is cut into epochs of one length. In each epoch a group belongs to one worker, in the next to its
 * neighbour: a function of both, which the planner steers by and the workers know, so that results
 * do not depend on how fast anybody is.
 *
 * A worker that has done with all its packets of the epochs before one, held ones too, says so
 * (reach). Whoever wants to work in an epoch waits until each other worker is through with the last
 * epoch before it in which that one had the groups: worker i - k by its number (modulo workers) had
 * worker i's groups k epochs ago. So what a group's owners write is ordered by one release and one
 * acquire.
 *
 * Nobody waits for ever: a worker that waits to enter an epoch has said that it reached it, and
 * others wait for earlier ones only, so of all who wait the one with the earliest epoch waits for
 * one that runs. A worker without packets, or one that was stopped, reaches the end of time.
 *
 * Threads: init before the workers, then each for itself. Cost: a store and, at best, workers - 1
 * loads per epoch. Memory: a line of cache per worker.
 */
#pragma once

#include "base/compiler.h"
#include "pipeline/pipeline.h"

enum { HANDOVER_GROUPS = 16 };
static_assert(PIPELINE_RETA_SIZE % HANDOVER_GROUPS == 0, "groups of equal size");

/* The stamp of a packet (base_packet.seq): its place in the capture, which any worker's check of
 * order can compare, and above it its group. */
enum { HANDOVER_STAMP_BITS = 56 };

struct handover_seat {
	/* Its worker -> whoever waits: release in reach, acquire in wait. */
	atomic_uint_least64_t reached BASE_ALIGNED(64);
};

struct handover {
	uint32_t workers;
	struct handover_seat seats[PIPELINE_WORKERS_MAX];
};

/* Of a flow's hash: neighbours in the indirection table. */
static inline uint32_t handover_group(uint32_t hash)
{
	return hash % PIPELINE_RETA_SIZE / (PIPELINE_RETA_SIZE / HANDOVER_GROUPS);
}

static inline uint32_t handover_owner(uint32_t group, uint64_t epoch, uint32_t workers)
{
	return (uint32_t)((group + epoch % workers) % workers);
}

void handover_init(struct handover *handover, uint32_t workers);

/* The worker has done with all epochs before this one. UINT64_MAX: with all. */
void handover_reach(struct handover *handover, uint32_t worker, uint64_t epoch);

/* False: `stop` was set, and the groups may not be touched. Cycles waited are added. */
bool handover_wait(const struct handover *handover, uint32_t worker, uint64_t epoch,
	const atomic_bool *stop, uint64_t *waited_cycles);
