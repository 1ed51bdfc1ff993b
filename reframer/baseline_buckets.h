/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Baseline without a timer or a flow table: a fixed number of queues chosen by flow hash, visited
 * in turn, at most a few packets per visit (after the hardware queues of "Triton", SIGCOMM 2024).
 *
 * Packets are grouped only while they queue: whoever pops everything at once gets little, whoever
 * lets a backlog stand gets more and delays packets by it, without a bound per packet. Flows that
 * share a queue interleave. Order within a flow is kept. Packets without a flow share a queue of
 * their own.
 *
 * Threads: one owner. Memory: 24 bytes per queue; packets are linked through `next`. Cost: constant
 * per packet. Packets pushed belong to the queues until popped.
 */
#pragma once

#include "base/arena.h"
#include "base/burst.h"

struct reframer_buckets_config {
	uint32_t queues_count;      /* power of two, default 1024 */
	uint32_t visit_packets_max; /* default 16 */
	uint64_t salt;
	struct base_arena *arena;
};

struct reframer_buckets;

void reframer_buckets_config_defaults(struct reframer_buckets_config *config);

/* -EINVAL, -ENOMEM. */
int reframer_buckets_create(
	struct reframer_buckets **out, const struct reframer_buckets_config *config);
/* Must hold no packets. NULL is fine. */
void reframer_buckets_destroy(struct reframer_buckets *buckets);

void reframer_buckets_push_burst(
	struct reframer_buckets *buckets, struct base_packet *const *packets, unsigned int count);

/* Visit queues until burst has packets_max (<= BASE_BURST_MAX) packets or nothing is left. Sets
 * release_ns to now_ns and marks the runs. Returns the number of packets. */
unsigned int reframer_buckets_pop_burst(struct reframer_buckets *buckets, struct base_burst *burst,
	unsigned int packets_max, uint64_t now_ns);

/* Packets inside. */
uint64_t reframer_buckets_count(const struct reframer_buckets *buckets);
