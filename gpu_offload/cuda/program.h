/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: a model on a device: its weights, and the launches that run it over
 * rows. A perceptron whose weights fit into one processor's shared memory takes the fused kernel;
 * anything else goes layer by layer, large layers Dense and Conv on tensor cores. Which kernel a
 * layer takes depends on its shape alone, never on the number of rows: a row's scores are the same
 * in every batch.
 */
#pragma once

#include "gpu_offload/backend.h"
#include "gpu_offload/cuda/api.h"
#include "gpu_offload/cuda/device.h"
#include "gpu_offload/layers.h"

struct cuda_device {
	struct cuda_api api;
	int device;
	void *context, *module;
	void *mlp, *layer, *product, *label, *persistent; /* kernels */
	int processors, shared_bytes;
	int error; /* of the driver, the last */
	char name[64];
};

struct cuda_program {
	const struct gpu_offload_model *model;
	struct cuda_device *device;
	bool fused;
	struct cuda_mlp mlp;
	uint32_t shared_bytes;
	struct cuda_layer *layers;
	bool *products; /* which layers are products on tensor cores */
	uint32_t products_count;
	cuda_address weights;
	uint64_t *values; /* first float of each value in a slot's scratch, per row of a chunk */
	uint64_t row_floats;
	uint32_t chunk; /* rows that go through all layers together */
};

/* 0, -ENOENT, -ENOSYS, -ENODEV, -ENOMEM, -ENOTSUP, -EIO; text says why. */
int cuda_device_open(
	struct cuda_device *device, const char *library, int index, char text[], size_t size);
/* The same without kernels. */
int cuda_driver_open(
	struct cuda_device *device, const char *library, int index, char text[], size_t size);
void cuda_device_close(struct cuda_device *device);
/* What the driver said, kept in device->error: 0, -ENOMEM, -EIO. */
int cuda_device_check(struct cuda_device *device, int result);

int cuda_program_create(struct cuda_program *program, struct cuda_device *device,
	const struct gpu_offload_model *model, uint32_t rows_max,
	enum gpu_offload_cuda_kernels kernels);
void cuda_program_destroy(struct cuda_program *program);
/* Only what the host has of it: the device may still be at work. */
void cuda_program_free(struct cuda_program *program);
/* "fused perceptron", "layer by layer, 3 of 7 on tensor cores". */
void cuda_program_describe(const struct cuda_program *program, char text[], size_t size);
/* Bytes of scratch that one run in flight needs; 0: none. */
size_t cuda_program_scratch(const struct cuda_program *program);
/* Put the launches for rows on a stream. */
int cuda_program_launch(struct cuda_program *program, const struct cuda_rows *rows,
	cuda_address scratch, void *stream);

/* The compiled kernels; empty when there was no nvcc. */
extern const unsigned char cuda_image[];
extern const size_t cuda_image_size;
