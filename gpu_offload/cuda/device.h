/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: what host and device share: arguments of kernels, the ring of the
 * persistent kernel, and each layer's arithmetic for one unit of one row. Valid C and CUDA C++; the
 * test double of libcuda compiles the same arithmetic for the CPU.
 *
 * Addresses of device memory are 64-bit numbers here: the host cannot follow them by mistake.
 * CUDA_AT makes a pointer of one where the code runs that may.
 */
#pragma once

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CUDA_DEVICE            static __device__ inline
#define CUDA_AT(type, address) ((type *)(address))
#else
#define CUDA_DEVICE static inline
#ifndef CUDA_AT
#define CUDA_AT(type, address) ((type *)(uintptr_t)(address))
#endif
#endif

enum {
	CUDA_MLP_LAYERS_MAX = 16,
	CUDA_RANK_MAX = 6,
	CUDA_TILE_ROWS = 32,                 /* of the fused kernel */
	CUDA_TILE_LINE = CUDA_TILE_ROWS + 4, /* one value of all rows; then another bank begins */
	CUDA_BLOCK = 256,
	CUDA_MLP_BLOCKS = 2, /* of the fused kernel on one processor, where memory permits */
	CUDA_SLOTS_MAX = 64,
	CUDA_GROUPS_MAX = 32, /* blocks of the persistent kernel that share one slot */
};

/* Tiles of products of matrices, and how they lie in shared memory. Lines are longer than tiles, so
 * that neighbours in a column fall into different banks; all begin at multiples of 32 bytes. */
enum {
	CUDA_PRODUCT_ROWS = 64,
	CUDA_PRODUCT_COLUMNS = 64,
	CUDA_PRODUCT_DEPTH = 32,
	CUDA_PRODUCT_X_LINE = CUDA_PRODUCT_DEPTH + 4,
	CUDA_PRODUCT_W_LINE = CUDA_PRODUCT_COLUMNS + 4, /* of sums, too */
	CUDA_PRODUCT_W_AT = CUDA_PRODUCT_ROWS * CUDA_PRODUCT_X_LINE,
	CUDA_PRODUCT_ODD_AT = CUDA_PRODUCT_W_AT + CUDA_PRODUCT_DEPTH * CUDA_PRODUCT_W_LINE,
	CUDA_PRODUCT_TAPS_AT = CUDA_PRODUCT_ODD_AT + CUDA_PRODUCT_ROWS,
	CUDA_PRODUCT_FLOATS = CUDA_PRODUCT_TAPS_AT + 3 * CUDA_PRODUCT_DEPTH,
};

/* Numbers from here on, infinities and NaN are none that can be taken apart into two of TF32. */
#define CUDA_PRODUCT_MAX 0x1p126f

/* A perceptron: for each layer weights[inputs][outputs], then the bias, where outputs are rounded
 * up to a multiple of 4 and the rest is zeros. width_max is rounded up likewise. */
struct cuda_mlp {
	uint32_t layers;
	uint32_t relu; /* bit i: behind layer i */
	uint32_t width_max;
	uint32_t weights_count; /* floats, biases included */
	uint32_t widths[CUDA_MLP_LAYERS_MAX + 1];
	uint32_t spare;
	uint64_t weights;
};

struct cuda_rows {
	uint64_t inputs, labels, scores; /* scores 0: not wanted */
	uint32_t rows, spare;
};

struct cuda_axis {
	uint32_t in, out, kernel, stride, dilation, pad;
};

struct cuda_tree_node {
	float threshold;
	uint32_t feature, yes, no;
	uint8_t mode, nan_yes, spare[2];
};

struct cuda_tree_weight {
	uint32_t label;
	float weight;
};

/* One layer, whatever its kind: enum layer_kind of layers.h. A row's outputs are made by `units`
 * threads. */
struct cuda_layer {
	uint32_t kind, units;
	uint32_t x_count, second_count, y_count;
	uint32_t inputs, outputs, groups; /* Dense; channels of Conv; features, classes of Trees */
	struct cuda_axis h, w;
	uint32_t count_pad;
	uint32_t channels, outer, axis, inner;
	uint32_t rank, dims[CUDA_RANK_MAX], axes[CUDA_RANK_MAX];
	uint32_t trees, post;
	uint64_t weights, bias, roots, nodes;
};

/* The persistent kernel's ring, in host memory that the device reads. The host raises `request`
 * when a slot's rows are there; each of the slot's blocks answers by setting its `done` to it. */
struct cuda_slot {
	uint32_t request, rows;
	uint64_t inputs, labels, scores;
	uint32_t spare[8];
	uint32_t done[CUDA_GROUPS_MAX];
};

struct cuda_ring {
	uint32_t stop, groups, spare[14];
	struct cuda_slot slots[CUDA_SLOTS_MAX];
};

