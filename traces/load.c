/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void traces_load_options_defaults(struct traces_load_options *options)
{
	memset(options, 0, sizeof(*options));
}

int traces_loader_fail(struct traces_loader *loader, int error, const char *format, ...)
{
	char *message = loader->report->message;
	size_t size = sizeof(loader->report->message);
	/* Room for the reason even after a very long path: its end tells more than its start. */
	const char *path = strcmp(loader->path, "-") == 0 ? "standard input" : loader->path;
	size_t length = strlen(path), path_max = size / 2;
	int used = length > path_max ? snprintf(message, size, "...%s: ", path + length - path_max)
				     : snprintf(message, size, "%s: ", path);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message + used, size - (size_t)used, format, arguments);
	va_end(arguments);
	/* One line, whatever the path holds. */
	for (char *c = message; *c; c++) {
		if (*c == '\n' || *c == '\r')
			*c = '?';
	}
	return error;
}

void traces_loader_damage(struct traces_loader *loader, uint64_t offset, const char *format, ...)
{
	struct traces_load_report *report = loader->report;
	if (report->damages_count < TRACES_DAMAGES_MAX) {
		struct traces_damage *damage = &report->damages[report->damages_count];
		damage->file = loader->file;
		damage->packet = loader->packets_seen + 1;
		damage->offset = offset;
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(damage->reason, sizeof(damage->reason), format, arguments);
		va_end(arguments);
	}
	report->damages_count++;
}

void traces_loader_end(
	struct traces_loader *loader, uint64_t offset, uint64_t rest, const char *reason)
{
	/* When decompression stopped first, that is the cause, and the cut record its effect. */
	const char *cause = traces_stream_damage(loader->stream);
	if (cause != NULL || rest > 0)
		traces_loader_damage(loader, offset, "%s", cause != NULL ? cause : reason);
}

int traces_loader_refuse_link(struct traces_loader *loader, uint32_t linktype)
{
	return traces_loader_fail(loader, -EPROTONOSUPPORT, "link type %u (%s) is not supported",
		linktype, traces_link_name(linktype));
}

void traces_loader_progress(struct traces_loader *loader)
{
	const struct traces_load_options *options = loader->options;
	if (options->progress != NULL)
		options->progress(options->progress_context,
			loader->done_bytes + traces_stream_stored_done(loader->stream),
			loader->total_bytes);
}

int traces_loader_admit(struct traces_loader *loader, uint32_t cap_len)
{
	if (BASE_UNLIKELY(traces_trace_count(loader->trace) >= loader->records_limit))
		return TRACES_LOAD_STOP;
	uint64_t bytes_max = loader->options->bytes_max;
	if (BASE_UNLIKELY(bytes_max > 0 && cap_len > bytes_max - loader->held_bytes))
		return traces_loader_fail(loader, -EFBIG,
			"more than %llu captured bytes (the limit that was set)",
			(unsigned long long)bytes_max);
	loader->held_bytes += cap_len;
	loader->packets_seen++;
	return 0;
}

int traces_loader_add(
	struct traces_loader *loader, struct traces_record *record, const uint8_t *frame)
{
	int error = traces_loader_admit(loader, record->cap_len);
	if (error)
		return error;
	error = traces_trace_append(loader->trace, record, frame);
	return error ? traces_loader_fail(loader, error, "out of memory") : 0;
}

static int read_stream(struct traces_loader *loader)
{
	uint8_t head[TRACES_HEAD_BYTES] = { 0 };
	size_t got = traces_stream_read(loader->stream, head, sizeof(head));
	const char *damage = traces_stream_damage(loader->stream);
	if (got >= 4 && traces_pcapng_known(head))
		return traces_pcapng_read(loader, head, got);
	if (got >= 4 && traces_pcap_known(head)) {
		if (got == sizeof(head))
			return traces_pcap_read(loader, head);
		return traces_loader_fail(loader, -EBADMSG, "%s",
			damage ? damage : "file ends inside the pcap file header");
	}
	if (damage)
		return traces_loader_fail(loader, -EBADMSG, "%s", damage);
	if (got == 0)
		return traces_loader_fail(loader, -EBADMSG, "empty file, not a capture");
	bool reopen = strcmp(loader->path, "-") != 0 && traces_stream_size(loader->stream) > 0;
	if (got < sizeof(head) || !reopen)
		return traces_loader_fail(loader, -EBADMSG, "not a capture file");
	return traces_libpcap_read(loader);
}

static int read_file(struct traces_loader *loader)
{
	char reason[128] = "";
	int error = traces_stream_create(&loader->stream, loader->path, reason, sizeof(reason));
	if (error)
		return traces_loader_fail(
			loader, error, "%s", reason[0] ? reason : strerror(-error));
	loader->packets_seen = 0;
	error = read_stream(loader);
	loader->done_bytes += traces_stream_stored_done(loader->stream);
	traces_stream_destroy(loader->stream);
	loader->stream = NULL;
	return error;
}

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
		loader->path = paths[i];
		loader->file = (uint16_t)i;
		loader->records_limit = UINT64_MAX;
		if (limit > 0) /* before a merge, any of a file's first `limit` may be needed */
			loader->records_limit = loader->options->merge ? count + limit : limit;
		if (count >= loader->records_limit)
			break;
		int error = read_file(loader);
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
