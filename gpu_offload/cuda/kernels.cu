// SPDX-License-Identifier: BSD-2-Clause
// Kernels of the back end cuda. Compiled by nvcc to a fatbin that the program carries.
#include "gpu_offload/cuda/device.h"

#include <cuda/atomic>

using flag = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;

// All weights of a perceptron into shared memory, by all threads of the block.
static __device__ void load_weights(const cuda_mlp &mlp, float *shared)
{
	const float *weights = CUDA_AT(const float, mlp.weights);
	for (uint32_t i = threadIdx.x; i < mlp.weights_count; i += blockDim.x)
		shared[i] = weights[i];
	__syncthreads();
}

// One layer of a tile: 32 lanes side by side take outputs, 8 warps take 4 rows each. Weights of
// neighbouring lanes are neighbours, inputs are the same for a whole warp.
static __device__ void tile_layer(const float *weights, const float *x, float *y, uint32_t inputs,
	uint32_t outputs, uint32_t stride, bool relu)
{
	const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 4;
	const float *bias = weights + (uint64_t)inputs * outputs;
	for (uint32_t o = lane; o < outputs; o += 32) {
		float sums[4] = { bias[o], bias[o], bias[o], bias[o] };
		for (uint32_t i = 0; i < inputs; i++) {
			const float weight = weights[i * outputs + o];
#pragma unroll
			for (int r = 0; r < 4; r++)
				sums[r] += x[(row + r) * stride + i] * weight;
		}
#pragma unroll
		for (int r = 0; r < 4; r++)
			y[(row + r) * stride + o] = relu && sums[r] < 0 ? 0 : sums[r];
	}
}

// A tile of rows through all layers; what lies between them stays in shared memory.
static __device__ void tile_run(const cuda_mlp &mlp, const cuda_rows &rows, uint32_t first,
	const float *weights, float *buffers)
{
	const uint32_t stride = mlp.width_max + 1; // odd strides spread rows over the banks
	const uint32_t inputs = mlp.widths[0], classes = mlp.widths[mlp.layers];
	const uint32_t count = min(rows.rows - first, (uint32_t)CUDA_TILE_ROWS);
	float *x = buffers, *y = buffers + CUDA_TILE_ROWS * stride;
	const float *from = CUDA_AT(const float, rows.inputs) + (uint64_t)first * inputs;
	for (uint32_t i = threadIdx.x; i < CUDA_TILE_ROWS * inputs; i += blockDim.x)
		x[i / inputs * stride + i % inputs] = i < count * inputs ? from[i] : 0;
	__syncthreads();
	for (uint32_t layer = 0; layer < mlp.layers; layer++) {
		tile_layer(weights, x, y, mlp.widths[layer], mlp.widths[layer + 1], stride,
			mlp.relu >> layer & 1);
		weights += (mlp.widths[layer] + 1) * mlp.widths[layer + 1];
		__syncthreads();
		float *swap = x;
		x = y;
		y = swap;
	}
	if (threadIdx.x < count)
		CUDA_AT(uint32_t, rows.labels)[first + threadIdx.x] =
			cuda_label(x + threadIdx.x * stride, classes);
	if (rows.scores != 0) {
		float *to = CUDA_AT(float, rows.scores) + (uint64_t)first * classes;
		for (uint32_t i = threadIdx.x; i < count * classes; i += blockDim.x)
			to[i] = x[i / classes * stride + i % classes];
	}
	__syncthreads();
}

extern "C" __global__ void __launch_bounds__(CUDA_BLOCK) sheaf_mlp(cuda_mlp mlp, cuda_rows rows)
{
	extern __shared__ float shared[];
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

extern "C" __global__ void sheaf_label(
	uint64_t scores, uint64_t labels, uint32_t classes, uint32_t rows)
{
	for (uint32_t row = blockIdx.x * blockDim.x + threadIdx.x; row < rows;
		row += gridDim.x * blockDim.x)
		CUDA_AT(uint32_t, labels)
	[row] = cuda_label(CUDA_AT(const float, scores) + (uint64_t)row * classes, classes);
}

// Stays until told to stop: blocks (g, s) wait for requests in slot s of the ring, take every
// groups-th tile of its rows straight from host memory, and answer there.
extern "C" __global__ void __launch_bounds__(CUDA_BLOCK)
	sheaf_persistent(cuda_mlp mlp, uint64_t address)
{
	extern __shared__ float shared[];
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
