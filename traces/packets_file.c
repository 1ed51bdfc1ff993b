/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture file as a stream of packets. */
#include "traces/packets.h"
#include "traces/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct file_packets {
	struct traces_packets packets;
	struct traces_loader loader;
	struct traces_load_options options;
	struct traces_trace *chunk;
	uint64_t last_ns; /* for time_backwards */
	bool at_end;      /* chunk holds the last packets */
	bool waiting;     /* chunk was filled and not handed out */
};

static void count_chunk(struct file_packets *file, const struct traces_batch *batch)
{
	struct traces_load_report *report = file->loader.report;
	for (size_t i = 0; i < batch->count; i++) {
		const struct traces_record *record = &batch->records[i];
		report->wire_bytes += record->wire_len;
		report->captured_bytes += record->cap_len;
		report->snaplen_cut += record->cap_len < record->wire_len;
		report->time_backwards += record->time_ns < file->last_ns;
		file->last_ns = record->time_ns;
	}
	report->packets += batch->count;
}

/* Until there are packets, or the end. 0 or an error with its message in the report. */
static int fill(struct file_packets *file)
{
	traces_trace_clear(file->chunk);
	while (traces_trace_count(file->chunk) == 0 && !file->at_end) {
		traces_trace_clear(file->chunk);
		int error = traces_loader_fill(&file->loader);
		if (error < 0)
			return error;
		file->at_end = error == TRACES_LOAD_STOP;
	}
	return 0;
}

static int file_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct file_packets *file = (struct file_packets *)packets;
	int error = file->waiting ? 0 : fill(file);
	if (error)
		return traces_packets_fail(packets, error, "%s", file->loader.report->message);
	file->waiting = false;
	*batch = traces_trace_batch(file->chunk);
	count_chunk(file, batch);
	return 0;
}

static void file_destroy(struct traces_packets *packets)
{
	struct file_packets *file = (struct file_packets *)packets;
	traces_loader_close(&file->loader);
	traces_trace_destroy(file->chunk);
	free(file);
}

static const struct traces_packets_ops file_ops = { file_next, file_destroy };

static uint64_t stored_bytes(const char *path)
{
	struct stat status;
	if (strcmp(path, "-") == 0 || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return 0;
	return (uint64_t)status.st_size;
}

int traces_packets_open_nth(struct traces_packets **out, const char *path, uint16_t number,
	const struct traces_load_options *options, struct traces_load_report *report)
{
	struct file_packets *file = calloc(1, sizeof(*file));
	memset(report, 0, sizeof(*report));
	if (file == NULL)
		return -ENOMEM;
	file->packets.ops = &file_ops;
	if (options != NULL)
		file->options = *options;
	else
		traces_load_options_defaults(&file->options);
	file->options.bytes_max = 0; /* nothing is held */
	if (traces_trace_create(&file->chunk) != 0) {
		free(file);
		return -ENOMEM;
	}
	file->loader = (struct traces_loader){
		.trace = file->chunk,
		.options = &file->options,
		.report = report,
		.pause_bytes = TRACES_BATCH_BYTES,
		.chunk_bytes = TRACES_BATCH_BYTES,
		.packets_left =
			file->options.packets_max == 0 ? UINT64_MAX : file->options.packets_max,
		.total_bytes = stored_bytes(path),
	};
	int error = traces_loader_open(&file->loader, path, number);
	if (error == 0)
		error = fill(file); /* what is wrong from the start is known at once */
	file->waiting = true;
	if (error) {
		file_destroy(&file->packets);
		return error;
	}
	*out = &file->packets;
	return 0;
}

int traces_packets_open(struct traces_packets **out, const char *path,
	const struct traces_load_options *options, struct traces_load_report *report)
{
	return traces_packets_open_nth(out, path, 0, options, report);
}
