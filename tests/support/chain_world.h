/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One worker's path without a pipeline, for tests of chain functions: parser, tracker and chain,
 * in the order and with the compactions of the worker loop.
 *
 * chain_traffic makes packets for it: a mix of flows of both families, TCP, UDP, ICMP and others,
 * runs of several packets, replies, ICMP errors, frames that are not IP, and TTLs that end. Same
 * seed, same bytes.
 */
#pragma once

#include "base/rng.h"
#include "chain/chain.h"
#include "tests/support/packets.h"

struct chain_world {
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker;
	struct chain *chain;
	bool no_runs;
	char message[CHAIN_MESSAGE_SIZE]; /* why opening failed */
};

/* functions, scalar, no_runs, no_prefetch and instance come from config. 0 or chain_create's error;
 * everything else aborts. */
int chain_world_open(
	struct chain_world *world, const struct chain_config *config, uint32_t entries_max);
/* Take count packets in bursts; results stay in the packets: bytes, drop_reason, next_hop, conn. */
void chain_world_run(
	struct chain_world *world, struct base_packet *packets, uint32_t count, unsigned int burst);
/* Remove all connections, so that chain_flow_digest is whole. */
void chain_world_finish(struct chain_world *world);
void chain_world_close(struct chain_world *world);

/* Value of a function's counter; aborts when there is none of that name. */
uint64_t chain_world_counter(const struct chain_world *world, uint32_t index, const char *name);

struct chain_traffic_config {
	uint64_t seed;
	uint32_t packets_count;
	uint32_t flows_count;
	bool ttl_ends; /* some packets with TTL 0 and 1 */
	bool icmp_errors;
	bool close_reopen; /* TCP connections end and their ports are used again */
	uint32_t gap_ns;   /* between packets at most; default 1000 */
};

/* Fills and initialises the pool. */
void chain_traffic_make(struct packets_pool *pool, const struct chain_traffic_config *config);
