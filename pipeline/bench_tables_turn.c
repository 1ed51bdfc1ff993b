/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_tables_turn.h"

#include "base/cycles.h"
#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	LOOKUPS = 1 << 20, /* of a pass */
	LOOKUPS_WARM = LOOKUPS / 4,
	CHURN_MAX = 1 << 17, /* connections removed and inserted in a pass */
	/* Cycles per operation that none takes: the CPU was away. A removal from an almost full
	 * table of long runs takes thousands. */
	PREEMPTED = 20000,
};

/* A table while it has its turn. */
struct turn {
	struct bench_tables_world *world;
	const struct conntrack_table_ops *ops;
	struct conntrack_table_config config;
	void *table;
	struct base_rng rng;
	uint64_t interrupted;
	/* The processor's counters are read before and behind each burst, which is not timed. */
	bool counting;
};

/* Sum of measured bursts. */
struct meter {
	uint64_t cycles;
	uint64_t operations;
	struct counters_sum counted;
};

/* A burst of keys, in the cache. */
struct burst {
	unsigned int count;
	uint64_t mixed[BASE_BURST_MAX];
	const struct base_flow_key *pointers[BASE_BURST_MAX];
	uint32_t conns[BASE_BURST_MAX]; /* found, or to be inserted or removed */
	uint32_t expected[BASE_BURST_MAX];
	struct base_flow_key keys[BASE_BURST_MAX];
};

/* ---- keys and entries ----------------------------------------------------------------------- */

/* Key `number`: no other number gives the same. */
static void make_key(struct base_flow_key *key, uint64_t seed, uint64_t number)
{
	uint64_t state = seed ^ number;
	uint64_t random = base_rng_splitmix64(&state);
	uint32_t low = (uint32_t)number, high = (uint32_t)random;
	memset(key, 0, sizeof(*key));
	memcpy(key->address[0], &low, sizeof(low));
	memcpy(key->address[1], &high, sizeof(high));
	key->port[0] = (uint16_t)(random >> 32);
	key->port[1] = (uint16_t)(number >> 32);
	key->protocol = BASE_PROTOCOL_TCP;
	key->family = 4;
}

static uint32_t hash_of(const struct bench_tables_world *world, const struct base_flow_key *key)
{
	const struct base_hash_config hash = { BASE_HASH_CRC32C, { world->salt, 0 } };
	return base_flow_key_hash(key, &hash);
}

static void set_key(struct bench_tables_world *world, uint32_t conn, uint64_t number)
{
	struct bench_tables_entry *entry = &world->entries[conn];
	make_key(&entry->key, world->salt, number);
	world->hashes[conn] = hash_of(world, &entry->key);
}

void bench_tables_world_destroy(struct bench_tables_world *world)
{
	base_arena_destroy(world->arena);
	world->arena = NULL;
}

int bench_tables_world_create(struct bench_tables_world *world,
	const struct bench_tables_options *options, uint64_t places, bool huge)
{
	uint64_t state = options->seed;
	world->options = options;
	world->places = places;
	world->conns = (uint32_t)places + BENCH_TABLES_SPARE;
	world->salt = base_rng_splitmix64(&state);
	world->huge = huge;
	if (base_arena_create(&world->arena, huge) != 0)
		return -ENOMEM;
	world->entries = base_arena_alloc(
		world->arena, world->conns * sizeof(*world->entries), BASE_CACHE_LINE);
	world->hashes = base_arena_alloc(
		world->arena, world->conns * sizeof(*world->hashes), BASE_CACHE_LINE);
	world->live = base_arena_alloc(
		world->arena, world->conns * sizeof(*world->live), BASE_CACHE_LINE);
	if (world->entries != NULL && world->hashes != NULL && world->live != NULL)
		return 0;
	bench_tables_world_destroy(world);
	return -ENOMEM;
}

static uint64_t mixed_of(const struct bench_tables_world *world, uint32_t conn)
{
	return conntrack_lab_mix(world->salt, world->hashes[conn]);
}

