/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The back end `cuda`. Every batch that was taken comes back: from the device, or with -EIO when
 * the device failed, or with -ETIMEDOUT when the watchdog's time ran out. After that nothing is
 * handed to the device any more.
 */
#include "gpu_offload/cuda/slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now_ns(const struct cuda_backend *cuda)
{
	const struct gpu_offload_backend_config *config = &cuda->backend.config;
	return config->clock_ns != NULL ? config->clock_ns(config->clock) : 0;
}

static bool too_long(const struct cuda_backend *cuda, uint64_t since_ns)
{
	uint64_t limit = cuda->backend.config.watchdog_ns;
	return limit != 0 && cuda->backend.config.clock_ns != NULL &&
	       now_ns(cuda) - since_ns > limit;
}

/* ---- batches ------------------------------------------------------------------------------ */

static void give_up(struct cuda_backend *cuda, struct gpu_offload_batch *batch)
{
	batch->status = cuda->lost;
	backend_done_push(&cuda->done, batch);
}

/* The device is not used any more: all that is in flight goes back. */
static void lose(struct cuda_backend *cuda, int error)
{
	cuda->lost = error;
	for (uint32_t i = 0; i < cuda->backend.config.batches_max; i++) {
		struct cuda_place *place = &cuda->places[i];
		if (place->batch == NULL)
			continue;
		give_up(cuda, place->batch);
		place->batch = NULL;
	}
}

static struct cuda_place *free_place(struct cuda_backend *cuda)
{
	struct cuda_place *place = cuda->places;
	while (place->batch != NULL)
		place++;
	return place;
}

/* The range that holds these bytes; NULL: none. */
static const struct cuda_pinned *find_pinned(
	const struct cuda_backend *cuda, const void *memory, size_t size)
{
	uintptr_t at = (uintptr_t)memory;
	for (int i = 0; i < CUDA_PINNED_MAX; i++) {
		const struct cuda_pinned *pinned = &cuda->pinned[i];
		uintptr_t first = (uintptr_t)pinned->memory;
		if (first != 0 && at >= first && at - first <= pinned->size &&
			size <= pinned->size - (at - first))
			return pinned;
	}
	return NULL;
}

static int cuda_submit(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	const struct gpu_offload_model *model = backend->config.model;
	if (cuda->in_flight == backend->config.batches_max)
		return -EAGAIN;
	cuda->in_flight++;
	if (cuda->lost != 0) {
		give_up(cuda, batch);
		return 0;
	}
	struct cuda_place *place = free_place(cuda);
	size_t bytes = (size_t)batch->count * model->inputs * sizeof(float);
	const struct cuda_pinned *pinned = find_pinned(cuda, batch->inputs, bytes);
	place->batch = batch;
	place->since_ns = now_ns(cuda);
	if (pinned == NULL)
		memcpy(place->host, batch->inputs, bytes);
	int error = cuda_device_check(
		&cuda->device, cuda->device.api.context_set(cuda->device.context));
	if (error == 0)
		error = cuda_place_start(cuda, place, pinned);
	if (error != 0)
		lose(cuda, error);
	return 0;
}

static void finish(struct cuda_backend *cuda, struct cuda_place *place)
{
	struct gpu_offload_batch *batch = place->batch;
	memcpy(batch->labels, place->host + cuda->labels_at, batch->count * sizeof(uint32_t));
	if (batch->scores != NULL)
		memcpy(batch->scores, place->host + cuda->scores_at,
			(size_t)batch->count * cuda->backend.config.model->classes * sizeof(float));
	batch->status = 0;
	place->batch = NULL;
}

static uint32_t cuda_poll(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *done[], uint32_t max)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	uint32_t count = 0;
	int error = 0;
	if (cuda->lost == 0 && cuda->in_flight > 0)
		error = cuda_device_check(
			&cuda->device, cuda->device.api.context_set(cuda->device.context));
	if (error != 0)
		lose(cuda, error);
	for (uint32_t i = 0; i < backend->config.batches_max && count < max; i++) {
		struct cuda_place *place = &cuda->places[i];
		if (place->batch == NULL)
			continue;
		int state = cuda_place_check(cuda, place);
		if (state == 0 && too_long(cuda, place->since_ns))
			state = -ETIMEDOUT;
		if (state < 0) {
			lose(cuda, state);
			break;
		}
		if (state == 0)
			continue;
		done[count++] = place->batch;
		finish(cuda, place);
	}
	count += backend_done_pop(&cuda->done, done + count, max - count);
	cuda->in_flight -= count;
	return count;
}

