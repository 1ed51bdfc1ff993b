/* SPDX-License-Identifier: BSD-2-Clause */
/* Operators with weights, and those with windows. */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gemm and MatMul ---------------------------------------------------------------------- */

/* weights[in][out] of a matrix that may be given the other way round. */
static int load_dense(
	struct onnx *onnx, const struct onnx_tensor *matrix, bool transposed, struct layer *layer)
{
	struct layer_dense *dense = &layer->dense;
	layer->kind = LAYER_DENSE;
	dense->weights = onnx_load_floats(onnx, matrix);
	dense->bias = calloc(dense->outputs, sizeof(float));
	if (dense->weights == NULL || dense->bias == NULL) {
		if (dense->weights != NULL)
			onnx_fail(onnx, -ENOMEM, "out of memory");
		return -EINVAL;
	}
	for (uint32_t i = 0; transposed && i < dense->inputs; i++) {
		for (uint32_t o = 0; o < dense->outputs; o++)
			dense->weights[(size_t)i * dense->outputs + o] =
				(float)matrix->data[(size_t)o * dense->inputs + i];
	}
	return 0;
}

/* y = alpha * x * W + beta * c, c spread over rows. */
static int scale_gemm(struct onnx *onnx, struct layer_dense *dense, const struct onnx_item *c,
	double alpha, double beta)
{
	size_t count = (size_t)dense->inputs * dense->outputs;
	for (size_t i = 0; alpha != 1 && i < count; i++) {
		dense->weights[i] = (float)(dense->weights[i] * alpha);
		if (!isfinite(dense->weights[i]))
			return onnx_fail(onnx, -EINVAL,
				"B times alpha: got a number that no 32-bit float holds");
	}
	if (c == NULL)
		return 0;
	const struct onnx_tensor *bias = &c->constant;
	if (bias->count != 1 &&
		(bias->count != dense->outputs || bias->dims[bias->rank - 1] != bias->count))
		return onnx_fail(onnx, -EINVAL, "C: got %" PRIu32 " numbers, expected %" PRIu32,
			bias->count, dense->outputs);
	for (uint32_t o = 0; o < dense->outputs; o++) {
		dense->bias[o] = (float)(beta * bias->data[bias->count == 1 ? 0 : o]);
		if (!isfinite(dense->bias[o]))
			return onnx_fail(
				onnx, -EINVAL, "C: got a number that no 32-bit float holds");
	}
	return 0;
}

static int read_gemm(struct onnx *onnx, double *alpha, double *beta, int64_t *transposed)
{
	int64_t other = 0;
	int error = onnx_get_float(onnx, "alpha", alpha);
	if (error == 0)
		error = onnx_get_float(onnx, "beta", beta);
	if (error == 0)
		error = onnx_get_int(onnx, "transA", &other);
	if (error == 0)
		error = onnx_get_int(onnx, "transB", transposed);
	if (error == 0 && other != 0)
		error = onnx_fail(onnx, -ENOTSUP, "transA: rows may not be mixed");
	if (error == 0 && (!isfinite(*alpha) || !isfinite(*beta)))
		error = onnx_fail(onnx, -EINVAL, "alpha or beta: expected a finite number");
	return error;
}

int onnx_gemm(struct onnx *onnx)
{
	struct onnx_item *a = onnx_input(onnx, 0, ONNX_VALUE), *c = NULL;
	struct onnx_item *b = a == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct layer layer = { 0 };
	double alpha = 1, beta = 1;
	int64_t transposed = 0;
	if (b == NULL ||
		(onnx_has_input(onnx, 2) && (c = onnx_input(onnx, 2, ONNX_CONSTANT)) == NULL))
		return -EINVAL;
	int error = read_gemm(onnx, &alpha, &beta, &transposed);
	if (error != 0)
		return error;
	const struct onnx_tensor *matrix = &b->constant;
	uint32_t in = transposed != 0 ? 1 : 0;
	if (a->rank != 1 || matrix->rank != 2 || matrix->dims[in] != a->dims[0])
		return onnx_fail(onnx, -EINVAL,
			"B: got a shape that does not fit the %" PRIu32 " inputs", a->dims[0]);
	layer.dense = (struct layer_dense){
		.rows = 1, .inputs = a->dims[0], .outputs = matrix->dims[1 - in]
	};
	const uint32_t outputs = layer.dense.outputs;
	error = load_dense(onnx, matrix, transposed != 0, &layer);
	if (error == 0)
		error = scale_gemm(onnx, &layer.dense, c, alpha, beta);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	return onnx_add_layer(onnx, a, &layer, 1, &outputs);
}