static bool stopped(const struct turn *turn)
{
	return turn->world->stop != NULL &&
	       atomic_load_explicit(turn->world->stop, memory_order_relaxed);
}

static int wrong(const struct turn *turn, const char *what)
{
	snprintf(turn->world->message, BENCH_TABLES_MESSAGE_SIZE,
		"table %s with %u entries at load %.2f: %s (a bug)", turn->ops->name,
		turn->config.entries_max, turn->config.load, what);
	return -EBADMSG;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static inline uint64_t meter_start(const struct turn *turn)
{
	if (turn->counting)
		counters_begin(turn->world->counters);
	return base_cycles();
}

static void meter_add(
	struct turn *turn, struct meter *meter, uint64_t start, unsigned int operations)
{
	uint64_t cycles = base_cycles() - start;
	if (turn->counting) {
		counters_end(turn->world->counters, &meter->counted, operations);
		return;
	}
	if (cycles > (uint64_t)operations * PREEMPTED) {
		turn->interrupted++;
		return;
	}
	meter->cycles += cycles;
	meter->operations += operations;
}

static void note(struct bench_tables_cost *cost, const struct meter *meter)
{
	counters_add(&cost->counted, &meter->counted);
	if (meter->operations == 0 || cost->count == BENCH_TABLES_REPEATS_MAX)
		return;
	cost->each[cost->count++] = (double)meter->cycles / (double)meter->operations;
}

static int begin(struct turn *turn, struct bench_tables_world *world,
	const struct conntrack_table_ops *ops, uint32_t entries_max, double load)
{
	*turn = (struct turn){ .world = world, .ops = ops };
	turn->config = (struct conntrack_table_config){
		.entries_max = entries_max,
		.conns_max = world->conns,
		.load = load,
		.salt = world->salt,
		.keys = (const uint8_t *)world->entries,
		.key_stride = sizeof(*world->entries),
		.hashes = world->hashes,
	};
	base_rng_seed(&turn->rng, world->options->seed + ++world->stream);
	for (uint32_t i = 0; i < world->conns; i++)
		set_key(world, i, i);
	world->next_key = world->conns;
	world->live_count = 0;
	if (base_arena_create(&turn->config.arena, world->huge) != 0)
		return -ENOMEM;
	int error = ops->create(&turn->table, &turn->config);
	if (error != 0)
		base_arena_destroy(turn->config.arena);
	return error;
}

static void end(struct turn *turn)
{
	turn->ops->destroy(turn->table);
	base_arena_destroy(turn->config.arena);
}

/* The burst's connections into the table; accepted ones become live. How many were refused. */
static unsigned int insert_burst(struct turn *turn, struct burst *burst, struct meter *meter)
{
	struct bench_tables_world *world = turn->world;
	int errors[BASE_BURST_MAX];
	unsigned int refused = 0;
	uint64_t start = meter_start(turn);
	for (unsigned int i = 0; i < burst->count; i++)
		errors[i] = turn->ops->insert(turn->table, burst->mixed[i], burst->conns[i]);
	if (meter != NULL)
		meter_add(turn, meter, start, burst->count);
	for (unsigned int i = 0; i < burst->count; i++) {
		if (errors[i] == 0)
			world->live[world->live_count++] = burst->conns[i];
		refused += errors[i] != 0;
	}
	return refused;
}

/* Connections first, first + 1, ... until the table has been offered `count`; how many it did not
 * take. first_refused: pairs in it at the first of those. */
static uint64_t fill(struct turn *turn, uint32_t first, uint32_t count,
	struct bench_tables_cost *cost, uint64_t *first_refused)
{
	struct burst burst = { .count = 0 };
	struct meter meter = { 0 };
	uint64_t refused = 0;
	for (uint32_t at = 0; at < count && !stopped(turn); at += burst.count) {
		burst.count = turn->world->options->burst;
		if (burst.count > count - at)
			burst.count = count - at;
		for (unsigned int i = 0; i < burst.count; i++) {
			burst.conns[i] = first + at + i;
			burst.mixed[i] = mixed_of(turn->world, burst.conns[i]);
		}
		uint64_t before = turn->world->live_count;
		unsigned int now = insert_burst(turn, &burst, cost != NULL ? &meter : NULL);
		if (now != 0 && refused == 0 && first_refused != NULL)
			*first_refused = before + burst.count - now;
		refused += now;
	}
	if (cost != NULL)
		note(cost, &meter);
	return refused;
}

/* ---- lookups -------------------------------------------------------------------------------- */

/* Rank by Zipf's law with exponent 1, from the inverse of the harmonic sum's integral; neighbours
 * in rank stand apart in memory. */
static uint32_t zipf_place(struct base_rng *rng, uint32_t count)
{
	double rank = pow((double)count + 1, base_rng_unit(rng)) - 1;
	return (uint32_t)((uint64_t)rank * UINT64_C(2654435761) % count);
}

static void choose(struct turn *turn, struct burst *burst, double hit_ratio)
{
	struct bench_tables_world *world = turn->world;
	bool zipf = world->options->order == BENCH_TABLES_ZIPF;
	for (unsigned int i = 0; i < burst->count; i++) {
		uint64_t number = world->next_key + base_rng_below(&turn->rng, UINT32_MAX / 2);
		burst->expected[i] = BASE_CONN_NONE;
		if (base_rng_unit(&turn->rng) < hit_ratio && world->live_count != 0) {
			uint32_t place =
				zipf ? zipf_place(&turn->rng, world->live_count)
				     : (uint32_t)base_rng_below(&turn->rng, world->live_count);
			/* Before any churn a connection's key has its number: the entry itself must
			 * not be touched here. */
			number = burst->expected[i] = world->live[place];
		}
		make_key(&burst->keys[i], world->salt, number);
		burst->mixed[i] = conntrack_lab_mix(world->salt, hash_of(world, &burst->keys[i]));
		burst->pointers[i] = &burst->keys[i];
	}
}

/* Look the burst up and use the entries that are found. */
static void look_up(struct turn *turn, struct burst *burst)
{
	struct bench_tables_entry *entries = turn->world->entries;
	turn->ops->find_burst(
		turn->table, burst->mixed, burst->pointers, burst->count, burst->conns);
	struct bench_tables_entry *found[BASE_BURST_MAX];
	unsigned int count = 0;
	for (unsigned int i = 0; i < burst->count; i++) {
		if (burst->conns[i] == BASE_CONN_NONE)
			continue;
		found[count] = &entries[burst->conns[i]];
		BASE_PREFETCH_FAR(found[count]);
		count++;
	}
	for (unsigned int i = 0; i < count; i++) {
		found[i]->last_seen_ns += 100;
		found[i]->packets++;
	}
}

static int lookups(struct turn *turn, double hit_ratio, uint32_t count, struct meter *meter)
{
	struct burst burst = { .count = turn->world->options->burst };
	for (uint32_t done = 0; done < count; done += burst.count) {
		choose(turn, &burst, hit_ratio);
		uint64_t start = meter_start(turn);
		look_up(turn, &burst);
		if (meter != NULL)
			meter_add(turn, meter, start, burst.count);
		if (memcmp(burst.conns, burst.expected, burst.count * sizeof(burst.conns[0])) != 0)
			return wrong(turn, "a lookup's answer is not the right one");
		if (stopped(turn))
			return -EINTR;
	}
	return 0;
}

/* ---- churn ---------------------------------------------------------------------------------- */

/* Random live connections, out of the list; their entries are in the cache, where whoever removes a
 * connection has just looked. */
static void choose_leaving(struct turn *turn, struct burst *burst)
{
	struct bench_tables_world *world = turn->world;
	if (burst->count > world->live_count)
		burst->count = world->live_count;
	for (unsigned int i = 0; i < burst->count; i++) {
		uint32_t place = (uint32_t)base_rng_below(&turn->rng, world->live_count);
		uint32_t conn = world->live[place];
		world->live[place] = world->live[--world->live_count];
		burst->conns[i] = conn;
		burst->mixed[i] = mixed_of(world, conn);
		world->entries[conn].packets = 0;
	}
}

/* The same indices, with keys that were never there. */
static void choose_coming(struct turn *turn, struct burst *burst)
{
	for (unsigned int i = 0; i < burst->count; i++) {
		set_key(turn->world, burst->conns[i], turn->world->next_key++);
		burst->keys[i] = turn->world->entries[burst->conns[i]].key;
		burst->pointers[i] = &burst->keys[i];
		burst->mixed[i] = mixed_of(turn->world, burst->conns[i]);
	}
}

/* A lookup that misses and the insertions behind it, as one. */
static int open_burst(
	struct turn *turn, struct burst *burst, struct meter *meter, uint64_t *refused)
{
	uint32_t found[BASE_BURST_MAX];
	struct meter inserting = { 0 };
	uint64_t start = meter_start(turn);
	turn->ops->find_burst(turn->table, burst->mixed, burst->pointers, burst->count, found);
	uint64_t looking = base_cycles() - start;
	if (turn->counting) /* the operations are those of the insertions */
		counters_end(turn->world->counters, &meter->counted, 0);
	for (unsigned int i = 0; i < burst->count; i++) {
		if (found[i] != BASE_CONN_NONE)
			return wrong(turn, "a key that was never there is found");
	}
	*refused += insert_burst(turn, burst, &inserting);
	counters_add(&meter->counted, &inserting.counted);
	if (looking > (uint64_t)burst->count * PREEMPTED) {
		turn->interrupted++;
	} else if (inserting.operations != 0) {
		meter->cycles += looking + inserting.cycles;
		meter->operations += inserting.operations;
	}
	return 0;
}

static int churn(struct turn *turn, struct bench_tables_cell *cell)
{
	struct meter removing = { 0 }, inserting = { 0 }, opening = { 0 };
	struct burst burst = { .count = turn->world->options->burst };
	uint32_t count =
		turn->world->live_count / 2 < CHURN_MAX ? turn->world->live_count / 2 : CHURN_MAX;
	int error = 0;
	for (uint32_t done = 0; done < count && error == 0; done += burst.count) {
		choose_leaving(turn, &burst);
		if (burst.count == 0)
			break;
		uint64_t start = meter_start(turn);
		for (unsigned int i = 0; i < burst.count && turn->ops->prefetch != NULL; i++)
			turn->ops->prefetch(turn->table, burst.mixed[i]);
		for (unsigned int i = 0; i < burst.count; i++)
			turn->ops->remove(turn->table, burst.mixed[i], burst.conns[i]);
		meter_add(turn, &removing, start, burst.count);
		choose_coming(turn, &burst);
		if (done / burst.count % 2 == 0)
			cell->refused += insert_burst(turn, &burst, &inserting);
		else
			error = open_burst(turn, &burst, &opening, &cell->refused);
		if (error == 0 && stopped(turn))
			error = -EINTR;
	}
	note(&cell->remove, &removing);
	note(&cell->insert, &inserting);
	note(&cell->open, &opening);
	return error;
}

/* ---- what the processor counts --------------------------------------------------------------- */

/* In passes of their own, behind the timed ones: reading counters takes a system call. */
static bool can_count(const struct turn *turn)
{
	return turn->world->counters != NULL && counters_work(turn->world->counters);
}

static int count_lookups(struct turn *turn, double hit_ratio, struct bench_tables_cost *cost)
{
	struct meter meter = { 0 };
	if (!can_count(turn))
		return 0;
	turn->counting = true;
	int error = lookups(turn, hit_ratio, LOOKUPS_WARM, &meter);
	turn->counting = false;
	counters_add(&cost->counted, &meter.counted);
	return error;
}

static int count_churn(struct turn *turn, struct bench_tables_cell *cell)
{
	uint64_t refused = cell->refused;
	if (!can_count(turn))
		return 0;
	turn->counting = true;
	int error = churn(turn, cell);
	turn->counting = false;
	cell->refused = refused; /* of the timed ones */
	return error;
}

/* ---- turns ---------------------------------------------------------------------------------- */

int bench_tables_turn(struct bench_tables_world *world, const struct conntrack_table_ops *ops,
	double load, struct bench_tables_cell *cell)
{
	const struct bench_tables_options *options = world->options;
	struct turn turn;
	uint32_t entries_max = (uint32_t)((double)world->places * load);
	int error = begin(&turn, world, ops, entries_max < 1 ? 1 : entries_max, load);
	if (error != 0)
		return error;
	cell->refused += fill(&turn, 0, turn.config.entries_max, &cell->fill, NULL);
	cell->pairs = world->live_count;
	cell->bytes = ops->bytes(turn.table);
	for (uint32_t i = 0; i < options->hit_ratios_count && error == 0; i++) {
		struct meter meter = { 0 };
		error = lookups(&turn, options->hit_ratios[i], LOOKUPS_WARM, NULL);
		if (error == 0)
			error = lookups(&turn, options->hit_ratios[i], LOOKUPS, &meter);
		note(&cell->lookup[i], &meter);
		if (error == 0)
			error = count_lookups(&turn, options->hit_ratios[i], &cell->lookup[i]);
	}
	if (error == 0)
		error = churn(&turn, cell);
	if (error == 0)
		error = count_churn(&turn, cell);
	cell->interrupted += turn.interrupted;
	end(&turn);
	return error;
}

/* Cycles that reading the counter twice takes: the least of many. */
static uint64_t counter_cycles(void)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 1000; i++) {
		uint64_t start = base_cycles(), cycles = base_cycles() - start;
		least = cycles < least ? cycles : least;
	}
	return least;
}

