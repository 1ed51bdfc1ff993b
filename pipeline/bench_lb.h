/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sheaf bench lb: load-balancer policies over the same packets, while backends come, drain and go,
 * with and without a SYN flood.
 *
 * Traffic goes one way, from clients: of a capture only packets of the openers' side are kept;
 * without a capture it is made (bench_traffic.h). Parsing and copying are not measured: what is, is
 * what a policy needs for a packet: tracking where it keeps connections, its choice, the rewrite,
 * and timers.
 *
 *	maglev, round-robin, least-connections   every connection is tracked
 *	jet                                      those that a backend to come would take
 *	stateless                                none; no tracker runs
 *
 * The judge (an untimed pass of its own) follows every connection's backend exactly. A packet that
 * goes elsewhere than its connection's last one is a violation of per-connection consistency,
 * unless that backend had been removed.
 */
#pragma once

#include "chain/chain.h"
#include "pipeline/counters.h"

#include <stdatomic.h>

enum { BENCH_LB_REPEATS_MAX = 100, BENCH_LB_MESSAGE_SIZE = 1024 };

struct bench_lb_options {
	const char *trace;     /* NULL: made */
	unsigned int policies; /* bit per enum chain_lb_policy */
	uint32_t backends;     /* generated, per family */
	const char *schedule;  /* NULL: drain, remove, add at a quarter, half and three quarters */
	uint64_t flows, packets;
	uint64_t duration_ns; /* of made traffic */
	double flood;         /* SYNs of nobody per packet; 0: no second half */
	uint32_t conns;       /* the tracker's entries */
	uint32_t burst, repeats;
	uint64_t seed;
	const struct counters_kernel *counters; /* of hardware events; NULL: none */
};

/* What a policy did with one traffic. */
struct bench_lb_case {
	/* the judge's; flood packets are not among them */
	uint64_t packets, connections;
	uint64_t moved_packets;      /* violations: to another backend while the first was there */
	uint64_t broken_connections; /* with at least one of them */
	uint64_t orphaned_connections;            /* their backend was removed: not to be avoided */
	uint64_t dropped_packets, passed_packets; /* no backend; not balanced */
	uint64_t untracked_packets; /* of a connection that the tracker should have had */
	double imbalance;           /* most connections of a backend over the mean */
	/* the tracker's */
	uint64_t inserted, peak_live, insert_failures, not_admitted;
	uint64_t state_bytes; /* peak connections at its bytes per entry */
	/* cycles per packet, flood packets included, over the timed passes */
	double cycles, cycles_min, cycles_max;
	struct counters_sum counted; /* hardware events, in a pass of its own */
};

struct bench_lb_row {
	enum chain_lb_policy policy;
	struct bench_lb_case calm, flood; /* flood: only with options->flood > 0 */
};

struct bench_lb_result {
	uint32_t rows_count;
	struct bench_lb_row rows[CHAIN_LB_POLICIES_COUNT];
	uint64_t packets, flood_packets, left_out_packets; /* left out: replies, no flow */
	uint64_t duration_ns;
	uint32_t changes_count;
	struct chain_lb_change changes[CHAIN_LB_CHANGES_MAX];
	double tsc_hz;
	struct counters_sum counted;         /* of all: for why something was not */
	char message[BENCH_LB_MESSAGE_SIZE]; /* refusal; or where a capture is damaged */
};

void bench_lb_options_defaults(struct bench_lb_options *options);

/* 0; -EINVAL, -ENOENT, ... with message; -ENOMEM; -EINTR when stop was set. */
int bench_lb_run(const struct bench_lb_options *options, struct bench_lb_result *result,
	const atomic_bool *stop);
