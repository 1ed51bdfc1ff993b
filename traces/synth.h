/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: traffic whose order is chosen (synth.c), attacks (attack.c), and what both
 * are made of.
 *
 * synth_frame.c  one frame, changed from packet to packet
 * synth_order.c  which flow is next
 *
 * Flow i has a client 10.x.y.z (2001:db8::10.x.y.z) that no other flow shares its port with, and
 * one of the servers 198.18.0.0/15 (2001:db8:1::/112). Packets go from client to server.
 */
#pragma once

#include "base/rng.h"
#include "traces/packets.h"

enum { TRACES_SYNTH_FRAME_MAX = 14 + 65535 };

/* More flows than this would share addresses and ports. */
#define TRACES_SYNTH_FLOWS_MAX ((uint64_t)(65536 - 1024) << 24)

/* ---- one frame ---- */

struct traces_synth_frame {
	uint64_t salt;
	bool ip6;
	uint8_t protocol; /* UDP or TCP */
	size_t bytes;
	size_t ip_bytes, l4_bytes;
	size_t payload_len;
	uint32_t payload_sum; /* checksum of the payload, which is the same in all packets */
	uint8_t data[TRACES_SYNTH_FRAME_MAX];
};

/* Why such a frame cannot be; NULL when it can. */
const char *traces_synth_frame_problem(uint32_t bytes, uint8_t protocol, bool ip6);
/* bytes without the checksum, at least 64; the rest is filled from rng. */
void traces_synth_frame_init(struct traces_synth_frame *frame, uint32_t bytes, uint8_t protocol,
	bool ip6, struct base_rng *rng);
/* Who talks to whom: by the flow's number, or IPv4 addresses and ports as given. */
void traces_synth_frame_set_flow(struct traces_synth_frame *frame, uint64_t flow);
void traces_synth_frame_set_ends(struct traces_synth_frame *frame, uint32_t client,
	uint16_t client_port, uint32_t server, uint16_t server_port);
/* After who talks to whom: the transport header's rest and its checksum. UDP takes neither. */
void traces_synth_frame_set_packet(
	struct traces_synth_frame *frame, uint32_t sequence, uint8_t tcp_flags);

/* ---- which flow is next ---- */

/* Zipf's law on 0..n-1: rank r has a weight of (r + 1)^-exponent. */
struct traces_zipf {
	double exponent;
	double n;
	double h_first, h_last, threshold;
};

void traces_zipf_init(struct traces_zipf *zipf, double exponent, uint64_t n);
uint64_t traces_zipf_draw(const struct traces_zipf *zipf, struct base_rng *rng);

/* Flows by when they were last chosen. Memory: 16 to 32 bytes per flow; cost: O(log flows). */
struct traces_recency {
	uint32_t *owner; /* of a place in time */
	uint32_t *sums;  /* Fenwick tree of the places that are taken */
	uint32_t places; /* a power of two, at least twice the flows */
	uint32_t flows;
	uint32_t next; /* the place of the next choice */
};

/* -ENOMEM; -EINTR: stop, which may be NULL. At first flow i counts as chosen before flow i + 1. */
int traces_recency_init(struct traces_recency *recency, uint32_t flows, const atomic_bool *stop);
void traces_recency_destroy(struct traces_recency *recency);
/* The flow since whose last choice `depth` others were chosen (0: the one chosen last); it becomes
 * the one chosen last. depth < flows. */
uint32_t traces_recency_take(struct traces_recency *recency, uint32_t depth);

struct traces_synth_order {
	enum traces_order kind;
	uint64_t flows;
	struct traces_reuse reuse;
	struct traces_zipf zipf;
	struct traces_recency recency;
	uint64_t previous;
	bool started;
};

/* -ENOMEM, -EINTR. */
int traces_synth_order_init(
	struct traces_synth_order *order, const struct traces_synth_options *options);
void traces_synth_order_destroy(struct traces_synth_order *order);
/* The flow of the next run, never that of the run before unless there is only one. */
uint64_t traces_synth_order_next(struct traces_synth_order *order, struct base_rng *rng);
