// SPDX-License-Identifier: BSD-2-Clause
// Kernels of the back end cuda. Compiled by nvcc to a fatbin that the program carries.
#include "gpu_offload/cuda/device.h"

#include <cuda/atomic>
#include <mma.h>

namespace wmma = nvcuda::wmma;

using flag = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;

// All weights of a perceptron into shared memory, by all threads of the block, 16 bytes at a time.
static __device__ void load_weights(const cuda_mlp &mlp, float *shared)
{
	const float4 *from = CUDA_AT(const float4, mlp.weights);
	float4 *to = (float4 *)shared;
#pragma unroll 8
	for (uint32_t i = threadIdx.x; i < mlp.weights_count / 4; i += CUDA_BLOCK)
		to[i] = from[i];
	__syncthreads();
}

// A value of ROWS neighbouring rows, with one load.
template <int ROWS> static __device__ void load_rows(const float *from, float (&to)[ROWS])
{
	if constexpr (ROWS == 4) {
		const float4 all = *(const float4 *)from;
		to[0] = all.x;
		to[1] = all.y;
		to[2] = all.z;
		to[3] = all.w;
	} else if constexpr (ROWS == 2) {
		const float2 all = *(const float2 *)from;
		to[0] = all.x;
		to[1] = all.y;
	} else {
		to[0] = *from;
	}
}

// One layer of a tile: each thread makes 4 outputs of ROWS rows, from two loads for each input. A
// warp covers 8 x 4 outputs and 4 x ROWS rows: what it loads of either lies in few banks' lines.
template <int ROWS>
static __device__ void tile_layer(const float *weights, const float *x, float *y, uint32_t inputs,
	uint32_t outputs, bool relu)
{
	constexpr uint32_t down = CUDA_TILE_ROWS / ROWS, across = CUDA_BLOCK / down * 4;
	const uint32_t row = threadIdx.x / 8 % down * ROWS;
	const float *bias = weights + inputs * outputs;
	for (uint32_t o = threadIdx.x % 8 * 4 + threadIdx.x / 8 / down * 32; o < outputs;
		o += across) {
		const float4 first = *(const float4 *)(bias + o);
		float sums[ROWS][4];
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			sums[r][0] = first.x;
			sums[r][1] = first.y;
			sums[r][2] = first.z;
			sums[r][3] = first.w;
		}
#pragma unroll 4
		for (uint32_t i = 0; i < inputs; i++) {
			const float4 weight = *(const float4 *)(weights + i * outputs + o);
			float values[ROWS];
			load_rows<ROWS>(x + i * CUDA_TILE_LINE + row, values);
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				sums[r][0] += values[r] * weight.x;
				sums[r][1] += values[r] * weight.y;
				sums[r][2] += values[r] * weight.z;
				sums[r][3] += values[r] * weight.w;
			}
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
#pragma unroll
			for (int c = 0; c < 4; c++)
				y[(o + c) * CUDA_TILE_LINE + row + r] =
					relu && sums[r][c] < 0 ? 0 : sums[r][c];
		}
	}
}

// As many rows a thread as leave no thread of the block without work.
static __device__ void tile_layer_any(const float *weights, const float *x, float *y,
	uint32_t inputs, uint32_t outputs, bool relu)
{
	if (outputs >= 128)
		tile_layer<4>(weights, x, y, inputs, outputs, relu);
	else if (outputs >= 64)
		tile_layer<2>(weights, x, y, inputs, outputs, relu);
	else
		tile_layer<1>(weights, x, y, inputs, outputs, relu);
}

