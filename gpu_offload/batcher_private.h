/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to batcher*.c: the queue of rows, and batches in flight. */
#pragma once

#include "gpu_offload/batcher.h"

#include <stdbool.h>

/* A row that waits. slot: where its numbers are, and its place in the queue's arrays. */
struct gpu_offload_waiting {
	struct gpu_offload_ticket ticket;
	uint64_t asked_ns, deadline_ns;
	uint64_t number; /* of arrival */
	uint32_t slot, place;
	uint32_t older, newer; /* slots, or GPU_OFFLOAD_NO_SLOT */
};
#define GPU_OFFLOAD_NO_SLOT UINT32_MAX

/* A binary heap of slots by (deadline, arrival), and a list of them by arrival. */
struct gpu_offload_queue {
	uint32_t count, slots_count;
	uint32_t inputs;
	uint32_t free; /* list through `newer` */
	uint32_t oldest, newest;
	uint64_t next_number;
	struct gpu_offload_waiting *slots;
	uint32_t *heap;
	float *values;
};

enum gpu_offload_flight_phase {
	GPU_OFFLOAD_FLIGHT_FREE,
	GPU_OFFLOAD_FLIGHT_OUT,  /* with the back end */
	GPU_OFFLOAD_FLIGHT_DONE, /* back, its answers are not due yet */
};

struct gpu_offload_flight {
	enum gpu_offload_flight_phase phase;
	uint64_t number, left_ns, due_ns;
	struct gpu_offload_batch batch;
	struct gpu_offload_waiting *rows;
	float *inputs;
	uint32_t *labels;
};

struct gpu_offload_batcher {
	struct gpu_offload_batcher_config config;
	uint64_t now_ns;
	uint64_t service_ns; /* what a batch takes, as far as is known */
	uint32_t limit, in_flight;
	uint64_t next_number;
	struct gpu_offload_queue queue;
	struct gpu_offload_flight *flights;
	unsigned char *inputs; /* of all flights */
	size_t flight_bytes;   /* of each */
	struct gpu_offload_batcher_stats stats;
};

/* -ENOMEM: release is due all the same. */
int gpu_offload_queue_create(struct gpu_offload_queue *queue, uint32_t slots_count, uint32_t inputs,
	struct base_arena *arena);
void gpu_offload_queue_destroy(struct gpu_offload_queue *queue, struct base_arena *arena);

/* There is room. slot, place, links and number of `waiting` are set here. */
void gpu_offload_queue_add(struct gpu_offload_queue *queue,
	const struct gpu_offload_waiting *waiting, const float *values);
/* `row` is one of the queue's. */
void gpu_offload_queue_remove(
	struct gpu_offload_queue *queue, const struct gpu_offload_waiting *row);

/* The next to leave, the one that has waited longest; the queue is not empty. */
static inline const struct gpu_offload_waiting *gpu_offload_queue_first(
	const struct gpu_offload_queue *queue)
{
	return &queue->slots[queue->heap[0]];
}

static inline const struct gpu_offload_waiting *gpu_offload_queue_oldest(
	const struct gpu_offload_queue *queue)
{
	return &queue->slots[queue->oldest];
}

static inline const float *gpu_offload_queue_row(
	const struct gpu_offload_queue *queue, const struct gpu_offload_waiting *row)
{
	return queue->values + (size_t)row->slot * queue->inputs;
}
