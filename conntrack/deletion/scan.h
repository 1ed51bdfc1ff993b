/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scan over all entries, in the order of memory, for the strategies that look at everything: they
 * differ in when a pass begins and in how much of it a call does. No bytes per connection.
 *
 * A pass that began at t leaves nothing that was due by t: connections due earlier than now are
 * neither opened nor made so by a packet. That is the slack of all scans.
 */
#pragma once

#include "conntrack/lab.h"

struct conntrack_scan {
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t interval_ns;
	uint64_t began_ns;   /* of the pass that runs, or the latest one */
	uint64_t covered_ns; /* beginning of the latest pass that is complete */
	uint32_t budget;     /* entries per call */
	uint32_t conns_max;
	uint32_t next;   /* conns_max: no pass runs */
	bool have_begun; /* began_ns is valid */
};

/* No pass runs. */
void conntrack_scan_init(
	struct conntrack_scan *scan, const struct conntrack_deletion_config *config);

static inline bool conntrack_scan_runs(const struct conntrack_scan *scan)
{
	return scan->next < scan->conns_max;
}

void conntrack_scan_begin(struct conntrack_scan *scan, uint64_t now_ns);

/* Up to max entries of the pass that runs; returns how many. stays: see conntrack_lab_sweep. */
unsigned int conntrack_scan_some(struct conntrack_scan *scan, uint64_t now_ns, uint64_t max,
	void (*stays)(void *context, uint64_t due_ns), void *context);

uint64_t conntrack_scan_slack_ns(const struct conntrack_scan *scan, uint64_t now_ns);
