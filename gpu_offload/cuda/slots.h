/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: places for batches in flight on a device: pinned host memory, device
 * memory, a stream and an event each, or a slot of the persistent kernel's ring.
 */
#pragma once

#include "gpu_offload/backend_private.h"
#include "gpu_offload/cuda/program.h"
#include "gpu_offload/cuda/wait.h"

enum {
	CUDA_ROW_CLASSES = 17, /* powers of two up to GPU_OFFLOAD_ROWS_MAX */
	CUDA_PINNED_MAX = 4,   /* ranges of the caller's memory */
};

/* The caller's memory that the device reads. */
struct cuda_pinned {
	unsigned char *memory; /* NULL: free */
	size_t size;
	cuda_address device;
};

struct cuda_place {
	struct gpu_offload_batch *batch; /* NULL: free */
	uint64_t since_ns;
	uint32_t request;
	unsigned char *host; /* pinned: inputs, labels, scores */
	cuda_address device; /* the same in device memory, then scratch */
	void *stream, *event;
	/* By where inputs come from (0: the host, 1: copied before) and by the rows' power
	 * of two; NULL: not made yet. */
	void *graphs[2][CUDA_ROW_CLASSES];
};

struct cuda_backend {
	struct gpu_offload_backend backend;
	struct cuda_device device;
	struct cuda_program program;
	struct cuda_place places[GPU_OFFLOAD_BATCHES_MAX];
	struct cuda_pinned pinned[CUDA_PINNED_MAX];
	struct cuda_waiter *waiter; /* of GPU_OFFLOAD_WAIT_BLOCK with events */
	struct backend_done done;   /* given back without having run */
	uint32_t in_flight;         /* done included */
	size_t labels_at, scores_at, place_bytes, scratch_at;
	struct cuda_ring *ring; /* of the persistent kernel */
	uint32_t groups;
	int lost; /* 0, or what every batch gets from now on */
};

/* Everything for one place; on failure what was made stays for cuda_place_destroy. */
int cuda_place_create(struct cuda_backend *cuda, struct cuda_place *place);
void cuda_place_destroy(struct cuda_backend *cuda, struct cuda_place *place);
/* Hand a place's batch to the device; its inputs lie in `pinned`, or, NULL, in the place's. */
int cuda_place_start(
	struct cuda_backend *cuda, struct cuda_place *place, const struct cuda_pinned *pinned);
/* 1: done, 0: not yet, -errno. */
int cuda_place_check(struct cuda_backend *cuda, struct cuda_place *place);

/* The kernel that stays: start it, tell it to stop. */
int cuda_ring_create(struct cuda_backend *cuda, char text[], size_t size);
void cuda_ring_stop(struct cuda_backend *cuda);
