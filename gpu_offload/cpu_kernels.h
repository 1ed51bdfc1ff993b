/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: the inner loops of the back end `cpu`, once for each instruction set.
 * The file of a set is compiled for it, and is used only on a machine that has it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPU_PANEL = 16 }; /* outputs that are computed together */

/*
 * y[r][o] = bias[o] + sum over i of x[r][i] * panels[o / 16][i][o % 16], negative sums cut to 0 if
 * relu. bias and panels are filled up to whole panels.
 */
struct cpu_gemm {
	const float *x;
	size_t x_stride;
	uint32_t rows, inputs, outputs;
	const float *panels, *bias;
	float *y;
	size_t y_stride;
	bool wide; /* y has room for whole panels: may write beyond outputs */
	bool relu;
};

/*
 * The same of integers: x holds pairs of 16 bits, pairs per row; panels[o / 16][pair][o % 16] are
 * the two weights of a pair. Products are summed in 32 bits, in which no sum overflows, and y gets
 * them as floats, which hold them exactly.
 */
struct cpu_gemm_int {
	const int32_t *x; /* rows x pairs */
	uint32_t rows, pairs, outputs;
	const int32_t *panels, *bias; /* filled up to whole panels */
	float *y;                     /* room for whole panels */
	size_t y_stride;
	bool relu;
};

struct cpu_kernels {
	const char *name; /* "AVX2" */
	bool (*usable)(void);
	void (*gemm)(const struct cpu_gemm *gemm);
	void (*gemm_int)(const struct cpu_gemm_int *gemm);
	/* Index of the highest of each row; `count` is made up to whole panels with -inf. */
	void (*highest)(
		const float *x, size_t stride, uint32_t rows, uint32_t count, uint32_t *labels);
};

extern const struct cpu_kernels cpu_kernels_plain;
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
