/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time-reversed linear probing (Thorup, "Timeouts with time-reversed linear probing", INFOCOM 2011;
 * US patent 8,306,958 covers the method): along every probe, newer items stand before older ones.
 * So a lookup may stop at the first cell whose time is up: what it looks for would stand before, or
 * is over as well. Cells whose time is up are free cells, without anybody deleting them.
 *
 * Published for one lifespan; here a cell has its due time, and "newer" is "due later", which holds
 * for any mix of timeouts. Invariant: for a live item at p with home h, all cells in [h, p) are due
 * no earlier than it. A due time that grows in place keeps it; one that shrinks, or grows past a
 * cell before it, takes the item out (items behind that may come nearer do) and inserts it anew.
 *
 * Cells hold (due time, index, hash): 16 bytes, at 50 % load unless told otherwise, and 4 bytes per
 * index for its place. With a deletion strategy of another name, due times stay at "never", and it
 * is plain linear probing. The last home is followed by REACH cells, so nothing wraps around.
 */
#include "conntrack/tables/trlp.h"

#include "conntrack/tables/tables.h"

#include <errno.h>
#include <string.h>

enum { REACH = 2048, NOWHERE = -1 };
#define LOAD 0.5

struct cell {
	uint64_t due_ns;
	uint32_t conn; /* BASE_CONN_NONE: empty */
	uint32_t hash; /* upper half of the mixed one: home, and what is compared first */
};
static_assert(sizeof(struct cell) == 16, "four cells per cache line");

struct trlp {
	struct cell *cells;
	uint32_t *places; /* by index */
	uint64_t now_ns;
	uint32_t homes;
	uint32_t count;
	struct conntrack_table_config config;
};

static size_t cells_count(const struct trlp *table)
{
	return (size_t)table->homes + REACH + 1;
}

static void trlp_destroy(void *opaque)
{
	struct trlp *table = opaque;
	struct base_arena *arena = table->config.arena;
	base_arena_free(arena, table->cells, cells_count(table) * sizeof(*table->cells));
	base_arena_free(arena, table->places, table->config.conns_max * sizeof(*table->places));
	base_arena_free(arena, table, sizeof(*table));
}

static int trlp_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t homes = conntrack_tables_groups(config, LOAD, 1);
	if (homes == 0)
		return -EINVAL;
	struct trlp *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->homes = homes;
	table->cells = base_arena_alloc(
		config->arena, cells_count(table) * sizeof(*table->cells), BASE_CACHE_LINE);
	table->places = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*table->places), BASE_CACHE_LINE);
	if (table->cells == NULL || table->places == NULL) {
		trlp_destroy(table);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cells_count(table); i++)
		table->cells[i].conn = BASE_CONN_NONE;
	*out = table;
	return 0;
}

static uint64_t trlp_bytes(const void *opaque)
{
	const struct trlp *table = opaque;
	return sizeof(*table) + cells_count(table) * sizeof(*table->cells) +
	       table->config.conns_max * sizeof(*table->places);
}

static uint32_t hash_of(uint64_t mixed)
{
	return (uint32_t)(mixed >> 32);
}

static size_t home_of(const struct trlp *table, uint32_t hash)
{
	return (size_t)((uint64_t)hash * table->homes >> 32);
}

/* Nothing live is looked for behind it. */
static bool is_free(const struct trlp *table, const struct cell *cell)
{
	return cell->conn == BASE_CONN_NONE || cell->due_ns <= table->now_ns;
}

static void put(struct trlp *table, size_t at, struct cell cell)
{
	table->cells[at] = cell;
	table->places[cell.conn] = (uint32_t)at;
}

/* ---- lookup --------------------------------------------------------------------------------- */

static uint32_t find(const struct trlp *table, uint64_t mixed, const struct base_flow_key *key)
{
	uint32_t hash = hash_of(mixed);
	for (size_t at = home_of(table, hash); !is_free(table, &table->cells[at]); at++) {
		const struct cell *cell = &table->cells[at];
		if (cell->hash == hash && conntrack_tables_key_is(&table->config, cell->conn, key))
			return cell->conn;
	}
	return BASE_CONN_NONE;
}

