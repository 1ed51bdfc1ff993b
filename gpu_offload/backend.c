/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/backend_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct gpu_offload_backend_ops *const backends[] = {
	&backend_cpu_ref,
	&backend_cpu,
	&backend_cuda,
};

enum { BACKENDS_COUNT = sizeof(backends) / sizeof(backends[0]) };

const struct gpu_offload_backend_ops *gpu_offload_backend_nth(size_t index)
{
	return index < BACKENDS_COUNT ? backends[index] : NULL;
}

const struct gpu_offload_backend_ops *gpu_offload_backend_by_name(const char *name)
{
	for (size_t i = 0; i < BACKENDS_COUNT; i++) {
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	}
	return NULL;
}

static int check_config(const struct gpu_offload_backend_config *config, char why[], size_t size)
{
	if (config->rows_max == 0 || config->rows_max > GPU_OFFLOAD_ROWS_MAX) {
		snprintf(why, size, "batch: got %u rows, expected 1 .. %d", config->rows_max,
			GPU_OFFLOAD_ROWS_MAX);
		return -EINVAL;
	}
	if (config->batches_max == 0 || config->batches_max > GPU_OFFLOAD_BATCHES_MAX) {
		snprintf(why, size, "batches in flight: got %u, expected 1 .. %d",
			config->batches_max, GPU_OFFLOAD_BATCHES_MAX);
		return -EINVAL;
	}
	return 0;
}

/* One back end by its ops; why says what it runs on, or why not, behind its name. */
static int create_one(struct gpu_offload_backend **out, const struct gpu_offload_backend_ops *ops,
	const struct gpu_offload_backend_config *config, char why[], size_t size)
{
	char text[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	int error = ops->create(out, config, text, sizeof(text));
	snprintf(why, size, error == 0 ? "%s (%s)" : "%s: %s", ops->name, text);
	return error;
}

/* The last in the list is the fastest, where it can be had. */
static int create_auto(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, char why[], size_t size)
{
	char text[GPU_OFFLOAD_MESSAGE_SIZE], reasons[BACKENDS_COUNT * sizeof(text)] = "";
	size_t used = 0;
	int error = -ENOTSUP;
	for (size_t i = BACKENDS_COUNT; i-- > 0 && error != 0;) {
		error = create_one(out, backends[i], config, text, sizeof(text));
		if (error != 0)
			used += (size_t)snprintf(
				reasons + used, sizeof(reasons) - used, "; %.250s", text);
	}
	snprintf(why, size, "%s%s", error == 0 ? text : "no back end", reasons);
	return error;
}

int gpu_offload_backend_create(struct gpu_offload_backend **out, const char *choice,
	const struct gpu_offload_backend_config *config, char why[], size_t size)
{
	int error = check_config(config, why, size);
	if (error != 0)
		return error;
	if (strcmp(choice, "auto") == 0)
		return create_auto(out, config, why, size);
	const struct gpu_offload_backend_ops *ops = gpu_offload_backend_by_name(choice);
	if (ops == NULL) {
		snprintf(why, size, "back end: got '%s', expected auto, cpu-ref, cpu or cuda",
			choice);
		return -ENOENT;
	}
	return create_one(out, ops, config, why, size);
}

void gpu_offload_backend_destroy(struct gpu_offload_backend *backend)
{
	if (backend != NULL)
		backend->ops->destroy(backend);
}

const char *gpu_offload_backend_name(const struct gpu_offload_backend *backend)
{
	return backend->ops->name;
}

int gpu_offload_backend_submit(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	if (batch->count == 0 || batch->count > backend->config.rows_max ||
		(uintptr_t)batch->inputs % GPU_OFFLOAD_INPUT_ALIGNMENT != 0)
		return -EINVAL;
	return backend->ops->submit(backend, batch);
}

uint32_t gpu_offload_backend_poll(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *done[], uint32_t max)
{
	return backend->ops->poll(backend, done, max);
}

void gpu_offload_backend_wait(struct gpu_offload_backend *backend)
{
	if (backend->ops->wait != NULL)
		backend->ops->wait(backend);
}

int gpu_offload_backend_lost(const struct gpu_offload_backend *backend, char text[], size_t size)
{
	return backend->ops->lost != NULL ? backend->ops->lost(backend, text, size) : 0;
}

int gpu_offload_backend_pin(struct gpu_offload_backend *backend, void *memory, size_t size)
{
	return backend->ops->pin != NULL ? backend->ops->pin(backend, memory, size) : 0;
}

void gpu_offload_backend_unpin(struct gpu_offload_backend *backend, void *memory)
{
	if (backend->ops->unpin != NULL)
		backend->ops->unpin(backend, memory);
}

bool gpu_offload_scores_close(float got, float expected)
{
	if (isnan(expected) || isnan(got))
		return isnan(expected) && isnan(got);
	if (isinf(expected) || isinf(got))
		return got == expected;
	return fabs((double)got - expected) <= 1e-4 + 1e-3 * fabs((double)expected);
}
