/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/onnx_wire.h"

#include <errno.h>

bool onnx_wire_varint(struct onnx_span *span, uint64_t *value)
{
	uint64_t sum = 0;
	for (unsigned int i = 0; i < 10 && i < span->length; i++) {
		sum |= (uint64_t)(span->at[i] & 0x7f) << (7 * i);
		if (span->at[i] < 0x80) {
			span->at += i + 1;
			span->length -= i + 1;
			*value = sum;
			return true;
		}
	}
	return false;
}

uint32_t onnx_wire_u32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

uint64_t onnx_wire_u64(const uint8_t *at)
{
	return onnx_wire_u32(at) | (uint64_t)onnx_wire_u32(at + 4) << 32;
}

static bool take(struct onnx_span *span, size_t length, struct onnx_span *taken)
{
	if (length > span->length)
		return false;
	*taken = (struct onnx_span){ span->at, length };
	span->at += length;
	span->length -= length;
	return true;
}

int onnx_wire_next(struct onnx_span *span, struct onnx_field *field)
{
	uint64_t key, length;
	struct onnx_span taken;
	if (span->length == 0)
		return 0;
	if (!onnx_wire_varint(span, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
		return -EINVAL;
	*field = (struct onnx_field){ .number = (uint32_t)(key >> 3), .type = key & 7 };
	switch (field->type) {
	case ONNX_WIRE_VARINT:
		return onnx_wire_varint(span, &field->value) ? 1 : -EINVAL;
	case ONNX_WIRE_32:
		if (!take(span, 4, &taken))
			return -EINVAL;
		field->value = onnx_wire_u32(taken.at);
		return 1;
	case ONNX_WIRE_64:
		if (!take(span, 8, &taken))
			return -EINVAL;
		field->value = onnx_wire_u64(taken.at);
		return 1;
	case ONNX_WIRE_BYTES:
		if (!onnx_wire_varint(span, &length) || length > SIZE_MAX ||
			!take(span, (size_t)length, &field->bytes))
			return -EINVAL;
		return 1;
	}
	return -EINVAL;
}
