/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cuda/program.h"
#include "gpu_offload/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	EXPORT_BYTES = 1 << 21, /* a page of the largest kind */
	COPY_BYTES = 16 << 20,
	COPIES = 4,    /* on a stream before they are waited for */
	LAUNCHES = 16, /* likewise */
};

/* ---- what it is --------------------------------------------------------------------------- */

/* -1 where the driver does not know the attribute. */
static int attribute(const struct cuda_device *device, int which)
{
	int value = -1;
	if (device->api.device_attribute(&value, which, device->device) != CUDA_OK)
		return -1;
	return value;
}

static void read_attributes(const struct cuda_device *device, struct gpu_offload_gpu_info *info)
{
	info->major = attribute(device, CUDA_ATTRIBUTE_MAJOR);
	info->minor = attribute(device, CUDA_ATTRIBUTE_MINOR);
	info->processors = device->processors;
	info->shared_bytes = device->shared_bytes;
	info->l2_bytes = attribute(device, CUDA_ATTRIBUTE_L2_BYTES);
	info->clock_khz = attribute(device, CUDA_ATTRIBUTE_CLOCK_KHZ);
	info->memory_clock_khz = attribute(device, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ);
	info->bus_bits = attribute(device, CUDA_ATTRIBUTE_BUS_BITS);
	info->copy_engines = attribute(device, CUDA_ATTRIBUTE_COPY_ENGINES);
	info->unified_addressing = attribute(device, CUDA_ATTRIBUTE_UNIFIED_ADDRESSING) == 1;
	info->rdma = attribute(device, CUDA_ATTRIBUTE_RDMA);
	info->rdma_flush = attribute(device, CUDA_ATTRIBUTE_RDMA_FLUSH);
	info->rdma_ordering = attribute(device, CUDA_ATTRIBUTE_RDMA_ORDERING);
	info->dma_buf = attribute(device, CUDA_ATTRIBUTE_DMA_BUF);
}

/* Export memory as a dma-buf, and close it again. */
static void try_export(const struct cuda_device *device, struct gpu_offload_gpu_info *info)
{
	const struct cuda_api *api = &device->api;
	cuda_address memory;
	int fd = -1, result = api->mem_alloc(&memory, EXPORT_BYTES);
	if (result == CUDA_OK) {
		result =
			api->handle_for_range(&fd, memory, EXPORT_BYTES, CUDA_HANDLE_DMA_BUF_FD, 0);
		if (fd >= 0)
			close(fd);
		api->mem_free(memory);
	}
	info->dma_buf_exported = result == CUDA_OK && fd >= 0;
	if (!info->dma_buf_exported)
		snprintf(info->dma_buf_text, sizeof(info->dma_buf_text), "%s",
			result == CUDA_OK ? "no file descriptor came back"
					  : cuda_api_error(api, result));
}

int gpu_offload_gpu_probe(
	struct gpu_offload_gpu_info *info, const char *library, int index, char text[], size_t size)
{
	struct cuda_device device = { .device = 0 };
	size_t bytes = 0;
	memset(info, 0, sizeof(*info));
	int error = cuda_driver_open(&device, library, index, text, size);
	if (error != 0)
		return error;
	info->is_double = device.api.is_double;
	snprintf(info->name, sizeof(info->name), "%s", device.name);
	read_attributes(&device, info);
	if (device.api.version(&info->driver) != CUDA_OK)
		info->driver = -1;
	if (device.api.device_count(&info->devices) != CUDA_OK)
		info->devices = -1;
	if (device.api.device_memory(&bytes, device.device) == CUDA_OK)
		info->memory_bytes = bytes;
	if (device.api.device_pci(info->pci, sizeof(info->pci), device.device) != CUDA_OK)
		info->pci[0] = '\0';
	try_export(&device, info);
	cuda_device_close(&device);
	return 0;
}

/* ---- how fast it is ----------------------------------------------------------------------- */

struct meter {
	const struct gpu_offload_backend_config *config;
	struct cuda_device device;
	struct cuda_program program;
	void *streams[2], *events[2];
	void *host;          /* pinned: half to the device, half from it */
	cuda_address memory; /* likewise */
	cuda_address rows, scratch;
	uint64_t time_ns;
	bool silent; /* nothing of it may be freed */
};

static uint64_t now_ns(const struct meter *meter)
{
	return meter->config->clock_ns != NULL ? meter->config->clock_ns(meter->config->clock) : 0;
}

/* What was put on a stream is done. */
static int wait_for(struct meter *meter, int stream)
{
	struct cuda_device *device = &meter->device;
	uint64_t since_ns = now_ns(meter), limit_ns = meter->config->watchdog_ns;
	int result = device->api.event_record(meter->events[stream], meter->streams[stream]);
	while (result == CUDA_OK &&
		(result = device->api.event_query(meter->events[stream])) == CUDA_NOT_READY) {
		result = CUDA_OK;
		if (meter->config->clock_ns == NULL || limit_ns == 0 ||
			now_ns(meter) - since_ns <= limit_ns)
			continue;
		meter->silent = true;
		return -ETIMEDOUT;
	}
	return cuda_device_check(device, result);
}

static int copy(struct meter *meter, int to_host)
{
	const struct cuda_api *api = &meter->device.api;
	unsigned char *host = (unsigned char *)meter->host + (to_host ? COPY_BYTES : 0);
	cuda_address memory = meter->memory + (to_host ? COPY_BYTES : 0);
	void *stream = meter->streams[to_host];
	return cuda_device_check(
		&meter->device, to_host ? api->copy_out_async(host, memory, COPY_BYTES, stream)
					: api->copy_in_async(memory, host, COPY_BYTES, stream));
}

