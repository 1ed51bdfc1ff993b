/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the test double of libcuda: what lies on its streams, and its memory. */
#pragma once

#include "tests/support/cuda_kernels.h"
#include "tests/support/mock_cuda.h"

#include <pthread.h>
#include <stddef.h>

extern struct mock_cuda_control mock_control;

/* Of the driver. */
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_READY = 600, ILLEGAL = 700 };

/* Whether this function was told to fail, and with what. */
bool mock_failing(const char *function, int *result);
/* A thread that waits for events calls beside the one that owns them. */
int mock_lock(void);
void mock_unlock(const int *unused);
/* For a function's first line: what it was told to fail with. */
#define MAY_FAIL()                                                                                 \
	__attribute__((cleanup(mock_unlock))) int failure = mock_lock();                           \
	if (mock_failing(__func__, &failure))                                                      \
	return failure

enum op_kind { OP_IN, OP_OUT, OP_LAUNCH, OP_EVENT, OP_GRAPH };

struct event {
	uint64_t number;
	uint32_t queries;
	bool recorded, complete;
	struct stream *stream;
	size_t position;
};

struct op {
	enum op_kind kind;
	union {
		struct {
			uint64_t device;
			void *host;
			size_t size;
		} copy;
		struct kernel_launch launch;
		struct event *event;
		struct graph *graph;
	};
};

struct graph {
	struct op *ops;
	size_t count;
};

struct stream {
	struct graph queue; /* what was put on it */
	size_t executed;
	bool capturing;
	struct graph captured;
	pthread_t thread; /* of the kernel that stays */
	bool has_thread;
	struct kernel_launch stays;
	_Atomic bool thread_ended;
	int error;
};

/* A batch is about to be done: whether the device does not hang instead. */
bool mock_goes_on(void);
void mock_memory_map(void);
/* Put an entry on a stream, or into the graph that records it. */
int mock_push(struct stream *stream, const struct op *op);
void mock_graph_push(struct graph *graph, const struct op *op);
/* What one entry of a stream does. */
void mock_execute(const struct op *op);
/* All of a launch, by plain C or by the kernels themselves. */
void mock_launch(const struct kernel_launch *launch);
/* The thread of a kernel that stays; its argument is the stream. */
void *mock_persistent(void *stream);
