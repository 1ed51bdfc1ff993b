/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: ways for the host to wait. To sleep until an event, a thread of the
 * driver's blocking call stands aside: a device that hangs keeps that thread, not its owner, who
 * waits for a bounded time only.
 */
#pragma once

#include "gpu_offload/cuda/program.h"

enum {
	CUDA_WAIT_MS = 20,    /* the longest that a call sleeps */
	CUDA_LOOK_NS = 20000, /* between looks at the ring of the kernel that stays */
};

struct cuda_waiter;

/* -ENOMEM, -EAGAIN, -EMFILE and the like. device outlives it. */
int cuda_waiter_create(struct cuda_waiter **out, const struct cuda_device *device);
/* at_rest: every event that was waited for has happened; else the thread is left to itself. */
void cuda_waiter_destroy(struct cuda_waiter *waiter, bool at_rest);
/* Sleep until the event, or one that was waited for before, has happened; at most CUDA_WAIT_MS. */
void cuda_waiter_sleep(struct cuda_waiter *waiter, void *event);
/* Sleep for CUDA_LOOK_NS. */
void cuda_wait_look(void);
/* Let other threads of this core run. */
void cuda_wait_yield(void);