static void cuda_wait(struct gpu_offload_backend *backend)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	const struct cuda_place *first = NULL;
	if (cuda->done.count > 0 || cuda->in_flight == 0 ||
		backend->config.cuda_wait == GPU_OFFLOAD_WAIT_POLL)
		return;
	for (uint32_t i = 0; i < backend->config.batches_max; i++) {
		const struct cuda_place *place = &cuda->places[i];
		if (place->batch != NULL && (first == NULL || place->since_ns < first->since_ns))
			first = place;
	}
	if (backend->config.cuda_wait == GPU_OFFLOAD_WAIT_YIELD || first == NULL)
		cuda_wait_yield();
	else if (cuda->waiter != NULL)
		cuda_waiter_sleep(cuda->waiter, first->event);
	else
		cuda_wait_look();
}

/* ---- the caller's memory ------------------------------------------------------------------ */

static int cuda_pin(struct gpu_offload_backend *backend, void *memory, size_t size)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	const struct cuda_api *api = &cuda->device.api;
	struct cuda_pinned *pinned = cuda->pinned;
	while (pinned < cuda->pinned + CUDA_PINNED_MAX && pinned->memory != NULL)
		pinned++;
	if (pinned == cuda->pinned + CUDA_PINNED_MAX)
		return -ENOSPC;
	if (cuda->lost != 0)
		return cuda->lost;
	cuda_address device = 0;
	int result = api->context_set(cuda->device.context);
	if (result == CUDA_OK)
		result = api->host_register(memory, size, CUDA_HOST_PORTABLE_MAPPED);
	if (result != CUDA_OK)
		return result == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EIO;
	if (api->host_address(&device, memory, 0) != CUDA_OK) {
		api->host_unregister(memory);
		return -EIO;
	}
	*pinned = (struct cuda_pinned){ memory, size, device };
	return 0;
}

static void cuda_unpin(struct gpu_offload_backend *backend, void *memory)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	for (int i = 0; i < CUDA_PINNED_MAX; i++) {
		if (cuda->pinned[i].memory != memory)
			continue;
		cuda->pinned[i].memory = NULL;
		/* A device that was given up may still read there: it stays registered. */
		if (cuda->lost == 0 &&
			cuda->device.api.context_set(cuda->device.context) == CUDA_OK)
			cuda->device.api.host_unregister(memory);
	}
}

static int cuda_lost(const struct gpu_offload_backend *backend, char text[], size_t size)
{
	const struct cuda_backend *cuda = (const struct cuda_backend *)backend;
	const char *is = cuda->device.api.is_double ? "TEST DOUBLE of " : "";
	if (cuda->lost == -ETIMEDOUT)
		snprintf(text, size, "%s%s: no answer within %.3g s", is, cuda->device.name,
			(double)backend->config.watchdog_ns / 1e9);
	else if (cuda->lost != 0)
		snprintf(text, size, "%s%s: %s", is, cuda->device.name,
			cuda->device.error != 0
				? cuda_api_error(&cuda->device.api, cuda->device.error)
				: "the kernel that stays has ended");
	return cuda->lost;
}

/* ---- life --------------------------------------------------------------------------------- */

/* Whether what was put before an event has ended, or the device failed and ended with it. */
static bool ended(struct cuda_backend *cuda, void *event, uint64_t since_ns)
{
	while (event != NULL && cuda->device.api.event_query(event) == CUDA_NOT_READY) {
		if (too_long(cuda, since_ns))
			return false;
	}
	return true;
}

/* Whether the device is at rest, so that memory can be taken from it: the kernel that stays was
 * told to end, and batches that were given up may still run. */
static bool at_rest(struct cuda_backend *cuda)
{
	uint64_t since_ns = now_ns(cuda);
	if (cuda->lost == -ETIMEDOUT)
		return false;
	for (uint32_t i = 0; i < cuda->backend.config.batches_max; i++) {
		if (!ended(cuda, cuda->places[i].event, since_ns))
			return false;
	}
	return true;
}

static void wait_all(struct cuda_backend *cuda)
{
	struct gpu_offload_batch *done[GPU_OFFLOAD_BATCHES_MAX];
	while (cuda->in_flight > 0)
		cuda_poll(&cuda->backend, done, GPU_OFFLOAD_BATCHES_MAX);
}