/* Up to the end of the home's cache line; further: the next one. */
static uint32_t guess(const struct trlp *table, uint64_t mixed, const void **further)
{
	uint32_t hash = hash_of(mixed);
	size_t at = home_of(table, hash);
	do {
		const struct cell *cell = &table->cells[at];
		if (is_free(table, cell))
			return BASE_CONN_NONE;
		if (cell->hash == hash)
			return cell->conn;
	} while (++at % (BASE_CACHE_LINE / sizeof(struct cell)) != 0);
	*further = &table->cells[at];
	return BASE_CONN_NONE;
}

static const void *trlp_line(const void *opaque, uint64_t mixed)
{
	const struct trlp *table = opaque;
	return &table->cells[home_of(table, hash_of(mixed))];
}

static uint32_t trlp_guess(const void *opaque, uint64_t mixed, const void **further)
{
	return guess(opaque, mixed, further);
}

static uint32_t trlp_guess_further(const void *opaque, uint64_t mixed)
{
	const struct trlp *table = opaque;
	uint32_t hash = hash_of(mixed);
	for (size_t at = home_of(table, hash); !is_free(table, &table->cells[at]); at++) {
		if (table->cells[at].hash == hash)
			return table->cells[at].conn;
	}
	return BASE_CONN_NONE;
}

static uint32_t trlp_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	return find(opaque, mixed, key);
}

static const struct conntrack_tables_steps steps = {
	.line = trlp_line,
	.guess = trlp_guess,
	.guess_further = trlp_guess_further,
	.find = trlp_find,
};

static void trlp_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct trlp *table = opaque;
	conntrack_tables_find_burst(table, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- coming and going ----------------------------------------------------------------------- */

/* Walk from the item's home; what is due earlier gives way and walks on. The first free cell takes
 * the last: it must be empty. */
static void place(struct trlp *table, struct cell item)
{
	size_t at = home_of(table, item.hash);
	for (; !is_free(table, &table->cells[at]); at++) {
		struct cell other = table->cells[at];
		if (other.due_ns >= item.due_ns)
			continue;
		put(table, at, item);
		item = other;
	}
	BASE_DEBUG_ASSERT(table->cells[at].conn == BASE_CONN_NONE);
	put(table, at, item);
}

/* Take out what is at `at`; items behind it that may stand there come nearer, one after the other.
 * Returns the cell that is empty in the end. */
static size_t take_out(struct trlp *table, size_t at)
{
	struct cell *cells = table->cells;
	bool live = cells[at].due_ns > table->now_ns;
	size_t hole = at;
	for (size_t next = at + 1; live && !is_free(table, &cells[next]); next++) {
		if (home_of(table, cells[next].hash) > hole)
			continue;
		put(table, hole, cells[next]);
		hole = next;
	}
	cells[hole] = (struct cell){ .conn = BASE_CONN_NONE };
	return hole;
}

/* The first free cell from there on; NOWHERE when it is beyond reach. */
static int64_t free_cell(const struct trlp *table, size_t home)
{
	for (size_t at = home; at < home + REACH; at++) {
		if (is_free(table, &table->cells[at]))
			return (int64_t)at;
	}
	return NOWHERE;
}

static int trlp_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct trlp *table = opaque;
	uint32_t hash = hash_of(mixed);
	if (table->count >= table->config.entries_max)
		return -ENOSPC;
	int64_t at = free_cell(table, home_of(table, hash));
	if (at == NOWHERE || table->cells[at].conn != BASE_CONN_NONE)
		return -ENOSPC;
	place(table, (struct cell){ .due_ns = UINT64_MAX, .conn = conn, .hash = hash });
	table->count++;
	return 0;
}

static void trlp_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct trlp *table = opaque;
	(void)mixed;
	take_out(table, table->places[conn]);
	table->count--;
}

void conntrack_trlp_pass_time(void *opaque, uint64_t now_ns)
{
	((struct trlp *)opaque)->now_ns = now_ns;
}

