/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cpu_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ------------------------------------------------------------------------------- */

enum { ALIGNMENT = 64, TILE_FLOATS_MAX = 1 << 16 };

static uint32_t whole_panels(uint32_t count)
{
	return (count + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL;
}

static float *floats_alloc(size_t count)
{
	size_t bytes = (count * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	float *floats = aligned_alloc(ALIGNMENT, bytes);
	if (floats != NULL)
		memset(floats, 0, bytes);
	return floats;
}

/* Outputs that are there to fill up a panel of the result can never be the highest. */
static int dense_make(struct cpu_step *step, bool result)
{
	const struct layer_dense *dense = &step->layer->dense;
	uint32_t outputs = whole_panels(dense->outputs);
	step->panels = floats_alloc((size_t)dense->inputs * outputs);
	step->bias = floats_alloc(outputs);
	if (step->panels == NULL || step->bias == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < dense->inputs; i++) {
		for (uint32_t o = 0; o < dense->outputs; o++)
			step->panels[((size_t)(o / CPU_PANEL) * dense->inputs + i) * CPU_PANEL +
				     o % CPU_PANEL] =
				dense->weights[(size_t)i * dense->outputs + o];
	}
	for (uint32_t o = 0; o < outputs; o++)
		step->bias[o] = o < dense->outputs ? dense->bias[o] : result ? -INFINITY : 0;
	return 0;
}

/* Two numbers of 16 bits in one of 32. */
static int32_t pair_of(float first, float second)
{
	return (int32_t)((uint32_t)(uint16_t)(int16_t)first | (uint32_t)(uint16_t)(int16_t)second
								      << 16);
}

static uint32_t pairs_of(const struct layer_dense *dense)
{
	return (dense->inputs + 1) / 2;
}

/* Outputs that fill up a panel of the result are the lowest that a sum can be. */
static int int_dense_make(struct cpu_step *step, bool result)
{
	const struct layer_dense *dense = &step->layer->dense;
	uint32_t outputs = whole_panels(dense->outputs), pairs = pairs_of(dense);
	step->int_panels = (int32_t *)floats_alloc((size_t)pairs * outputs);
	step->int_bias = (int32_t *)floats_alloc(outputs);
	if (step->int_panels == NULL || step->int_bias == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < dense->inputs; i += 2) {
		for (uint32_t o = 0; o < dense->outputs; o++) {
			const float *weight = &dense->weights[(size_t)i * dense->outputs + o];
			float second = i + 1 < dense->inputs ? weight[dense->outputs] : 0;
			step->int_panels[((size_t)(o / CPU_PANEL) * pairs + i / 2) * CPU_PANEL +
					 o % CPU_PANEL] = pair_of(*weight, second);
		}
	}
	for (uint32_t o = 0; o < outputs; o++)
		step->int_bias[o] = o < dense->outputs ? (int32_t)dense->bias[o]
				    : result           ? -(1 << 30)
						       : 0;
	return 0;
}

static uint32_t conv_taps(const struct layer_conv *conv)
{
	return conv->channels_in / conv->groups * conv->h.kernel * conv->w.kernel;
}

/* One row of weights per output channel, its bias last: windows get a 1 behind them. */
static int conv_make(struct cpu_step *step)
{
	const struct layer_conv *conv = &step->layer->conv;
	uint32_t taps = conv_taps(conv);
	step->panels = floats_alloc((size_t)conv->channels_out * (taps + 1));
	if (step->panels == NULL)
		return -ENOMEM;
	for (uint32_t o = 0; o < conv->channels_out; o++) {
		float *row = step->panels + (size_t)o * (taps + 1);
		memcpy(row, conv->weights + (size_t)o * taps, taps * sizeof(float));
		row[taps] = conv->bias[o];
	}
	return 0;
}

static uint32_t uses_of(const struct gpu_offload_model *model, uint32_t value)
{
	uint32_t uses = value == model->result;
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		uses += layer->input == value;
		uses += layer->kind == LAYER_ADD && layer->second == value;
	}
	return uses;
}

/* A Relu whose input nobody else uses becomes part of the step that makes it. */
static bool fuse_relu(struct cpu_plan *plan, const struct layer *layer)
{
	if (layer->kind != LAYER_RELU || plan->steps_count == 0)
		return false;
	struct cpu_step *last = &plan->steps[plan->steps_count - 1];
	bool weights = last->layer->kind == LAYER_DENSE || last->layer->kind == LAYER_CONV;
	if (!weights || last->relu || last->output != layer->input ||
		uses_of(plan->model, layer->input) != 1)
		return false;
	last->relu = true;
	last->output = layer->output;
	return true;
}

static int steps_make(struct cpu_plan *plan)
{
	const struct gpu_offload_model *model = plan->model;
	int error = 0;
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		if (fuse_relu(plan, layer))
			continue;
		plan->steps[plan->steps_count++] = (struct cpu_step){
			.layer = layer,
			.input = layer->input,
			.second = layer->second,
			.output = layer->output,
		};
	}
	for (uint32_t i = 0; error == 0 && i < plan->steps_count; i++) {
		struct cpu_step *step = &plan->steps[i];
		bool result = step->output == model->result && !step->relu &&
			      step->layer->kind == LAYER_DENSE && step->layer->dense.rows == 1;
		plan->fast_label |= result;
		if (step->layer->kind == LAYER_DENSE && step->layer->dense.integer)
			error = int_dense_make(step, result);
		else if (step->layer->kind == LAYER_DENSE)
			error = dense_make(step, result);
		else if (step->layer->kind == LAYER_CONV)
			error = conv_make(step);
	}
	return error;
}