// A tile of rows through all layers; what lies between them stays in shared memory, value by value.
static __device__ void tile_run(const cuda_mlp &mlp, const cuda_rows &rows, uint32_t first,
	const float *weights, float *buffers)
{
	const uint32_t inputs = mlp.widths[0], classes = mlp.widths[mlp.layers];
	const uint32_t count = min(rows.rows - first, (uint32_t)CUDA_TILE_ROWS);
	float *x = buffers, *y = buffers + mlp.width_max * CUDA_TILE_LINE;
	const float *from = CUDA_AT(const float, rows.inputs) + (uint64_t)first * inputs;
	for (uint32_t i = threadIdx.x; i < CUDA_TILE_ROWS * inputs; i += CUDA_BLOCK)
		x[i % inputs * CUDA_TILE_LINE + i / inputs] = i < count * inputs ? from[i] : 0;
	__syncthreads();
	for (uint32_t layer = 0; layer < mlp.layers; layer++) {
		const uint32_t outputs = cuda_four(mlp.widths[layer + 1]);
		tile_layer_any(weights, x, y, mlp.widths[layer], outputs, mlp.relu >> layer & 1);
		weights += (mlp.widths[layer] + 1) * outputs;
		__syncthreads();
		float *swap = x;
		x = y;
		y = swap;
	}
	if (threadIdx.x < count)
		CUDA_AT(uint32_t, rows.labels)[first + threadIdx.x] =
			cuda_label(x + threadIdx.x, classes, CUDA_TILE_LINE);
	if (rows.scores != 0) {
		float *to = CUDA_AT(float, rows.scores) + (uint64_t)first * classes;
		for (uint32_t i = threadIdx.x; i < count * classes; i += CUDA_BLOCK)
			to[i] = x[i % classes * CUDA_TILE_LINE + i / classes];
	}
	__syncthreads();
}

extern "C" __global__ void __launch_bounds__(CUDA_BLOCK, CUDA_MLP_BLOCKS)
	sheaf_mlp(cuda_mlp mlp, cuda_rows rows)
{
	extern __shared__ __align__(128) float shared[];
	load_weights(mlp, shared);
	for (uint32_t first = blockIdx.x * CUDA_TILE_ROWS; first < rows.rows;
		first += gridDim.x * CUDA_TILE_ROWS)
		tile_run(mlp, rows, first, shared, shared + mlp.weights_count);
}

extern "C" __global__ void sheaf_layer(
	cuda_layer layer, uint64_t x, uint64_t second, uint64_t y, uint32_t rows)
{
	const uint64_t total = (uint64_t)rows * layer.units;
	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total;
		i += (uint64_t)gridDim.x * blockDim.x) {
		const uint64_t row = i / layer.units;
		cuda_unit(&layer, CUDA_AT(const float, x) + row * layer.x_count,
			CUDA_AT(const float, second) + row * layer.second_count,
			CUDA_AT(float, y) + row * layer.y_count, (uint32_t)(i % layer.units));
	}
}

/* ---- products of matrices on tensor cores --------------------------------------------------- */

using matrix_x = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using matrix_w = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using matrix_y = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

// A tile of a product: where it begins.
struct product_tile {
	uint32_t row, column, group;
};

static __device__ product_tile tile_of(const cuda_product &product, uint64_t number)
{
	const uint32_t across =
		(product.columns + CUDA_PRODUCT_COLUMNS - 1) / CUDA_PRODUCT_COLUMNS;
	const uint32_t down = (product.rows + CUDA_PRODUCT_ROWS - 1) / CUDA_PRODUCT_ROWS;
	return { (uint32_t)(number / across % down) * CUDA_PRODUCT_ROWS,
		(uint32_t)(number % across) * CUDA_PRODUCT_COLUMNS,
		(uint32_t)(number / across / down) };
}

// Rows of a tile with numbers that cannot be taken apart are marked and made by plain arithmetic.
static __device__ void place_x(float *shared, uint32_t row, uint32_t k, float value)
{
	shared[row * CUDA_PRODUCT_X_LINE + k] = value;
	if (!(fabsf(value) < CUDA_PRODUCT_MAX))
		shared[CUDA_PRODUCT_ODD_AT + row] = 1;
}

