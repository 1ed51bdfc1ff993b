/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads of one pass: one per worker, pinned to the CPUs that the process may use, in turn.
 * Workers are set up one after the other, start together, and are joined before this returns.
 */
#pragma once

#include "pipeline/worker.h"

/* All workers share one worker_shared. tick is called about ten times a second from the calling
 * thread. 0 when all threads ran, whatever became of their workers (worker->error); -errno with
 * message (PIPELINE_MESSAGE_SIZE) when one could not be started: then none has run. */
int worker_threads_run(struct worker *workers, uint32_t count, void (*tick)(void *context),
	void *tick_context, char *message);

/* Pin the calling thread to the index-th CPU that the process may use, in turn. */
void worker_threads_pin(unsigned int index);
