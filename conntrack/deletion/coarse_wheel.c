/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer wheel that does not cascade, after Linux's since 4.8 (Gleixner, 2016): nine levels of 64
 * slots; each level's slots span eight times those of the level below. An entry goes into the
 * finest level that reaches its due time, into the slot that begins at or behind it, and stays
 * there until the slot comes up: nothing is sorted anew, for the price of coarseness, an eighth of
 * the time that was left at most. A bitmap per level finds the next slot that holds anything.
 *
 * Lazy re-arm: packets do not touch the wheel. An entry whose time moves earlier is moved at once,
 * if close hints are on. Late by at most a seventh of the longest timeout and a tick; without hints
 * by the longest timeout more. 8 bytes per connection.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"
#include "conntrack/deletion/timing.h"

#include <errno.h>

enum {
	LEVELS = 9,
	SLOT_BITS = 6,
	SLOTS = 1 << SLOT_BITS,
	SLOT_MASK = SLOTS - 1,
	SHIFT = 3, /* of a level against the one below */
	RECLAIM_LOOKS = 8,
};

#define TICK_NS_DEFAULT UINT64_C(4000000)

struct coarse {
	struct conntrack_lists slots; /* level * SLOTS + slot */
	struct conntrack_timing timing;
	uint64_t occupied[LEVELS]; /* bit: the slot may hold something */
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t tick_ns;
	uint64_t current; /* tick up to which all slots have come up */
	/* What was armed while the wheel lagged was put the coarser for it. */
	uint64_t lag_ns, lag_end_ns;
	uint32_t armed;
};

static int coarse_create(void **out, const struct conntrack_deletion_config *config)
{
	struct coarse *coarse = base_arena_alloc(config->arena, sizeof(*coarse), BASE_CACHE_LINE);
	if (coarse == NULL)
		return -ENOMEM;
	*coarse = (struct coarse){
		.timing = conntrack_timing_of(config->config),
		.tracker = config->tracker,
		.arena = config->arena,
		.tick_ns = config->knobs.interval_ns,
	};
	int error = conntrack_lists_init(
		&coarse->slots, config->conns_max, LEVELS * SLOTS, config->arena);
	if (error != 0) {
		base_arena_free(config->arena, coarse, sizeof(*coarse));
		return error;
	}
	*out = coarse;
	return 0;
}

static void coarse_destroy(void *deletion)
{
	struct coarse *coarse = deletion;
	conntrack_lists_release(&coarse->slots);
	base_arena_free(coarse->arena, coarse, sizeof(*coarse));
}

static uint64_t coarse_bytes(const void *deletion)
{
	const struct coarse *coarse = deletion;
	return sizeof(*coarse) + conntrack_lists_bytes(&coarse->slots);
}

/* The slot for a tick: the finest level on which it is less than a turn ahead, rounded up. */
static unsigned int slot_for(const struct coarse *coarse, uint64_t tick)
{
	unsigned int shift = 0, level = 0;
	for (;; level++, shift += SHIFT) {
		uint64_t unit = (tick + (UINT64_C(1) << shift) - 1) >> shift;
		uint64_t ahead = unit - (coarse->current >> shift);
		if (ahead < SLOTS)
			return level * SLOTS + (unsigned int)(unit & SLOT_MASK);
		if (level == LEVELS - 1)
			break;
	}
	/* Beyond all levels: the farthest slot, and then again. */
	uint64_t farthest = (coarse->current >> shift) + SLOT_MASK;
	return level * SLOTS + (unsigned int)(farthest & SLOT_MASK);
}

/* The slot that comes up first, by its tick; UINT64_MAX when all are empty. */
static uint64_t earliest(const struct coarse *coarse, unsigned int *slot)
{
	uint64_t best = UINT64_MAX;
	for (unsigned int level = 0; level < LEVELS; level++) {
		uint64_t word = coarse->occupied[level];
		if (word == 0)
			continue;
		unsigned int shift = level * SHIFT;
		uint64_t base = coarse->current >> shift;
		unsigned int turn = (unsigned int)base & SLOT_MASK;
		uint64_t ahead = word >> turn | word << (-turn & SLOT_MASK);
		uint64_t at = base + (unsigned int)__builtin_ctzll(ahead);
		if (at << shift < best) {
			best = at << shift;
			*slot = level * SLOTS + (unsigned int)(at & SLOT_MASK);
		}
	}
	return best;
}

/* Bring a wheel in which nothing is pending to now. */
static void follow(struct coarse *coarse, uint64_t now_ns)
{
	unsigned int slot;
	uint64_t target = now_ns / coarse->tick_ns;
	if (target > coarse->current && earliest(coarse, &slot) > target)
		coarse->current = target;
}

/* Note how much farther ahead than a timeout the wheel sees this. */
static void note_lag(struct coarse *coarse, uint64_t look_ns)
{
	uint64_t ahead_ns = look_ns - coarse->current * coarse->tick_ns;
	uint64_t longest_ns = coarse->timing.longest_ns;
	if (BASE_LIKELY(ahead_ns <= longest_ns))
		return;
	if (ahead_ns - longest_ns > coarse->lag_ns)
		coarse->lag_ns = ahead_ns - longest_ns;
	uint64_t end_ns = conntrack_timing_add(look_ns, ahead_ns);
	if (end_ns > coarse->lag_end_ns)
		coarse->lag_end_ns = end_ns;
}

