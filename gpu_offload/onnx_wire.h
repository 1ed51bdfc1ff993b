/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: reads Protocol Buffers' wire format where it lies, field by field,
 * without copies, allocation or recursion, so that a hostile file can cost no more than a pass over
 * its bytes (docs/decisions/0010-onnx-is-read-here.md says why no library does this).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct onnx_span {
	const uint8_t *at;
	size_t length;
};

enum onnx_wire_type {
	ONNX_WIRE_VARINT = 0,
	ONNX_WIRE_64 = 1,
	ONNX_WIRE_BYTES = 2,
	ONNX_WIRE_32 = 5,
};

struct onnx_field {
	uint32_t number;
	enum onnx_wire_type type;
	uint64_t value;         /* of a varint or of fixed bits */
	struct onnx_span bytes; /* of ONNX_WIRE_BYTES */
};

/* Takes the next field off the span: 1, 0 at the end, -EINVAL when the bytes are none. */
int onnx_wire_next(struct onnx_span *span, struct onnx_field *field);
/* Takes a varint off the span; false: there is none. */
bool onnx_wire_varint(struct onnx_span *span, uint64_t *value);
/* Little-endian bits at the front; the span must hold them. */
uint32_t onnx_wire_u32(const uint8_t *at);
uint64_t onnx_wire_u64(const uint8_t *at);
