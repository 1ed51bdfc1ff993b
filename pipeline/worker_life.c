/* SPDX-License-Identifier: BSD-2-Clause */
/* Birth and end of a worker: everything off the packet path. */
#include "pipeline/infer.h"
#include "pipeline/worker.h"

#include <rte_cycles.h>

#include <errno.h>
#include <stdio.h>

static int failed(struct worker *worker, const char *what, int error)
{
	worker->error = error;
	if (worker->message[0] == '\0')
		snprintf(
			worker->message, sizeof(worker->message), "%s: %s", what, strerror(-error));
	return error;
}

/* Packets that may sit outside the rotating ring at once. */
static uint32_t reserve_buffers(const struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	uint32_t buffers = 4 * BASE_BURST_MAX;
	if (config->reframer_enabled)
		buffers += config->reframer.held_packets_max + BASE_BURST_MAX;
	if (config->infer.enabled && config->infer.stage.hold_ns > 0)
		buffers += config->infer.stage.hold_packets + BASE_BURST_MAX;
	if (config->sink == PIPELINE_SINK_PORT)
		buffers += 8192; /* transmit descriptors and the driver's caches */
	return buffers;
}

static int setup_source(struct worker *worker)
{
	const struct worker_shared *shared = worker->shared;
	int error;
	if (shared->reader != NULL)
		error = source_stream_create(&worker->source, shared->config, shared->reader,
			worker->index, reserve_buffers(worker));
	else if (shared->config->source == PIPELINE_SOURCE_TRACE)
		error = source_trace_create(&worker->source, shared->config, shared->schedule,
			shared->trace, worker->index, reserve_buffers(worker));
	else
		error = source_port_create(&worker->source, shared->source_port->id,
			(uint16_t)worker->index, shared->config, worker->message);
	return error == 0 ? 0 : failed(worker, "packet buffers", error);
}

static int setup_sink(struct worker *worker)
{
	const struct worker_shared *shared = worker->shared;
	const struct pipeline_config *config = shared->config;
	const struct plan *plan = shared->plan;
	int error;
	if (config->sink == PIPELINE_SINK_FILE)
		error = sink_file_create(&worker->sink, config, worker->index, plan->epoch_ns,
			plan->first_link, worker->message);
	else if (config->sink == PIPELINE_SINK_PORT)
		error = sink_port_create(
			&worker->sink, shared->sink_port->id, (uint16_t)worker->index);
	else
		error = sink_null_create(&worker->sink);
	return error == 0 ? 0 : failed(worker, "sink", error);
}

static int setup_reframer(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	struct reframer_config reframer = config->reframer;
	if (!config->reframer_enabled)
		return 0;
	for (int i = 0; i < REFRAMER_CLASSES_COUNT; i++)
		reframer.delay_ns[i] =
			(uint64_t)((double)reframer.delay_ns[i] * config->speed + 0.5);
	reframer.arena = worker->arena;
	reframer.salt = config->parse.hash.salt[1];
	reframer.prefetch = !(config->ablations & PIPELINE_ABLATE_PREFETCH);
	int error = reframer_create(&worker->reframer, &reframer);
	return error == 0 ? 0 : failed(worker, "reframer", error);
}

static bool has_nat(const struct chain_config *chain)
{
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		if (chain->functions[i].kind == CHAIN_NAT)
			return true;
	}
	return false;
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct worker *worker = context;
	/* What asking about an ended flow costs is inference's, not the tracker's. Behind the loop
	 * nobody counts. */
	bool asks = worker->shared->config->infer.short_flows == PIPELINE_SHORT_CLASSIFY &&
		    worker->elapsed_cycles == 0;
	uint64_t since = asks ? base_cycles() : 0;
	if (worker->infer != NULL)
		gpu_offload_stage_on_remove(worker->infer, conn, user);
	if (asks) {
		uint64_t cycles = base_cycles() - since;
		worker->cycles.infer += cycles;
		worker->cycles.conntrack -= cycles;
	}
	if (worker->chain != NULL)
		chain_on_remove(worker->chain, conn, user);
}

static int setup_own(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	const struct state_config state = {
		.config = config,
		.arena = worker->arena,
		.instance = worker->index,
		.entries_max = config->conntrack.entries_max,
		.nat_share = (uint16_t)worker->index,
		.nat_shares = 1,
		.nat_shares_all = (uint16_t)config->workers,
		.on_remove = on_remove,
		.on_remove_context = worker,
	};
	int error = state_create_chain(&worker->own, &state, worker->message);
	worker->chain = worker->own.chain;
	if (error == 0 && config->infer.enabled)
		error = infer_setup(worker);
	if (error == 0)
		error = state_create_tracker(&worker->own, &state, worker->message);
	worker->tracker = worker->own.tracker;
	if (error == 0 && worker->infer != NULL)
		gpu_offload_stage_attach(worker->infer, worker->tracker, worker->own.infer_offset);
	return error == 0 ? 0 : failed(worker, "connections", error);
}