/* Memory of a tile's values; those of a Dense with one row are filled up to whole panels. */
static int values_make(struct cpu_plan *plan)
{
	const struct gpu_offload_model *model = plan->model;
	size_t columns = 1, row = 0, used = 0, pairs = 1;
	for (uint32_t i = 0; i < plan->steps_count; i++) {
		const struct cpu_step *step = &plan->steps[i];
		uint32_t count = model->values[step->output];
		bool wide = step->layer->kind == LAYER_DENSE && step->layer->dense.rows == 1;
		plan->values[step->output].stride = wide ? whole_panels(count) : count;
		row += plan->values[step->output].stride;
		if (step->int_panels != NULL && pairs_of(&step->layer->dense) > pairs)
			pairs = pairs_of(&step->layer->dense);
		if (step->layer->kind != LAYER_CONV)
			continue;
		const struct layer_conv *conv = &step->layer->conv;
		size_t need =
			(size_t)whole_panels(conv->h.out * conv->w.out) * (conv_taps(conv) + 1);
		columns = need > columns ? need : columns;
	}
	size_t tile = TILE_FLOATS_MAX / row;
	plan->tile = tile == 0 ? 1 : tile > CPU_TILE_ROWS ? CPU_TILE_ROWS : (uint32_t)tile;
	plan->values[0].stride = model->inputs;
	plan->memory = floats_alloc(row * plan->tile + CPU_PANEL);
	plan->columns = floats_alloc(columns);
	plan->zeros = floats_alloc(columns > CPU_PANEL ? columns : CPU_PANEL);
	plan->pairs = (int32_t *)floats_alloc(pairs * plan->tile);
	if (plan->memory == NULL || plan->columns == NULL || plan->zeros == NULL ||
		plan->pairs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->steps_count; i++) {
		struct cpu_value *value = &plan->values[plan->steps[i].output];
		value->data = plan->memory + used;
		used += value->stride * plan->tile;
	}
	return 0;
}

void cpu_plan_destroy(struct cpu_plan *plan)
{
	for (uint32_t i = 0; i < plan->steps_count; i++) {
		free(plan->steps[i].panels);
		free(plan->steps[i].bias);
		free(plan->steps[i].int_panels);
		free(plan->steps[i].int_bias);
	}
	free(plan->steps);
	free(plan->values);
	free(plan->memory);
	free(plan->columns);
	free(plan->zeros);
	free(plan->pairs);
	free(plan);
}

