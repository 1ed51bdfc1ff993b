/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: the driver's functions that are used, found with dlopen when a back end
 * is made, so that one program runs with and without a GPU. Types and numbers are those of the
 * driver's binary interface (cuda.h), named here so that no CUDA header is needed to build.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t cuda_address; /* CUdeviceptr */

enum cuda_result {
	CUDA_OK = 0,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NO_DEVICE = 100,
	CUDA_NO_BINARY = 209,
	CUDA_NOT_READY = 600,
};

enum {
	CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
	CUDA_ATTRIBUTE_PROCESSORS = 16,
	CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
	CUDA_ATTRIBUTE_BUS_BITS = 37,
	CUDA_ATTRIBUTE_L2_BYTES = 38,
	CUDA_ATTRIBUTE_COPY_ENGINES = 40,
	CUDA_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CUDA_ATTRIBUTE_MAJOR = 75,
	CUDA_ATTRIBUTE_MINOR = 76,
	CUDA_ATTRIBUTE_SHARED_OPTIN = 97,
	CUDA_ATTRIBUTE_RDMA = 116,
	CUDA_ATTRIBUTE_RDMA_FLUSH = 117,
	CUDA_ATTRIBUTE_RDMA_ORDERING = 118,
	CUDA_ATTRIBUTE_DMA_BUF = 124,
	CUDA_HANDLE_DMA_BUF_FD = 1, /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
	CUDA_FUNCTION_SHARED = 8,   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
	CUDA_STREAM_NON_BLOCKING =
		1,               /* the legacy default stream would wait for a kernel that stays */
	CUDA_EVENT_BLOCKING = 1, /* who waits for it sleeps */
	CUDA_EVENT_NO_TIMING = 2,
	CUDA_HOST_PORTABLE_MAPPED = 3, /* of allocated and of registered memory */
	CUDA_CAPTURE_THREAD_LOCAL = 1,
	CUDA_DRIVER_MIN = 12000, /* as cuDriverGetVersion counts: 12.0 */
};

struct cuda_api {
	void *library;
	bool is_double; /* a test double, which says so */
	int (*init)(unsigned int flags);
	int (*version)(int *version);
	int (*error_name)(int error, const char **name);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int index);
	int (*device_name)(char *name, int size, int device);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*device_memory)(size_t *bytes, int device);
	int (*device_pci)(char *text, int size, int device);
	int (*context_retain)(void **context, int device);
	int (*context_release)(int device);
	int (*context_set)(void *context);
	int (*module_load)(void **module, const void *image);
	int (*module_unload)(void *module);
	int (*module_function)(void **function, void *module, const char *name);
	int (*function_attribute)(void *function, int attribute, int value);
	int (*mem_alloc)(cuda_address *address, size_t size);
	int (*mem_free)(cuda_address address);
	int (*host_alloc)(void **memory, size_t size, unsigned int flags);
	int (*host_free)(void *memory);
	int (*host_register)(void *memory, size_t size, unsigned int flags);
	int (*host_unregister)(void *memory);
	int (*host_address)(cuda_address *address, void *memory, unsigned int flags);
	int (*handle_for_range)(void *handle, cuda_address address, size_t size, int type,
		unsigned long long flags);
	int (*copy_in)(cuda_address to, const void *from, size_t size);
	int (*copy_in_async)(cuda_address to, const void *from, size_t size, void *stream);
	int (*copy_out_async)(void *to, cuda_address from, size_t size, void *stream);
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_destroy)(void *stream);
	int (*stream_begin_capture)(void *stream, int mode);
	int (*stream_end_capture)(void *stream, void **graph);
	int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
	int (*graph_launch)(void *executable, void *stream);
	int (*graph_exec_destroy)(void *executable);
	int (*graph_destroy)(void *graph);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_destroy)(void *event);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_synchronize)(void *event);
	int (*launch)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
		unsigned int block_x, unsigned int block_y, unsigned int block_z,
		unsigned int shared_bytes, void *stream, void **arguments, void **extra);
};

/* path NULL: libcuda.so.1. -ENOENT: no such library; -ENOSYS: it lacks a function, which text
 * names. */
int cuda_api_load(struct cuda_api *api, const char *path, char text[], size_t size);
void cuda_api_close(struct cuda_api *api);
/* The driver's name of an error, "CUDA_ERROR_OUT_OF_MEMORY". */
const char *cuda_api_error(const struct cuda_api *api, int error);
