/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sheaf bench sharing: how several workers keep connections at once. The same packets, parsed once,
 * go through every sharing model (conntrack/shared.h) with every number of workers; models take
 * turns, round by round. What is tracked is what conntrack/shared.h says, which is less than a
 * tracker does: the models are compared, not the tracker.
 *
 * Packets are steered by hash, as a device would (both directions of a connection to one
 * worker), or with `spread` burst by burst to workers in turn, whoever they belong to; models
 * with a single writer have no answer to that. Every worker goes through its packets as fast as
 * it can.
 *
 * A worker's packets lie side by side in memory, as in a receive queue of its own.
 *
 * Timed: from the moment that all workers are there. Cycles are CPU time of the workers'
 * threads, so that what else runs on the machine does not count, nor does sleeping on a lock;
 * packets per second are by the clock on the wall, from the first worker's start to the last
 * one's end.
 *
 * Dump (models that other threads may read): the packets go through once, so that connections are
 * there, and once more, timed, later by their whole duration; with another thread that dumps the
 * whole table meanwhile, evenly over four fifths of the time or over dump_ns, and without it. The
 * dump costs what the packets cost more with it.
 *
 * Hand-over (models whose buckets move): `moves` times in a pass, evenly, the steering table
 * gives the next bucket to the next worker, whose packets may come before the bucket does.
 *
 * The judge (an untimed pass of its own for each row) compares every connection with those of one
 * thread (conntrack/shared_judge.h); each timed pass has its books checked.
 */
#pragma once

#include "conntrack/shared_judge.h"
#include "pipeline/counters.h"

#include <stdatomic.h>

enum {
	BENCH_SHARING_MODELS_MAX = 16,
	BENCH_SHARING_COUNTS_MAX = 8,
	BENCH_SHARING_ROWS_MAX = BENCH_SHARING_MODELS_MAX * BENCH_SHARING_COUNTS_MAX,
	BENCH_SHARING_ROUNDS_MAX = 100,
	BENCH_SHARING_MESSAGE_SIZE = 1024,
};

struct bench_sharing_options {
	uint32_t models;                            /* bit per conntrack_sharing_at; 0: all */
	uint32_t workers[BENCH_SHARING_COUNTS_MAX]; /* rising */
	uint32_t workers_count;
	const char *trace;       /* NULL: made, as sheaf bench lb makes it */
	uint64_t flows, packets; /* of made traffic */
	uint64_t duration_ns;    /* the same */
	uint64_t timeout_ns;     /* of every kind; 0: never */
	uint32_t conns;          /* entries; 0: a quarter more than there are flows; with
				    spread that for each worker */
	uint64_t dump_ns;        /* how long a dump takes; 0: four fifths of a pass */
	bool spread, no_judge, no_dump;
	uint32_t moves; /* hand-overs in a pass with several workers, by models that have them */
	uint32_t burst, rounds;
	uint64_t seed;
	const struct counters_kernel *counters; /* of hardware events; NULL: none */
};

struct bench_sharing_dump {
	bool measured;
	bool whole;              /* the dump was over before the packets were, in every round */
	uint64_t places, views;  /* of the last round */
	double seconds;          /* the dump took, of the last round */
	double cycles;           /* per packet while it ran, lowest of the rounds */
	double cycles_without;   /* the same without a dump */
	double cycles_per_place; /* that it cost the workers */
};

struct bench_sharing_row {
	const struct conntrack_sharing_ops *sharing;
	uint32_t workers;
	bool works;           /* false: not with packets that are spread */
	double packets_per_s; /* highest of the rounds */
	double cycles;        /* per packet, lowest of the rounds */
	double cycles_max;    /* highest */
	double scaling;       /* packets_per_s over those of the least number of workers */
	double fairness;      /* slowest worker's rate over the fastest one's, in the best round */
	struct conntrack_shared_stats stats;     /* of the last round */
	uint64_t judged_refused;                 /* insertions in the judged pass */
	struct conntrack_shared_verdict verdict; /* flows 0: not judged */
	struct bench_sharing_dump dump;
	double bytes_per_entry;
	struct counters_sum counted; /* hardware events of the workers, over all rounds */
};

struct bench_sharing_result {
	uint32_t rows_count;
	struct bench_sharing_row rows[BENCH_SHARING_ROWS_MAX];
	uint64_t packets, flow_packets, left_out, duration_ns;
	uint64_t flows;
	uint32_t conns, cpus;
	double tsc_hz;
	struct counters_sum counted;              /* of all: for why something was not */
	char message[BENCH_SHARING_MESSAGE_SIZE]; /* refusal; or where a capture is damaged */
};

void bench_sharing_options_defaults(struct bench_sharing_options *options);

/* result is large: from malloc. 0; -EINVAL, -ENOENT, ... with message; -EUCLEAN: the books of a
 * pass do not balance, with message; -ENOMEM; -EINTR when stop was set (may be NULL). */
int bench_sharing_run(const struct bench_sharing_options *options,
	struct bench_sharing_result *result, const atomic_bool *stop);
