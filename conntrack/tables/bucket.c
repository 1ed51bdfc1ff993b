/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracker's own table (conntrack/table.h) behind the laboratory's calls. */
#include "conntrack/table.h"
#include "conntrack/tables/tables.h"

#include <errno.h>
#include <string.h>

struct bucket_table {
	struct conntrack_table table;
	struct conntrack_table_config config;
};

static int bucket_create(void **out, const struct conntrack_table_config *config)
{
	struct bucket_table *bucket =
		base_arena_alloc(config->arena, sizeof(*bucket), BASE_CACHE_LINE);
	if (bucket == NULL)
		return -ENOMEM;
	memset(bucket, 0, sizeof(*bucket));
	bucket->config = *config;
	/* Sized for its own load of 80 %; another one is had by asking for other sizes. */
	double scale = config->load > 0 ? 0.8 / config->load : 1.0;
	double entries = (double)config->entries_max * scale;
	uint32_t sized = entries < 1 ? 1 : (uint32_t)entries;
	int error =
		config->load > 1.0 || entries > UINT32_MAX / 2
			? -EINVAL
			: conntrack_table_init(&bucket->table, sized, config->salt, config->arena);
	if (error != 0) {
		base_arena_free(config->arena, bucket, sizeof(*bucket));
		return error;
	}
	*out = bucket;
	return 0;
}

static void bucket_destroy(void *table)
{
	struct bucket_table *bucket = table;
	conntrack_table_release(&bucket->table);
	base_arena_free(bucket->config.arena, bucket, sizeof(*bucket));
}

static uint64_t bucket_bytes(const void *table)
{
	const struct bucket_table *bucket = table;
	return sizeof(*bucket) + conntrack_table_bytes(&bucket->table);
}

/* What a lookup of the whole line says before any key is compared. */
static uint32_t first_match(const struct conntrack_table *table, uint64_t mixed)
{
	const struct conntrack_table_line *line = conntrack_table_bucket(table, mixed);
	unsigned int mask = conntrack_table_match(line, conntrack_table_tag(mixed));
	return mask != 0 ? line->index[__builtin_ctz(mask)] : BASE_CONN_NONE;
}

static void bucket_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct bucket_table *bucket = opaque;
	const struct conntrack_table *table = &bucket->table;
	const struct conntrack_entry *entries =
		(const struct conntrack_entry *)(const void *)bucket->config.keys;
	bool prefetch = !bucket->config.no_prefetch && count > 1;
	for (unsigned int i = 0; prefetch && i < count; i++)
		BASE_PREFETCH(conntrack_table_bucket(table, mixed[i]));
	for (unsigned int i = 0; prefetch && i < count; i++) {
		uint32_t guess = first_match(table, mixed[i]);
		if (guess != BASE_CONN_NONE)
			BASE_PREFETCH_W(&entries[guess]);
	}
	for (unsigned int i = 0; i < count; i++)
		conns[i] = conntrack_table_find(table, mixed[i], keys[i], entries);
}

static int bucket_insert(void *table, uint64_t mixed, uint32_t conn)
{
	return conntrack_table_insert(&((struct bucket_table *)table)->table, mixed, conn);
}

static void bucket_remove(void *table, uint64_t mixed, uint32_t conn)
{
	conntrack_table_remove(&((struct bucket_table *)table)->table, mixed, conn);
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
};

static void visit_pair(void *context, uint32_t bucket, uint16_t tag, uint32_t conn)
{
	const struct visitor *visitor = context;
	(void)bucket;
	(void)tag;
	if (visitor->visit != NULL)
		visitor->visit(visitor->context, conn);
}

static const char *bucket_check(
	const void *table, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct bucket_table *bucket = table;
	struct visitor visitor = { visit, context };
	const char *wrong = NULL;
	for (uint32_t i = 0; wrong == NULL && i < bucket->table.buckets_count; i++)
		wrong = conntrack_table_check_bucket(&bucket->table, i, visit_pair, &visitor);
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
	.check = bucket_check,
};
