/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A TEST DOUBLE of libcuda, as a shared object of its own. No result of it is a GPU's.
 *
 * It computes what the kernels would in plain C, and is strict where a driver would be: device
 * addresses point to memory that traps when the host touches it, copies and launches must stay
 * inside live allocations, work happens only when its stream gets its turn, and batches finish late
 * and out of order when told so. Tests reach the controls with dlsym("mock_cuda_control"); programs
 * with the environment: MOCK_CUDA_FAIL=function:calls:error (calls of it that still work),
 * MOCK_CUDA_WRONG=1, MOCK_CUDA_HANG=batches (that are still done), MOCK_CUDA_VERSION=11080.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mock_cuda_control {
	int version, devices, processors, shared_bytes;
	const char *fail_function; /* "cuMemAlloc_v2"; NULL: none */
	uint32_t fail_after;       /* calls of it that still work */
	int fail_result;
	uint32_t delay_max; /* queries that an event says "not ready" to, at random up to this */
	uint64_t seed;
	_Atomic bool hang;   /* nothing that was started ends */
	uint32_t hang_after; /* it hangs behind so many batches less one; 0: never */
	_Atomic bool quit;   /* the kernel that stays ends without having been told to */
	bool wrong;          /* scores are off by one */
	/* What is there, to be zero when all was given back. */
	uint32_t live_device, live_host, live_streams, live_events, live_graphs, live_modules,
		live_contexts, live_registered;
	uint64_t launches, graph_launches,
		reordered; /* events that were overtaken by a later one */
};

/* The controls; what happens at random begins anew, by their seed. */
struct mock_cuda_control *mock_cuda_control(void);
