/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/state.h"

#include "conntrack/lab.h"
#include "pipeline/order_check.h"

#include <errno.h>
#include <stdio.h>

static int failed(char *message, const char *what, int error)
{
	if (message[0] == '\0')
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s: %s", what, strerror(-error));
	return error;
}

int state_create_chain(struct state *state, const struct state_config *config, char *message)
{
	const struct pipeline_config *run = config->config;
	struct chain_config chain = run->chain;
	if (chain.functions_count == 0)
		return 0;
	chain.scalar = run->ablations & PIPELINE_ABLATE_BURST;
	chain.no_runs = run->ablations & PIPELINE_ABLATE_RUNS;
	chain.no_prefetch = run->ablations & PIPELINE_ABLATE_PREFETCH;
	chain.hash = run->parse.hash;
	chain.arena = config->arena;
	chain.instance = (uint16_t)config->instance;
	chain.tables = config->tables;
	for (uint32_t i = 0; i < chain.functions_count; i++) {
		if (chain.functions[i].kind != CHAIN_NAT)
			continue;
		chain.functions[i].nat.worker = config->nat_share;
		chain.functions[i].nat.shares = config->nat_shares;
		chain.functions[i].nat.workers = config->nat_shares_all;
	}
	int error = chain_create(&state->chain, &chain, message);
	if (error == -ENOENT || error == -EACCES || error == -EISDIR || error == -ENOTDIR)
		error = -EBADMSG; /* a file of rules or routes, like one with a fault in it */
	return error == 0 ? 0 : failed(message, "chain", error);
}

static int tracker_failed(char *message, const struct conntrack_config *tracker, int error)
{
	if (error == -ENOTSUP && tracker->deletion != NULL) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "deletion %s does not work with table %s",
			tracker->deletion->name,
			tracker->table != NULL ? tracker->table->name : "bucket");
		return -EINVAL;
	}
	if (error == -EINVAL && tracker->deletion != NULL)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "deletion %s: a knob is out of its range",
			tracker->deletion->name);
	return failed(message, "connection table", error);
}

int state_create_tracker(struct state *state, const struct state_config *config, char *message)
{
	const struct pipeline_config *run = config->config;
	const struct gpu_offload_stage_config *infer = &run->infer.stage;
	struct conntrack_config tracker = run->conntrack;
	state->order_offset = state->chain == NULL ? 0 : chain_user_bytes(state->chain);
	tracker.arena = config->arena;
	tracker.entries_max = config->entries_max;
	tracker.salt = run->parse.hash.salt[0];
	tracker.user_bytes = state->order_offset + ORDER_CHECK_USER_BYTES;
	tracker.no_prefetch = run->ablations & PIPELINE_ABLATE_PREFETCH;
	tracker.no_runs = run->ablations & PIPELINE_ABLATE_RUNS;
	tracker.no_dedup = run->ablations & PIPELINE_ABLATE_DEDUP;
	tracker.no_bulk = run->ablations & PIPELINE_ABLATE_BURST;
	/* Behind the order check's bytes, where a line of cache begins or half of one. */
	state->infer_offset = (tracker.user_bytes + 31) & ~31u;
	if (run->infer.enabled)
		tracker.user_bytes = state->infer_offset + gpu_offload_stage_user_bytes(infer);
	if (state->chain != NULL || run->infer.enabled) {
		tracker.on_remove = config->on_remove;
		tracker.on_remove_context = config->on_remove_context;
	}
	int error = conntrack_create(&state->tracker, &tracker);
	if (error != 0)
		return tracker_failed(message, &tracker, error);
	if (state->chain != NULL)
		chain_attach(state->chain, state->tracker);
	return 0;
}

void state_release(struct state *state)
{
	conntrack_destroy(state->tracker);
	chain_destroy(state->chain);
	state->tracker = NULL;
	state->chain = NULL;
}
