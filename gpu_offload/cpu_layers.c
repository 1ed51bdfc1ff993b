/* SPDX-License-Identifier: BSD-2-Clause */
/* Layers without weights, and trees, in 32-bit floats. */
#include "gpu_offload/cpu_plan.h"

#include <math.h>

static void softmax(const float *x, float *y, uint32_t count, uint32_t stride)
{
	float most = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < count; i++)
		most = fmaxf(most, x[(size_t)i * stride]);
	for (uint32_t i = 0; i < count; i++) {
		float value = expf(x[(size_t)i * stride] - most);
		y[(size_t)i * stride] = value;
		sum += value;
	}
	for (uint32_t i = 0; i < count; i++)
		y[(size_t)i * stride] /= sum;
}

static void run_softmax(const struct layer_softmax *layer, const float *x, float *y)
{
	for (uint32_t outer = 0; outer < layer->outer; outer++) {
		size_t at = (size_t)outer * layer->axis * layer->inner;
		for (uint32_t inner = 0; inner < layer->inner; inner++)
			softmax(x + at + inner, y + at + inner, layer->axis, layer->inner);
	}
}

/* The part of a window that lies inside. */
struct reach {
	uint32_t from, to;
};

static struct reach reach_of(const struct layer_axis *axis, uint32_t out)
{
	int64_t from = (int64_t)out * axis->stride - axis->pad, to = from + axis->kernel;
	return (struct reach){ from < 0 ? 0 : (uint32_t)from,
		to > axis->in ? axis->in : (uint32_t)to };
}

static float pool_at(
	const struct layer_pool *pool, const float *plane, struct reach h, struct reach w, bool max)
{
	float sum = 0, most = -INFINITY;
	for (uint32_t i = h.from; i < h.to; i++) {
		for (uint32_t j = w.from; j < w.to; j++) {
			float value = plane[(size_t)i * pool->w.in + j];
			sum += value;
			most = value > most ? value : most;
		}
	}
	if (max)
		return most;
	uint32_t count = pool->count_pad ? pool->h.kernel * pool->w.kernel
					 : (h.to - h.from) * (w.to - w.from);
	return sum / (float)count;
}

static void run_pool(const struct layer_pool *pool, const float *x, float *y, bool max)
{
	for (uint32_t c = 0; c < pool->channels; c++, x += (size_t)pool->h.in * pool->w.in) {
		for (uint32_t h = 0; h < pool->h.out; h++) {
			struct reach tall = reach_of(&pool->h, h);
			for (uint32_t w = 0; w < pool->w.out; w++)
				*y++ = pool_at(pool, x, tall, reach_of(&pool->w, w), max);
		}
	}
}

static void run_affine(const struct layer_affine *affine, const float *x, float *y, uint32_t count)
{
	uint32_t channel = 0;
	for (uint32_t e = 0; e < count; e += affine->inner) {
		float scale = affine->scale[channel], shift = affine->shift[channel];
		for (uint32_t i = e; i < e + affine->inner; i++)
			y[i] = x[i] * scale + shift;
		channel = channel + 1 == affine->channels ? 0 : channel + 1;
	}
}

static void run_transpose(
	const struct layer_transpose *transpose, const float *x, float *y, uint32_t count)
{
	uint32_t strides[MODEL_RANK_MAX], steps[MODEL_RANK_MAX], sizes[MODEL_RANK_MAX];
	uint32_t at[MODEL_RANK_MAX] = { 0 }, stride = 1, from = 0;
	for (uint32_t a = transpose->rank; a-- > 0;) {
		strides[a] = stride;
		stride *= transpose->in[a];
	}
	for (uint32_t a = 0; a < transpose->rank; a++) {
		steps[a] = strides[transpose->axes[a]];
		sizes[a] = transpose->in[transpose->axes[a]];
	}
	for (uint32_t e = 0; e < count; e++) {
		y[e] = x[from];
		for (uint32_t a = transpose->rank; a-- > 0;) {
			from += steps[a];
			if (++at[a] < sizes[a])
				break;
			from -= sizes[a] * steps[a];
			at[a] = 0;
		}
	}
}

