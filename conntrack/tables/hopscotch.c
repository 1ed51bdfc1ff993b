/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hopscotch hashing (Herlihy, Shavit, Tzafrir, DISC 2008): a pair lives within the RANGE slots that
 * begin at its home, and a bitmap at the home says in which. Tags of one byte stand apart, so that
 * one comparison of RANGE of them, under the bitmap, leaves the slots whose keys must be compared.
 *
 * Insertion takes the next empty slot, at most REACH away, and lets pairs in between hop over it
 * until it is within range of the home. It is refused when none can hop: below about 85 % load that
 * hardly happens, towards 98 % it is common (the bound that the literature resizes at).
 *
 * The last home is followed by REACH slots, so nothing wraps around.
 */
#include "conntrack/tables/tables.h"

#include <errno.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { RANGE = 32, REACH = 512 };
#define LOAD 0.8

struct hopscotch_slot {
	uint32_t range; /* bit i: a pair whose home is here is in slot + i */
	uint32_t index;
};

struct hopscotch {
	struct hopscotch_slot *slots;
	uint8_t *tags; /* 0: empty */
	uint32_t homes;
	uint32_t count;
	struct conntrack_table_config config;
};

/* A comparison reads RANGE tags from any home on. */
static size_t slots_count(const struct hopscotch *table)
{
	return (size_t)table->homes + REACH + RANGE;
}

static void hopscotch_destroy(void *opaque)
{
	struct hopscotch *table = opaque;
	struct base_arena *arena = table->config.arena;
	base_arena_free(arena, table->slots, slots_count(table) * sizeof(*table->slots));
	base_arena_free(arena, table->tags, slots_count(table));
	base_arena_free(arena, table, sizeof(*table));
}

static int hopscotch_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t homes = conntrack_tables_groups(config, LOAD, 1);
	if (homes == 0)
		return -EINVAL;
	struct hopscotch *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->homes = homes;
	table->slots = base_arena_alloc(
		config->arena, slots_count(table) * sizeof(*table->slots), BASE_CACHE_LINE);
	table->tags = base_arena_alloc(config->arena, slots_count(table), BASE_CACHE_LINE);
	if (table->slots == NULL || table->tags == NULL) {
		hopscotch_destroy(table);
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static uint64_t hopscotch_bytes(const void *opaque)
{
	const struct hopscotch *table = opaque;
	return sizeof(*table) + slots_count(table) * (sizeof(*table->slots) + 1);
}

static inline size_t home_of(const struct hopscotch *table, uint64_t mixed)
{
	return conntrack_tables_spread(mixed, table->homes);
}

static inline uint8_t tag_of(uint64_t mixed)
{
	uint8_t tag = (uint8_t)(mixed >> 16);
	return (uint8_t)(tag + (tag == 0));
}

/* Bit i: tags[i], of RANGE, has this value. */
static inline uint32_t match(const uint8_t *tags, uint8_t tag)
{
#if defined(__AVX2__)
	__m256i all = _mm256_loadu_si256((const __m256i *)(const void *)tags);
	__m256i equal = _mm256_cmpeq_epi8(all, _mm256_set1_epi8((char)tag));
	return (uint32_t)_mm256_movemask_epi8(equal);
#elif defined(__SSE2__)
	__m128i wanted = _mm_set1_epi8((char)tag);
	__m128i low = _mm_loadu_si128((const __m128i *)(const void *)tags);
	__m128i high = _mm_loadu_si128((const __m128i *)(const void *)(tags + 16));
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(low, wanted)) |
	       (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(high, wanted)) << 16;
#else
	uint32_t mask = 0;
	for (unsigned int i = 0; i < RANGE; i++)
		mask |= (uint32_t)(tags[i] == tag) << i;
	return mask;
#endif
}

/* Slots, as bits from the home on, whose key may be the one looked for. */
static inline uint32_t candidates(const struct hopscotch *table, size_t home, uint64_t mixed)
{
	return table->slots[home].range & match(table->tags + home, tag_of(mixed));
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const void *hopscotch_line(const void *opaque, uint64_t mixed)
{
	const struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	BASE_PREFETCH_FAR(table->tags + home);
	BASE_PREFETCH_FAR(table->tags + home + RANGE - 1);
	return &table->slots[home];
}

static uint32_t hopscotch_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	uint32_t mask = candidates(table, home, mixed);
	if (mask == 0)
		return BASE_CONN_NONE;
	const struct hopscotch_slot *slot = &table->slots[home + (unsigned int)__builtin_ctz(mask)];
	if (((uintptr_t)slot ^ (uintptr_t)&table->slots[home]) < BASE_CACHE_LINE)
		return slot->index;
	*further = slot;
	return BASE_CONN_NONE;
}

