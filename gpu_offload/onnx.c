/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/model.h"

#include <errno.h>
#include <stdio.h>

int gpu_offload_model_load(
	struct gpu_offload_model **out, const char *path, char error[], size_t size)
{
	(void)out;
	snprintf(error, size, "%s: ONNX files cannot be read yet", path);
	return -ENOTSUP;
}

int gpu_offload_model_load_bytes(struct gpu_offload_model **out, const void *bytes, size_t length,
	const char *name, char error[], size_t size)
{
	(void)bytes;
	(void)length;
	return gpu_offload_model_load(out, name, error, size);
}
