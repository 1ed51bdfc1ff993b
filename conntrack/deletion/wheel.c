/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracker's own hierarchical timer wheel (conntrack/expiry.h) behind the laboratory's calls.
 * Late by less than a tick while the budget suffices; without close hints by the longest timeout
 * more.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/timing.h"
#include "conntrack/expiry.h"

#include <errno.h>
#include <string.h>

enum { RECLAIM_LOOKS = 8 };

#define TICK_NS_DEFAULT UINT64_C(4000000)

struct wheel {
	struct conntrack_expiry expiry;
	struct conntrack_timing timing;
	struct conntrack *tracker;
	struct base_arena *arena;
};

static int wheel_create(void **out, const struct conntrack_deletion_config *config)
{
	struct wheel *wheel = base_arena_alloc(config->arena, sizeof(*wheel), BASE_CACHE_LINE);
	if (wheel == NULL)
		return -ENOMEM;
	memset(wheel, 0, sizeof(*wheel));
	wheel->timing = conntrack_timing_of(config->config);
	wheel->tracker = config->tracker;
	wheel->arena = config->arena;
	int error = conntrack_expiry_init(
		&wheel->expiry, config->conns_max, config->knobs.interval_ns, config->arena);
	if (error != 0) {
		base_arena_free(config->arena, wheel, sizeof(*wheel));
		return error;
	}
	*out = wheel;
	return 0;
}

static void wheel_destroy(void *deletion)
{
	struct wheel *wheel = deletion;
	conntrack_expiry_release(&wheel->expiry);
	base_arena_free(wheel->arena, wheel, sizeof(*wheel));
}

static uint64_t wheel_bytes(const void *deletion)
{
	return conntrack_expiry_bytes(&((const struct wheel *)deletion)->expiry);
}

static uint64_t wheel_slack_ns(const void *deletion, uint64_t now_ns)
{
	const struct wheel *wheel = deletion;
	return conntrack_timing_add(
		conntrack_expiry_slack_ns(&wheel->expiry, now_ns), wheel->timing.unnoticed_ns);
}

static void arm(struct wheel *wheel, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	conntrack_expiry_arm(
		&wheel->expiry, conn, conntrack_timing_look_ns(&wheel->timing, due_ns, now_ns));
}

static void wheel_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct wheel *wheel = deletion;
	conntrack_expiry_start(&wheel->expiry, now_ns);
	arm(wheel, conn, due_ns, now_ns);
}

static void wheel_removed(void *deletion, uint32_t conn)
{
	conntrack_expiry_disarm(&((struct wheel *)deletion)->expiry, conn);
}

/* A later due time waits for the slot to fire; an earlier one cannot. */
static void wheel_changed(
	void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier)
{
	(void)now_ns;
	if (earlier)
		conntrack_expiry_shorten(&((struct wheel *)deletion)->expiry, conn, due_ns);
}

/* At most max entries; how many. */
static unsigned int fire(struct wheel *wheel, uint64_t now_ns, unsigned int max)
{
	uint32_t conns[CONNTRACK_LAB_BURST];
	unsigned int count = conntrack_expiry_fire(&wheel->expiry, now_ns, conns,
		max < CONNTRACK_LAB_BURST ? max : CONNTRACK_LAB_BURST);
	unsigned int kept = conntrack_lab_expire_burst(wheel->tracker, conns, count, now_ns);
	for (unsigned int i = 0; i < kept; i++)
		arm(wheel, conns[i], conntrack_lab_due_ns(wheel->tracker, conns[i]), now_ns);
	return count;
}

static void wheel_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	(void)mixed;
	for (unsigned int i = 0; lack != CONNTRACK_LACK_NOTHING && i < RECLAIM_LOOKS; i++) {
		if (fire(deletion, now_ns, 1) == 0)
			return;
	}
}

static unsigned int wheel_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	unsigned int looked = 0, more;
	while (looked < budget && (more = fire(deletion, now_ns, budget - looked)) != 0)
		looked += more;
	return looked;
}

static const char *wheel_check(const void *deletion)
{
	return conntrack_expiry_check(&((const struct wheel *)deletion)->expiry);
}

const struct conntrack_deletion_ops conntrack_deletion_wheel_ops = {
	.name = "wheel",
	.summary = "hierarchical timer wheel with bitmaps, lazy re-arm; interval: tick, 4 ms; the "
		   "default",
	.defaults = { .interval_ns = TICK_NS_DEFAULT },
	.slack_ns = wheel_slack_ns,
	.create = wheel_create,
	.destroy = wheel_destroy,
	.bytes = wheel_bytes,
	.inserted = wheel_inserted,
	.removed = wheel_removed,
	.changed = wheel_changed,
	.make_room = wheel_make_room,
	.advance = wheel_advance,
	.check = wheel_check,
};
