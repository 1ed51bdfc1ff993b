/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the back end cuda on a TEST DOUBLE of libcuda. */
#pragma once

#include "tests/support/mock_cuda.h"
#include "tests/unit/gpu_offload/kit.h"

enum { IN_FLIGHT = 3, ROWS = 70, BATCHES = 8 };

struct world {
	const char *library, *old_library;
	struct mock_cuda_control *control;
	void *handle;
	uint64_t now_ns, step_ns;
	bool unwatched;
	enum gpu_offload_wait wait;
	int device;
};

struct books {
	struct gpu_offload_batch *batches[BATCHES];
	float *scores[BATCHES];
	bool out[BATCHES]; /* with the back end */
	uint32_t back;
};

/* Arguments of a test: the double, and one that lacks a function. 0, or 2 with a message. */
int cuda_world_open(struct world *world, int argc, char **argv);
void cuda_world_reset(struct world *world);
int cuda_world_backend(struct world *world, const char *name, const struct gpu_offload_model *model,
	enum gpu_offload_cuda_mode mode, struct gpu_offload_backend **backend, char *why);
void cuda_world_assert_all_given_back(const struct mock_cuda_control *control);
void cuda_world_compare(const struct gpu_offload_model *model, struct gpu_offload_batch *batch);
void cuda_world_run_all(struct gpu_offload_backend *backend, const struct gpu_offload_model *model,
	uint64_t seed, struct books *books);
void cuda_world_judge(const struct gpu_offload_model *model, struct books *books, int *failed);
struct gpu_offload_model *cuda_world_model(struct world *world, bool fused);
void cuda_world_find(void *handle, const char *name, void *function);
struct gpu_offload_batch *cuda_world_hand_over(
	struct gpu_offload_backend *backend, const struct gpu_offload_model *model);
int cuda_world_wait_for(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch);
void cuda_world_assert_lost(
	const struct gpu_offload_backend *backend, int expected, const char *expected_text);
