/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *onnx_text(struct onnx_span span, char text[48])
{
	size_t length = span.length < 40 ? span.length : 40;
	for (size_t i = 0; i < length; i++)
		text[i] = span.at[i] >= ' ' && span.at[i] < 0x7f ? (char)span.at[i] : '?';
	memcpy(text + length, span.length > 40 ? "..." : "", span.length > 40 ? 4 : 1);
	return text;
}

bool onnx_is(struct onnx_span span, const char *text)
{
	return span.length == strlen(text) &&
	       (span.length == 0 || memcmp(span.at, text, span.length) == 0);
}

int onnx_fail(struct onnx *onnx, int error, const char *format, ...)
{
	char where[128] = "", name[48], op[48], message[192];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (onnx->node != NULL) {
		struct onnx_span called = onnx->node->name;
		if (called.length == 0 && onnx->node->outputs_count > 0)
			called = onnx->node->outputs[0];
		snprintf(where, sizeof(where), "node '%s' (%s): ", onnx_text(called, name),
			onnx_text(onnx->node->op, op));
	}
	snprintf(onnx->error, onnx->error_size, "%s: %s%s", onnx->name, where, message);
	return error;
}

static void free_items(struct onnx *onnx)
{
	for (uint32_t i = 0; i < onnx->items_count; i++) {
		if (onnx->items[i].kind == ONNX_CONSTANT)
			free(onnx->items[i].constant.data);
	}
	free(onnx->items);
}

int gpu_offload_model_load_bytes(struct gpu_offload_model **out, const void *bytes, size_t length,
	const char *name, char error[], size_t size)
{
	struct onnx onnx = { .name = name, .error = error, .error_size = size };
	const struct onnx_span file = { bytes, length };
	onnx.items = calloc(ONNX_ITEMS_MAX, sizeof(*onnx.items));
	onnx.model = calloc(1, sizeof(*onnx.model));
	int result = -ENOMEM;
	if (onnx.items == NULL || onnx.model == NULL)
		onnx_fail(&onnx, result, "out of memory");
	else
		result = onnx_open_model(&onnx, file);
	if (result == 0)
		result = onnx_lower(&onnx);
	onnx.node = NULL;
	if (result == 0)
		result = onnx_fold(&onnx);
	if (onnx.items != NULL)
		free_items(&onnx);
	if (result == 0)
		*out = onnx.model;
	else
		gpu_offload_model_destroy(onnx.model);
	return result;
}

/* The whole file; told when it cannot be had. */
static int load_file(
	const char *path, uint8_t **bytes, size_t *length, char error[], size_t error_size)
{
	struct stat status;
	/* A pipe that nobody writes to would keep a plain open waiting. */
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
	int result = file == NULL || fstat(fileno(file), &status) != 0 ? -errno : 0;
	if (result == 0 && !S_ISREG(status.st_mode))
		result = S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
	if (result == 0 && status.st_size > ONNX_BYTES_MAX)
		result = -EFBIG;
	*bytes = NULL;
	if (result == 0) {
		*length = (size_t)status.st_size;
		*bytes = malloc(*length + 1);
		if (*bytes == NULL)
			result = -ENOMEM;
		else if (fread(*bytes, 1, *length, file) != *length)
			result = -EIO;
	}
	if (file != NULL)
		fclose(file);
	if (result != 0) {
		free(*bytes);
		snprintf(error, error_size, "%s: %s", path,
			result == -ESPIPE ? "not a regular file" : strerror(-result));
	}
	return result;
}

int gpu_offload_model_load(
	struct gpu_offload_model **out, const char *path, char error[], size_t size)
{
	uint8_t *bytes;
	size_t length;
	int result = load_file(path, &bytes, &length, error, size);
	if (result != 0)
		return result;
	result = gpu_offload_model_load_bytes(out, bytes, length, path, error, size);
	free(bytes);
	return result;
}
