/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a GPU is, and how fast it moves and classifies rows without a batch's way there and back: to
 * judge the back end cuda by.
 *
 * Everything here is the device's own word or a measurement on it; with a test double of libcuda,
 * is_double says so, and nothing is a GPU's.
 *
 * Threads: any, one call at a time. Memory: taken and given back within each call; of a device
 * that no longer answers it is left. Time is passed in: without a clock and a watchdog a silent
 * device is waited for without end.
 */
#pragma once

#include "gpu_offload/backend.h"

enum { GPU_OFFLOAD_GPU_SIZES_MAX = 17 };

struct gpu_offload_gpu_info {
	bool is_double;
	int devices; /* of which this is one */
	int driver;  /* CUDA version of the driver: 12040 is 12.4 */
	char name[64], pci[32];
	int major, minor; /* compute capability */
	int processors, shared_bytes, l2_bytes, clock_khz, memory_clock_khz, bus_bits;
	int copy_engines;
	uint64_t memory_bytes;
	bool unified_addressing;
	/* GPUDirect RDMA: supported; bits of flush options; ordering of writes (0 none, 100
	 * owner, 200 all devices); dma-buf export as the attribute says it. -1: the driver does
	 * not know. */
	int rdma, rdma_flush, rdma_ordering, dma_buf;
	/* Whether memory was really exported as a dma-buf just now, and why not. */
	bool dma_buf_exported;
	char dma_buf_text[64];
};

/* -ENOENT, -ENOSYS, -ENODEV, -ENOTSUP, -ENOMEM, -EIO; text says why, in one line. */
int gpu_offload_gpu_probe(struct gpu_offload_gpu_info *info, const char *library, int index,
	char text[], size_t size);

struct gpu_offload_gpu_rates {
	bool is_double;
	char name[64];
	/* Of pinned memory: bytes per second to the device, back, and the sum of both at once. */
	uint64_t copy_bytes;
	double to_device, to_host, both;
	/* The model over rows that lie in device memory already, results left there. */
	uint32_t sizes_count;
	uint32_t rows[GPU_OFFLOAD_GPU_SIZES_MAX];
	double rows_per_s[GPU_OFFLOAD_GPU_SIZES_MAX];
};

/*
 * Measure, each for time_ns at least. config: as of the back end, with a clock; rows_max is the
 * largest of sizes[sizes_count]. -ETIMEDOUT: no answer within the watchdog's time; else as above.
 */
int gpu_offload_gpu_measure(struct gpu_offload_gpu_rates *rates,
	const struct gpu_offload_backend_config *config, const uint32_t sizes[],
	uint32_t sizes_count, uint64_t time_ns, char text[], size_t size);
