/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Per-connection counters in the tracker's entry memory. The burst implementation sums a segment in
 * registers and writes the record once. Packets without a connection are counted in total only.
 * ICMP errors about a connection are counted apart: they are not its packets.
 */
#include "chain/digest.h"
#include "chain/function.h"
#include "chain/segment.h"

#include <errno.h>
#include <stdio.h>

/* Index 0: sent by the opener; 1: by the other side. */
struct stats_flow {
	uint64_t packets[2];
	uint64_t wire_bytes[2];
	uint64_t first_ns, last_ns;
	uint32_t related_packets;
	uint8_t tcp_flags[2]; /* every flag seen */
	uint8_t seen;
	uint8_t unused;
};
static_assert(sizeof(struct stats_flow) == 56, "fits a cache line with 8 bytes for a neighbour");

struct stats {
	const struct chain_function_context *context;
	uint64_t packets, wire_bytes;
	uint64_t connections;
	uint64_t related_packets, untracked_packets;
};

static int stats_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *config, char *message)
{
	(void)config;
	struct stats *stats = base_arena_alloc(context->arena, sizeof(*stats), BASE_CACHE_LINE);
	if (stats == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "stats: out of memory");
		return -ENOMEM;
	}
	stats->context = context;
	*out = stats;
	return 0;
}

static void stats_destroy(void *function)
{
	struct stats *stats = function;
	base_arena_free(stats->context->arena, stats, sizeof(*stats));
}

/* The first packet of the connection that comes by here. */
static inline void flow_open(struct stats *stats, struct stats_flow *flow, uint64_t time_ns)
{
	if (flow->seen)
		return;
	flow->seen = 1;
	flow->first_ns = time_ns;
	flow->last_ns = time_ns;
	stats->connections++;
}

static inline void flow_touch(struct stats_flow *flow, uint64_t first_ns, uint64_t last_ns)
{
	if (first_ns < flow->first_ns)
		flow->first_ns = first_ns;
	if (last_ns > flow->last_ns)
		flow->last_ns = last_ns;
}

static inline void flow_count(
	struct stats *stats, struct stats_flow *flow, const struct base_packet *packet)
{
	flow_open(stats, flow, packet->time_ns);
	flow_touch(flow, packet->time_ns, packet->time_ns);
	if (BASE_UNLIKELY(packet->conn_flags & BASE_CONN_RELATED)) {
		flow->related_packets++;
		stats->related_packets++;
		return;
	}
	unsigned int direction = (packet->conn_flags & BASE_CONN_REPLY) ? 1 : 0;
	flow->packets[direction]++;
	flow->wire_bytes[direction] += packet->wire_len;
	flow->tcp_flags[direction] |= packet->tcp_flags;
}

static void stats_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct stats *stats = function;
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		stats->packets++;
		stats->wire_bytes += packet->wire_len;
		if (packet->conn == BASE_CONN_NONE)
			stats->untracked_packets++;
		else
			flow_count(
				stats, chain_function_user(stats->context, packet->conn), packet);
	}
}

/* Returns the wire bytes. */
static inline uint64_t segment_count(struct stats *stats, struct stats_flow *flow,
	struct base_packet *const *packets, unsigned int count)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	uint64_t sum_packets = 0, sum_bytes = 0, reply_packets = 0, reply_bytes = 0;
	unsigned int related = 0, flags = 0, reply_flags = 0;
	uint64_t related_bytes = 0;
	for (unsigned int i = 0; i < count; i++) {
		const struct base_packet *packet = packets[i];
		uint64_t time_ns = packet->time_ns;
		first_ns = time_ns < first_ns ? time_ns : first_ns;
		last_ns = time_ns > last_ns ? time_ns : last_ns;
		if (BASE_UNLIKELY(packet->conn_flags & BASE_CONN_RELATED)) {
			related++;
			related_bytes += packet->wire_len;
			continue;
		}
		bool reply = packet->conn_flags & BASE_CONN_REPLY;
		sum_packets++;
		sum_bytes += packet->wire_len;
		reply_packets += reply;
		reply_bytes += reply ? packet->wire_len : 0;
		flags |= reply ? 0u : packet->tcp_flags;
		reply_flags |= reply ? packet->tcp_flags : 0u;
	}
	flow_open(stats, flow, first_ns);
	flow_touch(flow, first_ns, last_ns);
	flow->packets[0] += sum_packets - reply_packets;
	flow->packets[1] += reply_packets;
	flow->wire_bytes[0] += sum_bytes - reply_bytes;
	flow->wire_bytes[1] += reply_bytes;
	flow->tcp_flags[0] |= (uint8_t)flags;
	flow->tcp_flags[1] |= (uint8_t)reply_flags;
	flow->related_packets += related;
	stats->related_packets += related;
	return sum_bytes + related_bytes;
}

