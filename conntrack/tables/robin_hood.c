/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linear probing where the pair that is nearer to its home gives way (Robin Hood hashing, Celis
 * 1986), with removal by shifting back. Eight slots of (index, tag, distance) fill a cache line.
 *
 * Slots of one run stand in the order of their homes, so a lookup ends at the first slot that is
 * nearer to its home than the key would be. Insertion moves what is behind by one slot, up to the
 * first empty one, which must be within REACH of the key's home: otherwise it is refused. At 80 %
 * load runs are short; towards 98 % insertions and removals move hundreds of slots.
 *
 * The last home is followed by REACH slots, so nothing wraps around.
 */
#include "conntrack/tables/tables.h"

#include <errno.h>

enum { LINE_SLOTS = 8, REACH = 2048 };
#define LOAD      0.8
#define NEARER    (UINT64_C(1) << 48) /* one step of distance */
#define TAG_SHIFT 32

static_assert(REACH < UINT16_MAX, "a distance has 16 bits");

struct robin_hood {
	/* bits 0..31 index, 32..47 tag, 48..63 distance from home + 1; 0: empty */
	uint64_t *slots;
	uint32_t homes;
	uint32_t count;
	struct conntrack_table_config config;
};

static size_t slots_count(const struct robin_hood *table)
{
	return (size_t)table->homes + REACH + 1;
}

static int robin_hood_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t homes = conntrack_tables_groups(config, LOAD, 1);
	if (homes == 0)
		return -EINVAL;
	struct robin_hood *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->homes = homes;
	table->slots = base_arena_alloc(
		config->arena, slots_count(table) * sizeof(*table->slots), BASE_CACHE_LINE);
	if (table->slots == NULL) {
		base_arena_free(config->arena, table, sizeof(*table));
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static void robin_hood_destroy(void *opaque)
{
	struct robin_hood *table = opaque;
	struct base_arena *arena = table->config.arena;
	base_arena_free(arena, table->slots, slots_count(table) * sizeof(*table->slots));
	base_arena_free(arena, table, sizeof(*table));
}

static uint64_t robin_hood_bytes(const void *opaque)
{
	const struct robin_hood *table = opaque;
	return sizeof(*table) + slots_count(table) * sizeof(*table->slots);
}

static inline size_t home_of(const struct robin_hood *table, uint64_t mixed)
{
	return conntrack_tables_spread(mixed, table->homes);
}

/* What a key's slot has in its upper half when it is at home. */
static inline uint64_t wanted_of(uint64_t mixed)
{
	return NEARER | (uint64_t)conntrack_tables_tag(mixed) << TAG_SHIFT;
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const void *robin_hood_line(const void *opaque, uint64_t mixed)
{
	const struct robin_hood *table = opaque;
	return &table->slots[home_of(table, mixed)];
}

/* The first slot in [at, end) with the wanted upper half; NULL when the key is not there, *at when
 * it is not known yet. */
static inline const uint64_t *scan(
	const struct robin_hood *table, size_t *at, size_t end, uint64_t *wanted)
{
	for (; *at < end; ++*at, *wanted += NEARER) {
		uint64_t slot = table->slots[*at];
		if (slot >> TAG_SHIFT == *wanted >> TAG_SHIFT)
			return &table->slots[*at];
		if (slot < (*wanted & ~(NEARER - 1))) {
			*at = SIZE_MAX;
			return NULL;
		}
	}
	return NULL;
}

static uint32_t robin_hood_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct robin_hood *table = opaque;
	size_t at = home_of(table, mixed);
	size_t end = at - at % LINE_SLOTS + LINE_SLOTS;
	uint64_t wanted = wanted_of(mixed);
	const uint64_t *slot = scan(table, &at, end, &wanted);
	if (slot != NULL)
		return (uint32_t)*slot;
	if (at == end)
		*further = &table->slots[end];
	return BASE_CONN_NONE;
}

static uint32_t robin_hood_guess_further(const void *opaque, uint64_t mixed)
{
	const struct robin_hood *table = opaque;
	size_t at = home_of(table, mixed);
	uint64_t wanted = wanted_of(mixed);
	const uint64_t *slot = scan(table, &at, slots_count(table), &wanted);
	return slot != NULL ? (uint32_t)*slot : BASE_CONN_NONE;
}

static uint32_t robin_hood_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct robin_hood *table = opaque;
	size_t at = home_of(table, mixed);
	uint64_t wanted = wanted_of(mixed);
	const uint64_t *slot;
	while ((slot = scan(table, &at, slots_count(table), &wanted)) != NULL) {
		if (conntrack_tables_key_is(&table->config, (uint32_t)*slot, key))
			return (uint32_t)*slot;
		at++;
		wanted += NEARER;
	}
	return BASE_CONN_NONE;
}

