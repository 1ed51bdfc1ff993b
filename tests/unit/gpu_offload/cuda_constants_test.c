/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and names of the driver's interface that gpu_offload/cuda/ repeats, against cuda.h. */
#include "gpu_offload/cuda/api.h"

#include <assert.h>
#include <cuda.h>
#include <stdio.h>
#include <string.h>

static_assert(CUDA_OK == (int)CUDA_SUCCESS && CUDA_OUT_OF_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY &&
		      CUDA_NO_DEVICE == (int)CUDA_ERROR_NO_DEVICE &&
		      CUDA_NO_BINARY == (int)CUDA_ERROR_NO_BINARY_FOR_GPU &&
		      CUDA_NOT_READY == (int)CUDA_ERROR_NOT_READY,
	"results");
static_assert(sizeof(cuda_address) == sizeof(CUdeviceptr) && sizeof(int) == sizeof(CUdevice),
	"addresses, devices");
static_assert(
	(int)CUDA_ATTRIBUTE_CLOCK_KHZ == CU_DEVICE_ATTRIBUTE_CLOCK_RATE &&
		(int)CUDA_ATTRIBUTE_PROCESSORS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
		(int)CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE &&
		(int)CUDA_ATTRIBUTE_BUS_BITS == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH &&
		(int)CUDA_ATTRIBUTE_L2_BYTES == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE &&
		(int)CUDA_ATTRIBUTE_COPY_ENGINES == CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT &&
		(int)CUDA_ATTRIBUTE_UNIFIED_ADDRESSING == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
	"attributes");
static_assert((int)CUDA_ATTRIBUTE_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
		      (int)CUDA_ATTRIBUTE_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
		      (int)CUDA_ATTRIBUTE_SHARED_OPTIN ==
			      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN &&
		      (int)CUDA_ATTRIBUTE_RDMA == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED &&
		      (int)CUDA_ATTRIBUTE_RDMA_FLUSH ==
			      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS &&
		      (int)CUDA_ATTRIBUTE_RDMA_ORDERING ==
			      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING &&
		      (int)CUDA_ATTRIBUTE_DMA_BUF == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
	"attributes");
static_assert(
	(int)CUDA_HANDLE_DMA_BUF_FD == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD &&
		(int)CUDA_FUNCTION_SHARED == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
		(int)CUDA_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING &&
		(int)CUDA_EVENT_BLOCKING == CU_EVENT_BLOCKING_SYNC &&
		(int)CUDA_EVENT_NO_TIMING == CU_EVENT_DISABLE_TIMING &&
		(int)CUDA_CAPTURE_THREAD_LOCAL == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	"flags");
static_assert(CUDA_HOST_PORTABLE_MAPPED == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) &&
		      CUDA_HOST_PORTABLE_MAPPED ==
			      (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
	"flags of host memory");

#define TEXT(name)  #name
#define NAMED(name) TEXT(name)

/* What cuda.h makes of each function's plain name is what api.c must look for. */
int main(int argc, char **argv)
{
	static const char *const names[] = { NAMED(cuDevicePrimaryCtxRelease),
		NAMED(cuDeviceTotalMem), NAMED(cuMemAlloc), NAMED(cuMemFree),
		NAMED(cuMemHostRegister), NAMED(cuMemHostGetDevicePointer), NAMED(cuMemcpyHtoD),
		NAMED(cuMemcpyHtoDAsync), NAMED(cuMemcpyDtoHAsync), NAMED(cuStreamDestroy),
		NAMED(cuStreamBeginCapture), NAMED(cuEventDestroy), NAMED(cuDeviceGetPCIBusId),
		NAMED(cuEventSynchronize), NAMED(cuMemGetHandleForAddressRange),
		NAMED(cuGraphInstantiateWithFlags), NAMED(cuLaunchKernel), NAMED(cuMemHostAlloc) };
	static char source[1 << 16];
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	int missing = 0;
	if (file == NULL || fread(source, 1, sizeof(source) - 1, file) == 0) {
		fprintf(stderr, "usage: %s api.c\n", argv[0]);
		return 2;
	}
	fclose(file);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char quoted[64];
		snprintf(quoted, sizeof(quoted), "\"%s\"", names[i]);
		if (strstr(source, quoted) == NULL) {
			fprintf(stderr, "api.c does not look for %s\n", names[i]);
			missing++;
		}
	}
	return missing != 0;
}
