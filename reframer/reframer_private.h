/* SPDX-License-Identifier: BSD-2-Clause */
/* The reframer's state: reframer.c creates it, push.c takes packets in, pop.c lets them out. */
#pragma once

#include "reframer/flush_list.h"
#include "reframer/held_flows.h"
#include "reframer/release_policy.h"
#include "reframer/run_queue.h"
#include "reframer/seen_filter.h"

/* The flow of the last packet of a stream, to see where the next flow run begins. The packet itself
 * may be gone by then. */
struct stream_end {
	struct base_flow_key key;
	uint64_t flow_hash; /* 0: no flow */
};

struct reframer {
	uint64_t now_ns; /* latest time seen */
	struct flush_list flush;
	struct held_flows held;
	struct seen_filter seen;
	struct release_policy policy;
	struct run_queue released;
	uint32_t run_packets_max;
	uint32_t held_packets, held_packets_max;
	uint32_t held_flows, held_flows_max;
	uint32_t recent_slot; /* where the last packet pushed is held; HELD_NONE: it left */
	bool bypass_first, prefetch;
	bool many_classes;   /* packets may be in another class than the first */
	bool plain;          /* one class, it has a delay, and runs may have two packets */
	uint64_t horizon_ns; /* as it was when nothing released was waiting */
	struct stream_end last_in, last_out;
	struct reframer_stats stats;
	struct base_histogram hold;
	struct base_arena *arena;
};

/* Arrival of the longest-waiting packet that is held, or the latest time seen. */
static inline uint64_t reframer_held_since_ns(const struct reframer *reframer)
{
	const struct held_slot *slots = reframer->held.slots;
	uint32_t oldest = flush_list_oldest(slots, reframer->many_classes);
	return oldest != HELD_NONE ? slots[oldest].head->holder_word : reframer->now_ns;
}

static inline void stream_end_set(struct stream_end *end, const struct base_packet *packet)
{
	end->flow_hash = run_queue_flow_hash(packet);
	end->key = packet->key;
}

/* Whether the packet belongs to the run that the stream ended with. */
static inline bool stream_end_continues(
	const struct stream_end *end, const struct base_packet *packet)
{
	return end->flow_hash == run_queue_flow_hash(packet) && end->flow_hash != 0 &&
	       base_flow_key_equal(&end->key, &packet->key);
}

/* Hashes first: they nearly always differ or nearly always decide. */
static inline bool same_flow(const struct base_packet *a, const struct base_packet *b)
{
	return a->hash == b->hash && (a->flags & b->flags & BASE_PACKET_FLOW) != 0 &&
	       base_flow_key_equal(&a->key, &b->key);
}
