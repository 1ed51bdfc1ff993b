/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to bench_sharing*.c: one pass of all packets through one model. */
#pragma once

#include "pipeline/bench_packets.h"
#include "pipeline/bench_sharing.h"

/* A bucket that its worker hands over before position `at` of its list. */
struct bench_sharing_move {
	uint32_t bucket, from, to;
	uint64_t at;
};

/* Which worker gets what. */
struct bench_sharing_route {
	const struct base_packet **packets; /* all, by worker */
	uint64_t first[CONNTRACK_SHARED_WORKERS_MAX + 1];
	struct bench_sharing_move *moves; /* in order */
	uint32_t moves_count;
};

struct bench_sharing {
	const struct bench_sharing_options *options;
	struct bench_sharing_result *result;
	const atomic_bool *stop;
	struct bench_packets packets;
	struct bench_sharing_route still, moving; /* the latter for models that move buckets */
	uint8_t *worker_of;                       /* by packet; scratch */
	/* What workers get: packets in the order of a route, each worker's side by side, as receive
	 * queues have them. A worker's records among another's would cost both: processors fetch
	 * neighbours too, and every record is written. */
	struct base_packet *laid, **list;
	const struct bench_sharing_route *laid_by; /* NULL: to be laid out */
	struct conntrack_shared_judge *judge;      /* NULL: none */
	uint64_t expected_connections;
};

/* What a pass found. */
struct bench_sharing_pass {
	struct conntrack_shared_stats stats;
	double packets_per_s, cycles, fairness;
	uint64_t wall_cycles;
	struct counters_sum counted; /* of all workers */
	struct bench_sharing_dump dump;
};

/* bench_sharing_route.c: -ENOMEM. Packets must be loaded. */
int bench_sharing_route_create(
	struct bench_sharing *bench, struct bench_sharing_route *route, uint32_t moves_max);
void bench_sharing_route_destroy(struct bench_sharing_route *route);
/* For so many workers, with so many moves, at most moves_max. */
void bench_sharing_route_plan(struct bench_sharing *bench, struct bench_sharing_route *route,
	uint32_t workers, uint32_t moves);

/* Before a pass: packets as the route has them. */
void bench_sharing_route_lay(struct bench_sharing *bench, const struct bench_sharing_route *route);

struct bench_sharing_how {
	bool judged; /* the judge collects */
	bool counts; /* hardware events, from where packets are timed to where they end */
	/* All packets have gone through once before, so that connections are there; they then come
	 * again, later by their whole duration. */
	bool warm;
	bool dumps; /* ... over dump_cycles */
	uint64_t dump_cycles;
};

/* Errors as bench_sharing_run. */
int bench_sharing_pass(struct bench_sharing *bench, const struct conntrack_sharing_ops *sharing,
	uint32_t workers, struct bench_sharing_how how, struct bench_sharing_pass *pass);