int onnx_matmul(struct onnx *onnx)
{
	struct onnx_item *a = onnx_input(onnx, 0, ONNX_VALUE);
	struct onnx_item *b = a == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct layer layer = { 0 };
	uint32_t dims[MODEL_RANK_MAX];
	if (b == NULL)
		return -EINVAL;
	const struct onnx_tensor *matrix = &b->constant;
	memcpy(dims, a->dims, sizeof(dims));
	if (matrix->rank != 2 || matrix->dims[0] != a->dims[a->rank - 1])
		return onnx_fail(onnx, -EINVAL,
			"B: got a shape that does not fit the %" PRIu32 " inputs",
			a->dims[a->rank - 1]);
	layer.dense = (struct layer_dense){
		.rows = onnx_count(a->rank - 1, a->dims),
		.inputs = matrix->dims[0],
		.outputs = matrix->dims[1],
	};
	dims[a->rank - 1] = matrix->dims[1];
	int error = load_dense(onnx, matrix, false, &layer);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	return onnx_add_layer(onnx, a, &layer, a->rank, dims);
}

/* ---- windows ------------------------------------------------------------------------------ */

/* Attributes of a window over one or two axes. */
struct window {
	uint32_t axes;
	int64_t kernel[2], strides[2], dilations[2], pads[4];
	struct onnx_span auto_pad;
};

static int check_count(
	struct onnx *onnx, const char *name, uint32_t count, uint32_t expected, bool needed)
{
	if (count == expected || (count == 0 && !needed))
		return 0;
	return onnx_fail(onnx, -EINVAL, "%s: got %" PRIu32 " numbers, expected %" PRIu32, name,
		count, expected);
}

static int read_window(struct onnx *onnx, uint32_t axes, bool kernel, struct window *window)
{
	uint32_t count;
	*window = (struct window){ .axes = axes, .strides = { 1, 1 }, .dilations = { 1, 1 } };
	int error = onnx_get_ints(onnx, "kernel_shape", window->kernel, 2, &count);
	if (error == 0)
		error = check_count(onnx, "kernel_shape", count, axes, kernel);
	if (error == 0)
		error = onnx_get_ints(onnx, "strides", window->strides, 2, &count);
	if (error == 0)
		error = check_count(onnx, "strides", count, axes, false);
	if (error == 0)
		error = onnx_get_ints(onnx, "dilations", window->dilations, 2, &count);
	if (error == 0)
		error = check_count(onnx, "dilations", count, axes, false);
	if (error == 0)
		error = onnx_get_ints(onnx, "pads", window->pads, 4, &count);
	if (error == 0)
		error = check_count(onnx, "pads", count, 2 * axes, false);
	if (error == 0)
		error = onnx_get_string(onnx, "auto_pad", &window->auto_pad);
	return error;
}

/* Padding before and behind, by the attribute auto_pad where it says so. */
static int read_pads(struct onnx *onnx, const struct window *window, uint32_t axis,
	const struct layer_axis *sizes, int64_t *before, int64_t *behind)
{
	struct onnx_span pad = window->auto_pad;
	int64_t reach = (int64_t)sizes->dilation * (sizes->kernel - 1) + 1;
	*before = window->pads[axis];
	*behind = window->pads[window->axes + axis];
	if (onnx_is(pad, "VALID")) {
		*before = *behind = 0;
	} else if (onnx_is(pad, "SAME_UPPER") || onnx_is(pad, "SAME_LOWER")) {
		int64_t out = (sizes->in + (int64_t)sizes->stride - 1) / sizes->stride;
		int64_t both = (out - 1) * sizes->stride + reach - sizes->in;
		both = both < 0 ? 0 : both;
		*before = onnx_is(pad, "SAME_UPPER") ? both / 2 : both - both / 2;
		*behind = both - *before;
	} else if (pad.length > 0 && !onnx_is(pad, "NOTSET")) {
		return onnx_fail(onnx, -ENOTSUP, "auto_pad: got an unknown value");
	}
	if (*before < 0 || *behind < 0 || *before >= reach || *behind >= reach)
		return onnx_fail(onnx, -EINVAL,
			"pads: got %" PRId64 " and %" PRId64 ", expected 0 .. %" PRId64, *before,
			*behind, reach - 1);
	return 0;
}

