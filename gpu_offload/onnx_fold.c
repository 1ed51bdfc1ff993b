/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* How many layers, and the result, use each value. */
static void count_uses(const struct gpu_offload_model *model, uint32_t uses[])
{
	memset(uses, 0, (MODEL_LAYERS_MAX + 1) * sizeof(*uses));
	uses[model->result]++;
	for (uint32_t i = 0; i < model->layers_count; i++) {
		uses[model->layers[i].input]++;
		if (model->layers[i].kind == LAYER_ADD)
			uses[model->layers[i].second]++;
	}
}

/* Take layers that are marked out, and give the values new numbers. moved: where each value went;
 * a value that goes with its layer is marked in moved by the caller. */
static void take_out(struct gpu_offload_model *model, const bool gone[], uint32_t moved[])
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->layers_count; i++) {
		struct layer layer = model->layers[i];
		if (gone[i]) {
			/* What it made is what its input is now. */
			moved[i + 1] = moved[layer.input];
			layer_free(&layer);
			continue;
		}
		layer.input = moved[layer.input];
		if (layer.kind == LAYER_ADD)
			layer.second = moved[layer.second];
		model->values[kept + 1] = model->values[i + 1];
		layer.output = moved[i + 1] = kept + 1;
		model->layers[kept++] = layer;
	}
	model->result = moved[model->result];
	model->layers_count = kept;
	model->values_count = kept + 1;
}

/* Scale a layer's weights and its bias; false: a number grew too large. */
static bool scale_dense(struct layer_dense *dense, const struct layer_affine *affine)
{
	bool finite = true;
	for (uint32_t o = 0; o < dense->outputs; o++) {
		double scale = affine->scale[affine->channels == 1 ? 0 : o];
		double shift = affine->shift[affine->channels == 1 ? 0 : o];
		dense->bias[o] = (float)(dense->bias[o] * scale + shift);
		finite = finite && isfinite(dense->bias[o]);
		for (uint32_t i = 0; i < dense->inputs; i++) {
			float *weight = &dense->weights[(size_t)i * dense->outputs + o];
			*weight = (float)(*weight * scale);
			finite = finite && isfinite(*weight);
		}
	}
	return finite;
}

static bool scale_conv(struct layer_conv *conv, const struct layer_affine *affine)
{
	bool finite = true;
	size_t each = (size_t)conv->channels_in / conv->groups * conv->h.kernel * conv->w.kernel;
	for (uint32_t o = 0; o < conv->channels_out; o++) {
		double scale = affine->scale[affine->channels == 1 ? 0 : o];
		double shift = affine->shift[affine->channels == 1 ? 0 : o];
		conv->bias[o] = (float)(conv->bias[o] * scale + shift);
		finite = finite && isfinite(conv->bias[o]);
		for (size_t i = 0; i < each; i++) {
			float *weight = &conv->weights[o * each + i];
			*weight = (float)(*weight * scale);
			finite = finite && isfinite(*weight);
		}
	}
	return finite;
}

/* Whether the scale of `affine` is one for each output of `layer`. */
static bool fits(const struct layer *layer, const struct layer_affine *affine)
{
	if (layer->kind == LAYER_DENSE && layer->dense.integer)
		return false; /* integers stay integers */
	if (layer->kind == LAYER_DENSE)
		return affine->channels == 1 ||
		       (affine->channels == layer->dense.outputs && affine->inner == 1);
	return layer->kind == LAYER_CONV &&
	       (affine->channels == 1 ||
		       (affine->channels == layer->conv.channels_out &&
			       affine->inner == layer->conv.h.out * layer->conv.w.out));
}

static int fold_affines(struct onnx *onnx, bool gone[])
{
	struct gpu_offload_model *model = onnx->model;
	uint32_t uses[MODEL_LAYERS_MAX + 1], maker[MODEL_LAYERS_MAX + 1];
	bool finite = true;
	count_uses(model, uses);
	for (uint32_t i = 0; i < model->layers_count; i++) {
		struct layer *layer = &model->layers[i];
		maker[i + 1] = i;
		if (layer->kind != LAYER_AFFINE || layer->input == 0 || uses[layer->input] != 1)
			continue;
		struct layer *before = &model->layers[maker[layer->input]];
		if (!fits(before, &layer->affine))
			continue;
		if (before->kind == LAYER_DENSE)
			finite = finite && scale_dense(&before->dense, &layer->affine);
		else
			finite = finite && scale_conv(&before->conv, &layer->affine);
		gone[i] = true;
		maker[i + 1] = maker[layer->input]; /* so that a second scale folds, too */
	}
	return finite ? 0
		      : onnx_fail(onnx, -EINVAL,
				"weights grow too large for 32-bit floats when "
				"scales are folded into them");
}

/* Layers that nothing uses, last ones first. */
static void find_unused(const struct gpu_offload_model *model, bool gone[])
{
	uint32_t uses[MODEL_LAYERS_MAX + 1];
	count_uses(model, uses);
	for (uint32_t i = model->layers_count; i-- > 0;) {
		const struct layer *layer = &model->layers[i];
		if (uses[i + 1] != 0)
			continue;
		gone[i] = true;
		uses[layer->input]--;
		if (layer->kind == LAYER_ADD)
			uses[layer->second]--;
	}
}

int onnx_fold(struct onnx *onnx)
{
	struct gpu_offload_model *model = onnx->model;
	bool gone[MODEL_LAYERS_MAX] = { false };
	uint32_t moved[MODEL_LAYERS_MAX + 1] = { 0 };
	find_unused(model, gone);
	take_out(model, gone, moved);
	memset(gone, 0, sizeof(gone));
	int error = fold_affines(onnx, gone);
	take_out(model, gone, moved);
	return error;
}
