/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to bench_tables*.c: the keys and entries of one size, and one table's turn with them. */
#pragma once

#include "pipeline/bench_tables.h"

/* As a tracker has them: a line for each connection, the key in front. */
struct bench_tables_entry {
	struct base_flow_key key;
	uint64_t last_seen_ns;
	uint32_t packets;
	uint32_t spare[3];
} BASE_ALIGNED(64);
static_assert(sizeof(struct bench_tables_entry) == 64, "one cache line per connection");

enum {
	/* Indices beyond the places: for keys that a full table is offered. */
	BENCH_TABLES_SPARE = 1 << 14,
};

struct bench_tables_world {
	const struct bench_tables_options *options;
	uint64_t places;
	uint32_t conns;
	uint64_t salt;
	struct base_arena *arena;
	struct bench_tables_entry *entries;
	uint32_t *hashes;
	uint32_t *live; /* indices that are in the table, [0, live_count) */
	uint32_t live_count;
	uint64_t next_key; /* number of the next key that was never there */
	uint64_t stream;   /* of random choices; counts turns */
	bool huge;
	struct counters *counters; /* NULL: none */
	const atomic_bool *stop;
	char *message;
};

/* -ENOMEM. */
int bench_tables_world_create(struct bench_tables_world *world,
	const struct bench_tables_options *options, uint64_t places, bool huge);
void bench_tables_world_destroy(struct bench_tables_world *world);

/* One repeat into cell or full. 0; -EINTR; -EBADMSG with the world's message; else what create
 * says: the table cannot be had. */
int bench_tables_turn(struct bench_tables_world *world, const struct conntrack_table_ops *ops,
	double load, struct bench_tables_cell *cell);
int bench_tables_turn_full(struct bench_tables_world *world, const struct conntrack_table_ops *ops,
	struct bench_tables_full *full);
