/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cuda/api.h"

#include "base/compiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Where the address of a function of the driver goes. The names are those that cuda.h's macros
 * resolve to. */
static const struct {
	const char *name;
	size_t offset;
} functions[] = {
	{ "cuInit", offsetof(struct cuda_api, init) },
	{ "cuDriverGetVersion", offsetof(struct cuda_api, version) },
	{ "cuGetErrorName", offsetof(struct cuda_api, error_name) },
	{ "cuDeviceGetCount", offsetof(struct cuda_api, device_count) },
	{ "cuDeviceGet", offsetof(struct cuda_api, device_get) },
	{ "cuDeviceGetName", offsetof(struct cuda_api, device_name) },
	{ "cuDeviceGetAttribute", offsetof(struct cuda_api, device_attribute) },
	{ "cuDeviceTotalMem_v2", offsetof(struct cuda_api, device_memory) },
	{ "cuDeviceGetPCIBusId", offsetof(struct cuda_api, device_pci) },
	{ "cuDevicePrimaryCtxRetain", offsetof(struct cuda_api, context_retain) },
	{ "cuDevicePrimaryCtxRelease_v2", offsetof(struct cuda_api, context_release) },
	{ "cuCtxSetCurrent", offsetof(struct cuda_api, context_set) },
	{ "cuModuleLoadData", offsetof(struct cuda_api, module_load) },
	{ "cuModuleUnload", offsetof(struct cuda_api, module_unload) },
	{ "cuModuleGetFunction", offsetof(struct cuda_api, module_function) },
	{ "cuFuncSetAttribute", offsetof(struct cuda_api, function_attribute) },
	{ "cuMemAlloc_v2", offsetof(struct cuda_api, mem_alloc) },
	{ "cuMemFree_v2", offsetof(struct cuda_api, mem_free) },
	{ "cuMemHostAlloc", offsetof(struct cuda_api, host_alloc) },
	{ "cuMemFreeHost", offsetof(struct cuda_api, host_free) },
	{ "cuMemHostRegister_v2", offsetof(struct cuda_api, host_register) },
	{ "cuMemHostUnregister", offsetof(struct cuda_api, host_unregister) },
	{ "cuMemHostGetDevicePointer_v2", offsetof(struct cuda_api, host_address) },
	{ "cuMemGetHandleForAddressRange", offsetof(struct cuda_api, handle_for_range) },
	{ "cuMemcpyHtoD_v2", offsetof(struct cuda_api, copy_in) },
	{ "cuMemcpyHtoDAsync_v2", offsetof(struct cuda_api, copy_in_async) },
	{ "cuMemcpyDtoHAsync_v2", offsetof(struct cuda_api, copy_out_async) },
	{ "cuStreamCreate", offsetof(struct cuda_api, stream_create) },
	{ "cuStreamDestroy_v2", offsetof(struct cuda_api, stream_destroy) },
	{ "cuStreamBeginCapture_v2", offsetof(struct cuda_api, stream_begin_capture) },
	{ "cuStreamEndCapture", offsetof(struct cuda_api, stream_end_capture) },
	{ "cuGraphInstantiateWithFlags", offsetof(struct cuda_api, graph_instantiate) },
	{ "cuGraphLaunch", offsetof(struct cuda_api, graph_launch) },
	{ "cuGraphExecDestroy", offsetof(struct cuda_api, graph_exec_destroy) },
	{ "cuGraphDestroy", offsetof(struct cuda_api, graph_destroy) },
	{ "cuEventCreate", offsetof(struct cuda_api, event_create) },
	{ "cuEventDestroy_v2", offsetof(struct cuda_api, event_destroy) },
	{ "cuEventRecord", offsetof(struct cuda_api, event_record) },
	{ "cuEventQuery", offsetof(struct cuda_api, event_query) },
	{ "cuEventSynchronize", offsetof(struct cuda_api, event_synchronize) },
	{ "cuLaunchKernel", offsetof(struct cuda_api, launch) },
};

/* Open the library; a path that names no regular file is not tried, since a FIFO would wait. */
static void *open_library(const char *name, char text[], size_t size)
{
	struct stat status;
	bool there = strchr(name, '/') != NULL && stat(name, &status) == 0;
	if (there && !S_ISREG(status.st_mode)) {
		snprintf(text, size, "%s: not a regular file", name);
		return NULL;
	}
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *why = library == NULL && there ? dlerror() : NULL;
	size_t length = strlen(name);
	if (why != NULL && strncmp(why, name, length) == 0 && strncmp(why + length, ": ", 2) == 0)
		why += length + 2;
	if (library == NULL)
		snprintf(text, size, "%s: %s", name, why != NULL ? why : "not found");
	return library;
}

int cuda_api_load(struct cuda_api *api, const char *path, char text[], size_t size)
{
	const char *name = path != NULL ? path : "libcuda.so.1";
	memset(api, 0, sizeof(*api));
	api->library = open_library(name, text, size);
	if (api->library == NULL)
		return -ENOENT;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(functions); i++) {
		void *address = dlsym(api->library, functions[i].name);
		if (address == NULL) {
			snprintf(text, size, "%s: has no %s: the driver is too old", name,
				functions[i].name);
			cuda_api_close(api);
			return -ENOSYS;
		}
		memcpy((char *)api + functions[i].offset, &address, sizeof(address));
	}
	api->is_double = dlsym(api->library, "sheaf_cuda_is_a_test_double") != NULL;
	return 0;
}

void cuda_api_close(struct cuda_api *api)
{
	if (api->library != NULL)
		dlclose(api->library);
	api->library = NULL;
}

const char *cuda_api_error(const struct cuda_api *api, int error)
{
	const char *name = NULL;
	if (api->error_name(error, &name) != CUDA_OK || name == NULL)
		return "an unknown error";
	return name;
}
