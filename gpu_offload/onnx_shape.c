/* SPDX-License-Identifier: BSD-2-Clause */
/* Operators that rearrange or that combine operands element by element. */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The same value under another shape. */
static int add_alias(
	struct onnx *onnx, const struct onnx_item *input, uint32_t rank, const uint32_t dims[])
{
	struct onnx_item output = *input;
	output.rank = rank;
	memcpy(output.dims, dims, rank * sizeof(*dims));
	return onnx_add_output(onnx, 0, &output);
}

int onnx_flatten(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	int64_t axis = 1;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_int(onnx, "axis", &axis);
	if (error != 0)
		return error;
	if (axis != 1 && axis != -(int64_t)input->rank)
		return onnx_fail(onnx, -ENOTSUP,
			"axis: got %" PRId64 ", expected 1: rows may not be mixed", axis);
	const uint32_t count = onnx_count(input->rank, input->dims);
	return add_alias(onnx, input, 1, &count);
}

/* The shape behind the batch that a Reshape asks for. */
static int read_target(struct onnx *onnx, const struct onnx_item *input,
	const struct onnx_tensor *target, uint32_t dims[])
{
	uint64_t known = 1;
	uint32_t open = MODEL_RANK_MAX, count = onnx_count(input->rank, input->dims);
	for (uint32_t a = 0; a + 1 < target->count; a++) {
		double dim = target->data[a + 1];
		if (dim == -1 && open == MODEL_RANK_MAX && target->data[0] != -1) {
			open = a;
			continue;
		}
		if (dim == 0 && a < input->rank)
			dim = input->dims[a];
		if (!(dim >= 1 && dim <= MODEL_VALUE_MAX))
			return onnx_fail(onnx, -EINVAL,
				"shape: got %g at %" PRIu32 ", expected a dimension", dim, a + 1);
		dims[a] = (uint32_t)dim;
		known *= dims[a];
		if (known > MODEL_VALUE_MAX)
			return onnx_fail(onnx, -EINVAL, "shape: too large");
	}
	if (open != MODEL_RANK_MAX) {
		dims[open] = (uint32_t)(count / known);
		known *= dims[open];
	}
	if (known != count)
		return onnx_fail(onnx, -EINVAL,
			"shape: got %" PRIu64 " numbers a row, expected %" PRIu32, known, count);
	return 0;
}

int onnx_reshape(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct onnx_item *shape = input == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	uint32_t dims[MODEL_RANK_MAX];
	if (shape == NULL)
		return -EINVAL;
	const struct onnx_tensor *target = &shape->constant;
	int64_t zeros = 0;
	int error = onnx_get_int(onnx, "allowzero", &zeros);
	for (uint32_t a = 0; error == 0 && zeros != 0 && a < target->count; a++) {
		if (target->data[a] == 0)
			error = onnx_fail(onnx, -EINVAL, "allowzero: makes no numbers");
	}
	if (error != 0)
		return error;
	if (target->rank != 1 || target->count < 2 || target->count > MODEL_RANK_MAX + 1)
		return onnx_fail(onnx, -EINVAL,
			"shape: got %" PRIu32 " dimensions, expected 2 .. %d", target->count,
			MODEL_RANK_MAX + 1);
	if (target->data[0] != 0 && target->data[0] != -1 && target->data[0] != 1)
		return onnx_fail(onnx, -ENOTSUP, "shape: got %g for the batch, expected 0, 1 or -1",
			target->data[0]);
	error = read_target(onnx, input, target, dims);
	return error != 0 ? error : add_alias(onnx, input, target->count - 1, dims);
}

int onnx_transpose(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct layer layer = { .kind = LAYER_TRANSPOSE };
	struct layer_transpose *transpose = &layer.transpose;
	int64_t axes[MODEL_RANK_MAX + 1];
	uint32_t count, dims[MODEL_RANK_MAX], seen = 0;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_ints(onnx, "perm", axes, MODEL_RANK_MAX + 1, &count);
	if (error != 0)
		return error;
	if (count != input->rank + 1 || axes[0] != 0)
		return onnx_fail(onnx, -ENOTSUP,
			"perm: expected all %" PRIu32 " axes, the batch's first", input->rank + 1);
	transpose->rank = input->rank;
	memcpy(transpose->in, input->dims, sizeof(transpose->in));
	for (uint32_t a = 0; a < input->rank; a++) {
		if (axes[a + 1] < 1 || axes[a + 1] > input->rank || (seen >> axes[a + 1] & 1))
			return onnx_fail(onnx, -EINVAL, "perm: got %" PRId64 " at %" PRIu32,
				axes[a + 1], a + 1);
		seen |= 1u << axes[a + 1];
		transpose->axes[a] = (uint32_t)axes[a + 1] - 1;
		dims[a] = input->dims[transpose->axes[a]];
	}
	return onnx_add_layer(onnx, input, &layer, input->rank, dims);
}

