/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/layers.h"

#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *layer_name(enum layer_kind kind)
{
	static const char *const names[LAYER_KINDS] = {
		[LAYER_DENSE] = "Dense",
		[LAYER_CONV] = "Conv",
		[LAYER_AFFINE] = "Affine",
		[LAYER_ADD] = "Add",
		[LAYER_RELU] = "Relu",
		[LAYER_SIGMOID] = "Sigmoid",
		[LAYER_TANH] = "Tanh",
		[LAYER_MAX_POOL] = "MaxPool",
		[LAYER_AVERAGE_POOL] = "AveragePool",
		[LAYER_TRANSPOSE] = "Transpose",
		[LAYER_SOFTMAX] = "Softmax",
		[LAYER_TREES] = "Trees",
		[LAYER_QUANTIZE] = "Quantize",
	};
	return names[kind];
}

static uint32_t tree_depth(const struct layer_trees *trees, uint32_t node)
{
	const struct tree_node *at = &trees->nodes[node];
	if (at->mode == TREE_LEAF)
		return 0;
	uint32_t yes = tree_depth(trees, at->yes), no = tree_depth(trees, at->no);
	return 1 + (yes > no ? yes : no);
}

static uint64_t trees_depth(const struct layer_trees *trees)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < trees->trees; i++)
		sum += tree_depth(trees, trees->roots[i]);
	return sum;
}

uint64_t layer_macs(const struct gpu_offload_model *model, const struct layer *layer)
{
	switch (layer->kind) {
	case LAYER_DENSE:
		return (uint64_t)layer->dense.rows * layer->dense.inputs * layer->dense.outputs;
	case LAYER_CONV:
		return (uint64_t)model->values[layer->output] *
		       (layer->conv.channels_in / layer->conv.groups) * layer->conv.h.kernel *
		       layer->conv.w.kernel;
	case LAYER_MAX_POOL:
	case LAYER_AVERAGE_POOL:
		return (uint64_t)model->values[layer->output] * layer->pool.h.kernel *
		       layer->pool.w.kernel;
	case LAYER_TREES:
		return trees_depth(&layer->trees);
	default:
		return model->values[layer->output];
	}
}

static uint64_t layer_parameters(const struct layer *layer)
{
	switch (layer->kind) {
	case LAYER_DENSE:
		return ((uint64_t)layer->dense.inputs + 1) * layer->dense.outputs;
	case LAYER_CONV:
		return (uint64_t)layer->conv.channels_out *
		       ((uint64_t)layer->conv.channels_in / layer->conv.groups *
				       layer->conv.h.kernel * layer->conv.w.kernel +
			       1);
	case LAYER_AFFINE:
		return 2 * (uint64_t)layer->affine.channels;
	case LAYER_QUANTIZE:
		return 2 * (uint64_t)layer->quantize.channels;
	case LAYER_TREES:
		return layer->trees.nodes_count;
	default:
		return 0;
	}
}

void layer_free(struct layer *layer)
{
	switch (layer->kind) {
	case LAYER_DENSE:
		free(layer->dense.weights);
		free(layer->dense.bias);
		break;
	case LAYER_CONV:
		free(layer->conv.weights);
		free(layer->conv.bias);
		break;
	case LAYER_AFFINE:
		free(layer->affine.scale);
		free(layer->affine.shift);
		break;
	case LAYER_QUANTIZE:
		free(layer->quantize.scale);
		free(layer->quantize.zero);
		break;
	case LAYER_TREES:
		free(layer->trees.roots);
		free(layer->trees.nodes);
		free(layer->trees.weights);
		free(layer->trees.base);
		free(layer->trees.labels);
		free(layer->trees.names);
		break;
	default:
		break;
	}
}

bool model_is_mlp(const struct gpu_offload_model *model)
{
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		bool dense = layer->kind == LAYER_DENSE && layer->dense.rows == 1 &&
			     !layer->dense.integer;
		bool relu = layer->kind == LAYER_RELU && i > 0 &&
			    model->layers[i - 1].kind == LAYER_DENSE;
		if ((!dense && !relu) || layer->input != i || layer->output != i + 1)
			return false;
	}
	return model->layers_count > 0 && model->layers[0].kind == LAYER_DENSE &&
	       model->result == model->layers_count;
}

void gpu_offload_model_destroy(struct gpu_offload_model *model)
{
	if (model == NULL)
		return;
	for (uint32_t i = 0; i < model->layers_count; i++)
		layer_free(&model->layers[i]);
	free(model->layers);
	free(model->values);
	free(model);
}

uint32_t gpu_offload_model_inputs(const struct gpu_offload_model *model)
{
	return model->inputs;
}

uint32_t gpu_offload_model_classes(const struct gpu_offload_model *model)
{
	return model->classes;
}

static size_t append(char text[], size_t size, size_t used, const char *more)
{
	int length = snprintf(text + used, size - used, "%s", more);
	return used + (size_t)length < size ? used + (size_t)length : size - 1;
}

