/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Budgeted scan: the same pass as a full scan, a few entries after each burst, at a pace that
 * covers the table once per interval. Late by at most an interval and slack two, while the budget
 * keeps up with the pace: entries / interval.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/scan.h"

#include <errno.h>

enum { BUDGET_DEFAULT = 256 };

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

static int budgeted_scan_create(void **out, const struct conntrack_deletion_config *config)
{
	struct conntrack_scan *scan =
		base_arena_alloc(config->arena, sizeof(*scan), BASE_CACHE_LINE);
	if (scan == NULL)
		return -ENOMEM;
	conntrack_scan_init(scan, config);
	*out = scan;
	return 0;
}

static void budgeted_scan_destroy(void *deletion)
{
	struct conntrack_scan *scan = deletion;
	base_arena_free(scan->arena, scan, sizeof(*scan));
}

static uint64_t budgeted_scan_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct conntrack_scan);
}

static uint64_t budgeted_scan_slack_ns(const void *deletion, uint64_t now_ns)
{
	return conntrack_scan_slack_ns(deletion, now_ns);
}

/* Where the pass that runs should be by now. */
static uint64_t pace(const struct conntrack_scan *scan, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - scan->began_ns;
	if (elapsed_ns >= scan->interval_ns)
		return scan->conns_max;
	return (uint64_t)((double)scan->conns_max * (double)elapsed_ns / (double)scan->interval_ns);
}

static unsigned int budgeted_scan_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct conntrack_scan *scan = deletion;
	if (!conntrack_scan_runs(scan))
		conntrack_scan_begin(scan, now_ns);
	uint64_t wanted = pace(scan, now_ns);
	uint64_t behind = wanted > scan->next ? wanted - scan->next : 0;
	uint64_t most = budget < scan->budget ? budget : scan->budget;
	return conntrack_scan_some(scan, now_ns, behind < most ? behind : most, NULL, NULL);
}

const struct conntrack_deletion_ops conntrack_deletion_budgeted_scan_ops = {
	.name = "budgeted_scan",
	.summary = "all entries once per interval (1 s), a few after each burst; budget: at most "
		   "so many per call, 256",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT, .budget = BUDGET_DEFAULT },
	.slack_ns = budgeted_scan_slack_ns,
	.create = budgeted_scan_create,
	.destroy = budgeted_scan_destroy,
	.bytes = budgeted_scan_bytes,
	.advance = budgeted_scan_advance,
};