/* An axis of the file, which counts the batch, as an axis behind it. */
static int read_axis(struct onnx *onnx, const struct onnx_item *input, int64_t axis, uint32_t *out)
{
	if (axis < 0)
		axis += input->rank + 1;
	if (axis < 1 || axis > input->rank)
		return onnx_fail(
			onnx, -ENOTSUP, "axis: got %" PRId64 ", expected one of a row", axis);
	*out = (uint32_t)axis - 1;
	return 0;
}

int onnx_softmax(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct layer layer = { .kind = LAYER_SOFTMAX };
	bool flat = onnx->opset < 13; /* older: over all axes from this one on */
	int64_t axis = flat ? 1 : -1;
	uint32_t at = 0;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_int(onnx, "axis", &axis);
	if (error == 0)
		error = read_axis(onnx, input, axis, &at);
	if (error != 0)
		return error;
	layer.softmax.outer = onnx_count(at, input->dims);
	layer.softmax.axis =
		flat ? onnx_count(input->rank - at, input->dims + at) : input->dims[at];
	layer.softmax.inner = flat ? 1 : onnx_count(input->rank - at - 1, input->dims + at + 1);
	return onnx_add_layer(onnx, input, &layer, input->rank, input->dims);
}

int onnx_argmax(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	int64_t axis = 0, last = 0;
	uint32_t at = 0;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_int(onnx, "axis", &axis);
	if (error == 0)
		error = onnx_get_int(onnx, "select_last_index", &last);
	if (error == 0)
		error = read_axis(onnx, input, axis, &at);
	if (error != 0)
		return error;
	if (last != 0 || input->dims[at] != onnx_count(input->rank, input->dims))
		return onnx_fail(onnx, -ENOTSUP, "only the first highest of all classes");
	struct onnx_item labels = { .kind = ONNX_LABELS, .value = input->value };
	return onnx_add_output(onnx, 0, &labels);
}

/* Whether numbers of that type hold it exactly; of floats all. */
static bool holds(enum onnx_type type, double number)
{
	const double exact = 9007199254740992.0; /* 2^53: what doubles count up to */
	switch (type) {
	case ONNX_UINT8:
		return number >= 0 && number <= UINT8_MAX;
	case ONNX_INT8:
		return number >= INT8_MIN && number <= INT8_MAX;
	case ONNX_BOOL:
		return number >= 0 && number <= 1;
	case ONNX_INT32:
		return number >= INT32_MIN && number <= INT32_MAX;
	case ONNX_INT64:
		return number >= -exact && number <= exact;
	default:
		return true;
	}
}

/* A constant that was computed; integers that would wrap are refused. */
static int add_constant(struct onnx *onnx, struct onnx_item *item)
{
	const struct onnx_tensor *constant = &item->constant;
	for (uint32_t i = 0; i < constant->count; i++) {
		double number = constant->data[i];
		if (holds(constant->type, number))
			continue;
		free(constant->data);
		return onnx_fail(onnx, -ENOTSUP,
			"of constants: makes %g at %" PRIu32 ", which its type does not hold",
			number, i);
	}
	return onnx_add_output(onnx, 0, item);
}

