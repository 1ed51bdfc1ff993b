/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to command_trace_{scale,select,reorder,transform}.c: what commands that make a capture
 * out of captures have in common. Whatever the codes on the way, it ends with transform_end, which
 * writes (when all were OK), tells what was met, prints what was done, and frees.
 *
 *	struct transform transform;
 *	struct traces_packets *made = NULL;
 *	code = transform_begin(&transform, command, options, "trace slice", 1);
 *	if (code == PIPELINE_EXIT_OK)
 *		code = transform_open(&transform, transform.inputs[0]);
 *	if (code == PIPELINE_EXIT_OK)
 *		code = transform_made(&transform,
 *			traces_packets_slice(&made, transform.streams[0], ...), &made);
 *	if (code == PIPELINE_EXIT_OK)
 *		code = transform_write(&transform);
 *	...				// tell and print
 *	return transform_end(&transform, code);
 */
#pragma once

#include "pipeline/command_trace.h"

struct transform {
	struct command *command;
	struct options *options;
	const char *name;          /* "trace slice" */
	const char *const *inputs; /* of options->files */
	size_t inputs_count;
	const char *output;
	bool nanoseconds; /* write them: asked for, or an input has them, or new times need them */
	uint32_t links;   /* bit per enum base_link that the inputs begin with */

	/* As opened, until a stream is made of them. */
	struct traces_packets **streams;
	size_t streams_count, streams_max;
	struct traces_load_report *reports; /* one for each stream */
	size_t reports_count;

	struct traces_packets *packets; /* what is written */
	struct traces_info_collector *before, *after;
};

/* One input and one output, or --output and inputs; none is both. At most streams_max streams will
 * be opened. */
enum pipeline_exit transform_begin(struct transform *transform, struct command *command,
	struct options *options, const char *name, size_t streams_max);
/* Open an input as one more of transform->streams. */
enum pipeline_exit transform_open(struct transform *transform, const char *path);
/* Count what passes *packets into transform->before or ->after. Nothing when nobody asked. */
enum pipeline_exit transform_observe(struct transform *transform,
	struct traces_info_collector **collector, struct traces_packets **packets);
/* After a constructor that was given transform->streams: its error gets a line; without one, *made
 * is what will be written. */
enum pipeline_exit transform_made(
	struct transform *transform, int error, struct traces_packets **made);
enum pipeline_exit transform_write(struct transform *transform);
/* A line on the error stream when count is not 0: "<output>: <count> <what>". */
void transform_tell(const struct transform *transform, uint64_t count, const char *what);
/* Where people read, or NULL. */
FILE *transform_stream(const struct transform *transform);
/* The table of before and after, notes behind it, and the document. Takes settings and told. note
 * may be NULL. */
enum pipeline_exit transform_report(struct transform *transform, struct results_builder *builder,
	json_t *settings, json_t *told, const char *note);
/* times_policy: "kept where they were", what became of times that ran backwards. Returns code, or
 * what damage makes of it. */
enum pipeline_exit transform_end(
	struct transform *transform, enum pipeline_exit code, const char *times_policy);
