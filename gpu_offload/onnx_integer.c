/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integer arithmetic: QuantizeLinear of values, and MatMulInteger behind it. Integers travel as the
 * floats that hold them exactly: whatever could grow beyond 2^24 is refused, so every order of sums
 * and every back end gives the same bits.
 */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_MAX = 1 << 24 }; /* all integers up to here are 32-bit floats */

int onnx_refuse_blocks(struct onnx *onnx)
{
	int64_t block = 0;
	int error = onnx_get_int(onnx, "block_size", &block);
	if (error == 0 && block != 0)
		error = onnx_fail(onnx, -ENOTSUP, "block_size: got %" PRId64 ", expected 0", block);
	return error;
}

/* One scale and zero point, or one for each index of an axis of the value. */
static int quantize_axis(struct onnx *onnx, const struct onnx_item *input, uint32_t scales,
	struct layer_quantize *quantize)
{
	int64_t axis = 1;
	int error = onnx_get_int(onnx, "axis", &axis);
	if (error != 0)
		return error;
	quantize->channels = 1;
	quantize->inner = onnx_count(input->rank, input->dims);
	if (scales == 1)
		return 0;
	axis = axis < 0 ? axis + input->rank : axis - 1; /* shapes here are without the batch */
	if (axis < 0 || axis >= input->rank || input->dims[axis] != scales)
		return onnx_fail(
			onnx, -EINVAL, "got %" PRIu32 " scales, which fit no axis", scales);
	quantize->channels = scales;
	quantize->inner = 1;
	for (uint32_t a = (uint32_t)axis + 1; a < input->rank; a++)
		quantize->inner *= input->dims[a];
	return 0;
}

static int quantize_fill(struct onnx *onnx, const struct onnx_tensor *scale,
	const struct onnx_tensor *zero, struct layer_quantize *quantize)
{
	int64_t type = zero != NULL ? (int64_t)zero->type : ONNX_UINT8, told = 0;
	int error = onnx_get_int(onnx, "output_dtype", &told);
	if (error == 0)
		error = onnx_refuse_blocks(onnx);
	if (error != 0)
		return error;
	if (told != 0 && zero == NULL)
		type = told;
	if ((type != ONNX_UINT8 && type != ONNX_INT8) || (told != 0 && told != type))
		return onnx_fail(onnx, -ENOTSUP,
			"output_dtype: got element type %" PRId64
			", expected the zero point's, uint8 or int8",
			told);
	const bool is_signed = type == ONNX_INT8;
	quantize->low = is_signed ? -128 : 0;
	quantize->high = is_signed ? 127 : 255;
	quantize->zero = calloc(quantize->channels, sizeof(float));
	quantize->scale = onnx_load_floats(onnx, scale);
	if (quantize->scale == NULL)
		return -EINVAL;
	if (quantize->zero == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	for (uint32_t c = 0; c < quantize->channels; c++) {
		quantize->zero[c] = zero == NULL ? 0 : (float)zero->data[c];
		if (!(quantize->scale[c] > 0))
			return onnx_fail(onnx, -EINVAL, "y_scale: got %g, expected more than 0",
				(double)quantize->scale[c]);
	}
	return 0;
}

/* y = round(x / scale) + zero point, halves to even, cut to what 8 bits hold. */
int onnx_quantize(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE), *zero = NULL;
	struct onnx_item *scale = input == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct layer layer = { .kind = LAYER_QUANTIZE };
	if (scale == NULL ||
		(onnx_has_input(onnx, 2) && (zero = onnx_input(onnx, 2, ONNX_CONSTANT)) == NULL))
		return -EINVAL;
	const struct onnx_tensor *zeros = zero == NULL ? NULL : &zero->constant;
	if (zeros != NULL && zeros->type != ONNX_UINT8 && zeros->type != ONNX_INT8)
		return onnx_fail(onnx, -ENOTSUP, "y_zero_point: expected uint8 or int8");
	if (zeros != NULL && zeros->count != scale->constant.count)
		return onnx_fail(onnx, -EINVAL, "as many zero points as scales are needed");
	int error = quantize_axis(onnx, input, scale->constant.count, &layer.quantize);
	if (error == 0)
		error = quantize_fill(onnx, &scale->constant, zeros, &layer.quantize);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	const bool is_signed = layer.quantize.low < 0;
	error = onnx_add_layer(onnx, input, &layer, input->rank, input->dims);
	if (error == 0)
		onnx->items[onnx->items_count - 1].integer = is_signed ? ONNX_INT8 : ONNX_UINT8;
	return error;
}

/* A zero point of 8 bits: one number; 0 when it is not given. */
static int read_zero(struct onnx *onnx, uint32_t index, double *zero)
{
	*zero = 0;
	if (!onnx_has_input(onnx, index))
		return 0;
	struct onnx_item *item = onnx_input(onnx, index, ONNX_CONSTANT);
	if (item == NULL)
		return -EINVAL;
	if (item->constant.count != 1 ||
		(item->constant.type != ONNX_UINT8 && item->constant.type != ONNX_INT8))
		return onnx_fail(onnx, -ENOTSUP,
			"input %" PRIu32 ": expected one zero point of 8 bits", index);
	*zero = item->constant.data[0];
	return 0;
}

