/* SPDX-License-Identifier: BSD-2-Clause */
/* What a stage will take, before it does. */
#include "gpu_offload/batcher_private.h"
#include "gpu_offload/hold.h"
#include "gpu_offload/stage.h"

#include <string.h>

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
