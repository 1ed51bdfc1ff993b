/* SPDX-License-Identifier: BSD-2-Clause */
/* Several capture files as one stream: what traces_trace_load makes of them, in constant memory. */
#include "traces/packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct files;

struct input {
	struct files *files;
	struct traces_load_options options;
	struct traces_load_report report;
	uint64_t done_bytes, total_bytes; /* stored, for progress */
	uint64_t last_ns;                 /* of the file's latest packet, for time_backwards */
};

struct files {
	struct traces_packets packets;
	struct traces_packets *from; /* the merge, or the file being read; NULL: none is open */
	const char *const *paths;
	struct traces_load_options options; /* of the caller */
	struct traces_load_report *report;  /* of all of them */
	bool merged;
	uint64_t packets_left;
	size_t inputs_opened;
	size_t inputs_count;
	struct input inputs[];
};

static void show_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct input *input = context;
	const struct files *files = input->files;
	input->done_bytes = done_bytes;
	input->total_bytes = total_bytes;
	uint64_t done = 0, total = 0;
	bool known = files->merged || files->inputs_count == 1;
	for (size_t i = 0; i < files->inputs_opened; i++) {
		done += files->inputs[i].done_bytes;
		total += files->inputs[i].total_bytes;
		known = known && files->inputs[i].total_bytes > 0;
	}
	files->options.progress(files->options.progress_context, done, known ? total : 0);
}

/* What the readers met, in the order of the files. */
static void add_findings(struct traces_load_report *sum, const struct traces_load_report *part)
{
	sum->skipped_oversize += part->skipped_oversize;
	sum->skipped_link += part->skipped_link;
	sum->time_clamped += part->time_clamped;
	sum->time_missing += part->time_missing;
	sum->repeated_headers += part->repeated_headers;
	sum->fields_ignored += part->fields_ignored;
	sum->packets_folded += part->packets_folded;
	sum->nanoseconds = sum->nanoseconds || part->nanoseconds;
	for (uint64_t i = 0; i < part->damages_count; i++) {
		if (i < TRACES_DAMAGES_MAX && sum->damages_count < TRACES_DAMAGES_MAX)
			sum->damages[sum->damages_count] = part->damages[i];
		sum->damages_count++;
	}
	if (sum->skipped_link_name[0] == '\0')
		memcpy(sum->skipped_link_name, part->skipped_link_name,
			sizeof(sum->skipped_link_name));
	if (sum->field_strange[0] == '\0')
		memcpy(sum->field_strange, part->field_strange, sizeof(sum->field_strange));
}

static void update_report(struct files *files)
{
	struct traces_load_report *report = files->report;
	struct traces_load_report sum = {
		.packets = report->packets,
		.wire_bytes = report->wire_bytes,
		.captured_bytes = report->captured_bytes,
		.snaplen_cut = report->snaplen_cut,
		.time_backwards = report->time_backwards,
	};
	for (size_t i = 0; i < files->inputs_opened; i++)
		add_findings(&sum, &files->inputs[i].report);
	*report = sum;
}

static void count_batch(struct files *files, const struct traces_batch *batch)
{
	struct traces_load_report *report = files->report;
	for (size_t i = 0; i < batch->count; i++) {
		const struct traces_record *record = &batch->records[i];
		struct input *input = &files->inputs[record->file];
		report->wire_bytes += record->wire_len;
		report->captured_bytes += record->cap_len;
		report->snaplen_cut += record->cap_len < record->wire_len;
		report->time_backwards += record->time_ns < input->last_ns;
		input->last_ns = record->time_ns;
	}
	report->packets += batch->count;
}

/* Open the next file; its message becomes the whole's. */
static int open_next(struct files *files, struct traces_packets **out)
{
	size_t number = files->inputs_opened;
	struct input *input = &files->inputs[number];
	input->files = files;
	input->options = files->options;
	input->options.packets_max = files->packets_left == UINT64_MAX ? 0 : files->packets_left;
	input->options.progress = files->options.progress == NULL ? NULL : show_progress;
	input->options.progress_context = input;
	files->inputs_opened++;
	int error = traces_packets_open_nth(
		out, files->paths[number], (uint16_t)number, &input->options, &input->report);
	update_report(files);
	if (error)
		traces_packets_fail(&files->packets, error, "%s", input->report.message);
	return error;
}

static int open_merged(struct files *files)
{
	struct traces_packets **streams =
		calloc(files->inputs_count, sizeof(struct traces_packets *));
	size_t opened = 0;
	int error = streams == NULL ? -ENOMEM : 0;
	while (error == 0 && opened < files->inputs_count) {
		error = open_next(files, &streams[opened]);
		opened += error == 0;
	}
	if (error == 0)
		error = traces_packets_merge(&files->from, streams, files->inputs_count);
	for (size_t i = 0; i < opened && error != 0; i++)
		traces_packets_destroy(streams[i]);
	free(streams);
	return error;
}

/* Next packets of the files one after the other. */
static int pull_in_turn(struct files *files, struct traces_batch *batch)
{
	for (;;) {
		int error = 0;
		if (files->from == NULL && files->packets_left > 0 &&
			files->inputs_opened < files->inputs_count)
			error = open_next(files, &files->from);
		if (error != 0 || files->from == NULL)
			return error;
		error = traces_packets_pull(&files->packets, files->from, batch);
		if (error != 0 || batch->count > 0)
			return error;
		traces_packets_destroy(files->from);
		files->from = NULL;
	}
}

/* Behind the limit a merge reads on: each file is judged by its own first packets_max packets. */
static int pull_merged(struct files *files, struct traces_batch *batch)
{
	int error;
	do {
		error = traces_packets_pull(&files->packets, files->from, batch);
	} while (error == 0 && batch->count > 0 && files->packets_left == 0);
	if (batch->count > files->packets_left)
		batch->count = files->packets_left;
	return error;
}

static int files_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct files *files = (struct files *)packets;
	int error = files->merged ? pull_merged(files, batch) : pull_in_turn(files, batch);
	if (error == 0) {
		count_batch(files, batch);
		if (files->packets_left != UINT64_MAX)
			files->packets_left -= batch->count;
	}
	update_report(files);
	return error;
}

static void files_destroy(struct traces_packets *packets)
{
	struct files *files = (struct files *)packets;
	traces_packets_destroy(files->from);
	free(files);
}

static const struct traces_packets_ops files_ops = { files_next, files_destroy };

int traces_packets_open_files(struct traces_packets **out, const char *const *paths,
	size_t paths_count, const struct traces_load_options *options,
	struct traces_load_report *report)
{
	struct traces_load_options defaults;
	traces_load_options_defaults(&defaults);
	memset(report, 0, sizeof(*report));
	if (paths_count == 0 || paths_count > TRACES_MERGE_MAX)
		return -EINVAL;
	struct files *files = calloc(1, sizeof(*files) + paths_count * sizeof(struct input));
	if (files == NULL)
		return -ENOMEM;
	files->packets.ops = &files_ops;
	files->paths = paths;
	files->options = options != NULL ? *options : defaults;
	files->report = report;
	files->inputs_count = paths_count;
	files->merged = files->options.merge && paths_count > 1;
	files->packets_left =
		files->options.packets_max == 0 ? UINT64_MAX : files->options.packets_max;
	int error = files->merged ? open_merged(files) : open_next(files, &files->from);
	if (error) {
		memcpy(report->message, files->packets.message, sizeof(report->message));
		files_destroy(&files->packets);
		return error;
	}
	*out = &files->packets;
	return 0;
}