// Neighbours take neighbouring inputs of a row.
static __device__ void load_dense(const cuda_layer &l, const cuda_product &product,
	const product_tile &tile, const float *x, uint32_t first, float *shared)
{
	const float *weights = CUDA_AT(const float, l.weights);
	const uint32_t k = threadIdx.x % CUDA_PRODUCT_DEPTH;
	for (uint32_t row = threadIdx.x / CUDA_PRODUCT_DEPTH; row < CUDA_PRODUCT_ROWS;
		row += CUDA_BLOCK / CUDA_PRODUCT_DEPTH)
		place_x(shared, row, k,
			tile.row + row < product.rows && first + k < product.depth
				? x[(uint64_t)(tile.row + row) * product.depth + first + k]
				: 0);
	const uint32_t column = threadIdx.x % CUDA_PRODUCT_COLUMNS;
	for (uint32_t i = threadIdx.x / CUDA_PRODUCT_COLUMNS; i < CUDA_PRODUCT_DEPTH;
		i += CUDA_BLOCK / CUDA_PRODUCT_COLUMNS)
		shared[CUDA_PRODUCT_W_AT + i * CUDA_PRODUCT_W_LINE + column] =
			tile.column + column < product.columns && first + i < product.depth
				? weights[(uint64_t)(first + i) * product.columns + tile.column +
					  column]
				: 0;
}

// Where the taps of this depth lie: channel, and lines and columns from the window's corner.
static __device__ void load_taps(
	const cuda_layer &l, const cuda_product &product, uint32_t first, float *shared)
{
	int32_t *taps = (int32_t *)(shared + CUDA_PRODUCT_TAPS_AT) + threadIdx.x * 3;
	const uint32_t k = first + threadIdx.x;
	if (threadIdx.x >= CUDA_PRODUCT_DEPTH)
		return;
	taps[0] = k < product.depth ? (int32_t)(k / l.w.kernel / l.h.kernel) : -1;
	taps[1] = (int32_t)(k / l.w.kernel % l.h.kernel * l.h.dilation);
	taps[2] = (int32_t)(k % l.w.kernel * l.w.dilation);
}

// Neighbours take neighbouring positions, so that what a tap reads lies side by side.
static __device__ void load_conv(const cuda_layer &l, const cuda_product &product,
	const product_tile &tile, const float *x, uint32_t first, float *shared)
{
	const int32_t *taps = (const int32_t *)(shared + CUDA_PRODUCT_TAPS_AT);
	const uint32_t row = threadIdx.x % CUDA_PRODUCT_ROWS, number = tile.row + row;
	const uint32_t position = number % product.positions, channels = l.inputs / l.groups;
	const float *from = x + (uint64_t)(number / product.positions) * l.x_count +
			    (uint64_t)tile.group * channels * l.h.in * l.w.in;
	const int64_t corner_h = (int64_t)(position / l.w.out) * l.h.stride - l.h.pad;
	const int64_t corner_w = (int64_t)(position % l.w.out) * l.w.stride - l.w.pad;
	for (uint32_t k = threadIdx.x / CUDA_PRODUCT_ROWS; k < CUDA_PRODUCT_DEPTH;
		k += CUDA_BLOCK / CUDA_PRODUCT_ROWS) {
		const int64_t h = corner_h + taps[3 * k + 1], w = corner_w + taps[3 * k + 2];
		const bool inside = number < product.rows && taps[3 * k] >= 0 && h >= 0 &&
				    h < l.h.in && w >= 0 && w < l.w.in;
		place_x(shared, row, k,
			inside ? from[((uint64_t)taps[3 * k] * l.h.in + (uint64_t)h) * l.w.in +
				      (uint64_t)w]
			       : 0);
	}
	const float *weights = CUDA_AT(const float, l.weights) +
			       (uint64_t)tile.group * product.columns * product.depth;
	const uint32_t i = threadIdx.x % CUDA_PRODUCT_DEPTH;
	for (uint32_t column = threadIdx.x / CUDA_PRODUCT_DEPTH; column < CUDA_PRODUCT_COLUMNS;
		column += CUDA_BLOCK / CUDA_PRODUCT_DEPTH)
		shared[CUDA_PRODUCT_W_AT + i * CUDA_PRODUCT_W_LINE + column] =
			tile.column + column < product.columns && first + i < product.depth
				? weights[(uint64_t)(tile.column + column) * product.depth + first +
					  i]
				: 0;
}

