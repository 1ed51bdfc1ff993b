/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive scan after the law of Linux's nf_conntrack garbage collector (since 5.15): the time to
 * the next pass is the mean of the timeouts that connections have left, taken along the way, so
 * that a table of short connections is scanned often and one of long ones rarely.
 *
 * The mean starts as if 100 connections had a minute left, takes each timeout as no less than 1 s
 * and no more than 5 min, and the pause is kept between 1 s and the interval (Linux: 1 min),
 * counted from the pass's beginning. Linux lets go of the processor after 10 ms or 64000/HZ
 * removals and goes on at once; here the budget of the call does that, so that results do not
 * depend on the machine. Late by at most an interval and the time of a pass; slack twice that.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/scan.h"

#include <errno.h>

#define SECOND_NS           INT64_C(1000000000)
#define INTERVAL_NS_DEFAULT (60 * SECOND_NS)
#define PAUSE_NS_MIN        SECOND_NS
#define LEFT_NS_MAX         (300 * SECOND_NS)

enum { COUNT_FIRST = 100, BUDGET_DEFAULT = 256 };

struct adaptive {
	struct conntrack_scan scan;
	int64_t mean_ns; /* of what is left of timeouts */
	int64_t count;
	uint64_t now_ns;  /* of the call */
	uint64_t next_ns; /* when the next pass begins */
};

static int adaptive_create(void **out, const struct conntrack_deletion_config *config)
{
	struct adaptive *adaptive =
		base_arena_alloc(config->arena, sizeof(*adaptive), BASE_CACHE_LINE);
	if (adaptive == NULL)
		return -ENOMEM;
	*adaptive = (struct adaptive){ 0 };
	conntrack_scan_init(&adaptive->scan, config);
	*out = adaptive;
	return 0;
}

static void adaptive_destroy(void *deletion)
{
	struct adaptive *adaptive = deletion;
	base_arena_free(adaptive->scan.arena, adaptive, sizeof(*adaptive));
}

static uint64_t adaptive_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct adaptive);
}

static uint64_t adaptive_slack_ns(const void *deletion, uint64_t now_ns)
{
	return conntrack_scan_slack_ns(&((const struct adaptive *)deletion)->scan, now_ns);
}

static void stays(void *context, uint64_t due_ns)
{
	struct adaptive *adaptive = context;
	uint64_t left_ns = due_ns - adaptive->now_ns;
	int64_t taken_ns = left_ns > (uint64_t)LEFT_NS_MAX ? LEFT_NS_MAX : (int64_t)left_ns;
	if (taken_ns < PAUSE_NS_MIN)
		taken_ns = PAUSE_NS_MIN;
	adaptive->mean_ns += (taken_ns - adaptive->mean_ns) / ++adaptive->count;
}

static void begin(struct adaptive *adaptive, uint64_t now_ns)
{
	conntrack_scan_begin(&adaptive->scan, now_ns);
	adaptive->mean_ns = INTERVAL_NS_DEFAULT;
	adaptive->count = COUNT_FIRST;
}

static void plan(struct adaptive *adaptive)
{
	uint64_t pause_ns = (uint64_t)adaptive->mean_ns;
	if (pause_ns > adaptive->scan.interval_ns)
		pause_ns = adaptive->scan.interval_ns;
	if (pause_ns < (uint64_t)PAUSE_NS_MIN)
		pause_ns = (uint64_t)PAUSE_NS_MIN;
	adaptive->next_ns = adaptive->scan.began_ns + pause_ns;
}

static unsigned int adaptive_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct adaptive *adaptive = deletion;
	struct conntrack_scan *scan = &adaptive->scan;
	if (!conntrack_scan_runs(scan)) {
		if (now_ns < adaptive->next_ns)
			return 0;
		begin(adaptive, now_ns);
	}
	adaptive->now_ns = now_ns;
	unsigned int looked = conntrack_scan_some(
		scan, now_ns, budget < scan->budget ? budget : scan->budget, stays, adaptive);
	if (!conntrack_scan_runs(scan))
		plan(adaptive);
	return looked;
}

const struct conntrack_deletion_ops conntrack_deletion_adaptive_linux_ops = {
	.name = "adaptive_linux",
	.summary = "scan whose pauses follow the timeouts that are left, as Linux's nf_conntrack; "
		   "interval: longest pause, 1 min; budget: entries per call, 256",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT, .budget = BUDGET_DEFAULT },
	.slack_ns = adaptive_slack_ns,
	.create = adaptive_create,
	.destroy = adaptive_destroy,
	.bytes = adaptive_bytes,
	.advance = adaptive_advance,
};
