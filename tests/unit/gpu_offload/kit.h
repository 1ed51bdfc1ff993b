/* SPDX-License-Identifier: BSD-2-Clause */
/* Models made by hand and batches of rows, for the tests of back ends. */
#pragma once

#include "gpu_offload/backend.h"
#include "gpu_offload/layers.h"

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* 2 inputs, Dense of 3, Relu, Dense of 2: weights are whole numbers. */
struct gpu_offload_model *kit_small_model(void);

/* An empty batch of `count` rows with room for scores. */
struct gpu_offload_batch *kit_batch(const struct gpu_offload_model *model, uint32_t count);
float *kit_inputs(struct gpu_offload_batch *batch);
/* Inputs from -reach to reach. */
void kit_fill(struct gpu_offload_batch *batch, const struct gpu_offload_model *model, float reach,
	uint64_t seed);
void kit_batch_free(struct gpu_offload_batch *batch);

/* Fails when the back end cannot be made. */
struct gpu_offload_backend *kit_backend(
	const struct gpu_offload_model *model, const char *name, uint32_t rows_max);
/* Submit, and poll until it is back; status is 0. */
void kit_run(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch);
