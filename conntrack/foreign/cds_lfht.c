/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburcu's cds_lfht: a lock-free table of split-ordered lists. Of a fixed size, as the others, so
 * that it needs no thread of its own; a node for each index stands in an array. The owner is the
 * only reader, so a removed node may be used again at once.
 */
#include "conntrack/foreign/tables.h"

#include <errno.h>
#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#define LOAD 1.0

struct foreign {
	struct cds_lfht *table;
	struct cds_lfht_node *nodes; /* by index */
	uint32_t count;
	uint64_t buckets;
	struct conntrack_table_config config;
};

/* What a comparison is given. */
struct wanted {
	const struct foreign *table;
	const struct base_flow_key *key;
};

static void foreign_destroy(void *opaque)
{
	struct foreign *table = opaque;
	const struct conntrack_table_config *config = &table->config;
	if (table->table != NULL) {
		struct cds_lfht_iter iterator;
		cds_lfht_first(table->table, &iterator);
		for (struct cds_lfht_node *node;
			(node = cds_lfht_iter_get_node(&iterator)) != NULL;) {
			cds_lfht_next(table->table, &iterator);
			(void)cds_lfht_del(table->table, node);
		}
		(void)cds_lfht_destroy(table->table, NULL);
	}
	base_arena_free(config->arena, table->nodes, config->conns_max * sizeof(*table->nodes));
	base_arena_free(config->arena, table, sizeof(*table));
}

static int foreign_create(void **out, const struct conntrack_table_config *config)
{
	double load = config->load > 0 ? config->load : LOAD;
	if (load > 1)
		return -EINVAL;
	struct foreign *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->buckets = 1;
	while ((double)table->buckets * load < (double)config->entries_max)
		table->buckets *= 2;
	table->nodes = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*table->nodes), BASE_CACHE_LINE);
	if (table->nodes != NULL)
		table->table = cds_lfht_new_flavor(
			table->buckets, table->buckets, table->buckets, 0, &urcu_qsbr_flavor, NULL);
	if (table->table == NULL) {
		foreign_destroy(table);
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

/* The library does not tell: a node for each bucket, and ours. */
static uint64_t foreign_bytes(const void *opaque)
{
	const struct foreign *table = opaque;
	return sizeof(*table) +
	       (table->buckets + table->config.conns_max) * sizeof(struct cds_lfht_node);
}

/* It takes buckets from the lower bits. */
static unsigned long hash_of(uint64_t mixed)
{
	return (unsigned long)(mixed >> 32);
}

static int match(struct cds_lfht_node *node, const void *opaque)
{
	const struct wanted *wanted = opaque;
	const struct foreign *table = wanted->table;
	const struct base_flow_key *key =
		conntrack_table_key(&table->config, (uint32_t)(node - table->nodes));
	return base_flow_key_equal(key, wanted->key);
}

static void foreign_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct foreign *table = opaque;
	urcu_qsbr_read_lock();
	for (unsigned int i = 0; i < count; i++) {
		struct wanted wanted = { table, keys[i] };
		struct cds_lfht_iter iterator;
		cds_lfht_lookup(table->table, hash_of(mixed[i]), match, &wanted, &iterator);
		const struct cds_lfht_node *node = cds_lfht_iter_get_node(&iterator);
		conns[i] = node != NULL ? (uint32_t)(node - table->nodes) : BASE_CONN_NONE;
	}
	urcu_qsbr_read_unlock();
}

static int foreign_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	cds_lfht_node_init(&table->nodes[conn]);
	urcu_qsbr_read_lock();
	cds_lfht_add(table->table, hash_of(mixed), &table->nodes[conn]);
	urcu_qsbr_read_unlock();
	table->count++;
	return 0;
}

static void foreign_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	(void)mixed;
	urcu_qsbr_read_lock();
	int error = cds_lfht_del(table->table, &table->nodes[conn]);
	urcu_qsbr_read_unlock();
	BASE_ASSERT(error == 0);
	table->count--;
}

static const char *foreign_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct foreign *table = opaque;
	struct cds_lfht_iter iterator;
	uint32_t count = 0;
	cds_lfht_first(table->table, &iterator);
	for (const struct cds_lfht_node *node; (node = cds_lfht_iter_get_node(&iterator)) != NULL;
		cds_lfht_next(table->table, &iterator)) {
		if (++count > table->count)
			return "its lists hold more nodes than were added";
		if (visit != NULL)
			visit(context, (uint32_t)(node - table->nodes));
	}
	return count == table->count ? NULL : "its lists hold fewer nodes than were added";
}

const struct conntrack_table_ops conntrack_foreign_cds_lfht_ops = {
	.name = "cds_lfht",
	.summary = "liburcu's lock-free table of split-ordered lists",
	.library = "liburcu",
	.differs =
		"one lookup at a time, no prefetch; buckets in its own memory, without huge pages",
	.create = foreign_create,
	.destroy = foreign_destroy,
	.bytes = foreign_bytes,
	.find_burst = foreign_find_burst,
	.insert = foreign_insert,
	.remove = foreign_remove,
	.check = foreign_check,
};
