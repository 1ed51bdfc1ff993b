/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the test double of libcuda: what lies on its streams, and its memory. */
#pragma once

#include "tests/support/mock_cuda.h"

#include <pthread.h>
#include <stddef.h>

/* What a kernel may follow: device memory, or pinned host memory. */
void *mock_at(uint64_t address);
#define CUDA_AT(type, address) ((type *)mock_at(address))
#include "gpu_offload/cuda/device.h"

extern struct mock_cuda_control mock_control;

/* Of the driver. */
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_READY = 600, ILLEGAL = 700 };

/* Whether this function was told to fail, and with what. */
bool mock_failing(const char *function, int *result);
/* For a function's first line: what it was told to fail with. */
#define MAY_FAIL()                                                                                 \
	do {                                                                                       \
		int failure;                                                                       \
		if (mock_failing(__func__, &failure))                                              \
			return failure;                                                            \
	} while (0)

struct layer_arguments {
	struct cuda_layer layer;
	uint64_t x, second, y;
	uint32_t rows;
};

struct label_arguments {
	uint64_t scores, labels;
	uint32_t classes, rows;
};

enum op_kind { OP_IN, OP_OUT, OP_MLP, OP_LAYER, OP_LABEL, OP_PERSISTENT, OP_EVENT, OP_GRAPH };

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
		struct {
			struct cuda_mlp mlp;
			struct cuda_rows rows;
		} mlp;
		struct layer_arguments layer;
		struct label_arguments label;
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
	struct cuda_mlp mlp;
	struct cuda_ring *ring;
	uint32_t groups, slots;
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
/* The thread of a kernel that stays; its argument is the stream. */
void *mock_persistent(void *stream);
