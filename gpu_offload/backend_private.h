/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to gpu_offload/: what every back end begins with. */
#pragma once

#include "gpu_offload/backend.h"

struct gpu_offload_backend {
	const struct gpu_offload_backend_ops *ops;
	struct gpu_offload_backend_config config;
};

extern const struct gpu_offload_backend_ops backend_cpu_ref;
extern const struct gpu_offload_backend_ops backend_cpu;
extern const struct gpu_offload_backend_ops backend_cuda;

struct cpu_kernels;
/* Kernels of the back end cpu, the best first, whether this machine has them or not; NULL: none. */
const struct cpu_kernels *cpu_kernels_nth(size_t index);
/* The back end cpu with kernels that the caller found usable. */
int backend_cpu_create_with(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, const struct cpu_kernels *kernels,
	char text[], size_t size);

/*
 * Batches that are done and wait for poll, in order; for back ends that compute within submit.
 */
struct backend_done {
	struct gpu_offload_batch *batches[GPU_OFFLOAD_BATCHES_MAX];
	uint32_t head, count;
};

/* Room for another one, of a config's batches_max? */
static inline bool backend_done_full(const struct backend_done *done, uint32_t batches_max)
{
	return done->count == batches_max;
}

static inline void backend_done_push(struct backend_done *done, struct gpu_offload_batch *batch)
{
	done->batches[(done->head + done->count++) % GPU_OFFLOAD_BATCHES_MAX] = batch;
}

static inline uint32_t backend_done_pop(
	struct backend_done *done, struct gpu_offload_batch *batches[], uint32_t max)
{
	uint32_t count = done->count < max ? done->count : max;
	for (uint32_t i = 0; i < count; i++)
		batches[i] = done->batches[(done->head + i) % GPU_OFFLOAD_BATCHES_MAX];
	done->head = (done->head + count) % GPU_OFFLOAD_BATCHES_MAX;
	done->count -= count;
	return count;
}
