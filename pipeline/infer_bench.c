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
} kinds[INFER_KINDS] = {
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
		.waits = 1,
		.inflight = 1,
		.rates = true,
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

/* A back end of one kind, for so many rows in each of so many batches. */
static int make_backend(struct gpu_offload_backend **out, const struct infer_options *options,
	size_t kind, const struct gpu_offload_model *model, uint32_t rows, uint32_t batches,
	enum gpu_offload_wait wait, char *why)
{
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = rows,
		.batches_max = batches,
		.cuda_wait = wait,
		.cuda_device = (int)options->device,
		.cpu_kernels = (enum gpu_offload_cpu_kernels)options->kernels,
		.cuda_mode = kinds[kind].mode,
		.cuda_kernels = (enum gpu_offload_cuda_kernels)options->cuda_kernels,
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
		gpu_offload_backend_wait(backend);
	return error != 0 ? error : batch->status;
}

/* Whether a GPU was lost, and why, for the result's message. */
static bool tell_lost(const struct gpu_offload_backend *backend, const char *name, char *message)
{
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	if (gpu_offload_backend_lost(backend, why, sizeof(why)) == 0)
		return false;
	snprintf(message, INFER_MESSAGE_SIZE, "%s: %.400s", name, why);
	return true;
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

static bool all_finite(const float *scores, uint32_t classes)
{
	for (uint32_t c = 0; c < classes; c++) {
		if (!isfinite(scores[c]))
			return false;
	}
	return true;
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
	struct gpu_offload_backend *ref, const struct gpu_offload_model *model, const float *rows,
	uint64_t count, const struct outputs *oracle, struct infer_verify_result *result,
	const atomic_bool *stop)
{
	uint32_t classes = gpu_offload_model_classes(model);
	struct gpu_offload_backend *backend;
	struct outputs got = { 0 };
	struct infer_verdict *verdict = &result->verdicts[result->verdicts_count++];
	const uint32_t inputs = gpu_offload_model_inputs(model);
	*verdict = (struct infer_verdict){ .name = kinds[kind].name };
	if (make_backend(&backend, options, kind, model, VERIFY_ROWS, 1, GPU_OFFLOAD_WAIT_POLL,
		    verdict->why) != 0)
		return 0;
	verdict->ran = true;
	int error = make_outputs(&got, count, classes);
	if (error == 0)
		error = run_rows(backend, model, rows, count, &got, stop);
	for (uint64_t i = 0; error == 0 && i < count; i++) {
		const float *scores = got.scores + i * classes;
		const float *expected = oracle->scores + i * classes;
		bool finite = all_finite(scores, classes) && all_finite(expected, classes);
		if (!finite && gpu_offload_ref_may_overflow(ref, rows + i * inputs))
			verdict->overflows++;
		else
			compare_row(verdict, classes, got.labels[i], scores, oracle->labels[i],
				expected);
	}
	result->lost |= tell_lost(backend, verdict->name, result->message);
	gpu_offload_backend_destroy(backend);
	free(got.labels);
	free(got.scores);
	return error;
}

static int verify_rows(const struct infer_options *options, const struct gpu_offload_model *model,
	const float *rows, uint64_t count, struct infer_verify_result *result,
	const atomic_bool *stop)
{
	struct gpu_offload_backend *backend = NULL; /* cpu-ref */
	struct outputs oracle = { 0 };
	int error = make_outputs(&oracle, count, gpu_offload_model_classes(model));
	if (error == 0)
		error = make_backend(&backend, options, 0, model, VERIFY_ROWS, 1,
			GPU_OFFLOAD_WAIT_POLL, result->message);
	if (error == 0)
		error = run_rows(backend, model, rows, count, &oracle, stop);
	for (size_t kind = 1; error == 0 && kind < INFER_KINDS; kind++) {
		if (wanted(options, kind))
			error = verify_one(
				options, kind, backend, model, rows, count, &oracle, result, stop);
	}
	gpu_offload_backend_destroy(backend);
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

/* A batch on its way. */
struct flying {
	struct gpu_offload_batch batch;
	uint64_t start; /* cycles */
};

struct meter {
	struct gpu_offload_backend *backend;
	struct flying flying[1 << (INFER_INFLIGHTS - 1)];
	uint32_t count, out; /* batches; with the back end */
	struct base_histogram histogram;
	uint64_t begin, now, wait; /* cycles */
	const atomic_bool *stop;
};

static int hand_over(struct meter *meter, struct flying *flying)
{
	flying->batch.user = flying;
	flying->start = base_cycles();
	int error = gpu_offload_backend_submit(meter->backend, &flying->batch);
	meter->out += error == 0;
	return error;
}

/* Take what is done, and hand it over again while there is time and more is wanted. */
static int take(struct meter *meter, bool more)
{
	struct gpu_offload_batch *done[1 << (INFER_INFLIGHTS - 1)];
	uint32_t count = gpu_offload_backend_poll(meter->backend, done, meter->count);
	int error = 0;
	meter->now = base_cycles();
	if (count == 0)
		gpu_offload_backend_wait(meter->backend);
	for (uint32_t i = 0; i < count; i++) {
		struct flying *flying = done[i]->user;
		meter->out--;
		base_histogram_add(&meter->histogram, meter->now - flying->start);
		if (flying->batch.status != 0)
			error = flying->batch.status;
		else if (error == 0 && atomic_load_explicit(meter->stop, memory_order_relaxed))
			error = -EINTR; /* no partner: a hint */
		if (error == 0 && more &&
			(meter->now - meter->begin < meter->wait ||
				meter->histogram.count < 3 * meter->count))
			error = hand_over(meter, flying);
	}
	return error;
}

/* All batches there and back, again and again. */
static int run_meter(struct meter *meter)
{
	int error = 0;
	base_histogram_reset(&meter->histogram);
	meter->begin = meter->now = base_cycles();
	for (uint32_t i = 0; i < meter->count && error == 0; i++)
		error = hand_over(meter, &meter->flying[i]);
	while (meter->out > 0) {
		int failed = take(meter, error == 0);
		error = error == 0 ? failed : error;
	}
	return error;
}

static int measure(struct meter *meter, uint64_t time_ns, double tsc_hz, struct infer_point *point)
{
	uint32_t rows = meter->flying[0].batch.count;
	meter->wait = 0;
	int error = run_meter(meter); /* caches, clocks and pages are warm then */
	if (error != 0)
		return error;
	uint64_t cpu = bench_clock_process_ns();
	meter->wait = (uint64_t)((double)time_ns * tsc_hz / 1e9);
	error = run_meter(meter);
	double seconds = (double)(meter->now - meter->begin) / tsc_hz, us = 1e6 / tsc_hz;
	double cpu_seconds = (double)(bench_clock_process_ns() - cpu) / 1e9;
	const struct base_histogram *histogram = &meter->histogram;
	double flows = (double)rows * (double)histogram->count;
	*point = (struct infer_point){
		.batch = rows,
		.batches = histogram->count,
		.flows_per_s = flows / seconds,
		.flows_per_cpu_s = flows / cpu_seconds,
		.p50_us = (double)base_histogram_quantile(histogram, 0.5) * us,
		.p99_us = (double)base_histogram_quantile(histogram, 0.99) * us,
		.p999_us = (double)base_histogram_quantile(histogram, 0.999) * us,
		.cpu = cpu_seconds / seconds,
	};
	return error;
}

/* Batches of all sizes; their inputs are the same rows, their labels go to places of their own. */
static int measure_sizes(const struct infer_options *options, struct meter *meter,
	const float *rows, struct infer_series *series)
{
	double tsc_hz = bench_clock_tsc_hz();
	uint32_t *labels = calloc((size_t)options->batch_max * meter->count, sizeof(*labels));
	int error = labels == NULL ? -ENOMEM : 0;
	for (uint32_t size = options->batch_min; error == 0 && size <= options->batch_max;
		size *= 2) {
		for (uint32_t i = 0; i < meter->count; i++)
			meter->flying[i].batch = (struct gpu_offload_batch){
				.count = size,
				.inputs = rows,
				.labels = labels + (size_t)i * options->batch_max,
			};
		error = measure(
			meter, options->time_ns, tsc_hz, &series->points[series->points_count++]);
	}
	free(labels);
	return error;
}

/* rows: batch_max of them, on pages of their own. */
static int bench_one(const struct infer_options *options, size_t kind,
	const struct gpu_offload_model *model, float *rows, struct infer_series *series,
	struct infer_bench_result *result, const atomic_bool *stop)
{
	static const char *const waits[] = { "poll", "yield", "block" };
	enum gpu_offload_wait wait = (enum gpu_offload_wait)series->wait_kind;
	series->name = kinds[kind].name;
	series->wait = kinds[kind].bit == 2 ? waits[wait] : NULL;
	struct meter *meter = calloc(1, sizeof(*meter));
	if (meter == NULL)
		return -ENOMEM;
	meter->count = series->inflight;
	meter->stop = stop;
	int error = 0;
	if (make_backend(&meter->backend, options, kind, model, options->batch_max,
		    series->inflight, wait, series->why) == 0) {
		size_t bytes = (size_t)options->batch_max * gpu_offload_model_inputs(model) *
			       sizeof(float);
		size_t used = strlen(series->why);
		series->ran = true;
		error = gpu_offload_backend_pin(meter->backend, rows, bytes);
		if (error != 0)
			snprintf(series->why + used, sizeof(series->why) - used,
				"; inputs are copied, not pinned: %s", strerror(-error));
		error = measure_sizes(options, meter, rows, series);
		result->lost |= tell_lost(meter->backend, series->name, result->message);
		gpu_offload_backend_destroy(meter->backend);
	}
	free(meter);
	return error;
}

/* One kind of back end in all ways to wait and with all numbers of batches. */
static int bench_kind(const struct infer_options *options, size_t kind,
	const struct gpu_offload_model *model, float *rows, struct infer_bench_result *result,
	const atomic_bool *stop)
{
	bool gpu = kinds[kind].bit == 2;
	int error = 0;
	for (unsigned int wait = 0; wait < (gpu ? INFER_WAITS : 1u); wait++) {
		for (unsigned int i = 0; i < (gpu ? INFER_INFLIGHTS : 1u) && error == 0; i++) {
			if (gpu && ((options->waits >> wait & 1) == 0 ||
					   (options->inflight >> i & 1) == 0))
				continue;
			struct infer_series *series = &result->series[result->series_count++];
			*series = (struct infer_series){ .wait_kind = wait, .inflight = 1u << i };
			error = bench_one(options, kind, model, rows, series, result, stop);
		}
	}
	return error;
}

/* What a GPU does without a batch's way there and back. */
static int bench_rates(const struct infer_options *options, const struct gpu_offload_model *model,
	struct infer_bench_result *result)
{
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = options->batch_max,
		.cuda_device = (int)options->device,
		.cuda_kernels = (enum gpu_offload_cuda_kernels)options->cuda_kernels,
		.cuda_library = options->cuda_library,
		.clock_ns = clock_ns,
		.watchdog_ns = WATCHDOG_NS,
	};
	uint32_t sizes[INFER_POINTS_MAX], count = 0;
	for (uint32_t size = options->batch_min; size <= options->batch_max; size *= 2)
		sizes[count++] = size;
	int error = gpu_offload_gpu_measure(&result->rates, &config, sizes, count, options->time_ns,
		result->rates_why, sizeof(result->rates_why));
	result->has_rates = error == 0;
	if (error != -ETIMEDOUT)
		return 0; /* the reason is told */
	result->lost = true;
	snprintf(result->message, sizeof(result->message), "%.500s", result->rates_why);
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
	for (size_t kind = 0; error == 0 && kind < INFER_KINDS; kind++) {
		if (wanted(options, kind))
			error = bench_kind(options, kind, model, rows, result, stop);
	}
	if (error == 0 && options->rates && (options->backends >> 2 & 1) != 0)
		error = bench_rates(options, model, result);
	find_break_even(result);
	free(rows);
	gpu_offload_model_destroy(model);
	return error;
}
