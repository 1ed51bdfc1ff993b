/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to main.c and command_*.c: what each command does once its options are read.
 *
 * Commands print to the streams they are given and return an exit code; only main.c knows stdout,
 * the clock and exit(). Errors are one line each: command_error.
 */
#pragma once

#include "pipeline/options.h"
#include "pipeline/progress.h"
#include "pipeline/results.h"

struct command {
	FILE *out, *err;
	bool terminal; /* err is one: progress may be shown */
	const atomic_bool *stop;
	const char *typed; /* the command line, for the results */
	const char *date;  /* ISO 8601, UTC */
};

enum pipeline_exit command_replay(struct command *command, struct options *options);
enum pipeline_exit command_compare(struct command *command, struct options *options);
enum pipeline_exit command_trace_info(struct command *command, struct options *options);
enum pipeline_exit command_trace_gen(struct command *command, struct options *options);
enum pipeline_exit command_trace_convert(struct command *command, struct options *options);
enum pipeline_exit command_trace_anonymize(struct command *command, struct options *options);
enum pipeline_exit command_trace_scale(struct command *command, struct options *options);
enum pipeline_exit command_trace_slice(struct command *command, struct options *options);
enum pipeline_exit command_trace_merge(struct command *command, struct options *options);
enum pipeline_exit command_trace_filter(struct command *command, struct options *options);
enum pipeline_exit command_trace_shuffle(struct command *command, struct options *options);
enum pipeline_exit command_trace_regroup(struct command *command, struct options *options);
enum pipeline_exit command_bench_lb(struct command *command, struct options *options);
enum pipeline_exit command_bench_deletion(struct command *command, struct options *options);
enum pipeline_exit command_bench_sharing(struct command *command, struct options *options);
enum pipeline_exit command_bench_tables(struct command *command, struct options *options);
enum pipeline_exit command_infer_export(struct command *command, struct options *options);
enum pipeline_exit command_infer_verify(struct command *command, struct options *options);
enum pipeline_exit command_infer_bench(struct command *command, struct options *options);
enum pipeline_exit command_infer_probe(struct command *command, struct options *options);
/* Becomes the report script; returns only when that fails. */
enum pipeline_exit command_report(struct command *command, struct options *options);

/* topic: "replay", "trace gen"; "trace" for the commands of that group; NULL for the overview.
 * USAGE when there is no such topic. */
enum pipeline_exit command_help(struct command *command, const char *topic);
enum pipeline_exit command_version(struct command *command);

/* "sheaf: <message>" in one line; returns the code. */
enum pipeline_exit command_error(
	struct command *command, enum pipeline_exit code, const char *fmt, ...) BASE_PRINTF(3, 4);

/* Write a document to options->json (nothing when that is NULL) and drop it. NULL: out of memory.
 * Files are written beside their name and renamed. */
enum pipeline_exit command_json_write(
	struct command *command, const struct options *options, json_t *document);

/* What a benchmark's document begins with: schema, command, date, cpu. NULL: out of memory, the
 * builder says so. */
json_t *command_document_begin(
	const struct command *command, struct results_builder *builder, const char *schema);

/* Refuse standard input or a pipe that is read twice. where: the command. */
enum pipeline_exit command_check_once(
	struct command *command, const char *where, const char *const *inputs, size_t inputs_count);
/* Refuse an output that is one of the inputs: writing would replace it. where: for the message. */
enum pipeline_exit command_check_output(struct command *command, const char *const *inputs,
	size_t inputs_count, const char *where, const char *output);
/* Refuse an output whose folder is not there before a long run. NULL and "-" are fine. */
enum pipeline_exit command_check_folder(struct command *command, const char *path);
/* The same of --json and all inputs that any command takes. */
enum pipeline_exit command_check_json(struct command *command, const struct options *options);
/* Whether two names are, or would be when they are new, one regular file. */
bool command_same_file(const char *one, const char *other);

/* What may stand next on a command line, for messages: first words of all commands (first NULL), or
 * second words of those that begin with `first`, then `more` (a list, may be NULL):
 * "info, gen or convert". */
void command_words(const char *first, const char *more, char *text, size_t text_size);

/* Where tables go: out, or err when the document or the packets go to out; NULL when quiet. */
FILE *command_table_stream(struct command *command, const struct options *options);

/* Facts of the machine; texts live in the struct. */
struct command_machine {
	char cpu[128], kernel[128];
	uint32_t cpus;
};
void command_machine_read(struct command_machine *machine);
