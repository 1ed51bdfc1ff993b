/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows to run a model on, outside of a replay: random ones, or those of a .npy file that
 * sheaf infer export wrote. And the model itself, from a file or with random weights.
 */
#pragma once

#include "gpu_offload/gpu_offload.h"

#include <stdatomic.h>

enum { INFER_MESSAGE_SIZE = 512, INFER_ROWS_MAX = 1 << 24, INFER_NUMBERS_MAX = 1 << 30 };

struct infer_model_choice {
	const char *file;   /* ONNX; NULL: widths */
	const char *widths; /* "64-128-64-16": a perceptron with random weights; NULL: file */
	uint64_t seed;
};

/* message: one line. -EINVAL: a choice that is none; else as gpu_offload_model_load. */
int infer_model_load(struct gpu_offload_model **out, const struct infer_model_choice *choice,
	char message[INFER_MESSAGE_SIZE]);

/* count x inputs floats, 64-byte aligned, for free(); from the normal distribution, which covers
 * scaled features. NULL: out of memory, or stop (may be NULL) was set. */
float *infer_rows_make(uint64_t count, uint32_t inputs, uint64_t seed, const atomic_bool *stop);

/*
 * All rows of a file of records (NAME.rec, gpu_offload/record.h), or of a .npy file: 32-bit
 * little-endian floats, [rows][inputs]. For free(). -errno; -EINVAL: not such a file, or another
 * number of columns.
 */
int infer_rows_load(const char *path, uint32_t inputs, float **rows, uint64_t *count,
	char message[INFER_MESSAGE_SIZE]);
