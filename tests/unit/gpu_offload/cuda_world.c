/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/gpu_offload/cuda_world.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t world_clock(void *clock)
{
	struct world *world = clock;
	world->now_ns += world->step_ns;
	return world->now_ns;
}

void cuda_world_find(void *handle, const char *name, void *function)
{
	void *address = dlsym(handle, name);
	if (address == NULL)
		abort();
	memcpy(function, &address, sizeof(address));
}

/* The double as it is when it was just loaded. */
void cuda_world_reset(struct world *world)
{
	*world->control = (struct mock_cuda_control){
		.version = 13000, .devices = 1, .processors = 132, .shared_bytes = 232448
	};
	world->now_ns = 0;
	world->step_ns = 1;
}

int cuda_world_backend(struct world *world, const char *name, const struct gpu_offload_model *model,
	enum gpu_offload_cuda_mode mode, struct gpu_offload_backend **backend, char *why)
{
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = ROWS,
		.batches_max = IN_FLIGHT,
		.cuda_mode = mode,
		.cuda_wait = world->wait,
		.cuda_library = world->library,
		.cuda_device = world->device,
		.clock_ns = world->unwatched ? NULL : world_clock,
		.clock = world,
		.watchdog_ns = UINT64_C(1000000000000), /* of a clock that ticks at each look */
	};
	return gpu_offload_backend_create(backend, name, &config, why, GPU_OFFLOAD_MESSAGE_SIZE);
}

void cuda_world_assert_all_given_back(const struct mock_cuda_control *control)
{
	assert_int_equal(control->live_device, 0);
	assert_int_equal(control->live_host, 0);
	assert_int_equal(control->live_streams, 0);
	assert_int_equal(control->live_events, 0);
	assert_int_equal(control->live_graphs, 0);
	assert_int_equal(control->live_modules, 0);
	assert_int_equal(control->live_contexts, 0);
	assert_int_equal(control->live_registered, 0);
}

void cuda_world_compare(const struct gpu_offload_model *model, struct gpu_offload_batch *batch)
{
	struct gpu_offload_backend *oracle = kit_backend(model, "cpu-ref", ROWS);
	struct gpu_offload_batch *expected = kit_batch(model, batch->count);
	uint32_t classes = gpu_offload_model_classes(model);
	memcpy(kit_inputs(expected), batch->inputs,
		(size_t)batch->count * gpu_offload_model_inputs(model) * sizeof(float));
	kit_run(oracle, expected);
	for (uint32_t i = 0; i < batch->count * classes && batch->scores != NULL; i++)
		assert_true(gpu_offload_scores_close(batch->scores[i], expected->scores[i]));
	for (uint32_t r = 0; r < batch->count; r++) {
		const float *scores = expected->scores + (size_t)r * classes;
		assert_true(gpu_offload_scores_close(
			scores[batch->labels[r]], scores[expected->labels[r]]));
	}
	kit_batch_free(expected);
	gpu_offload_backend_destroy(oracle);
}

static void take_back(struct books *books, struct gpu_offload_backend *backend)
{
	struct gpu_offload_batch *done[IN_FLIGHT];
	uint32_t count = gpu_offload_backend_poll(backend, done, IN_FLIGHT);
	for (uint32_t i = 0; i < count; i++) {
		size_t at = 0;
		while (at < BATCHES && books->batches[at] != done[i])
			at++;
		assert_in_range(at, 0, BATCHES - 1);
		assert_true(books->out[at]); /* once */
		books->out[at] = false;
		books->back++;
	}
}

/* All batches through; every one comes back once, with 0 or an error that is known. */
void cuda_world_run_all(struct gpu_offload_backend *backend, const struct gpu_offload_model *model,
	uint64_t seed, struct books *books)
{
	static const uint32_t counts[BATCHES] = { 1, ROWS, 33, 32, 2, 64, 5, 31 };
	*books = (struct books){ 0 };
	for (int i = 0; i < BATCHES; i++) {
		books->batches[i] = kit_batch(model, counts[i]);
		books->scores[i] = books->batches[i]->scores;
		kit_fill(books->batches[i], model, 2, seed + (uint64_t)i);
		if (i % 3 == 2)
			books->batches[i]->scores = NULL;
		int error;
		while ((error = gpu_offload_backend_submit(backend, books->batches[i])) == -EAGAIN)
			take_back(books, backend);
		assert_int_equal(error, 0);
		books->out[i] = true;
	}
	while (books->back < BATCHES) {
		gpu_offload_backend_wait(backend);
		take_back(books, backend);
	}
}

void cuda_world_judge(const struct gpu_offload_model *model, struct books *books, int *failed)
{
	for (int i = 0; i < BATCHES; i++) {
		struct gpu_offload_batch *batch = books->batches[i];
		if (batch->status == 0) {
			cuda_world_compare(model, batch);
		} else {
			assert_true(batch->status == -EIO || batch->status == -ENOMEM ||
				    batch->status == -ETIMEDOUT);
			*failed = batch->status;
		}
		batch->scores = books->scores[i];
		kit_batch_free(batch);
	}
}

/* A model that is fused and one that is not. */
struct gpu_offload_model *cuda_world_model(struct world *world, bool fused)
{
	const uint32_t widths[] = { 9, 40, 7 };
	struct gpu_offload_model *model;
	assert_int_equal(gpu_offload_model_create_mlp(&model, widths, 3, 3), 0);
	world->control->shared_bytes = fused ? 232448 : 1000;
	return model;
}

/* One batch that is handed over and not waited for. */
struct gpu_offload_batch *cuda_world_hand_over(
	struct gpu_offload_backend *backend, const struct gpu_offload_model *model)
{
	struct gpu_offload_batch *batch = kit_batch(model, ROWS);
	assert_int_equal(gpu_offload_backend_submit(backend, batch), 0);
	return batch;
}

int cuda_world_wait_for(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct gpu_offload_batch *done;
	while (gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	assert_ptr_equal(done, batch);
	int status = batch->status;
	kit_batch_free(batch);
	return status;
}

void cuda_world_assert_lost(
	const struct gpu_offload_backend *backend, int expected, const char *expected_text)
{
	char text[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	assert_int_equal(gpu_offload_backend_lost(backend, text, sizeof(text)), expected);
	assert_string_equal(text, expected_text);
}

int cuda_world_open(struct world *world, int argc, char **argv)
{
	*world = (struct world){ .library = argc > 2 ? argv[1] : "",
		.old_library = argc > 2 ? argv[2] : "" };
	world->handle = dlopen(world->library, RTLD_NOW);
	if (world->handle == NULL) {
		print_message("usage: %s DOUBLE OLD_DOUBLE\n", argv[0]);
		return 2;
	}
	struct mock_cuda_control *(*control)(void);
	cuda_world_find(world->handle, "mock_cuda_control", &control);
	world->control = control();
	return 0;
}
