/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/conntrack/faults.h"

#include "conntrack/deletion/deletion.h"
#include "conntrack/tracker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables: the default one, with something wrong ------------------------------------------- */

enum { EVERY = 23, SLOTS_MAX = 1 << 14 };

struct table {
	void *inner;
	unsigned int inserts;
	uint64_t mixed[SLOTS_MAX]; /* under which the pair really is; 0: it is not there */
};

static const struct conntrack_table_ops *inner_ops(void)
{
	return conntrack_table_at(0);
}

static int table_create(void **out, const struct conntrack_table_config *config)
{
	struct table *table = calloc(1, sizeof(*table));
	if (table == NULL || config->conns_max > SLOTS_MAX) {
		free(table);
		return -ENOMEM;
	}
	int error = inner_ops()->create(&table->inner, config);
	if (error != 0)
		free(table);
	else
		*out = table;
	return error;
}

static void table_destroy(void *opaque)
{
	struct table *table = opaque;
	inner_ops()->destroy(table->inner);
	free(table);
}

static uint64_t table_bytes(const void *opaque)
{
	return inner_ops()->bytes(((const struct table *)opaque)->inner);
}

static void table_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	inner_ops()->find_burst(((const struct table *)opaque)->inner, mixed, keys, count, conns);
}

static void table_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct table *table = opaque;
	(void)mixed;
	if (table->mixed[conn] != 0)
		inner_ops()->remove(table->inner, table->mixed[conn], conn);
	table->mixed[conn] = 0;
}

static unsigned int table_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	return inner_ops()->neighbours(((const struct table *)opaque)->inner, mixed, conns, max);
}

static const char *table_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	return inner_ops()->check(((const struct table *)opaque)->inner, visit, context);
}

static int insert_under(struct table *table, uint64_t mixed, uint32_t conn)
{
	int error = inner_ops()->insert(table->inner, mixed, conn);
	if (error == 0)
		table->mixed[conn] = mixed;
	return error;
}

/* A recycled slot keeps the signature of another: what was inserted cannot be found. */
static int insert_unfindable(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct table *table = opaque;
	bool recycled = ++table->inserts % EVERY == 0;
	return insert_under(table, recycled ? mixed ^ UINT64_C(0xa5a5a5a5a5a5a5a5) : mixed, conn);
}

/* It is written over the slot of somebody else, who is lost. */
static int insert_over_another(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct table *table = opaque;
	uint32_t victim;
	if (++table->inserts % EVERY == 0 && table_neighbours(table, mixed, &victim, 1) == 1)
		table_remove(table, 0, victim);
	return insert_under(table, mixed, conn);
}

static int insert_not_always(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct table *table = opaque;
	return ++table->inserts % EVERY == 0 ? -ENOSPC : insert_under(table, mixed, conn);
}

static const struct conntrack_table_ops table_unfindable = {
	.name = "unfindable",
	.summary = "",
	.create = table_create,
	.destroy = table_destroy,
	.bytes = table_bytes,
	.find_burst = table_find_burst,
	.insert = insert_unfindable,
	.remove = table_remove,
	.neighbours = table_neighbours,
	.check = table_check,
};
static const struct conntrack_table_ops table_overwrites = {
	.name = "overwrites",
	.summary = "",
	.create = table_create,
	.destroy = table_destroy,
	.bytes = table_bytes,
	.find_burst = table_find_burst,
	.insert = insert_over_another,
	.remove = table_remove,
	.neighbours = table_neighbours,
	.check = table_check,
};
static const struct conntrack_table_ops table_refuses = {
	.name = "refuses",
	.summary = "",
	.create = table_create,
	.destroy = table_destroy,
	.bytes = table_bytes,
	.find_burst = table_find_burst,
	.insert = insert_not_always,
	.remove = table_remove,
	.neighbours = table_neighbours,
	.check = table_check,
};

/* ---- strategies ----------------------------------------------------------------------------- */

struct strategy {
	struct conntrack *tracker;
	uint32_t conns_max;
	uint32_t looks;
};

static int strategy_create(void **out, const struct conntrack_deletion_config *config)
{
	struct strategy *strategy = calloc(1, sizeof(*strategy));
	if (strategy == NULL)
		return -ENOMEM;
	strategy->tracker = config->tracker;
	strategy->conns_max = config->conns_max;
	*out = strategy;
	return 0;
}

