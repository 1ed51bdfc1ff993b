/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/infer.h"

#include "base/cycles.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void infer_defaults(struct pipeline_infer *infer)
{
	infer->stage.features = GPU_OFFLOAD_SPI30;
	infer->stage.backend = "auto";
	infer->stage.hold_packets = 4096;
	infer->short_packets = 1;
	infer->stage.batcher.batch_max = 256;
	infer->stage.batcher.batches_max = 4;
	infer->stage.batcher.queue_max = 4096;
	infer->stage.batcher.delay_ns = 1000000;
	infer->stage.batcher.service_ns = 100000;
	infer->stage.server.watchdog_ns = UINT64_C(10000000000);
}

static int refuse(char *message, const char *what)
{
	snprintf(message, PIPELINE_MESSAGE_SIZE, "infer: %s", what);
	return -EINVAL;
}

int infer_check(const struct pipeline_config *config, char *message)
{
	const struct pipeline_infer *infer = &config->infer;
	const struct gpu_offload_batcher_config *batcher = &infer->stage.batcher;
	if (!infer->enabled)
		return 0;
	if (infer->model == NULL)
		return refuse(message, "got no model, expected model=FILE");
	if (batcher->queue_max < batcher->batch_max)
		return refuse(message, "queue: expected at least batch");
	uint32_t depth = infer->stage.depth;
	if (depth == 0)
		depth = gpu_offload_features_depth_default(infer->stage.features);
	uint32_t depth_max = gpu_offload_features_depth_max(infer->stage.features);
	if (depth > depth_max) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"infer: depth: got '%" PRIu32 "', expected 1..%" PRIu32 " for %s", depth,
			depth_max, gpu_offload_features_name(infer->stage.features));
		return -EINVAL;
	}
	if (infer->short_flows == PIPELINE_SHORT_CLASSIFY && infer->short_packets > depth)
		return refuse(message, "min: expected at most depth");
	for (uint32_t i = 0; i < batcher->preferred_count; i++) {
		if (batcher->preferred[i] > batcher->batch_max)
			return refuse(message, "preferred: expected sizes up to batch");
	}
	if (infer->verdicts != NULL && config->repeats != 1)
		return refuse(message, "verdicts: expected --repeat 1 when they go to a file");
	double most_ns = (double)batcher->delay_ns;
	most_ns = (double)batcher->service_ns > most_ns ? (double)batcher->service_ns : most_ns;
	most_ns = (double)batcher->objective_ns > most_ns ? (double)batcher->objective_ns : most_ns;
	most_ns = (double)infer->stage.deadline_ns > most_ns ? (double)infer->stage.deadline_ns
							     : most_ns;
	most_ns = (double)infer->stage.hold_ns > most_ns ? (double)infer->stage.hold_ns : most_ns;
	if (most_ns * config->speed > 1e18)
		return refuse(message, "a time * speed is more than 30 years");
	return 0;
}

enum pipeline_exit infer_load(struct gpu_offload_model **model,
	const struct pipeline_config *config, struct pipeline_result *result)
{
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	*model = NULL;
	if (!config->infer.enabled)
		return PIPELINE_EXIT_OK;
	if (gpu_offload_model_load(model, config->infer.model, why, sizeof(why)) == 0)
		return PIPELINE_EXIT_OK;
	*model = NULL;
	snprintf(result->message, sizeof(result->message), "%s", why);
	return PIPELINE_EXIT_INPUT;
}

static bool steer(void *context, uint32_t conn, uint32_t value)
{
	struct worker *worker = context;
	return chain_steer(worker->chain, conn, &worker->steering[value]);
}

/* Names of backends to their places. */
static int find_targets(struct worker *worker, const struct pipeline_infer *infer)
{
	for (uint32_t i = 0; i < infer->stage.actions_count; i++) {
		const struct gpu_offload_action *action = &infer->stage.actions[i];
		if (action->act != GPU_OFFLOAD_ACT_STEER)
			continue;
		const char *name = infer->targets[action->value];
		if (worker->chain != NULL && chain_target_find(worker->chain, name,
						     &worker->steering[action->value]) == 0)
			continue;
		snprintf(worker->message, sizeof(worker->message),
			"infer: steer: got '%.64s', expected a backend of the chain's lb", name);
		return -EINVAL;
	}
	return 0;
}

