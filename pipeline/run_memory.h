/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run will need, before it takes it. Pure, but for the check, which asks the machine. */
#pragma once

#include "pipeline/memory.h"
#include "pipeline/pipeline.h"

/* DPDK memory of all workers: packet buffers, route tables, rule tables, connection tables.
 * frame_max: bytes of the longest frame. page_bytes: of the pages that buffers will lie on. */
uint64_t run_memory_dpdk_bytes(
	const struct pipeline_config *config, uint64_t frame_max, uint64_t page_bytes);

/*
 * All that grows with an option, over all workers: connections, features, the stage for inference,
 * packet buffers. packets: that the run can see, UINT64_MAX when not known. Weights of a model (64
 * MiB at most for each worker) and what a GPU's driver takes for itself are not in it. Returns the
 * number of parts, at most PIPELINE_MEMORY_PARTS_MAX.
 */
size_t run_memory_parts(struct pipeline_memory_part parts[], const struct pipeline_config *config,
	uint64_t frame_max, uint64_t page_bytes, uint64_t packets);
