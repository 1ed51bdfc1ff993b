/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/mock_cuda_private.h"

#include "base/rng.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- state -------------------------------------------------------------------------------- */

struct mock_cuda_control mock_control = {
	.version = 13000, .devices = 1, .processors = 132, .shared_bytes = 232448
};
static struct base_rng rng;
static uint64_t events_recorded, last_completed;
static int shared_allowed[KERNELS];
enum { SHARED_UNASKED = 49152 }; /* bytes that a launch gets without asking before */
static void *objects[4096]; /* what is abandoned with a device that hangs is still known here */

static void *keep(void *object)
{
	size_t at = 0;
	while (at + 1 < sizeof(objects) / sizeof(objects[0]) && objects[at] != NULL)
		at++;
	objects[at] = object;
	return object;
}

static void let_go(void *object)
{
	for (size_t at = 0; at < sizeof(objects) / sizeof(objects[0]); at++) {
		if (objects[at] == object)
			objects[at] = NULL;
	}
	free(object);
}

/* Called by the tests. */
struct mock_cuda_control *mock_cuda_control(void)
{
	base_rng_seed(&rng, mock_control.seed);
	return &mock_control;
}

/* Its presence says what this is. */
const int sheaf_cuda_is_a_test_double = 1;

static pthread_mutex_t big_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int mock_lock(void)
{
	pthread_mutex_lock(&big_lock);
	return OK;
}

void mock_unlock(const int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&big_lock);
}

bool mock_failing(const char *function, int *result)
{
	if (mock_control.fail_function == NULL || strcmp(mock_control.fail_function, function) != 0)
		return false;
	if (mock_control.fail_after > 0) {
		mock_control.fail_after--;
		return false;
	}
	*result = mock_control.fail_result;
	return true;
}

static void read_environment(void)
{
	static char function[64];
	const char *fail = getenv("MOCK_CUDA_FAIL");
	unsigned int after;
	int result;
	if (fail != NULL && sscanf(fail, "%63[^:]:%u:%d", function, &after, &result) == 3) {
		mock_control.fail_function = function;
		mock_control.fail_after = after;
		mock_control.fail_result = result;
	}
	mock_control.wrong |= getenv("MOCK_CUDA_WRONG") != NULL;
	const char *hang = getenv("MOCK_CUDA_HANG"), *version = getenv("MOCK_CUDA_VERSION");
	if (hang != NULL)
		mock_control.hang_after = (uint32_t)strtoul(hang, NULL, 10) + 1;
	if (version != NULL)
		mock_control.version = (int)strtol(version, NULL, 10);
}

int mock_push(struct stream *stream, const struct op *op)
{
	mock_graph_push(stream->capturing ? &stream->captured : &stream->queue, op);
	return OK;
}

/* ---- the driver's functions --------------------------------------------------------------- */

int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	read_environment();
	MAY_FAIL();
	mock_memory_map();
	if (mock_control.devices == 0)
		return NO_DEVICE;
	return flags == 0 ? OK : INVALID;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
	MAY_FAIL();
	*version = mock_control.version;
	return OK;
}

int cuGetErrorName(int error, const char **name);
int cuGetErrorName(int error, const char **name)
{
	*name = error == NO_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
		: error == INVALID   ? "CUDA_ERROR_INVALID_VALUE"
		: error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
		: error == 209       ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
		: error == 719       ? "CUDA_ERROR_LAUNCH_FAILED"
		: error == ILLEGAL   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
				     : NULL;
	return *name != NULL ? OK : INVALID;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
	MAY_FAIL();
	*count = mock_control.devices;
	return OK;
}

int cuDeviceGet(int *device, int index);
int cuDeviceGet(int *device, int index)
{
	MAY_FAIL();
	*device = index;
	return OK;
}

int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device)
{
	MAY_FAIL();
	snprintf(name, (size_t)size, "no GPU %d", device);
	return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	MAY_FAIL();
	(void)device;
	*value = attribute == 16   ? mock_control.processors
		 : attribute == 97 ? mock_control.shared_bytes
				   : 9;
	return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	MAY_FAIL();
	(void)device;
	*bytes = (size_t)1 << 36;
	return OK;
}

