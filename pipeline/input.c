/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/input.h"

#include "pipeline/memory.h"
#include "pipeline/source.h"
#include "pipeline/stream_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

static void show_load(void *context, uint64_t done, uint64_t total)
{
	const struct input *input = context;
	if (input->progress != NULL)
		input->progress(input->progress_context, "loading", done, total);
}

static enum pipeline_exit load_failed(
	struct pipeline_result *result, int error, enum pipeline_exit otherwise)
{
	if (error == -EINTR) {
		snprintf(result->message, sizeof(result->message), "interrupted");
		result->interrupted = true;
		return PIPELINE_EXIT_INTERRUPTED;
	}
	if (result->message[0] == '\0')
		snprintf(
			result->message, sizeof(result->message), "schedule: %s", strerror(-error));
	return otherwise;
}

static enum pipeline_exit load(struct input *input, struct pipeline_result *result)
{
	const struct pipeline_config *config = input->config;
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.merge = !config->concatenate;
	options.packets_max = config->packets_max;
	options.progress = show_load;
	options.progress_context = input;
	options.stop = input->stop;
	int error = traces_trace_load(
		&input->trace, config->paths, config->paths_count, &options, &result->load);
	if (error != 0) {
		snprintf(result->message, sizeof(result->message), "%s", result->load.message);
		return load_failed(result, error, PIPELINE_EXIT_INPUT);
	}
	error = schedule_create(
		&input->schedule, config, input->trace, input->stop, result->message);
	if (error != 0)
		return load_failed(
			result, error, error == -EINVAL ? PIPELINE_EXIT_USAGE : PIPELINE_EXIT_RUN);
	input->plan = input->schedule.plan;
	return PIPELINE_EXIT_OK;
}

/* A stream keeps its files open, each copy its own: ask the system for so many. */
static enum pipeline_exit allow_files(
	const struct pipeline_config *config, struct pipeline_result *result)
{
	enum { OTHER_FILES = 64 }; /* DPDK ends the process when it cannot open its own */
	struct rlimit limit;
	rlim_t need = (rlim_t)config->overlay;
	if (!config->concatenate)
		need *= config->paths_count;
	need += OTHER_FILES;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
		return PIPELINE_EXIT_OK;
	struct rlimit wanted = { .rlim_cur = need, .rlim_max = limit.rlim_max };
	if (need <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &wanted) == 0)
		return PIPELINE_EXIT_OK;
	snprintf(result->message, sizeof(result->message),
		"stream: %" PRIu32 " copies of %zu captures need %llu open files, the system "
		"allows %llu (ulimit -Hn)",
		config->overlay, config->paths_count, (unsigned long long)need,
		(unsigned long long)limit.rlim_max);
	return PIPELINE_EXIT_RUN;
}

static enum pipeline_exit open_reader(struct input *input, struct pipeline_result *result)
{
	enum pipeline_exit exit =
		reader_create(&input->reader, input->config, input->stop, result->message);
	if (exit == PIPELINE_EXIT_INTERRUPTED) {
		snprintf(result->message, sizeof(result->message), "interrupted");
		result->interrupted = true;
	}
	return exit;
}

enum pipeline_exit input_open(struct input *input, uint64_t passes, struct pipeline_result *result)
{
	const struct pipeline_config *config = input->config;
	struct stream_choice choice;
	struct stream_files files;
	stream_files_look(&files, config->paths, config->paths_count);
	if (stream_choose(&choice, config, &files, passes, pipeline_memory_available(""),
		    result->message) != 0)
		return PIPELINE_EXIT_USAGE;
	input->streams = result->streamed = choice.stream;
	memcpy(result->stream_note, choice.why, sizeof(result->stream_note));
	if (!choice.stream)
		return load(input, result);
	enum pipeline_exit exit = allow_files(config, result);
	if (exit == PIPELINE_EXIT_OK)
		exit = open_reader(input, result);
	if (exit == PIPELINE_EXIT_OK)
		input->plan = *reader_plan(input->reader);
	return exit;
}

void input_close(struct input *input)
{
	reader_destroy(input->reader);
	schedule_destroy(&input->schedule);
	traces_trace_destroy(input->trace);
}

void input_describe(const struct input *input, struct pipeline_result *result)
{
	const struct plan *plan = &input->plan;
	result->trace_packets = plan->packets;
	result->trace_wire_bytes = plan->wire_bytes;
	result->trace_captured_bytes = plan->captured_bytes;
	result->trace_duration_ns = plan->duration_ns;
	result->time_clamped = plan->time_clamped;
	result->gaps_cut = plan->gaps_cut;
	result->gaps_cut_ns = plan->gaps_cut_ns;
	result->flows = plan->flows;
	result->flows_exactness = plan->flows_more ? TRACES_AT_LEAST : TRACES_EXACT;
	if (input->trace != NULL)
		result->trace_memory_bytes = traces_trace_memory_bytes(input->trace) +
					     plan->packets * sizeof(struct schedule_entry);
}

enum pipeline_exit input_begin(struct input *input, struct pipeline_result *result)
{
	if (!input->streams)
		return PIPELINE_EXIT_OK;
	enum pipeline_exit exit = PIPELINE_EXIT_OK;
	if (input->reader == NULL)
		exit = open_reader(input, result);
	if (exit != PIPELINE_EXIT_OK)
		return exit;
	result->reader_chunks = CHUNK_RING_SLOTS;
	result->reader_memory_bytes = reader_memory_bytes(input->reader);
	int error = reader_start(input->reader);
	if (error == 0)
		return PIPELINE_EXIT_OK;
	snprintf(result->message, sizeof(result->message), "cannot start reader thread: %s",
		strerror(-error));
	return PIPELINE_EXIT_RUN;
}

static bool is_same(const struct plan *a, const struct plan *b)
{
	return a->packets == b->packets && a->captured_bytes == b->captured_bytes &&
	       a->duration_ns == b->duration_ns;
}

enum pipeline_exit input_end(struct input *input, struct pipeline_result *result)
{
	if (!input->streams)
		return PIPELINE_EXIT_OK;
	const struct pipeline_config *config = input->config;
	const struct plan *plan = reader_plan(input->reader);
	enum pipeline_exit exit = reader_stop(input->reader, result->message);
	if (exit == PIPELINE_EXIT_OK && input->passed && !is_same(plan, &input->plan)) {
		snprintf(result->message, sizeof(result->message),
			"%.300s: changed between two replays: %" PRIu64 " packets, %" PRIu64
			" before",
			config->paths_count == 1 ? config->paths[0] : "captures", plan->packets,
			input->plan.packets);
		exit = PIPELINE_EXIT_INPUT;
	}
	input->plan = *plan;
	input->passed = true;
	result->load = *reader_report(input->reader);
	input_describe(input, result);
	reader_destroy(input->reader);
	input->reader = NULL;
	/* The workers know whether they were interrupted, and whether they balance. */
	return exit == PIPELINE_EXIT_INTERRUPTED ? PIPELINE_EXIT_OK : exit;
}

uint32_t input_frame_max(const struct input *input, const struct pipeline_config *config)
{
	if (input->streams)
		return source_stream_frame_max(config);
	return config->pad_to_wire ? input->plan.wire_len_max : input->plan.cap_len_max;
}
