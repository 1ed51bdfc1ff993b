/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/table.h"

#include <errno.h>

/* Line 0 of the overflow lines is never used, so that zeroed memory is an empty table. */
#define LINE_NONE 0

#define BUCKETS_LIMIT (UINT32_C(1) << 31)

void conntrack_table_shape(
	struct conntrack_table *table, uint32_t entries_max, double load, uint64_t salt)
{
	double buckets = (double)entries_max / (load * CONNTRACK_TABLE_LINE_PAIRS);
	uint32_t count = buckets < BUCKETS_LIMIT ? (uint32_t)buckets : BUCKETS_LIMIT;
	count += count < buckets && count < BUCKETS_LIMIT; /* rounded up */
	*table = (struct conntrack_table){
		.salt = salt,
		.buckets_count = count,
		.overflow_count = entries_max / CONNTRACK_TABLE_LINE_PAIRS + 2,
		.overflow_fresh = LINE_NONE + 1,
	};
}

uint32_t conntrack_bucket_of(uint32_t entries_max, uint64_t salt, uint32_t hash)
{
	struct conntrack_table table;
	conntrack_table_shape(&table, entries_max, CONNTRACK_TABLE_LOAD, salt);
	return conntrack_table_bucket_at(&table, conntrack_table_mix(&table, hash));
}

int conntrack_table_init(struct conntrack_table *table, uint32_t entries_max, double load,
	uint64_t salt, struct base_arena *arena)
{
	struct conntrack_table made;
	conntrack_table_shape(&made, entries_max, load, salt);
	made.arena = arena;
	made.buckets =
		base_arena_alloc(arena, conntrack_table_buckets_bytes(&made), BASE_CACHE_LINE);
	made.overflow =
		base_arena_alloc(arena, conntrack_table_overflow_bytes(&made), BASE_CACHE_LINE);
	if (made.buckets == NULL || made.overflow == NULL) {
		conntrack_table_release(&made);
		return -ENOMEM;
	}
	*table = made;
	return 0;
}

void conntrack_table_release(struct conntrack_table *table)
{
	base_arena_free(table->arena, table->buckets, conntrack_table_buckets_bytes(table));
	base_arena_free(table->arena, table->overflow, conntrack_table_overflow_bytes(table));
	table->buckets = NULL;
	table->overflow = NULL;
}

size_t conntrack_table_buckets_bytes(const struct conntrack_table *table)
{
	return table->buckets_count * sizeof(*table->buckets);
}

size_t conntrack_table_overflow_bytes(const struct conntrack_table *table)
{
	return table->overflow_count * sizeof(*table->overflow);
}

uint64_t conntrack_table_bytes(const struct conntrack_table *table)
{
	return conntrack_table_buckets_bytes(table) + conntrack_table_overflow_bytes(table);
}

/* Used ones first: the others have not been touched yet. */
static uint32_t overflow_take(struct conntrack_table *table)
{
	uint32_t line = table->overflow_free;
	if (line != LINE_NONE) {
		table->overflow_free = table->overflow[line].next;
	} else {
		line = table->overflow_fresh++;
		/* Eight pairs per line in use are stored, so they cannot run out. */
		BASE_ASSERT(line < table->overflow_count);
	}
	table->overflow_used++;
	return line;
}

/* Pairs in the first overflow line, the only one that may be part full; 0 without overflow. */
static unsigned int overflow_fill(const struct conntrack_table_line *bucket)
{
	if (bucket->count <= CONNTRACK_TABLE_LINE_PAIRS)
		return 0;
	return (bucket->count - 1u) % CONNTRACK_TABLE_LINE_PAIRS + 1;
}

