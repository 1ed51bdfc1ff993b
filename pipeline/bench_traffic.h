/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to bench_lb*.c: one-way TCP traffic in memory, and the mark of packets that are a flood.
 *
 * Made traffic: `flows` connections begin at times spread evenly at random over the first nine
 * tenths; each lives for an exponential time, at least a thousandth of the whole, and sends a SYN,
 * data evenly spread with jitter, and a FIN: frames of 64 bytes, IPv4 and IPv6 mixed (one in four).
 * Flood: SYNs from addresses that occur once.
 */
#pragma once

#include "traces/traces.h"

struct bench_traffic {
	struct traces_trace *trace;
	uint8_t *is_flood; /* per packet; NULL: none is */
	uint64_t flood_packets, left_out_packets;
	uint64_t duration_ns;
};

/* -ENOMEM; -EINTR: stop (may be NULL) was set; -EINVAL, ... with message. */
int bench_traffic_make(struct bench_traffic *traffic, uint64_t flows, uint64_t packets,
	uint64_t duration_ns, uint64_t seed, const atomic_bool *stop);
/* message: also, where 0, the first place where the capture is damaged; else as it was. */
int bench_traffic_load(
	struct bench_traffic *traffic, const char *path, const atomic_bool *stop, char *message);
/* The same packets with `rate` SYNs of nobody after each. */
int bench_traffic_flood(struct bench_traffic *out, const struct bench_traffic *calm, double rate,
	uint64_t seed, const atomic_bool *stop);
void bench_traffic_destroy(struct bench_traffic *traffic);