static int setup_order_check(struct worker *worker, uint32_t offset)
{
	worker->order = base_arena_alloc(worker->arena, sizeof(*worker->order), BASE_CACHE_LINE);
	if (worker->order == NULL)
		return failed(worker, "order check", -ENOMEM);
	worker->own_order = worker->order;
	worker->order->tracker = worker->tracker;
	worker->order->user_offset = offset;
	return 0;
}

/* Connections, and what looks at them. */
static int setup_connections(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	struct sharing *sharing = worker->shared->sharing;
	int error = sharing == NULL ? setup_own(worker) : sharing_join(sharing, worker);
	if (error != 0)
		return error;
	worker->chain_count = worker->chain == NULL ? 0 : chain_functions_count(worker->chain);
	worker->translates = has_nat(&config->chain);
	uint32_t chain_bytes = worker->chain == NULL ? 0 : chain_user_bytes(worker->chain);
	return setup_order_check(worker, chain_bytes);
}

int worker_setup(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	base_histogram_reset(&worker->lateness);
	int error = base_arena_create(&worker->arena, worker->shared->huge);
	if (error != 0)
		return failed(worker, "memory arena", error);
	error = base_parser_create(&worker->parser, &config->parse);
	if (error != 0)
		return failed(worker, "parser", error);
	error = setup_source(worker);
	if (error == 0)
		error = setup_reframer(worker);
	if (error == 0)
		error = setup_connections(worker);
	if (error == 0)
		error = setup_sink(worker);
	if (error == 0)
		counters_open(&worker->counters, config->counters);
	/* Whoever did not say what failed: without a mark a worker would end as if well. */
	return error == 0 || worker->error != 0 ? error : failed(worker, "set-up", error);
}

static void collect_chain(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->chain_count; i++)
		chain_function_stats(worker->chain, i, &worker->chain_stats[i]);
}

bool worker_connections_balance(const struct conntrack_stats *stats)
{
	return stats->inserted ==
	       stats->live + stats->expired + stats->closed + stats->evicted + stats->purged;
}

static void settle_books(struct worker *worker)
{
	struct pipeline_books *books = &worker->books;
	uint64_t out = books->forwarded;
	for (int reason = 0; reason < BASE_DROP_REASONS_COUNT; reason++)
		out += books->dropped[reason];
	books->held = worker->reframer == NULL ? 0
					       : worker->reframer_stats.packets_in -
							 worker->reframer_stats.packets_out;
	books->reorder_violations = worker->order->violations;
	books->balanced = books->read == out + books->held && books->held == 0;
}

static void finish_own(struct worker *worker)
{
	char message[256];
	/* not done: interrupted, or a port */
	uint64_t end_ns = worker->source->done ? worker->source->end_ns : worker->now_ns;
	/* Whoever stops a run does not want to wait for flows that are open still. */
	if (worker->infer != NULL && !worker->source->done &&
		worker->shared->config->source == PIPELINE_SOURCE_TRACE)
		gpu_offload_stage_hush(worker->infer);
	conntrack_finish(worker->tracker, end_ns);
	conntrack_stats(worker->tracker, &worker->conntrack_stats);
	if (conntrack_check(worker->tracker, message, sizeof(message)) != 0) {
		snprintf(worker->message, sizeof(worker->message), "connection table: %s", message);
		worker->error = -EUCLEAN;
	}
	collect_chain(worker);
	worker->books.balanced &= worker_connections_balance(&worker->conntrack_stats);
	/* The digest counts removed connections: remove them all now. */
	(void)conntrack_purge(worker->tracker, NULL, NULL);
	worker->books.balanced &= infer_settle(worker);
	if (worker->chain != NULL)
		worker->flow_digest = chain_flow_digest(worker->chain);
}

void worker_finish(struct worker *worker)
{
	if (worker->reframer != NULL)
		reframer_stats(worker->reframer, &worker->reframer_stats);
	base_parser_stats(worker->parser, &worker->parse_stats);
	settle_books(worker);
	int error = worker->sink->ops->finish(worker->sink, worker->message);
	if (error != 0)
		worker->error = error;
	/* Last: whoever finishes for all looks at this worker then. */
	if (worker->sharing == NULL)
		finish_own(worker);
	else
		sharing_finish(worker);
}

void worker_destroy(struct worker *worker)
{
	counters_close(&worker->counters);
	if (worker->sink != NULL)
		worker->sink->ops->destroy(worker->sink);
	gpu_offload_stage_destroy(worker->infer);
	state_release(&worker->own);
	reframer_destroy(worker->reframer);
	if (worker->source != NULL)
		worker->source->ops->destroy(worker->source);
	base_parser_destroy(worker->parser);
	if (worker->order != NULL)
		base_arena_free(worker->arena, worker->order, sizeof(*worker->order));
	if (worker->arena != NULL)
		base_arena_destroy(worker->arena);
}