static void strategy_destroy(void *deletion)
{
	free(deletion);
}

static uint64_t strategy_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct strategy);
}

/* Lazy recycling that asks for the age of the slot before the one that it takes. */
static void take_the_next(void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct strategy *strategy = deletion;
	uint32_t conns[8];
	(void)lack;
	unsigned int count = conntrack_lab_neighbours(strategy->tracker, mixed, conns, 8);
	for (unsigned int i = 1; i < count; i++) {
		if (conntrack_lab_due_ns(strategy->tracker, conns[i - 1]) <= now_ns) {
			conntrack_lab_evict(strategy->tracker, conns[i], now_ns);
			return;
		}
	}
}

static bool is_live(const struct strategy *strategy, uint32_t conn)
{
	return strategy->tracker->entries[conn].state != CONNTRACK_STATE_NONE;
}

/* A scan that frees an index by pushing 0 where it means the index. */
static unsigned int scan_and_free_zero(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct strategy *strategy = deletion;
	struct conntrack *tracker = strategy->tracker;
	(void)budget;
	for (uint32_t conn = 1; conn < strategy->conns_max; conn++) {
		if (!is_live(strategy, conn) || !conntrack_lab_expire(tracker, conn, now_ns))
			continue;
		if (is_live(strategy, 0)) {
			tracker->entries[0].last_seen_ns = tracker->entries[conn].last_seen_ns;
			tracker->free_newest = 0;
			break; /* once is enough, and twice is a ring */
		}
	}
	return strategy->conns_max;
}

/* A wheel that now and then puts an entry into the slot that it is emptying, and so loses it. */
static unsigned int scan_and_forget(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct strategy *strategy = deletion;
	(void)budget;
	for (uint32_t conn = 0; conn < strategy->conns_max; conn++) {
		if (conn % EVERY != 0 && is_live(strategy, conn))
			conntrack_lab_expire(strategy->tracker, conn, now_ns);
	}
	return strategy->conns_max;
}

static uint64_t no_slack(const void *deletion, uint64_t now_ns)
{
	(void)deletion;
	(void)now_ns;
	return 0;
}

static const struct conntrack_deletion_ops lazy_off_by_one = {
	.name = "lazy_off_by_one",
	.summary = "",
	.create = strategy_create,
	.destroy = strategy_destroy,
	.bytes = strategy_bytes,
	.make_room = take_the_next,
};
static const struct conntrack_deletion_ops scan_frees_zero = {
	.name = "scan_frees_zero",
	.summary = "",
	.create = strategy_create,
	.destroy = strategy_destroy,
	.bytes = strategy_bytes,
	.advance = scan_and_free_zero,
};
static const struct conntrack_deletion_ops wheel_forgets = {
	.name = "wheel_forgets",
	.summary = "",
	.slack_ns = no_slack,
	.create = strategy_create,
	.destroy = strategy_destroy,
	.bytes = strategy_bytes,
	.advance = scan_and_forget,
};

static const struct fault faults[] = {
	{ "a recycled insertion cannot be found", &table_unfindable, &conntrack_deletion_lazy_ops,
		CONNTRACK_FAILURE_LIVE_REPORTED_NEW },
	{ "a recycled insertion takes a live connection's slot", &table_overwrites,
		&conntrack_deletion_lazy_ops, CONNTRACK_FAILURE_LIVE_REPORTED_NEW },
	{ "an insertion is refused in a table with room", &table_refuses,
		&conntrack_deletion_wheel_ops, CONNTRACK_FAILURE_REFUSED_WITH_ROOM },
	{ "lazy recycling looks at the slot before", NULL, &lazy_off_by_one,
		CONNTRACK_FAILURE_REMOVED_EARLY },
	{ "scanning frees index 0 for every other", NULL, &scan_frees_zero,
		CONNTRACK_FAILURE_WRONG_CONNECTION },
	{ "a wheel loses an entry", NULL, &wheel_forgets, CONNTRACK_FAILURE_PAST_SLACK },
};

const struct fault *fault_at(size_t index)
{
	return index < BASE_ARRAY_COUNT(faults) ? &faults[index] : NULL;
}
