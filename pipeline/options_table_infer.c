/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of sheaf infer export, verify and bench. */
#include "pipeline/options_private.h"

#define EXPORT       .commands = OPTIONS_OF(OPTIONS_INFER_EXPORT)
#define FIELD(field) .offset = OPTIONS_FIELD(infer_export.field)
#define VERIFY       .commands = OPTIONS_OF(OPTIONS_INFER_VERIFY)
#define BENCH        .commands = OPTIONS_OF(OPTIONS_INFER_BENCH)
#define MODELS       .commands = OPTIONS_OF(OPTIONS_INFER_VERIFY) | OPTIONS_OF(OPTIONS_INFER_BENCH)
#define PROBES                                                                                     \
	.commands = OPTIONS_OF(OPTIONS_INFER_VERIFY) | OPTIONS_OF(OPTIONS_INFER_BENCH) |           \
		    OPTIONS_OF(OPTIONS_INFER_PROBE)
#define INFER(field) .offset = OPTIONS_FIELD(infer.field)

static const struct options_row rows[] = {
	{ "features", "NAME", "what is made of a flow: spi30|stat67|n3ic20|img1600",
		OPTIONS_KIND_CHOICE, EXPORT, FIELD(features),
		.choices = "spi30|stat67|n3ic20|img1600" },
	{ "depth", "N", "packets of a flow that are looked at", OPTIONS_KIND_COUNT32, EXPORT,
		FIELD(depth), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "min-packets", "N", "leave out flows with fewer", OPTIONS_KIND_COUNT32, EXPORT,
		FIELD(packets_min), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "whole", NULL, "leave out flows with fewer packets than --depth", OPTIONS_KIND_SWITCH,
		EXPORT, FIELD(whole) },
	{ "output", "FILE",
		"rows as .npy, or records as .rec; FILE.csv beside it says whose they are",
		OPTIONS_KIND_TEXT, .letter = 'o', EXPORT, .offset = OPTIONS_FIELD(output) },
	{ "conns", "N", "connections tracked at a time", OPTIONS_KIND_COUNT32, EXPORT, FIELD(conns),
		.low = 1, .high = 1 << 28 },
	{ "model", "FILE", "the model, as ONNX", OPTIONS_KIND_TEXT, MODELS, INFER(model.file) },
	{ "widths", "LIST", "instead, a perceptron with random weights, such as 64-128-64-16",
		OPTIONS_KIND_TEXT, MODELS, INFER(model.widths) },
	{ "backends", "LIST", "to run it on, of those that can be had", OPTIONS_KIND_SET, MODELS,
		INFER(backends), .low = 1, .choices = "cpu-ref|cpu|cuda" },
	{ "kernels", "NAME", "of cpu: best|avx512|avx2|plain", OPTIONS_KIND_CHOICE, MODELS,
		INFER(kernels), .choices = "best|avx512|avx2|plain" },
	{ "cuda-kernels", "NAME", "of cuda: best|plain|tensor", OPTIONS_KIND_CHOICE, MODELS,
		INFER(cuda_kernels), .choices = "best|plain|tensor" },
	{ "modes", "LIST", "how batches reach a GPU", OPTIONS_KIND_SET, MODELS, INFER(modes),
		.low = 1, .choices = "launch|graph|persistent" },
	{ "wait", "LIST", "how to wait for a GPU", OPTIONS_KIND_SET, BENCH, INFER(waits), .low = 1,
		.choices = "poll|yield|block" },
	{ "inflight", "LIST", "batches with a GPU at a time", OPTIONS_KIND_SET, BENCH,
		INFER(inflight), .low = 1, .choices = "1|2|4|8|16" },
	{ "no-rates", NULL, "leave out rates of copies, and of rows that lie on the GPU",
		OPTIONS_KIND_SWITCH_OFF, BENCH, INFER(rates) },
	{ "device", "N", "which GPU", OPTIONS_KIND_COUNT32, PROBES, INFER(device), .low = 0,
		.high = 1023 },
	{ "records", "N", "random rows, beside those of files", OPTIONS_KIND_COUNT64, VERIFY,
		INFER(records), .low = 1, .high = INFER_ROWS_MAX },
	{ "batch-min", "N", "rows of the smallest batch; it is doubled from there",
		OPTIONS_KIND_COUNT32, BENCH, INFER(batch_min), .low = 1,
		.high = GPU_OFFLOAD_ROWS_MAX },
	{ "batch-max", "N", "rows of the largest batch, at most", OPTIONS_KIND_COUNT32, BENCH,
		INFER(batch_max), .low = 1, .high = GPU_OFFLOAD_ROWS_MAX },
	{ "time", "T", "that each batch size is measured for, at least", OPTIONS_KIND_TIME, BENCH,
		INFER(time_ns), .low = 1000000, .high = UINT64_C(60000000000) },
	{ "seed", "N", "of random rows and weights", OPTIONS_KIND_COUNT64, MODELS,
		INFER(model.seed), .low = 0, .high = INT64_MAX },
	{ "cuda-library", "FILE", "instead of libcuda.so.1, such as a test double",
		OPTIONS_KIND_TEXT, PROBES, INFER(cuda_library) },
};

const struct options_row *options_infer_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(rows);
	return rows;
}
