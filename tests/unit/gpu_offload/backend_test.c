/* SPDX-License-Identifier: BSD-2-Clause */
/* The interface of back ends, and the oracle on a model that can be computed by hand. */
#include "tests/unit/gpu_offload/kit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void oracle_computes_what_the_hand_computes(void **state)
{
	(void)state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend = kit_backend(model, "cpu-ref", 8);
	struct gpu_offload_batch *batch = kit_batch(model, 2);
	/* Row 0: (1, 2) -> (7, 1, 3) -> (6, 9). Row 1: (-1, 0.5) -> (0.5, 0, 3.5) -> (-3, 9.5). */
	const float inputs[] = { 1, 2, -1, 0.5f };
	memcpy(kit_inputs(batch), inputs, sizeof(inputs));
	kit_run(backend, batch);
	const float expected[] = { 6, 9, -3, 9.5f };
	for (int i = 0; i < 4; i++)
		assert_true(batch->scores[i] == expected[i]);
	assert_int_equal(batch->labels[0], 1);
	assert_int_equal(batch->labels[1], 1);
	kit_batch_free(batch);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
}

static void lowest_of_equal_classes_wins_and_nan_never(void **state)
{
	(void)state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend = kit_backend(model, "cpu-ref", 8);
	struct gpu_offload_batch *batch = kit_batch(model, 2);
	/* Zeros: (0, 1, 2) -> (2 - 2, 1 + 6 - 1); with its last weights cleared (2, 0). */
	struct layer_dense *last = &model->layers[2].dense;
	memset(last->weights, 0, 6 * sizeof(float));
	last->bias[0] = last->bias[1] = 3;
	kit_inputs(batch)[2] = NAN;
	kit_run(backend, batch);
	assert_int_equal(batch->labels[0], 0);
	assert_int_equal(batch->labels[1], 0);
	assert_true(isnan(batch->scores[2]) && isnan(batch->scores[3]));
	kit_batch_free(batch);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
}

static void batches_in_flight_are_bounded_and_come_back_in_order(void **state)
{
	(void)state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend = kit_backend(model, "cpu-ref", 8);
	struct gpu_offload_batch *batches[3], *done[4];
	for (int i = 0; i < 3; i++)
		batches[i] = kit_batch(model, 1 + (uint32_t)i);
	assert_int_equal(gpu_offload_backend_submit(backend, batches[0]), 0);
	assert_int_equal(gpu_offload_backend_submit(backend, batches[1]), 0);
	assert_int_equal(gpu_offload_backend_submit(backend, batches[2]), -EAGAIN);
	assert_int_equal(gpu_offload_backend_poll(backend, done, 1), 1);
	assert_ptr_equal(done[0], batches[0]);
	assert_int_equal(gpu_offload_backend_submit(backend, batches[2]), 0);
	assert_int_equal(gpu_offload_backend_poll(backend, done, 4), 2);
	assert_ptr_equal(done[0], batches[1]);
	assert_ptr_equal(done[1], batches[2]);
	assert_int_equal(gpu_offload_backend_poll(backend, done, 4), 0);
	for (int i = 0; i < 3; i++)
		kit_batch_free(batches[i]);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
}

static void impossible_batches_stay_the_callers(void **state)
{
	(void)state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend = kit_backend(model, "cpu-ref", 2);
	struct gpu_offload_batch *batch = kit_batch(model, 3), *done;
	assert_int_equal(gpu_offload_backend_submit(backend, batch), -EINVAL);
	batch->count = 0;
	assert_int_equal(gpu_offload_backend_submit(backend, batch), -EINVAL);
	batch->count = 1;
	batch->inputs++;
	assert_int_equal(gpu_offload_backend_submit(backend, batch), -EINVAL);
	batch->inputs--;
	assert_int_equal(gpu_offload_backend_poll(backend, &done, 1), 0);
	kit_run(backend, batch);
	kit_batch_free(batch);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
}

static int try(const char *name, uint32_t rows, uint32_t batches, char why[], size_t size)
{
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend = NULL;
	const struct gpu_offload_backend_config config = {
		.model = model, .rows_max = rows, .batches_max = batches
	};
	int error = gpu_offload_backend_create(&backend, name, &config, why, size);
	gpu_offload_backend_destroy(backend);
	gpu_offload_model_destroy(model);
	return error;
}

static void wrong_configurations_are_refused_in_one_line(void **state)
{
	(void)state;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	assert_int_equal(try("tpu", 1, 1, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "back end: got 'tpu', expected auto, cpu-ref, cpu or cuda");
	assert_int_equal(try("cpu-ref", 0, 1, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "batch: got 0 rows, expected 1 .. 65536");
	assert_int_equal(try("cpu-ref", 1, 65, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "batches in flight: got 65, expected 1 .. 64");
	assert_int_equal(try("auto", 1, 1, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "cpu"));
}

static void random_models_repeat_and_keep_their_limits(void **state)
{
	(void)state;
	const uint32_t widths[] = { 64, 128, 64, 16 }, wrong[] = { 64, 0 };
	struct gpu_offload_model *a, *b;
	struct gpu_offload_model_info info;
	assert_int_equal(gpu_offload_model_create_mlp(&a, widths, 1, 7), -EINVAL);
	assert_int_equal(gpu_offload_model_create_mlp(&a, wrong, 2, 7), -EINVAL);
	assert_int_equal(gpu_offload_model_create_mlp(&a, widths, 4, 7), 0);
	assert_int_equal(gpu_offload_model_create_mlp(&b, widths, 4, 7), 0);
	assert_memory_equal(
		a->layers[2].dense.weights, b->layers[2].dense.weights, 128 * 64 * sizeof(float));
	gpu_offload_model_info(a, &info);
	assert_string_equal(info.text, "MLP 64-128-64-16");
	assert_int_equal(info.inputs, 64);
	assert_int_equal(info.classes, 16);
	assert_int_equal(info.layers, 5);
	assert_int_equal(info.parameters, 17408 + 128 + 64 + 16);
	gpu_offload_model_destroy(a);
	gpu_offload_model_destroy(b);
}

static void scores_are_close_but_for_rounding(void **state)
{
	(void)state;
	assert_true(gpu_offload_scores_close(1, 1.0005f));
	assert_false(gpu_offload_scores_close(1, 1.002f));
	assert_true(gpu_offload_scores_close(0, 0.00005f));
	assert_true(gpu_offload_scores_close(NAN, NAN));
	assert_false(gpu_offload_scores_close(NAN, 0));
	assert_false(gpu_offload_scores_close(0, NAN));
	assert_true(gpu_offload_scores_close(INFINITY, INFINITY));
	assert_false(gpu_offload_scores_close(INFINITY, -INFINITY));
	assert_false(gpu_offload_scores_close(1e30f, INFINITY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oracle_computes_what_the_hand_computes),
		cmocka_unit_test(lowest_of_equal_classes_wins_and_nan_never),
		cmocka_unit_test(batches_in_flight_are_bounded_and_come_back_in_order),
		cmocka_unit_test(impossible_batches_stay_the_callers),
		cmocka_unit_test(wrong_configurations_are_refused_in_one_line),
		cmocka_unit_test(random_models_repeat_and_keep_their_limits),
		cmocka_unit_test(scores_are_close_but_for_rounding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