int conntrack_table_insert(struct conntrack_table *table, uint64_t mixed, uint32_t index)
{
	struct conntrack_table_line *bucket = conntrack_table_bucket(table, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	unsigned int count = bucket->count;

	if (BASE_LIKELY(count < CONNTRACK_TABLE_LINE_PAIRS)) {
		bucket->tag[count] = tag;
		bucket->index[count] = index;
		bucket->count++;
		return 0;
	}
	if (count == CONNTRACK_TABLE_LINE_PAIRS * (1 + CONNTRACK_TABLE_LINES_MAX))
		return -ENOSPC;

	unsigned int place = count % CONNTRACK_TABLE_LINE_PAIRS;
	if (place == 0) {
		uint32_t fresh = overflow_take(table);
		table->overflow[fresh].next = bucket->next;
		bucket->next = fresh;
	}
	struct conntrack_table_line *line = &table->overflow[bucket->next];
	line->tag[place] = tag;
	line->index[place] = index;
	bucket->filter |= (uint16_t)(1u << (tag >> 12));
	bucket->count++;
	return 0;
}

static uint16_t filter_of(
	const struct conntrack_table *table, const struct conntrack_table_line *bucket)
{
	unsigned int fill = overflow_fill(bucket);
	unsigned int filter = 0;
	uint32_t next = bucket->next;
	while (fill != 0 && next != LINE_NONE) {
		const struct conntrack_table_line *line = &table->overflow[next];
		for (unsigned int i = 0; i < fill; i++)
			filter |= 1u << (line->tag[i] >> 12);
		next = line->next;
		fill = CONNTRACK_TABLE_LINE_PAIRS;
	}
	return (uint16_t)filter;
}

static struct conntrack_table_line *line_of(const struct conntrack_table *table,
	struct conntrack_table_line *bucket, uint16_t tag, uint32_t index, unsigned int *place)
{
	for (struct conntrack_table_line *line = bucket;; line = &table->overflow[line->next]) {
		unsigned int mask = conntrack_table_match(line, tag);
		for (; mask != 0; mask &= mask - 1) {
			*place = (unsigned int)__builtin_ctz(mask);
			if (BASE_LIKELY(line->index[*place] == index))
				return line;
		}
		BASE_ASSERT(line->next != LINE_NONE);
	}
}

void conntrack_table_remove(struct conntrack_table *table, uint64_t mixed, uint32_t index)
{
	struct conntrack_table_line *bucket = conntrack_table_bucket(table, mixed);
	unsigned int place;
	struct conntrack_table_line *line =
		line_of(table, bucket, conntrack_table_tag(mixed), index, &place);

	/* The last pair fills the hole, so that the bucket stays compact. */
	unsigned int fill = overflow_fill(bucket);
	struct conntrack_table_line *last = fill != 0 ? &table->overflow[bucket->next] : bucket;
	unsigned int last_place = (fill != 0 ? fill : bucket->count) - 1;
	line->tag[place] = last->tag[last_place];
	line->index[place] = last->index[last_place];
	last->tag[last_place] = 0;
	bucket->count--;
	if (fill == 0)
		return;
	if (last_place == 0) {
		uint32_t empty = bucket->next;
		bucket->next = last->next;
		last->next = table->overflow_free;
		table->overflow_free = empty;
		table->overflow_used--;
	}
	bucket->filter = filter_of(table, bucket);
}

uint32_t conntrack_table_find_overflow(const struct conntrack_table *table, uint64_t mixed,
	const struct base_flow_key *key, const struct conntrack_entry *entries)
{
	const struct conntrack_table_line *bucket = conntrack_table_bucket(table, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	for (uint32_t next = bucket->next; next != LINE_NONE;) {
		const struct conntrack_table_line *line = &table->overflow[next];
		unsigned int mask = conntrack_table_match(line, tag);
		for (; mask != 0; mask &= mask - 1) {
			uint32_t index = line->index[__builtin_ctz(mask)];
			if (conntrack_key_equal(&entries[index].key, key))
				return index;
		}
		next = line->next;
	}
	return BASE_CONN_NONE;
}

uint32_t conntrack_table_guess_overflow(const struct conntrack_table *table, uint64_t mixed)
{
	const struct conntrack_table_line *bucket = conntrack_table_bucket(table, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	for (uint32_t next = bucket->next; next != LINE_NONE;) {
		const struct conntrack_table_line *line = &table->overflow[next];
		unsigned int mask = conntrack_table_match(line, tag);
		if (mask != 0)
			return line->index[__builtin_ctz(mask)];
		next = line->next;
	}
	return BASE_CONN_NONE;
}

void conntrack_table_visit_bucket(const struct conntrack_table *table, uint32_t bucket_index,
	void (*visit)(void *context, uint32_t bucket, uint16_t tag, uint32_t index), void *context)
{
	const struct conntrack_table_line *line = &table->buckets[bucket_index];
	unsigned int rest = line->count, fill = rest, next_fill = overflow_fill(line);
	if (fill > CONNTRACK_TABLE_LINE_PAIRS)
		fill = CONNTRACK_TABLE_LINE_PAIRS;
	while (rest != 0) {
		for (unsigned int i = 0; i < fill; i++)
			visit(context, bucket_index, line->tag[i], line->index[i]);
		rest -= fill;
		line = &table->overflow[line->next];
		fill = next_fill;
		next_fill = CONNTRACK_TABLE_LINE_PAIRS;
	}
}

const char *conntrack_table_check_bucket(const struct conntrack_table *table, uint32_t bucket_index,
	void (*visit)(void *context, uint32_t bucket, uint16_t tag, uint32_t index), void *context)
{
	const struct conntrack_table_line *bucket = &table->buckets[bucket_index];
	unsigned int count = bucket->count;
	if (count > CONNTRACK_TABLE_LINE_PAIRS * (1 + CONNTRACK_TABLE_LINES_MAX))
		return "a bucket holds more than its bound";

	const struct conntrack_table_line *line = bucket;
	unsigned int fill = count < CONNTRACK_TABLE_LINE_PAIRS ? count : CONNTRACK_TABLE_LINE_PAIRS;
	unsigned int next_fill = overflow_fill(bucket);
	uint32_t next = bucket->next;
	for (;;) {
		if (conntrack_table_match_scalar(line, 0) != (0xffu & 0xffu << fill))
			return "a bucket's pairs do not come before its empty places";
		for (unsigned int i = 0; i < fill; i++)
			visit(context, bucket_index, line->tag[i], line->index[i]);
		count -= fill;
		if (count == 0)
			break;
		if (next == LINE_NONE || next >= table->overflow_count)
			return "a bucket's overflow lines end too early";
		line = &table->overflow[next];
		next = line->next;
		fill = next_fill;
		next_fill = CONNTRACK_TABLE_LINE_PAIRS;
	}
	if (next != LINE_NONE)
		return "a bucket has more overflow lines than pairs for them";
	if (bucket->filter != filter_of(table, bucket))
		return "a bucket's filter differs from its overflow lines";
	return NULL;
}