/* One key that is not there, each timed by itself: whether it is refused, and why, is only known
 * behind it. */
static void attempt(struct turn *turn, uint32_t conn, uint64_t overhead,
	struct bench_tables_full *full, struct meter *no_place, struct meter *at_bound)
{
	struct bench_tables_world *world = turn->world;
	uint64_t mixed = mixed_of(world, conn);
	bool bound = world->live_count == turn->config.entries_max;
	uint64_t start = base_cycles();
	int error = turn->ops->insert(turn->table, mixed, conn);
	uint64_t cycles = base_cycles() - start;
	full->attempts++;
	if (error == 0) {
		world->live[world->live_count++] = conn;
		return;
	}
	full->refused++;
	if (cycles > 10 * PREEMPTED) {
		turn->interrupted++;
		return;
	}
	struct meter *meter = bound ? at_bound : no_place;
	meter->cycles += cycles > overhead ? cycles - overhead : 0;
	meter->operations++;
}

int bench_tables_turn_full(struct bench_tables_world *world, const struct conntrack_table_ops *ops,
	struct bench_tables_full *full)
{
	struct turn turn;
	struct meter no_place = { 0 }, at_bound = { 0 };
	uint64_t overhead = counter_cycles();
	int error = begin(&turn, world, ops, (uint32_t)world->places, 1.0);
	if (error != 0)
		return error;
	uint64_t first_refused = world->places;
	fill(&turn, 0, (uint32_t)world->places, NULL, &first_refused);
	full->pairs = world->live_count;
	full->first_refused = first_refused;
	for (uint32_t i = 0; i < BENCH_TABLES_SPARE && !stopped(&turn); i++)
		attempt(&turn, (uint32_t)world->places + i, overhead, full, &no_place, &at_bound);
	note(&full->no_place, &no_place);
	note(&full->at_bound, &at_bound);
	end(&turn);
	return stopped(&turn) ? -EINTR : 0;
}
