/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf infer verify and sheaf infer bench: print and write what infer_bench.c found. */
#include "pipeline/command.h"
#include "pipeline/infer_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static enum pipeline_exit refuse(struct command *command, int error, bool lost, const char *message)
{
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (lost)
		return command_error(command, PIPELINE_EXIT_LOST, "%s", message);
	if (message[0] == '\0')
		return command_error(command, PIPELINE_EXIT_RUN, "%s", strerror(-error));
	bool usage = strncmp(message, "--", 2) == 0 || strncmp(message, "got ", 4) == 0;
	return command_error(
		command, usage ? PIPELINE_EXIT_USAGE : PIPELINE_EXIT_INPUT, "%s", message);
}

static void print_model(FILE *stream, const struct gpu_offload_model_info *model)
{
	fprintf(stream,
		"model      %s: %" PRIu32 " inputs, %" PRIu32 " classes, %" PRIu64
		" parameters, %" PRIu64 " multiply-adds a row\n",
		model->text, model->inputs, model->classes, model->parameters, model->macs);
}

static void put_model(
	struct results_builder *builder, json_t *object, const struct gpu_offload_model_info *model)
{
	json_t *entry = json_object();
	results_put_text(builder, entry, "text", model->text);
	results_put_count(builder, entry, "inputs", model->inputs);
	results_put_count(builder, entry, "classes", model->classes);
	results_put_count(builder, entry, "parameters", model->parameters);
	results_put_count(builder, entry, "macs", model->macs);
	results_put(builder, object, "model", entry);
}

static json_t *start_document(const struct command *command, struct results_builder *builder,
	const char *schema, const struct options *options,
	const struct gpu_offload_model_info *model)
{
	json_t *object = command_document_begin(command, builder, schema);
	results_put_count(builder, object, "seed", options->infer.model.seed);
	put_model(builder, object, model);
	return object;
}

static json_t *end_document(struct results_builder *builder, json_t *object)
{
	if (!builder->failed)
		return object;
	json_decref(object);
	return NULL;
}

/* ---- verify ------------------------------------------------------------------------------- */

static void print_verdicts(FILE *stream, const struct infer_verify_result *result)
{
	print_model(stream, &result->model);
	fprintf(stream, "rows       %" PRIu64 ", against cpu-ref\n\n", result->rows);
	for (uint32_t i = 0; i < result->verdicts_count; i++) {
		const struct infer_verdict *verdict = &result->verdicts[i];
		if (!verdict->ran) {
			fprintf(stream, "%-16s not run: %s\n", verdict->name, verdict->why);
			continue;
		}
		fprintf(stream,
			"%-16s %s: %" PRIu64 " labels differ, %" PRIu64 " at near ties; %" PRIu64
			" rows of other scores, worst %.2g; %" PRIu64 " beyond 32-bit floats; %s\n",
			verdict->name, infer_verdict_agrees(verdict) ? "agrees" : "DISAGREES",
			verdict->labels_differ, verdict->near_ties, verdict->scores_differ,
			verdict->worst, verdict->overflows, verdict->why);
	}
}

static json_t *verify_document(const struct command *command, const struct options *options,
	const struct infer_verify_result *result)
{
	struct results_builder builder = { .failed = false };
	json_t *array = json_array(), *object = start_document(command, &builder,
					      "sheaf-infer-verify-1", options, &result->model);
	results_put_count(&builder, object, "rows", result->rows);
	for (uint32_t i = 0; i < result->verdicts_count; i++) {
		const struct infer_verdict *verdict = &result->verdicts[i];
		json_t *entry = json_object();
		results_put_text(&builder, entry, "backend", verdict->name);
		results_put_text(&builder, entry, "why", verdict->why);
		results_put_flag(&builder, entry, "ran", verdict->ran);
		results_put_count(&builder, entry, "rows", verdict->rows);
		results_put_count(&builder, entry, "labels_differ", verdict->labels_differ);
		results_put_count(&builder, entry, "near_ties", verdict->near_ties);
		results_put_count(&builder, entry, "scores_differ", verdict->scores_differ);
		results_put_count(&builder, entry, "overflows", verdict->overflows);
		results_put_real(&builder, entry, "worst", verdict->worst);
		results_append(&builder, array, entry);
	}
	results_put(&builder, object, "backends", array);
	return end_document(&builder, object);
}

