/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cuda/slots.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The ring is plain memory for the device's sake; the host's side of it is atomic. */
static void store_release(uint32_t *at, uint32_t value)
{
	atomic_store_explicit((_Atomic uint32_t *)at, value, memory_order_release);
}

static uint32_t load_acquire(uint32_t *at)
{
	return atomic_load_explicit((_Atomic uint32_t *)at, memory_order_acquire);
}

static bool persistent(const struct cuda_backend *cuda)
{
	return cuda->backend.config.cuda_mode == GPU_OFFLOAD_CUDA_PERSISTENT;
}

int cuda_place_create(struct cuda_backend *cuda, struct cuda_place *place)
{
	struct cuda_device *device = &cuda->device;
	const struct cuda_api *api = &device->api;
	void *host = NULL;
	int error = cuda_device_check(
		device, api->host_alloc(&host, cuda->place_bytes, CUDA_HOST_PORTABLE_MAPPED));
	place->host = host;
	if (error == 0 && persistent(cuda))
		return cuda_device_check(device, api->host_address(&place->device, host, 0));
	if (error == 0)
		error = cuda_device_check(
			device, api->mem_alloc(&place->device,
					cuda->scratch_at + cuda_program_scratch(&cuda->program)));
	if (error == 0)
		error = cuda_device_check(
			device, api->stream_create(&place->stream, CUDA_STREAM_NON_BLOCKING));
	if (error == 0)
		error = cuda_device_check(
			device, api->event_create(&place->event,
					cuda->backend.config.cuda_wait == GPU_OFFLOAD_WAIT_BLOCK
						? CUDA_EVENT_NO_TIMING | CUDA_EVENT_BLOCKING
						: CUDA_EVENT_NO_TIMING));
	return error;
}

void cuda_place_destroy(struct cuda_backend *cuda, struct cuda_place *place)
{
	const struct cuda_api *api = &cuda->device.api;
	for (int i = 0; i < 2 * CUDA_ROW_CLASSES; i++) {
		void *graph = place->graphs[i / CUDA_ROW_CLASSES][i % CUDA_ROW_CLASSES];
		if (graph != NULL)
			api->graph_exec_destroy(graph);
	}
	if (place->event != NULL)
		api->event_destroy(place->event);
	if (place->stream != NULL)
		api->stream_destroy(place->stream);
	if (place->device != 0 && !persistent(cuda))
		api->mem_free(place->device);
	if (place->host != NULL)
		api->host_free(place->host);
	*place = (struct cuda_place){ 0 };
}

static int copy_in(
	struct cuda_backend *cuda, struct cuda_place *place, const void *inputs, uint32_t count)
{
	size_t size = (size_t)count * cuda->backend.config.model->inputs * sizeof(float);
	return cuda_device_check(&cuda->device,
		cuda->device.api.copy_in_async(place->device, inputs, size, place->stream));
}

/* Copy rows in (inputs NULL: they are there), run, copy labels and scores out: on a stream, or into
 * a graph that records it. */
static int enqueue(struct cuda_backend *cuda, struct cuda_place *place, const void *inputs,
	uint32_t count, bool scores)
{
	struct cuda_device *device = &cuda->device;
	const struct cuda_api *api = &device->api;
	const struct gpu_offload_model *model = cuda->backend.config.model;
	const struct cuda_rows rows = {
		.inputs = place->device,
		.labels = place->device + cuda->labels_at,
		.scores = scores ? place->device + cuda->scores_at : 0,
		.rows = count,
	};
	int error = inputs != NULL ? copy_in(cuda, place, inputs, count) : 0;
	if (error == 0)
		error = cuda_program_launch(
			&cuda->program, &rows, place->device + cuda->scratch_at, place->stream);
	if (error == 0)
		error = cuda_device_check(
			device, api->copy_out_async(place->host + cuda->labels_at, rows.labels,
					count * sizeof(uint32_t), place->stream));
	if (error == 0 && scores)
		error = cuda_device_check(device,
			api->copy_out_async(place->host + cuda->scores_at, rows.scores,
				(size_t)count * model->classes * sizeof(float), place->stream));
	return error;
}

/* A graph for a power of two of rows, from the place's own memory. A graph reads from where it was
 * recorded, so rows that lie elsewhere (inputs NULL) are copied in before it is launched. */
static int make_graph(struct cuda_backend *cuda, struct cuda_place *place, const void *inputs,
	uint32_t rows, void **out)
{
	struct cuda_device *device = &cuda->device;
	const struct cuda_api *api = &device->api;
	void *graph = NULL;
	int error = cuda_device_check(
		device, api->stream_begin_capture(place->stream, CUDA_CAPTURE_THREAD_LOCAL));
	if (error != 0)
		return error;
	error = enqueue(cuda, place, inputs, rows, true);
	int ended = cuda_device_check(device, api->stream_end_capture(place->stream, &graph));
	if (error == 0)
		error = ended;
	if (error == 0)
		error = cuda_device_check(device, api->graph_instantiate(out, graph, 0));
	if (graph != NULL)
		api->graph_destroy(graph);
	return error;
}

