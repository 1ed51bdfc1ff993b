/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer wheel of one level: a ring of slots, a tick apart, each a list. What is due beyond the ring
 * waits in its farthest slot and is put off again when that comes. As two strategies:
 *
 * "single_wheel_lazy", after FastClick's (Girondi et al., HPSR 2021): packets do not touch the
 * wheel. A slot that comes up expires what is due and arms the rest for their true time. An entry
 * whose time moves earlier is moved at once, if close hints are on.
 *
 * "single_wheel_eager": every packet moves its entry to the slot of its new due time, so that a
 * slot that comes up holds what is due and little else.
 *
 * Both are late by less than a tick, and slack is two, while the budget suffices; lazy without
 * close hints by the longest timeout more. 8 bytes per connection, 12 when eager, and 8 per slot.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"
#include "conntrack/deletion/timing.h"

#include <errno.h>

enum { SLOTS_DEFAULT = 8192, SLOTS_MIN = 4, SLOTS_MAX = 1 << 24, RECLAIM_LOOKS = 8 };

#define TICK_NS_DEFAULT UINT64_C(4000000)

struct single {
	struct conntrack_lists slots;
	uint32_t *slot_of; /* eager: where an entry is */
	struct conntrack_timing timing;
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t tick_ns;
	uint64_t current;  /* tick whose slot is being emptied */
	uint64_t sure;     /* what is due by the tick before this one is gone */
	uint64_t sure_end; /* sure follows current once that slot is empty */
	uint32_t mask;
	uint32_t armed;
	uint32_t conns_max;
	bool eager;
};

static void single_destroy(void *deletion)
{
	struct single *single = deletion;
	conntrack_lists_release(&single->slots);
	base_arena_free(
		single->arena, single->slot_of, single->conns_max * sizeof(*single->slot_of));
	base_arena_free(single->arena, single, sizeof(*single));
}

static int single_create(void **out, const struct conntrack_deletion_config *config, bool eager)
{
	const struct conntrack_deletion_knobs *knobs = &config->knobs;
	uint32_t wanted = knobs->slots;
	uint32_t slots = SLOTS_MIN;
	if (wanted > SLOTS_MAX)
		return -EINVAL;
	while (slots < wanted)
		slots *= 2;
	struct single *single = base_arena_alloc(config->arena, sizeof(*single), BASE_CACHE_LINE);
	if (single == NULL)
		return -ENOMEM;
	*single = (struct single){
		.timing = conntrack_timing_of(config->config),
		.tracker = config->tracker,
		.arena = config->arena,
		.tick_ns = knobs->interval_ns,
		.mask = slots - 1,
		.conns_max = config->conns_max,
		.eager = eager,
	};
	int error = conntrack_lists_init(&single->slots, config->conns_max, slots, config->arena);
	if (error == 0 && eager) {
		single->slot_of = base_arena_alloc(config->arena,
			config->conns_max * sizeof(*single->slot_of), BASE_CACHE_LINE);
		error = single->slot_of == NULL ? -ENOMEM : 0;
	}
	if (error != 0) {
		single_destroy(single);
		return error;
	}
	*out = single;
	return 0;
}

static int lazy_create(void **out, const struct conntrack_deletion_config *config)
{
	return single_create(out, config, false);
}

static int eager_create(void **out, const struct conntrack_deletion_config *config)
{
	return single_create(out, config, true);
}

static uint64_t single_bytes(const void *deletion)
{
	const struct single *single = deletion;
	return sizeof(*single) + conntrack_lists_bytes(&single->slots) +
	       (single->eager ? single->conns_max * sizeof(*single->slot_of) : 0);
}

static uint64_t single_slack_ns(const void *deletion, uint64_t now_ns)
{
	const struct single *single = deletion;
	uint64_t sure_ns = single->sure == 0 ? 0 : (single->sure - 1) * single->tick_ns;
	uint64_t slack_ns = single->armed == 0 || sure_ns > now_ns ? 0 : now_ns - sure_ns;
	return conntrack_timing_add(slack_ns, single->eager ? 0 : single->timing.unnoticed_ns);
}

/* The slots before this tick's are empty. */
static void reach(struct single *single, uint64_t tick)
{
	single->current = tick;
	if (tick > single->sure_end)
		single->sure = tick;
}

/* After a long pause every slot has come up: one turn of the ring meets them all. */
static void skip_turns(struct single *single, uint64_t target)
{
	if (target - single->current <= single->mask || target < single->current)
		return;
	single->sure_end = target;
	single->current = target - single->mask;
}

/* Tick at which what is due then can go. */
static uint64_t tick_of(const struct single *single, uint64_t due_ns)
{
	uint64_t tick = due_ns / single->tick_ns + (due_ns % single->tick_ns != 0);
	if (tick <= single->current)
		return single->current + 1; /* never into the slot that may be emptied now */
	return tick - single->current > single->mask ? single->current + single->mask : tick;
}

