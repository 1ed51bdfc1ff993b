/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model that classifies flows: one row of numbers in, one score per class out.
 *
 * Read from ONNX files, which are hostile input: docs/inference.md names the operators and the
 * limits. Whatever a file holds is brought into one form, a list of layers with fixed sizes per
 * row, that every back end runs (gpu_offload/backend.h).
 *
 * Threads: a model does not change after it was made; any number of threads may share it.
 * Memory: weights as 32-bit floats, freed by destroy. Cost of loading: one pass over the file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	GPU_OFFLOAD_MESSAGE_SIZE = 256,
	GPU_OFFLOAD_INPUTS_MAX = 1 << 16,
	GPU_OFFLOAD_CLASSES_MAX = 4096,
	GPU_OFFLOAD_LABEL_SIZE = 48,
	GPU_OFFLOAD_WIDTHS_MAX = 16, /* of gpu_offload_model_create_mlp */
};

struct gpu_offload_model;

struct gpu_offload_model_info {
	uint32_t inputs;     /* floats of one row */
	uint32_t classes;    /* scores of one row */
	uint32_t layers;     /* after folding */
	uint64_t parameters; /* weights that are left after folding; nodes for trees */
	uint64_t macs;       /* multiply-adds for one row; for trees the depth, summed over them */
	char text[128];      /* "MLP 64-128-64-16", or the kinds of its layers */
};

/*
 * Read an ONNX file. error: one line, "<path>: <reason>", when it fails.
 * -errno of the file; -EINVAL: not a model; -ENOTSUP: an operator, or a form of one, that is not
 * known here (the line names operator and node); -E2BIG: past a limit; -ENOMEM.
 */
int gpu_offload_model_load(
	struct gpu_offload_model **out, const char *path, char error[], size_t size);
/* The same from memory, which may go afterwards; `name` stands for the path. */
int gpu_offload_model_load_bytes(struct gpu_offload_model **out, const void *bytes, size_t length,
	const char *name, char error[], size_t size);

/*
 * A multi-layer perceptron with random weights (Relu between layers, none at the end), for tests
 * and benchmarks: widths[0] inputs ... widths[count - 1] classes. The same seed gives the same
 * weights. -EINVAL: fewer than 2 widths, more than GPU_OFFLOAD_WIDTHS_MAX, or a width that is 0 or
 * past a limit; -ENOMEM.
 */
int gpu_offload_model_create_mlp(
	struct gpu_offload_model **out, const uint32_t widths[], size_t count, uint64_t seed);

/* NULL is fine. */
void gpu_offload_model_destroy(struct gpu_offload_model *model);

uint32_t gpu_offload_model_inputs(const struct gpu_offload_model *model);
uint32_t gpu_offload_model_classes(const struct gpu_offload_model *model);
/* What the file calls a class: classlabels_int64s of trees that make the scores, else its index.
 * No two classes have the same. */
uint32_t gpu_offload_model_label(const struct gpu_offload_model *model, uint32_t class);
/* The class that is called so; the number of classes when none is. */
uint32_t gpu_offload_model_class(const struct gpu_offload_model *model, uint32_t label);
/* classlabels_strings, cut to GPU_OFFLOAD_LABEL_SIZE; NULL: it has none. */
const char *gpu_offload_model_label_name(const struct gpu_offload_model *model, uint32_t class);
void gpu_offload_model_info(
	const struct gpu_offload_model *model, struct gpu_offload_model_info *info);
