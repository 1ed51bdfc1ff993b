/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a model over rows: infer_run MODEL BACKEND INPUTS OUTPUT [CUDA_LIBRARY]. INPUTS is raw
 * 32-bit floats; OUTPUT gets a 32-bit label for each row and then the scores. Prints the model and
 * what it ran on; with INPUTS "-" only the model.
 */
#include "gpu_offload/gpu_offload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100 };

static float *read_floats(const char *path, size_t *count)
{
	FILE *file = fopen(path, "rb");
	float *floats = malloc(256 << 20);
	if (file == NULL || floats == NULL)
		exit(2);
	*count = fread(floats, sizeof(float), (256 << 20) / sizeof(float), file);
	fclose(file);
	return floats;
}

static void run(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct gpu_offload_batch *done;
	if (gpu_offload_backend_submit(backend, batch) != 0)
		exit(2);
	while (gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	if (batch->status != 0) {
		printf("batch: %s\n", strerror(-batch->status));
		exit(1);
	}
}

static void run_all(struct gpu_offload_backend *backend, const struct gpu_offload_model *model,
	const char *from, const char *to)
{
	size_t floats_count, inputs = gpu_offload_model_inputs(model);
	size_t classes = gpu_offload_model_classes(model);
	float *floats = read_floats(from, &floats_count);
	size_t rows = floats_count / inputs;
	uint32_t *labels = calloc(rows + 1, sizeof(*labels));
	float *scores = calloc(rows * classes + 1, sizeof(*scores));
	float *aligned = aligned_alloc(64, (BATCH * inputs * sizeof(float) + 63) / 64 * 64);
	if (labels == NULL || scores == NULL || aligned == NULL)
		exit(2);
	for (size_t row = 0; row < rows; row += BATCH) {
		uint32_t count = (uint32_t)(rows - row < BATCH ? rows - row : BATCH);
		memcpy(aligned, floats + row * inputs, count * inputs * sizeof(float));
		struct gpu_offload_batch batch = { .count = count,
			.inputs = aligned,
			.labels = labels + row,
			.scores = scores + row * classes };
		run(backend, &batch);
	}
	FILE *file = fopen(to, "wb");
	if (file == NULL || fwrite(labels, sizeof(*labels), rows, file) != rows ||
		fwrite(scores, sizeof(*scores), rows * classes, file) != rows * classes ||
		fclose(file) != 0)
		exit(2);
	free(floats);
	free(labels);
	free(scores);
	free(aligned);
}

int main(int argc, char **argv)
{
	struct gpu_offload_model *model;
	struct gpu_offload_model_info info;
	struct gpu_offload_backend *backend;
	char text[GPU_OFFLOAD_MESSAGE_SIZE];
	if (argc < 5)
		return 2;
	if (gpu_offload_model_load(&model, argv[1], text, sizeof(text)) != 0) {
		printf("%s\n", text);
		return 1;
	}
	gpu_offload_model_info(model, &info);
	printf("%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %s\n", info.inputs, info.classes,
		info.layers, info.parameters, info.text);
	if (strcmp(argv[3], "-") != 0) {
		const struct gpu_offload_backend_config config = {
			.model = model,
			.rows_max = BATCH,
			.batches_max = 1,
			.cuda_library = argc > 5 ? argv[5] : NULL,
		};
		int error =
			gpu_offload_backend_create(&backend, argv[2], &config, text, sizeof(text));
		printf("%s\n", text);
		if (error != 0)
			return 1;
		run_all(backend, model, argv[3], argv[4]);
		gpu_offload_backend_destroy(backend);
	}
	gpu_offload_model_destroy(model);
	return 0;
}