/* Kinds, as in layers.h (asserted there). */
enum {
	CUDA_DENSE,
	CUDA_CONV,
	CUDA_AFFINE,
	CUDA_ADD,
	CUDA_RELU,
	CUDA_SIGMOID,
	CUDA_TANH,
	CUDA_MAX_POOL,
	CUDA_AVERAGE_POOL,
	CUDA_TRANSPOSE,
	CUDA_SOFTMAX,
	CUDA_TREES,
};

CUDA_DEVICE float cuda_dense_unit(const struct cuda_layer *l, const float *x, uint32_t u)
{
	const float *weights = CUDA_AT(const float, l->weights);
	uint32_t o = u % l->outputs;
	float sum = CUDA_AT(const float, l->bias)[o];
	x += (uint64_t)(u / l->outputs) * l->inputs;
	for (uint32_t i = 0; i < l->inputs; i++)
		sum += x[i] * weights[(uint64_t)i * l->outputs + o];
	return sum;
}

/*
 * A layer Dense or Conv as a product of matrices for each group: rows x depth times depth x
 * columns. A row is one position of one row of the batch.
 */
struct cuda_product {
	uint32_t rows, columns, depth, groups, positions;
};

CUDA_DEVICE struct cuda_product cuda_product_of(const struct cuda_layer *l, uint32_t rows)
{
	struct cuda_product product = { rows, l->outputs, l->inputs, 1, l->units / l->outputs };
	if (l->kind == CUDA_CONV) {
		product.columns = l->outputs / l->groups;
		product.depth = l->inputs / l->groups * l->h.kernel * l->w.kernel;
		product.groups = l->groups;
	}
	product.rows *= product.positions;
	return product;
}

CUDA_DEVICE uint64_t cuda_product_tiles(const struct cuda_product *product)
{
	uint64_t down = (product->rows + CUDA_PRODUCT_ROWS - 1) / CUDA_PRODUCT_ROWS;
	uint64_t across = (product->columns + CUDA_PRODUCT_COLUMNS - 1) / CUDA_PRODUCT_COLUMNS;
	return down * across * product->groups;
}

/* Where a tap reads; -1: outside. */
CUDA_DEVICE int64_t cuda_tap(const struct cuda_axis *axis, uint32_t out, uint32_t k)
{
	int64_t at = (int64_t)out * axis->stride + (int64_t)k * axis->dilation - axis->pad;
	return at < axis->in ? at : -1;
}

CUDA_DEVICE float cuda_conv_unit(const struct cuda_layer *l, const float *x, uint32_t u)
{
	uint32_t ow = u % l->w.out, oh = u / l->w.out % l->h.out, channel = u / l->w.out / l->h.out;
	uint32_t inputs = l->inputs / l->groups, group = channel / (l->outputs / l->groups);
	const float *weights = CUDA_AT(const float, l->weights) +
			       (uint64_t)channel * inputs * l->h.kernel * l->w.kernel;
	float sum = CUDA_AT(const float, l->bias)[channel];
	for (uint32_t c = 0; c < inputs; c++) {
		const float *plane = x + (uint64_t)(group * inputs + c) * l->h.in * l->w.in;
		for (uint32_t kh = 0; kh < l->h.kernel; kh++) {
			int64_t h = cuda_tap(&l->h, oh, kh);
			for (uint32_t kw = 0; kw < l->w.kernel; kw++, weights++) {
				int64_t w = cuda_tap(&l->w, ow, kw);
				if (h >= 0 && w >= 0)
					sum += *weights * plane[h * l->w.in + w];
			}
		}
	}
	return sum;
}

CUDA_DEVICE float cuda_pool_unit(const struct cuda_layer *l, const float *x, uint32_t u)
{
	uint32_t ow = u % l->w.out, oh = u / l->w.out % l->h.out, count = 0;
	const float *plane = x + (uint64_t)(u / l->w.out / l->h.out) * l->h.in * l->w.in;
	float sum = 0, most = -INFINITY;
	for (uint32_t kh = 0; kh < l->h.kernel; kh++) {
		int64_t h = cuda_tap(&l->h, oh, kh);
		for (uint32_t kw = 0; kw < l->w.kernel; kw++) {
			int64_t w = cuda_tap(&l->w, ow, kw);
			if (h < 0 || w < 0)
				continue;
			float value = plane[h * l->w.in + w];
			sum += value;
			most = value > most ? value : most;
			count++;
		}
	}
	if (l->kind == CUDA_MAX_POOL)
		return most;
	return sum / (float)(l->count_pad ? l->h.kernel * l->w.kernel : count);
}

