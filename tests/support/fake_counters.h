/* SPDX-License-Identifier: BSD-2-Clause */
/* Stands in for the kernel's perf events: a clock that each call moves, values that tests set. */
#pragma once

#include "pipeline/counters.h"

enum { FAKE_COUNTERS_STEP_NS = 1000, FAKE_COUNTERS_OWN = 5 };

struct fake_counters {
	struct counters_kernel kernel; /* context is this struct */
	/* How it behaves; zeros: it has everything. */
	int refuse[COUNTERS_EVENTS_COUNT]; /* -errno of open, by event */
	unsigned int room;                 /* groups of more events never run; 0: no limit */
	int identify_error, enable_error, read_error;
	unsigned int idle_percent; /* of the time the group is without a counter */
	size_t short_by;           /* bytes that read leaves out */
	bool strange_id, same_ids, backwards;
	uint64_t events_surplus; /* that read says it has */
	/* What it counted, by event; tests add to it. Each read adds FAKE_COUNTERS_OWN. */
	uint64_t values[COUNTERS_EVENTS_COUNT];
	/* What it saw. */
	unsigned int opens, closes, reads;
	int leader; /* group that the last open asked for */
	bool all_user_mode;
	/* its own */
	unsigned int open_count;
	enum counters_event open[COUNTERS_EVENTS_COUNT];
	uint64_t enabled_ns, running_ns;
	bool enabled;
};

void fake_counters_init(struct fake_counters *fake);
