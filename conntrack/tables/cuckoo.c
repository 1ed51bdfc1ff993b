/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two-choice buckets of one cache line, in the manner of Cuckoo++ (Le Scouarnec, ANCS 2018): eight
 * tags, eight indices, and a filter of the pairs that belong here but live in their other bucket,
 * so that a miss touches one line in the common case.
 *
 * The filter has 16 counters of four bits: exact, so removals never leave it too full (a counter
 * that has reached 15 stays there until none of the line's pairs is away). The other bucket follows
 * from a bucket and the tag alone and leads back, so pairs are moved without looking at keys.
 *
 * Insertion: first bucket, other bucket, then a breadth-first search for a free place, over at most
 * NODES_MAX lines. Failed searches use up credit that successful operations give back; without
 * credit a full pair of buckets refuses at once. So a flood that finds the table full pays little.
 */
#include "conntrack/tables/tables.h"

#include <errno.h>

enum {
	PAIRS = 8,
	LINES_EXTRA = 4, /* few lines deviate far from their mean */
	NODES_MAX = 128,
	CREDIT_MAX = 8 * NODES_MAX, /* lines that failed searches may still look at */
	CREDIT_STEP = 2,            /* back for every insertion and removal */
};
#define LOAD 0.8

struct cuckoo_line {
	uint16_t tag[PAIRS]; /* 0: empty */
	uint32_t index[PAIRS];
	uint64_t moved;       /* counter (tag >> 12): pairs of this bucket that are away */
	uint16_t moved_count; /* in all */
	uint8_t away;         /* bit i: pair i belongs to its other bucket */
	uint8_t spare[5];
} BASE_ALIGNED(64);
static_assert(sizeof(struct cuckoo_line) == 64, "one cache line per bucket");

struct cuckoo {
	struct cuckoo_line *lines;
	uint32_t lines_count;
	uint32_t count;
	uint32_t credit;
	struct conntrack_table_config config;
};

/* A line of the search, and the pair of its parent that could move here. */
struct node {
	uint32_t line;
	uint8_t parent;
	uint8_t place; /* in the parent's line */
};

static int cuckoo_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t lines_count = conntrack_tables_groups(config, LOAD, PAIRS);
	if (lines_count == 0)
		return -EINVAL;
	struct cuckoo *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->lines_count = lines_count + LINES_EXTRA;
	table->credit = CREDIT_MAX;
	table->lines = base_arena_alloc(
		config->arena, table->lines_count * sizeof(*table->lines), BASE_CACHE_LINE);
	if (table->lines == NULL) {
		base_arena_free(config->arena, table, sizeof(*table));
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static void cuckoo_destroy(void *opaque)
{
	struct cuckoo *table = opaque;
	struct base_arena *arena = table->config.arena;
	base_arena_free(arena, table->lines, table->lines_count * sizeof(*table->lines));
	base_arena_free(arena, table, sizeof(*table));
}

static uint64_t cuckoo_bytes(const void *opaque)
{
	const struct cuckoo *table = opaque;
	return sizeof(*table) + table->lines_count * sizeof(*table->lines);
}

static inline uint32_t first_of(const struct cuckoo *table, uint64_t mixed)
{
	return conntrack_tables_spread(mixed, table->lines_count);
}

/* A reflection: the other bucket of the other bucket is the first. */
static inline uint32_t other_of(const struct cuckoo *table, uint32_t line, uint16_t tag)
{
	uint32_t sum =
		(uint32_t)(((uint64_t)(tag * UINT32_C(0x9e3779b1)) * table->lines_count) >> 32);
	return sum >= line ? sum - line : sum + table->lines_count - line;
}

static inline bool may_be_away(const struct cuckoo_line *line, uint16_t tag)
{
	return (line->moved >> 4 * (tag >> 12) & 15) != 0;
}

static void moved_out(struct cuckoo_line *line, uint16_t tag)
{
	unsigned int shift = 4 * (tag >> 12);
	line->moved_count++;
	if ((line->moved >> shift & 15) != 15)
		line->moved += UINT64_C(1) << shift;
}

static void moved_in(struct cuckoo_line *line, uint16_t tag)
{
	unsigned int shift = 4 * (tag >> 12);
	if ((line->moved >> shift & 15) != 15)
		line->moved -= UINT64_C(1) << shift;
	if (--line->moved_count == 0)
		line->moved = 0;
}

static void put(struct cuckoo *table, uint32_t at, unsigned int place, uint16_t tag, uint32_t index,
	bool away)
{
	struct cuckoo_line *line = &table->lines[at];
	line->tag[place] = tag;
	line->index[place] = index;
	if (away) {
		line->away |= (uint8_t)(1u << place);
		moved_out(&table->lines[other_of(table, at, tag)], tag);
	}
}

static void clear(struct cuckoo *table, uint32_t at, unsigned int place)
{
	struct cuckoo_line *line = &table->lines[at];
	if ((line->away >> place & 1) != 0) {
		line->away &= (uint8_t) ~(1u << place);
		moved_in(&table->lines[other_of(table, at, line->tag[place])], line->tag[place]);
	}
	line->tag[place] = 0;
}

/* Bits of the free places. */
static inline unsigned int free_of(const struct cuckoo *table, uint32_t at)
{
	return conntrack_tables_match8(table->lines[at].tag, 0);
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const void *cuckoo_first_line(const void *opaque, uint64_t mixed)
{
	const struct cuckoo *table = opaque;
	return &table->lines[first_of(table, mixed)];
}

static uint32_t cuckoo_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct cuckoo *table = opaque;
	uint32_t first = first_of(table, mixed);
	const struct cuckoo_line *line = &table->lines[first];
	uint16_t tag = conntrack_tables_tag(mixed);
	unsigned int mask = conntrack_tables_match8(line->tag, tag);
	if (BASE_LIKELY(mask != 0))
		return line->index[__builtin_ctz(mask)];
	if (may_be_away(line, tag))
		*further = &table->lines[other_of(table, first, tag)];
	return BASE_CONN_NONE;
}

static uint32_t cuckoo_guess_further(const void *opaque, uint64_t mixed)
{
	const struct cuckoo *table = opaque;
	uint16_t tag = conntrack_tables_tag(mixed);
	const struct cuckoo_line *line =
		&table->lines[other_of(table, first_of(table, mixed), tag)];
	unsigned int mask = conntrack_tables_match8(line->tag, tag);
	return mask != 0 ? line->index[__builtin_ctz(mask)] : BASE_CONN_NONE;
}

static uint32_t find_in(
	const struct cuckoo *table, uint32_t at, uint16_t tag, const struct base_flow_key *key)
{
	const struct cuckoo_line *line = &table->lines[at];
	unsigned int mask = conntrack_tables_match8(line->tag, tag);
	for (; mask != 0; mask &= mask - 1) {
		uint32_t index = line->index[__builtin_ctz(mask)];
		if (conntrack_tables_key_is(&table->config, index, key))
			return index;
	}
	return BASE_CONN_NONE;
}

static uint32_t cuckoo_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct cuckoo *table = opaque;
	uint32_t first = first_of(table, mixed);
	uint16_t tag = conntrack_tables_tag(mixed);
	uint32_t index = find_in(table, first, tag, key);
	if (index != BASE_CONN_NONE || !may_be_away(&table->lines[first], tag))
		return index;
	return find_in(table, other_of(table, first, tag), tag, key);
}

static void cuckoo_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = {
		.line = cuckoo_first_line,
		.guess = cuckoo_guess,
		.guess_further = cuckoo_guess_further,
		.find = cuckoo_find,
	};
	const struct cuckoo *table = opaque;
	conntrack_tables_find_burst(opaque, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- insertion and removal ------------------------------------------------------------------ */

/* Move pairs along the path that led to `node`, last one first, into `place` of its line; frees a
 * place of the path's first line and returns it. A line is met once on such a path: were it met
 * earlier, the search would have ended there. */
static unsigned int move_along(struct cuckoo *table, const struct node *nodes, unsigned int node,
	unsigned int place, uint32_t *first)
{
	while (nodes[node].parent != node) {
		unsigned int parent = nodes[node].parent;
		uint32_t from = nodes[parent].line;
		unsigned int from_place = nodes[node].place;
		struct cuckoo_line *line = &table->lines[from];
		uint16_t tag = line->tag[from_place];
		uint32_t index = line->index[from_place];
		bool away = (line->away >> from_place & 1) != 0;
		clear(table, from, from_place);
		put(table, nodes[node].line, place, tag, index, !away);
		node = parent;
		place = from_place;
	}
	*first = nodes[node].line;
	return place;
}

/* Make room in `first` or `other`: which one, and where. False: none within the bound. */
static bool make_room(
	struct cuckoo *table, uint32_t first, uint32_t other, uint32_t *at, unsigned int *place)
{
	struct node nodes[NODES_MAX] = { { first, 0, 0 }, { other, 1, 0 } };
	unsigned int count = first == other ? 1 : 2;
	for (unsigned int i = 0; i < count; i++) {
		uint32_t here = nodes[i].line;
		unsigned int free = free_of(table, here);
		if (free != 0) {
			*place = move_along(table, nodes, i, (unsigned int)__builtin_ctz(free), at);
			return true;
		}
		for (unsigned int k = 0; k < PAIRS && count < NODES_MAX; k++) {
			uint32_t next = other_of(table, here, table->lines[here].tag[k]);
			if (next == here)
				continue;
			BASE_PREFETCH_W(&table->lines[next]);
			nodes[count++] = (struct node){ next, (uint8_t)i, (uint8_t)k };
		}
	}
	table->credit -= count;
	return false;
}
static_assert(NODES_MAX <= UINT8_MAX + 1, "a node's number fits its children");

static void give_credit(struct cuckoo *table)
{
	if (table->credit < CREDIT_MAX)
		table->credit += CREDIT_STEP;
}

static int cuckoo_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct cuckoo *table = opaque;
	uint32_t first = first_of(table, mixed), at = first;
	uint16_t tag = conntrack_tables_tag(mixed);
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	unsigned int free = free_of(table, first), place = 0;
	if (BASE_UNLIKELY(free == 0)) {
		at = other_of(table, first, tag);
		free = free_of(table, at);
	}
	if (BASE_LIKELY(free != 0))
		place = (unsigned int)__builtin_ctz(free);
	else if (table->credit < NODES_MAX || !make_room(table, first, at, &at, &place))
		return -ENOSPC;
	put(table, at, place, tag, conn, at != first);
	table->count++;
	give_credit(table);
	return 0;
}

static int place_of(const struct cuckoo_line *line, uint16_t tag, uint32_t conn)
{
	unsigned int mask = conntrack_tables_match8(line->tag, tag);
	for (; mask != 0; mask &= mask - 1) {
		int place = __builtin_ctz(mask);
		if (line->index[place] == conn)
			return place;
	}
	return -1;
}

static void cuckoo_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct cuckoo *table = opaque;
	uint32_t at = first_of(table, mixed);
	uint16_t tag = conntrack_tables_tag(mixed);
	int place = place_of(&table->lines[at], tag, conn);
	if (place < 0) {
		at = other_of(table, at, tag);
		place = place_of(&table->lines[at], tag, conn);
	}
	BASE_ASSERT(place >= 0);
	clear(table, at, (unsigned int)place);
	table->count--;
	give_credit(table);
}

