/* SPDX-License-Identifier: BSD-2-Clause */
/* What strategies need to know of a tracker's timeouts. Pure. */
#pragma once

#include "conntrack/lab.h"

struct conntrack_timing {
	uint64_t longest_ns; /* of the timeouts that end; 0: none does */
	/* Without close hints a due time can move earlier unnoticed, by no more than this. */
	uint64_t unnoticed_ns;
};

static inline struct conntrack_timing conntrack_timing_of(const struct conntrack_config *config)
{
	struct conntrack_timing timing = { 0 };
	for (unsigned int class = 0; class < CONNTRACK_LAB_CLASSES; class ++) {
		uint64_t timeout_ns = conntrack_lab_class_timeout_ns(config, class);
		if (timeout_ns > timing.longest_ns)
			timing.longest_ns = timeout_ns;
	}
	if (config->no_close_hints)
		timing.unnoticed_ns = timing.longest_ns;
	return timing;
}

/* a + b, but never beyond the largest value. */
static inline uint64_t conntrack_timing_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* When to look at a connection that is due then. One that never is may become so unnoticed: it is
 * looked at as if it had the longest timeout. */
static inline uint64_t conntrack_timing_look_ns(
	const struct conntrack_timing *timing, uint64_t due_ns, uint64_t now_ns)
{
	if (due_ns != UINT64_MAX || timing->unnoticed_ns == 0)
		return due_ns;
	return conntrack_timing_add(now_ns, timing->unnoticed_ns);
}
