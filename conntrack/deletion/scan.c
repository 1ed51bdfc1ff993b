/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/deletion/scan.h"

void conntrack_scan_init(
	struct conntrack_scan *scan, const struct conntrack_deletion_config *config)
{
	*scan = (struct conntrack_scan){
		.tracker = config->tracker,
		.arena = config->arena,
		.interval_ns = config->knobs.interval_ns,
		.budget = config->knobs.budget,
		.conns_max = config->conns_max,
		.next = config->conns_max,
	};
}

void conntrack_scan_begin(struct conntrack_scan *scan, uint64_t now_ns)
{
	scan->began_ns = now_ns;
	scan->have_begun = true;
	scan->next = 0;
}

unsigned int conntrack_scan_some(struct conntrack_scan *scan, uint64_t now_ns, uint64_t max,
	void (*stays)(void *context, uint64_t due_ns), void *context)
{
	uint32_t left = scan->conns_max - scan->next;
	uint32_t count = max < left ? (uint32_t)max : left;
	if (count == 0)
		return 0;
	conntrack_lab_sweep(scan->tracker, scan->next, count, now_ns, stays, context);
	scan->next += count;
	if (!conntrack_scan_runs(scan))
		scan->covered_ns = scan->began_ns;
	return count;
}

uint64_t conntrack_scan_slack_ns(const struct conntrack_scan *scan, uint64_t now_ns)
{
	return now_ns - scan->covered_ns;
}
