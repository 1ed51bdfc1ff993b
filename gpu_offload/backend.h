/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What runs a model over batches of rows. One interface, several back ends:
 *
 *	cpu-ref  plain C in double precision, one operation after the other: the oracle
 *	cpu      the same in 32-bit floats with the vector units of this machine
 *	cuda     an NVIDIA GPU through libcuda, which is looked for when the back end is made
 *	auto     cuda where it can be had, else cpu; says which and why
 *
 * A batch is handed over with submit and comes back from poll, in any order. CPU back ends compute
 * within submit. A batch, its inputs, labels and scores belong to the back end from submit until
 * poll gives it back.
 *
 * Labels: the class of the highest score, the lowest index among equals; a NaN never wins, and a
 * row of nothing but NaN gets 0. Scores of the back ends differ by rounding only
 * (gpu_offload_scores_close); where two scores of a row are nearer than that, labels may differ.
 *
 * Threads: one owner per back end. Memory: all of it at create. submit and poll of the CPU back
 * ends neither allocate nor block; those of cuda call the driver.
 *
 *	gpu_offload_backend_create(&backend, "auto", &config, why, sizeof(why));
 *	gpu_offload_backend_submit(backend, &batch);
 *	while ((count = gpu_offload_backend_poll(backend, done, 16)) == 0)
 *		...;
 */
#pragma once

#include "gpu_offload/model.h"

#include <stdbool.h>

enum {
	GPU_OFFLOAD_ROWS_MAX = 1 << 16,   /* rows of one batch */
	GPU_OFFLOAD_BATCHES_MAX = 64,     /* batches in flight */
	GPU_OFFLOAD_INPUT_ALIGNMENT = 64, /* bytes, of a batch's inputs */
};

/* One batch of one model's inputs. Belongs to the back end from submit until poll gives it back. */
struct gpu_offload_batch {
	uint32_t count;      /* rows in use, >= 1 */
	const float *inputs; /* count x gpu_offload_model_inputs(), row by row, 64-byte aligned */
	uint32_t *labels;    /* count */
	float *scores;       /* count x gpu_offload_model_classes(), or NULL: not wanted */
	int status;          /* after poll: 0, or -errno: -EIO device lost, -ETIMEDOUT watchdog */
	void *user;          /* the caller's */
};

/* Kernels of the back end cpu. */
enum gpu_offload_cpu_kernels {
	GPU_OFFLOAD_CPU_BEST, /* of those that this machine has */
	GPU_OFFLOAD_CPU_AVX512,
	GPU_OFFLOAD_CPU_AVX2,
	GPU_OFFLOAD_CPU_PLAIN,
};

/* How batches reach a GPU. */
enum gpu_offload_cuda_mode {
	GPU_OFFLOAD_CUDA_LAUNCH,     /* copies and a launch on a stream, per batch */
	GPU_OFFLOAD_CUDA_GRAPH,      /* one graph per slot, replayed */
	GPU_OFFLOAD_CUDA_PERSISTENT, /* a kernel that stays and polls a ring in host memory */
};

/* How the host waits for a device when there is nothing else to do. */
enum gpu_offload_wait {
	GPU_OFFLOAD_WAIT_POLL,  /* looks again at once: the shortest delay, a whole core */
	GPU_OFFLOAD_WAIT_YIELD, /* lets other threads of its core run between looks */
	GPU_OFFLOAD_WAIT_BLOCK, /* sleeps until the driver wakes it */
	GPU_OFFLOAD_WAITS_COUNT
};

/* What computes a model on a GPU. */
enum gpu_offload_cuda_kernels {
	GPU_OFFLOAD_CUDA_BEST,   /* fused where it fits, else tensor cores for large layers */
	GPU_OFFLOAD_CUDA_PLAIN,  /* layer by layer in 32-bit floats: the reference */
	GPU_OFFLOAD_CUDA_TENSOR, /* layer by layer, Dense and Conv on tensor cores */
};

struct gpu_offload_backend_config {
	const struct gpu_offload_model *model;    /* outlives the back end */
	uint32_t rows_max;                        /* of a batch, 1 .. GPU_OFFLOAD_ROWS_MAX */
	uint32_t batches_max;                     /* in flight, 1 .. GPU_OFFLOAD_BATCHES_MAX */
	enum gpu_offload_cpu_kernels cpu_kernels; /* for cpu alone */
	/* For cuda alone; zeros are the defaults. */
	enum gpu_offload_cuda_mode cuda_mode;
	enum gpu_offload_wait cuda_wait;
	enum gpu_offload_cuda_kernels cuda_kernels;
	int cuda_device;
	const char *cuda_library; /* NULL: libcuda.so.1; a path, for a test double */
	/* Wall time for the watchdog, monotone, in ns; NULL: no watchdog, and a device that never
	 * ends is waited for without end. */
	uint64_t (*clock_ns)(void *clock);
	void *clock;
	uint64_t watchdog_ns; /* of a batch: then -ETIMEDOUT for it and all others; 0: none */
};

