/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int fail_damaged(struct onnx *onnx)
{
	return onnx_fail(onnx, -EINVAL, "damaged or cut short");
}

/* A field of a kind that its number does not allow is damage. */
static bool wants(const struct onnx_field *field, uint32_t number, enum onnx_wire_type type)
{
	return field->number == number && field->type == type;
}

static int read_opset(struct onnx *onnx, struct onnx_span bytes)
{
	struct onnx_span domain = { 0 };
	struct onnx_field field;
	int64_t version = 0;
	int more;
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (wants(&field, 1, ONNX_WIRE_BYTES))
			domain = field.bytes;
		else if (wants(&field, 2, ONNX_WIRE_VARINT))
			version = (int64_t)field.value;
	}
	if (more < 0)
		return fail_damaged(onnx);
	if (domain.length == 0 || onnx_is(domain, "ai.onnx"))
		onnx->opset = version;
	return 0;
}

int onnx_open_model(struct onnx *onnx, struct onnx_span file)
{
	struct onnx_field field;
	bool found = false;
	int more, error;
	while ((more = onnx_wire_next(&file, &field)) == 1) {
		if (wants(&field, 7, ONNX_WIRE_BYTES)) {
			onnx->graph = field.bytes;
			found = true;
		} else if (wants(&field, 8, ONNX_WIRE_BYTES)) {
			error = read_opset(onnx, field.bytes);
			if (error != 0)
				return error;
		}
	}
	if (more < 0)
		return fail_damaged(onnx);
	if (!found)
		return onnx_fail(onnx, -EINVAL, "not an ONNX model: it has no graph");
	if (onnx->opset < ONNX_OPSET_MIN || onnx->opset > ONNX_OPSET_MAX)
		return onnx_fail(onnx, -ENOTSUP, "opset: got %" PRId64 ", expected %d .. %d",
			onnx->opset, ONNX_OPSET_MIN, ONNX_OPSET_MAX);
	return 0;
}