int cpu_plan_create(struct cpu_plan **out, const struct gpu_offload_model *model,
	const struct cpu_kernels *kernels)
{
	struct cpu_plan *plan = calloc(1, sizeof(*plan));
	if (plan == NULL)
		return -ENOMEM;
	plan->model = model;
	plan->kernels = kernels;
	plan->steps = calloc(model->layers_count, sizeof(*plan->steps));
	plan->values = calloc(model->values_count, sizeof(*plan->values));
	int error = plan->steps == NULL || plan->values == NULL ? -ENOMEM : 0;
	if (error == 0)
		error = steps_make(plan);
	if (error == 0)
		error = values_make(plan);
	if (error != 0)
		cpu_plan_destroy(plan);
	else
		*out = plan;
	return error;
}

/* ---- running ------------------------------------------------------------------------------ */

static void run_dense(struct cpu_plan *plan, const struct cpu_step *step, uint32_t rows,
	const float *x, size_t x_stride)
{
	const struct layer_dense *dense = &step->layer->dense;
	const struct cpu_value *output = &plan->values[step->output];
	/* Several rows of a value lie one behind the other: they are rows like any. */
	const struct cpu_gemm gemm = {
		.x = x,
		.x_stride = dense->rows == 1 ? x_stride : dense->inputs,
		.rows = rows,
		.inputs = dense->inputs,
		.outputs = dense->outputs,
		.panels = step->panels,
		.bias = step->bias,
		.y = output->data,
		.y_stride = dense->rows == 1 ? output->stride : dense->outputs,
		.wide = dense->rows == 1,
		.relu = step->relu,
	};
	if (dense->rows == 1) {
		plan->kernels->gemm(&gemm);
		return;
	}
	for (uint32_t r = 0; r < rows; r++) {
		struct cpu_gemm one = gemm;
		one.x = x + r * x_stride;
		one.y = output->data + r * output->stride;
		one.rows = dense->rows;
		plan->kernels->gemm(&one);
	}
}

/* Inputs are whole numbers of 9 bits. */
static void run_int_dense(struct cpu_plan *plan, const struct cpu_step *step, uint32_t rows,
	const float *x, size_t x_stride)
{
	const struct layer_dense *dense = &step->layer->dense;
	const struct cpu_value *output = &plan->values[step->output];
	const uint32_t pairs = pairs_of(dense), whole = dense->inputs / 2;
	int32_t *pair = plan->pairs;
	for (uint32_t r = 0; r < rows; r++, x += x_stride) {
		for (uint32_t i = 0; i < whole; i++)
			*pair++ = pair_of(x[2 * i], x[2 * i + 1]);
		if (pairs > whole)
			*pair++ = pair_of(x[2 * whole], 0);
	}
	const struct cpu_gemm_int gemm = {
		.x = plan->pairs,
		.rows = rows,
		.pairs = pairs,
		.outputs = dense->outputs,
		.panels = step->int_panels,
		.bias = step->int_bias,
		.y = output->data,
		.y_stride = output->stride,
		.relu = step->relu,
	};
	plan->kernels->gemm_int(&gemm);
}

/* What one tap of a kernel reads at all places of a channel's plane, into panels. */
static void gather_tap(const struct layer_conv *conv, const float *plane, uint32_t kh, uint32_t kw,
	uint32_t tap, float *columns)
{
	uint32_t rows = conv_taps(conv) + 1, place = 0;
	for (uint32_t oh = 0; oh < conv->h.out; oh++) {
		int64_t h =
			(int64_t)oh * conv->h.stride + (int64_t)kh * conv->h.dilation - conv->h.pad;
		bool inside = h >= 0 && h < conv->h.in;
		const float *line = plane + (inside ? h : 0) * conv->w.in;
		int64_t w = (int64_t)kw * conv->w.dilation - conv->w.pad;
		for (uint32_t ow = 0; ow < conv->w.out; ow++, place++, w += conv->w.stride) {
			bool there = inside && w >= 0 && w < conv->w.in;
			columns[((size_t)(place / CPU_PANEL) * rows + tap) * CPU_PANEL +
				place % CPU_PANEL] = there ? line[w] : 0;
		}
	}
}

