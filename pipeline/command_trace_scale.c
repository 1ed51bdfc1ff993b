/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace scale. */
#include "pipeline/command_trace_transform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { NOTE_SIZE = 512 };

static enum pipeline_exit check(struct transform *transform)
{
	const struct traces_scale_options *scale = &transform->options->transform.scale;
	struct stat status;
	const char *path = transform->inputs[0];
	if (scale->copies == 1 && scale->speed == 1)
		return command_error(transform->command, PIPELINE_EXIT_USAGE,
			"trace scale: got nothing to do, expected --overlay, --speed or both");
	if (scale->copies == 1)
		return PIPELINE_EXIT_OK;
	if (strcmp(path, "-") == 0)
		return command_error(transform->command, PIPELINE_EXIT_USAGE,
			"trace scale: got standard input, expected a file: --overlay reads it once "
			"for every copy");
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return command_error(transform->command, PIPELINE_EXIT_USAGE,
			"trace scale: got %s, expected a file: --overlay reads it once for every "
			"copy",
			path);
	return PIPELINE_EXIT_OK;
}

/* The capture once more, for a copy: all of it, or the copy's part. */
static enum pipeline_exit open_copy(
	struct transform *transform, uint32_t copy, struct traces_slice_report *report)
{
	const struct traces_scale_options *scale = &transform->options->transform.scale;
	struct traces_slice_options options = {
		.from = { .given = true, .time_ns = copy * scale->window_ns },
		.to = { .given = true, .time_ns = (copy + UINT64_C(1)) * scale->window_ns },
		.by_clock = true,
	};
	enum pipeline_exit code = transform_open(transform, transform->inputs[0]);
	if (code != PIPELINE_EXIT_OK || scale->window_ns == 0)
		return code;
	struct traces_packets **stream = &transform->streams[copy], *slice;
	if (traces_packets_slice(&slice, *stream, &options, report) != 0)
		return command_error(transform->command, PIPELINE_EXIT_RUN, "out of memory");
	*stream = slice;
	return PIPELINE_EXIT_OK;
}

static enum pipeline_exit build(struct transform *transform, struct traces_slice_report *slices,
	struct traces_scale_report *report)
{
	const struct traces_scale_options *scale = &transform->options->transform.scale;
	struct traces_packets *made = NULL;
	enum pipeline_exit code = PIPELINE_EXIT_OK;
	for (uint32_t copy = 0; copy < scale->copies && code == PIPELINE_EXIT_OK; copy++)
		code = open_copy(transform, copy, &slices[copy]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(transform, &transform->before, &transform->streams[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(transform,
			traces_packets_scale(&made, transform->streams, scale, report), &made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(transform, &transform->after, &transform->packets);
	/* Division makes times finer; so may a shift. */
	transform->nanoseconds = transform->nanoseconds || scale->speed != 1 ||
				 (scale->copies > 1 && scale->shift_ns % 1000 != 0);
	return code;
}

/* Nobody shall take the result for what it is not. */
static void write_note(const struct traces_scale_options *scale, char *note)
{
	size_t used = 0;
	if (scale->copies > 1 && scale->window_ns == 0)
		used += (size_t)snprintf(note, NOTE_SIZE,
			"An overlay is not a real trace: %u copies of one capture repeat the same "
			"flows and bursts.",
			scale->copies);
	else if (scale->copies > 1)
		used += (size_t)snprintf(note, NOTE_SIZE,
			"An overlay is not a real trace: %u parts of one capture are played at "
			"once (before: the first).",
			scale->copies);
	if (scale->speed != 1)
		snprintf(note + used, NOTE_SIZE - used,
			"%sPlayed %g times as fast as captured: pauses and round trips change with "
			"it, timeouts do not.",
			used > 0 ? " " : "", scale->speed);
}

static enum pipeline_exit report_scale(
	struct transform *transform, const struct traces_scale_report *report)
{
	const struct traces_scale_options *scale = &transform->options->transform.scale;
	struct results_builder builder = { .failed = false };
	char note[NOTE_SIZE] = "";
	json_t *settings = json_object(), *told = json_object();
	results_put_count(&builder, settings, "overlay", scale->copies);
	results_put_count(&builder, settings, "overlay_shift_ns", scale->shift_ns);
	results_put_count(&builder, settings, "slice_ns", scale->window_ns);
	results_put_real(&builder, settings, "speed", scale->speed);
	results_put_count(&builder, told, "copies_empty", report->copies_empty);
	results_put_count(&builder, told, "time_clamped", report->time_clamped);
	write_note(scale, note);
	return transform_report(transform, &builder, settings, told, note);
}

enum pipeline_exit command_trace_scale(struct command *command, struct options *options)
{
	const struct traces_scale_options *scale = &options->transform.scale;
	struct traces_scale_report report = { 0 };
	struct transform transform;
	struct traces_slice_report *slices = calloc(scale->copies, sizeof(*slices));
	enum pipeline_exit code =
		transform_begin(&transform, command, options, "trace scale", scale->copies);
	if (code == PIPELINE_EXIT_OK && slices == NULL)
		code = command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	if (code == PIPELINE_EXIT_OK)
		code = check(&transform);
	if (code == PIPELINE_EXIT_OK)
		code = build(&transform, slices, &report);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK) {
		transform_tell(&transform, report.time_clamped,
			"times before 1970 or after 2262: set to the nearest");
		transform_tell(&transform, scale->window_ns > 0 ? report.copies_empty : 0,
			"copies are empty: the capture ends before their part");
		code = report_scale(&transform, &report);
	}
	code = transform_end(&transform, code, "kept behind it");
	free(slices);
	return code;
}
