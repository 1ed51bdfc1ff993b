/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clock, or second chance (Corbato, 1968): a packet sets a mark beside its connection; a hand goes
 * round, once per interval, takes marks away, and looks at a connection only when it finds none. So
 * the hand reads a byte where a scan reads an entry. When an insertion finds no room, the hand goes
 * on to the first connection without a mark, or at most `slots` places, and takes that out, live or
 * not.
 *
 * A connection goes at the second visit after its last packet at the earliest: late by at most two
 * intervals and slack three, while the budget keeps up with the pace: entries / interval. A byte
 * per connection; close hints make no difference.
 */
#include "conntrack/deletion/deletion.h"

#include <errno.h>

enum { MARK_FREE = 0, MARK_IDLE, MARK_USED };
enum { SEARCH_DEFAULT = 64, BUDGET_DEFAULT = 256 };

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

struct clock {
	uint8_t *marks;
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t interval_ns;
	uint64_t began_ns;   /* of the turn that runs */
	uint64_t before_ns;  /* of the turn before */
	uint64_t covered_ns; /* what was due by then has been looked at without a mark */
	uint32_t budget;
	uint32_t search;
	uint32_t hand;
	uint32_t victim; /* where the search for one goes on */
	uint32_t conns_max;
};

static int clock_create(void **out, const struct conntrack_deletion_config *config)
{
	const struct conntrack_deletion_knobs *knobs = &config->knobs;
	struct clock *clock = base_arena_alloc(config->arena, sizeof(*clock), BASE_CACHE_LINE);
	if (clock == NULL)
		return -ENOMEM;
	*clock = (struct clock){
		.tracker = config->tracker,
		.arena = config->arena,
		.interval_ns = knobs->interval_ns,
		.budget = knobs->budget,
		.search = knobs->slots,
		.conns_max = config->conns_max,
		.hand = config->conns_max,
	};
	clock->marks = base_arena_alloc(config->arena, config->conns_max, BASE_CACHE_LINE);
	if (clock->marks == NULL) {
		base_arena_free(config->arena, clock, sizeof(*clock));
		return -ENOMEM;
	}
	*out = clock;
	return 0;
}

static void clock_destroy(void *deletion)
{
	struct clock *clock = deletion;
	base_arena_free(clock->arena, clock->marks, clock->conns_max);
	base_arena_free(clock->arena, clock, sizeof(*clock));
}

static uint64_t clock_bytes(const void *deletion)
{
	const struct clock *clock = deletion;
	return sizeof(*clock) + clock->conns_max;
}

static uint64_t clock_slack_ns(const void *deletion, uint64_t now_ns)
{
	return now_ns - ((const struct clock *)deletion)->covered_ns;
}

static void clock_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	(void)due_ns;
	(void)now_ns;
	((struct clock *)deletion)->marks[conn] = MARK_USED;
}

static void clock_removed(void *deletion, uint32_t conn)
{
	((struct clock *)deletion)->marks[conn] = MARK_FREE;
}

static void clock_touched(
	void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct clock *clock = deletion;
	(void)now_ns;
	for (unsigned int i = 0; i < count; i++)
		clock->marks[conns[i]] = MARK_USED;
}

/* A turn is over: what it found without a mark had none since the turn before, and what was due
 * when that began has been looked at. */
static void begin_turn(struct clock *clock, uint64_t now_ns)
{
	clock->covered_ns = clock->before_ns;
	clock->before_ns = clock->began_ns;
	clock->began_ns = now_ns;
	clock->hand = 0;
}

static uint64_t pace(const struct clock *clock, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - clock->began_ns;
	if (elapsed_ns >= clock->interval_ns)
		return clock->conns_max;
	return (uint64_t)((double)clock->conns_max * (double)elapsed_ns /
			  (double)clock->interval_ns);
}

static unsigned int clock_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct clock *clock = deletion;
	uint32_t conns[CONNTRACK_LAB_BURST];
	unsigned int count = 0;
	if (clock->hand == clock->conns_max)
		begin_turn(clock, now_ns);
	uint64_t wanted = pace(clock, now_ns);
	uint64_t most = budget < clock->budget ? budget : clock->budget;
	uint32_t first = clock->hand;
	for (; clock->hand < wanted && clock->hand - first < most; clock->hand++) {
		uint8_t *mark = &clock->marks[clock->hand];
		if (*mark == MARK_IDLE)
			conns[count++] = clock->hand;
		else if (*mark == MARK_USED)
			*mark = MARK_IDLE;
		if (count == CONNTRACK_LAB_BURST) {
			conntrack_lab_expire_burst(clock->tracker, conns, count, now_ns);
			count = 0;
		}
	}
	conntrack_lab_expire_burst(clock->tracker, conns, count, now_ns);
	return clock->hand - first;
}

/* A hand of its own, which takes marks away as the other does: so that a connection that is looked
 * at sooner for it was idle as long. */
static void clock_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct clock *clock = deletion;
	uint32_t last = BASE_CONN_NONE;
	(void)mixed;
	if (lack != CONNTRACK_LACK_ROOM)
		return;
	for (uint32_t i = 0; i < clock->search; i++) {
		uint32_t at = clock->victim;
		clock->victim = at + 1 < clock->conns_max ? at + 1 : 0;
		if (clock->marks[at] == MARK_FREE)
			continue;
		last = at;
		if (clock->marks[at] == MARK_IDLE)
			break;
		clock->marks[at] = MARK_IDLE;
	}
	if (last != BASE_CONN_NONE)
		conntrack_lab_evict(clock->tracker, last, now_ns);
}

const struct conntrack_deletion_ops conntrack_deletion_clock_ops = {
	.name = "clock",
	.summary =
		"a hand that looks at what was not used since its last turn, and evicts the same "
		"when there is no room; interval: of a turn, 1 s; budget: places per call, 256; "
		"slots: places searched for a victim, 64",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT,
		.budget = BUDGET_DEFAULT,
		.slots = SEARCH_DEFAULT },
	.slack_ns = clock_slack_ns,
	.evicts = true,
	.create = clock_create,
	.destroy = clock_destroy,
	.bytes = clock_bytes,
	.inserted = clock_inserted,
	.removed = clock_removed,
	.touched = clock_touched,
	.make_room = clock_make_room,
	.advance = clock_advance,
};