int cuDeviceGetPCIBusId(char *text, int size, int device);
int cuDeviceGetPCIBusId(char *text, int size, int device)
{
	MAY_FAIL();
	snprintf(text, (size_t)size, "0000:%02x:00.0", device);
	return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device)
{
	MAY_FAIL();
	(void)device;
	*context = &mock_control;
	mock_control.live_contexts++;
	return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	mock_control.live_contexts--;
	return OK;
}

int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context)
{
	MAY_FAIL();
	return context == &mock_control ? OK : INVALID;
}

int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image)
{
	MAY_FAIL();
	if (image == NULL)
		return INVALID;
	mock_control.live_modules++;
	*module = &mock_control;
	return OK;
}

int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
	(void)module;
	mock_control.live_modules--;
	return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name)
{
	static const char *const names[KERNELS] = { "sheaf_mlp", "sheaf_layer", "sheaf_label",
		"sheaf_persistent", "sheaf_product" };
	MAY_FAIL();
	(void)module;
	for (int i = 0; i < KERNELS; i++) {
		if (strcmp(name, names[i]) == 0) {
			*function = &shared_allowed[i];
			return OK;
		}
	}
	return 500;
}

int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value)
{
	MAY_FAIL();
	*(int *)function = value;
	return attribute == 8 && value <= mock_control.shared_bytes ? OK : INVALID;
}

int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamCreate(void **stream, unsigned int flags)
{
	MAY_FAIL();
	if (flags != 1)
		return INVALID; /* the legacy default stream would wait for the kernel that stays */
	*stream = keep(calloc(1, sizeof(struct stream)));
	mock_control.live_streams++;
	return OK;
}

int cuStreamDestroy_v2(void *handle);
int cuStreamDestroy_v2(void *handle)
{
	struct stream *stream = handle;
	if (stream->has_thread)
		pthread_join(stream->thread, NULL);
	free(stream->queue.ops);
	free(stream->captured.ops);
	let_go(stream);
	mock_control.live_streams--;
	return OK;
}

int cuStreamBeginCapture_v2(void *handle, int mode);
int cuStreamBeginCapture_v2(void *handle, int mode)
{
	struct stream *stream = handle;
	MAY_FAIL();
	if (stream->capturing || mode != 1)
		return INVALID;
	stream->capturing = true;
	free(stream->captured.ops);
	stream->captured = (struct graph){ 0 };
	return OK;
}

int cuStreamEndCapture(void *handle, void **graph);
int cuStreamEndCapture(void *handle, void **graph)
{
	struct stream *stream = handle;
	stream->capturing = false; /* whatever comes of it */
	MAY_FAIL();
	struct graph *made = keep(malloc(sizeof(*made)));
	*made = stream->captured;
	stream->captured = (struct graph){ 0 };
	*graph = made;
	mock_control.live_graphs++;
	return OK;
}

int cuGraphDestroy(void *graph);
int cuGraphDestroy(void *graph)
{
	free(((struct graph *)graph)->ops);
	let_go(graph);
	mock_control.live_graphs--;
	return OK;
}

#ifndef MOCK_CUDA_OLD
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags)
{
	const struct graph *from = graph;
	MAY_FAIL();
	if (flags != 0)
		return INVALID;
	struct graph *made = keep(calloc(1, sizeof(*made)));
	for (size_t i = 0; i < from->count; i++)
		mock_graph_push(made, &from->ops[i]);
	*executable = made;
	mock_control.live_graphs++;
	return OK;
}
#endif

int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable)
{
	return cuGraphDestroy(executable);
}

int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream)
{
	MAY_FAIL();
	const struct op op = { .kind = OP_GRAPH, .graph = executable };
	mock_control.graph_launches++;
	return mock_push(stream, &op);
}

int cuEventCreate(void **event, unsigned int flags);
int cuEventCreate(void **event, unsigned int flags)
{
	MAY_FAIL();
	if ((flags & ~1u) != 2)
		return INVALID;
	*event = keep(calloc(1, sizeof(struct event)));
	mock_control.live_events++;
	return OK;
}

