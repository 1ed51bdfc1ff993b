/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kernels.cu itself, compiled for the CPU, under the TEST DOUBLE of libcuda: launches as program.c
 * makes them, results as cpu-ref says. No GPU is involved. Argument: the double that emulates.
 */
#include "tests/support/mock_cuda.h"
#include "tests/unit/gpu_offload/kit.h"

#include "base/compiler.h"
#include "base/rng.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROCESSORS = 6, IN_FLIGHT = 2, ROWS = 300, LAYERS = 5 };

struct world {
	const char *library;
	struct mock_cuda_control *control;
	uint64_t seed;
	struct base_rng rng;
};

static uint32_t below(struct world *world, uint32_t end)
{
	return (uint32_t)base_rng_below(&world->rng, end);
}

/* One of the sizes that have an edge, or any. */
static uint32_t draw_rows(struct world *world)
{
	static const uint32_t edges[] = { 1, 2, 31, 32, 33, 64, 127, 128, 129, 32 * PROCESSORS,
		32 * PROCESSORS + 1, ROWS };
	uint32_t which = below(world, 2 * BASE_ARRAY_COUNT(edges));
	return which < BASE_ARRAY_COUNT(edges) ? edges[which] : 1 + below(world, ROWS);
}

static uint32_t draw_width(struct world *world)
{
	static const uint32_t edges[] = { 1, 2, 3, 4, 5, 16, 31, 32, 33, 64, 65, 128, 129 };
	uint32_t which = below(world, 2 * BASE_ARRAY_COUNT(edges));
	return which < BASE_ARRAY_COUNT(edges) ? edges[which] : 1 + below(world, 140);
}

static struct gpu_offload_model *draw_mlp(struct world *world, char *text, size_t size)
{
	struct gpu_offload_model *model;
	uint32_t widths[LAYERS + 1], count = 2 + below(world, LAYERS);
	int used = snprintf(text, size, "perceptron");
	for (uint32_t i = 0; i < count; i++) {
		widths[i] = draw_width(world);
		used += snprintf(text + used, size - (size_t)used, " %u", widths[i]);
	}
	assert_int_equal(
		gpu_offload_model_create_mlp(&model, widths, count, base_rng_u64(&world->rng)), 0);
	return model;
}

/* Some numbers that are none, and some that make others overflow. */
static void spoil(struct world *world, struct gpu_offload_batch *batch, uint32_t inputs)
{
	static const float values[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-40f };
	uint32_t count = below(world, 4);
	for (uint32_t i = 0; i < count; i++)
		kit_inputs(batch)[below(world, batch->count * inputs)] =
			values[below(world, BASE_ARRAY_COUNT(values))];
}

static void assert_equal(const struct gpu_offload_model *model, const struct gpu_offload_batch *got,
	const struct gpu_offload_batch *expected, const char *text)
{
	uint32_t classes = gpu_offload_model_classes(model);
	assert_int_equal(got->status, 0);
	for (uint32_t r = 0; r < got->count; r++) {
		const float *scores = expected->scores + (size_t)r * classes;
		for (uint32_t c = 0; c < classes && got->scores != NULL; c++) {
			float score = got->scores[(size_t)r * classes + c];
			if (!gpu_offload_scores_close(score, scores[c]))
				fail_msg("%s: row %u of %u, score %u: got %g, expected %g", text, r,
					got->count, c, (double)score, (double)scores[c]);
		}
		if (got->labels[r] != expected->labels[r] &&
			(got->labels[r] >= classes ||
				!gpu_offload_scores_close(
					scores[got->labels[r]], scores[expected->labels[r]])))
			fail_msg("%s: row %u of %u: got label %u, expected %u", text, r, got->count,
				got->labels[r], expected->labels[r]);
	}
}

