/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The oracle: one row at a time, one layer at a time, in double precision, by the definitions of
 * the operators. Slow and plain; every other back end is judged by it.
 */
#include "gpu_offload/backend_private.h"
#include "gpu_offload/layers.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void run_dense(const struct layer_dense *dense, const double *x, double *y)
{
	for (uint32_t row = 0; row < dense->rows; row++) {
		for (uint32_t o = 0; o < dense->outputs; o++) {
			double sum = dense->bias[o];
			for (uint32_t i = 0; i < dense->inputs; i++)
				sum += x[i] * dense->weights[(size_t)i * dense->outputs + o];
			y[o] = sum;
		}
		x += dense->inputs;
		y += dense->outputs;
	}
}

/* Where a kernel's tap reads; false: outside. */
static bool tap(const struct layer_axis *axis, uint32_t out, uint32_t k, uint32_t *in)
{
	int64_t at = (int64_t)out * axis->stride + (int64_t)k * axis->dilation - axis->pad;
	*in = (uint32_t)at;
	return at >= 0 && at < axis->in;
}

/* One output of a convolution. */
static double conv_at(
	const struct layer_conv *conv, const double *x, uint32_t channel, uint32_t oh, uint32_t ow)
{
	uint32_t inputs = conv->channels_in / conv->groups;
	uint32_t group = channel / (conv->channels_out / conv->groups);
	const float *weights =
		conv->weights + (size_t)channel * inputs * conv->h.kernel * conv->w.kernel;
	double sum = conv->bias[channel];
	uint32_t h, w;
	for (uint32_t c = 0; c < inputs; c++) {
		const double *plane = x + (size_t)(group * inputs + c) * conv->h.in * conv->w.in;
		for (uint32_t kh = 0; kh < conv->h.kernel; kh++) {
			for (uint32_t kw = 0; kw < conv->w.kernel; kw++, weights++) {
				if (tap(&conv->h, oh, kh, &h) && tap(&conv->w, ow, kw, &w))
					sum += *weights * plane[(size_t)h * conv->w.in + w];
			}
		}
	}
	return sum;
}

static void run_conv(const struct layer_conv *conv, const double *x, double *y)
{
	for (uint32_t channel = 0; channel < conv->channels_out; channel++) {
		for (uint32_t h = 0; h < conv->h.out; h++) {
			for (uint32_t w = 0; w < conv->w.out; w++)
				*y++ = conv_at(conv, x, channel, h, w);
		}
	}
}

static double pool_at(
	const struct layer_pool *pool, const double *plane, uint32_t oh, uint32_t ow, bool max)
{
	double sum = 0, most = -INFINITY;
	uint32_t count = 0, h, w;
	for (uint32_t kh = 0; kh < pool->h.kernel; kh++) {
		for (uint32_t kw = 0; kw < pool->w.kernel; kw++) {
			if (!tap(&pool->h, oh, kh, &h) || !tap(&pool->w, ow, kw, &w))
				continue;
			double value = plane[(size_t)h * pool->w.in + w];
			sum += value;
			most = value > most ? value : most;
			count++;
		}
	}
	if (max)
		return most;
	return sum / (pool->count_pad ? pool->h.kernel * pool->w.kernel : count);
}

static void run_pool(const struct layer_pool *pool, const double *x, double *y, bool max)
{
	for (uint32_t channel = 0; channel < pool->channels; channel++) {
		const double *plane = x + (size_t)channel * pool->h.in * pool->w.in;
		for (uint32_t h = 0; h < pool->h.out; h++) {
			for (uint32_t w = 0; w < pool->w.out; w++)
				*y++ = pool_at(pool, plane, h, w, max);
		}
	}
}

static void run_affine(
	const struct layer_affine *affine, const double *x, double *y, uint32_t count)
{
	for (uint32_t e = 0; e < count; e++) {
		uint32_t channel = e / affine->inner % affine->channels;
		y[e] = x[e] * affine->scale[channel] + affine->shift[channel];
	}
}

static void run_quantize(
	const struct layer_quantize *quantize, const double *x, double *y, uint32_t count)
{
	for (uint32_t e = 0; e < count; e++)
		y[e] = layer_quantize_one(
			quantize, e / quantize->inner % quantize->channels, (float)x[e]);
}