static uint32_t hopscotch_guess_further(const void *opaque, uint64_t mixed)
{
	const struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	uint32_t mask = candidates(table, home, mixed);
	return table->slots[home + (unsigned int)__builtin_ctz(mask)].index;
}

static uint32_t hopscotch_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	uint32_t mask = candidates(table, home, mixed);
	for (; mask != 0; mask &= mask - 1) {
		uint32_t index = table->slots[home + (unsigned int)__builtin_ctz(mask)].index;
		if (conntrack_tables_key_is(&table->config, index, key))
			return index;
	}
	return BASE_CONN_NONE;
}

static void hopscotch_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = {
		.line = hopscotch_line,
		.guess = hopscotch_guess,
		.guess_further = hopscotch_guess_further,
		.find = hopscotch_find,
	};
	const struct hopscotch *table = opaque;
	conntrack_tables_find_burst(opaque, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- insertion and removal ------------------------------------------------------------------ */

/* Slots between the home and the first empty one; REACH: none within reach. */
static unsigned int first_empty(const struct hopscotch *table, size_t home)
{
	for (unsigned int away = 0; away < REACH; away += RANGE) {
		uint32_t empty = match(table->tags + home + away, 0);
		if (empty != 0)
			return away + (unsigned int)__builtin_ctz(empty);
	}
	return REACH;
}

/* The pair farthest before `empty` that may live there hops into it; where it was, or SIZE_MAX. */
static size_t hop(struct hopscotch *table, size_t empty)
{
	for (unsigned int back = RANGE - 1; back > 0; back--) {
		struct hopscotch_slot *home = &table->slots[empty - back];
		uint32_t before = home->range & ((UINT32_C(1) << back) - 1);
		if (before == 0)
			continue;
		unsigned int from = (unsigned int)__builtin_ctz(before);
		size_t freed = empty - back + from;
		table->slots[empty].index = table->slots[freed].index;
		table->tags[empty] = table->tags[freed];
		table->tags[freed] = 0;
		home->range ^= UINT32_C(1) << from | UINT32_C(1) << back;
		return freed;
	}
	return SIZE_MAX;
}

static int hopscotch_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	unsigned int away = first_empty(table, home);
	if (away == REACH)
		return -ENOSPC;
	size_t at = home + away;
	while (BASE_UNLIKELY(at - home >= RANGE)) {
		at = hop(table, at);
		if (at == SIZE_MAX)
			return -ENOSPC;
	}
	table->slots[home].range |= UINT32_C(1) << (at - home);
	table->slots[at].index = conn;
	table->tags[at] = tag_of(mixed);
	table->count++;
	return 0;
}

static void hopscotch_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	uint32_t mask = candidates(table, home, mixed);
	while (mask != 0 && table->slots[home + (unsigned int)__builtin_ctz(mask)].index != conn)
		mask &= mask - 1;
	BASE_ASSERT(mask != 0);
	unsigned int place = (unsigned int)__builtin_ctz(mask);
	table->slots[home].range ^= UINT32_C(1) << place;
	table->tags[home + place] = 0;
	table->count--;
}

static void hopscotch_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(hopscotch_line(opaque, mixed));
}

static unsigned int hopscotch_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct hopscotch *table = opaque;
	size_t home = home_of(table, mixed);
	unsigned int count = 0;
	for (size_t at = home; at < home + RANGE && count < max; at++) {
		if (table->tags[at] != 0)
			conns[count++] = table->slots[at].index;
	}
	return count;
}

static const char *hopscotch_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct hopscotch *table = opaque;
	uint32_t tagged = 0, homed = 0;
	for (size_t at = 0; at < slots_count(table); at++) {
		uint32_t range = table->slots[at].range;
		if (range != 0 && at >= table->homes)
			return "a slot that is no home has pairs";
		for (; range != 0; range &= range - 1) {
			size_t slot = at + (unsigned int)__builtin_ctz(range);
			if (table->tags[slot] == 0)
				return "a home names an empty slot";
			homed++;
			if (visit != NULL)
				visit(context, table->slots[slot].index);
		}
		tagged += table->tags[at] != 0;
	}
	if (tagged != homed)
		return "a pair has no home";
	return tagged == table->count ? NULL : "there are more or fewer pairs than were counted";
}

const struct conntrack_table_ops conntrack_table_hopscotch_ops = {
	.name = "hopscotch",
	.summary = "a pair within 32 slots of its home, which has a bitmap of them",
	.create = hopscotch_create,
	.destroy = hopscotch_destroy,
	.bytes = hopscotch_bytes,
	.find_burst = hopscotch_find_burst,
	.insert = hopscotch_insert,
	.remove = hopscotch_remove,
	.neighbours = hopscotch_neighbours,
	.prefetch = hopscotch_prefetch,
	.check = hopscotch_check,
};
