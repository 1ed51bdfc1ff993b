/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: what one network function looks like to the chain, one ops table per kind,
 * listed in a const array in chain.c (no registration at run time).
 *
 * The chain counts in, out and drops around process(); a function only marks packets with
 * base_burst_drop. Per-connection memory: `user` is the tracker's whole block for a connection and
 * the function's own part starts at user_offset (chain_function_part).
 */
#pragma once

#include "chain/chain.h"

struct chain_function_context {
	const struct conntrack *tracker; /* set by chain_attach */
	uint32_t user_offset;            /* of this function's part, multiple of 8 */
	struct base_hash_config hash;
	struct base_arena *arena;
	uint16_t instance;
	uint16_t index; /* position in the chain */
	bool scalar, no_runs, no_prefetch;
	const void *lender; /* the same function of another chain, whose tables are used; or NULL */
};

struct chain_function_ops {
	const char *name;
	uint32_t user_bytes; /* per connection, multiple of 8; 0 for stateless functions */

	/* context outlives the function; message has CHAIN_MESSAGE_SIZE bytes. */
	int (*create)(void **out, const struct chain_function_context *context,
		const struct chain_function_config *config, char *message);
	void (*destroy)(void *function);

	/* Burst implementation and plain scalar reference: same results. Packets already marked as
	 * dropped never arrive (the burst is compacted between functions). */
	void (*process)(void *function, struct base_burst *burst, uint64_t now_ns);
	void (*process_scalar)(void *function, struct base_burst *burst, uint64_t now_ns);

	/* The connection goes away: give back what it holds. NULL when nothing is held. */
	void (*on_remove)(void *function, uint32_t conn, void *user);
	/* Whether it needs a connection for a packet without one; NULL: always. */
	bool (*admit)(void *function, const struct base_packet *packet);
	/* Before tracking; NULL for all but nat. True when the packet was rewritten, with its key,
	 * hash and BASE_PACKET_REVERSED made anew; the chain then finds the runs again. May set
	 * drop_reason (and only that): the chain books it as this function's drop. */
	bool (*translate)(void *function, struct base_packet *packet);
	/* chain_use_share; NULL for all but nat. */
	void (*use_share)(void *function, uint32_t share);
	/* chain_target_find and chain_steer; NULL for all but lb. */
	int (*target)(const void *function, const char *name, struct chain_target *target);
	bool (*steer)(void *function, uint32_t conn, const struct chain_target *target);
	/* Append counters (stats->counters, counters_count). NULL when there are none. */
	void (*counters)(const void *function, struct chain_function_stats *stats);
	/* Hash of this function's result for one connection, 0 when none; direction-independent of
	 * worker numbering. NULL when the function keeps no per-connection result. */
	uint64_t (*digest)(
		const void *function, const struct conntrack_conn *conn, const void *user);
};

/* This function's part of a tracker's block. */
static inline void *chain_function_part(const struct chain_function_context *context, void *user)
{
	return (uint8_t *)user + context->user_offset;
}

static inline const void *chain_function_part_const(
	const struct chain_function_context *context, const void *user)
{
	return (const uint8_t *)user + context->user_offset;
}

/* This function's part of a live connection's block. */
static inline void *chain_function_user(const struct chain_function_context *context, uint32_t conn)
{
	return chain_function_part(context, conntrack_user(context->tracker, conn));
}

/* The tracker has asked for the first line of a connection's block only: ask for this function's
 * part of the connection of a packet some places ahead, where that lies further on. */
static inline void chain_function_prefetch(const struct chain_function_context *context,
	uint32_t user_bytes, const struct base_burst *burst, unsigned int index)
{
	const unsigned int ahead = 8;
	if (context->user_offset + user_bytes <= BASE_CACHE_LINE || context->no_prefetch ||
		index + ahead >= burst->count)
		return;
	uint32_t conn = burst->packets[index + ahead]->conn;
	if (conn != BASE_CONN_NONE)
		BASE_PREFETCH_W(chain_function_user(context, conn));
}

/* Append to the counters of a function; for ops->counters. */
static inline void chain_function_counters_add(struct chain_function_stats *stats,
	const struct chain_counter *counters, uint32_t counters_count)
{
	BASE_ASSERT(stats->counters_count + counters_count <= CHAIN_COUNTERS_MAX);
	for (uint32_t i = 0; i < counters_count; i++)
		stats->counters[stats->counters_count++] = counters[i];
}

extern const struct chain_function_ops chain_stats_ops;
extern const struct chain_function_ops chain_router_ops;
extern const struct chain_function_ops chain_firewall_ops;
extern const struct chain_function_ops chain_nat_ops;
extern const struct chain_function_ops chain_lb_ops;