static void run_transpose(
	const struct layer_transpose *transpose, const double *x, double *y, uint32_t count)
{
	uint32_t strides[MODEL_RANK_MAX], stride = 1;
	for (uint32_t a = transpose->rank; a-- > 0;) {
		strides[a] = stride;
		stride *= transpose->in[a];
	}
	for (uint32_t e = 0; e < count; e++) {
		uint32_t rest = e, from = 0;
		for (uint32_t a = transpose->rank; a-- > 0;) {
			uint32_t axis = transpose->axes[a];
			from += rest % transpose->in[axis] * strides[axis];
			rest /= transpose->in[axis];
		}
		y[e] = x[from];
	}
}

static void softmax(const double *x, double *y, uint32_t count, uint32_t stride)
{
	double most = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < count; i++)
		most = fmax(most, x[(size_t)i * stride]);
	for (uint32_t i = 0; i < count; i++)
		sum += exp(x[(size_t)i * stride] - most);
	for (uint32_t i = 0; i < count; i++)
		y[(size_t)i * stride] = exp(x[(size_t)i * stride] - most) / sum;
}

static void run_softmax(const struct layer_softmax *layer, const double *x, double *y)
{
	for (uint32_t outer = 0; outer < layer->outer; outer++) {
		size_t at = (size_t)outer * layer->axis * layer->inner;
		for (uint32_t inner = 0; inner < layer->inner; inner++)
			softmax(x + at + inner, y + at + inner, layer->axis, layer->inner);
	}
}

/* Thresholds are 32-bit floats, and so are the inputs they are compared with. */
static bool tree_says_yes(const struct tree_node *node, float value)
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

static void run_trees(const struct layer_trees *trees, const double *x, double *y)
{
	for (uint32_t c = 0; c < trees->classes; c++)
		y[c] = trees->base[c];
	for (uint32_t i = 0; i < trees->trees; i++) {
		const struct tree_node *node = &trees->nodes[trees->roots[i]];
		while (node->mode != TREE_LEAF)
			node = &trees->nodes[tree_says_yes(node, (float)x[node->feature])
						     ? node->yes
						     : node->no];
		for (uint32_t w = node->yes; w < node->yes + node->no; w++)
			y[trees->weights[w].class] += trees->weights[w].weight;
	}
	if (trees->post == TREE_POST_SOFTMAX)
		softmax(y, y, trees->classes, 1);
	for (uint32_t c = 0; c < trees->classes && trees->post == TREE_POST_LOGISTIC; c++)
		y[c] = 1 / (1 + exp(-y[c]));
}

static void run_elements(
	enum layer_kind kind, const double *x, const double *second, double *y, uint32_t count)
{
	for (uint32_t e = 0; e < count; e++) {
		switch (kind) {
		case LAYER_ADD:
			y[e] = x[e] + second[e];
			break;
		case LAYER_RELU:
			y[e] = x[e] < 0 ? 0 : x[e]; /* a NaN stays one */
			break;
		case LAYER_SIGMOID:
			y[e] = 1 / (1 + exp(-x[e]));
			break;
		default:
			y[e] = tanh(x[e]);
			break;
		}
	}
}

static void run_layer(
	const struct gpu_offload_model *model, const struct layer *layer, double *const values[])
{
	const double *x = values[layer->input];
	double *y = values[layer->output];
	uint32_t count = model->values[layer->output];
	switch (layer->kind) {
	case LAYER_DENSE:
		run_dense(&layer->dense, x, y);
		break;
	case LAYER_CONV:
		run_conv(&layer->conv, x, y);
		break;
	case LAYER_AFFINE:
		run_affine(&layer->affine, x, y, count);
		break;
	case LAYER_QUANTIZE:
		run_quantize(&layer->quantize, x, y, count);
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
	case LAYER_TREES:
		run_trees(&layer->trees, x, y);
		break;
	default:
		run_elements(layer->kind, x, values[layer->second], y, count);
		break;
	}
}

struct cpu_ref {
	struct gpu_offload_backend backend;
	struct backend_done done;
	double *memory;
	double *values[]; /* where each begins */
};

static uint32_t run_row(struct cpu_ref *ref, const float *inputs, float *scores)
{
	const struct gpu_offload_model *model = ref->backend.config.model;
	for (uint32_t i = 0; i < model->inputs; i++)
		ref->values[0][i] = inputs[i];
	for (uint32_t i = 0; i < model->layers_count; i++)
		run_layer(model, &model->layers[i], ref->values);
	const double *result = ref->values[model->result];
	uint32_t best = 0;
	float most = -INFINITY;
	for (uint32_t c = 0; c < model->classes; c++) {
		float score = (float)result[c];
		if (scores != NULL)
			scores[c] = score;
		if (score > most) {
			most = score;
			best = c;
		}
	}
	return best;
}

