/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full scan: once per interval, all entries in one go, whatever the budget. The baseline of
 * textbooks, and of published comparisons at 1 Hz: cheap per entry, and a pause as long as the
 * table. Late by at most an interval, and slack is two (the pass before may have just begun).
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/scan.h"

#include <errno.h>

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

static int full_scan_create(void **out, const struct conntrack_deletion_config *config)
{
	struct conntrack_scan *scan =
		base_arena_alloc(config->arena, sizeof(*scan), BASE_CACHE_LINE);
	if (scan == NULL)
		return -ENOMEM;
	conntrack_scan_init(scan, config);
	*out = scan;
	return 0;
}

static void full_scan_destroy(void *deletion)
{
	struct conntrack_scan *scan = deletion;
	base_arena_free(scan->arena, scan, sizeof(*scan));
}

static uint64_t full_scan_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct conntrack_scan);
}

static uint64_t full_scan_slack_ns(const void *deletion, uint64_t now_ns)
{
	return conntrack_scan_slack_ns(deletion, now_ns);
}

static unsigned int full_scan_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct conntrack_scan *scan = deletion;
	(void)budget;
	if (scan->have_begun && now_ns - scan->began_ns < scan->interval_ns)
		return 0;
	conntrack_scan_begin(scan, now_ns);
	return conntrack_scan_some(scan, now_ns, UINT64_MAX, NULL, NULL);
}

const struct conntrack_deletion_ops conntrack_deletion_full_scan_ops = {
	.name = "full_scan",
	.summary = "all entries in one go, whatever the budget; interval: between passes, 1 s",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT },
	.slack_ns = full_scan_slack_ns,
	.create = full_scan_create,
	.destroy = full_scan_destroy,
	.bytes = full_scan_bytes,
	.advance = full_scan_advance,
};