static void robin_hood_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = {
		.line = robin_hood_line,
		.guess = robin_hood_guess,
		.guess_further = robin_hood_guess_further,
		.find = robin_hood_find,
	};
	const struct robin_hood *table = opaque;
	conntrack_tables_find_burst(opaque, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- insertion and removal ------------------------------------------------------------------ */

static int robin_hood_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct robin_hood *table = opaque;
	size_t home = home_of(table, mixed), at = home;
	uint64_t wanted = wanted_of(mixed);
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	/* Behind every slot that is as far from its home. */
	while (table->slots[at] >= (wanted & ~(NEARER - 1))) {
		at++;
		wanted += NEARER;
	}
	size_t empty = at;
	while (empty - home < REACH && table->slots[empty] != 0)
		empty++;
	if (empty - home >= REACH)
		return -ENOSPC;
	for (; empty > at; empty--)
		table->slots[empty] = table->slots[empty - 1] + NEARER;
	table->slots[at] = wanted | conn;
	table->count++;
	return 0;
}

static void robin_hood_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct robin_hood *table = opaque;
	size_t at = home_of(table, mixed);
	uint64_t wanted = wanted_of(mixed) | conn;
	while (table->slots[at] != wanted) {
		BASE_ASSERT(table->slots[at] != 0);
		at++;
		wanted += NEARER;
	}
	while (table->slots[at + 1] >= 2 * NEARER) {
		table->slots[at] = table->slots[at + 1] - NEARER;
		at++;
	}
	table->slots[at] = 0;
	table->count--;
}

static void robin_hood_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(robin_hood_line(opaque, mixed));
}

static unsigned int robin_hood_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct robin_hood *table = opaque;
	size_t at = home_of(table, mixed);
	unsigned int count = 0;
	for (; count < max && count < LINE_SLOTS && table->slots[at] != 0; at++)
		conns[count++] = (uint32_t)table->slots[at];
	return count;
}

static const char *robin_hood_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct robin_hood *table = opaque;
	uint32_t count = 0;
	size_t last_home = 0;
	for (size_t at = 0; at < slots_count(table); at++) {
		uint64_t slot = table->slots[at];
		if (slot == 0)
			continue;
		size_t distance = (slot >> 48) - 1;
		if (slot < NEARER || distance >= REACH || distance > at)
			return "a slot is too far from its home";
		if (distance != 0 && table->slots[at - 1] == 0)
			return "an empty slot lies between a pair and its home";
		if (at - distance < last_home)
			return "slots are not in the order of their homes";
		last_home = at - distance;
		count++;
		if (visit != NULL)
			visit(context, (uint32_t)slot);
	}
	return count == table->count ? NULL : "there are more or fewer pairs than were counted";
}

const struct conntrack_table_ops conntrack_table_robin_hood_ops = {
	.name = "robin_hood",
	.summary = "linear probing where the nearer pair gives way; removal shifts back",
	.create = robin_hood_create,
	.destroy = robin_hood_destroy,
	.bytes = robin_hood_bytes,
	.find_burst = robin_hood_find_burst,
	.insert = robin_hood_insert,
	.remove = robin_hood_remove,
	.neighbours = robin_hood_neighbours,
	.prefetch = robin_hood_prefetch,
	.check = robin_hood_check,
};
