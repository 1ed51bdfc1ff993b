/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets for tests of sharing models: flows whose every packet has one length and comes a fixed
 * time after the one before, both told by the key, so that a torn view of a connection can be
 * seen.
 */
#pragma once

#include "conntrack/shared_judge.h"

#include <stdatomic.h>

struct shared_world_move {
	uint64_t at; /* from this packet on */
	uint32_t bucket;
	uint8_t from, to;
};

struct shared_world {
	struct base_packet *packets; /* in the order of time */
	uint64_t count;
	uint8_t *worker_of; /* by packet */
	/* Of these packets the one before is the last that its worker gets of a bucket. */
	struct shared_world_move *moves;
	unsigned int moves_count;
	unsigned int workers;
	uint64_t seed;
};

struct shared_world_options {
	unsigned int workers, flows, packets_per_flow;
	unsigned int resident; /* flows that have packets from the first moment to the last */
	uint64_t step_ns;      /* between packets of a flow */
	uint64_t gap_ns;       /* an idle time in the middle of every fourth flow */
	bool spread;           /* packets of a flow go to any worker; else by hash */
	unsigned int moves;    /* hand-overs on the way */
	uint64_t seed;
};

void shared_world_create(struct shared_world *world, const struct shared_world_options *options);
void shared_world_destroy(struct shared_world *world);

/* Length that every packet of this flow has. */
uint32_t shared_world_length(const struct base_flow_key *key);

/* Runs all packets through a model, a thread per worker, with the judge collecting when it is not
 * NULL. Every worker keeps within a few bursts of the others, so that they meet. stopped (may be
 * NULL) is set when they have ended. Finishes and checks. Failures are the test's. */
struct conntrack_shared_stats shared_world_run(const struct shared_world *world,
	struct conntrack_shared *shared, unsigned int burst, atomic_bool *stopped);