static int make_axis(struct onnx *onnx, const struct window *window, uint32_t axis, uint32_t in,
	struct layer_axis *sizes)
{
	int64_t before, behind;
	if (window->kernel[axis] < 1 || window->kernel[axis] > MODEL_VALUE_MAX ||
		window->strides[axis] < 1 || window->strides[axis] > MODEL_VALUE_MAX ||
		window->dilations[axis] < 1 || window->dilations[axis] > MODEL_VALUE_MAX)
		return onnx_fail(onnx, -EINVAL, "kernel, stride or dilation: expected 1 .. %d",
			MODEL_VALUE_MAX);
	*sizes = (struct layer_axis){
		.in = in,
		.kernel = (uint32_t)window->kernel[axis],
		.stride = (uint32_t)window->strides[axis],
		.dilation = (uint32_t)window->dilations[axis],
	};
	int error = read_pads(onnx, window, axis, sizes, &before, &behind);
	if (error != 0)
		return error;
	int64_t reach = (int64_t)sizes->dilation * (sizes->kernel - 1) + 1;
	int64_t room = in + before + behind - reach;
	if (room < 0)
		return onnx_fail(onnx, -EINVAL, "the kernel is wider than the input");
	sizes->pad = (uint32_t)before;
	sizes->out = (uint32_t)(room / sizes->stride + 1);
	return 0;
}

/* Both axes of an input [C, L] or [C, H, W]; of the first, the height is 1. */
static int make_axes(struct onnx *onnx, const struct window *window, const struct onnx_item *input,
	struct layer_axis *h, struct layer_axis *w)
{
	*h = (struct layer_axis){ 1, 1, 1, 1, 1, 0 };
	int error = 0;
	if (window->axes == 2)
		error = make_axis(onnx, window, 0, input->dims[1], h);
	if (error == 0)
		error = make_axis(onnx, window, window->axes - 1, input->dims[window->axes], w);
	return error;
}

static int add_window(struct onnx *onnx, const struct onnx_item *input, struct layer *layer,
	uint32_t channels, const struct layer_axis *h, const struct layer_axis *w)
{
	const uint32_t flat[] = { channels, w->out }, deep[] = { channels, h->out, w->out };
	return onnx_add_layer(onnx, input, layer, input->rank, input->rank == 2 ? flat : deep);
}

static int check_conv(struct onnx *onnx, const struct onnx_item *input,
	const struct onnx_tensor *kernel, int64_t groups)
{
	if ((input->rank != 2 && input->rank != 3) || kernel->rank != input->rank + 1)
		return onnx_fail(onnx, -ENOTSUP, "only in one and two dimensions");
	if (groups < 1 || groups > input->dims[0] || input->dims[0] % groups != 0 ||
		kernel->dims[0] % groups != 0 || kernel->dims[1] != input->dims[0] / groups)
		return onnx_fail(onnx, -EINVAL,
			"W: got a shape that does not fit %" PRIu32 " channels in %" PRId64
			" groups",
			input->dims[0], groups);
	return 0;
}

static int load_conv(struct onnx *onnx, const struct onnx_tensor *kernel,
	const struct onnx_item *bias, struct layer *layer)
{
	struct layer_conv *conv = &layer->conv;
	conv->weights = onnx_load_floats(onnx, kernel);
	if (conv->weights == NULL)
		return -EINVAL;
	if (bias == NULL) {
		conv->bias = calloc(conv->channels_out, sizeof(float));
		return conv->bias != NULL ? 0 : onnx_fail(onnx, -ENOMEM, "out of memory");
	}
	if (bias->constant.count != conv->channels_out)
		return onnx_fail(onnx, -EINVAL, "B: got %" PRIu32 " numbers, expected %" PRIu32,
			bias->constant.count, conv->channels_out);
	conv->bias = onnx_load_floats(onnx, &bias->constant);
	return conv->bias != NULL ? 0 : -EINVAL;
}

int onnx_conv(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE), *bias = NULL;
	struct onnx_item *weights = input == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct layer layer = { .kind = LAYER_CONV };
	struct window window;
	int64_t groups = 1;
	if (weights == NULL ||
		(onnx_has_input(onnx, 2) && (bias = onnx_input(onnx, 2, ONNX_CONSTANT)) == NULL))
		return -EINVAL;
	const struct onnx_tensor *kernel = &weights->constant;
	int error = onnx_get_int(onnx, "group", &groups);
	if (error == 0)
		error = check_conv(onnx, input, kernel, groups);
	if (error == 0)
		error = read_window(onnx, input->rank - 1, false, &window);
	for (uint32_t a = 0; error == 0 && a < window.axes; a++) {
		if (window.kernel[a] != 0 && window.kernel[a] != kernel->dims[a + 2])
			error = onnx_fail(
				onnx, -EINVAL, "kernel_shape differs from the shape of W");
		window.kernel[a] = kernel->dims[a + 2];
	}
	if (error == 0)
		error = make_axes(onnx, &window, input, &layer.conv.h, &layer.conv.w);
	if (error != 0)
		return error;
	layer.conv.channels_in = input->dims[0];
	layer.conv.channels_out = kernel->dims[0];
	layer.conv.groups = (uint32_t)groups;
	error = load_conv(onnx, kernel, bias, &layer);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	return add_window(
		onnx, input, &layer, layer.conv.channels_out, &layer.conv.h, &layer.conv.w);
}

