/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/infer_bench.h"

#include "base/compiler.h"
#include "base/cycles.h"
#include "base/histogram.h"
#include "pipeline/bench_clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is compared: back ends, and the GPU's in each way to submit. */
static const struct {
	const char *name, *backend;
	unsigned int bit;
	enum gpu_offload_cuda_mode mode;
} kinds[INFER_SERIES_MAX] = {
	{ "cpu-ref", "cpu-ref", 0, GPU_OFFLOAD_CUDA_LAUNCH },
	{ "cpu", "cpu", 1, GPU_OFFLOAD_CUDA_LAUNCH },
	{ "cuda launch", "cuda", 2, GPU_OFFLOAD_CUDA_LAUNCH },
	{ "cuda graph", "cuda", 2, GPU_OFFLOAD_CUDA_GRAPH },
	{ "cuda persistent", "cuda", 2, GPU_OFFLOAD_CUDA_PERSISTENT },
};

enum {
	VERIFY_ROWS = 256
}; /* between looks at the stop flag: a slow model takes a second for them */

static const uint64_t WATCHDOG_NS = UINT64_C(10000000000);

void infer_options_defaults(struct infer_options *options)
{
	*options = (struct infer_options){
		.model.seed = 1,
		.backends = 7,
		.modes = 7,
		.records = 10000,
		.batch_min = 1,
		.batch_max = 4096,
		.time_ns = 50000000,
	};
}

static bool wanted(const struct infer_options *options, size_t kind)
{
	return (options->backends >> kinds[kind].bit & 1) != 0 &&
	       (kinds[kind].bit != 2 || (options->modes >> kinds[kind].mode & 1) != 0);
}

static uint64_t clock_ns(void *clock)
{
	(void)clock;
	return bench_clock_wall_ns();
}

static int make_backend(struct gpu_offload_backend **out, const struct infer_options *options,
	size_t kind, const struct gpu_offload_model *model, uint32_t rows, char *why)
{
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = rows,
		.batches_max = 1,
		.cpu_kernels = (enum gpu_offload_cpu_kernels)options->kernels,
		.cuda_mode = kinds[kind].mode,
		.cuda_library = options->cuda_library,
		.clock_ns = clock_ns,
		.watchdog_ns = WATCHDOG_NS,
	};
	return gpu_offload_backend_create(
		out, kinds[kind].backend, &config, why, INFER_MESSAGE_SIZE);
}

