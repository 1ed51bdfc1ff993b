/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reframer as its header describes it, written to be obviously right: packets and flows in
 * plain arrays, every question answered by looking at all of them. Judges the real one in the model
 * test and in the fuzz harness.
 *
 * Left out: the bound on an index probe (needs 64 flows with one hash). Taken from the real code:
 * the seen filter, which has a model of its own.
 */
#pragma once

#include "reframer/reframer.h"
#include "reframer/seen_filter.h"

struct naive_held {
	struct base_packet *packet;
	uint64_t arrival_ns;
	uint64_t flow_number;
};

struct naive_flow {
	struct base_flow_key key;
	uint64_t number; /* counts up: the lowest has waited longest */
	uint64_t listed; /* counts up: when it joined its class's list */
	uint64_t deadline_ns;
	enum reframer_class class;
};

struct naive_released {
	struct base_packet *packet;
	uint64_t arrival_ns, release_ns;
};

struct naive_reframer {
	struct reframer_config config;
	struct seen_filter *seen;
	uint64_t multiplier; /* mixes hashes for the filter */
	uint64_t now_ns, counter;
	struct naive_held *held; /* in order of arrival */
	unsigned int held_count;
	struct naive_flow *flows;
	unsigned int flows_count;
	struct naive_released *released; /* not yet taken */
	unsigned int released_count;
	struct reframer_stats stats; /* releases, peaks, held, time_backwards */
};

/* Room for released_max packets between two takings. */
void naive_reframer_init(struct naive_reframer *naive, const struct reframer_config *config,
	struct seen_filter *seen, unsigned int released_max);
void naive_reframer_release(struct naive_reframer *naive);

void naive_reframer_push(struct naive_reframer *naive, struct base_packet *packet);
void naive_reframer_advance(struct naive_reframer *naive, uint64_t now_ns);
void naive_reframer_flush(struct naive_reframer *naive);
uint64_t naive_reframer_horizon_ns(const struct naive_reframer *naive);

/* Forget the first `count` released packets: the caller compared them. */
void naive_reframer_take(struct naive_reframer *naive, unsigned int count);