/* Packets first to next - 1, one segment. Returns their wire bytes. */
static inline uint64_t process_segment(
	struct stats *stats, const struct base_burst *burst, unsigned int first, unsigned int next)
{
	struct base_packet *const *packets = &burst->packets[first];
	uint32_t conn = packets[0]->conn;
	uint64_t wire_bytes = 0;
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE)) {
		stats->untracked_packets += next - first;
		for (unsigned int i = 0; i < next - first; i++)
			wire_bytes += packets[i]->wire_len;
		return wire_bytes;
	}
	struct stats_flow *flow = chain_function_user(stats->context, conn);
	if (next - first > 1)
		return segment_count(stats, flow, packets, next - first);
	flow_count(stats, flow, packets[0]);
	return packets[0]->wire_len;
}

static void stats_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct stats *stats = function;
	const struct chain_function_context *context = stats->context;
	bool no_runs = context->no_runs;
	uint64_t wire_bytes = 0;
	(void)now_ns;
	for (unsigned int r = 0; r < burst->run_count; r++) {
		unsigned int end = (unsigned int)burst->runs[r].first + burst->runs[r].count;
		for (unsigned int i = burst->runs[r].first, next; i < end; i = next) {
			next = chain_segment_end(burst, i, end, no_runs);
			chain_function_prefetch(context, sizeof(struct stats_flow), burst, i);
			wire_bytes += process_segment(stats, burst, i, next);
		}
	}
	stats->packets += burst->count;
	stats->wire_bytes += wire_bytes;
}

static void stats_counters(const void *function, struct chain_function_stats *out)
{
	const struct stats *stats = function;
	const struct chain_counter counters[] = {
		{ "packets", stats->packets },
		{ "wire_bytes", stats->wire_bytes },
		{ "connections", stats->connections },
		{ "related_packets", stats->related_packets },
		{ "untracked_packets", stats->untracked_packets },
	};
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
}

static uint64_t stats_digest(
	const void *function, const struct conntrack_conn *conn, const void *user)
{
	const struct stats *stats = function;
	const struct stats_flow *flow = chain_function_part_const(stats->context, user);
	if (!flow->seen)
		return 0;
	uint64_t seen = (uint64_t)flow->tcp_flags[0] << 8 | flow->tcp_flags[1];
	return chain_digest_conn(conn) +
	       chain_digest_pair(CHAIN_DIGEST_FIRST, flow->packets[0], flow->wire_bytes[0]) +
	       chain_digest_pair(CHAIN_DIGEST_FIRST + 1, flow->packets[1], flow->wire_bytes[1]) +
	       chain_digest_pair(CHAIN_DIGEST_FIRST + 2, flow->first_ns, flow->last_ns) +
	       chain_digest_pair(CHAIN_DIGEST_FIRST + 3, flow->related_packets, seen);
}

const struct chain_function_ops chain_stats_ops = {
	.name = "stats",
	.user_bytes = sizeof(struct stats_flow),
	.create = stats_create,
	.destroy = stats_destroy,
	.process = stats_process,
	.process_scalar = stats_process_scalar,
	.counters = stats_counters,
	.digest = stats_digest,
};
