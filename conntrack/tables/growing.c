/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The default's lines (conntrack/table.h) in a table that begins small and doubles as it fills.
 *
 * While it doubles, an old array and one of twice its size are there together. Every insertion and
 * removal moves the pairs of BUCKETS_STEP buckets, in order, so how long any operation takes does
 * not depend on the table's size; a key's bucket tells in which array it is. The old array then
 * goes back to the system. It does not shrink again.
 *
 * The new array's memory is mapped but not touched: its pages are zeroed one by one as pairs come,
 * which is the only pause (a huge page of 2 MiB at a time where there are such).
 *
 * A pair's place in the new array needs more of the hash than the line holds: it is made anew from
 * the packet's hash (config.hashes).
 */
#include "conntrack/table.h"
#include "conntrack/tables/tables.h"

#include <errno.h>

enum {
	START_BUCKETS = 64, /* at most; at least half of that, if so many are ever needed */
	BUCKETS_STEP = 2,
	BUCKET_PAIRS_MAX = CONNTRACK_TABLE_LINE_PAIRS * (1 + CONNTRACK_TABLE_LINES_MAX),
};

struct growing {
	struct conntrack_table now;
	struct conntrack_table old; /* buckets NULL: not doubling */
	uint32_t moved;             /* buckets below this one have left the old array */
	uint32_t capacity;          /* pairs that the new array takes */
	uint32_t count;
	double load;
	struct conntrack_table_config config;
};

static uint32_t capacity_of(uint64_t buckets, double load)
{
	return (uint32_t)((double)(buckets * CONNTRACK_TABLE_LINE_PAIRS) * load);
}

static void unmap(struct base_arena *arena, struct conntrack_table *table)
{
	base_arena_unmap(arena, table->buckets, conntrack_table_buckets_bytes(table));
	base_arena_unmap(arena, table->overflow, conntrack_table_overflow_bytes(table));
	table->buckets = NULL;
	table->overflow = NULL;
}

static int map(struct base_arena *arena, struct conntrack_table *table, uint32_t capacity,
	uint32_t buckets, const struct growing *growing)
{
	struct conntrack_table made;
	conntrack_table_shape(&made, capacity, growing->load, growing->config.salt);
	made.buckets_count = buckets;
	/* It takes insertions still while it is being emptied, one for BUCKETS_STEP buckets. */
	made.overflow_count += made.buckets_count / (BUCKETS_STEP * CONNTRACK_TABLE_LINE_PAIRS) + 1;
	made.buckets = base_arena_map(arena, conntrack_table_buckets_bytes(&made));
	made.overflow = base_arena_map(arena, conntrack_table_overflow_bytes(&made));
	if (made.buckets == NULL || made.overflow == NULL) {
		unmap(arena, &made);
		return -ENOMEM;
	}
	*table = made;
	return 0;
}

/* Doubled again and again, these become as many as entries_max pairs ask for, or 3 % more: the last
 * doubling is never for the last few pairs. */
static uint32_t start_buckets(const struct growing *table)
{
	struct conntrack_table whole;
	conntrack_table_shape(&whole, table->config.entries_max, table->load, table->config.salt);
	uint32_t buckets = whole.buckets_count;
	while (buckets > START_BUCKETS)
		buckets = buckets / 2 + buckets % 2;
	return buckets;
}

static int growing_create(void **out, const struct conntrack_table_config *config)
{
	if (config->load > 1 || config->hashes == NULL ||
		config->key_stride != sizeof(struct conntrack_entry))
		return -EINVAL;
	struct growing *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->load = config->load > 0 ? config->load : CONNTRACK_TABLE_LOAD;
	uint32_t start = start_buckets(table);
	table->capacity = capacity_of(start, table->load);
	int error = map(config->arena, &table->now, table->capacity, start, table);
	if (error != 0) {
		base_arena_free(config->arena, table, sizeof(*table));
		return error;
	}
	*out = table;
	return 0;
}

static void growing_destroy(void *opaque)
{
	struct growing *table = opaque;
	struct base_arena *arena = table->config.arena;
	unmap(arena, &table->now);
	unmap(arena, &table->old);
	base_arena_free(arena, table, sizeof(*table));
}

static uint64_t growing_bytes(const void *opaque)
{
	const struct growing *table = opaque;
	uint64_t bytes = sizeof(*table) + conntrack_table_bytes(&table->now);
	return table->old.buckets == NULL ? bytes : bytes + conntrack_table_bytes(&table->old);
}

static inline bool is_in_old(const struct growing *table, uint64_t mixed)
{
	return BASE_UNLIKELY(table->old.buckets != NULL) &&
	       conntrack_table_bucket_at(&table->old, mixed) >= table->moved;
}

/* The array that has the key, if it is there. */
static inline const struct conntrack_table *array_of(const struct growing *table, uint64_t mixed)
{
	return is_in_old(table, mixed) ? &table->old : &table->now;
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const void *growing_line(const void *opaque, uint64_t mixed)
{
	return conntrack_table_bucket(array_of(opaque, mixed), mixed);
}

static uint32_t growing_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct conntrack_table *array = array_of(opaque, mixed);
	const struct conntrack_table_line *line = conntrack_table_bucket(array, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	unsigned int mask = conntrack_table_match(line, tag);
	if (BASE_LIKELY(mask != 0))
		return line->index[__builtin_ctz(mask)];
	if (conntrack_table_may_overflow(line, tag))
		*further = &array->overflow[line->next];
	return BASE_CONN_NONE;
}

static uint32_t growing_guess_further(const void *opaque, uint64_t mixed)
{
	return conntrack_table_guess_overflow(array_of(opaque, mixed), mixed);
}

static uint32_t growing_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct growing *table = opaque;
	return conntrack_table_find(array_of(table, mixed), mixed, key,
		(const struct conntrack_entry *)(const void *)table->config.keys);
}

