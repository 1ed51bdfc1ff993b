/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of packets for tests: traces of random traffic, and streams taken in whole.
 * Out of memory aborts: these are tests.
 */
#pragma once

#include "base/rng.h"
#include "traces/traces.h"

struct streams_shape {
	size_t packets;
	uint32_t flows;      /* connections that packets are drawn from, half of them TCP */
	uint64_t gap_ns_max; /* between packets; equal times are frequent */
	uint64_t first_ns;
	bool backwards;   /* now and then a time before the last one */
	bool mixed_links; /* Ethernet and RAW */
	bool strays;      /* ARP, fragments, ICMP errors, cut and damaged frames */
};

/* Every frame is valid unless shape.strays. */
struct traces_trace *streams_random_trace(const struct streams_shape *shape, struct base_rng *rng);

/* All that the stream gives, as a trace; the stream's result goes to *error, which may be NULL when
 * it must be 0. Destroys the stream. */
struct traces_trace *streams_collect(struct traces_packets *packets, int *error);

/* Abort with a line on stderr that begins with `what` and the seed when they differ: number, times,
 * lengths, links, interfaces, bytes. */
void streams_must_equal(const struct traces_trace *expected, const struct traces_trace *got,
	const char *what, uint64_t seed);

/* The stream of a trace that is in memory. */
struct traces_packets *streams_of(const struct traces_trace *trace, size_t batch_packets);

/* Keys of all records, parsed in order; family 0 where there is none. The caller frees. */
struct base_flow_key *streams_keys(const struct traces_trace *trace);
