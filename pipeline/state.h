/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is kept of connections: a tracker, and a chain with its memory beside each connection. It
 * belongs to one worker, or is one of several parts that workers share (sharing.h). Whoever uses it
 * has it alone while a burst goes through.
 *
 * The memory of a connection: the chain's, the order check's, the inference stage's.
 *
 * Threads: one at a time. Memory: the tracker's and the chain's, at create.
 *
 *	state_create_chain(&state, &config, message);
 *	// the inference stage, whose memory the tracker sets aside
 *	state_create_tracker(&state, &config, message);
 */
#pragma once

#include "pipeline/pipeline.h"

struct state {
	struct conntrack *tracker;
	struct chain *chain;   /* NULL when empty */
	uint32_t order_offset; /* in a connection's memory: the order check's part, ... */
	uint32_t infer_offset; /* ... the inference stage's */
};

struct state_config {
	const struct pipeline_config *config;
	struct base_arena *arena;
	uint32_t instance; /* names of DPDK objects must differ */
	uint32_t entries_max;
	const struct chain *tables; /* whose routes and rules are used too; NULL: own ones */
	uint16_t nat_share, nat_shares,
		nat_shares_all; /* chain_nat_config: worker, shares, workers */
	/* Called when there is a chain or an inference stage. */
	void (*on_remove)(void *context, uint32_t conn, void *user);
	void *on_remove_context;
};

/* -errno with message (PIPELINE_MESSAGE_SIZE); release is still due. Nothing when it is empty. */
int state_create_chain(struct state *state, const struct state_config *config, char *message);
int state_create_tracker(struct state *state, const struct state_config *config, char *message);
void state_release(struct state *state);
