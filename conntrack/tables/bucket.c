/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracker's own table (conntrack/table.h) behind the laboratory's calls. */
#include "conntrack/table.h"
#include "conntrack/tables/tables.h"

#include <errno.h>

struct bucket_table {
	struct conntrack_table table;
	struct conntrack_table_config config;
	uint32_t count; /* pairs in it */
};

static int bucket_create(void **out, const struct conntrack_table_config *config)
{
	if (config->load > 1 || config->key_stride != sizeof(struct conntrack_entry))
		return -EINVAL;
	struct bucket_table *bucket =
		base_arena_alloc(config->arena, sizeof(*bucket), BASE_CACHE_LINE);
	if (bucket == NULL)
		return -ENOMEM;
	bucket->config = *config;
	int error = conntrack_table_init(&bucket->table, config->entries_max,
		config->load > 0 ? config->load : CONNTRACK_TABLE_LOAD, config->salt,
		config->arena);
	if (error != 0) {
		base_arena_free(config->arena, bucket, sizeof(*bucket));
		return error;
	}
	*out = bucket;
	return 0;
}

static void bucket_destroy(void *opaque)
{
	struct bucket_table *bucket = opaque;
	conntrack_table_release(&bucket->table);
	base_arena_free(bucket->config.arena, bucket, sizeof(*bucket));
}

static uint64_t bucket_bytes(const void *opaque)
{
	const struct bucket_table *bucket = opaque;
	return sizeof(*bucket) + conntrack_table_bytes(&bucket->table);
}

static const void *bucket_line(const void *opaque, uint64_t mixed)
{
	const struct bucket_table *bucket = opaque;
	return conntrack_table_bucket(&bucket->table, mixed);
}

static uint32_t bucket_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct bucket_table *bucket = opaque;
	const struct conntrack_table_line *line = conntrack_table_bucket(&bucket->table, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	unsigned int mask = conntrack_table_match(line, tag);
	if (BASE_LIKELY(mask != 0))
		return line->index[__builtin_ctz(mask)];
	if (conntrack_table_may_overflow(line, tag))
		*further = &bucket->table.overflow[line->next];
	return BASE_CONN_NONE;
}

static uint32_t bucket_guess_further(const void *opaque, uint64_t mixed)
{
	const struct bucket_table *bucket = opaque;
	return conntrack_table_guess_overflow(&bucket->table, mixed);
}

static uint32_t bucket_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct bucket_table *bucket = opaque;
	return conntrack_table_find(&bucket->table, mixed, key,
		(const struct conntrack_entry *)(const void *)bucket->config.keys);
}

static void bucket_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = { bucket_line, bucket_guess,
		bucket_guess_further, bucket_find };
	const struct bucket_table *bucket = opaque;
	conntrack_tables_find_burst(opaque, &bucket->config, &steps, mixed, keys, count, conns);
}

static int bucket_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct bucket_table *bucket = opaque;
	if (bucket->count == bucket->config.entries_max)
		return -ENOSPC;
	int error = conntrack_table_insert(&bucket->table, mixed, conn);
	bucket->count += error == 0;
	return error;
}

static void bucket_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct bucket_table *bucket = opaque;
	conntrack_table_remove(&bucket->table, mixed, conn);
	bucket->count--;
}

static void bucket_prefetch(const void *table, uint64_t mixed)
{
	BASE_PREFETCH_W(
		conntrack_table_bucket(&((const struct bucket_table *)table)->table, mixed));
}

static unsigned int bucket_neighbours(
	const void *table, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct conntrack_table_line *line =
		conntrack_table_bucket(&((const struct bucket_table *)table)->table, mixed);
	unsigned int count = 0;
	for (unsigned int i = 0; i < CONNTRACK_TABLE_LINE_PAIRS && count < max; i++) {
		if (line->tag[i] != 0)
			conns[count++] = line->index[i];
	}
	return count;
}

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

static const char *bucket_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct bucket_table *bucket = opaque;
	struct visitor visitor = { .visit = visit, .context = context };
	const char *wrong = NULL;
	for (uint32_t i = 0; wrong == NULL && i < bucket->table.buckets_count; i++)
		wrong = conntrack_table_check_bucket(&bucket->table, i, visit_pair, &visitor);
	if (wrong == NULL && visitor.count != bucket->count)
		wrong = "the pairs of all buckets are not as many as were counted";
	return wrong;
}

const struct conntrack_table_ops conntrack_table_bucket_ops = {
	.name = "bucket",
	.summary = "lines of 8 (tag, index) pairs with overflow lines; the default",
	.create = bucket_create,
	.destroy = bucket_destroy,
	.bytes = bucket_bytes,
	.find_burst = bucket_find_burst,
	.insert = bucket_insert,
	.remove = bucket_remove,
	.neighbours = bucket_neighbours,
	.prefetch = bucket_prefetch,
	.check = bucket_check,
};
