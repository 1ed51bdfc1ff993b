/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to bench_deletion*.c: packets of a capture or of a generator, parsed once, in memory, as
 * records that a tracker can be given again and again. Times count from the first packet and never
 * run backwards; of a frame its headers are kept.
 */
#pragma once

#include "traces/traces.h"

struct bench_packets {
	struct base_packet *packets; /* as a parser leaves them */
	uint64_t count;
	uint64_t flow_packets; /* with a flow key */
	uint64_t left_out;     /* malformed */
	uint64_t duration_ns;
	uint8_t *frames;
};

/* Pulls the stream until it ends or packets_max are in. -ENOMEM; -EINTR; the stream's error with
 * traces_packets_message. stop may be NULL. */
int bench_packets_load(struct bench_packets *out, struct traces_packets *stream,
	uint64_t packets_max, const atomic_bool *stop);
void bench_packets_destroy(struct bench_packets *packets);

/* Where a loaded capture is damaged, in one line; message stays as it is when it is not. */
void bench_packets_tell_damage(const struct traces_load_report *report, const char *path,
	char *message, size_t message_size);
