/* SPDX-License-Identifier: BSD-2-Clause */
/* In plain C, as the compiler makes of it: for machines with no other kernels, and to compare. */
#include "gpu_offload/cpu_kernels.h"

#include <math.h>
#include <string.h>

static bool plain_usable(void)
{
	return true;
}

/* A panel's sums as one vector of the compiler's, which it splits into what the machine has. */
typedef float panel_sums __attribute__((vector_size(CPU_PANEL * sizeof(float))));

static void panel_of_row(const struct cpu_gemm *gemm, const float *x, uint32_t first, float *y)
{
	const float *panel = gemm->panels + (size_t)first * gemm->inputs;
	panel_sums sums, weights;
	memcpy(&sums, gemm->bias + first, sizeof(sums));
	for (uint32_t i = 0; i < gemm->inputs; i++, panel += CPU_PANEL) {
		memcpy(&weights, panel, sizeof(weights));
		sums += x[i] * weights;
	}
	uint32_t width = gemm->outputs - first;
	width = width > CPU_PANEL || gemm->wide ? CPU_PANEL : width;
	for (uint32_t o = 0; o < width; o++)
		y[first + o] = gemm->relu && sums[o] < 0 ? 0 : sums[o];
}

static void plain_gemm(const struct cpu_gemm *gemm)
{
	for (uint32_t first = 0; first < gemm->outputs; first += CPU_PANEL) {
		for (uint32_t r = 0; r < gemm->rows; r++)
			panel_of_row(gemm, gemm->x + r * gemm->x_stride, first,
				gemm->y + r * gemm->y_stride);
	}
}

static void plain_gemm_int(const struct cpu_gemm_int *gemm)
{
	for (uint32_t r = 0; r < gemm->rows; r++) {
		const int32_t *x = gemm->x + (size_t)r * gemm->pairs;
		for (uint32_t first = 0; first < gemm->outputs; first += CPU_PANEL) {
			const int32_t *panel = gemm->panels + (size_t)first * gemm->pairs;
			int32_t sums[CPU_PANEL];
			memcpy(sums, gemm->bias + first, sizeof(sums));
			for (uint32_t p = 0; p < gemm->pairs; p++, panel += CPU_PANEL) {
				for (uint32_t o = 0; o < CPU_PANEL; o++)
					sums[o] += (int16_t)x[p] * (int16_t)panel[o] +
						   (x[p] >> 16) * (panel[o] >> 16);
			}
			float *y = gemm->y + r * gemm->y_stride + first;
			for (uint32_t o = 0; o < CPU_PANEL; o++)
				y[o] = (float)(gemm->relu && sums[o] < 0 ? 0 : sums[o]);
		}
	}
}

static void plain_highest(
	const float *x, size_t stride, uint32_t rows, uint32_t count, uint32_t *labels)
{
	for (uint32_t r = 0; r < rows; r++) {
		float most = -INFINITY;
		uint32_t best = 0;
		for (uint32_t c = 0; c < count; c++) {
			if (x[r * stride + c] > most) {
				most = x[r * stride + c];
				best = c;
			}
		}
		labels[r] = best;
	}
}

const struct cpu_kernels cpu_kernels_plain = {
	.name = "plain C",
	.usable = plain_usable,
	.gemm = plain_gemm,
	.gemm_int = plain_gemm_int,
	.highest = plain_highest,
};