/* Two batches in flight, then the next two; each as cpu-ref has it. */
static void run_batches(struct world *world, const struct gpu_offload_model *model,
	struct gpu_offload_backend *cuda, const char *text)
{
	struct gpu_offload_backend *oracle = kit_backend(model, "cpu-ref", ROWS);
	for (int round = 0; round < 2; round++) {
		struct gpu_offload_batch *batches[IN_FLIGHT], *done[IN_FLIGHT];
		float *scores[IN_FLIGHT];
		uint32_t back = 0;
		for (int i = 0; i < IN_FLIGHT; i++) {
			batches[i] = kit_batch(model, draw_rows(world));
			kit_fill(batches[i], model, 2, base_rng_u64(&world->rng));
			spoil(world, batches[i], gpu_offload_model_inputs(model));
			scores[i] = batches[i]->scores;
			if (below(world, 3) == 0)
				batches[i]->scores = NULL;
			assert_int_equal(gpu_offload_backend_submit(cuda, batches[i]), 0);
		}
		while (back < IN_FLIGHT)
			back += gpu_offload_backend_poll(cuda, done, IN_FLIGHT);
		for (int i = 0; i < IN_FLIGHT; i++) {
			struct gpu_offload_batch *expected = kit_batch(model, batches[i]->count);
			memcpy(kit_inputs(expected), batches[i]->inputs,
				(size_t)expected->count * gpu_offload_model_inputs(model) *
					sizeof(float));
			kit_run(oracle, expected);
			assert_equal(model, batches[i], expected, text);
			kit_batch_free(expected);
			batches[i]->scores = scores[i];
			kit_batch_free(batches[i]);
		}
	}
	gpu_offload_backend_destroy(oracle);
}

static void run_model(struct world *world, const struct gpu_offload_model *model,
	enum gpu_offload_cuda_mode mode, const char *what, char *text)
{
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = ROWS,
		.batches_max = IN_FLIGHT,
		.cuda_mode = mode,
		.cuda_library = world->library,
	};
	world->control->seed = base_rng_u64(&world->rng);
	if (gpu_offload_backend_create(&backend, "cuda", &config, why, sizeof(why)) != 0)
		fail_msg("%s: %s", text, why);
	assert_non_null(strstr(why, "TEST DOUBLE"));
	if (strstr(why, what) == NULL)
		fail_msg("%s: got '%s', expected '%s'", text, why, what);
	run_batches(world, model, backend, text);
	gpu_offload_backend_destroy(backend);
}

/* A test begins with the seed that was printed. */
static void reset(struct world *world, int shared_bytes)
{
	*world->control = (struct mock_cuda_control){ .version = 13000,
		.devices = 1,
		.processors = PROCESSORS,
		.shared_bytes = shared_bytes };
	base_rng_seed(&world->rng, world->seed);
}

static void fused_perceptrons_agree(void **state)
{
	struct world *world = *state;
	reset(world, 232448);
	for (int i = 0; i < 24; i++) {
		char text[128];
		struct gpu_offload_model *model = draw_mlp(world, text, sizeof(text));
		run_model(world, model,
			i % 2 == 0 ? GPU_OFFLOAD_CUDA_LAUNCH : GPU_OFFLOAD_CUDA_GRAPH, "fused",
			text);
		gpu_offload_model_destroy(model);
	}
}

static void persistent_perceptrons_agree(void **state)
{
	struct world *world = *state;
	reset(world, 232448);
	for (int i = 0; i < 8; i++) {
		char text[128];
		struct gpu_offload_model *model = draw_mlp(world, text, sizeof(text));
		run_model(world, model, GPU_OFFLOAD_CUDA_PERSISTENT, "fused", text);
		gpu_offload_model_destroy(model);
	}
}

static void layers_agree(void **state)
{
	struct world *world = *state;
	reset(world, 64);
	for (int i = 0; i < 8; i++) {
		char text[128];
		struct gpu_offload_model *model = draw_mlp(world, text, sizeof(text));
		run_model(world, model,
			i % 2 == 0 ? GPU_OFFLOAD_CUDA_LAUNCH : GPU_OFFLOAD_CUDA_GRAPH,
			"layer by layer", text);
		gpu_offload_model_destroy(model);
	}
}

int main(int argc, char **argv)
{
	struct world world = { .library = argc > 1 ? argv[1] : "" };
	struct mock_cuda_control *(*control)(void);
	void *handle = dlopen(world.library, RTLD_NOW);
	void *address = handle == NULL ? NULL : dlsym(handle, "mock_cuda_control");
	if (address == NULL) {
		print_message("usage: %s DOUBLE [SEED]: %s\n", argv[0], dlerror());
		return 2;
	}
	memcpy(&control, &address, sizeof(address));
	world.control = control();
	world.seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	print_message("seed %lu\n", (unsigned long)world.seed);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(fused_perceptrons_agree, &world),
		cmocka_unit_test_prestate(persistent_perceptrons_agree, &world),
		cmocka_unit_test_prestate(layers_agree, &world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
