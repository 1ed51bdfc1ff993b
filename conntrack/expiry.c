/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/expiry.h"

#include <errno.h>
#include <string.h>

#define NONE UINT32_MAX

enum {
	SLOTS_ALL = CONNTRACK_EXPIRY_LEVELS * CONNTRACK_EXPIRY_SLOTS,
	SLOT_MASK = CONNTRACK_EXPIRY_SLOTS - 1,
	CHUNK_INDICES = CONNTRACK_EXPIRY_CHUNK_INDICES,
	PLACE_BITS = 4, /* CONNTRACK_EXPIRY_PLACES */
	PLACE_MASK = (1 << PLACE_BITS) - 1,
};
static_assert(CHUNK_INDICES <= PLACE_MASK, "a place fits its bits");
static_assert(CONNTRACK_EXPIRY_PLACES == 1 << PLACE_BITS, "as the header has it");

int conntrack_expiry_init(struct conntrack_expiry *expiry, uint32_t entries_max, uint64_t tick_ns,
	struct base_arena *arena)
{
	struct conntrack_expiry *e = expiry;
	*e = (struct conntrack_expiry){
		.tick_ns = tick_ns,
		.next_fire_ns = UINT64_MAX,
		.entries_max = entries_max,
		/* All chunks but the first of each slot are full. */
		.chunks_count = entries_max / CHUNK_INDICES + SLOTS_ALL + 1,
		.arena = arena,
	};
	e->position = base_arena_alloc(arena, entries_max * sizeof(*e->position), BASE_CACHE_LINE);
	e->chunks = base_arena_alloc(arena, e->chunks_count * sizeof(*e->chunks), BASE_CACHE_LINE);
	if (e->position == NULL || e->chunks == NULL) {
		conntrack_expiry_release(e);
		return -ENOMEM;
	}
	memset(e->position, 0xff, entries_max * sizeof(*e->position));
	memset(e->head, 0xff, sizeof(e->head));
	for (uint32_t i = 0; i < e->chunks_count; i++)
		e->chunks[i].next = i + 1 < e->chunks_count ? i + 1 : NONE;
	return 0;
}

void conntrack_expiry_release(struct conntrack_expiry *expiry)
{
	base_arena_free(
		expiry->arena, expiry->position, expiry->entries_max * sizeof(*expiry->position));
	base_arena_free(
		expiry->arena, expiry->chunks, expiry->chunks_count * sizeof(*expiry->chunks));
	expiry->position = NULL;
	expiry->chunks = NULL;
}

uint64_t conntrack_expiry_bytes(const struct conntrack_expiry *expiry)
{
	return expiry->entries_max * sizeof(*expiry->position) +
	       expiry->chunks_count * sizeof(*expiry->chunks);
}

static uint64_t ticks_to_ns(const struct conntrack_expiry *expiry, uint64_t ticks)
{
	uint64_t ns;
	return __builtin_mul_overflow(ticks, expiry->tick_ns, &ns) ? UINT64_MAX : ns;
}

uint64_t conntrack_expiry_due_tick(const struct conntrack_expiry *expiry, uint64_t due_ns)
{
	/* Rounded up: a slot that fired before the due time would only be re-armed. */
	return due_ns / expiry->tick_ns + (due_ns % expiry->tick_ns != 0);
}

uint64_t conntrack_expiry_end_ns(const struct conntrack_expiry *expiry, uint64_t end_ns)
{
	/* What was overdue when it was armed waits in the tick after the current one. */
	uint64_t tick = conntrack_expiry_due_tick(expiry, end_ns);
	if (tick <= expiry->current)
		tick = expiry->current + 1;
	return ticks_to_ns(expiry, tick);
}

/* When slot `slot` (level * 64 + place) fires, seen from the current tick. */
static uint64_t slot_tick(const struct conntrack_expiry *expiry, unsigned int slot)
{
	unsigned int shift = slot / CONNTRACK_EXPIRY_SLOTS * CONNTRACK_EXPIRY_SLOT_BITS;
	uint64_t base = expiry->current >> shift;
	return (base + ((slot - base) & SLOT_MASK)) << shift;
}

/* Where an entry waits, and the tick that this slot fires at. */
struct place {
	unsigned int slot;
	uint64_t tick;
};

/* For a tick behind the current one. */
static struct place place_for(const struct conntrack_expiry *expiry, uint64_t tick)
{
	/* The first level at which it is less than a turn away. Rounding may make it a whole one,
	 * then it is the next level. */
	unsigned int bits = 63 - (unsigned int)__builtin_clzll(tick - expiry->current);
	unsigned int level = bits / CONNTRACK_EXPIRY_SLOT_BITS;
	unsigned int shift = level * CONNTRACK_EXPIRY_SLOT_BITS;
	if ((tick >> shift) - (expiry->current >> shift) == CONNTRACK_EXPIRY_SLOTS) {
		level++;
		shift += CONNTRACK_EXPIRY_SLOT_BITS;
	}
	uint64_t turn;
	if (BASE_LIKELY(level < CONNTRACK_EXPIRY_LEVELS)) {
		turn = tick >> shift;
	} else {
		level = CONNTRACK_EXPIRY_LEVELS - 1;
		shift = level * CONNTRACK_EXPIRY_SLOT_BITS;
		turn = (expiry->current >> shift) + SLOT_MASK;
	}
	return (struct place){
		.slot = level * CONNTRACK_EXPIRY_SLOTS + (unsigned int)(turn & SLOT_MASK),
		.tick = turn << shift,
	};
}