static void arm(struct single *single, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t look_ns = due_ns;
	if (!single->eager)
		look_ns = conntrack_timing_look_ns(&single->timing, due_ns, now_ns);
	if (look_ns == UINT64_MAX)
		return;
	uint32_t slot = (uint32_t)tick_of(single, look_ns) & single->mask;
	conntrack_lists_append(&single->slots, slot, conn);
	if (single->eager)
		single->slot_of[conn] = slot;
	single->armed++;
}

static void disarm(struct single *single, uint32_t conn)
{
	if (!conntrack_lists_has(&single->slots, conn))
		return;
	conntrack_lists_unlink(&single->slots, conn);
	single->armed--;
}

static void single_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct single *single = deletion;
	if (single->armed == 0 && now_ns / single->tick_ns > single->current)
		reach(single, now_ns / single->tick_ns);
	arm(single, conn, due_ns, now_ns);
}

static void single_removed(void *deletion, uint32_t conn)
{
	disarm(deletion, conn);
}

static void lazy_changed(
	void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier)
{
	struct single *single = deletion;
	if (!earlier)
		return;
	disarm(single, conn);
	arm(single, conn, due_ns, now_ns);
}

static void eager_touched(
	void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct single *single = deletion;
	conntrack_lists_prefetch(&single->slots, conns, count);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t due_ns = conntrack_lab_due_ns(single->tracker, conns[i]);
		bool armed = conntrack_lists_has(&single->slots, conns[i]);
		if (armed && due_ns != UINT64_MAX &&
			((uint32_t)tick_of(single, due_ns) & single->mask) ==
				single->slot_of[conns[i]])
			continue;
		disarm(single, conns[i]);
		arm(single, conns[i], due_ns, now_ns);
	}
}

/* Up to max entries of the slots that have come up by now_ns; an empty slot counts as one. */
static unsigned int fire(struct single *single, uint64_t now_ns, unsigned int max)
{
	uint32_t conns[CONNTRACK_LAB_BURST];
	uint64_t target = now_ns / single->tick_ns;
	unsigned int looked = 0;
	skip_turns(single, target);
	while (looked < max && single->armed != 0) {
		unsigned int most =
			max - looked < CONNTRACK_LAB_BURST ? max - looked : CONNTRACK_LAB_BURST;
		unsigned int taken = conntrack_lists_take(
			&single->slots, (uint32_t)single->current & single->mask, conns, most);
		single->armed -= taken;
		unsigned int kept =
			conntrack_lab_expire_burst(single->tracker, conns, taken, now_ns);
		for (unsigned int i = 0; i < kept; i++)
			arm(single, conns[i], conntrack_lab_due_ns(single->tracker, conns[i]),
				now_ns);
		looked += taken;
		if (taken == most)
			continue;
		if (single->current >= target) {
			if (single->current >= single->sure_end)
				single->sure = single->current;
			return looked;
		}
		reach(single, single->current + 1);
		looked += taken == 0;
	}
	if (single->armed == 0 && target > single->current)
		reach(single, target);
	return looked;
}

static void single_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	(void)mixed;
	if (lack != CONNTRACK_LACK_NOTHING)
		fire(deletion, now_ns, RECLAIM_LOOKS);
}

static unsigned int single_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	return fire(deletion, now_ns, budget);
}

static const char *single_check(const void *deletion)
{
	const struct single *single = deletion;
	uint32_t armed = 0;
	for (uint32_t conn = 0; conn < single->conns_max; conn++)
		armed += conntrack_lists_has(&single->slots, conn);
	if (armed != single->armed)
		return "timers armed differ from timers in slots";
	return conntrack_lists_check(&single->slots, NULL);
}

const struct conntrack_deletion_ops conntrack_deletion_single_wheel_lazy_ops = {
	.name = "single_wheel_lazy",
	.summary = "timer wheel of one level, lazy re-arm; interval: tick, 4 ms; slots: 8192",
	.defaults = { .interval_ns = TICK_NS_DEFAULT, .slots = SLOTS_DEFAULT },
	.slack_ns = single_slack_ns,
	.create = lazy_create,
	.destroy = single_destroy,
	.bytes = single_bytes,
	.inserted = single_inserted,
	.removed = single_removed,
	.changed = lazy_changed,
	.make_room = single_make_room,
	.advance = single_advance,
	.check = single_check,
};

const struct conntrack_deletion_ops conntrack_deletion_single_wheel_eager_ops = {
	.name = "single_wheel_eager",
	.summary = "timer wheel of one level, every packet re-arms; interval: tick, 4 ms; slots: "
		   "8192",
	.defaults = { .interval_ns = TICK_NS_DEFAULT, .slots = SLOTS_DEFAULT },
	.slack_ns = single_slack_ns,
	.create = eager_create,
	.destroy = single_destroy,
	.bytes = single_bytes,
	.inserted = single_inserted,
	.removed = single_removed,
	.touched = eager_touched,
	.make_room = single_make_room,
	.advance = single_advance,
	.check = single_check,
};
