/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void traces_load_options_defaults(struct traces_load_options *options)
{
	memset(options, 0, sizeof(*options));
}

static int read_file(struct traces_loader *loader, const char *path, uint16_t file)
{
	int error = traces_loader_open(loader, path, file);
	while (error == 0)
		error = traces_loader_fill(loader);
	traces_loader_close(loader);
	return error == TRACES_LOAD_STOP ? 0 : error;
}

enum { CHUNK_BYTES = 1 << 20 };

static uint64_t stored_bytes(const char *const *paths, size_t paths_count)
{
	uint64_t total = 0;
	for (size_t i = 0; i < paths_count; i++) {
		struct stat status;
		if (strcmp(paths[i], "-") == 0 || stat(paths[i], &status) != 0 ||
			!S_ISREG(status.st_mode))
			return 0;
		total += (uint64_t)status.st_size;
	}
	return total;
}

static int read_files(struct traces_loader *loader, const char *const *paths, size_t paths_count)
{
	uint64_t limit = loader->options->packets_max;
	for (size_t i = 0; i < paths_count; i++) {
		size_t count = traces_trace_count(loader->trace);
		loader->packets_left = UINT64_MAX;
		if (limit > 0) /* before a merge, any of a file's first `limit` may be needed */
			loader->packets_left = loader->options->merge ? limit : limit - count;
		if (loader->packets_left == 0)
			break;
		int error = read_file(loader, paths[i], (uint16_t)i);
		if (error)
			return error;
	}
	if (loader->options->merge && paths_count > 1) {
		int error = traces_trace_merge(loader->trace, paths_count);
		if (error)
			return traces_loader_fail(loader, error, "out of memory for the merge");
	}
	struct traces_buffer *records = &loader->trace->records;
	if (limit > 0 && traces_trace_count(loader->trace) > limit)
		records->used = limit * sizeof(struct traces_record);
	return 0;
}

/* -ENOMEM. */
static int count_records(
	struct traces_load_report *report, const struct traces_trace *trace, size_t files_count)
{
	uint64_t *last_ns = calloc(files_count + 1, sizeof(*last_ns));
	if (last_ns == NULL)
		return -ENOMEM;
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	uint64_t wire_bytes = 0, captured_bytes = 0, snaplen_cut = 0, time_backwards = 0;
	for (size_t i = 0; i < count; i++) {
		const struct traces_record *record = &records[i];
		wire_bytes += record->wire_len;
		captured_bytes += record->cap_len;
		snaplen_cut += record->cap_len < record->wire_len;
		time_backwards += record->time_ns < last_ns[record->file];
		last_ns[record->file] = record->time_ns;
	}
	free(last_ns);
	report->packets = count;
	report->wire_bytes = wire_bytes;
	report->captured_bytes = captured_bytes;
	report->snaplen_cut = snaplen_cut;
	report->time_backwards = time_backwards;
	return 0;
}

int traces_trace_load(struct traces_trace **out, const char *const *paths, size_t paths_count,
	const struct traces_load_options *options, struct traces_load_report *report)
{
	struct traces_load_options defaults;
	traces_load_options_defaults(&defaults);
	memset(report, 0, sizeof(*report));
	struct traces_loader loader = {
		.options = options != NULL ? options : &defaults,
		.report = report,
		.path = "captures",
		.pause_bytes = UINT64_MAX,
		.chunk_bytes = CHUNK_BYTES,
	};
	if (paths_count == 0 || paths_count > UINT16_MAX)
		return traces_loader_fail(
			&loader, -EINVAL, "1 to %u files can be loaded", UINT16_MAX);
	if (traces_trace_create(&loader.trace) != 0)
		return traces_loader_fail(&loader, -ENOMEM, "out of memory");
	loader.total_bytes = stored_bytes(paths, paths_count);
	int error = read_files(&loader, paths, paths_count);
	if (error == 0) {
		traces_trace_trim(loader.trace);
		error = count_records(report, loader.trace, paths_count);
		if (error)
			traces_loader_fail(&loader, error, "out of memory");
	}
	if (error) {
		traces_trace_destroy(loader.trace);
		return error;
	}
	*out = loader.trace;
	return 0;
}