static void arm(struct coarse *coarse, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t look_ns = conntrack_timing_look_ns(&coarse->timing, due_ns, now_ns);
	if (look_ns == UINT64_MAX)
		return;
	uint64_t tick = look_ns / coarse->tick_ns + (look_ns % coarse->tick_ns != 0);
	follow(coarse, now_ns);
	if (tick <= coarse->current)
		tick = coarse->current + 1; /* never into the slot that may be emptied now */
	else
		note_lag(coarse, look_ns);
	unsigned int slot = slot_for(coarse, tick);
	conntrack_lists_append(&coarse->slots, slot, conn);
	coarse->occupied[slot / SLOTS] |= UINT64_C(1) << (slot & SLOT_MASK);
	coarse->armed++;
}

static void disarm(struct coarse *coarse, uint32_t conn)
{
	if (!conntrack_lists_has(&coarse->slots, conn))
		return;
	conntrack_lists_unlink(&coarse->slots, conn);
	coarse->armed--;
}

static uint64_t coarse_slack_ns(const void *deletion, uint64_t now_ns)
{
	const struct coarse *coarse = deletion;
	unsigned int slot;
	uint64_t next = coarse->armed != 0 ? earliest(coarse, &slot) : UINT64_MAX;
	uint64_t next_ns =
		next > UINT64_MAX / coarse->tick_ns ? UINT64_MAX : next * coarse->tick_ns;
	uint64_t slack_ns = conntrack_timing_add(
		conntrack_timing_add(coarse->timing.longest_ns, coarse->lag_ns) /
				(SLOTS / (1 << SHIFT) - 1) +
			coarse->tick_ns,
		coarse->timing.unnoticed_ns);
	return conntrack_timing_add(slack_ns, next_ns < now_ns ? now_ns - next_ns : 0);
}

static void coarse_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	arm(deletion, conn, due_ns, now_ns);
}

static void coarse_removed(void *deletion, uint32_t conn)
{
	disarm(deletion, conn);
}

static void coarse_changed(
	void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier)
{
	if (!earlier)
		return;
	disarm(deletion, conn);
	arm(deletion, conn, due_ns, now_ns);
}

/* Up to max entries of one slot. */
static unsigned int empty_some(
	struct coarse *coarse, unsigned int slot, uint64_t now_ns, unsigned int max)
{
	uint32_t conns[CONNTRACK_LAB_BURST];
	unsigned int most = max < CONNTRACK_LAB_BURST ? max : CONNTRACK_LAB_BURST;
	unsigned int taken = conntrack_lists_take(&coarse->slots, slot, conns, most);
	coarse->armed -= taken;
	if (conntrack_lists_oldest(&coarse->slots, slot) == BASE_CONN_NONE)
		coarse->occupied[slot / SLOTS] &= ~(UINT64_C(1) << (slot & SLOT_MASK));
	unsigned int kept = conntrack_lab_expire_burst(coarse->tracker, conns, taken, now_ns);
	for (unsigned int i = 0; i < kept; i++)
		arm(coarse, conns[i], conntrack_lab_due_ns(coarse->tracker, conns[i]), now_ns);
	return taken;
}

static unsigned int coarse_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct coarse *coarse = deletion;
	uint64_t target = now_ns / coarse->tick_ns;
	unsigned int looked = 0, slot = 0;
	uint64_t tick = earliest(coarse, &slot);
	while (looked < budget && tick <= target) {
		if (tick > coarse->current)
			coarse->current = tick;
		unsigned int taken = empty_some(coarse, slot, now_ns, budget - looked);
		looked += taken + (taken == 0);
		tick = earliest(coarse, &slot);
	}
	if (tick > target && target > coarse->current)
		coarse->current = target;
	if (tick > target && now_ns > coarse->lag_end_ns)
		coarse->lag_ns = 0; /* what was armed then has come up since */
	return looked;
}

static void coarse_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	(void)mixed;
	if (lack != CONNTRACK_LACK_NOTHING)
		coarse_advance(deletion, now_ns, RECLAIM_LOOKS);
}

static const char *coarse_check(const void *deletion)
{
	const struct coarse *coarse = deletion;
	uint32_t counts[LEVELS * SLOTS], armed = 0;
	const char *wrong = conntrack_lists_check(&coarse->slots, counts);
	for (unsigned int slot = 0; slot < LEVELS * SLOTS && wrong == NULL; slot++) {
		uint64_t bit = coarse->occupied[slot / SLOTS] >> (slot & SLOT_MASK) & 1;
		armed += counts[slot];
		if (counts[slot] != 0 && bit == 0)
			wrong = "a slot holds something and its bit is off";
	}
	if (wrong == NULL && armed != coarse->armed)
		wrong = "timers armed differ from timers in slots";
	return wrong;
}

const struct conntrack_deletion_ops conntrack_deletion_coarse_wheel_ops = {
	.name = "coarse_wheel",
	.summary = "timer wheel of nine levels that does not cascade, as Linux since 4.8; "
		   "interval: tick, 4 ms",
	.defaults = { .interval_ns = TICK_NS_DEFAULT },
	.slack_ns = coarse_slack_ns,
	.create = coarse_create,
	.destroy = coarse_destroy,
	.bytes = coarse_bytes,
	.inserted = coarse_inserted,
	.removed = coarse_removed,
	.changed = coarse_changed,
	.make_room = coarse_make_room,
	.advance = coarse_advance,
	.check = coarse_check,
};
