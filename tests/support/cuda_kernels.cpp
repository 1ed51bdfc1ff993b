// SPDX-License-Identifier: BSD-2-Clause
// kernels.cu for the CPU, and what the test double of libcuda calls of it. A TEST DOUBLE.
#include "tests/support/cuda_emulation.hpp"

extern "C" {
#include "tests/support/cuda_kernels.h"
}

#define CUDA_AT(type, address) ((type *)mock_at(address))
extern "C" thread_local __align__(1024) float shared[];
#include "gpu_offload/cuda/kernels.cu"

namespace
{
void run_mlp(const void *arguments)
{
	const kernel_arguments *a = (const kernel_arguments *)arguments;
	sheaf_mlp(a->mlp, a->rows);
}

void run_layer(const void *arguments)
{
	const kernel_arguments *a = (const kernel_arguments *)arguments;
	sheaf_layer(a->layer, a->x, a->second, a->y, a->count);
}

void run_label(const void *arguments)
{
	const kernel_arguments *a = (const kernel_arguments *)arguments;
	sheaf_label(a->x, a->y, a->classes, a->count);
}

void run_persistent(const void *arguments)
{
	const kernel_arguments *a = (const kernel_arguments *)arguments;
	sheaf_persistent(a->mlp, a->x);
}

void run_product(const void *arguments)
{
	const kernel_arguments *a = (const kernel_arguments *)arguments;
	sheaf_product(a->layer, a->x, a->second, a->y, a->count);
}

void (*const kernels[KERNELS])(
	const void *) = { run_mlp, run_layer, run_label, run_persistent, run_product };
} // namespace

void cuda_kernels_run(const kernel_launch *launch, uint64_t seed, void (*wait)(void))
{
	emulation::launch work = {
		kernels[launch->kernel],
		&launch->arguments,
		{ launch->grid_x, launch->grid_y, 1 },
		launch->threads,
		launch->shared_bytes,
		seed,
		wait,
	};
	if (launch->kernel == KERNEL_PERSISTENT)
		emulation::run_at_once(work);
	else
		emulation::run(work);
}
