// SPDX-License-Identifier: BSD-2-Clause
/*
 * Of the emulation of CUDA's device language: warps multiply matrices (nvcuda::wmma, TF32). A TEST
 * DOUBLE. All lanes of a warp must come to each operation. Which element lies with which lane is
 * nobody's business on a GPU, and here it is an order that nobody would guess.
 *
 * Arithmetic is the least that the hardware promises: operands lose what TF32 has no bits for
 * (rounded before by __float_to_tf32, or cut off), products are exact, and each sum is cut, not
 * rounded, to 24 bits.
 */
#pragma once

#include "tests/support/cuda_emulation.hpp"

#include <string.h>

namespace nvcuda
{
namespace wmma
{
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
namespace precision
{
struct tf32;
}
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K> struct shape {
	static constexpr int rows = M, columns = N;
};
template <int M, int N, int K> struct shape<matrix_a, M, N, K> {
	static constexpr int rows = M, columns = K;
};
template <int M, int N, int K> struct shape<matrix_b, M, N, K> {
	static constexpr int rows = K, columns = N;
};
template <typename Layout> struct is_column {
	static constexpr bool value = false;
};
template <> struct is_column<col_major> {
	static constexpr bool value = true;
};

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
	using size = shape<Use, M, N, K>;
	static constexpr int num_elements = size::rows * size::columns / emulation::WARP;
	static constexpr bool by_columns = is_column<Layout>::value;
	float x[num_elements];

	/* The element's number, row by row, that a lane holds in x[i]. */
	static int element(unsigned int lane, int i)
	{
		return (int)((lane + emulation::WARP * (unsigned int)i) * 5 + 11) %
		       (size::rows * size::columns);
	}
};

static inline float __float_to_tf32(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	if ((bits & 0x7f800000) != 0x7f800000)
		bits += 0x1000; /* to the nearest, ties away from zero */
	bits &= 0xffffe000;
	memcpy(&value, &bits, sizeof(bits));
	return value;
}

static inline double cut_to_tf32(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	bits &= 0xffffe000;
	memcpy(&value, &bits, sizeof(bits));
	return (double)value;
}

static inline float cut_to_float(double value)
{
	float near = (float)value;
	return fabs((double)near) > fabs(value) && isfinite(value) ? nextafterf(near, 0) : near;
}

/* Operations that a warp does together. */
enum { FILL, LOAD, STORE, MULTIPLY };

static inline void check_matrix(const void *at, unsigned int stride)
{
	if ((uintptr_t)at % 32 != 0)
		emulation::refuse("a matrix that is not aligned to 32 bytes");
	if (stride % 4 != 0)
		emulation::refuse("a matrix whose lines are not aligned to 16 bytes");
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
void fill_fragment(fragment<Use, M, N, K, T, Layout> &to, float value)
{
	for (int i = 0; i < to.num_elements; i++)
		to.x[i] = value;
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const float *from, unsigned int stride)
{
	using type = fragment<Use, M, N, K, T, Layout>;
	check_matrix(from, stride);
	emulation::warp_meet(LOAD, from, nullptr, nullptr);
	for (int i = 0; i < type::num_elements; i++) {
		int e = type::element(emulation::lane(), i);
		int row = e / type::size::columns, column = e % type::size::columns;
		to.x[i] = type::by_columns ? from[column * (int)stride + row]
					   : from[row * (int)stride + column];
	}
}

template <int M, int N, int K>
void store_matrix_sync(float *to, const fragment<accumulator, M, N, K, float> &from,
	unsigned int stride, layout_t layout)
{
	using type = fragment<accumulator, M, N, K, float>;
	check_matrix(to, stride);
	emulation::warp_meet(STORE, to, nullptr, nullptr);
	for (int i = 0; i < type::num_elements; i++) {
		int e = type::element(emulation::lane(), i);
		int row = e / type::size::columns, column = e % type::size::columns;
		to[layout == mem_row_major ? row * (int)stride + column
					   : column * (int)stride + row] = from.x[i];
	}
}

template <typename A, typename B, typename C> struct operands {
	C *d;
	const A *a;
	const B *b;
	const C *c;
};

/* By the last lane that comes, for all. */
template <typename A, typename B, typename C> void multiply(void *const lanes[emulation::WARP])
{
	using all = operands<A, B, C>;
	constexpr int m = C::size::rows, n = C::size::columns, k = A::size::columns;
	double a[m * k], b[k * n], c[m * n];
	for (unsigned int lane = 0; lane < emulation::WARP; lane++) {
		const all *mine = (const all *)lanes[lane];
		for (int i = 0; i < A::num_elements; i++)
			a[A::element(lane, i)] = cut_to_tf32(mine->a->x[i]);
		for (int i = 0; i < B::num_elements; i++)
			b[B::element(lane, i)] = cut_to_tf32(mine->b->x[i]);
		for (int i = 0; i < C::num_elements; i++)
			c[C::element(lane, i)] = (double)mine->c->x[i];
	}
	for (int row = 0; row < m; row++) {
		for (int i = 0; i < k; i++) {
			for (int column = 0; column < n; column++)
				c[row * n + column] += a[row * k + i] * b[i * n + column];
		}
	}
	for (unsigned int lane = 0; lane < emulation::WARP; lane++) {
		for (int i = 0; i < C::num_elements; i++)
			((const all *)lanes[lane])->d->x[i] = cut_to_float(c[C::element(lane, i)]);
	}
}

template <typename A, typename B, typename C>
void mma_sync(C &d, const A &a, const B &b, const C &c)
{
	operands<A, B, C> mine = { &d, &a, &b, &c };
	emulation::warp_meet(MULTIPLY, nullptr, &mine, multiply<A, B, C>);
}
} // namespace wmma
} // namespace nvcuda
