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

enum { PROCESSORS = 6, IN_FLIGHT = 2, ROWS = 300, LAYERS = 5, WEIGHTS_MAX = 44000 };

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

/* One whose weights fit into shared memory. */
static struct gpu_offload_model *draw_mlp(struct world *world, char *text, size_t size)
{
	struct gpu_offload_model *model;
	uint32_t widths[LAYERS + 1], wanted = 2 + below(world, LAYERS), count = 0, weights = 0;
	int used = snprintf(text, size, "perceptron");
	while (count < wanted) {
		uint32_t width = draw_width(world);
		weights += count == 0 ? 0 : (widths[count - 1] + 1) * (width + 3);
		if (weights > WEIGHTS_MAX)
			break;
		widths[count++] = width;
		used += snprintf(text + used, size - (size_t)used, " %u", width);
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
	enum gpu_offload_cuda_mode mode, enum gpu_offload_cuda_kernels kernels, const char *what,
	char *text)
{
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = ROWS,
		.batches_max = IN_FLIGHT,
		.cuda_mode = mode,
		.cuda_kernels = kernels,
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
			i % 2 == 0 ? GPU_OFFLOAD_CUDA_LAUNCH : GPU_OFFLOAD_CUDA_GRAPH,
			GPU_OFFLOAD_CUDA_BEST, "fused", text);
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
		run_model(world, model, GPU_OFFLOAD_CUDA_PERSISTENT, GPU_OFFLOAD_CUDA_BEST, "fused",
			text);
		gpu_offload_model_destroy(model);
	}
}

/* Random weights, of a size that keeps sums near 1. */
static float *draw_weights(struct world *world, size_t count, uint32_t depth)
{
	float *weights = malloc(count * sizeof(*weights));
	assert_non_null(weights);
	for (size_t i = 0; i < count; i++)
		weights[i] = (float)((2 * base_rng_unit(&world->rng) - 1) * 2 / sqrt(depth));
	return weights;
}

static struct layer_axis draw_axis(struct world *world, uint32_t in)
{
	struct layer_axis axis = { .in = in, .dilation = 1 + below(world, 2) };
	axis.kernel = 1 + below(world, in < 3 ? in : 3);
	uint32_t reach = axis.dilation * (axis.kernel - 1) + 1;
	if (reach > in) {
		axis.dilation = 1;
		reach = axis.kernel;
	}
	axis.stride = 1 + below(world, 2);
	axis.pad = below(world, axis.kernel);
	axis.out = (in + 2 * axis.pad - reach) / axis.stride + 1;
	return axis;
}

static void add_layer(struct gpu_offload_model *model, const struct layer *layer, uint32_t value)
{
	model->layers[model->layers_count] = *layer;
	model->layers[model->layers_count].input = model->layers_count;
	model->layers[model->layers_count++].output = model->values_count;
	model->values[model->values_count++] = value;
	model->result = model->layers_count;
	model->classes = value;
}

static void add_dense(
	struct world *world, struct gpu_offload_model *model, uint32_t rows, uint32_t outputs)
{
	uint32_t inputs = model->values[model->values_count - 1] / rows;
	struct layer layer = { .kind = LAYER_DENSE };
	layer.dense.rows = rows;
	layer.dense.inputs = inputs;
	layer.dense.outputs = outputs;
	layer.dense.weights = draw_weights(world, (size_t)inputs * outputs, inputs);
	layer.dense.bias = draw_weights(world, outputs, 1);
	add_layer(model, &layer, rows * outputs);
}

/* A convolution with everything that it may have, then Relu, Dense over several rows, and Dense. */
static struct gpu_offload_model *draw_network(struct world *world, char *text, size_t size)
{
	struct gpu_offload_model *model = calloc(1, sizeof(*model));
	uint32_t groups = 1 + below(world, 3), rows = 1 + below(world, 3);
	struct layer conv = { .kind = LAYER_CONV };
	model->layers = calloc(4, sizeof(*model->layers));
	model->values = calloc(5, sizeof(*model->values));
	conv.conv.groups = groups;
	conv.conv.channels_in = groups * (1 + below(world, 12));
	conv.conv.channels_out = groups * rows * (1 + below(world, 40));
	conv.conv.h = draw_axis(world, 1 + below(world, 4));
	conv.conv.w = draw_axis(world, 1 + below(world, 12));
	uint32_t depth = conv.conv.channels_in / groups * conv.conv.h.kernel * conv.conv.w.kernel;
	conv.conv.weights = draw_weights(world, (size_t)conv.conv.channels_out * depth, depth);
	conv.conv.bias = draw_weights(world, conv.conv.channels_out, 1);
	model->inputs = conv.conv.channels_in * conv.conv.h.in * conv.conv.w.in;
	model->values[model->values_count++] = model->inputs;
	uint32_t value = conv.conv.channels_out * conv.conv.h.out * conv.conv.w.out;
	add_layer(model, &conv, value);
	add_layer(model, &(struct layer){ .kind = LAYER_RELU }, value);
	add_dense(world, model, rows, 1 + below(world, 70));
	add_dense(world, model, 1, 1 + below(world, 80));
	snprintf(text, size,
		"network: %u > %u channels in %u groups, %u x %u > %u x %u, kernel %u x %u, %u "
		"rows",
		conv.conv.channels_in, conv.conv.channels_out, groups, conv.conv.h.in,
		conv.conv.w.in, conv.conv.h.out, conv.conv.w.out, conv.conv.h.kernel,
		conv.conv.w.kernel, rows);
	return model;
}