int onnx_read_node(struct onnx *onnx, struct onnx_span bytes, struct onnx_node *node)
{
	struct onnx_field field;
	int more;
	*node = (struct onnx_node){ .bytes = bytes };
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (field.type != ONNX_WIRE_BYTES)
			continue;
		if (field.number == 1) {
			if (node->inputs_count == ONNX_NODE_INPUTS_MAX)
				return onnx_fail(onnx, -E2BIG, "a node with more than %d inputs",
					ONNX_NODE_INPUTS_MAX);
			node->inputs[node->inputs_count++] = field.bytes;
		} else if (field.number == 2) {
			if (node->outputs_count == ONNX_NODE_OUTPUTS_MAX)
				return onnx_fail(onnx, -E2BIG, "a node with more than %d outputs",
					ONNX_NODE_OUTPUTS_MAX);
			node->outputs[node->outputs_count++] = field.bytes;
		} else if (field.number == 3) {
			node->name = field.bytes;
		} else if (field.number == 4) {
			node->op = field.bytes;
		} else if (field.number == 7) {
			node->domain = field.bytes;
		}
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

/* ---- tensors ------------------------------------------------------------------------------ */

struct tensor_fields {
	struct onnx_span name, raw, all;
	bool has_raw, external;
};

static int add_dim(struct onnx *onnx, struct onnx_tensor *tensor, uint64_t dim)
{
	if (tensor->rank == MODEL_RANK_MAX)
		return onnx_fail(
			onnx, -E2BIG, "a tensor of more than %d dimensions", MODEL_RANK_MAX);
	if (dim == 0 || dim > MODEL_WEIGHTS_MAX)
		return onnx_fail(onnx, -E2BIG, "dimension: got %" PRId64 ", expected 1 .. %d",
			(int64_t)dim, MODEL_WEIGHTS_MAX);
	tensor->dims[tensor->rank++] = (uint32_t)dim;
	return 0;
}

static int read_dims(struct onnx *onnx, const struct onnx_field *field, struct onnx_tensor *tensor)
{
	struct onnx_span packed = field->bytes;
	uint64_t dim;
	int error = 0;
	if (field->type == ONNX_WIRE_VARINT)
		return add_dim(onnx, tensor, field->value);
	while (error == 0 && packed.length > 0) {
		if (!onnx_wire_varint(&packed, &dim))
			return fail_damaged(onnx);
		error = add_dim(onnx, tensor, dim);
	}
	return error;
}

static int read_tensor_fields(struct onnx *onnx, struct onnx_span bytes,
	struct tensor_fields *fields, struct onnx_tensor *tensor)
{
	struct onnx_field field;
	int more, error;
	*fields = (struct tensor_fields){ .all = bytes };
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (field.number == 1) {
			error = read_dims(onnx, &field, tensor);
			if (error != 0)
				return error;
		} else if (wants(&field, 2, ONNX_WIRE_VARINT)) {
			tensor->type = field.value <= 32 ? (enum onnx_type)field.value : 0;
		} else if (wants(&field, 8, ONNX_WIRE_BYTES)) {
			fields->name = field.bytes;
		} else if (wants(&field, 9, ONNX_WIRE_BYTES)) {
			fields->raw = field.bytes;
			fields->has_raw = true;
		} else if (wants(&field, 14, ONNX_WIRE_VARINT)) {
			fields->external = field.value != 0;
		}
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

/* Bytes of one number as raw data; 0: a type that is not read. */
static size_t type_bytes(enum onnx_type type)
{
	switch (type) {
	case ONNX_UINT8:
	case ONNX_INT8:
	case ONNX_BOOL:
		return 1;
	case ONNX_FLOAT16:
		return 2;
	case ONNX_FLOAT:
	case ONNX_INT32:
		return 4;
	case ONNX_INT64:
	case ONNX_DOUBLE:
		return 8;
	}
	return 0;
}

static double from_half(uint32_t bits)
{
	double sign = bits & 0x8000 ? -1 : 1;
	int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
	if (exponent == 31)
		return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp(fraction, -24);
	return sign * ldexp(1024 + fraction, exponent - 25);
}

static double from_bits(enum onnx_type type, uint64_t bits)
{
	float single;
	double number;
	uint32_t low = (uint32_t)bits;
	switch (type) {
	case ONNX_FLOAT:
		memcpy(&single, &low, sizeof(single));
		return single;
	case ONNX_DOUBLE:
		memcpy(&number, &bits, sizeof(number));
		return number;
	case ONNX_FLOAT16:
		return from_half(low & 0xffff);
	case ONNX_UINT8:
		return low & 0xff;
	case ONNX_INT8:
		return (int8_t)low;
	case ONNX_BOOL:
		return bits != 0;
	case ONNX_INT32:
		return (int32_t)low;
	case ONNX_INT64:
		return (double)(int64_t)bits;
	}
	return 0;
}

static void read_raw(const struct onnx_span raw, struct onnx_tensor *tensor)
{
	size_t bytes = type_bytes(tensor->type);
	for (uint32_t i = 0; i < tensor->count; i++) {
		const uint8_t *at = raw.at + i * bytes;
		uint64_t bits = bytes == 8   ? onnx_wire_u64(at)
				: bytes == 4 ? onnx_wire_u32(at)
				: bytes == 2 ? (uint64_t)(at[0] | at[1] << 8)
					     : at[0];
		tensor->data[i] = from_bits(tensor->type, bits);
	}
}

/* The next number of a packed list; false: damaged. */
static bool take_packed(struct onnx_span *packed, enum onnx_wire_type type, uint64_t *bits)
{
	size_t bytes = type == ONNX_WIRE_64 ? 8 : 4;
	if (type == ONNX_WIRE_VARINT)
		return onnx_wire_varint(packed, bits);
	if (packed->length < bytes)
		return false;
	*bits = bytes == 8 ? onnx_wire_u64(packed->at) : onnx_wire_u32(packed->at);
	packed->at += bytes;
	packed->length -= bytes;
	return true;
}

static int fail_count(struct onnx *onnx, const struct onnx_tensor *tensor)
{
	return onnx_fail(onnx, -EINVAL,
		"a tensor with other than the %" PRIu32 " numbers of its shape", tensor->count);
}

/* Numbers in a field of their own type, packed or one by one. */
static int read_listed(struct onnx *onnx, struct onnx_span bytes, struct onnx_tensor *tensor)
{
	uint32_t number = tensor->type == ONNX_FLOAT    ? 4
			  : tensor->type == ONNX_INT64  ? 7
			  : tensor->type == ONNX_DOUBLE ? 10
							: 5;
	enum onnx_wire_type type = number == 4    ? ONNX_WIRE_32
				   : number == 10 ? ONNX_WIRE_64
						  : ONNX_WIRE_VARINT;
	struct onnx_field field;
	uint32_t count = 0;
	while (onnx_wire_next(&bytes, &field) == 1) {
		uint64_t bits = field.value;
		if (field.number != number)
			continue;
		bool packed = field.type == ONNX_WIRE_BYTES;
		if (!packed && field.type != type)
			return fail_damaged(onnx);
		while (!packed || field.bytes.length > 0) {
			if (packed && !take_packed(&field.bytes, type, &bits))
				return fail_damaged(onnx);
			if (count == tensor->count)
				return fail_count(onnx, tensor);
			tensor->data[count++] = from_bits(tensor->type, bits);
			if (!packed)
				break;
		}
	}
	return count == tensor->count ? 0 : fail_count(onnx, tensor);
}

static int check_tensor(
	struct onnx *onnx, const struct tensor_fields *fields, struct onnx_tensor *tensor)
{
	uint64_t count = 1;
	size_t bytes = type_bytes(tensor->type);
	char text[48];
	onnx_text(fields->name, text);
	if (fields->external)
		return onnx_fail(
			onnx, -ENOTSUP, "tensor '%s': its data lies in another file", text);
	if (bytes == 0)
		return onnx_fail(onnx, -ENOTSUP, "tensor '%s': element type %d is not supported",
			text, (int)tensor->type);
	for (uint32_t a = 0; a < tensor->rank && count <= MODEL_WEIGHTS_MAX; a++)
		count *= tensor->dims[a];
	if (count > MODEL_WEIGHTS_MAX || onnx->constants + count > MODEL_WEIGHTS_MAX)
		return onnx_fail(onnx, -E2BIG, "tensor '%s': more than %d numbers in all tensors",
			text, MODEL_WEIGHTS_MAX);
	tensor->count = (uint32_t)count;
	if (fields->has_raw ? fields->raw.length != count * bytes : fields->all.length < count)
		return fail_count(onnx, tensor);
	return 0;
}

int onnx_load_tensor(struct onnx *onnx, struct onnx_span bytes, struct onnx_span *name,
	struct onnx_tensor *tensor)
{
	struct tensor_fields fields;
	*tensor = (struct onnx_tensor){ 0 };
	int error = read_tensor_fields(onnx, bytes, &fields, tensor);
	if (error == 0)
		error = check_tensor(onnx, &fields, tensor);
	if (error != 0)
		return error;
	*name = fields.name;
	tensor->data = malloc(tensor->count * sizeof(double));
	if (tensor->data == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	if (fields.has_raw)
		read_raw(fields.raw, tensor);
	else
		error = read_listed(onnx, bytes, tensor);
	for (uint32_t i = 0; error == 0 && i < tensor->count; i++) {
		char text[48];
		if (!isfinite(tensor->data[i]))
			error = onnx_fail(onnx, -EINVAL,
				"tensor '%s': got %g at %" PRIu32 ", expected a finite number",
				onnx_text(*name, text), tensor->data[i], i);
	}
	if (error != 0)
		free(tensor->data);
	else
		onnx->constants += tensor->count;
	return error;
}

/* ---- inputs and outputs ------------------------------------------------------------------- */

int onnx_read_name(struct onnx *onnx, struct onnx_span bytes, struct onnx_span *name)
{
	struct onnx_field field;
	int more;
	*name = (struct onnx_span){ 0 };
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (wants(&field, 1, ONNX_WIRE_BYTES))
			*name = field.bytes;
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

/* The message in a field of a message; length 0 when there is none. */
static int find_message(
	struct onnx *onnx, struct onnx_span bytes, uint32_t number, struct onnx_span *message)
{
	struct onnx_field field;
	int more;
	*message = (struct onnx_span){ 0 };
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (wants(&field, number, ONNX_WIRE_BYTES))
			*message = field.bytes;
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

static int find_integer(struct onnx *onnx, struct onnx_span bytes, uint32_t number, uint64_t *value)
{
	struct onnx_field field;
	int more;
	*value = 0;
	while ((more = onnx_wire_next(&bytes, &field)) == 1) {
		if (wants(&field, number, ONNX_WIRE_VARINT))
			*value = field.value;
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

static int read_shape(struct onnx *onnx, struct onnx_span shape, struct onnx_item *item)
{
	struct onnx_field field;
	uint64_t dim;
	bool first = true;
	int more, error;
	while ((more = onnx_wire_next(&shape, &field)) == 1) {
		if (!wants(&field, 1, ONNX_WIRE_BYTES))
			continue;
		error = find_integer(onnx, field.bytes, 1, &dim);
		if (error != 0)
			return error;
		if (!first && (dim == 0 || dim > GPU_OFFLOAD_INPUTS_MAX))
			return onnx_fail(onnx, -EINVAL,
				"the input's shape: got %" PRId64
				", expected 1 .. %d behind the batch",
				(int64_t)dim, GPU_OFFLOAD_INPUTS_MAX);
		if (item->rank == MODEL_RANK_MAX)
			return onnx_fail(onnx, -E2BIG, "an input of more than %d dimensions",
				MODEL_RANK_MAX + 1);
		if (!first)
			item->dims[item->rank++] = (uint32_t)dim;
		first = false;
	}
	return more < 0 ? fail_damaged(onnx) : 0;
}

int onnx_read_input(struct onnx *onnx, struct onnx_span bytes, struct onnx_item *item)
{
	struct onnx_span type, tensor, shape;
	uint64_t element = 0;
	int error = onnx_read_name(onnx, bytes, &item->name);
	if (error == 0)
		error = find_message(onnx, bytes, 2, &type);
	if (error == 0)
		error = find_message(onnx, type, 1, &tensor);
	if (error == 0)
		error = find_integer(onnx, tensor, 1, &element);
	if (error == 0)
		error = find_message(onnx, tensor, 2, &shape);
	if (error != 0)
		return error;
	if (element != ONNX_FLOAT)
		return onnx_fail(onnx, -ENOTSUP,
			"the input: got element type %" PRIu64 ", expected 32-bit floats", element);
	error = read_shape(onnx, shape, item);
	if (error != 0)
		return error;
	if (item->rank == 0)
		return onnx_fail(
			onnx, -EINVAL, "the input: got no shape, expected rows of numbers");
	if (onnx_count(item->rank, item->dims) == 0 ||
		onnx_count(item->rank, item->dims) > GPU_OFFLOAD_INPUTS_MAX)
		return onnx_fail(onnx, -E2BIG, "the input: more than %d numbers a row",
			GPU_OFFLOAD_INPUTS_MAX);
	return 0;
}
