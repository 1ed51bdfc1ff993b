/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AVX2 and FMA: 6 rows by 16 outputs are 12 sums in registers; each step loads 2 vectors of weights
 * and 6 inputs for 12 multiply-adds, so that the multipliers and not the loads are the limit.
 */
#include "gpu_offload/cpu_kernels.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { ROWS = 6, INT_ROWS = 4 };

static bool avx2_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline void store(
	const struct cpu_gemm *gemm, uint32_t first, float *y, __m256 low, __m256 high)
{
	float cut[CPU_PANEL];
	if (gemm->relu) {
		/* The second operand when one is NaN: a NaN stays. */
		low = _mm256_max_ps(_mm256_setzero_ps(), low);
		high = _mm256_max_ps(_mm256_setzero_ps(), high);
	}
	if (gemm->wide || gemm->outputs - first >= CPU_PANEL) {
		_mm256_storeu_ps(y + first, low);
		_mm256_storeu_ps(y + first + 8, high);
		return;
	}
	_mm256_storeu_ps(cut, low);
	_mm256_storeu_ps(cut + 8, high);
	memcpy(y + first, cut, (gemm->outputs - first) * sizeof(float));
}

/* `rows` is a constant where this is called, so that the sums become registers. */
static inline __attribute__((always_inline)) void tile(
	const struct cpu_gemm *gemm, uint32_t row, uint32_t first, const int rows)
{
	const float *x = gemm->x + row * gemm->x_stride;
	const float *panel = gemm->panels + (size_t)first * gemm->inputs;
	const uint32_t inputs = gemm->inputs;
	const size_t stride = gemm->x_stride;
	__m256 low[ROWS], high[ROWS];
	for (int r = 0; r < rows; r++) {
		low[r] = _mm256_loadu_ps(gemm->bias + first);
		high[r] = _mm256_loadu_ps(gemm->bias + first + 8);
	}
	for (uint32_t i = 0; i < inputs; i++) {
		__m256 w_low = _mm256_loadu_ps(panel + i * CPU_PANEL);
		__m256 w_high = _mm256_loadu_ps(panel + i * CPU_PANEL + 8);
#pragma GCC unroll 6
		for (int r = 0; r < rows; r++) {
			__m256 value = _mm256_broadcast_ss(x + r * stride + i);
			low[r] = _mm256_fmadd_ps(value, w_low, low[r]);
			high[r] = _mm256_fmadd_ps(value, w_high, high[r]);
		}
	}
	for (int r = 0; r < rows; r++)
		store(gemm, first, gemm->y + (row + (uint32_t)r) * gemm->y_stride, low[r], high[r]);
}

static void avx2_gemm(const struct cpu_gemm *gemm)
{
	uint32_t whole = gemm->rows / ROWS * ROWS;
	for (uint32_t first = 0; first < gemm->outputs; first += CPU_PANEL) {
		for (uint32_t row = 0; row < whole; row += ROWS)
			tile(gemm, row, first, ROWS);
		switch (gemm->rows - whole) {
		case 5:
			tile(gemm, whole, first, 5);
			break;
		case 4:
			tile(gemm, whole, first, 4);
			break;
		case 3:
			tile(gemm, whole, first, 3);
			break;
		case 2:
			tile(gemm, whole, first, 2);
			break;
		case 1:
			tile(gemm, whole, first, 1);
			break;
		default:
			break;
		}
	}
}

/* `rows` is a constant where this is called. */
static inline __attribute__((always_inline)) void tile_int(
	const struct cpu_gemm_int *gemm, uint32_t row, uint32_t first, const int rows)
{
	const int32_t *panel = gemm->panels + (size_t)first * gemm->pairs;
	const int32_t *x = gemm->x + (size_t)row * gemm->pairs;
	const uint32_t pairs = gemm->pairs;
	const __m256i *bias = (const __m256i *)(gemm->bias + first);
	__m256i low[INT_ROWS], high[INT_ROWS];
	for (int r = 0; r < rows; r++) {
		low[r] = _mm256_loadu_si256(bias);
		high[r] = _mm256_loadu_si256(bias + 1);
	}
	for (uint32_t p = 0; p < pairs; p++, panel += CPU_PANEL) {
		__m256i w_low = _mm256_loadu_si256((const __m256i *)panel);
		__m256i w_high = _mm256_loadu_si256((const __m256i *)panel + 1);
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			__m256i pair = _mm256_set1_epi32(x[(uint32_t)r * pairs + p]);
			low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pair, w_low));
			high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pair, w_high));
		}
	}
	const __m256i zero = _mm256_setzero_si256();
	for (int r = 0; r < rows; r++) {
		float *y = gemm->y + (row + (uint32_t)r) * gemm->y_stride + first;
		if (gemm->relu) {
			low[r] = _mm256_max_epi32(low[r], zero);
			high[r] = _mm256_max_epi32(high[r], zero);
		}
		_mm256_storeu_ps(y, _mm256_cvtepi32_ps(low[r]));
		_mm256_storeu_ps(y + 8, _mm256_cvtepi32_ps(high[r]));
	}
}

static void avx2_gemm_int(const struct cpu_gemm_int *gemm)
{
	for (uint32_t first = 0; first < gemm->outputs; first += CPU_PANEL) {
		uint32_t row = 0;
		for (; row + INT_ROWS <= gemm->rows; row += INT_ROWS)
			tile_int(gemm, row, first, INT_ROWS);
		for (; row < gemm->rows; row++)
			tile_int(gemm, row, first, 1);
	}
}

/* NaN to -inf. */
static inline __m256 without_nan(__m256 v)
{
	return _mm256_blendv_ps(v, _mm256_set1_ps(-INFINITY), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* The highest of 8, in every place. */
static inline __m256 spread_highest(__m256 v)
{
	v = _mm256_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
	v = _mm256_max_ps(v, _mm256_permute_ps(v, 0x4e));
	return _mm256_max_ps(v, _mm256_permute_ps(v, 0xb1));
}

static inline uint32_t highest_of_row(const float *x, uint32_t panels)
{
	float most = -INFINITY;
	uint32_t best = 0;
	for (uint32_t p = 0; p < panels; p++) {
		__m256 low = without_nan(_mm256_loadu_ps(x + p * CPU_PANEL));
		__m256 high = without_nan(_mm256_loadu_ps(x + p * CPU_PANEL + 8));
		__m256 top = spread_highest(_mm256_max_ps(low, high));
		if (!(_mm256_cvtss_f32(top) > most))
			continue;
		most = _mm256_cvtss_f32(top);
		unsigned int at =
			(unsigned int)_mm256_movemask_ps(_mm256_cmp_ps(low, top, _CMP_EQ_OQ)) |
			(unsigned int)_mm256_movemask_ps(_mm256_cmp_ps(high, top, _CMP_EQ_OQ)) << 8;
		best = p * CPU_PANEL + (uint32_t)__builtin_ctz(at);
	}
	return best;
}

static void avx2_highest(
	const float *x, size_t stride, uint32_t rows, uint32_t count, uint32_t *labels)
{
	uint32_t panels = (count + CPU_PANEL - 1) / CPU_PANEL;
	for (uint32_t r = 0; r < rows; r++)
		labels[r] = highest_of_row(x + r * stride, panels);
}

const struct cpu_kernels cpu_kernels_avx2 = {
	.name = "AVX2",
	.usable = avx2_usable,
	.gemm = avx2_gemm,
	.gemm_int = avx2_gemm_int,
	.highest = avx2_highest,
};
