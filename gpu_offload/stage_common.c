/* SPDX-License-Identifier: BSD-2-Clause */
/* About stages, without one: names of actions, sums of statistics, what one will take. */
#include "gpu_offload/batcher_private.h"
#include "gpu_offload/hold.h"
#include "gpu_offload/stage.h"

#include <string.h>

const char *gpu_offload_act_name(enum gpu_offload_act act)
{
	static const char *const names[GPU_OFFLOAD_ACTS_COUNT] = {
		[GPU_OFFLOAD_ACT_NONE] = "none",
		[GPU_OFFLOAD_ACT_MARK] = "mark",
		[GPU_OFFLOAD_ACT_DROP] = "drop",
		[GPU_OFFLOAD_ACT_STEER] = "steer",
	};
	return (unsigned int)act < GPU_OFFLOAD_ACTS_COUNT ? names[act] : "?";
}

static void add_batcher(
	struct gpu_offload_batcher_stats *sum, const struct gpu_offload_batcher_stats *part)
{
	uint64_t waited_max_ns = sum->waited_max_ns;
	uint64_t *into = &sum->in;
	const uint64_t *from = &part->in;
	for (size_t i = 0; i <= offsetof(struct gpu_offload_batcher_stats, waiting) / 8; i++)
		into[i] += from[i];
	sum->waited_max_ns =
		waited_max_ns > part->waited_max_ns ? waited_max_ns : part->waited_max_ns;
	if (sum->limit == 0 || part->limit < sum->limit)
		sum->limit = part->limit;
	if (sum->delay_ns.count == 0)
		base_histogram_reset(&sum->delay_ns);
	base_histogram_merge(&sum->delay_ns, &part->delay_ns);
}

void gpu_offload_stage_stats_add(
	struct gpu_offload_stage_stats *sum, const struct gpu_offload_stage_stats *part)
{
	uint64_t *into = &sum->packets;
	const uint64_t *from = &part->packets;
	for (size_t i = 0; i < offsetof(struct gpu_offload_stage_stats, batcher) / 8; i++)
		into[i] += from[i];
	add_batcher(&sum->batcher, &part->batcher);
}

void gpu_offload_stage_memory(
	const struct gpu_offload_stage_config *config, struct gpu_offload_stage_memory *memory)
{
	const struct gpu_offload_batcher_config *batcher = &config->batcher;
	const uint64_t values = gpu_offload_features_inputs(config->features) * sizeof(float);
	const uint64_t row = values + sizeof(struct gpu_offload_waiting) + sizeof(uint32_t);
	uint64_t batch = row;
	if (config->backend != NULL && strcmp(config->backend, "cuda") == 0)
		batch += values; /* in memory that the device reads */
	memset(memory, 0, sizeof(*memory));
	memory->queue_bytes = batcher->queue_max * row;
	memory->batches_bytes = (uint64_t)batcher->batches_max * batcher->batch_max * batch;
	if (config->hold_ns > 0)
		memory->hold_bytes = (config->hold_packets + (uint64_t)BASE_BURST_MAX) *
				     sizeof(struct gpu_offload_hold_slot);
	memory->verdicts_bytes = config->verdicts_max * GPU_OFFLOAD_VERDICT_BYTES;
}

uint32_t gpu_offload_stage_user_bytes(const struct gpu_offload_stage_config *config)
{
	uint32_t depth = config->depth;
	if (depth == 0)
		depth = gpu_offload_features_depth_default(config->features);
	return gpu_offload_flow_bytes(config->features, depth);
}
