/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sheaf bench tables: what lookups, insertions and removals cost in every table of connections,
 * with the same keys, hashes, entries and bursts.
 *
 * A table has a number of places, a power of two because some tables can have no other, and is
 * filled to a load. One turn of a table, in memory of its own:
 *
 *	fill      every pair, in order
 *	lookup    bursts in which each key is there with the probability of a hit ratio; the entry
 *	          of each hit is read and written, as a tracker does
 *	churn     bursts of removals, each followed by as many insertions of new keys: alone, and
 *	          behind a lookup that misses, which is how a connection begins
 *
 * and for each number of places one with nothing left free, where insertions are refused:
 *
 *	full      a table that must take as many pairs as it has places, given more keys than that
 *
 * Rounds: in each, every table has its turn, and the next round begins with another one. Keys and
 * hashes are made outside what is measured and are in the cache, as a parser leaves them. Every
 * answer is compared with the right one. Bursts that took longer than any can (another process had
 * the CPU) are left out and counted.
 *
 * Hardware counters (options.counters) are read in passes of their own behind the timed ones,
 * around each burst; fill and full are not counted.
 *
 * Threads: the caller's. Memory: bench_tables_bytes, refused when the machine has less.
 */
#pragma once

#include "conntrack/lab.h"
#include "pipeline/counters.h"

#include <stdatomic.h>

enum {
	BENCH_TABLES_MAX = 32,
	BENCH_TABLES_VALUES_MAX = 16, /* of a list: sizes, loads, hit ratios */
	BENCH_TABLES_REPEATS_MAX = 100,
	BENCH_TABLES_MESSAGE_SIZE = 512,
};

enum bench_tables_order { BENCH_TABLES_UNIFORM, BENCH_TABLES_ZIPF };

struct bench_tables_options {
	const struct conntrack_table_ops *tables[BENCH_TABLES_MAX];
	uint32_t tables_count; /* 0: all */
	uint64_t entries[BENCH_TABLES_VALUES_MAX];
	uint32_t entries_count;
	double loads[BENCH_TABLES_VALUES_MAX]; /* above 0, at most 1 */
	uint32_t loads_count;
	double hit_ratios[BENCH_TABLES_VALUES_MAX];
	uint32_t hit_ratios_count;
	enum bench_tables_order order; /* of hits; zipf: exponent 1 */
	uint32_t burst, repeats;
	uint64_t seed;
	bool no_huge;
	const struct counters_kernel *counters; /* of hardware events; NULL: none */
};

/* Cycles per operation, one value for each repeat in order. */
struct bench_tables_cost {
	uint32_t count; /* 0: not measured */
	double each[BENCH_TABLES_REPEATS_MAX];
	struct counters_sum counted; /* hardware events, over all repeats */
};

/* One table at one size and load. */
struct bench_tables_cell {
	uint64_t pairs;   /* in it while lookups were made */
	uint64_t refused; /* of the insertions that were to fill it, and of the churn */
	uint64_t bytes;
	uint64_t interrupted; /* bursts left out, over all repeats */
	struct bench_tables_cost lookup[BENCH_TABLES_VALUES_MAX]; /* by hit ratio */
	struct bench_tables_cost fill, insert, open, remove;
};

/* One table at one size, with nothing left free. */
struct bench_tables_full {
	uint64_t pairs;         /* in it when it was measured */
	uint64_t first_refused; /* pairs in it when it refused for the first time */
	uint64_t attempts, refused;
	/* Of a refused insertion: because no place was found, and because entries_max were in. */
	struct bench_tables_cost no_place, at_bound;
};

struct bench_tables_result {
	struct bench_tables_options options;   /* as run: all tables named, sizes powers of two */
	struct bench_tables_cell *cells;       /* by size, then load, then table */
	struct bench_tables_full *full;        /* by size, then table */
	const char *missing[BENCH_TABLES_MAX]; /* by table: why it was not measured, or NULL */
	const char *memory;                    /* which pages */
	struct counters_sum counted;           /* everywhere: for why something was not */
	double tsc_hz;
	char message[BENCH_TABLES_MESSAGE_SIZE];
};

void bench_tables_options_defaults(struct bench_tables_options *options);

/* Memory that a run takes, DPDK's heap included. */
uint64_t bench_tables_bytes(const struct bench_tables_options *options);

/* 0; -ENOMEM, -EIO, -EINVAL with message; -EBADMSG: a table gave a wrong answer, message says
 * which; -EINTR when stop was set. bench_tables_release in every case. */
int bench_tables_run(const struct bench_tables_options *options, struct bench_tables_result *result,
	const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *progress_context);
void bench_tables_release(struct bench_tables_result *result);

static inline struct bench_tables_cell *bench_tables_cell_at(
	const struct bench_tables_result *result, uint32_t size, uint32_t load, uint32_t table)
{
	const struct bench_tables_options *options = &result->options;
	return &result->cells[(size * options->loads_count + load) * options->tables_count + table];
}

static inline struct bench_tables_full *bench_tables_full_at(
	const struct bench_tables_result *result, uint32_t size, uint32_t table)
{
	return &result->full[size * result->options.tables_count + table];
}

struct bench_tables_summary {
	double median, low, high;
};

/* All 0 when it was not measured. */
struct bench_tables_summary bench_tables_summarise(const struct bench_tables_cost *cost);