static void growing_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = {
		.line = growing_line,
		.guess = growing_guess,
		.guess_further = growing_guess_further,
		.find = growing_find,
	};
	const struct growing *table = opaque;
	conntrack_tables_find_burst(opaque, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- growth --------------------------------------------------------------------------------- */

struct pairs {
	uint32_t count;
	uint32_t index[BUCKET_PAIRS_MAX];
};

static void collect(void *context, uint32_t bucket, uint16_t tag, uint32_t index)
{
	struct pairs *pairs = context;
	(void)bucket;
	(void)tag;
	pairs->index[pairs->count++] = index;
}

static void move_bucket(struct growing *table, uint32_t bucket)
{
	struct pairs pairs = { .count = 0 };
	conntrack_table_visit_bucket(&table->old, bucket, collect, &pairs);
	for (uint32_t i = 0; i < pairs.count; i++) {
		uint32_t hash = table->config.hashes[pairs.index[i]];
		uint64_t mixed = conntrack_lab_mix(table->config.salt, hash);
		/* No bucket of the new array gets more than this one had. */
		int error = conntrack_table_insert(&table->now, mixed, pairs.index[i]);
		BASE_ASSERT(error == 0);
	}
}

/* Hashes of the pairs that the next step moves. */
static void prefetch_hashes(const struct growing *table, uint32_t from)
{
	for (uint32_t b = from; b < from + BUCKETS_STEP && b < table->old.buckets_count; b++) {
		const struct conntrack_table_line *line = &table->old.buckets[b];
		for (unsigned int i = 0; i < CONNTRACK_TABLE_LINE_PAIRS && i < line->count; i++)
			BASE_PREFETCH(&table->config.hashes[line->index[i]]);
	}
}

static void move_some(struct growing *table)
{
	if (BASE_LIKELY(table->old.buckets == NULL))
		return;
	prefetch_hashes(table, table->moved + BUCKETS_STEP);
	for (unsigned int i = 0; i < BUCKETS_STEP; i++) {
		move_bucket(table, table->moved++);
		if (table->moved == table->old.buckets_count) {
			unmap(table->config.arena, &table->old);
			return;
		}
	}
}

/* Room for one more. -ENOSPC: no memory; the table stays as it is. */
static int grow(struct growing *table)
{
	uint64_t buckets = 2 * (uint64_t)table->now.buckets_count;
	uint32_t capacity = capacity_of(buckets, table->load);
	struct conntrack_table larger;
	BASE_ASSERT(table->old.buckets == NULL); /* moved long before it is full again */
	if (map(table->config.arena, &larger, capacity, (uint32_t)buckets, table) != 0)
		return -ENOSPC;
	table->old = table->now;
	table->now = larger;
	table->moved = 0;
	table->capacity = capacity;
	return 0;
}

static int growing_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct growing *table = opaque;
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	if (BASE_UNLIKELY(table->count == table->capacity) && grow(table) != 0)
		return -ENOSPC;
	move_some(table);
	struct conntrack_table *array = is_in_old(table, mixed) ? &table->old : &table->now;
	int error = conntrack_table_insert(array, mixed, conn);
	table->count += error == 0;
	return error;
}

static void growing_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct growing *table = opaque;
	conntrack_table_remove(is_in_old(table, mixed) ? &table->old : &table->now, mixed, conn);
	table->count--;
	move_some(table);
}

static void growing_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(growing_line(opaque, mixed));
}

static unsigned int growing_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct conntrack_table_line *line = growing_line(opaque, mixed);
	unsigned int count = 0;
	for (; count < CONNTRACK_TABLE_LINE_PAIRS && count < line->count && count < max; count++)
		conns[count] = line->index[count];
	return count;
}

/* ---- check ---------------------------------------------------------------------------------- */

struct visitor {
	void (*visit)(void *context, uint32_t conn);
	void *context;
	uint32_t count;
};

static void visit_pair(void *context, uint32_t bucket, uint16_t tag, uint32_t conn)
{
	struct visitor *visitor = context;
	(void)bucket;
	(void)tag;
	visitor->count++;
	if (visitor->visit != NULL)
		visitor->visit(visitor->context, conn);
}

/* The pairs of the old buckets that have moved are in the new array: there they count. */
static const char *growing_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct growing *table = opaque;
	struct visitor visitor = { .visit = visit, .context = context };
	const char *wrong = NULL;
	uint32_t old_count = table->old.buckets == NULL ? 0 : table->old.buckets_count;
	for (uint32_t i = table->moved; wrong == NULL && i < old_count; i++)
		wrong = conntrack_table_check_bucket(&table->old, i, visit_pair, &visitor);
	for (uint32_t i = 0; wrong == NULL && i < table->now.buckets_count; i++) {
		bool untouched = old_count != 0 && i / 2 >= table->moved;
		if (untouched && table->now.buckets[i].count != 0)
			return "a bucket has pairs before its turn to get them";
		wrong = conntrack_table_check_bucket(&table->now, i, visit_pair, &visitor);
	}
	if (wrong == NULL && visitor.count != table->count)
		wrong = "the arrays hold more or fewer pairs than were counted";
	return wrong;
}

const struct conntrack_table_ops conntrack_table_growing_ops = {
	.name = "growing",
	.summary = "the default's lines, doubled step by step as connections come",
	.create = growing_create,
	.destroy = growing_destroy,
	.bytes = growing_bytes,
	.find_burst = growing_find_burst,
	.insert = growing_insert,
	.remove = growing_remove,
	.neighbours = growing_neighbours,
	.prefetch = growing_prefetch,
	.check = growing_check,
};
