/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sheaf bench deletion: deletion strategies over the same packets, with the same table, entries and
 * bursts. What is measured is what a tracker does with a burst, and its maintenance behind it;
 * parsing is done once before. Strategies take turns, pass by pass.
 *
 * The first part of the packets warms up (bench_deletion_options.warm) and is not counted. How much
 * a strategy keeps is told against the oracle's count of live connections at the same moments.
 *
 * The judge (a pass of its own, untimed) says whether the strategy's answers were right.
 *
 * Burst: `due` connections are opened at one instant among three times as many that live on, and
 * fall due together while traffic to the others goes on: what a call of maintenance takes then,
 * uninterrupted. A call does the same work in every repeat, so the least of the repeats is what it
 * takes when nothing else disturbs the machine.
 *
 * Throughput at zero loss is computed: packets come as the trace has them, only faster, into a
 * ring, and bursts take the least time that they took in any repeat.
 *
 * Hardware counters (options.counters) are read in a pass of their own, around each burst.
 *
 * Sweep: each knob of each strategy at a sixteenth, a quarter, four and sixteen times its default.
 */
#pragma once

#include "conntrack/judge.h"
#include "pipeline/counters.h"

#include <stdatomic.h>

enum {
	BENCH_DELETION_STRATEGIES_MAX = 32,
	BENCH_DELETION_REPEATS_MAX = 100,
	BENCH_DELETION_POINTS = 5, /* of a curve, the default among them */
	BENCH_DELETION_MESSAGE_SIZE = 512,
};

enum bench_deletion_knob {
	BENCH_DELETION_INTERVAL,
	BENCH_DELETION_BUDGET,
	BENCH_DELETION_SLOTS,
	BENCH_DELETION_KNOBS_COUNT
};

struct bench_deletion_options {
	uint32_t strategies; /* bit per index of conntrack_deletion_at; 0: all */
	const struct conntrack_table_ops *table; /* NULL: the default */
	const char *trace;                       /* NULL: generated */
	uint32_t preset;                         /* enum traces_preset, of generated packets */
	uint64_t packets;                        /* at most */
	uint64_t packets_per_s; /* generated; 0: such that they last six timeouts */
	uint64_t timeout_ns;    /* of every state; 0: Linux's */
	uint32_t conns;         /* entries; 0: such that live connections fill 80 % at most */
	uint32_t due;           /* of the burst; 0: no burst */
	struct conntrack_deletion_knobs knobs; /* 0: each strategy's default */
	bool no_close_hints, sweep, no_judge;
	double warm; /* share of the packets' time */
	uint32_t burst, repeats;
	uint32_t ring; /* packets that wait at most, for zero_loss_packets_per_s */
	uint64_t seed;
	const struct counters_kernel *counters; /* of hardware events; NULL: none */
};

/* Counted after warm-up; cycles are per packet, medians over repeats. */
struct bench_deletion_cost {
	double total, total_min, total_max;
	double packets, maintenance; /* shares of the total */
	double per_removal;    /* cycles of maintenance per connection that it removed; 0: none */
	double longest_cycles; /* a call of maintenance: least over repeats, most over calls */
	uint64_t longest_looked;
	uint64_t inserted, removed, refused, evicted_live, looked_at;
	uint64_t late_p50_ns, late_p99_ns, late_max_ns;
	double resident_per_live, resident_max_per_live;
	double bytes_per_entry;         /* the strategy's own */
	double zero_loss_packets_per_s; /* computed of bursts' times (pipeline/bench_queue.h) */
};

struct bench_deletion_burst {
	double insert_cycles; /* per connection, into a table with room */
	double expire_cycles; /* of maintenance per connection that it removed */
	double hit_cycles;    /* per packet of the others, while it lasts */
	double longest_cycles;
	uint64_t longest_looked;
	uint64_t calls;         /* until all were gone, or given up */
	uint64_t left;          /* not gone by then */
	double reinsert_cycles; /* per connection that is opened afterwards */
};

struct bench_deletion_point {
	uint64_t value; /* of the knob */
	struct bench_deletion_cost cost;
};

struct bench_deletion_curve {
	uint32_t points_count; /* 0: the strategy has no such knob */
	struct bench_deletion_point points[BENCH_DELETION_POINTS];
};

struct bench_deletion_row {
	const struct conntrack_deletion_ops *deletion;
	const struct conntrack_table_ops *table;
	bool works; /* false: not with this table */
	struct bench_deletion_cost cost;
	struct counters_sum counted; /* hardware events of a packet and its maintenance */
	struct bench_deletion_burst burst;
	struct conntrack_verdict verdict; /* packets 0: not judged */
	struct bench_deletion_curve curves[BENCH_DELETION_KNOBS_COUNT];
};

struct bench_deletion_result {
	uint32_t rows_count;
	struct bench_deletion_row rows[BENCH_DELETION_STRATEGIES_MAX];
	uint64_t packets, flow_packets, left_out, duration_ns;
	uint64_t counted_packets; /* after warm-up */
	uint32_t conns;
	uint64_t live_max; /* of the oracle */
	double live_mean;  /* after warm-up */
	double tsc_hz;
	struct counters_sum counted;               /* of all: for why something was not */
	char message[BENCH_DELETION_MESSAGE_SIZE]; /* refusal; or where a capture is damaged */
};

void bench_deletion_options_defaults(struct bench_deletion_options *options);

/* Default of a strategy's knob; 0: it has none. */
uint64_t bench_deletion_knob_default(
	const struct conntrack_deletion_ops *deletion, enum bench_deletion_knob knob);
/* "interval", "budget", "slots". */
const char *bench_deletion_knob_name(enum bench_deletion_knob knob);

/* result is large: from malloc. 0; -EINVAL, -ENOENT, ... with message; -ENOMEM; -EINTR when stop
 * was set. progress may be NULL. */
int bench_deletion_run(const struct bench_deletion_options *options,
	struct bench_deletion_result *result, const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *context);
