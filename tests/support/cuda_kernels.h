/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the test double of libcuda: a kernel's launch, and kernels.cu run by the CPU. */
#pragma once

#include <stdint.h>

/* What a kernel may follow: device memory, or pinned host memory. */
void *mock_at(uint64_t address);
#ifndef CUDA_AT
#define CUDA_AT(type, address) ((type *)mock_at(address))
#endif
#include "gpu_offload/cuda/device.h"

enum kernel { KERNEL_MLP, KERNEL_LAYER, KERNEL_LABEL, KERNEL_PERSISTENT, KERNEL_PRODUCT, KERNELS };

/* Of all kernels; each uses its own. */
struct kernel_arguments {
	struct cuda_mlp mlp;
	struct cuda_rows rows;
	struct cuda_layer layer;
	uint64_t x, second, y; /* scores and labels of KERNEL_LABEL are x and y; the ring is x */
	uint32_t classes, count;
};

struct kernel_launch {
	enum kernel kernel;
	unsigned int grid_x, grid_y, threads, shared_bytes;
	struct kernel_arguments arguments;
};

/*
 * Runs kernels.cu itself, compiled for the CPU (cuda_emulation.hpp): all blocks of a launch. seed:
 * of the order of its threads. wait: called wherever a kernel looks at memory that others write;
 * NULL: nothing. Ends the program with a line when the kernel does what no GPU would forgive.
 */
void cuda_kernels_run(const struct kernel_launch *launch, uint64_t seed, void (*wait)(void));