/* Is it in order where it is with another due time? */
static bool may_stay(const struct trlp *table, size_t at, uint64_t due_ns)
{
	const struct cell *cells = table->cells;
	if (due_ns >= cells[at].due_ns) {
		for (size_t before = home_of(table, cells[at].hash); before < at; before++) {
			if (cells[before].due_ns < due_ns)
				return false;
		}
		return true;
	}
	for (size_t behind = at + 1; !is_free(table, &cells[behind]); behind++) {
		if (cells[behind].due_ns > due_ns && home_of(table, cells[behind].hash) <= at)
			return false;
	}
	return true;
}

void conntrack_trlp_set_due(void *opaque, uint32_t conn, uint64_t due_ns)
{
	struct trlp *table = opaque;
	size_t at = table->places[conn];
	struct cell item = table->cells[at];
	if (item.due_ns == due_ns)
		return;
	if (may_stay(table, at, due_ns)) {
		table->cells[at].due_ns = due_ns;
		return;
	}
	size_t hole = take_out(table, at);
	item.due_ns = due_ns;
	/* Something whose time is up may stand in the way: it can wait anywhere. */
	int64_t end = free_cell(table, home_of(table, item.hash));
	if (end != NOWHERE && table->cells[end].conn != BASE_CONN_NONE) {
		put(table, hole, table->cells[end]);
		table->cells[end].conn = BASE_CONN_NONE;
	}
	place(table, item);
}

void conntrack_trlp_prefetch(const void *opaque, uint32_t conn)
{
	const struct trlp *table = opaque;
	BASE_PREFETCH_W(&table->cells[table->places[conn]]);
}

uint32_t conntrack_trlp_due(const void *opaque, uint64_t mixed, uint32_t max, bool nearest)
{
	const struct trlp *table = opaque;
	size_t at = home_of(table, hash_of(mixed));
	for (uint32_t i = 0; i < max && at < cells_count(table); i++, at++) {
		const struct cell *cell = &table->cells[at];
		if (!is_free(table, cell))
			continue;
		if (cell->conn != BASE_CONN_NONE)
			return cell->conn;
		if (nearest)
			break;
	}
	return BASE_CONN_NONE;
}

static unsigned int trlp_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct trlp *table = opaque;
	unsigned int count = 0;
	size_t at = home_of(table, hash_of(mixed));
	for (; count < max && table->cells[at].conn != BASE_CONN_NONE; at++)
		conns[count++] = table->cells[at].conn;
	return count;
}

static void trlp_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(trlp_line(opaque, mixed));
}

static const char *check_cell(const struct trlp *table, size_t at)
{
	const struct cell *cell = &table->cells[at];
	size_t home = home_of(table, cell->hash);
	if (table->places[cell->conn] != at)
		return "an item's place is not where it is";
	if (is_free(table, cell))
		return NULL;
	if (home > at)
		return "an item stands before its home";
	for (size_t before = home; before < at; before++) {
		if (table->cells[before].conn == BASE_CONN_NONE ||
			table->cells[before].due_ns < cell->due_ns)
			return "an item stands behind one that is due before it";
	}
	return NULL;
}

static const char *trlp_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct trlp *table = opaque;
	uint32_t count = 0;
	for (size_t at = 0; at < cells_count(table); at++) {
		uint32_t conn = table->cells[at].conn;
		if (conn == BASE_CONN_NONE)
			continue;
		if (conn >= table->config.conns_max)
			return "an index is out of range";
		const char *wrong = check_cell(table, at);
		if (wrong != NULL)
			return wrong;
		count++;
		if (visit != NULL)
			visit(context, conn);
	}
	return count == table->count ? NULL : "the count of pairs is wrong";
}

const struct conntrack_table_ops conntrack_table_trlp_ops = {
	.name = "trlp",
	.summary = "time-reversed linear probing; plain linear probing with another deletion",
	.create = trlp_create,
	.destroy = trlp_destroy,
	.bytes = trlp_bytes,
	.find_burst = trlp_find_burst,
	.insert = trlp_insert,
	.remove = trlp_remove,
	.neighbours = trlp_neighbours,
	.prefetch = trlp_prefetch,
	.check = trlp_check,
};
