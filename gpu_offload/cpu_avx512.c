/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AVX-512: 12 rows by 32 outputs are 24 sums in registers; each step loads 2 vectors of weights and
 * 12 inputs for 24 multiply-adds. Where one panel is left, 12 rows by 16 outputs.
 */
#include "gpu_offload/cpu_kernels.h"

#include <immintrin.h>
#include <math.h>

enum { ROWS = 12, INT_ROWS = 8 };

static bool avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static inline void store(const struct cpu_gemm *gemm, uint32_t first, float *y, __m512 sum)
{
	uint32_t width = gemm->outputs - first;
	__mmask16 mask = gemm->wide || width >= CPU_PANEL ? 0xffff : (__mmask16)((1u << width) - 1);
	if (gemm->relu)
		sum = _mm512_max_ps(_mm512_setzero_ps(), sum); /* a NaN stays */
	_mm512_mask_storeu_ps(y + first, mask, sum);
}

/* `rows` and `panels` are constants where this is called, so that the sums become registers. */
static inline __attribute__((always_inline)) void tile(
	const struct cpu_gemm *gemm, uint32_t row, uint32_t first, const int rows, const int panels)
{
	const float *x = gemm->x + row * gemm->x_stride;
	const float *panel = gemm->panels + (size_t)first * gemm->inputs;
	const uint32_t inputs = gemm->inputs;
	const size_t stride = gemm->x_stride, next = (size_t)inputs * CPU_PANEL;
	__m512 low[ROWS], high[ROWS];
	for (int r = 0; r < rows; r++) {
		low[r] = _mm512_loadu_ps(gemm->bias + first);
		high[r] = panels > 1 ? _mm512_loadu_ps(gemm->bias + first + CPU_PANEL) : low[r];
	}
	for (uint32_t i = 0; i < inputs; i++, panel += CPU_PANEL) {
		__m512 w_low = _mm512_loadu_ps(panel);
		__m512 w_high = panels > 1 ? _mm512_loadu_ps(panel + next) : w_low;
#pragma GCC unroll 12
		for (int r = 0; r < rows; r++) {
			__m512 value = _mm512_set1_ps(x[r * stride + i]);
			low[r] = _mm512_fmadd_ps(value, w_low, low[r]);
			if (panels > 1)
				high[r] = _mm512_fmadd_ps(value, w_high, high[r]);
		}
	}
	for (int r = 0; r < rows; r++) {
		float *y = gemm->y + (row + (uint32_t)r) * gemm->y_stride;
		store(gemm, first, y, low[r]);
		if (panels > 1)
			store(gemm, first + CPU_PANEL, y, high[r]);
	}
}

static void rest(const struct cpu_gemm *gemm, uint32_t row, uint32_t first, bool two)
{
	uint32_t left = gemm->rows - row;
	for (; left >= 4; left -= 4, row += 4) {
		if (two)
			tile(gemm, row, first, 4, 2);
		else
			tile(gemm, row, first, 4, 1);
	}
	for (; left > 0; left--, row++) {
		if (two)
			tile(gemm, row, first, 1, 2);
		else
			tile(gemm, row, first, 1, 1);
	}
}

static void avx512_gemm(const struct cpu_gemm *gemm)
{
	uint32_t whole = gemm->rows / ROWS * ROWS, first = 0;
	for (; first + CPU_PANEL < gemm->outputs; first += 2 * CPU_PANEL) {
		for (uint32_t row = 0; row < whole; row += ROWS)
			tile(gemm, row, first, ROWS, 2);
		rest(gemm, whole, first, true);
	}
	if (first < gemm->outputs) {
		for (uint32_t row = 0; row < whole; row += ROWS)
			tile(gemm, row, first, ROWS, 1);
		rest(gemm, whole, first, false);
	}
}

/* sums += the products of pairs of 16 bits. VNNI has one instruction for both; machines of this set
 * need not have it. */
static inline __m512i add_products(__m512i sums, __m512i pair, __m512i weights)
{
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pair, weights));
}

/* `rows` is a constant where this is called. */
static inline __attribute__((always_inline)) void tile_int(
	const struct cpu_gemm_int *gemm, uint32_t row, uint32_t first, const int rows)
{
	const int32_t *panel = gemm->panels + (size_t)first * gemm->pairs;
	const int32_t *x = gemm->x + (size_t)row * gemm->pairs;
	const uint32_t pairs = gemm->pairs;
	__m512i sums[INT_ROWS];
	for (int r = 0; r < rows; r++)
		sums[r] = _mm512_loadu_si512(gemm->bias + first);
	for (uint32_t p = 0; p < pairs; p++, panel += CPU_PANEL) {
		__m512i weights = _mm512_loadu_si512(panel);
#pragma GCC unroll 8
		for (int r = 0; r < rows; r++)
			sums[r] = add_products(
				sums[r], _mm512_set1_epi32(x[(uint32_t)r * pairs + p]), weights);
	}
	for (int r = 0; r < rows; r++) {
		if (gemm->relu)
			sums[r] = _mm512_max_epi32(sums[r], _mm512_setzero_si512());
		_mm512_storeu_ps(gemm->y + (row + (uint32_t)r) * gemm->y_stride + first,
			_mm512_cvtepi32_ps(sums[r]));
	}
}

static void avx512_gemm_int(const struct cpu_gemm_int *gemm)
{
	for (uint32_t first = 0; first < gemm->outputs; first += CPU_PANEL) {
		uint32_t row = 0;
		for (; row + INT_ROWS <= gemm->rows; row += INT_ROWS)
			tile_int(gemm, row, first, INT_ROWS);
		for (; row < gemm->rows; row++)
			tile_int(gemm, row, first, 1);
	}
}

static inline uint32_t highest_of_row(const float *x, uint32_t panels)
{
	float most = -INFINITY;
	uint32_t best = 0;
	for (uint32_t p = 0; p < panels; p++) {
		__m512 v = _mm512_loadu_ps(x + p * CPU_PANEL);
		v = _mm512_mask_mov_ps(
			_mm512_set1_ps(-INFINITY), _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
		float top = _mm512_reduce_max_ps(v);
		if (!(top > most))
			continue;
		most = top;
		best = p * CPU_PANEL + (uint32_t)__builtin_ctz(_mm512_cmp_ps_mask(
					       v, _mm512_set1_ps(top), _CMP_EQ_OQ));
	}
	return best;
}

static void avx512_highest(
	const float *x, size_t stride, uint32_t rows, uint32_t count, uint32_t *labels)
{
	uint32_t panels = (count + CPU_PANEL - 1) / CPU_PANEL;
	for (uint32_t r = 0; r < rows; r++)
		labels[r] = highest_of_row(x + r * stride, panels);
}

const struct cpu_kernels cpu_kernels_avx512 = {
	.name = "AVX-512",
	.usable = avx512_usable,
	.gemm = avx512_gemm,
	.gemm_int = avx512_gemm_int,
	.highest = avx512_highest,
};
