/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The captures of a run: loaded and scheduled once, or streamed by a reader in each pass. Nothing
 * of this is used when a port is the source, except that `plan` says when time started.
 *
 * Threads: the main thread's; workers see trace and schedule (immutable) and the reader's rings.
 */
#pragma once

#include "pipeline/reader.h"
#include "pipeline/schedule.h"

typedef void input_progress(void *context, const char *what, uint64_t done, uint64_t total);

struct input {
	const struct pipeline_config *config;
	const atomic_bool *stop;
	input_progress *progress; /* NULL for silence */
	void *progress_context;
	bool streams;
	struct plan plan; /* of one pass and copy; of a stream only the start, until it is over */

	struct traces_trace *trace; /* NULL unless played from memory */
	struct schedule schedule;

	struct reader *reader; /* of the pass at work, or of the next one when it is open already */
	bool passed;           /* a pass is over */
};

/* The fields up to progress_context are set by the caller, the rest is zero. passes: how often the
 * captures will be read at least. PIPELINE_EXIT_OK, or why not, with result->message. */
enum pipeline_exit input_open(struct input *input, uint64_t passes, struct pipeline_result *result);
void input_close(struct input *input);

/* Put what is known of the captures into a result. */
void input_describe(const struct input *input, struct pipeline_result *result);

/* Before the threads of a pass are started, and when they have ended: start the reader, stop it. */
enum pipeline_exit input_begin(struct input *input, struct pipeline_result *result);
enum pipeline_exit input_end(struct input *input, struct pipeline_result *result);

/* Longest frame that packet buffers are to be made for. */
uint32_t input_frame_max(const struct input *input, const struct pipeline_config *config);
