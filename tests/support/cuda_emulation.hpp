// SPDX-License-Identifier: BSD-2-Clause
/*
 * A TEST DOUBLE of the CUDA device language: kernels.cu, the very file, compiled for the CPU.
 * Nothing that runs this way ran on a GPU, and no time of it means anything.
 *
 * Blocks run one after the other, or, where a kernel stays, each on a thread of its own. The
 * threads of a block are fibers that take turns in an order drawn anew between two barriers, so
 * that what a barrier should have kept apart comes in the wrong order sooner or later. What a GPU
 * would answer with silence ends the program here, with a line:
 *
 *	a __syncthreads() that some of a block's threads do not reach, or another one than the rest
 *	a warp's collective operation that some of its lanes do not reach, or at another address
 *	memory past the end of what the launch asked for (with AddressSanitizer at once, else when
 *	the block ends), and shared memory that is read before it is written is NaN
 *	matrices of wmma that are not aligned as they must be
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what runs ---------------------------------------------------------------------------- */

namespace emulation
{
struct dim {
	unsigned int x, y, z;
};

struct launch {
	void (*run)(const void *arguments); /* one thread of the kernel */
	const void *arguments;
	dim grid;
	unsigned int threads, shared_bytes;
	uint64_t seed; /* of the order in which threads take turns */
	/* Called where a kernel waits for something outside; NULL: nothing. */
	void (*wait)();
};

enum { SHARED_BYTES_MAX = 232448, WARP = 32 };

/* All blocks, one after the other. */
void run(const launch &launch);
/* All blocks at once, each on a thread; comes back when all have ended. */
void run_at_once(const launch &launch);

/* What a kernel's code uses. Each is about the thread that runs now. */
const dim &thread_index();
const dim &block_index();
const dim &grid_size();
const dim &block_size();
void block_barrier(int line);
void sleep();
void look();

/* All lanes of a warp meet with a pointer each; the last to come does it for all. */
using meeting = void (*)(void *const lanes[WARP]);
void warp_meet(int operation, const void *same, void *mine, meeting meeting);
unsigned int lane();
[[noreturn]] void refuse(const char *what);
} // namespace emulation

/* ---- the language ------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __shared__   thread_local
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define threadIdx              emulation::thread_index()
#define blockIdx               emulation::block_index()
#define gridDim                emulation::grid_size()
#define blockDim               emulation::block_size()
#define __syncthreads()        emulation::block_barrier(__LINE__)
#define __nanosleep(ns)        ((void)(ns), emulation::sleep())
#define __threadfence_system() __atomic_signal_fence(__ATOMIC_SEQ_CST)

struct alignas(16) float4 {
	float x, y, z, w;
};

struct alignas(8) float2 {
	float x, y;
};

static inline uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}
