/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real reframer and the naive one side by side, fed the same packets. comparison_pop returns
 * false when they differ, with what differs on stderr. Used by the model test and the fuzz harness.
 */
#pragma once

#include "tests/model/reframer/naive_reframer.h"

enum { COMPARISON_PACKETS_MAX = 4096 };

struct comparison_packet {
	uint64_t time_ns;
	uint32_t flow; /* 0: a packet without a flow */
	uint32_t hash;
	uint16_t flags; /* besides BASE_PACKET_FLOW */
	uint16_t payload_len;
	uint8_t protocol, tcp_flags;
};

struct comparison {
	struct base_arena *arena;
	struct reframer *real;
	struct naive_reframer naive;
	struct seen_filter seen;
	struct base_packet *packets; /* pool */
	struct base_packet **unused; /* stack of those outside */
	unsigned int unused_count;
	uint64_t seq_next;
	uint64_t seq_out[256]; /* per flow number modulo 256: next sequence number allowed + 1 */
	uint64_t last_release_ns, horizon_ns;
	uint64_t runs_in, runs_out, packets_in, packets_out;
	uint64_t hold_max_ns;
	struct base_flow_key key_in, key_out;
};

/* held_packets_max must leave BASE_BURST_MAX packets of the pool. */
void comparison_init(struct comparison *comparison, const struct reframer_config *config);
void comparison_release(struct comparison *comparison);

void comparison_push(
	struct comparison *comparison, const struct comparison_packet *packets, unsigned int count);
void comparison_advance(struct comparison *comparison, uint64_t now_ns);
void comparison_flush(struct comparison *comparison);

/* Pop until nothing is left, packets_max at a time, and compare counters. */
bool comparison_pop(struct comparison *comparison, unsigned int packets_max);
