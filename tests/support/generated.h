/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Generated traffic for tests: a stream packet by packet, parsed, each with the number of its flow.
 * Whatever fails aborts: these are tests.
 */
#pragma once

#include "base/parse.h"
#include "traces/traces.h"

struct generated_packet {
	const struct traces_record *record;
	const uint8_t *frame;
	const struct base_packet *parsed;
	uint32_t flow; /* bidirectional, numbered as they come */
	bool fresh;    /* its first packet */
};

/* What was seen of a stream besides its packets. */
struct generated_summary {
	uint64_t packets, flows, malformed, checksums_bad, orphans, backwards;
};

typedef void generated_fn(void *context, const struct generated_packet *packet);

/* Open a stream by these options; prints the message when it is refused. */
struct traces_packets *generated_open(const struct traces_generate_options *options);
/* To its end, with at most flows_max flows; visit may be NULL. Destroys the stream. */
struct generated_summary generated_walk(
	struct traces_packets *stream, uint32_t flows_max, generated_fn *visit, void *context);
/* The stream's bytes and records in one number. Destroys it. */
uint64_t generated_digest(struct traces_packets *stream);