void conntrack_expiry_start(struct conntrack_expiry *expiry, uint64_t now_ns)
{
	uint64_t now = now_ns / expiry->tick_ns;
	if (expiry->armed == 0 && now > expiry->current)
		expiry->current = now;
}

static uint32_t chunk_push(struct conntrack_expiry *expiry, unsigned int slot)
{
	uint32_t fresh = expiry->chunk_free;
	BASE_ASSERT(fresh != NONE);
	struct conntrack_expiry_chunk *chunk = &expiry->chunks[fresh];
	expiry->chunk_free = chunk->next;
	chunk->next = expiry->head[slot];
	chunk->slot = (uint16_t)slot;
	chunk->count = 0;
	expiry->head[slot] = fresh;
	expiry->occupied[slot / CONNTRACK_EXPIRY_SLOTS] |= UINT64_C(1) << (slot & SLOT_MASK);
	expiry->chunks_used++;
	return fresh;
}

static void chunk_pop(struct conntrack_expiry *expiry, unsigned int slot)
{
	uint32_t empty = expiry->head[slot];
	struct conntrack_expiry_chunk *chunk = &expiry->chunks[empty];
	expiry->head[slot] = chunk->next;
	if (chunk->next == NONE)
		expiry->occupied[slot / CONNTRACK_EXPIRY_SLOTS] &=
			~(UINT64_C(1) << (slot & SLOT_MASK));
	chunk->next = expiry->chunk_free;
	expiry->chunk_free = empty;
	expiry->chunks_used--;
}

static void note_fire(struct conntrack_expiry *expiry, uint64_t tick)
{
	uint64_t fire_ns = ticks_to_ns(expiry, tick);
	if (fire_ns < expiry->next_fire_ns)
		expiry->next_fire_ns = fire_ns;
}

void conntrack_expiry_arm(struct conntrack_expiry *expiry, uint32_t index, uint64_t due_ns)
{
	if (due_ns == CONNTRACK_EXPIRY_NEVER)
		return;
	BASE_DEBUG_ASSERT(expiry->position[index] == NONE);
	uint64_t tick = conntrack_expiry_due_tick(expiry, due_ns);
	if (tick <= expiry->current)
		tick = expiry->current + 1; /* never into the slot that may be firing */
	struct place place = place_for(expiry, tick);

	uint32_t head = expiry->head[place.slot];
	if (head == NONE) /* of an occupied slot it is known when it fires */
		note_fire(expiry, place.tick);
	if (head == NONE || expiry->chunks[head].count == CHUNK_INDICES)
		head = chunk_push(expiry, place.slot);
	struct conntrack_expiry_chunk *chunk = &expiry->chunks[head];
	expiry->position[index] = head << PLACE_BITS | chunk->count;
	chunk->index[chunk->count++] = index;
	expiry->armed++;
}

void conntrack_expiry_disarm(struct conntrack_expiry *expiry, uint32_t index)
{
	uint32_t position = expiry->position[index];
	if (position == NONE)
		return;
	struct conntrack_expiry_chunk *chunk = &expiry->chunks[position >> PLACE_BITS];
	unsigned int slot = chunk->slot;
	struct conntrack_expiry_chunk *head = &expiry->chunks[expiry->head[slot]];

	/* The slot's last index fills the hole, so that only the first chunk is part full. */
	uint32_t last = head->index[--head->count];
	chunk->index[position & PLACE_MASK] = last;
	expiry->position[last] = position;
	expiry->position[index] = NONE;
	if (head->count == 0)
		chunk_pop(expiry, slot);
	expiry->armed--;
}

uint64_t conntrack_expiry_fire_tick(const struct conntrack_expiry *expiry, uint32_t index)
{
	return slot_tick(expiry, expiry->chunks[expiry->position[index] >> PLACE_BITS].slot);
}

void conntrack_expiry_shorten(struct conntrack_expiry *expiry, uint32_t index, uint64_t due_ns)
{
	if (expiry->position[index] != NONE) {
		if (conntrack_expiry_fire_tick(expiry, index) <=
			conntrack_expiry_due_tick(expiry, due_ns))
			return; /* fires early enough as it is */
		conntrack_expiry_disarm(expiry, index);
	}
	conntrack_expiry_arm(expiry, index, due_ns);
	expiry->moved_earlier++;
}

/* An entry waits in a slot that begins less than a tick behind its due time. */
uint64_t conntrack_expiry_slack_ns(const struct conntrack_expiry *expiry, uint64_t now_ns)
{
	uint64_t next_ns = expiry->armed != 0 ? expiry->next_fire_ns : UINT64_MAX;
	return expiry->tick_ns + (next_ns < now_ns ? now_ns - next_ns : 0);
}

