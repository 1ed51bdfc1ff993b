/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rotating generations, as caches of two tables that are swapped: time is cut into intervals, and
 * each has a list. The first packet of a connection in an interval moves it to that interval's
 * list; the list that `slots` intervals have passed over holds what was quiet for as long, and is
 * gone through: what is due leaves, the rest (of longer timeouts) moves to the present list.
 *
 * Late by at most `slots` intervals and slack one more, while the budget suffices. 12 bytes per
 * connection; close hints make no difference.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"

#include <errno.h>

enum { SLOTS_DEFAULT = 4, SLOTS_MIN = 2, SLOTS_MAX = 1024, RECLAIM_LOOKS = 8 };

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

struct generations {
	struct conntrack_lists lists; /* number % slots; behind them: what is being gone through */
	uint32_t *number;             /* interval whose list a connection is in, wraps */
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t interval_ns;
	uint64_t present;    /* number of the present interval */
	uint64_t covered_ns; /* what was due by then is gone */
	uint32_t slots;
	uint32_t conns_max;
};

static void generations_destroy(void *deletion)
{
	struct generations *g = deletion;
	conntrack_lists_release(&g->lists);
	base_arena_free(g->arena, g->number, g->conns_max * sizeof(*g->number));
	base_arena_free(g->arena, g, sizeof(*g));
}

static int generations_create(void **out, const struct conntrack_deletion_config *config)
{
	const struct conntrack_deletion_knobs *knobs = &config->knobs;
	uint32_t slots = knobs->slots;
	if (slots < SLOTS_MIN || slots > SLOTS_MAX)
		return -EINVAL;
	struct generations *g = base_arena_alloc(config->arena, sizeof(*g), BASE_CACHE_LINE);
	if (g == NULL)
		return -ENOMEM;
	*g = (struct generations){
		.tracker = config->tracker,
		.arena = config->arena,
		.interval_ns = knobs->interval_ns,
		.slots = slots,
		.conns_max = config->conns_max,
	};
	g->number = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*g->number), BASE_CACHE_LINE);
	int error = conntrack_lists_init(&g->lists, config->conns_max, slots + 1, config->arena);
	if (error != 0 || g->number == NULL) {
		generations_destroy(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

static uint64_t generations_bytes(const void *deletion)
{
	const struct generations *g = deletion;
	return sizeof(*g) + conntrack_lists_bytes(&g->lists) + g->conns_max * sizeof(*g->number);
}

static uint64_t generations_slack_ns(const void *deletion, uint64_t now_ns)
{
	return now_ns - ((const struct generations *)deletion)->covered_ns;
}

static void enter(struct generations *g, uint32_t conn)
{
	g->number[conn] = (uint32_t)g->present;
	conntrack_lists_append(&g->lists, (uint32_t)(g->present % g->slots), conn);
}

/* Lists that time has passed over join those that are being gone through. */
static void rotate(struct generations *g, uint64_t now_ns)
{
	uint64_t number = now_ns / g->interval_ns;
	if (number <= g->present)
		return;
	uint64_t passed = number - g->present;
	for (uint64_t i = 1; i <= passed && i <= g->slots; i++)
		conntrack_lists_splice(
			&g->lists, (uint32_t)((g->present + i) % g->slots), g->slots);
	g->present = number;
}

/* What is in a list was live when it was put there, so all that is due by the beginning of the
 * oldest list's interval is in none. */
static void cover(struct generations *g)
{
	uint64_t oldest = g->present - (g->present < g->slots - 1 ? g->present : g->slots - 1);
	if (conntrack_lists_oldest(&g->lists, g->slots) == BASE_CONN_NONE)
		g->covered_ns = oldest * g->interval_ns;
}

static void generations_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct generations *g = deletion;
	(void)due_ns;
	rotate(g, now_ns);
	enter(g, conn);
}

static void generations_removed(void *deletion, uint32_t conn)
{
	conntrack_lists_unlink(&((struct generations *)deletion)->lists, conn);
}

static void generations_touched(
	void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct generations *g = deletion;
	rotate(g, now_ns);
	for (unsigned int i = 0; i < count; i++)
		BASE_PREFETCH_W(&g->number[conns[i]]);
	for (unsigned int i = 0; i < count; i++) {
		if (g->number[conns[i]] == (uint32_t)g->present)
			continue;
		conntrack_lists_unlink(&g->lists, conns[i]);
		enter(g, conns[i]);
	}
}

static unsigned int generations_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct generations *g = deletion;
	uint32_t conns[CONNTRACK_LAB_BURST];
	unsigned int looked = 0, taken = 1;
	rotate(g, now_ns);
	while (looked < budget && taken != 0) {
		unsigned int most = budget - looked < CONNTRACK_LAB_BURST ? budget - looked
									  : CONNTRACK_LAB_BURST;
		taken = conntrack_lists_take(&g->lists, g->slots, conns, most);
		unsigned int kept = conntrack_lab_expire_burst(g->tracker, conns, taken, now_ns);
		for (unsigned int i = 0; i < kept; i++)
			enter(g, conns[i]);
		looked += taken;
	}
	cover(g);
	return looked;
}

static void generations_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	(void)mixed;
	if (lack != CONNTRACK_LACK_NOTHING)
		generations_advance(deletion, now_ns, RECLAIM_LOOKS);
}

static const char *generations_check(const void *deletion)
{
	return conntrack_lists_check(&((const struct generations *)deletion)->lists, NULL);
}

const struct conntrack_deletion_ops conntrack_deletion_generations_ops = {
	.name = "generations",
	.summary = "a list per interval (1 s), gone through when `slots` (4) have passed over it",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT, .slots = SLOTS_DEFAULT },
	.slack_ns = generations_slack_ns,
	.create = generations_create,
	.destroy = generations_destroy,
	.bytes = generations_bytes,
	.inserted = generations_inserted,
	.removed = generations_removed,
	.touched = generations_touched,
	.make_room = generations_make_room,
	.advance = generations_advance,
	.check = generations_check,
};
