/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chaining without pointers: one array of heads, one of (next, mark) for each index. Marks are 32
 * bits of the hash, so that an entry is read when it is very likely the right one.
 *
 * Nothing is ever moved or refused while entries_max are not in, and insertion is constant. A
 * lookup or removal costs a line for each pair that stands before, one after the other, and chains
 * have no bound: keys chosen to collide make one chain of all.
 */
#include "conntrack/tables/tables.h"

#include <errno.h>

#define LOAD 1.0

struct chaining_node {
	uint32_t next; /* index + 1; 0: the last */
	uint32_t mark;
};

struct chaining {
	uint32_t *heads; /* index + 1; 0: empty */
	struct chaining_node *nodes;
	uint32_t heads_count;
	uint32_t count;
	struct conntrack_table_config config;
};

static void chaining_destroy(void *opaque)
{
	struct chaining *table = opaque;
	const struct conntrack_table_config *config = &table->config;
	struct base_arena *arena = config->arena;
	base_arena_free(arena, table->heads, table->heads_count * sizeof(*table->heads));
	base_arena_free(arena, table->nodes, config->conns_max * sizeof(*table->nodes));
	base_arena_free(arena, table, sizeof(*table));
}

static int chaining_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t heads_count = conntrack_tables_groups(config, LOAD, 1);
	if (heads_count == 0)
		return -EINVAL;
	struct chaining *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->heads_count = heads_count;
	table->heads = base_arena_alloc(
		config->arena, heads_count * sizeof(*table->heads), BASE_CACHE_LINE);
	table->nodes = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*table->nodes), BASE_CACHE_LINE);
	if (table->heads == NULL || table->nodes == NULL) {
		chaining_destroy(table);
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static uint64_t chaining_bytes(const void *opaque)
{
	const struct chaining *table = opaque;
	return sizeof(*table) + table->heads_count * sizeof(*table->heads) +
	       table->config.conns_max * sizeof(*table->nodes);
}

static inline uint32_t *head_of(const struct chaining *table, uint64_t mixed)
{
	return &table->heads[conntrack_tables_spread(mixed, table->heads_count)];
}

/* ---- lookup --------------------------------------------------------------------------------- */

static uint32_t find(const struct chaining *table, uint64_t mixed, const struct base_flow_key *key)
{
	for (uint32_t at = *head_of(table, mixed); at != 0; at = table->nodes[at - 1].next) {
		if (table->nodes[at - 1].mark == (uint32_t)mixed &&
			conntrack_tables_key_is(&table->config, at - 1, key))
			return at - 1;
	}
	return BASE_CONN_NONE;
}

/* All chains of the burst step by step together: the first pair of each with the right mark. */
static void guess_burst(
	const struct chaining *table, const uint64_t *mixed, unsigned int count, uint32_t *conns)
{
	uint16_t active[BASE_BURST_MAX];
	uint32_t at[BASE_BURST_MAX];
	unsigned int active_count = 0;
	bool prefetch = !table->config.no_prefetch;
	for (unsigned int i = 0; prefetch && i < count; i++)
		BASE_PREFETCH_FAR(head_of(table, mixed[i]));
	for (unsigned int i = 0; i < count; i++) {
		at[i] = *head_of(table, mixed[i]);
		conns[i] = BASE_CONN_NONE;
		if (at[i] == 0)
			continue;
		active[active_count++] = (uint16_t)i;
		if (prefetch)
			BASE_PREFETCH_FAR(&table->nodes[at[i] - 1]);
	}
	while (active_count != 0) {
		unsigned int still = 0;
		for (unsigned int k = 0; k < active_count; k++) {
			unsigned int i = active[k];
			struct chaining_node node = table->nodes[at[i] - 1];
			if (node.mark == (uint32_t)mixed[i]) {
				conns[i] = at[i] - 1;
				if (prefetch)
					conntrack_tables_prefetch_key(&table->config, conns[i]);
			} else if (node.next != 0) {
				at[i] = node.next;
				active[still++] = (uint16_t)i;
				if (prefetch)
					BASE_PREFETCH_FAR(&table->nodes[node.next - 1]);
			}
		}
		active_count = still;
	}
}

static void chaining_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct chaining *table = opaque;
	if (count == 1) {
		conns[0] = find(table, mixed[0], keys[0]);
		return;
	}
	guess_burst(table, mixed, count, conns);
	for (unsigned int i = 0; i < count; i++) {
		if (conns[i] != BASE_CONN_NONE &&
			!conntrack_tables_key_is(&table->config, conns[i], keys[i]))
			conns[i] = find(table, mixed[i], keys[i]);
	}
}

/* ---- insertion and removal ------------------------------------------------------------------ */

static int chaining_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct chaining *table = opaque;
	uint32_t *head = head_of(table, mixed);
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	table->nodes[conn] = (struct chaining_node){ .next = *head, .mark = (uint32_t)mixed };
	*head = conn + 1;
	table->count++;
	return 0;
}

static void chaining_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct chaining *table = opaque;
	uint32_t *link = head_of(table, mixed);
	while (*link != conn + 1) {
		BASE_ASSERT(*link != 0);
		link = &table->nodes[*link - 1].next;
	}
	*link = table->nodes[conn].next;
	table->count--;
}

static void chaining_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(head_of(opaque, mixed));
}

static unsigned int chaining_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct chaining *table = opaque;
	unsigned int count = 0;
	for (uint32_t at = *head_of(table, mixed); at != 0 && count < max;
		at = table->nodes[at - 1].next)
		conns[count++] = at - 1;
	return count;
}

static const char *chaining_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct chaining *table = opaque;
	uint32_t count = 0;
	for (uint32_t i = 0; i < table->heads_count; i++) {
		for (uint32_t at = table->heads[i]; at != 0; at = table->nodes[at - 1].next) {
			if (at > table->config.conns_max)
				return "a chain leads out of the table";
			if (++count > table->count)
				return "chains hold more pairs than were counted";
			if (visit != NULL)
				visit(context, at - 1);
		}
	}
	return count == table->count ? NULL : "chains hold fewer pairs than were counted";
}

const struct conntrack_table_ops conntrack_table_chaining_ops = {
	.name = "chaining",
	.summary = "linked lists in arrays of heads and next indices",
	.create = chaining_create,
	.destroy = chaining_destroy,
	.bytes = chaining_bytes,
	.find_burst = chaining_find_burst,
	.insert = chaining_insert,
	.remove = chaining_remove,
	.neighbours = chaining_neighbours,
	.prefetch = chaining_prefetch,
	.check = chaining_check,
};
