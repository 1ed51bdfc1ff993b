/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/gpu_offload/kit.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static void *copy(const void *from, size_t size)
{
	void *memory = malloc(size);
	assert_non_null(memory);
	return memcpy(memory, from, size);
}

struct gpu_offload_model *kit_small_model(void)
{
	static const float w1[] = { 1, 2, -1, 3, -1, 1 }, b1[] = { 0, 1, 2 };
	static const float w2[] = { 1, 0, 2, 1, -1, 3 }, b2[] = { 0, -1 };
	static const uint32_t values[] = { 2, 3, 3, 2 };
	const struct layer layers[] = {
		{ .kind = LAYER_DENSE,
			.input = 0,
			.output = 1,
			.dense = { 1, 2, 3, copy(w1, sizeof(w1)), copy(b1, sizeof(b1)), false } },
		{ .kind = LAYER_RELU, .input = 1, .output = 2 },
		{ .kind = LAYER_DENSE,
			.input = 2,
			.output = 3,
			.dense = { 1, 3, 2, copy(w2, sizeof(w2)), copy(b2, sizeof(b2)), false } },
	};
	const struct gpu_offload_model model = {
		.inputs = 2,
		.classes = 2,
		.layers_count = 3,
		.values_count = 4,
		.result = 3,
		.values = copy(values, sizeof(values)),
		.layers = copy(layers, sizeof(layers)),
	};
	return copy(&model, sizeof(model));
}

struct gpu_offload_batch *kit_batch(const struct gpu_offload_model *model, uint32_t count)
{
	size_t size = (size_t)count * gpu_offload_model_inputs(model) * sizeof(float);
	struct gpu_offload_batch *batch = calloc(1, sizeof(*batch));
	assert_non_null(batch);
	batch->count = count;
	batch->inputs = aligned_alloc(GPU_OFFLOAD_INPUT_ALIGNMENT, (size + 63) / 64 * 64);
	batch->labels = calloc(count, sizeof(uint32_t));
	batch->scores = calloc((size_t)count * gpu_offload_model_classes(model), sizeof(float));
	assert_true(batch->inputs != NULL && batch->labels != NULL && batch->scores != NULL);
	memset(kit_inputs(batch), 0, size);
	return batch;
}

float *kit_inputs(struct gpu_offload_batch *batch)
{
	return (float *)batch->inputs;
}

void kit_fill(struct gpu_offload_batch *batch, const struct gpu_offload_model *model, float reach,
	uint64_t seed)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	size_t count = (size_t)batch->count * gpu_offload_model_inputs(model);
	for (size_t i = 0; i < count; i++)
		kit_inputs(batch)[i] = (float)((2 * base_rng_unit(&rng) - 1) * (double)reach);
}

void kit_batch_free(struct gpu_offload_batch *batch)
{
	free(kit_inputs(batch));
	free(batch->labels);
	free(batch->scores);
	free(batch);
}

struct gpu_offload_backend *kit_backend(
	const struct gpu_offload_model *model, const char *name, uint32_t rows_max)
{
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = rows_max,
		.batches_max = 2,
	};
	if (gpu_offload_backend_create(&backend, name, &config, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	return backend;
}

void kit_run(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct gpu_offload_batch *done;
	assert_int_equal(gpu_offload_backend_submit(backend, batch), 0);
	while (gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	assert_ptr_equal(done, batch);
	assert_int_equal(batch->status, 0);
}