/* A check that checked nothing is not passed. */
static bool any_ran(const struct infer_verify_result *result)
{
	for (uint32_t i = 0; i < result->verdicts_count; i++) {
		if (result->verdicts[i].ran)
			return true;
	}
	return false;
}

enum pipeline_exit command_infer_verify(struct command *command, struct options *options)
{
	struct infer_verify_result result;
	int error = infer_verify_run(
		&options->infer, options->files, options->files_count, &result, command->stop);
	if (error != 0)
		return refuse(command, error, result.lost, result.message);
	FILE *stream = command_table_stream(command, options);
	if (stream != NULL)
		print_verdicts(stream, &result);
	enum pipeline_exit code = command_json_write(command, options,
		options->json != NULL ? verify_document(command, options, &result) : NULL);
	if (code == PIPELINE_EXIT_OK && !any_ran(&result))
		code = command_error(command, PIPELINE_EXIT_RUN,
			"infer verify: no back end could be compared with cpu-ref");
	for (uint32_t i = 0; i < result.verdicts_count && code == PIPELINE_EXIT_OK; i++) {
		const struct infer_verdict *verdict = &result.verdicts[i];
		if (verdict->ran && !infer_verdict_agrees(verdict))
			code = command_error(command, PIPELINE_EXIT_BOOKS,
				"%s does not agree with cpu-ref", verdict->name);
	}
	return code;
}

/* ---- bench -------------------------------------------------------------------------------- */

static void print_series(FILE *stream, const struct infer_series *series)
{
	if (!series->ran) {
		fprintf(stream, "\n%s: not run: %s\n", series->name, series->why);
		return;
	}
	fprintf(stream, "\n%s", series->name);
	if (series->wait != NULL)
		fprintf(stream, ", wait %s, %" PRIu32 " in flight", series->wait, series->inflight);
	fprintf(stream, ": %s\n%8s %12s %12s %10s %10s %10s %6s\n", series->why, "batch", "flows/s",
		"/CPU s", "p50 us", "p99 us", "p99.9 us", "CPU %");
	for (uint32_t i = 0; i < series->points_count; i++) {
		const struct infer_point *point = &series->points[i];
		fprintf(stream, "%8" PRIu32 " %12.0f %12.0f %10.2f %10.2f %10.2f %6.0f\n",
			point->batch, point->flows_per_s, point->flows_per_cpu_s, point->p50_us,
			point->p99_us, point->p999_us, point->cpu * 100);
	}
	if (series->break_even != 0)
		fprintf(stream, "faster than one core of this CPU from batches of %" PRIu32 " on\n",
			series->break_even);
	else if (strncmp(series->name, "cuda", 4) == 0)
		fprintf(stream, "not faster than one core of this CPU at the greatest batch\n");
}

static json_t *series_document(struct results_builder *builder, const struct infer_series *series)
{
	json_t *object = json_object(), *points = json_array();
	results_put_text(builder, object, "backend", series->name);
	if (series->wait != NULL)
		results_put_text(builder, object, "wait", series->wait);
	else
		results_put(builder, object, "wait", json_null());
	results_put_count(builder, object, "inflight", series->inflight);
	results_put_text(builder, object, "why", series->why);
	results_put_flag(builder, object, "ran", series->ran);
	results_put_count(builder, object, "break_even_batch", series->break_even);
	for (uint32_t i = 0; i < series->points_count; i++) {
		const struct infer_point *point = &series->points[i];
		json_t *entry = json_object();
		results_put_count(builder, entry, "batch", point->batch);
		results_put_count(builder, entry, "batches", point->batches);
		results_put_real(builder, entry, "flows_per_s", point->flows_per_s);
		results_put_real(builder, entry, "flows_per_cpu_s", point->flows_per_cpu_s);
		results_put_real(builder, entry, "p50_us", point->p50_us);
		results_put_real(builder, entry, "p99_us", point->p99_us);
		results_put_real(builder, entry, "p999_us", point->p999_us);
		results_put_real(builder, entry, "cpu", point->cpu);
		results_append(builder, points, entry);
	}
	results_put(builder, object, "points", points);
	return object;
}