/* ways: bit 0 to the device, bit 1 back. */
static int measure_copies(struct meter *meter, int ways, double *bytes_per_s)
{
	uint64_t begin_ns = now_ns(meter), end_ns = begin_ns, bytes = 0;
	int error = 0;
	while (error == 0 && (bytes == 0 || end_ns - begin_ns < meter->time_ns)) {
		for (int i = 0; i < 2 * COPIES && error == 0; i++) {
			if ((ways >> (i & 1) & 1) == 0)
				continue;
			error = copy(meter, i & 1);
			bytes += COPY_BYTES;
		}
		for (int i = 0; i < 2 && error == 0; i++)
			error = (ways >> i & 1) != 0 ? wait_for(meter, i) : 0;
		end_ns = now_ns(meter);
	}
	if (end_ns > begin_ns)
		*bytes_per_s = (double)bytes * 1e9 / (double)(end_ns - begin_ns);
	return error;
}

static int measure_rows(struct meter *meter, uint32_t count, double *rows_per_s)
{
	const struct gpu_offload_backend_config *config = meter->config;
	uint64_t inputs = gpu_offload_model_inputs(config->model);
	const struct cuda_rows rows = {
		.inputs = meter->rows,
		.labels = meter->rows + config->rows_max * inputs * sizeof(float),
		.rows = count,
	};
	uint64_t begin_ns = now_ns(meter), end_ns = begin_ns, done = 0;
	int error = 0;
	while (error == 0 && (done == 0 || end_ns - begin_ns < meter->time_ns)) {
		for (int i = 0; i < LAUNCHES && error == 0; i++, done += count)
			error = cuda_program_launch(
				&meter->program, &rows, meter->scratch, meter->streams[0]);
		if (error == 0)
			error = wait_for(meter, 0);
		end_ns = now_ns(meter);
	}
	if (end_ns > begin_ns)
		*rows_per_s = (double)done * 1e9 / (double)(end_ns - begin_ns);
	return error;
}

static int meter_create(struct meter *meter)
{
	const struct gpu_offload_backend_config *config = meter->config;
	struct cuda_device *device = &meter->device;
	const struct cuda_api *api = &device->api;
	uint64_t row = (gpu_offload_model_inputs(config->model) + 1) * sizeof(float);
	size_t scratch;
	int error = cuda_program_create(
		&meter->program, device, config->model, config->rows_max, config->cuda_kernels);
	if (error == 0)
		error = cuda_device_check(
			device, api->host_alloc(&meter->host, 2 * (size_t)COPY_BYTES,
					CUDA_HOST_PORTABLE_MAPPED));
	if (error == 0)
		error = cuda_device_check(
			device, api->mem_alloc(&meter->memory, 2 * (size_t)COPY_BYTES));
	if (error == 0)
		error = cuda_device_check(
			device, api->mem_alloc(&meter->rows, config->rows_max * row));
	scratch = error == 0 ? cuda_program_scratch(&meter->program) : 0;
	if (error == 0 && scratch > 0)
		error = cuda_device_check(device, api->mem_alloc(&meter->scratch, scratch));
	for (int i = 0; i < 2 && error == 0; i++) {
		error = cuda_device_check(
			device, api->stream_create(&meter->streams[i], CUDA_STREAM_NON_BLOCKING));
		if (error == 0)
			error = cuda_device_check(
				device, api->event_create(&meter->events[i], CUDA_EVENT_NO_TIMING));
	}
	return error;
}

static void meter_destroy(struct meter *meter)
{
	const struct cuda_api *api = &meter->device.api;
	if (meter->silent) {
		cuda_program_free(&meter->program);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (meter->events[i] != NULL)
			api->event_destroy(meter->events[i]);
		if (meter->streams[i] != NULL)
			api->stream_destroy(meter->streams[i]);
	}
	const cuda_address memories[] = { meter->memory, meter->rows, meter->scratch };
	for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++) {
		if (memories[i] != 0)
			api->mem_free(memories[i]);
	}
	if (meter->host != NULL)
		api->host_free(meter->host);
	cuda_program_destroy(&meter->program);
	cuda_device_close(&meter->device);
}

int gpu_offload_gpu_measure(struct gpu_offload_gpu_rates *rates,
	const struct gpu_offload_backend_config *config, const uint32_t sizes[],
	uint32_t sizes_count, uint64_t time_ns, char text[], size_t size)
{
	struct meter meter = { .config = config, .time_ns = time_ns };
	memset(rates, 0, sizeof(*rates));
	int error = cuda_device_open(
		&meter.device, config->cuda_library, config->cuda_device, text, size);
	if (error != 0)
		return error;
	rates->is_double = meter.device.api.is_double;
	rates->copy_bytes = COPY_BYTES;
	snprintf(rates->name, sizeof(rates->name), "%s", meter.device.name);
	error = meter_create(&meter);
	double *const ways[] = { &rates->to_device, &rates->to_host, &rates->both };
	for (int i = 0; i < 3 && error == 0; i++)
		error = measure_copies(&meter, i + 1, ways[i]);
	for (uint32_t i = 0; i < sizes_count && error == 0; i++) {
		rates->rows[i] = sizes[i];
		error = measure_rows(&meter, sizes[i], &rates->rows_per_s[i]);
		rates->sizes_count += error == 0;
	}
	if (error == -ETIMEDOUT)
		snprintf(text, size, "%s: no answer within %.3g s", rates->name,
			(double)config->watchdog_ns / 1e9);
	else if (error != 0)
		snprintf(text, size, "%s: %s", rates->name,
			meter.device.error != 0
				? cuda_api_error(&meter.device.api, meter.device.error)
				: strerror(-error));
	meter_destroy(&meter);
	return error;
}
