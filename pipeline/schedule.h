/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Schedule: what each worker plays of a trace in memory, planned once before the run (planner.h)
 * and off the clock.
 *
 * Memory: 16 bytes per packet. Immutable once built.
 */
#pragma once

#include "pipeline/planner.h"

struct schedule_entry {
	uint64_t time_ns; /* since the first packet of the trace */
	uint32_t record;  /* index into the trace's records */
	uint32_t flags;   /* BASE_PACKET_OPERATOR marks; the group above them */
};
static_assert(sizeof(struct schedule_entry) == 16, "documented memory");
enum { SCHEDULE_GROUP_SHIFT = 16 };

/* A first fragment, where the later ones may come to another worker (handover.h). */
struct schedule_fragment {
	uint64_t time_ns;
	uint32_t record;
	uint32_t worker;
};

struct schedule {
	struct schedule_entry *entries[PIPELINE_WORKERS_MAX];
	uint64_t counts[PIPELINE_WORKERS_MAX];
	struct schedule_fragment *fragments; /* by time */
	uint64_t fragments_count;
	struct plan plan;
};

/* -ENOMEM; -EINVAL with message when the filter does not compile; -EINTR when stop was set. */
int schedule_create(struct schedule *schedule, const struct pipeline_config *config,
	const struct traces_trace *trace, const atomic_bool *stop, char *message);
void schedule_destroy(struct schedule *schedule);