static int start_graph(
	struct cuda_backend *cuda, struct cuda_place *place, const struct cuda_pinned *pinned)
{
	uint32_t count = place->batch->count, most = cuda->backend.config.rows_max;
	int class = count == 1 ? 0 : 32 - __builtin_clz(count - 1);
	uint32_t rows = 1u << class < most ? 1u << class : most;
	void **graph = &place->graphs[pinned != NULL][class];
	int error = 0;
	if (*graph == NULL)
		error = make_graph(cuda, place, pinned != NULL ? NULL : place->host, rows, graph);
	if (error == 0 && pinned != NULL)
		error = copy_in(cuda, place, place->batch->inputs, count);
	if (error == 0)
		error = cuda_device_check(
			&cuda->device, cuda->device.api.graph_launch(*graph, place->stream));
	return error;
}

static int start_ring(
	struct cuda_backend *cuda, struct cuda_place *place, const struct cuda_pinned *pinned)
{
	const unsigned char *inputs = (const unsigned char *)place->batch->inputs;
	struct cuda_slot *slot = &cuda->ring->slots[place - cuda->places];
	slot->rows = place->batch->count;
	slot->inputs = pinned != NULL ? pinned->device + (uint64_t)(inputs - pinned->memory)
				      : place->device;
	slot->labels = place->device + cuda->labels_at;
	slot->scores = place->batch->scores != NULL ? place->device + cuda->scores_at : 0;
	store_release(&slot->request, ++place->request);
	return 0;
}

int cuda_place_start(
	struct cuda_backend *cuda, struct cuda_place *place, const struct cuda_pinned *pinned)
{
	const struct gpu_offload_batch *batch = place->batch;
	int error;
	if (persistent(cuda))
		return start_ring(cuda, place, pinned);
	if (cuda->backend.config.cuda_mode == GPU_OFFLOAD_CUDA_GRAPH)
		error = start_graph(cuda, place, pinned);
	else
		error = enqueue(cuda, place,
			pinned != NULL ? (const void *)batch->inputs : place->host, batch->count,
			batch->scores != NULL);
	if (error == 0)
		error = cuda_device_check(
			&cuda->device, cuda->device.api.event_record(place->event, place->stream));
	return error;
}

/* The kernel that stays only ends when it is told to, or when the device fails. */
static int check_ring(struct cuda_backend *cuda, struct cuda_place *place)
{
	struct cuda_slot *slot = &cuda->ring->slots[place - cuda->places];
	bool done = true;
	for (uint32_t g = 0; g < cuda->groups; g++)
		done = done && load_acquire(&slot->done[g]) == place->request;
	if (done)
		return 1;
	int result = cuda->device.api.event_query(cuda->places[0].event);
	if (result == CUDA_NOT_READY)
		return 0;
	return result == CUDA_OK ? -EIO : cuda_device_check(&cuda->device, result);
}

int cuda_place_check(struct cuda_backend *cuda, struct cuda_place *place)
{
	if (persistent(cuda))
		return check_ring(cuda, place);
	int result = cuda->device.api.event_query(place->event);
	if (result == CUDA_NOT_READY)
		return 0;
	int error = cuda_device_check(&cuda->device, result);
	return error == 0 ? 1 : error;
}

/* ---- the kernel that stays ---------------------------------------------------------------- */

/* All its blocks must be on the device at once, one for a processor. */
static int choose_groups(struct cuda_backend *cuda, char text[], size_t size)
{
	uint32_t slots = cuda->backend.config.batches_max;
	uint32_t processors = (uint32_t)cuda->device.processors;
	if (!cuda->program.fused) {
		snprintf(text, size,
			"mode persistent: only for perceptrons that fit into shared memory");
		return -ENOTSUP;
	}
	if (slots > processors) {
		snprintf(text, size, "mode persistent: got %u batches in flight, expected 1 .. %u",
			slots, processors);
		return -ENOTSUP;
	}
	cuda->groups = processors / slots;
	if (cuda->groups > CUDA_GROUPS_MAX)
		cuda->groups = CUDA_GROUPS_MAX;
	return 0;
}

int cuda_ring_create(struct cuda_backend *cuda, char text[], size_t size)
{
	struct cuda_device *device = &cuda->device;
	const struct cuda_api *api = &device->api;
	struct cuda_place *first = &cuda->places[0];
	cuda_address address = 0;
	void *memory = NULL;
	int error = choose_groups(cuda, text, size);
	if (error != 0)
		return error;
	error = cuda_device_check(
		device, api->host_alloc(&memory, sizeof(*cuda->ring), CUDA_HOST_PORTABLE_MAPPED));
	if (error != 0)
		return error;
	cuda->ring = memory;
	memset(cuda->ring, 0, sizeof(*cuda->ring));
	error = cuda_device_check(device, api->host_address(&address, cuda->ring, 0));
	if (error == 0)
		error = cuda_device_check(
			device, api->stream_create(&first->stream, CUDA_STREAM_NON_BLOCKING));
	if (error == 0)
		error = cuda_device_check(
			device, api->event_create(&first->event, CUDA_EVENT_NO_TIMING));
	void *arguments[] = { &cuda->program.mlp, &address };
	if (error == 0)
		error = cuda_device_check(device,
			api->launch(device->persistent, cuda->groups,
				cuda->backend.config.batches_max, 1, CUDA_BLOCK, 1, 1,
				cuda->program.shared_bytes, first->stream, arguments, NULL));
	if (error == 0)
		error = cuda_device_check(device, api->event_record(first->event, first->stream));
	return error;
}

void cuda_ring_stop(struct cuda_backend *cuda)
{
	store_release(&cuda->ring->stop, 1);
}
