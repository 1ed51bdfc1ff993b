/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive scan after the law of Suricata's flow manager (since 6.0.4): each second a slice of the
 * table is scanned, as large as the table is full, and at least a tenth of it. When an insertion
 * finds no room, an emergency begins: the whole table every quarter of a second, until 30 % of it
 * are free again.
 *
 * Suricata also shortens timeouts in an emergency; here nothing leaves before it is due. Its
 * manager is a thread of its own, so that its pauses are nobody's; here a slice is scanned by the
 * budget of each call. Late by at most ten intervals, and slack twice that.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/scan.h"

#include <errno.h>

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

enum {
	BUDGET_DEFAULT = 256,
	BUSY_PERCENT_MIN = 10,
	FREE_PERCENT_CALM = 30,
	EMERGENCY_PACE = 4, /* passes per interval */
};

struct adaptive {
	struct conntrack_scan scan;
	uint64_t slice_ns; /* when the slice that is being scanned was cut */
	uint32_t slice;    /* what is left of it */
	uint32_t live, entries_max;
	bool emergency;
};

static int adaptive_create(void **out, const struct conntrack_deletion_config *config)
{
	struct adaptive *adaptive =
		base_arena_alloc(config->arena, sizeof(*adaptive), BASE_CACHE_LINE);
	if (adaptive == NULL)
		return -ENOMEM;
	*adaptive = (struct adaptive){ .entries_max = config->config->entries_max };
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

static void adaptive_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	(void)conn;
	(void)due_ns;
	(void)now_ns;
	((struct adaptive *)deletion)->live++;
}

static void adaptive_removed(void *deletion, uint32_t conn)
{
	(void)conn;
	((struct adaptive *)deletion)->live--;
}

static void adaptive_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct adaptive *adaptive = deletion;
	(void)mixed;
	(void)now_ns;
	if (lack != CONNTRACK_LACK_ROOM || adaptive->emergency)
		return;
	adaptive->emergency = true;
	adaptive->slice_ns = 0;
}

static bool is_calm(const struct adaptive *adaptive)
{
	return (uint64_t)adaptive->live * 100 <=
	       (uint64_t)adaptive->entries_max * (100 - FREE_PERCENT_CALM);
}

/* The next slice, when its time has come. */
static void cut(struct adaptive *adaptive, uint64_t now_ns)
{
	uint64_t interval_ns = adaptive->scan.interval_ns;
	if (adaptive->emergency && is_calm(adaptive))
		adaptive->emergency = false;
	if (adaptive->emergency)
		interval_ns /= EMERGENCY_PACE;
	if (adaptive->slice_ns != 0 && now_ns - adaptive->slice_ns < interval_ns)
		return;
	uint64_t busy = (uint64_t)adaptive->live * 100 / adaptive->entries_max;
	if (busy < BUSY_PERCENT_MIN)
		busy = BUSY_PERCENT_MIN;
	if (adaptive->emergency)
		busy = 100;
	adaptive->slice_ns = now_ns;
	adaptive->slice = (uint32_t)((uint64_t)adaptive->scan.conns_max * busy / 100) + 1;
}

static unsigned int adaptive_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct adaptive *adaptive = deletion;
	struct conntrack_scan *scan = &adaptive->scan;
	cut(adaptive, now_ns);
	if (adaptive->slice == 0)
		return 0;
	if (!conntrack_scan_runs(scan))
		conntrack_scan_begin(scan, now_ns);
	uint32_t most = budget < scan->budget ? budget : scan->budget;
	unsigned int looked = conntrack_scan_some(
		scan, now_ns, adaptive->slice < most ? adaptive->slice : most, NULL, NULL);
	adaptive->slice -= looked;
	return looked;
}

const struct conntrack_deletion_ops conntrack_deletion_adaptive_suricata_ops = {
	.name = "adaptive_suricata",
	.summary = "scan whose slices follow the load, as Suricata's flow manager; interval: "
		   "between slices, 1 s; budget: entries per call, 256",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT, .budget = BUDGET_DEFAULT },
	.slack_ns = adaptive_slack_ns,
	.create = adaptive_create,
	.destroy = adaptive_destroy,
	.bytes = adaptive_bytes,
	.inserted = adaptive_inserted,
	.removed = adaptive_removed,
	.make_room = adaptive_make_room,
	.advance = adaptive_advance,
};