CUDA_DEVICE float cuda_transpose_unit(const struct cuda_layer *l, const float *x, uint32_t u)
{
	uint32_t from = 0;
	for (uint32_t a = l->rank; a-- > 0;) {
		uint32_t axis = l->axes[a], stride = 1;
		for (uint32_t i = axis + 1; i < l->rank; i++)
			stride *= l->dims[i];
		from += u % l->dims[axis] * stride;
		u /= l->dims[axis];
	}
	return x[from];
}

CUDA_DEVICE void cuda_softmax(const float *x, float *y, uint32_t count, uint32_t stride)
{
	float most = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < count; i++)
		most = fmaxf(most, x[(uint64_t)i * stride]);
	for (uint32_t i = 0; i < count; i++) {
		float value = expf(x[(uint64_t)i * stride] - most);
		y[(uint64_t)i * stride] = value;
		sum += value;
	}
	for (uint32_t i = 0; i < count; i++)
		y[(uint64_t)i * stride] /= sum;
}

/* Modes: LEQ, LT, GTE, GT, EQ, NEQ, LEAF. */
CUDA_DEVICE int cuda_tree_yes(const struct cuda_tree_node *node, float value)
{
	if (value != value)
		return node->nan_yes;
	switch (node->mode) {
	case 0:
		return value <= node->threshold;
	case 1:
		return value < node->threshold;
	case 2:
		return value >= node->threshold;
	case 3:
		return value > node->threshold;
	case 4:
		return value == node->threshold;
	default:
		return value != node->threshold;
	}
}

CUDA_DEVICE void cuda_trees_row(const struct cuda_layer *l, const float *x, float *y)
{
	const struct cuda_tree_node *nodes = CUDA_AT(const struct cuda_tree_node, l->nodes);
	const struct cuda_tree_weight *weights = CUDA_AT(const struct cuda_tree_weight, l->weights);
	for (uint32_t c = 0; c < l->outputs; c++)
		y[c] = CUDA_AT(const float, l->bias)[c];
	for (uint32_t t = 0; t < l->trees; t++) {
		const struct cuda_tree_node *node = &nodes[CUDA_AT(const uint32_t, l->roots)[t]];
		while (node->mode != 6)
			node = &nodes[cuda_tree_yes(node, x[node->feature]) ? node->yes : node->no];
		for (uint32_t i = node->yes; i < node->yes + node->no; i++)
			y[weights[i].label] += weights[i].weight;
	}
	if (l->post == 1)
		cuda_softmax(y, y, l->outputs, 1);
	for (uint32_t c = 0; c < l->outputs && l->post == 2; c++)
		y[c] = 1 / (1 + expf(-y[c]));
}

CUDA_DEVICE float cuda_element(
	const struct cuda_layer *l, const float *x, const float *second, uint32_t u)
{
	switch (l->kind) {
	case CUDA_DENSE:
		return cuda_dense_unit(l, x, u);
	case CUDA_CONV:
		return cuda_conv_unit(l, x, u);
	case CUDA_AFFINE:
		return x[u] * CUDA_AT(const float, l->weights)[u / l->inner % l->channels] +
		       CUDA_AT(const float, l->bias)[u / l->inner % l->channels];
	case CUDA_ADD:
		return x[u] + second[u];
	case CUDA_RELU:
		return x[u] < 0 ? 0 : x[u];
	case CUDA_SIGMOID:
		return 1 / (1 + expf(-x[u]));
	case CUDA_TANH:
		return tanhf(x[u]);
	case CUDA_TRANSPOSE:
		return cuda_transpose_unit(l, x, u);
	default:
		return cuda_pool_unit(l, x, u);
	}
}

/* One unit of one row: most layers make one number, Softmax a line, Trees the row. */
CUDA_DEVICE void cuda_unit(
	const struct cuda_layer *l, const float *x, const float *second, float *y, uint32_t u)
{
	if (l->kind == CUDA_TREES) {
		cuda_trees_row(l, x, y);
	} else if (l->kind == CUDA_SOFTMAX) {
		uint64_t at = (uint64_t)(u / l->inner) * l->axis * l->inner + u % l->inner;
		cuda_softmax(x + at, y + at, l->axis, l->inner);
	} else {
		y[u] = cuda_element(l, x, second, u);
	}
}

CUDA_DEVICE uint32_t cuda_four(uint32_t width)
{
	return (width + 3) / 4 * 4;
}

/* The class of the highest score, the lowest index among equals; a NaN never wins. */
CUDA_DEVICE uint32_t cuda_label(const float *scores, uint32_t classes, uint32_t stride)
{
	float most = -INFINITY;
	uint32_t best = 0;
	for (uint32_t c = 0; c < classes; c++) {
		if (scores[c * stride] > most) {
			most = scores[c * stride];
			best = c;
		}
	}
	return best;
}