static void print_rates(FILE *stream, const struct infer_bench_result *result)
{
	const struct gpu_offload_gpu_rates *rates = &result->rates;
	if (!result->has_rates) {
		if (result->rates_why[0] != '\0')
			fprintf(stream, "\nrates: not measured: %s\n", result->rates_why);
		return;
	}
	fprintf(stream,
		"\nrates of %s%s\ncopies of %" PRIu64
		" MiB of pinned memory, GB/s: %.2f to the device, %.2f back, %.2f both at once\n"
		"%8s %12s\n",
		rates->is_double ? "TEST DOUBLE of " : "", rates->name, rates->copy_bytes >> 20,
		rates->to_device / 1e9, rates->to_host / 1e9, rates->both / 1e9, "batch",
		"flows/s from device memory");
	for (uint32_t i = 0; i < rates->sizes_count; i++)
		fprintf(stream, "%8" PRIu32 " %12.0f\n", rates->rows[i], rates->rows_per_s[i]);
}

static void put_rates(
	struct results_builder *builder, json_t *object, const struct infer_bench_result *result)
{
	const struct gpu_offload_gpu_rates *rates = &result->rates;
	json_t *entry = json_object(), *points = json_array();
	results_put_flag(builder, entry, "ran", result->has_rates);
	results_put_text(builder, entry, "why", result->rates_why);
	results_put_flag(builder, entry, "test_double", rates->is_double);
	results_put_text(builder, entry, "name", rates->name);
	results_put_count(builder, entry, "copy_bytes", rates->copy_bytes);
	results_put_real(builder, entry, "to_device_bytes_per_s", rates->to_device);
	results_put_real(builder, entry, "to_host_bytes_per_s", rates->to_host);
	results_put_real(builder, entry, "both_bytes_per_s", rates->both);
	for (uint32_t i = 0; i < rates->sizes_count; i++) {
		json_t *point = json_object();
		results_put_count(builder, point, "batch", rates->rows[i]);
		results_put_real(builder, point, "flows_per_s", rates->rows_per_s[i]);
		results_append(builder, points, point);
	}
	results_put(builder, entry, "resident", points);
	results_put(builder, object, "rates", entry);
}

static json_t *bench_document(const struct command *command, const struct options *options,
	const struct infer_bench_result *result)
{
	struct results_builder builder = { .failed = false };
	json_t *array = json_array(), *object = start_document(command, &builder,
					      "sheaf-infer-bench-1", options, &result->model);
	for (uint32_t i = 0; i < result->series_count; i++)
		results_append(&builder, array, series_document(&builder, &result->series[i]));
	results_put(&builder, object, "backends", array);
	if (result->has_rates || result->rates_why[0] != '\0')
		put_rates(&builder, object, result);
	else
		results_put(&builder, object, "rates", json_null());
	return end_document(&builder, object);
}

static bool any_measured(const struct infer_bench_result *result)
{
	for (uint32_t i = 0; i < result->series_count; i++) {
		if (result->series[i].ran)
			return true;
	}
	return false;
}

enum pipeline_exit command_infer_bench(struct command *command, struct options *options)
{
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"infer bench: got %s, expected options", options->files[0]);
	struct infer_bench_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	enum pipeline_exit code = PIPELINE_EXIT_OK;
	int error = infer_bench_run(&options->infer, result, command->stop);
	FILE *stream = command_table_stream(command, options);
	if (error != 0)
		code = refuse(command, error, result->lost, result->message);
	if (code == PIPELINE_EXIT_OK && stream != NULL) {
		print_model(stream, &result->model);
		for (uint32_t i = 0; i < result->series_count; i++)
			print_series(stream, &result->series[i]);
		print_rates(stream, result);
	}
	if (code == PIPELINE_EXIT_OK)
		code = command_json_write(command, options,
			options->json != NULL ? bench_document(command, options, result) : NULL);
	if (code == PIPELINE_EXIT_OK && !any_measured(result))
		code = command_error(
			command, PIPELINE_EXIT_RUN, "infer bench: no back end could be measured");
	free(result);
	return code;
}