static int cast_constant(struct onnx *onnx, const struct onnx_item *input, int64_t to)
{
	struct onnx_item output = { .kind = ONNX_CONSTANT, .constant = input->constant };
	struct onnx_tensor *constant = &output.constant;
	if (to != ONNX_FLOAT && to != ONNX_DOUBLE && to != ONNX_INT32 && to != ONNX_INT64)
		return onnx_fail(
			onnx, -ENOTSUP, "to: element type %" PRId64 " is not supported", to);
	if (onnx->constants + constant->count > MODEL_WEIGHTS_MAX)
		return onnx_fail(
			onnx, -E2BIG, "more than %d numbers in all tensors", MODEL_WEIGHTS_MAX);
	onnx->constants += constant->count;
	constant->data = malloc(constant->count * sizeof(double));
	if (constant->data == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	constant->type = (enum onnx_type)to;
	for (uint32_t i = 0; i < constant->count; i++) {
		double number = input->constant.data[i];
		constant->data[i] = to == ONNX_FLOAT    ? (double)(float)number
				    : to == ONNX_DOUBLE ? number
							: trunc(number);
	}
	return add_constant(onnx, &output);
}

int onnx_cast(struct onnx *onnx)
{
	struct onnx_item *input = onnx_operand(onnx, 0);
	int64_t to = 0;
	if (input == NULL)
		return -EINVAL;
	int error = onnx_get_int(onnx, "to", &to);
	if (error != 0)
		return error;
	if (input->kind == ONNX_CONSTANT)
		return cast_constant(onnx, input, to);
	/* Integers travel as floats and stay what they are. */
	bool real = to == ONNX_FLOAT || to == ONNX_DOUBLE;
	bool whole = to == ONNX_INT32 || to == ONNX_INT64;
	if (input->kind == ONNX_VALUE ? !real : !whole)
		return onnx_fail(onnx, -ENOTSUP, "to: got element type %" PRId64 ", expected %s",
			to, input->kind == ONNX_VALUE ? "floats" : "integers");
	struct onnx_item output = *input;
	output.integer = 0;
	return onnx_add_output(onnx, 0, &output);
}

/* ---- two operands ------------------------------------------------------------------------- */

/*
 * A constant that is spread over a row: the axes where it has more than one number must stand
 * together, which makes it one number for each of `channels` blocks of `inner`.
 */
static int spread(struct onnx *onnx, const struct onnx_item *value,
	const struct onnx_tensor *constant, struct layer_affine *affine)
{
	uint32_t first = MODEL_RANK_MAX, last = 0;
	for (uint32_t back = 0; back < constant->rank; back++) {
		uint32_t dim = constant->dims[constant->rank - 1 - back];
		if (dim == 1)
			continue;
		if (back >= value->rank || value->dims[value->rank - 1 - back] != dim)
			return onnx_fail(onnx, -EINVAL,
				"a constant with a shape that does not fit the value's");
		first = value->rank - 1 - back;
		last = last > first ? last : first;
	}
	affine->channels = 1;
	affine->inner = onnx_count(value->rank, value->dims);
	if (first == MODEL_RANK_MAX)
		return 0;
	affine->channels = onnx_count(last - first + 1, value->dims + first);
	affine->inner = onnx_count(value->rank - last - 1, value->dims + last + 1);
	if (affine->channels != constant->count)
		return onnx_fail(onnx, -ENOTSUP, "a constant that is spread over inner axes");
	return 0;
}

static int add_affine(struct onnx *onnx, struct onnx_item *value, struct onnx_item *other, char op)
{
	struct layer layer = { .kind = LAYER_AFFINE };
	struct layer_affine *affine = &layer.affine;
	int error = spread(onnx, value, &other->constant, affine);
	if (error != 0)
		return error;
	float *numbers = onnx_load_floats(onnx, &other->constant);
	float *others = malloc(affine->channels * sizeof(float));
	if (numbers == NULL || others == NULL) {
		free(numbers);
		free(others);
		return numbers == NULL ? -EINVAL : onnx_fail(onnx, -ENOMEM, "out of memory");
	}
	for (uint32_t c = 0; c < affine->channels; c++) {
		others[c] = op == '*' ? 0 : 1;
		numbers[c] = op == '-' ? -numbers[c] : numbers[c];
	}
	affine->scale = op == '*' ? numbers : others;
	affine->shift = op == '*' ? others : numbers;
	return onnx_add_layer(onnx, value, &layer, value->rank, value->dims);
}

/* Two constants, of one shape or one of them a scalar. */
static int combine_constants(
	struct onnx *onnx, const struct onnx_tensor *a, const struct onnx_tensor *b, char op)
{
	struct onnx_item output = { .kind = ONNX_CONSTANT, .constant = a->count == 1 ? *b : *a };
	struct onnx_tensor *result = &output.constant;
	if (a->count != 1 && b->count != 1 &&
		(a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof(*a->dims)) != 0))
		return onnx_fail(onnx, -ENOTSUP, "two constants of different shapes");
	if (a->type != b->type)
		return onnx_fail(onnx, -EINVAL, "two constants of different types");
	if (onnx->constants + result->count > MODEL_WEIGHTS_MAX)
		return onnx_fail(
			onnx, -E2BIG, "more than %d numbers in all tensors", MODEL_WEIGHTS_MAX);
	onnx->constants += result->count;
	result->data = malloc(result->count * sizeof(double));
	if (result->data == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < result->count; i++) {
		double x = a->data[a->count == 1 ? 0 : i], y = b->data[b->count == 1 ? 0 : i];
		result->data[i] = op == '*' ? x * y : op == '-' ? x - y : x + y;
	}
	return add_constant(onnx, &output);
}