/* sum of (x - a) (w - b) = sum of x (w - b) - a * sum of (w - b), all of it integers. */
static int fill_integer(struct onnx *onnx, const struct onnx_tensor *matrix, double a, double b,
	struct layer_dense *dense)
{
	dense->weights = malloc((size_t)dense->inputs * dense->outputs * sizeof(float));
	dense->bias = calloc(dense->outputs, sizeof(float));
	if (dense->weights == NULL || dense->bias == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	for (uint32_t o = 0; o < dense->outputs; o++) {
		double sum = 0;
		for (uint32_t i = 0; i < dense->inputs; i++) {
			size_t at = (size_t)i * dense->outputs + o;
			double weight = matrix->data[at] - b;
			dense->weights[at] = (float)weight;
			sum += weight;
		}
		dense->bias[o] = (float)(-a * sum);
		if (fabs(a * sum) > EXACT_MAX)
			return onnx_fail(
				onnx, -ENOTSUP, "output %" PRIu32 ": sums may exceed 2^24", o);
	}
	return 0;
}

int onnx_integer_check(struct onnx *onnx, const struct layer_dense *dense)
{
	for (uint32_t o = 0; o < dense->outputs; o++) {
		double most = fabs((double)dense->bias[o]);
		for (uint32_t i = 0; i < dense->inputs; i++)
			most += 255 * fabs((double)dense->weights[(size_t)i * dense->outputs + o]);
		if (most > EXACT_MAX || rintf(dense->bias[o]) != dense->bias[o])
			return onnx_fail(onnx, -ENOTSUP,
				"sums of output %" PRIu32
				" may exceed 2^24 (about 500 inputs), or are no integers",
				o);
	}
	return 0;
}

int onnx_matmul_integer(struct onnx *onnx)
{
	struct onnx_item *x = onnx_operand(onnx, 0);
	struct onnx_item *w = x == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct layer layer = { .kind = LAYER_DENSE };
	double a, b;
	if (w == NULL)
		return -EINVAL;
	if (x->kind != ONNX_VALUE || (x->integer != ONNX_UINT8 && x->integer != ONNX_INT8))
		return onnx_fail(onnx, -ENOTSUP, "A: expected what QuantizeLinear makes of rows");
	const struct onnx_tensor *matrix = &w->constant;
	if (matrix->type != ONNX_INT8 && matrix->type != ONNX_UINT8)
		return onnx_fail(onnx, -ENOTSUP, "B: expected int8 or uint8");
	if (x->rank != 1 || matrix->rank != 2 || matrix->dims[0] != x->dims[0])
		return onnx_fail(onnx, -EINVAL,
			"B: got a shape that does not fit the %" PRIu32 " inputs", x->dims[0]);
	layer.dense = (struct layer_dense){
		.rows = 1, .inputs = matrix->dims[0], .outputs = matrix->dims[1], .integer = true
	};
	int error = read_zero(onnx, 2, &a);
	if (error == 0)
		error = read_zero(onnx, 3, &b);
	if (error == 0)
		error = fill_integer(onnx, matrix, a, b, &layer.dense);
	if (error == 0)
		error = onnx_integer_check(onnx, &layer.dense);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	error = onnx_add_layer(onnx, x, &layer, 1, &matrix->dims[1]);
	if (error == 0)
		onnx->items[onnx->items_count - 1].integer = ONNX_INT32;
	return error;
}

/* One number for each output, along the last axis. */
static bool is_bias(const struct onnx_tensor *constant, uint32_t outputs)
{
	return constant->type == ONNX_INT32 && constant->count == outputs &&
	       (outputs == 1 || constant->dims[constant->rank - 1] == outputs);
}

int onnx_add_integers(struct onnx *onnx, struct onnx_item *a, struct onnx_item *b, char op)
{
	struct onnx_item *value = a->kind == ONNX_VALUE ? a : b;
	struct onnx_item *bias = value == a ? b : a;
	struct layer *layer = &onnx->model->layers[onnx->model->layers_count - 1];
	if (op != '+' || bias->kind != ONNX_CONSTANT || layer->kind != LAYER_DENSE ||
		!layer->dense.integer || layer->output != value->value ||
		!is_bias(&bias->constant, layer->dense.outputs))
		return onnx_fail(onnx, -ENOTSUP,
			"of integers: expected int32 numbers, one for each output, right behind "
			"MatMulInteger");
	for (uint32_t o = 0; o < layer->dense.outputs; o++) {
		double sum = layer->dense.bias[o] + bias->constant.data[o];
		if (fabs(sum) > EXACT_MAX)
			return onnx_fail(
				onnx, -ENOTSUP, "output %" PRIu32 ": sums may exceed 2^24", o);
		layer->dense.bias[o] = (float)sum;
	}
	int error = onnx_integer_check(onnx, &layer->dense);
	struct onnx_item output = *value;
	/* No layer has taken the sums without the bias; none may from here on. */
	for (uint32_t i = 0; i < onnx->items_count; i++) {
		struct onnx_item *item = &onnx->items[i];
		item->biased |= item->kind != ONNX_CONSTANT && item->value == value->value;
	}
	return error != 0 ? error : onnx_add_output(onnx, 0, &output);
}