static inline bool tree_says_yes(const struct tree_node *node, float value)
{
	if (isnan(value))
		return node->nan_yes;
	switch ((enum tree_mode)node->mode) {
	case TREE_LEQ:
		return value <= node->threshold;
	case TREE_LT:
		return value < node->threshold;
	case TREE_GTE:
		return value >= node->threshold;
	case TREE_GT:
		return value > node->threshold;
	case TREE_EQ:
		return value == node->threshold;
	default:
		return value != node->threshold;
	}
}

static void run_trees(const struct layer_trees *trees, const float *x, float *y)
{
	for (uint32_t c = 0; c < trees->classes; c++)
		y[c] = trees->base[c];
	for (uint32_t i = 0; i < trees->trees; i++) {
		const struct tree_node *node = &trees->nodes[trees->roots[i]];
		while (node->mode != TREE_LEAF)
			node = &trees->nodes[tree_says_yes(node, x[node->feature]) ? node->yes
										   : node->no];
		for (uint32_t w = node->yes; w < node->yes + node->no; w++)
			y[trees->weights[w].class] += trees->weights[w].weight;
	}
	if (trees->post == TREE_POST_SOFTMAX)
		softmax(y, y, trees->classes, 1);
	for (uint32_t c = 0; c < trees->classes && trees->post == TREE_POST_LOGISTIC; c++)
		y[c] = 1 / (1 + expf(-y[c]));
}

static void run_elements(
	enum layer_kind kind, const float *x, const float *second, float *y, uint32_t count)
{
	switch (kind) {
	case LAYER_ADD:
		for (uint32_t e = 0; e < count; e++)
			y[e] = x[e] + second[e];
		break;
	case LAYER_RELU:
		for (uint32_t e = 0; e < count; e++)
			y[e] = x[e] < 0 ? 0 : x[e];
		break;
	case LAYER_SIGMOID:
		for (uint32_t e = 0; e < count; e++)
			y[e] = 1 / (1 + expf(-x[e]));
		break;
	default:
		for (uint32_t e = 0; e < count; e++)
			y[e] = tanhf(x[e]);
		break;
	}
}

static void run_quantize(
	const struct layer_quantize *quantize, const float *x, float *y, uint32_t count)
{
	uint32_t channel = 0;
	for (uint32_t e = 0; e < count; e += quantize->inner) {
		for (uint32_t i = e; i < e + quantize->inner; i++)
			y[i] = layer_quantize_one(quantize, channel, x[i]);
		channel = channel + 1 == quantize->channels ? 0 : channel + 1;
	}
}

void cpu_layer_run(const struct layer *layer, uint32_t rows, uint32_t count, const float *x,
	size_t x_stride, const float *second, size_t second_stride, float *y, size_t y_stride)
{
	for (uint32_t r = 0; r < rows; r++) {
		switch (layer->kind) {
		case LAYER_AFFINE:
			run_affine(&layer->affine, x, y, count);
			break;
		case LAYER_MAX_POOL:
		case LAYER_AVERAGE_POOL:
			run_pool(&layer->pool, x, y, layer->kind == LAYER_MAX_POOL);
			break;
		case LAYER_TRANSPOSE:
			run_transpose(&layer->transpose, x, y, count);
			break;
		case LAYER_SOFTMAX:
			run_softmax(&layer->softmax, x, y);
			break;
		case LAYER_QUANTIZE:
			run_quantize(&layer->quantize, x, y, count);
			break;
		case LAYER_TREES:
			run_trees(&layer->trees, x, y);
			break;
		default:
			run_elements(layer->kind, x, second, y, count);
			break;
		}
		x += x_stride;
		second += second_stride;
		y += y_stride;
	}
}