struct gpu_offload_backend;

struct gpu_offload_backend_ops {
	const char *name;    /* "cpu-ref" */
	const char *summary; /* one line */
	/* text: on success what it runs on ("AVX2, fused MLP"), else why it cannot be had.
	 * -EINVAL: the config; -ENOMEM; -ENOTSUP: not on this machine, or not this model; else the
	 * device's. */
	int (*create)(struct gpu_offload_backend **out,
		const struct gpu_offload_backend_config *config, char text[], size_t size);
	void (*destroy)(struct gpu_offload_backend *backend);
	int (*submit)(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch);
	uint32_t (*poll)(struct gpu_offload_backend *backend, struct gpu_offload_batch *done[],
		uint32_t max);
	/* Whether the device was given up: 0, or the status of its batches and why. NULL: never. */
	int (*lost)(const struct gpu_offload_backend *backend, char text[], size_t size);
	/* As gpu_offload_backend_wait; NULL: nothing is ever waited for. */
	void (*wait)(struct gpu_offload_backend *backend);
	/* Memory that will hold batches' inputs; NULL: nothing to gain by telling. */
	int (*pin)(struct gpu_offload_backend *backend, void *memory, size_t size);
	void (*unpin)(struct gpu_offload_backend *backend, void *memory);
};

/* Back ends by number, in the order of the list above, and by name; NULL: none. "auto" is none. */
const struct gpu_offload_backend_ops *gpu_offload_backend_nth(size_t index);
const struct gpu_offload_backend_ops *gpu_offload_backend_by_name(const char *name);

/*
 * Make a back end by name, or "auto". why: one line, on success what was taken and the reason
 * ("cpu (AVX-512, fused MLP): cuda: libcuda.so.1: not found"), else the reason of failure.
 * -ENOENT: no such name; else as the back end's create.
 */
int gpu_offload_backend_create(struct gpu_offload_backend **out, const char *choice,
	const struct gpu_offload_backend_config *config, char why[], size_t size);
/* Batches in flight are given up, not waited for longer than the watchdog. NULL is fine. */
void gpu_offload_backend_destroy(struct gpu_offload_backend *backend);

/* The name of what was taken: never "auto". */
const char *gpu_offload_backend_name(const struct gpu_offload_backend *backend);

/*
 * 0: the batch is the back end's now, and poll will give it back, whatever happens to the device.
 * -EAGAIN: batches_max are in flight: poll first. -EINVAL: count is 0 or above rows_max, or inputs
 * are not aligned; the batch stays the caller's.
 */
int gpu_offload_backend_submit(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *batch);
/* Batches that are done, at most max; status says how each ended. Never waits. */
uint32_t gpu_offload_backend_poll(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *done[], uint32_t max);

/*
 * For who has polled in vain and has nothing else to do: waits as the config says, until a batch
 * may be done, and for 20 ms at most.
 */
void gpu_offload_backend_wait(struct gpu_offload_backend *backend);

/*
 * 0 while the back end works. Else it gave its device up, and gives every batch back with the
 * status that is returned: -EIO, -ENOMEM, -ETIMEDOUT; text says why in one line.
 */
int gpu_offload_backend_lost(const struct gpu_offload_backend *backend, char text[], size_t size);

/*
 * Tell that inputs of batches to come lie in this memory, so that a device can take them without a
 * copy in between; others are copied. What a device writes never goes there: labels and scores are
 * copied to the caller when a batch is done. Never needed. -errno: not told, and they are copied.
 * Unpin when no batch is in flight there, or destroy the back end first. A device that was given up
 * may still read what lay there; the memory stays pinned then.
 */
int gpu_offload_backend_pin(struct gpu_offload_backend *backend, void *memory, size_t size);
void gpu_offload_backend_unpin(struct gpu_offload_backend *backend, void *memory);

/*
 * Whether two scores are the same but for rounding: |got - expected| at most 1e-4 + 1e-3 of
 * |expected|; NaN equals NaN, infinities equal themselves.
 */
bool gpu_offload_scores_close(float got, float expected);

/* Whether a row's numbers may leave what 32-bit floats hold on their way through the model: then a
 * back end that computes in them may say infinity or NaN where cpu-ref, in double precision, does
 * not. By bounds: products and sums of the largest numbers. ref: cpu-ref, nothing in flight. */
bool gpu_offload_ref_may_overflow(struct gpu_offload_backend *ref, const float *row);