static void format_text(const struct gpu_offload_model *model, char text[], size_t size)
{
	bool mlp = model_is_mlp(model);
	char piece[32];
	size_t used = append(text, size, 0, mlp ? "MLP " : "");
	if (mlp) {
		snprintf(piece, sizeof(piece), "%" PRIu32, model->inputs);
		used = append(text, size, used, piece);
	}
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		if (mlp && layer->kind == LAYER_DENSE)
			snprintf(piece, sizeof(piece), "-%" PRIu32, layer->dense.outputs);
		else if (mlp)
			piece[0] = 0;
		else
			snprintf(piece, sizeof(piece), "%s%s%s", i > 0 ? " " : "",
				layer_name(layer->kind),
				layer->kind == LAYER_DENSE && layer->dense.integer ? "(int8)" : "");
		used = append(text, size, used, piece);
	}
}

/* Trees whose sums are the scores; NULL: others make them. */
static const struct layer_trees *trees_of(const struct gpu_offload_model *model)
{
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		if (layer->kind == LAYER_TREES && layer->output == model->result)
			return &layer->trees;
	}
	return NULL;
}

uint32_t gpu_offload_model_label(const struct gpu_offload_model *model, uint32_t class)
{
	const struct layer_trees *trees = trees_of(model);
	return trees == NULL || trees->labels == NULL ? class : trees->labels[class];
}

uint32_t gpu_offload_model_class(const struct gpu_offload_model *model, uint32_t label)
{
	uint32_t class = 0;
	while (class < model->classes && gpu_offload_model_label(model, class) != label)
		class ++;
	return class;
}

const char *gpu_offload_model_label_name(const struct gpu_offload_model *model, uint32_t class)
{
	const struct layer_trees *trees = trees_of(model);
	return trees == NULL || trees->names == NULL ? NULL : trees->names[class];
}

void gpu_offload_model_info(
	const struct gpu_offload_model *model, struct gpu_offload_model_info *info)
{
	*info = (struct gpu_offload_model_info){
		.inputs = model->inputs,
		.classes = model->classes,
		.layers = model->layers_count,
	};
	for (uint32_t i = 0; i < model->layers_count; i++) {
		info->parameters += layer_parameters(&model->layers[i]);
		info->macs += layer_macs(model, &model->layers[i]);
	}
	format_text(model, info->text, sizeof(info->text));
}

/* Weights as He's: uniform, with a variance of 2 / inputs, so that values keep their size. */
static int dense_make(struct layer *layer, uint32_t inputs, uint32_t outputs, struct base_rng *rng)
{
	size_t count = (size_t)inputs * outputs;
	layer->kind = LAYER_DENSE;
	layer->dense = (struct layer_dense){
		.rows = 1,
		.inputs = inputs,
		.outputs = outputs,
		.weights = malloc(count * sizeof(float)),
		.bias = malloc(outputs * sizeof(float)),
	};
	if (layer->dense.weights == NULL || layer->dense.bias == NULL)
		return -ENOMEM;
	double reach = sqrt(6.0 / inputs);
	for (size_t i = 0; i < count; i++)
		layer->dense.weights[i] = (float)((2 * base_rng_unit(rng) - 1) * reach);
	for (uint32_t i = 0; i < outputs; i++)
		layer->dense.bias[i] = (float)((2 * base_rng_unit(rng) - 1) * 0.1);
	return 0;
}

static int check_widths(const uint32_t widths[], size_t count)
{
	uint64_t weights = 0;
	if (count < 2 || count > GPU_OFFLOAD_WIDTHS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (widths[i] == 0 || widths[i] > GPU_OFFLOAD_INPUTS_MAX)
			return -EINVAL;
		weights += i > 0 ? (uint64_t)widths[i - 1] * widths[i] : 0;
	}
	if (widths[count - 1] > GPU_OFFLOAD_CLASSES_MAX || weights > MODEL_WEIGHTS_MAX)
		return -EINVAL;
	return 0;
}

static int fill_mlp(
	struct gpu_offload_model *model, const uint32_t widths[], size_t count, uint64_t seed)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	model->layers = calloc(2 * count, sizeof(*model->layers));
	model->values = calloc(2 * count, sizeof(*model->values));
	if (model->layers == NULL || model->values == NULL)
		return -ENOMEM;
	model->values[0] = widths[0];
	for (size_t i = 1; i < count; i++) {
		int error = dense_make(
			&model->layers[model->layers_count++], widths[i - 1], widths[i], &rng);
		if (error != 0)
			return error;
		model->values[model->layers_count] = widths[i];
		if (i + 1 == count)
			break;
		model->layers[model->layers_count++].kind = LAYER_RELU;
		model->values[model->layers_count] = widths[i];
	}
	for (uint32_t i = 0; i < model->layers_count; i++) {
		model->layers[i].input = i;
		model->layers[i].output = i + 1;
	}
	model->inputs = widths[0];
	model->classes = widths[count - 1];
	model->values_count = model->layers_count + 1;
	model->result = model->layers_count;
	return 0;
}

int gpu_offload_model_create_mlp(
	struct gpu_offload_model **out, const uint32_t widths[], size_t count, uint64_t seed)
{
	int error = check_widths(widths, count);
	if (error != 0)
		return error;
	struct gpu_offload_model *model = calloc(1, sizeof(*model));
	if (model == NULL)
		return -ENOMEM;
	error = fill_mlp(model, widths, count, seed);
	if (error != 0) {
		gpu_offload_model_destroy(model);
		return error;
	}
	*out = model;
	return 0;
}