/*
 * Memory that a device may still write is left alone when it does not answer: to free it would wait
 * for the device, or hand its pages to somebody else.
 */
static void cuda_destroy(struct gpu_offload_backend *backend)
{
	struct cuda_backend *cuda = (struct cuda_backend *)backend;
	wait_all(cuda);
	cuda->device.api.context_set(cuda->device.context);
	if (cuda->ring != NULL)
		cuda_ring_stop(cuda); /* also where nobody waits for it to be heard */
	bool rests = at_rest(cuda);
	cuda_waiter_destroy(cuda->waiter, rests);
	if (!rests) {
		cuda_program_free(&cuda->program);
		free(cuda);
		return;
	}
	for (uint32_t i = 0; i < backend->config.batches_max; i++)
		cuda_place_destroy(cuda, &cuda->places[i]);
	for (int i = 0; i < CUDA_PINNED_MAX; i++) {
		if (cuda->pinned[i].memory != NULL)
			cuda->device.api.host_unregister(cuda->pinned[i].memory);
	}
	if (cuda->ring != NULL)
		cuda->device.api.host_free(cuda->ring);
	cuda_program_destroy(&cuda->program);
	cuda_device_close(&cuda->device);
	free(cuda);
}

static size_t aligned(size_t size)
{
	return (size + 255) / 256 * 256;
}

static int places_make(struct cuda_backend *cuda, char text[], size_t size)
{
	const struct gpu_offload_backend_config *config = &cuda->backend.config;
	size_t rows = config->rows_max;
	int error = 0;
	cuda->labels_at = aligned(rows * config->model->inputs * sizeof(float));
	cuda->scores_at = cuda->labels_at + aligned(rows * sizeof(uint32_t));
	cuda->place_bytes =
		cuda->scores_at + aligned(rows * config->model->classes * sizeof(float));
	cuda->scratch_at = cuda->place_bytes;
	for (uint32_t i = 0; error == 0 && i < config->batches_max; i++)
		error = cuda_place_create(cuda, &cuda->places[i]);
	if (error == 0 && config->cuda_mode == GPU_OFFLOAD_CUDA_PERSISTENT)
		error = cuda_ring_create(cuda, text, size);
	else if (error == 0 && config->cuda_wait == GPU_OFFLOAD_WAIT_BLOCK)
		error = cuda_waiter_create(&cuda->waiter, &cuda->device);
	return error;
}

static int cuda_create(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, char text[], size_t size)
{
	static const char *const modes[] = { "launch", "graph", "persistent" };
	char what[64];
	for (uint32_t i = 0; i < config->model->layers_count; i++) {
		if (config->model->layers[i].kind != LAYER_QUANTIZE)
			continue;
		snprintf(text, size, "the kernels do no integer arithmetic (QuantizeLinear)");
		return -ENOTSUP;
	}
	struct cuda_backend *cuda = calloc(1, sizeof(*cuda));
	if (cuda == NULL) {
		snprintf(text, size, "out of memory");
		return -ENOMEM;
	}
	cuda->backend = (struct gpu_offload_backend){ &backend_cuda, *config };
	int error = cuda_device_open(
		&cuda->device, config->cuda_library, config->cuda_device, text, size);
	if (error != 0) {
		free(cuda);
		return error;
	}
	text[0] = '\0';
	error = cuda_program_create(&cuda->program, &cuda->device, config->model, config->rows_max,
		config->cuda_kernels);
	if (error == 0)
		error = places_make(cuda, text, size);
	if (error != 0) {
		if (text[0] == '\0')
			snprintf(text, size, "%s: %s", cuda->device.name,
				cuda->device.error != 0
					? cuda_api_error(&cuda->device.api, cuda->device.error)
					: strerror(-error));
		cuda_destroy(&cuda->backend);
		return error;
	}
	cuda_program_describe(&cuda->program, what, sizeof(what));
	snprintf(text, size, "%s%s, %s, %s", cuda->device.api.is_double ? "TEST DOUBLE of " : "",
		cuda->device.name, what, modes[config->cuda_mode]);
	*out = &cuda->backend;
	return 0;
}

const struct gpu_offload_backend_ops backend_cuda = {
	.name = "cuda",
	.summary = "an NVIDIA GPU",
	.create = cuda_create,
	.destroy = cuda_destroy,
	.submit = cuda_submit,
	.poll = cuda_poll,
	.wait = cuda_wait,
	.lost = cuda_lost,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
};
