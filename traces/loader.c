/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/reader.h"
#include "traces/tuples.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

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
	if (BASE_UNLIKELY(loader->packets_left == 0))
		return TRACES_LOAD_STOP;
	uint64_t bytes_max = loader->options->bytes_max;
	if (BASE_UNLIKELY(bytes_max > 0 && cap_len > bytes_max - loader->held_bytes))
		return traces_loader_fail(loader, -EFBIG,
			"more than %llu captured bytes (the limit that was set)",
			(unsigned long long)bytes_max);
	loader->held_bytes += cap_len;
	loader->packets_left--;
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

/* What does not open as any capture; libpcap may know more than we do. */
static const struct traces_reader_ops *find_other_reader(
	struct traces_loader *loader, size_t got, int *error)
{
	const char *damage = traces_stream_damage(loader->stream);
	bool reopen = strcmp(loader->path, "-") != 0 && traces_stream_size(loader->stream) > 0;
	if (damage == NULL && got == TRACES_HEAD_BYTES && reopen)
		return &traces_libpcap_reader;
	const char *reason = got == 0 ? "empty file, not a capture" : "not a capture file";
	*error = traces_loader_fail(loader, -EBADMSG, "%s", damage != NULL ? damage : reason);
	return NULL;
}

/* The reader of what begins with these bytes; NULL with an error and its message. */
static const struct traces_reader_ops *find_reader(
	struct traces_loader *loader, const uint8_t head[TRACES_HEAD_BYTES], size_t got, int *error)
{
	const char *damage = traces_stream_damage(loader->stream);
	enum traces_input input = loader->options->input;
	if (input == TRACES_INPUT_AUTO && traces_tuples_named(loader->path))
		input = TRACES_INPUT_TUPLES;
	if (input == TRACES_INPUT_TUPLES)
		return &traces_tuples_reader;
	if (input == TRACES_INPUT_IPSUM ||
		(input == TRACES_INPUT_AUTO && traces_ipsum_known(head, got)))
		return &traces_ipsum_reader;
	if (got >= 4 && traces_pcapng_known(head))
		return &traces_pcapng_reader;
	if (got < 4 || !traces_pcap_known(head))
		return find_other_reader(loader, got, error);
	if (got == TRACES_HEAD_BYTES)
		return &traces_pcap_reader;
	*error = traces_loader_fail(loader, -EBADMSG, "%s",
		damage != NULL ? damage : "file ends inside the pcap file header");
	return NULL;
}

int traces_loader_open(struct traces_loader *loader, const char *path, uint16_t file)
{
	uint8_t head[TRACES_HEAD_BYTES] = { 0 };
	char reason[128] = "";
	loader->path = path;
	loader->file = file;
	loader->packets_seen = 0;
	int error = traces_stream_create(
		&loader->stream, path, loader->options->stop, reason, sizeof(reason));
	if (error)
		return traces_loader_fail(
			loader, error, "%s", reason[0] ? reason : strerror(-error));
	size_t got = traces_stream_read(loader->stream, head, sizeof(head));
	if (traces_stream_interrupted(loader->stream))
		return traces_loader_fail(loader, -EINTR, "interrupted");
	const struct traces_reader_ops *reader = find_reader(loader, head, got, &error);
	if (reader == NULL)
		return error;
	error = reader->open(loader, head, got);
	if (error == 0)
		loader->reader = reader;
	if (traces_stream_interrupted(loader->stream))
		return traces_loader_fail(loader, -EINTR, "interrupted");
	return error;
}

int traces_loader_fill(struct traces_loader *loader)
{
	uint64_t damages_count = loader->report->damages_count;
	int error = loader->reader->fill(loader);
	if (BASE_UNLIKELY(traces_stream_interrupted(loader->stream))) {
		/* What looks cut short was not read to its end. */
		loader->report->damages_count = damages_count;
		return traces_loader_fail(loader, -EINTR, "interrupted");
	}
	return error;
}

void traces_loader_close(struct traces_loader *loader)
{
	if (loader->reader != NULL)
		loader->reader->close(loader);
	loader->reader = NULL;
	loader->state = NULL;
	if (loader->stream != NULL)
		loader->done_bytes += traces_stream_stored_done(loader->stream);
	traces_stream_destroy(loader->stream);
	loader->stream = NULL;
}
