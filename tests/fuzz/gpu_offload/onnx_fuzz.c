/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Models out of hostile bytes: refused in one line, or run by every back end that this machine has
 * without touching memory that is not theirs.
 */
#include "gpu_offload/gpu_offload.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct gpu_offload_model *model, const char *name)
{
	size_t inputs = gpu_offload_model_inputs(model);
	size_t bytes = (ROWS * inputs * sizeof(float) + 63) / 64 * 64;
	float *rows = aligned_alloc(64, bytes);
	float *scores = calloc(ROWS * gpu_offload_model_classes(model), sizeof(float));
	uint32_t labels[ROWS];
	struct gpu_offload_backend *backend;
	struct gpu_offload_batch *done;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const struct gpu_offload_backend_config config = {
		.model = model, .rows_max = ROWS, .batches_max = 1
	};
	struct gpu_offload_batch batch = {
		.count = ROWS, .inputs = rows, .labels = labels, .scores = scores
	};
	if (rows == NULL || scores == NULL)
		abort();
	for (size_t i = 0; i < ROWS * inputs; i++)
		rows[i] = (float)(int)(i * 7 % 23) / 4 - 3;
	if (gpu_offload_backend_create(&backend, name, &config, why, sizeof(why)) == 0) {
		if (gpu_offload_backend_submit(backend, &batch) != 0 ||
			gpu_offload_backend_poll(backend, &done, 1) != 1)
			abort();
		for (int i = 0; i < ROWS; i++) {
			if (labels[i] >= gpu_offload_model_classes(model))
				abort();
		}
		gpu_offload_backend_destroy(backend);
	}
	free(rows);
	free(scores);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpu_offload_model *model;
	struct gpu_offload_model_info info;
	char error[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	if (gpu_offload_model_load_bytes(&model, data, size, "m", error, sizeof(error)) != 0) {
		if (strncmp(error, "m: ", 3) != 0 || strchr(error, '\n') != NULL)
			abort();
		return 0;
	}
	gpu_offload_model_info(model, &info);
	/* What takes long is not what this is after. */
	if (info.macs < 1000000) {
		run(model, "cpu-ref");
		run(model, "cpu");
	}
	gpu_offload_model_destroy(model);
	return 0;
}