int onnx_pool(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	bool max = onnx_is(onnx->node->op, "MaxPool");
	struct layer layer = { .kind = max ? LAYER_MAX_POOL : LAYER_AVERAGE_POOL };
	struct window window;
	int64_t ceil_mode = 0, count_pad = 0;
	if (input == NULL)
		return -EINVAL;
	if (input->rank != 2 && input->rank != 3)
		return onnx_fail(onnx, -ENOTSUP, "only in one and two dimensions");
	int error = read_window(onnx, input->rank - 1, true, &window);
	if (error == 0)
		error = onnx_get_int(onnx, "ceil_mode", &ceil_mode);
	if (error == 0)
		error = onnx_get_int(onnx, "count_include_pad", &count_pad);
	if (error != 0)
		return error;
	if (ceil_mode != 0 || window.dilations[0] != 1 || window.dilations[1] != 1)
		return onnx_fail(onnx, -ENOTSUP, "ceil_mode and dilations are not supported");
	if (onnx->node->outputs_count > 1)
		return onnx_fail(onnx, -ENOTSUP, "the output of indices is not supported");
	error = make_axes(onnx, &window, input, &layer.pool.h, &layer.pool.w);
	if (error != 0)
		return error;
	layer.pool.channels = input->dims[0];
	layer.pool.count_pad = count_pad != 0;
	return add_window(onnx, input, &layer, input->dims[0], &layer.pool.h, &layer.pool.w);
}

int onnx_global_pool(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct layer layer = { .kind = LAYER_AVERAGE_POOL };
	struct layer_pool *pool = &layer.pool;
	if (input == NULL)
		return -EINVAL;
	if (input->rank != 2 && input->rank != 3)
		return onnx_fail(onnx, -ENOTSUP, "only in one and two dimensions");
	uint32_t height = input->rank == 3 ? input->dims[1] : 1;
	uint32_t width = input->dims[input->rank - 1];
	pool->channels = input->dims[0];
	pool->h = (struct layer_axis){ height, 1, height, 1, 1, 0 };
	pool->w = (struct layer_axis){ width, 1, width, 1, 1, 0 };
	return add_window(onnx, input, &layer, input->dims[0], &pool->h, &pool->w);
}

/* ---- BatchNormalization: a scale and a shift for each channel ----------------------------- */

static int fill_batch_norm(struct onnx *onnx, struct onnx_item *const parts[4], double epsilon,
	struct layer_affine *affine)
{
	for (uint32_t c = 0; c < affine->channels; c++) {
		double variance = parts[3]->constant.data[c] + epsilon;
		double scale = parts[0]->constant.data[c] / sqrt(variance);
		affine->scale[c] = (float)scale;
		affine->shift[c] =
			(float)(parts[1]->constant.data[c] - parts[2]->constant.data[c] * scale);
		if (!(variance > 0) || !isfinite(affine->scale[c]) || !isfinite(affine->shift[c]))
			return onnx_fail(onnx, -EINVAL,
				"channel %" PRIu32 ": got a variance of %g, or numbers too large",
				c, variance);
	}
	return 0;
}

int onnx_batch_normalization(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE), *parts[4];
	struct layer layer = { .kind = LAYER_AFFINE };
	struct layer_affine *affine = &layer.affine;
	double epsilon = 1e-5;
	int64_t training = 0, spatial = 1;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_float(onnx, "epsilon", &epsilon);
	if (error == 0)
		error = onnx_get_int(onnx, "training_mode", &training);
	if (error == 0)
		error = onnx_get_int(onnx, "spatial", &spatial);
	if (error == 0 && (training != 0 || spatial != 1))
		error = onnx_fail(onnx, -ENOTSUP, training != 0 ? "training_mode" : "spatial");
	for (uint32_t i = 0; error == 0 && i < 4; i++) {
		parts[i] = onnx_input(onnx, i + 1, ONNX_CONSTANT);
		if (parts[i] == NULL)
			return -EINVAL;
		if (parts[i]->constant.count != input->dims[0])
			error = onnx_fail(onnx, -EINVAL,
				"input %" PRIu32 ": got %" PRIu32 " numbers, expected %" PRIu32,
				i + 1, parts[i]->constant.count, input->dims[0]);
	}
	if (error != 0)
		return error;
	affine->channels = input->dims[0];
	affine->inner = onnx_count(input->rank - 1, input->dims + 1);
	affine->scale = malloc(affine->channels * sizeof(float));
	affine->shift = malloc(affine->channels * sizeof(float));
	if (affine->scale == NULL || affine->shift == NULL)
		error = onnx_fail(onnx, -ENOMEM, "out of memory");
	else
		error = fill_batch_norm(onnx, parts, epsilon, affine);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	return onnx_add_layer(onnx, input, &layer, input->rank, input->dims);
}
