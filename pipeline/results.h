/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to results*.c and the commands: the results document (docs/results.md) as Jansson value,
 * so that several can go into one, and what a document says about how it was made.
 *
 * Keys keep their order, integers all their digits; reals have RESULTS_REAL_DIGITS.
 */
#pragma once

#include "pipeline/pipeline.h"

#include <jansson.h>

enum { RESULTS_REAL_DIGITS = 9 };

/* What pipeline_run cannot know. Members may be NULL: null in the document. */
struct results_origin {
	const char *command; /* as it was typed */
	const char *date;    /* ISO 8601, UTC */
	const char *cpu;
	const char *kernel;
	uint32_t cpus; /* that the process may use; 0: not known */
};

#define RESULTS_SCHEMA              "sheaf-result-1"
#define RESULTS_COMPARISON_SCHEMA   "sheaf-comparison-1"
#define RESULTS_BENCH_TABLES_SCHEMA "sheaf-bench-tables-1"
#define RESULTS_TRACE_SCHEMA        "sheaf-trace-info-1"
#define RESULTS_TRANSFORM_SCHEMA    "sheaf-trace-transform-1"

/* NULL when out of memory. origin may be NULL. */
json_t *results_document(const struct pipeline_config *config, const struct pipeline_result *result,
	const struct results_origin *origin);

/* {"path", "packets", ...} of one capture. report and info are of that file alone. */
json_t *results_trace_info(
	const char *path, const struct traces_load_report *report, const struct traces_info *info);

/* Text with a newline at its end; the caller frees. NULL when out of memory or value is NULL. */
char *results_text(const json_t *value);

/* How an ablation set is written: "none", "prefetch,runs". */
void results_ablations_format(unsigned int ablations, char *text, size_t text_size);

/* Sections of the document, for results_json.c. */
struct results_builder {
	const struct pipeline_config *config;
	const struct pipeline_result *result;
	const struct results_origin *origin;
	bool failed; /* out of memory: the document is incomplete */
};

json_t *results_run_section(struct results_builder *builder);
json_t *results_infer_options(struct results_builder *builder);
json_t *results_infer_section(struct results_builder *builder);
void results_infer_print(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream);
json_t *results_cost_section(struct results_builder *builder);

/* Take ownership of value (NULL: out of memory, remembered). */
void results_put(struct results_builder *builder, json_t *object, const char *key, json_t *value);
void results_append(struct results_builder *builder, json_t *array, json_t *value);
void results_put_count(
	struct results_builder *builder, json_t *object, const char *key, uint64_t value);
/* null when value is not finite */
void results_put_real(
	struct results_builder *builder, json_t *object, const char *key, double value);
/* null when text is NULL; bytes that are not UTF-8 become '?' */
void results_put_text(
	struct results_builder *builder, json_t *object, const char *key, const char *text);
void results_put_flag(struct results_builder *builder, json_t *object, const char *key, bool value);

/* results_counters.c. "hardware_counters": values per operation, or null when there is none. */
void results_put_counters(
	struct results_builder *builder, json_t *object, const struct counters_sum *sum);
/* "hardware_counters: why" for a list of what was not measured, unless all were. */
void results_append_uncounted(
	struct results_builder *builder, json_t *array, const struct counters_sum *sum);
/* "not_measured": a list with that, or an empty one. */
void results_put_uncounted(
	struct results_builder *builder, json_t *object, const struct counters_sum *sum);
/* For people: a table's head, its rows, and what is not in it. Nothing when nothing was counted,
 * but for the last. */
void results_counters_head(FILE *stream, const struct counters_sum *sum, const char *operation);
void results_counters_row(FILE *stream, const char *name, const struct counters_sum *sum);
/* All of it in one line or two. */
void results_counters_print_line(FILE *stream, const struct counters_sum *sum);
void results_counters_print_why(FILE *stream, const struct counters_sum *sum);

/* Names of a chain's functions are keys: a second "stats" is "stats#2". */
void results_chain_key(
	const struct pipeline_result *result, uint32_t index, char *key, size_t key_size);

static inline double results_ratio(uint64_t a, uint64_t b)
{
	return b == 0 ? 0 : (double)a / (double)b;
}
