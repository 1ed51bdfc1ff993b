/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: a model made ready for the back end `cpu`. Rows are computed a tile at a
 * time, one layer after the other, so that what lies between layers stays in the nearest caches.
 * Relu behind a layer with weights is done when its sums are stored.
 */
#pragma once

#include "gpu_offload/cpu_kernels.h"
#include "gpu_offload/layers.h"

enum { CPU_TILE_ROWS = 48 };

struct cpu_step {
	const struct layer *layer;
	bool relu;
	uint32_t input, second, output; /* values */
	float *panels, *bias;           /* of Dense; for Conv the kernels as rows, bias last */
	int32_t *int_panels, *int_bias; /* of a Dense of integers, in place of those */
};

struct cpu_value {
	float *data; /* of a tile; NULL: the batch's inputs */
	size_t stride;
};

struct cpu_plan {
	const struct gpu_offload_model *model;
	const struct cpu_kernels *kernels;
	struct cpu_step *steps;
	uint32_t steps_count;
	struct cpu_value *values;
	float *memory;   /* all values */
	float *columns;  /* a convolution's windows as panels */
	float *zeros;    /* bias of a convolution's panels */
	int32_t *pairs;  /* a tile's inputs of a Dense of integers */
	uint32_t tile;   /* rows */
	bool fast_label; /* the result is filled up with -inf */
};

/* 0 or -ENOMEM. */
int cpu_plan_create(struct cpu_plan **out, const struct gpu_offload_model *model,
	const struct cpu_kernels *kernels);
void cpu_plan_destroy(struct cpu_plan *plan);
/* Rows of inputs; scores may be NULL. */
void cpu_plan_run(
	struct cpu_plan *plan, const float *inputs, uint32_t rows, uint32_t *labels, float *scores);

/* Every layer but Dense and Conv, over a tile's rows. */
void cpu_layer_run(const struct layer *layer, uint32_t rows, uint32_t count, const float *x,
	size_t x_stride, const float *second, size_t second_stride, float *y, size_t y_stride);