// A number as the sum of two with TF32's 11 bits each.
template <typename Matrix> static __device__ void take_apart(Matrix &high, Matrix &low)
{
#pragma unroll
	for (int i = 0; i < Matrix::num_elements; i++) {
		const float value = high.x[i];
		high.x[i] = wmma::__float_to_tf32(value);
		low.x[i] = wmma::__float_to_tf32(value - high.x[i]);
	}
}

// One depth of a tile: each of 8 warps makes 16 rows x 32 columns. What is lost are products of two
// low parts, below 2^-22 of the product. Tensor cores cut sums off, so no sum of theirs is longer
// than this depth: long sums are added up outside of them, where they are rounded.
static __device__ void multiply_tile(const float *shared, matrix_y sums[2])
{
	const uint32_t warp = threadIdx.x / 32;
	const float *x = shared + warp / 2 * 16 * CUDA_PRODUCT_X_LINE;
	const float *w = shared + CUDA_PRODUCT_W_AT + warp % 2 * 32;
	matrix_y parts[2];
	wmma::fill_fragment(parts[0], 0);
	wmma::fill_fragment(parts[1], 0);
#pragma unroll
	for (uint32_t k = 0; k < CUDA_PRODUCT_DEPTH; k += 8) {
		matrix_x x_high, x_low;
		wmma::load_matrix_sync(x_high, x + k, CUDA_PRODUCT_X_LINE);
		take_apart(x_high, x_low);
#pragma unroll
		for (uint32_t half = 0; half < 2; half++) {
			matrix_w w_high, w_low;
			wmma::load_matrix_sync(w_high, w + k * CUDA_PRODUCT_W_LINE + half * 16,
				CUDA_PRODUCT_W_LINE);
			take_apart(w_high, w_low);
			wmma::mma_sync(parts[half], x_low, w_high, parts[half]);
			wmma::mma_sync(parts[half], x_high, w_low, parts[half]);
			wmma::mma_sync(parts[half], x_high, w_high, parts[half]);
		}
	}
#pragma unroll
	for (int i = 0; i < matrix_y::num_elements; i++) {
		sums[0].x[i] += parts[0].x[i];
		sums[1].x[i] += parts[1].x[i];
	}
}

// Sums, by way of shared memory, to where they belong. Neighbours take neighbours there.
static __device__ void store_tile(const cuda_layer &l, const cuda_product &product,
	const product_tile &tile, const float *x, float *y, const float *shared)
{
	const bool conv = l.kind == CUDA_CONV;
	const float *bias = CUDA_AT(const float, l.bias);
	for (uint32_t i = threadIdx.x; i < CUDA_PRODUCT_ROWS * CUDA_PRODUCT_COLUMNS;
		i += CUDA_BLOCK) {
		const uint32_t line = conv ? i % CUDA_PRODUCT_ROWS : i / CUDA_PRODUCT_COLUMNS;
		const uint32_t column = tile.column +
					(conv ? i / CUDA_PRODUCT_ROWS : i % CUDA_PRODUCT_COLUMNS);
		const uint32_t number = tile.row + line;
		if (number >= product.rows || column >= product.columns)
			continue;
		const uint32_t row = number / product.positions, at = number % product.positions;
		const uint32_t output = tile.group * product.columns + column;
		const uint32_t unit =
			conv ? output * product.positions + at : at * product.columns + column;
		const float sum =
			shared[line * CUDA_PRODUCT_W_LINE + column - tile.column] + bias[output];
		y[(uint64_t)row * l.y_count + unit] =
			shared[CUDA_PRODUCT_ODD_AT + line] == 0
				? sum
				: cuda_element(&l, x + (uint64_t)row * l.x_count, x, unit);
	}
}

