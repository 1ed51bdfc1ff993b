/* SPDX-License-Identifier: BSD-2-Clause */
/* Birth and end of a worker: everything off the packet path. */
#include "conntrack/lab.h"
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

static int setup_chain(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	struct chain_config chain = config->chain;
	if (chain.functions_count == 0)
		return 0;
	chain.scalar = config->ablations & PIPELINE_ABLATE_BURST;
	chain.no_runs = config->ablations & PIPELINE_ABLATE_RUNS;
	chain.no_prefetch = config->ablations & PIPELINE_ABLATE_PREFETCH;
	chain.hash = config->parse.hash;
	chain.arena = worker->arena;
	chain.instance = (uint16_t)worker->index;
	for (uint32_t i = 0; i < chain.functions_count; i++) {
		if (chain.functions[i].kind != CHAIN_NAT)
			continue;
		chain.functions[i].nat.worker = (uint16_t)worker->index;
		chain.functions[i].nat.workers = (uint16_t)config->workers;
	}
	int error = chain_create(&worker->chain, &chain, worker->message);
	if (error == -ENOENT || error == -EACCES || error == -EISDIR || error == -ENOTDIR)
		error = -EBADMSG; /* a file of rules or routes, like one with a fault in it */
	if (error != 0)
		return failed(worker, "chain", error);
	worker->chain_count = chain_functions_count(worker->chain);
	worker->translates = has_nat(&chain);
	return 0;
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

static int setup_tracker(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	struct conntrack_config tracker = config->conntrack;
	uint32_t chain_bytes = worker->chain == NULL ? 0 : chain_user_bytes(worker->chain);
	tracker.arena = worker->arena;
	tracker.salt = config->parse.hash.salt[0];
	tracker.user_bytes = chain_bytes + ORDER_CHECK_USER_BYTES;
	tracker.no_prefetch = config->ablations & PIPELINE_ABLATE_PREFETCH;
	tracker.no_runs = config->ablations & PIPELINE_ABLATE_RUNS;
	tracker.no_dedup = config->ablations & PIPELINE_ABLATE_DEDUP;
	tracker.no_bulk = config->ablations & PIPELINE_ABLATE_BURST;
	/* Behind the order check's bytes, where a line of cache begins or half of one. */
	uint32_t infer_offset = (tracker.user_bytes + 31) & ~31u;
	if (worker->infer != NULL)
		tracker.user_bytes = infer_offset + gpu_offload_stage_user_bytes(worker->infer);
	if (worker->chain != NULL || worker->infer != NULL) {
		tracker.on_remove = on_remove;
		tracker.on_remove_context = worker;
	}
	int error = conntrack_create(&worker->tracker, &tracker);
	if (error == -ENOTSUP && tracker.deletion != NULL) {
		snprintf(worker->message, sizeof(worker->message),
			"deletion %s does not work with table %s", tracker.deletion->name,
			tracker.table != NULL ? tracker.table->name : "bucket");
		return failed(worker, "deletion", -EINVAL);
	}
	if (error == -EINVAL && tracker.deletion != NULL)
		snprintf(worker->message, sizeof(worker->message),
			"deletion %s: a knob is out of its range", tracker.deletion->name);
	if (error != 0)
		return failed(worker, "connection table", error);
	if (worker->chain != NULL)
		chain_attach(worker->chain, worker->tracker);
	if (worker->infer != NULL)
		gpu_offload_stage_attach(worker->infer, worker->tracker, infer_offset);
	worker->order = base_arena_alloc(worker->arena, sizeof(*worker->order), BASE_CACHE_LINE);
	if (worker->order == NULL)
		return failed(worker, "order check", -ENOMEM);
	worker->order->tracker = worker->tracker;
	worker->order->user_offset = chain_bytes;
	return 0;
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
		error = setup_chain(worker);
	if (error == 0 && config->infer.enabled)
		error = infer_setup(worker);
	if (error == 0)
		error = setup_tracker(worker);
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
	const struct conntrack_stats *stats = &worker->conntrack_stats;
	books->balanced = books->read == out + books->held && books->held == 0 &&
			  stats->inserted == stats->live + stats->expired + stats->closed +
						     stats->evicted + stats->purged;
}

void worker_finish(struct worker *worker)
{
	char message[256];
	if (worker->reframer != NULL)
		reframer_stats(worker->reframer, &worker->reframer_stats);
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
	base_parser_stats(worker->parser, &worker->parse_stats);
	collect_chain(worker);
	settle_books(worker);
	/* The digest counts removed connections: remove them all now. */
	(void)conntrack_purge(worker->tracker, NULL, NULL);
	worker->books.balanced &= infer_settle(worker);
	if (worker->chain != NULL)
		worker->flow_digest = chain_flow_digest(worker->chain);
	int error = worker->sink->ops->finish(worker->sink, worker->message);
	if (error != 0)
		worker->error = error;
}

void worker_destroy(struct worker *worker)
{
	counters_close(&worker->counters);
	if (worker->sink != NULL)
		worker->sink->ops->destroy(worker->sink);
	conntrack_destroy(worker->tracker);
	gpu_offload_stage_destroy(worker->infer);
	chain_destroy(worker->chain);
	reframer_destroy(worker->reframer);
	if (worker->source != NULL)
		worker->source->ops->destroy(worker->source);
	base_parser_destroy(worker->parser);
	if (worker->order != NULL)
		base_arena_free(worker->arena, worker->order, sizeof(*worker->order));
	if (worker->arena != NULL)
		base_arena_destroy(worker->arena);
}