/* All windows of one group's channels, and a row of ones for the bias. */
static void gather(const struct layer_conv *conv, const float *x, float *columns)
{
	uint32_t inputs = conv->channels_in / conv->groups, tap = 0;
	uint32_t rows = conv_taps(conv) + 1, places = conv->h.out * conv->w.out;
	for (uint32_t c = 0; c < inputs; c++, x += (size_t)conv->h.in * conv->w.in) {
		for (uint32_t kh = 0; kh < conv->h.kernel; kh++) {
			for (uint32_t kw = 0; kw < conv->w.kernel; kw++)
				gather_tap(conv, x, kh, kw, tap++, columns);
		}
	}
	for (uint32_t place = 0; place < places; place++)
		columns[((size_t)(place / CPU_PANEL) * rows + tap) * CPU_PANEL +
			place % CPU_PANEL] = 1;
}

static void run_conv(struct cpu_plan *plan, const struct cpu_step *step, uint32_t rows,
	const float *x, size_t x_stride)
{
	const struct layer_conv *conv = &step->layer->conv;
	const struct cpu_value *output = &plan->values[step->output];
	uint32_t taps = conv_taps(conv) + 1, places = conv->h.out * conv->w.out;
	uint32_t inputs = conv->channels_in / conv->groups;
	uint32_t outputs = conv->channels_out / conv->groups;
	struct cpu_gemm gemm = {
		.x_stride = taps,
		.rows = outputs,
		.inputs = taps,
		.outputs = places,
		.panels = plan->columns,
		.bias = plan->zeros,
		.y_stride = places,
		.relu = step->relu,
	};
	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t g = 0; g < conv->groups; g++) {
			gather(conv,
				x + r * x_stride + (size_t)g * inputs * conv->h.in * conv->w.in,
				plan->columns);
			gemm.x = step->panels + (size_t)g * outputs * taps;
			gemm.y = output->data + r * output->stride + (size_t)g * outputs * places;
			plan->kernels->gemm(&gemm);
		}
	}
}

static void run_tile(struct cpu_plan *plan, const float *inputs, uint32_t rows)
{
	for (uint32_t i = 0; i < plan->steps_count; i++) {
		const struct cpu_step *step = &plan->steps[i];
		const struct cpu_value *input = &plan->values[step->input];
		const struct cpu_value *second = &plan->values[step->second];
		const struct cpu_value *output = &plan->values[step->output];
		const float *x = input->data == NULL ? inputs : input->data;
		if (step->int_panels != NULL)
			run_int_dense(plan, step, rows, x, input->stride);
		else if (step->layer->kind == LAYER_DENSE)
			run_dense(plan, step, rows, x, input->stride);
		else if (step->layer->kind == LAYER_CONV)
			run_conv(plan, step, rows, x, input->stride);
		else
			cpu_layer_run(step->layer, rows, plan->model->values[step->output], x,
				input->stride, second->data == NULL ? inputs : second->data,
				second->stride, output->data, output->stride);
	}
}

void cpu_plan_run(
	struct cpu_plan *plan, const float *inputs, uint32_t rows, uint32_t *labels, float *scores)
{
	const struct gpu_offload_model *model = plan->model;
	const struct cpu_value *result = &plan->values[model->result];
	const struct cpu_kernels *kernels = plan->fast_label ? plan->kernels : &cpu_kernels_plain;
	while (rows > 0) {
		uint32_t tile = rows < plan->tile ? rows : plan->tile;
		run_tile(plan, inputs, tile);
		kernels->highest(result->data, result->stride, tile, model->classes, labels);
		for (uint32_t r = 0; scores != NULL && r < tile; r++, scores += model->classes)
			memcpy(scores, result->data + r * result->stride,
				model->classes * sizeof(float));
		rows -= tile;
		labels += tile;
		inputs += (size_t)tile * model->inputs;
	}
}
