/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to bench_sharing*.c: one pass of all packets through one model. */
#pragma once

#include "pipeline/bench_packets.h"
#include "pipeline/bench_sharing.h"

struct bench_sharing {
	const struct bench_sharing_options *options;
	struct bench_sharing_result *result;
	const atomic_bool *stop;
	struct bench_packets packets;
	struct base_packet **lists; /* of all packets, by worker */
	uint64_t list_at[CONNTRACK_SHARED_WORKERS_MAX + 1];
	struct conntrack_shared_judge *judge; /* NULL: none */
	uint64_t expected_connections;
};

/* What a pass found. */
struct bench_sharing_pass {
	struct conntrack_shared_stats stats;
	double packets_per_s, cycles, fairness;
	uint64_t wall_cycles;
	struct bench_sharing_dump dump;
};

/* Which worker gets what; for each number of workers before its passes. */
void bench_sharing_steer(struct bench_sharing *bench, uint32_t workers);

/* dump_cycles: UINT64_MAX for no dump. judged: with the judge collecting. Errors as
 * bench_sharing_run. */
int bench_sharing_pass(struct bench_sharing *bench, const struct conntrack_sharing_ops *sharing,
	uint32_t workers, bool judged, uint64_t dump_cycles, struct bench_sharing_pass *pass);