static void cuckoo_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(cuckoo_first_line(opaque, mixed));
}

static unsigned int cuckoo_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct cuckoo *table = opaque;
	const struct cuckoo_line *line = &table->lines[first_of(table, mixed)];
	unsigned int count = 0;
	for (unsigned int i = 0; i < PAIRS && count < max; i++) {
		if (line->tag[i] != 0)
			conns[count++] = line->index[i];
	}
	return count;
}

static const char *check_filters(const struct cuckoo *table)
{
	uint64_t away = 0, moved = 0;
	for (uint32_t at = 0; at < table->lines_count; at++) {
		const struct cuckoo_line *line = &table->lines[at];
		moved += line->moved_count;
		if (line->moved_count == 0 && line->moved != 0)
			return "a line's filter counts pairs that came home";
		for (unsigned int i = 0; i < PAIRS; i++) {
			bool is_away = (line->away >> i & 1) != 0;
			if (is_away && line->tag[i] == 0)
				return "an empty place is marked as away";
			if (is_away &&
				!may_be_away(&table->lines[other_of(table, at, line->tag[i])],
					line->tag[i]))
				return "a pair is away and its line does not know";
			away += is_away;
		}
	}
	return away == moved ? NULL : "lines count other pairs as away than there are";
}

static const char *cuckoo_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct cuckoo *table = opaque;
	uint64_t count = 0;
	for (uint32_t at = 0; at < table->lines_count; at++) {
		for (unsigned int i = 0; i < PAIRS; i++) {
			if (table->lines[at].tag[i] == 0)
				continue;
			count++;
			if (visit != NULL)
				visit(context, table->lines[at].index[i]);
		}
	}
	if (count != table->count)
		return "the lines hold another number of pairs than was counted";
	return check_filters(table);
}

const struct conntrack_table_ops conntrack_table_cuckoo_ops = {
	.name = "cuckoo",
	.summary = "two buckets of 8 (tag, index) pairs per key, with a filter of moved pairs",
	.create = cuckoo_create,
	.destroy = cuckoo_destroy,
	.bytes = cuckoo_bytes,
	.find_burst = cuckoo_find_burst,
	.insert = cuckoo_insert,
	.remove = cuckoo_remove,
	.neighbours = cuckoo_neighbours,
	.prefetch = cuckoo_prefetch,
	.check = cuckoo_check,
};