static int add_values(struct onnx *onnx, struct onnx_item *a, struct onnx_item *b, char op)
{
	struct layer layer = { .kind = LAYER_ADD, .second = b->value };
	if (op != '+')
		return onnx_fail(onnx, -ENOTSUP, "of two values of a row");
	if (a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof(*a->dims)) != 0)
		return onnx_fail(onnx, -EINVAL, "two values of different shapes");
	return onnx_add_layer(onnx, a, &layer, a->rank, a->dims);
}

int onnx_binary(struct onnx *onnx)
{
	struct onnx_item *a = onnx_operand(onnx, 0);
	struct onnx_item *b = a == NULL ? NULL : onnx_operand(onnx, 1);
	char op = onnx_is(onnx->node->op, "Add") ? '+' : onnx_is(onnx->node->op, "Sub") ? '-' : '*';
	if (b == NULL)
		return -EINVAL;
	if (a->kind == ONNX_LABELS || b->kind == ONNX_LABELS)
		return onnx_fail(onnx, -ENOTSUP, "of labels");
	if (a->kind == ONNX_CONSTANT && b->kind == ONNX_CONSTANT)
		return combine_constants(onnx, &a->constant, &b->constant, op);
	if (a->integer != 0 || b->integer != 0)
		return onnx_add_integers(onnx, a, b, op);
	if (a->kind == ONNX_VALUE && b->kind == ONNX_VALUE)
		return add_values(onnx, a, b, op);
	if (a->kind == ONNX_VALUE)
		return add_affine(onnx, a, b, op);
	if (op == '-')
		return onnx_fail(onnx, -ENOTSUP, "a value taken off a constant");
	return add_affine(onnx, b, a, op);
}

/* y = (x - zero point) * scale, of constants, with one scale or one for each index of an axis. */
int onnx_dequantize(struct onnx *onnx)
{
	struct onnx_item *x = onnx_input(onnx, 0, ONNX_CONSTANT);
	struct onnx_item *scale = x == NULL ? NULL : onnx_input(onnx, 1, ONNX_CONSTANT);
	struct onnx_item *zero = NULL;
	int64_t axis = 1;
	if (scale == NULL)
		return -EINVAL;
	if (onnx_has_input(onnx, 2) && (zero = onnx_input(onnx, 2, ONNX_CONSTANT)) == NULL)
		return -EINVAL;
	int error = onnx_get_int(onnx, "axis", &axis);
	if (error == 0)
		error = onnx_refuse_blocks(onnx);
	if (error != 0)
		return error;
	struct onnx_item output = { .kind = ONNX_CONSTANT, .constant = x->constant };
	struct onnx_tensor *result = &output.constant;
	uint32_t scales = scale->constant.count, inner = 1;
	if (axis < 0)
		axis += result->rank;
	if (scales > 1 && (axis < 0 || axis >= result->rank || result->dims[axis] != scales))
		return onnx_fail(
			onnx, -EINVAL, "got %" PRIu32 " scales, which fit no axis", scales);
	if (zero != NULL && zero->constant.count != scales)
		return onnx_fail(onnx, -EINVAL, "as many zero points as scales are needed");
	for (uint32_t a = (uint32_t)axis + 1; scales > 1 && a < result->rank; a++)
		inner *= result->dims[a];
	if (onnx->constants + result->count > MODEL_WEIGHTS_MAX)
		return onnx_fail(
			onnx, -E2BIG, "more than %d numbers in all tensors", MODEL_WEIGHTS_MAX);
	onnx->constants += result->count;
	result->data = malloc(result->count * sizeof(double));
	if (result->data == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	result->type = ONNX_FLOAT;
	for (uint32_t i = 0; i < result->count; i++) {
		uint32_t at = i / inner % scales;
		double offset = zero == NULL ? 0 : zero->constant.data[at];
		result->data[i] = (x->constant.data[i] - offset) * scale->constant.data[at];
	}
	return onnx_add_output(onnx, 0, &output);
}
