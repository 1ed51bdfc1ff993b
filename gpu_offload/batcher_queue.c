/* SPDX-License-Identifier: BSD-2-Clause */
/* The batcher's queue, and its life. */
#include "base/compiler.h"
#include "gpu_offload/batcher_private.h"

#include <errno.h>
#include <string.h>

/* ---- a heap by (deadline, arrival) ---------------------------------------------------------- */

static bool is_before(const struct gpu_offload_queue *queue, uint32_t a, uint32_t b)
{
	const struct gpu_offload_waiting *x = &queue->slots[a], *y = &queue->slots[b];
	if (x->deadline_ns != y->deadline_ns)
		return x->deadline_ns < y->deadline_ns;
	return x->number < y->number;
}

static void put(struct gpu_offload_queue *queue, uint32_t place, uint32_t slot)
{
	queue->heap[place] = slot;
	queue->slots[slot].place = place;
}

static void rise(struct gpu_offload_queue *queue, uint32_t place)
{
	uint32_t slot = queue->heap[place];
	while (place > 0 && is_before(queue, slot, queue->heap[(place - 1) / 2])) {
		put(queue, place, queue->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put(queue, place, slot);
}

static void sink(struct gpu_offload_queue *queue, uint32_t place)
{
	uint32_t slot = queue->heap[place];
	for (uint32_t child; (child = 2 * place + 1) < queue->count; place = child) {
		if (child + 1 < queue->count &&
			is_before(queue, queue->heap[child + 1], queue->heap[child]))
			child++;
		if (!is_before(queue, queue->heap[child], slot))
			break;
		put(queue, place, queue->heap[child]);
	}
	put(queue, place, slot);
}

/* ---- rows ----------------------------------------------------------------------------------- */

void gpu_offload_queue_add(struct gpu_offload_queue *queue,
	const struct gpu_offload_waiting *waiting, const float *values)
{
	uint32_t index = queue->free;
	BASE_ASSERT(index != GPU_OFFLOAD_NO_SLOT);
	struct gpu_offload_waiting *slot = &queue->slots[index];
	queue->free = slot->newer;
	*slot = *waiting;
	slot->slot = index;
	slot->number = queue->next_number++;
	slot->older = queue->newest;
	slot->newer = GPU_OFFLOAD_NO_SLOT;
	if (queue->newest == GPU_OFFLOAD_NO_SLOT)
		queue->oldest = index;
	else
		queue->slots[queue->newest].newer = index;
	queue->newest = index;
	memcpy(queue->values + (size_t)index * queue->inputs, values,
		queue->inputs * sizeof(*values));
	put(queue, queue->count++, index);
	rise(queue, queue->count - 1);
}

void gpu_offload_queue_remove(
	struct gpu_offload_queue *queue, const struct gpu_offload_waiting *row)
{
	struct gpu_offload_waiting *slot = &queue->slots[row->slot];
	if (slot->older == GPU_OFFLOAD_NO_SLOT)
		queue->oldest = slot->newer;
	else
		queue->slots[slot->older].newer = slot->newer;
	if (slot->newer == GPU_OFFLOAD_NO_SLOT)
		queue->newest = slot->older;
	else
		queue->slots[slot->newer].older = slot->older;
	uint32_t place = slot->place, last = queue->heap[--queue->count];
	if (place < queue->count) {
		put(queue, place, last);
		rise(queue, place);
		sink(queue, queue->slots[last].place);
	}
	slot->newer = queue->free;
	queue->free = slot->slot;
}

/* ---- life ----------------------------------------------------------------------------------- */

int gpu_offload_queue_create(struct gpu_offload_queue *queue, uint32_t slots_count, uint32_t inputs,
	struct base_arena *arena)
{
	queue->inputs = inputs;
	queue->slots_count = slots_count;
	queue->oldest = queue->newest = GPU_OFFLOAD_NO_SLOT;
	queue->slots =
		base_arena_alloc(arena, slots_count * sizeof(*queue->slots), BASE_CACHE_LINE);
	queue->heap = base_arena_alloc(arena, slots_count * sizeof(*queue->heap), BASE_CACHE_LINE);
	queue->values = base_arena_alloc(
		arena, (size_t)slots_count * inputs * sizeof(float), BASE_CACHE_LINE);
	if (queue->slots == NULL || queue->heap == NULL || queue->values == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < slots_count; i++)
		queue->slots[i].newer = i + 1 < slots_count ? i + 1 : GPU_OFFLOAD_NO_SLOT;
	return 0;
}

void gpu_offload_queue_destroy(struct gpu_offload_queue *queue, struct base_arena *arena)
{
	uint32_t count = queue->slots_count;
	base_arena_free(arena, queue->slots, count * sizeof(*queue->slots));
	base_arena_free(arena, queue->heap, count * sizeof(*queue->heap));
	base_arena_free(arena, queue->values, (size_t)count * queue->inputs * sizeof(float));
}

static int create_flight(
	struct gpu_offload_flight *flight, const struct gpu_offload_batcher_config *config)
{
	size_t rows = config->batch_max;
	flight->rows =
		base_arena_alloc(config->arena, rows * sizeof(*flight->rows), BASE_CACHE_LINE);
	flight->labels =
		base_arena_alloc(config->arena, rows * sizeof(*flight->labels), BASE_CACHE_LINE);
	return flight->rows == NULL || flight->labels == NULL ? -ENOMEM : 0;
}

static void destroy_flight(
	struct gpu_offload_flight *flight, const struct gpu_offload_batcher_config *config)
{
	size_t rows = config->batch_max;
	base_arena_free(config->arena, flight->rows, rows * sizeof(*flight->rows));
	base_arena_free(config->arena, flight->labels, rows * sizeof(*flight->labels));
}

static bool check_config(const struct gpu_offload_batcher_config *config)
{
	uint32_t last = 0;
	for (uint32_t i = 0; i < config->preferred_count && i < GPU_OFFLOAD_PREFERRED_MAX; i++) {
		if (config->preferred[i] <= last || config->preferred[i] > config->batch_max)
			return false;
		last = config->preferred[i];
	}
	return config->inputs >= 1 && config->inputs <= GPU_OFFLOAD_INPUTS_MAX &&
	       config->batch_max >= 1 && config->batch_max <= GPU_OFFLOAD_ROWS_MAX &&
	       config->batches_max >= 1 && config->batches_max <= GPU_OFFLOAD_BATCHES_MAX &&
	       config->queue_max >= config->batch_max &&
	       config->queue_max <= GPU_OFFLOAD_QUEUE_MAX &&
	       config->preferred_count <= GPU_OFFLOAD_PREFERRED_MAX &&
	       (unsigned int)config->full < GPU_OFFLOAD_FULL_COUNT && config->arena != NULL &&
	       config->submit != NULL && config->poll != NULL && config->answer != NULL &&
	       (config->full != GPU_OFFLOAD_FULL_CPU || config->classify != NULL);
}

int gpu_offload_batcher_create(
	struct gpu_offload_batcher **out, const struct gpu_offload_batcher_config *config)
{
	if (!check_config(config))
		return -EINVAL;
	struct gpu_offload_batcher *batcher =
		base_arena_alloc(config->arena, sizeof(*batcher), BASE_CACHE_LINE);
	if (batcher == NULL)
		return -ENOMEM;
	batcher->config = *config;
	if (config->limit_step == 0)
		batcher->config.limit_step = config->batch_max > 32 ? config->batch_max / 32 : 1;
	batcher->limit = config->batch_max;
	batcher->service_ns =
		config->service_ns == GPU_OFFLOAD_SERVICE_REAL ? 0 : config->service_ns;
	base_histogram_reset(&batcher->stats.delay_ns);
	int error = gpu_offload_queue_create(
		&batcher->queue, config->queue_max, config->inputs, config->arena);
	batcher->flights = base_arena_alloc(
		config->arena, config->batches_max * sizeof(*batcher->flights), BASE_CACHE_LINE);
	if (batcher->flights == NULL)
		error = -ENOMEM;
	/* One mapping, so that a device can be told of it as a whole. */
	batcher->flight_bytes = (size_t)config->batch_max * config->inputs * sizeof(float);
	batcher->flight_bytes += -batcher->flight_bytes % GPU_OFFLOAD_INPUT_ALIGNMENT;
	batcher->inputs =
		base_arena_map(config->arena, config->batches_max * batcher->flight_bytes);
	if (batcher->inputs == NULL)
		error = -ENOMEM;
	for (uint32_t i = 0; i < config->batches_max && error == 0; i++) {
		batcher->flights[i].inputs =
			(float *)(void *)(batcher->inputs + i * batcher->flight_bytes);
		error = create_flight(&batcher->flights[i], config);
	}
	if (error != 0) {
		gpu_offload_batcher_destroy(batcher);
		return error;
	}
	*out = batcher;
	return 0;
}

void gpu_offload_batcher_destroy(struct gpu_offload_batcher *batcher)
{
	if (batcher == NULL)
		return;
	struct gpu_offload_batcher_config *config = &batcher->config;
	struct base_arena *arena = config->arena;
	for (uint32_t i = 0; i < config->batches_max && batcher->flights != NULL; i++)
		destroy_flight(&batcher->flights[i], config);
	base_arena_unmap(arena, batcher->inputs, config->batches_max * batcher->flight_bytes);
	base_arena_free(arena, batcher->flights, config->batches_max * sizeof(*batcher->flights));
	gpu_offload_queue_destroy(&batcher->queue, arena);
	base_arena_free(arena, batcher, sizeof(*batcher));
}

static int submit_backend(void *server, struct gpu_offload_batch *batch)
{
	return gpu_offload_backend_submit(server, batch);
}

static uint32_t poll_backend(void *server, struct gpu_offload_batch *done[], uint32_t max)
{
	return gpu_offload_backend_poll(server, done, max);
}

static void wait_backend(void *server)
{
	gpu_offload_backend_wait(server);
}

void *gpu_offload_batcher_inputs(const struct gpu_offload_batcher *batcher, size_t *size)
{
	*size = batcher->config.batches_max * batcher->flight_bytes;
	return batcher->inputs;
}

void gpu_offload_batcher_use(
	struct gpu_offload_batcher_config *config, struct gpu_offload_backend *backend)
{
	config->submit = submit_backend;
	config->poll = poll_backend;
	config->wait = wait_backend;
	config->server = backend;
}