static double largest(const double *values, uint32_t count)
{
	double most = 0;
	for (uint32_t i = 0; i < count; i++)
		most = fmax(most, fabs(values[i]));
	return most;
}

static double largest_weight(const float *weights, size_t count)
{
	double most = 0;
	for (size_t i = 0; i < count; i++)
		most = fmax(most, fabs((double)weights[i]));
	return most;
}

/* What no sum within a layer exceeds, of inputs up to x. */
static double layer_bound(const struct layer *layer, double x)
{
	size_t taps;
	switch (layer->kind) {
	case LAYER_DENSE:
		return x * layer->dense.inputs *
			       largest_weight(layer->dense.weights,
				       (size_t)layer->dense.inputs * layer->dense.outputs) +
		       largest_weight(layer->dense.bias, layer->dense.outputs);
	case LAYER_CONV:
		taps = (size_t)layer->conv.channels_in / layer->conv.groups * layer->conv.h.kernel *
		       layer->conv.w.kernel;
		return x * (double)taps *
			       largest_weight(
				       layer->conv.weights, taps * layer->conv.channels_out) +
		       largest_weight(layer->conv.bias, layer->conv.channels_out);
	case LAYER_AFFINE:
		return x * largest_weight(layer->affine.scale, layer->affine.channels) +
		       largest_weight(layer->affine.shift, layer->affine.channels);
	case LAYER_AVERAGE_POOL:
		return x * layer->pool.h.kernel * layer->pool.w.kernel;
	default:
		return 2 * x;
	}
}

bool gpu_offload_ref_may_overflow(struct gpu_offload_backend *backend, const float *row)
{
	struct cpu_ref *ref = (struct cpu_ref *)backend;
	const struct gpu_offload_model *model = backend->config.model;
	(void)run_row(ref, row, NULL);
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		double x = largest(ref->values[layer->input], model->values[layer->input]);
		if (layer->kind == LAYER_ADD)
			x = fmax(x,
				largest(ref->values[layer->second], model->values[layer->second]));
		if (!(layer_bound(layer, x) <= FLT_MAX))
			return true;
	}
	return false;
}

static int ref_submit(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct cpu_ref *ref = (struct cpu_ref *)backend;
	const struct gpu_offload_model *model = backend->config.model;
	if (backend_done_full(&ref->done, backend->config.batches_max))
		return -EAGAIN;
	for (uint32_t row = 0; row < batch->count; row++) {
		float *scores =
			batch->scores == NULL ? NULL : batch->scores + (size_t)row * model->classes;
		batch->labels[row] =
			run_row(ref, batch->inputs + (size_t)row * model->inputs, scores);
	}
	batch->status = 0;
	backend_done_push(&ref->done, batch);
	return 0;
}

static uint32_t ref_poll(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *done[], uint32_t max)
{
	return backend_done_pop(&((struct cpu_ref *)backend)->done, done, max);
}

static void ref_destroy(struct gpu_offload_backend *backend)
{
	struct cpu_ref *ref = (struct cpu_ref *)backend;
	free(ref->memory);
	free(ref);
}

static int ref_create(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, char text[], size_t size)
{
	const struct gpu_offload_model *model = config->model;
	struct cpu_ref *ref = calloc(1, sizeof(*ref) + model->values_count * sizeof(double *));
	size_t elements = 0;
	for (uint32_t i = 0; i < model->values_count; i++)
		elements += model->values[i];
	double *memory = malloc(elements * sizeof(double));
	if (ref == NULL || memory == NULL) {
		free(ref);
		free(memory);
		snprintf(text, size, "out of memory");
		return -ENOMEM;
	}
	ref->memory = memory;
	for (uint32_t i = 0; i < model->values_count; i++) {
		ref->values[i] = memory;
		memory += model->values[i];
	}
	ref->backend = (struct gpu_offload_backend){ &backend_cpu_ref, *config };
	snprintf(text, size, "plain C, double precision");
	*out = &ref->backend;
	return 0;
}

const struct gpu_offload_backend_ops backend_cpu_ref = {
	.name = "cpu-ref",
	.summary = "plain C in double precision: the oracle",
	.create = ref_create,
	.destroy = ref_destroy,
	.submit = ref_submit,
	.poll = ref_poll,
};