/* The slot that fires first; UINT64_MAX when all are empty. */
static uint64_t earliest(const struct conntrack_expiry *expiry, unsigned int *slot)
{
	uint64_t best = UINT64_MAX;
	for (unsigned int level = 0; level < CONNTRACK_EXPIRY_LEVELS; level++) {
		uint64_t word = expiry->occupied[level];
		if (word == 0)
			continue;
		unsigned int shift = level * CONNTRACK_EXPIRY_SLOT_BITS;
		uint64_t base = expiry->current >> shift;
		unsigned int turn = (unsigned int)base & SLOT_MASK;
		uint64_t ahead = word >> turn | word << (-turn & SLOT_MASK);
		uint64_t at = base + (unsigned int)__builtin_ctzll(ahead);
		if (at << shift < best) {
			best = at << shift;
			*slot = level * CONNTRACK_EXPIRY_SLOTS + (unsigned int)(at & SLOT_MASK);
		}
	}
	return best;
}

static unsigned int take(
	struct conntrack_expiry *expiry, unsigned int slot, uint32_t *indices, unsigned int max)
{
	unsigned int taken = 0;
	while (taken < max && expiry->head[slot] != NONE) {
		struct conntrack_expiry_chunk *chunk = &expiry->chunks[expiry->head[slot]];
		if (chunk->next != NONE)
			BASE_PREFETCH(&expiry->chunks[chunk->next]);
		while (taken < max && chunk->count > 0) {
			uint32_t index = chunk->index[--chunk->count];
			expiry->position[index] = NONE;
			indices[taken++] = index;
		}
		if (chunk->count == 0)
			chunk_pop(expiry, slot);
	}
	expiry->armed -= taken;
	return taken;
}

unsigned int conntrack_expiry_fire(
	struct conntrack_expiry *expiry, uint64_t horizon_ns, uint32_t *indices, unsigned int max)
{
	if (BASE_LIKELY(horizon_ns < expiry->next_fire_ns))
		return 0;
	uint64_t target = horizon_ns / expiry->tick_ns;
	unsigned int taken = 0;
	unsigned int slot = 0;
	uint64_t tick = earliest(expiry, &slot);
	while (taken < max && tick <= target && expiry->armed != 0) {
		/* A coarse slot may have begun before the current tick; time does not go back. */
		if (tick > expiry->current)
			expiry->current = tick;
		taken += take(expiry, slot, indices + taken, max - taken);
		tick = earliest(expiry, &slot);
	}
	if (tick > target && target > expiry->current) {
		expiry->current = target;
		tick = earliest(expiry, &slot);
	}
	expiry->next_fire_ns = expiry->armed == 0 ? UINT64_MAX : ticks_to_ns(expiry, tick);
	return taken;
}

static const char *check_slot(
	const struct conntrack_expiry *expiry, unsigned int slot, uint32_t *armed, uint32_t *chunks)
{
	uint32_t at = expiry->head[slot];
	bool bit = (expiry->occupied[slot / CONNTRACK_EXPIRY_SLOTS] >> (slot & SLOT_MASK) & 1) != 0;
	if (bit != (at != NONE))
		return "a slot's bit differs from its list";
	for (bool first = true; at != NONE; first = false) {
		const struct conntrack_expiry_chunk *chunk = &expiry->chunks[at];
		if (++*chunks > expiry->chunks_used)
			return "more timer chunks than in use";
		if (chunk->slot != slot)
			return "a timer chunk is in the wrong slot";
		if (chunk->count == 0 || chunk->count > CHUNK_INDICES ||
			(!first && chunk->count != CHUNK_INDICES))
			return "a timer chunk is not compact";
		for (uint32_t i = 0; i < chunk->count; i++) {
			uint32_t index = chunk->index[i];
			if (index >= expiry->entries_max ||
				expiry->position[index] != (at << PLACE_BITS | i))
				return "a timer's position differs from its chunk";
		}
		*armed += chunk->count;
		at = chunk->next;
	}
	return NULL;
}

const char *conntrack_expiry_check(const struct conntrack_expiry *expiry)
{
	uint32_t armed = 0, chunks = 0, positions = 0, spare = 0;
	for (unsigned int slot = 0; slot < SLOTS_ALL; slot++) {
		const char *wrong = check_slot(expiry, slot, &armed, &chunks);
		if (wrong != NULL)
			return wrong;
		if (expiry->head[slot] != NONE &&
			ticks_to_ns(expiry, slot_tick(expiry, slot)) < expiry->next_fire_ns)
			return "a slot fires before the wheel's next time";
	}
	for (uint32_t i = 0; i < expiry->entries_max; i++)
		positions += expiry->position[i] != NONE;
	for (uint32_t at = expiry->chunk_free; at != NONE; at = expiry->chunks[at].next)
		if (++spare > expiry->chunks_count)
			return "the free timer chunks form a ring";
	if (armed != expiry->armed || positions != expiry->armed)
		return "timers armed differ from timers in slots";
	if (chunks != expiry->chunks_used || chunks + spare != expiry->chunks_count)
		return "timer chunks do not add up";
	return NULL;
}
