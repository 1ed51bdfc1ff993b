/* SPDX-License-Identifier: BSD-2-Clause */
/* Every set of kernels of the back end cpu that this machine has, against the oracle. */
#include "gpu_offload/backend_private.h"
#include "gpu_offload/cpu_kernels.h"
#include "tests/unit/gpu_offload/kit.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>

enum { ROWS_MAX = 131 };

static struct gpu_offload_backend *cpu_with(
	const struct gpu_offload_model *model, const struct cpu_kernels *kernels)
{
	const struct gpu_offload_backend_config config = {
		.model = model, .rows_max = ROWS_MAX, .batches_max = 2
	};
	struct gpu_offload_backend *backend;
	char text[GPU_OFFLOAD_MESSAGE_SIZE];
	assert_int_equal(
		backend_cpu_create_with(&backend, &config, kernels, text, sizeof(text)), 0);
	assert_string_equal(text, kernels->name);
	return backend;
}

/* Labels equal, but where the oracle's two best scores are as near as rounding is far. */
static void compare(const struct gpu_offload_model *model, const struct gpu_offload_batch *got,
	const struct gpu_offload_batch *expected, uint64_t seed)
{
	uint32_t classes = gpu_offload_model_classes(model);
	for (uint32_t r = 0; r < got->count; r++) {
		const float *g = got->scores + (size_t)r * classes;
		const float *e = expected->scores + (size_t)r * classes;
		for (uint32_t c = 0; c < classes; c++) {
			if (!gpu_offload_scores_close(g[c], e[c]))
				fail_msg("row %u, class %u: got %g, expected %g (seed %lu)", r, c,
					(double)g[c], (double)e[c], (unsigned long)seed);
		}
		uint32_t label = got->labels[r];
		assert_in_range(label, 0, classes - 1);
		if (label != expected->labels[r])
			assert_true(gpu_offload_scores_close(e[label], e[expected->labels[r]]));
	}
}

static void agree(const struct gpu_offload_model *model, const struct cpu_kernels *kernels,
	uint32_t rows, uint64_t seed, bool wild)
{
	struct gpu_offload_backend *oracle = kit_backend(model, "cpu-ref", ROWS_MAX);
	struct gpu_offload_backend *backend = cpu_with(model, kernels);
	struct gpu_offload_batch *expected = kit_batch(model, rows);
	struct gpu_offload_batch *got = kit_batch(model, rows);
	kit_fill(expected, model, 2, seed);
	kit_fill(got, model, 2, seed);
	/* Not numbers, and numbers without end, must not leak into other rows. */
	static const float odd[] = { NAN, INFINITY, -INFINITY };
	for (uint32_t r = 0; wild && r < rows; r += 5) {
		size_t at = (size_t)r * gpu_offload_model_inputs(model);
		kit_inputs(expected)[at] = kit_inputs(got)[at] = odd[r % 3];
	}
	kit_run(oracle, expected);
	kit_run(backend, got);
	compare(model, got, expected, seed);
	kit_batch_free(expected);
	kit_batch_free(got);
	gpu_offload_backend_destroy(oracle);
	gpu_offload_backend_destroy(backend);
}

static void kernels_agree_with_the_oracle_on_any_shape(void **state)
{
	(void)state;
	struct base_rng rng;
	uint64_t seed = 20260501;
	base_rng_seed(&rng, seed);
	for (size_t set = 0; cpu_kernels_nth(set) != NULL; set++) {
		const struct cpu_kernels *kernels = cpu_kernels_nth(set);
		if (!kernels->usable()) {
			print_message("%s: not on this machine\n", kernels->name);
			continue;
		}
		for (int i = 0; i < 120; i++) {
			uint32_t widths[4];
			for (int w = 0; w < 4; w++)
				widths[w] = 1 + (uint32_t)base_rng_below(&rng, 70);
			struct gpu_offload_model *model;
			assert_int_equal(
				gpu_offload_model_create_mlp(&model, widths, 4, seed + i), 0);
			agree(model, kernels, 1 + (uint32_t)base_rng_below(&rng, ROWS_MAX),
				seed + i, i % 3 == 0);
			gpu_offload_model_destroy(model);
		}
	}
}

static void each_count_of_rows_is_whole(void **state)
{
	(void)state;
	const uint32_t widths[] = { 33, 17, 48 };
	struct gpu_offload_model *model;
	assert_int_equal(gpu_offload_model_create_mlp(&model, widths, 3, 5), 0);
	for (size_t set = 0; cpu_kernels_nth(set) != NULL; set++) {
		for (uint32_t rows = 1; rows < 60 && cpu_kernels_nth(set)->usable(); rows++)
			agree(model, cpu_kernels_nth(set), rows, rows, false);
	}
	gpu_offload_model_destroy(model);
}

static void equal_scores_give_the_lowest_class(void **state)
{
	(void)state;
	const uint32_t widths[] = { 3, 70 };
	struct gpu_offload_model *model;
	assert_int_equal(gpu_offload_model_create_mlp(&model, widths, 2, 5), 0);
	struct layer_dense *dense = &model->layers[0].dense;
	for (uint32_t i = 0; i < 3 * 70; i++)
		dense->weights[i] = 0;
	for (size_t set = 0; cpu_kernels_nth(set) != NULL; set++) {
		for (uint32_t first = 0; first < 70 && cpu_kernels_nth(set)->usable(); first++) {
			for (uint32_t c = 0; c < 70; c++)
				dense->bias[c] = c < first || c % 3 == 1 ? -1 : 4;
			dense->bias[first] = 4;
			struct gpu_offload_backend *backend = cpu_with(model, cpu_kernels_nth(set));
			struct gpu_offload_batch *batch = kit_batch(model, 2);
			kit_run(backend, batch);
			assert_int_equal(batch->labels[0], first);
			assert_int_equal(batch->labels[1], first);
			kit_batch_free(batch);
			gpu_offload_backend_destroy(backend);
		}
	}
	gpu_offload_model_destroy(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_agree_with_the_oracle_on_any_shape),
		cmocka_unit_test(each_count_of_rows_is_whole),
		cmocka_unit_test(equal_scores_give_the_lowest_class),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