/* Perceptrons and networks with convolutions, by turns. */
static void run_layers(
	struct world *world, int count, enum gpu_offload_cuda_kernels kernels, const char *what)
{
	reset(world, 232448);
	for (int i = 0; i < count; i++) {
		char text[256];
		struct gpu_offload_model *model = i % 2 == 0
							  ? draw_mlp(world, text, sizeof(text))
							  : draw_network(world, text, sizeof(text));
		run_model(world, model,
			i % 4 < 2 ? GPU_OFFLOAD_CUDA_LAUNCH : GPU_OFFLOAD_CUDA_GRAPH, kernels, what,
			text);
		gpu_offload_model_destroy(model);
	}
}

static void plain_layers_agree(void **state)
{
	run_layers(*state, 8, GPU_OFFLOAD_CUDA_PLAIN, "layer by layer, ");
}

static void tensor_core_layers_agree(void **state)
{
	run_layers(*state, 8, GPU_OFFLOAD_CUDA_TENSOR, " on tensor cores");
}

/* One layer: the error is that of floats, far below what TF32 by itself would make. */
static void tensor_cores_keep_what_floats_keep(void **state)
{
	struct world *world = *state;
	const uint32_t widths[] = { 520, 20 };
	struct gpu_offload_backend_config config = { .rows_max = 40,
		.batches_max = 1,
		.cuda_kernels = GPU_OFFLOAD_CUDA_TENSOR,
		.cuda_library = world->library };
	struct gpu_offload_backend *backend;
	struct gpu_offload_model *model;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	reset(world, 232448);
	assert_int_equal(gpu_offload_model_create_mlp(&model, widths, 2, world->seed), 0);
	config.model = model;
	assert_int_equal(
		gpu_offload_backend_create(&backend, "cuda", &config, why, sizeof(why)), 0);
	struct gpu_offload_batch *batch = kit_batch(model, 40);
	const struct layer_dense *dense = &model->layers[0].dense;
	kit_fill(batch, model, 3, world->seed);
	kit_run(backend, batch);
	for (uint32_t r = 0; r < 40; r++) {
		for (uint32_t o = 0; o < 20; o++) {
			double sum = (double)dense->bias[o], size = fabs(sum);
			for (uint32_t i = 0; i < 520; i++) {
				double product = (double)batch->inputs[r * 520 + i] *
						 (double)dense->weights[i * 20 + o];
				sum += product;
				size += fabs(product);
			}
			assert_true(fabs((double)batch->scores[r * 20 + o] - sum) < size * 0x1p-20);
		}
	}
	kit_batch_free(batch);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
}

/* What does not fit into shared memory takes tensor cores where layers are large enough. */
static void best_kernels_are_chosen_by_shape(void **state)
{
	struct world *world = *state;
	const uint32_t large[] = { 40, 40, 40, 5 };
	struct gpu_offload_model *model;
	char text[] = "perceptron 40 40 40 5";
	reset(world, 4096);
	assert_int_equal(gpu_offload_model_create_mlp(&model, large, 4, 1), 0);
	run_model(world, model, GPU_OFFLOAD_CUDA_LAUNCH, GPU_OFFLOAD_CUDA_BEST,
		"layer by layer, 2 of 5 on tensor cores", text);
	/* A weight that has no two parts, though a float like others. */
	model->layers[0].dense.weights[7] = 1e38f;
	run_model(world, model, GPU_OFFLOAD_CUDA_LAUNCH, GPU_OFFLOAD_CUDA_BEST,
		"layer by layer, 1 of 5 on tensor cores", text);
	gpu_offload_model_destroy(model);
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
		cmocka_unit_test_prestate(plain_layers_agree, &world),
		cmocka_unit_test_prestate(tensor_core_layers_agree, &world),
		cmocka_unit_test_prestate(tensor_cores_keep_what_floats_keep, &world),
		cmocka_unit_test_prestate(best_kernels_are_chosen_by_shape, &world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