static uint64_t times(uint64_t ns, double speed)
{
	return (uint64_t)((double)ns * speed + 0.5);
}

/* Of the watchdog. */
static uint64_t wall_ns(void *shared)
{
	const struct worker_shared *run = shared;
	return (uint64_t)((double)base_cycles() / run->tsc_hz * 1e9);
}

int infer_setup(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	struct gpu_offload_stage_config stage = config->infer.stage;
	char why[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	int error = find_targets(worker, &config->infer);
	if (error == 0) {
		stage.model = worker->shared->model;
		stage.server.clock_ns = wall_ns;
		stage.server.clock = worker->shared;
		stage.arena = worker->arena;
		stage.worker = worker->index;
		stage.short_packets = config->infer.short_flows == PIPELINE_SHORT_CLASSIFY
					      ? config->infer.short_packets
					      : 0;
		stage.steer = steer;
		stage.steer_context = worker;
		stage.verdicts_max = config->infer.verdicts != NULL ? INFER_VERDICTS_MAX : 0;
		stage.no_runs = config->ablations & PIPELINE_ABLATE_RUNS;
		stage.hold_ns = times(stage.hold_ns, config->speed);
		stage.deadline_ns = times(stage.deadline_ns, config->speed);
		stage.batcher.delay_ns = times(stage.batcher.delay_ns, config->speed);
		stage.batcher.objective_ns = times(stage.batcher.objective_ns, config->speed);
		stage.batcher.service_ns = config->clock == PIPELINE_CLOCK_VIRTUAL
						   ? times(stage.batcher.service_ns, config->speed)
						   : GPU_OFFLOAD_SERVICE_REAL;
		error = gpu_offload_stage_create(&worker->infer, &stage, why, sizeof(why));
		if (error != 0)
			snprintf(worker->message, sizeof(worker->message), "infer: %s", why);
	}
	worker->error = error;
	if (error == 0)
		snprintf(worker->infer_note, sizeof(worker->infer_note), "%s", why);
	return error;
}

bool infer_settle(struct worker *worker)
{
	const struct gpu_offload_stage_stats *stats = &worker->infer_stats;
	if (worker->infer == NULL)
		return true;
	gpu_offload_stage_finish(worker->infer, worker->now_ns); /* flows that were open so long */
	gpu_offload_stage_stats(worker->infer, &worker->infer_stats);
	(void)gpu_offload_stage_lost(worker->infer, worker->infer_lost, sizeof(worker->infer_lost));
	const struct gpu_offload_batcher_stats *batcher = &stats->batcher;
	uint64_t ended = batcher->answered + batcher->rejected + batcher->expired + batcher->failed;
	return batcher->waiting == 0 && batcher->in == ended && stats->asked == batcher->in &&
	       stats->flows == stats->asked + stats->too_short &&
	       ended == stats->applied + stats->given_up + stats->stale + stats->ended &&
	       stats->held_packets == stats->held_answered + stats->held_bound +
					      stats->held_pressed + stats->held_orphaned;
}

/* All workers' verdicts, one worker behind the other; NULL when out of memory. */
static struct gpu_offload_verdict *join(
	const struct worker *workers, uint32_t workers_count, size_t *size)
{
	const struct gpu_offload_verdict *part;
	uint64_t count, sum = 0;
	for (uint32_t i = 0; i < workers_count; i++) {
		(void)gpu_offload_stage_verdicts(workers[i].infer, &count);
		sum += count;
	}
	struct gpu_offload_verdict *all = malloc(sum * sizeof(*all) + 1);
	uint64_t used = 0;
	for (uint32_t i = 0; i < workers_count && all != NULL; i++, used += count) {
		part = gpu_offload_stage_verdicts(workers[i].infer, &count);
		if (count > 0)
			memcpy(all + used, part, count * sizeof(*all));
	}
	*size = sum * sizeof(*all);
	return all;
}

int infer_verdicts_write(
	const struct worker *workers, const struct pipeline_config *config, char *message)
{
	size_t size;
	struct gpu_offload_verdict *all = join(workers, config->workers, &size);
	int error = all == NULL ? -ENOMEM : traces_file_save(config->infer.verdicts, all, size);
	free(all);
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%.900s: %s", config->infer.verdicts,
			strerror(-error));
	return error;
}