static __device__ void product_tile_run(const cuda_layer &l, const cuda_product &product,
	const product_tile &tile, const float *x, float *y, float *shared)
{
	const uint32_t warp = threadIdx.x / 32;
	matrix_y sums[2];
	wmma::fill_fragment(sums[0], 0);
	wmma::fill_fragment(sums[1], 0);
	if (threadIdx.x < CUDA_PRODUCT_ROWS)
		shared[CUDA_PRODUCT_ODD_AT + threadIdx.x] = 0;
	for (uint32_t first = 0; first < product.depth; first += CUDA_PRODUCT_DEPTH) {
		if (l.kind == CUDA_CONV)
			load_taps(l, product, first, shared);
		__syncthreads();
		if (l.kind == CUDA_CONV)
			load_conv(l, product, tile, x, first, shared);
		else
			load_dense(l, product, tile, x, first, shared);
		__syncthreads();
		multiply_tile(shared, sums);
	}
	__syncthreads();
	float *to = shared + warp / 2 * 16 * CUDA_PRODUCT_W_LINE + warp % 2 * 32;
	wmma::store_matrix_sync(to, sums[0], CUDA_PRODUCT_W_LINE, wmma::mem_row_major);
	wmma::store_matrix_sync(to + 16, sums[1], CUDA_PRODUCT_W_LINE, wmma::mem_row_major);
	__syncthreads();
	store_tile(l, product, tile, x, y, shared);
	__syncthreads();
}

// A layer Dense or Conv; the same arguments and the same results, but for rounding, as sheaf_layer.
extern "C" __global__ void __launch_bounds__(CUDA_BLOCK)
	sheaf_product(cuda_layer layer, uint64_t x, uint64_t second, uint64_t y, uint32_t rows)
{
	extern __shared__ __align__(128) float shared[];
	const cuda_product product = cuda_product_of(&layer, rows);
	const uint64_t tiles = cuda_product_tiles(&product);
	(void)second;
	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x)
		product_tile_run(layer, product, tile_of(product, tile), CUDA_AT(const float, x),
			CUDA_AT(float, y), shared);
}

extern "C" __global__ void sheaf_label(
	uint64_t scores, uint64_t labels, uint32_t classes, uint32_t rows)
{
	for (uint32_t row = blockIdx.x * blockDim.x + threadIdx.x; row < rows;
		row += gridDim.x * blockDim.x)
		CUDA_AT(uint32_t, labels)
	[row] = cuda_label(CUDA_AT(const float, scores) + (uint64_t)row * classes, classes, 1);
}

// Stays until told to stop: blocks (g, s) wait for requests in slot s of the ring, take every
// groups-th tile of its rows straight from host memory, and answer there.
extern "C" __global__ void __launch_bounds__(CUDA_BLOCK)
	sheaf_persistent(cuda_mlp mlp, uint64_t address)
{
	extern __shared__ __align__(128) float shared[];
	__shared__ uint32_t wanted;
	cuda_ring *ring = CUDA_AT(cuda_ring, address);
	cuda_slot *slot = &ring->slots[blockIdx.y];
	uint32_t served = 0;
	load_weights(mlp, shared);
	for (;;) {
		if (threadIdx.x == 0) {
			unsigned int pause = 32;
			wanted = served;
			while ((wanted = flag(slot->request).load(cuda::memory_order_acquire)) ==
					served &&
				flag(ring->stop).load(cuda::memory_order_relaxed) == 0) {
				__nanosleep(pause);
				pause = pause < 512 ? pause * 2 : pause;
			}
		}
		__syncthreads();
		if (wanted == served)
			return;
		served = wanted;
		const cuda_rows rows = { slot->inputs, slot->labels, slot->scores, slot->rows, 0 };
		for (uint32_t first = blockIdx.x * CUDA_TILE_ROWS; first < rows.rows;
			first += gridDim.x * CUDA_TILE_ROWS)
			tile_run(mlp, rows, first, shared, shared + mlp.weights_count);
		__threadfence_system();
		__syncthreads();
		if (threadIdx.x == 0)
			flag(slot->done[blockIdx.x]).store(served, cuda::memory_order_release);
	}
}