/* A batch there and back. */
static int run_batch(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct gpu_offload_batch *done;
	int error = gpu_offload_backend_submit(backend, batch);
	while (error == 0 && gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	return error != 0 ? error : batch->status;
}

/* ---- verify ------------------------------------------------------------------------------- */

struct outputs {
	uint32_t *labels;
	float *scores;
};

static int make_outputs(struct outputs *outputs, uint64_t rows, uint32_t classes)
{
	outputs->labels = calloc(rows, sizeof(*outputs->labels));
	outputs->scores = calloc(rows * classes, sizeof(*outputs->scores));
	return outputs->labels != NULL && outputs->scores != NULL ? 0 : -ENOMEM;
}

static int run_rows(struct gpu_offload_backend *backend, const struct gpu_offload_model *model,
	const float *rows, uint64_t count, const struct outputs *outputs, const atomic_bool *stop)
{
	size_t inputs = gpu_offload_model_inputs(model), classes = gpu_offload_model_classes(model);
	float *aligned = infer_rows_make(VERIFY_ROWS, (uint32_t)inputs, 0, NULL);
	int error = aligned == NULL ? -ENOMEM : 0;
	for (uint64_t row = 0; error == 0 && row < count; row += VERIFY_ROWS) {
		uint64_t rest = count - row;
		struct gpu_offload_batch batch = {
			.count = rest < VERIFY_ROWS ? (uint32_t)rest : VERIFY_ROWS,
			.inputs = aligned,
			.labels = outputs->labels + row,
			.scores = outputs->scores + row * classes,
		};
		memcpy(aligned, rows + row * inputs, batch.count * inputs * sizeof(float));
		error = run_batch(backend, &batch);
		if (error == 0 && atomic_load_explicit(stop, memory_order_relaxed))
			error = -EINTR;
	}
	free(aligned);
	return error;
}

static void compare_row(struct infer_verdict *verdict, uint32_t classes, uint32_t label,
	const float *got, uint32_t expected_label, const float *expected)
{
	bool close = true;
	for (uint32_t c = 0; c < classes; c++) {
		double off = fabs((double)got[c] - (double)expected[c]) /
			     (1 + fabs((double)expected[c]));
		close = close && gpu_offload_scores_close(got[c], expected[c]);
		verdict->worst = off > verdict->worst ? off : verdict->worst;
	}
	verdict->rows++;
	verdict->scores_differ += !close;
	if (label == expected_label)
		return;
	bool tie = label < classes &&
		   gpu_offload_scores_close(expected[label], expected[expected_label]);
	verdict->near_ties += tie;
	verdict->labels_differ += !tie;
}

static int verify_one(const struct infer_options *options, size_t kind,
	const struct gpu_offload_model *model, const float *rows, uint64_t count,
	const struct outputs *oracle, struct infer_verdict *verdict, const atomic_bool *stop)
{
	uint32_t classes = gpu_offload_model_classes(model);
	struct gpu_offload_backend *backend;
	struct outputs got = { 0 };
	*verdict = (struct infer_verdict){ .name = kinds[kind].name };
	if (make_backend(&backend, options, kind, model, VERIFY_ROWS, verdict->why) != 0)
		return 0;
	verdict->ran = true;
	int error = make_outputs(&got, count, classes);
	if (error == 0)
		error = run_rows(backend, model, rows, count, &got, stop);
	for (uint64_t i = 0; error == 0 && i < count; i++)
		compare_row(verdict, classes, got.labels[i], got.scores + i * classes,
			oracle->labels[i], oracle->scores + i * classes);
	gpu_offload_backend_destroy(backend);
	free(got.labels);
	free(got.scores);
	return error;
}

static int verify_rows(const struct infer_options *options, const struct gpu_offload_model *model,
	const float *rows, uint64_t count, struct infer_verify_result *result,
	const atomic_bool *stop)
{
	struct gpu_offload_backend *backend;
	struct outputs oracle = { 0 };
	int error = make_outputs(&oracle, count, gpu_offload_model_classes(model));
	if (error == 0)
		error = make_backend(&backend, options, 0, model, VERIFY_ROWS, result->message);
	if (error == 0) {
		error = run_rows(backend, model, rows, count, &oracle, stop);
		gpu_offload_backend_destroy(backend);
	}
	for (size_t kind = 1; error == 0 && kind < INFER_SERIES_MAX; kind++) {
		if (wanted(options, kind))
			error = verify_one(options, kind, model, rows, count, &oracle,
				&result->verdicts[result->verdicts_count++], stop);
	}
	free(oracle.labels);
	free(oracle.scores);
	return error;
}

bool infer_verdict_agrees(const struct infer_verdict *verdict)
{
	return verdict->ran && verdict->labels_differ == 0 && verdict->scores_differ == 0;
}

/* message: INFER_MESSAGE_SIZE. */
static int make_rows(float **rows, const char *option, uint64_t count, uint32_t inputs,
	uint64_t seed, char *message, const atomic_bool *stop)
{
	if (count * inputs > INFER_NUMBERS_MAX) {
		snprintf(message, INFER_MESSAGE_SIZE,
			"--%s: got %" PRIu64 ", expected at most %u rows of %u inputs", option,
			count, INFER_NUMBERS_MAX / inputs, inputs);
		return -EINVAL;
	}
	*rows = infer_rows_make(count, inputs, seed, stop);
	if (*rows != NULL)
		return 0;
	return atomic_load_explicit(stop, memory_order_relaxed) ? -EINTR : -ENOMEM;
}

/* Random rows and those of the files, one behind the other. */
static int gather_rows(const struct infer_options *options, uint32_t inputs,
	const char *const files[], size_t count, float **rows, struct infer_verify_result *result,
	const atomic_bool *stop)
{
	result->rows = options->records;
	int error = make_rows(rows, "records", options->records, inputs, options->model.seed,
		result->message, stop);
	for (size_t i = 0; error == 0 && i < count; i++) {
		float *more, *all;
		uint64_t more_count;
		error = infer_rows_load(files[i], inputs, &more, &more_count, result->message);
		if (error != 0)
			break;
		all = realloc(*rows, (result->rows + more_count) * inputs * sizeof(float));
		if (all == NULL) {
			error = -ENOMEM;
		} else {
			memcpy(all + result->rows * inputs, more,
				more_count * inputs * sizeof(float));
			*rows = all;
			result->rows += more_count;
		}
		free(more);
	}
	return error;
}

int infer_verify_run(const struct infer_options *options, const char *const files[], size_t count,
	struct infer_verify_result *result, const atomic_bool *stop)
{
	struct gpu_offload_model *model;
	float *rows = NULL;
	memset(result, 0, sizeof(*result));
	int error = infer_model_load(&model, &options->model, result->message);
	if (error != 0)
		return error;
	gpu_offload_model_info(model, &result->model);
	error = gather_rows(options, result->model.inputs, files, count, &rows, result, stop);
	if (error == 0)
		error = verify_rows(options, model, rows, result->rows, result, stop);
	free(rows);
	gpu_offload_model_destroy(model);
	return error;
}

/* ---- bench -------------------------------------------------------------------------------- */

static int measure(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch,
	uint64_t time_ns, double tsc_hz, const atomic_bool *stop, struct infer_point *point)
{
	struct base_histogram *histogram = calloc(1, sizeof(*histogram));
	if (histogram == NULL)
		return -ENOMEM;
	base_histogram_reset(histogram);
	int error = run_batch(backend, batch); /* caches, clocks and pages are warm then */
	uint64_t cpu = bench_clock_thread_ns(), begin = base_cycles(), now = begin;
	uint64_t wait = (uint64_t)((double)time_ns * tsc_hz / 1e9);
	while (error == 0 && (now - begin < wait || histogram->count < 3)) {
		uint64_t start = now;
		error = run_batch(backend, batch);
		if (error == 0 && atomic_load_explicit(stop, memory_order_relaxed))
			error = -EINTR; /* no partner: a hint */
		now = base_cycles();
		base_histogram_add(histogram, now - start);
	}
	double seconds = (double)(now - begin) / tsc_hz, us = 1e6 / tsc_hz;
	double cpu_seconds = (double)(bench_clock_thread_ns() - cpu) / 1e9;
	double flows = (double)batch->count * (double)histogram->count;
	*point = (struct infer_point){
		.batch = batch->count,
		.batches = histogram->count,
		.flows_per_s = flows / seconds,
		.flows_per_cpu_s = flows / cpu_seconds,
		.p50_us = (double)base_histogram_quantile(histogram, 0.5) * us,
		.p99_us = (double)base_histogram_quantile(histogram, 0.99) * us,
		.p999_us = (double)base_histogram_quantile(histogram, 0.999) * us,
		.cpu = cpu_seconds / seconds,
	};
	free(histogram);
	return error;
}

static int bench_one(const struct infer_options *options, size_t kind,
	const struct gpu_offload_model *model, const float *rows, struct infer_series *series,
	const atomic_bool *stop)
{
	double tsc_hz = bench_clock_tsc_hz();
	struct gpu_offload_backend *backend;
	struct gpu_offload_batch batch = { .inputs = rows };
	*series = (struct infer_series){ .name = kinds[kind].name };
	if (make_backend(&backend, options, kind, model, options->batch_max, series->why) != 0)
		return 0;
	series->ran = true;
	batch.labels = calloc(options->batch_max, sizeof(*batch.labels));
	int error = batch.labels == NULL ? -ENOMEM : 0;
	for (uint32_t size = options->batch_min; error == 0 && size <= options->batch_max;
		size *= 2) {
		batch.count = size;
		error = measure(backend, &batch, options->time_ns, tsc_hz, stop,
			&series->points[series->points_count++]);
	}
	gpu_offload_backend_destroy(backend);
	free(batch.labels);
	return error;
}

/* The least batch from which on the series is faster than the CPU's. */
static void find_break_even(struct infer_bench_result *result)
{
	const struct infer_series *cpu = NULL;
	for (uint32_t i = 0; i < result->series_count; i++) {
		struct infer_series *series = &result->series[i];
		if (strcmp(series->name, "cpu") == 0)
			cpu = series;
		else if (cpu != NULL && cpu->ran && strncmp(series->name, "cuda", 4) == 0)
			for (uint32_t p = series->points_count; p-- > 0;) {
				if (series->points[p].flows_per_s <= cpu->points[p].flows_per_s)
					break;
				series->break_even = series->points[p].batch;
			}
	}
}

int infer_bench_run(const struct infer_options *options, struct infer_bench_result *result,
	const atomic_bool *stop)
{
	struct gpu_offload_model *model;
	memset(result, 0, sizeof(*result));
	if (options->batch_min > options->batch_max) {
		snprintf(result->message, sizeof(result->message),
			"--batch-min: got %u, expected at most --batch-max (%u)",
			options->batch_min, options->batch_max);
		return -EINVAL;
	}
	int error = infer_model_load(&model, &options->model, result->message);
	if (error != 0)
		return error;
	gpu_offload_model_info(model, &result->model);
	float *rows = NULL;
	error = make_rows(&rows, "batch-max", options->batch_max, result->model.inputs,
		options->model.seed, result->message, stop);
	for (size_t kind = 0; error == 0 && kind < INFER_SERIES_MAX; kind++) {
		if (wanted(options, kind))
			error = bench_one(options, kind, model, rows,
				&result->series[result->series_count++], stop);
	}
	find_break_even(result);
	free(rows);
	gpu_offload_model_destroy(model);
	return error;
}
