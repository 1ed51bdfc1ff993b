/* SPDX-License-Identifier: BSD-2-Clause */
/* A reframer with its arena, packets to feed it and a record of what came out. */
#pragma once

#include "reframer/reframer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

enum { KIT_PACKETS_MAX = 2048 };

struct kit {
	struct base_arena *arena;
	struct reframer_config config; /* defaults without bypass_first; change, then kit_start */
	struct reframer *reframer;
	struct base_packet packets[KIT_PACKETS_MAX];
	unsigned int packets_count;
	struct base_packet *out[KIT_PACKETS_MAX];
	unsigned int out_count;
	unsigned int run_sizes[KIT_PACKETS_MAX]; /* of all bursts, in order */
	unsigned int runs_count;
	unsigned int bursts_count;
};

int kit_setup(void **state);
int kit_teardown(void **state);

void kit_start(struct kit *kit);

/* The next packet, of flow `flow` (0: none), a TCP segment with data. Its seq is its number. */
struct base_packet *kit_packet(struct kit *kit, uint32_t flow, uint64_t time_ns);

/* Push one packet alone. */
void kit_push(struct kit *kit, struct base_packet *packet);

/* kit_packet and kit_push. */
struct base_packet *kit_feed(struct kit *kit, uint32_t flow, uint64_t time_ns);

/* Pop everything there is, packets_max at a time. */
void kit_pop(struct kit *kit, unsigned int packets_max);

/* Everything that came out since the last call was exactly these sequence numbers. */
void kit_expect_out(struct kit *kit, unsigned int count, const unsigned int *seqs);

struct reframer_stats kit_stats(const struct kit *kit);

/* Exactly the packets given came out, in this order. */
#define KIT_EXPECT_OUT(kit, ...)                                                                   \
	kit_expect_out((kit), sizeof((unsigned int[]){ __VA_ARGS__ }) / sizeof(unsigned int),      \
		(unsigned int[]){ __VA_ARGS__ })