int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event)
{
	let_go(event);
	mock_control.live_events--;
	return OK;
}

int cuEventRecord(void *handle, void *stream);
int cuEventRecord(void *handle, void *stream)
{
	MAY_FAIL();
	struct event *event = handle;
	const struct op op = { .kind = OP_EVENT, .event = event };
	*event = (struct event){
		.number = ++events_recorded,
		.queries = mock_control.delay_max == 0
				   ? 0
				   : (uint32_t)base_rng_below(&rng, mock_control.delay_max + 1),
		.recorded = true,
		.stream = stream,
	};
	mock_push(stream, &op);
	event->position = event->stream->queue.count;
	return OK;
}

int cuEventQuery(void *handle);
int cuEventQuery(void *handle)
{
	struct event *event = handle;
	MAY_FAIL();
	if (!event->recorded || event->complete)
		return OK;
	struct stream *stream = event->stream;
	if (stream->has_thread)
		return atomic_load(&stream->thread_ended) ? OK : NOT_READY;
	if (event->queries > 0) {
		event->queries--;
		return NOT_READY;
	}
	if (!mock_goes_on())
		return NOT_READY;
	while (stream->executed < event->position)
		mock_execute(&stream->queue.ops[stream->executed++]);
	event->complete = true;
	mock_control.reordered += event->number < last_completed;
	last_completed = event->number;
	return OK;
}

int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event)
{
	int result, unused = mock_lock();
	bool fails = mock_failing(__func__, &result);
	mock_unlock(&unused);
	while (!fails && (result = cuEventQuery(event)) == NOT_READY)
		usleep(50);
	return result;
}

static int start_persistent(struct stream *stream, const struct kernel_launch *launch)
{
	stream->stays = *launch;
	stream->thread_ended = false;
	stream->has_thread = true;
	return pthread_create(&stream->thread, NULL, mock_persistent, stream) == 0 ? OK : INVALID;
}

static void take_arguments(enum kernel kernel, struct kernel_arguments *to, void **from)
{
	switch (kernel) {
	case KERNEL_MLP:
		to->mlp = *(struct cuda_mlp *)from[0];
		to->rows = *(struct cuda_rows *)from[1];
		break;
	case KERNEL_LAYER:
	case KERNEL_PRODUCT:
		to->layer = *(struct cuda_layer *)from[0];
		to->x = *(uint64_t *)from[1];
		to->second = *(uint64_t *)from[2];
		to->y = *(uint64_t *)from[3];
		to->count = *(uint32_t *)from[4];
		break;
	case KERNEL_LABEL:
		to->x = *(uint64_t *)from[0];
		to->y = *(uint64_t *)from[1];
		to->classes = *(uint32_t *)from[2];
		to->count = *(uint32_t *)from[3];
		break;
	default:
		to->mlp = *(struct cuda_mlp *)from[0];
		to->x = *(uint64_t *)from[1];
		break;
	}
}

int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	void *stream, void **arguments, void **extra);
int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	void *stream, void **arguments, void **extra)
{
	MAY_FAIL();
	struct op op = { .kind = OP_LAUNCH };
	if (grid_x == 0 || grid_y == 0 || grid_z != 1 || block_x != CUDA_BLOCK || block_y != 1 ||
		block_z != 1 || extra != NULL ||
		(shared > SHARED_UNASKED && (int)shared > *(int *)function))
		return INVALID;
	mock_control.launches++;
	op.launch = (struct kernel_launch){
		.kernel = (enum kernel)((int *)function - shared_allowed),
		.grid_x = grid_x,
		.grid_y = grid_y,
		.threads = block_x,
		.shared_bytes = shared,
	};
	take_arguments(op.launch.kernel, &op.launch.arguments, arguments);
	if (op.launch.kernel != KERNEL_PERSISTENT)
		return mock_push(stream, &op);
	/* All blocks must be there at once. */
	return grid_x * grid_y > (unsigned int)mock_control.processors
		       ? INVALID
		       : start_persistent(stream, &op.launch);
}
