/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of the node at work, looked for when they are asked for. */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The AttributeProto of that name: 1, 0: none, -errno. */
static int find(struct onnx *onnx, const char *name, struct onnx_span *attribute)
{
	struct onnx_span node = onnx->node->bytes, called;
	struct onnx_field field;
	int more, error;
	while ((more = onnx_wire_next(&node, &field)) == 1) {
		if (field.number != 5 || field.type != ONNX_WIRE_BYTES)
			continue;
		error = onnx_read_name(onnx, field.bytes, &called);
		if (error != 0)
			return error;
		if (onnx_is(called, name)) {
			*attribute = field.bytes;
			return 1;
		}
	}
	return more; /* the node was read once: 0 */
}

/* The last field of that number in the attribute; found: whether there is one. */
static int find_field(struct onnx *onnx, const char *name, uint32_t number,
	enum onnx_wire_type type, struct onnx_field *value)
{
	struct onnx_span attribute;
	struct onnx_field field;
	bool there = false;
	int found = find(onnx, name, &attribute), more;
	if (found != 1)
		return found;
	while ((more = onnx_wire_next(&attribute, &field)) == 1) {
		if (field.number == number && field.type == type) {
			*value = field;
			there = true;
		}
	}
	if (more < 0)
		return onnx_fail(onnx, -EINVAL, "attribute %s is damaged", name);
	return there;
}

int onnx_get_int(struct onnx *onnx, const char *name, int64_t *value)
{
	struct onnx_field field;
	int found = find_field(onnx, name, 3, ONNX_WIRE_VARINT, &field);
	if (found == 1)
		*value = (int64_t)field.value;
	return found < 0 ? found : 0;
}

static double float_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float value;
	memcpy(&value, &low, sizeof(value));
	return value;
}

int onnx_get_float(struct onnx *onnx, const char *name, double *value)
{
	struct onnx_field field;
	int found = find_field(onnx, name, 2, ONNX_WIRE_32, &field);
	if (found == 1)
		*value = float_of(field.value);
	return found < 0 ? found : 0;
}

int onnx_get_string(struct onnx *onnx, const char *name, struct onnx_span *value)
{
	struct onnx_field field;
	int found = find_field(onnx, name, 4, ONNX_WIRE_BYTES, &field);
	if (found == 1)
		*value = field.bytes;
	return found < 0 ? found : 0;
}

int onnx_get_tensor(struct onnx *onnx, const char *name, struct onnx_span *value)
{
	struct onnx_field field;
	int found = find_field(onnx, name, 5, ONNX_WIRE_BYTES, &field);
	if (found == 1)
		*value = field.bytes;
	return found;
}

/* One field of an attribute: its elements, if it is a list's. Numbers: 7 floats, 8 ints, 9
 * strings. */
static int each_of_field(struct onnx *onnx, const char *name, const struct onnx_field *field,
	struct onnx_element *element,
	int (*each)(struct onnx *onnx, const struct onnx_element *element, void *user), void *user)
{
	struct onnx_span packed = field->bytes;
	uint64_t bits = field->value;
	bool single = field->type != ONNX_WIRE_BYTES || field->number == 9;
	int error;
	while (single || packed.length > 0) {
		if (!single && field->number == 8) {
			if (!onnx_wire_varint(&packed, &bits))
				return onnx_fail(onnx, -EINVAL, "attribute %s is damaged", name);
		} else if (!single) {
			if (packed.length < 4)
				return onnx_fail(onnx, -EINVAL, "attribute %s is damaged", name);
			bits = onnx_wire_u32(packed.at);
			packed.at += 4;
			packed.length -= 4;
		}
		element->integer = (int64_t)bits;
		element->number = float_of(bits);
		element->string = field->bytes;
		error = each(onnx, element, user);
		if (error != 0)
			return error;
		element->index++;
		if (single)
			break;
	}
	return 0;
}

int onnx_get_list(struct onnx *onnx, const char *name, uint32_t *count,
	int (*each)(struct onnx *onnx, const struct onnx_element *element, void *user), void *user)
{
	static const enum onnx_wire_type types[] = { ONNX_WIRE_32, ONNX_WIRE_VARINT,
		ONNX_WIRE_BYTES };
	struct onnx_span attribute;
	struct onnx_field field;
	struct onnx_element element = { 0 };
	int found = find(onnx, name, &attribute), more;
	*count = 0;
	if (found != 1)
		return found;
	while ((more = onnx_wire_next(&attribute, &field)) == 1) {
		if (field.number < 7 || field.number > 9 ||
			(field.type != types[field.number - 7] && field.type != ONNX_WIRE_BYTES))
			continue;
		int error = each_of_field(onnx, name, &field, &element, each, user);
		if (error != 0)
			return error;
	}
	*count = element.index;
	return more < 0 ? onnx_fail(onnx, -EINVAL, "attribute %s is damaged", name) : 0;
}

struct few {
	const char *name;
	int64_t *values;
	uint32_t max;
};

static int take_int(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	const struct few *few = user;
	if (element->index >= few->max)
		return onnx_fail(onnx, -EINVAL, "%s: got more than %" PRIu32 " numbers", few->name,
			few->max);
	few->values[element->index] = element->integer;
	return 0;
}

int onnx_get_ints(
	struct onnx *onnx, const char *name, int64_t values[], uint32_t max, uint32_t *count)
{
	struct few few = { name, values, max };
	return onnx_get_list(onnx, name, count, take_int, &few);
}
