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

enum { PREFETCH_AHEAD = 6 };

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

static void stats_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct stats *stats = function;
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		stats->packets++;
		stats->wire_bytes += packet->wire_len;
		if (packet->conn == BASE_CONN_NONE) {
			stats->untracked_packets++;
			continue;
		}
		struct stats_flow *flow = chain_function_user(stats->context, packet->conn);
		flow_open(stats, flow, packet->time_ns);
		flow_touch(flow, packet->time_ns, packet->time_ns);
		if (packet->conn_flags & BASE_CONN_RELATED) {
			flow->related_packets++;
			stats->related_packets++;
			continue;
		}
		unsigned int direction = (packet->conn_flags & BASE_CONN_REPLY) ? 1 : 0;
		flow->packets[direction]++;
		flow->wire_bytes[direction] += packet->wire_len;
		flow->tcp_flags[direction] |= packet->tcp_flags;
	}
}

static inline void segment_count(struct stats *stats, struct stats_flow *flow,
	struct base_packet *const *packets, unsigned int count)
{
	struct stats_flow sum = { .first_ns = UINT64_MAX };
	uint64_t wire_bytes = 0;
	for (unsigned int i = 0; i < count; i++) {
		const struct base_packet *packet = packets[i];
		flow_touch(&sum, packet->time_ns, packet->time_ns);
		wire_bytes += packet->wire_len;
		if (BASE_UNLIKELY(packet->conn_flags & BASE_CONN_RELATED)) {
			sum.related_packets++;
			continue;
		}
		unsigned int direction = (packet->conn_flags & BASE_CONN_REPLY) ? 1 : 0;
		sum.packets[direction]++;
		sum.wire_bytes[direction] += packet->wire_len;
		sum.tcp_flags[direction] |= packet->tcp_flags;
	}
	flow_open(stats, flow, sum.first_ns);
	flow_touch(flow, sum.first_ns, sum.last_ns);
	for (unsigned int direction = 0; direction < 2; direction++) {
		flow->packets[direction] += sum.packets[direction];
		flow->wire_bytes[direction] += sum.wire_bytes[direction];
		flow->tcp_flags[direction] |= sum.tcp_flags[direction];
	}
	flow->related_packets += sum.related_packets;
	stats->related_packets += sum.related_packets;
	stats->wire_bytes += wire_bytes;
}

static void stats_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct stats *stats = function;
	const struct chain_function_context *context = stats->context;
	struct chain_segment segments[BASE_BURST_MAX];
	struct stats_flow *flows[BASE_BURST_MAX];
	(void)now_ns;

	unsigned int count = chain_segments_find(burst, context->no_runs, segments);
	for (unsigned int s = 0; s < count; s++) {
		flows[s] = segments[s].conn == BASE_CONN_NONE
				   ? NULL
				   : chain_function_user(context, segments[s].conn);
	}
	for (unsigned int s = 0; s < count; s++) {
		if (!context->no_prefetch && s + PREFETCH_AHEAD < count)
			BASE_PREFETCH_W(flows[s + PREFETCH_AHEAD]);
		struct base_packet *const *packets = &burst->packets[segments[s].first];
		if (BASE_LIKELY(flows[s] != NULL)) {
			segment_count(stats, flows[s], packets, segments[s].count);
			continue;
		}
		stats->untracked_packets += segments[s].count;
		for (unsigned int i = 0; i < segments[s].count; i++)
			stats->wire_bytes += packets[i]->wire_len;
	}
	stats->packets += burst->count;
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
	uint64_t digest = chain_digest_conn(conn);
	for (unsigned int direction = 0; direction < 2; direction++) {
		digest = chain_digest_word(digest, flow->packets[direction]);
		digest = chain_digest_word(digest, flow->wire_bytes[direction]);
		digest = chain_digest_word(digest, flow->tcp_flags[direction]);
	}
	digest = chain_digest_word(digest, flow->first_ns);
	digest = chain_digest_word(digest, flow->last_ns);
	return chain_digest_word(digest, flow->related_packets);
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
