/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sheaf infer verify and sheaf infer bench, without their printing: every back end that can run
 * against the oracle, and how fast each is over a sweep of batch sizes. One thread.
 */
#pragma once

#include "pipeline/infer_rows.h"

#include <stdatomic.h>

enum {
	INFER_BACKENDS = 3,
	INFER_POINTS_MAX = 17,
	INFER_KINDS = 5,     /* back ends, and the GPU's ways to submit */
	INFER_WAITS = 3,     /* enum gpu_offload_wait */
	INFER_INFLIGHTS = 5, /* 1, 2, 4, 8, 16 */
	INFER_SERIES_MAX = 2 + 3 * INFER_WAITS * INFER_INFLIGHTS,
};

struct infer_options {
	struct infer_model_choice model;
	unsigned int backends;     /* bits: cpu-ref, cpu, cuda */
	unsigned int modes;        /* bits: enum gpu_offload_cuda_mode */
	unsigned int waits;        /* bits: enum gpu_offload_wait */
	unsigned int inflight;     /* bit i: 2^i batches with a GPU at a time */
	unsigned int cuda_kernels; /* enum gpu_offload_cuda_kernels */
	unsigned int kernels;      /* enum gpu_offload_cpu_kernels */
	bool rates;                /* of copies, and of rows that lie on the device */
	uint32_t device;           /* of the GPUs */
	uint64_t records;          /* random rows of verify */
	uint32_t batch_min, batch_max;
	uint64_t time_ns;         /* of one measurement, at least */
	const char *cuda_library; /* NULL: the system's */
};

void infer_options_defaults(struct infer_options *options);

/* One back end's rows against the oracle's. */
struct infer_verdict {
	const char *name;             /* "cuda graph" */
	char why[INFER_MESSAGE_SIZE]; /* what it runs on, or why it does not */
	bool ran;
	uint64_t rows;
	uint64_t labels_differ; /* beyond near ties */
	uint64_t near_ties;     /* labels that differ where the oracle's two scores are close */
	uint64_t scores_differ; /* rows with a score that is not close */
	/* Rows with an infinity or a NaN for which 32-bit floats may be too small: not judged. */
	uint64_t overflows;
	double worst; /* greatest |got - expected| / (1 + |expected|) */
};

struct infer_verify_result {
	struct gpu_offload_model_info model;
	uint64_t rows;
	struct infer_verdict verdicts[INFER_KINDS];
	uint32_t verdicts_count;
	bool lost; /* the message is about a GPU that was lost meanwhile */
	char message[INFER_MESSAGE_SIZE];
};

/* files: rows to add to the random ones. 0 also when back ends disagree. -EINTR; -errno with
 * result->message. */
int infer_verify_run(const struct infer_options *options, const char *const files[], size_t count,
	struct infer_verify_result *result, const atomic_bool *stop);
bool infer_verdict_agrees(const struct infer_verdict *verdict);

struct infer_point {
	uint32_t batch;
	uint64_t batches;
	double flows_per_s;
	double flows_per_cpu_s; /* of this thread's CPU time: what a core of its own would do */
	double p50_us, p99_us, p999_us; /* from submit to the batch's return */
	double cpu;                     /* this process's CPU time / wall time */
};

struct infer_series {
	const char *name;
	const char *wait; /* of a GPU; NULL */
	unsigned int wait_kind;
	uint32_t inflight; /* batches at a time */
	char why[INFER_MESSAGE_SIZE];
	bool ran;
	struct infer_point points[INFER_POINTS_MAX];
	uint32_t points_count;
	uint32_t break_even; /* least batch that is faster than on cpu from there on; 0: none */
};

struct infer_bench_result {
	struct gpu_offload_model_info model;
	struct infer_series series[INFER_SERIES_MAX];
	uint32_t series_count;
	struct gpu_offload_gpu_rates rates;
	bool has_rates;
	char rates_why[INFER_MESSAGE_SIZE]; /* why there are none */
	bool lost;
	char message[INFER_MESSAGE_SIZE];
};

int infer_bench_run(const struct infer_options *options, struct infer_bench_result *result,
	const atomic_bool *stop);
