/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: the one form that every model is brought into. A row of inputs is value
 * 0; each layer makes one further value of one or two earlier ones. Sizes are those of one row and
 * were checked when the model was made, so back ends index without looking again.
 */
#pragma once

#include "gpu_offload/model.h"

#include <math.h>
#include <stdbool.h>

enum {
	MODEL_LAYERS_MAX = 512,
	MODEL_RANK_MAX = 6,
	MODEL_VALUE_MAX = 1 << 20,   /* elements of one value */
	MODEL_VALUES_MAX = 1 << 22,  /* of all values together */
	MODEL_WEIGHTS_MAX = 1 << 24, /* of all layers together */
	MODEL_NODES_MAX = 1 << 20,   /* of all trees together */
	MODEL_TREE_DEPTH_MAX = 1 << 10,
};

static const uint64_t MODEL_MACS_MAX = UINT64_C(1) << 30;

enum layer_kind {
	LAYER_DENSE,
	LAYER_CONV,
	LAYER_AFFINE,
	LAYER_ADD,
	LAYER_RELU,
	LAYER_SIGMOID,
	LAYER_TANH,
	LAYER_MAX_POOL,
	LAYER_AVERAGE_POOL,
	LAYER_TRANSPOSE,
	LAYER_SOFTMAX,
	LAYER_TREES,
	LAYER_QUANTIZE,
	LAYER_KINDS,
};

/* For each of `rows`: y[o] = bias[o] + sum over i of x[i] * weights[i * outputs + o]. */
struct layer_dense {
	uint32_t rows, inputs, outputs;
	float *weights, *bias;
	/* Inputs, weights and bias are integers, inputs of 8 bits, weights of 9 with their
	 * signs, and all sums stay within 2^24, so that floats hold them exactly. */
	bool integer;
};

/* One axis of a convolution or of a pool. Padding in front only matters: what lies outside is 0. */
struct layer_axis {
	uint32_t in, out, kernel, stride, dilation, pad;
};

/* Channel first; height is 1 in one dimension. weights[out][in / groups][kernel h][kernel w]. */
struct layer_conv {
	uint32_t channels_in, channels_out, groups;
	struct layer_axis h, w;
	float *weights, *bias;
};

struct layer_pool {
	uint32_t channels;
	struct layer_axis h, w;
	bool count_pad; /* an average divides by the whole kernel */
};

/* y[e] = x[e] * scale[c] + shift[c], c = e / inner % channels. */
struct layer_affine {
	uint32_t channels, inner;
	float *scale, *shift;
};

/* y[e] = x[e] / scale[c], rounded, halves to even, + zero[c], cut to low .. high; c as above. */
struct layer_quantize {
	uint32_t channels, inner;
	float *scale, *zero;
	float low, high;
};

/* Output axis a is input axis axes[a]. */
struct layer_transpose {
	uint32_t rank;
	uint32_t in[MODEL_RANK_MAX];
	uint32_t axes[MODEL_RANK_MAX];
};

/* Over the middle axis. */
struct layer_softmax {
	uint32_t outer, axis, inner;
};

enum tree_mode { TREE_LEQ, TREE_LT, TREE_GTE, TREE_GT, TREE_EQ, TREE_NEQ, TREE_LEAF };

enum tree_post { TREE_POST_NONE, TREE_POST_SOFTMAX, TREE_POST_LOGISTIC };

struct tree_node {
	float threshold;
	uint32_t feature;
	uint32_t yes, no; /* a leaf: its first weight, and how many */
	uint8_t mode;     /* enum tree_mode */
	uint8_t nan_yes;  /* a NaN takes the branch yes */
};

struct tree_weight {
	uint32_t class;
	float weight;
};

/* Scores are the sums of the leaves' weights. */
struct layer_trees {
	uint32_t features, classes;
	uint32_t trees, nodes_count, weights_count;
	enum tree_post post;
	uint32_t *roots;
	struct tree_node *nodes;
	struct tree_weight *weights;
	float *base;                           /* classes: where the sums start */
	uint32_t *labels;                      /* what the file calls each class; NULL: its index */
	char (*names)[GPU_OFFLOAD_LABEL_SIZE]; /* the same in words; NULL: it has none */
};

struct layer {
	enum layer_kind kind;
	uint32_t input, second; /* numbers of values; second for LAYER_ADD */
	uint32_t output;
	union {
		struct layer_dense dense;
		struct layer_conv conv;
		struct layer_pool pool;
		struct layer_affine affine;
		struct layer_transpose transpose;
		struct layer_softmax softmax;
		struct layer_trees trees;
		struct layer_quantize quantize;
	};
};

struct gpu_offload_model {
	uint32_t inputs, classes;
	uint32_t layers_count;
	uint32_t values_count;
	uint32_t result;  /* the value that holds the scores */
	uint32_t *values; /* elements of each for one row */
	struct layer *layers;
};

/* The one definition for all back ends, in 32-bit floats as ONNX has it, so that they cut at the
 * same places: a NaN becomes the lowest. */
static inline float layer_quantize_one(
	const struct layer_quantize *quantize, uint32_t channel, float x)
{
	float y = rintf(x / quantize->scale[channel]) + quantize->zero[channel];
	y = y > quantize->low ? y : quantize->low;
	return y < quantize->high ? y : quantize->high;
}

/* "Dense", "Conv"... */
const char *layer_name(enum layer_kind kind);
/* Multiply-adds for one row. */
uint64_t layer_macs(const struct gpu_offload_model *model, const struct layer *layer);
/* Frees what the layer points to. */
void layer_free(struct layer *layer);
/* Only Dense and Relu, one after the other, with one row each: what a fused kernel takes. */
bool model_is_mlp(const struct gpu_offload_model *model);
