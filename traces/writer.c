/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/tuples.h"
#include "traces/write.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_ROOM_BYTES = 64 };
static_assert(TRACES_RECORD_BYTES_MAX + RECORD_ROOM_BYTES <= TRACES_OUTPUT_ROOM_MAX,
	"any record fits into the buffer");

static const struct traces_write_ops *const formats[TRACES_FORMATS_COUNT] = {
	[TRACES_FORMAT_PCAP_US] = &traces_pcap_write_ops,
	[TRACES_FORMAT_PCAP_NS] = &traces_pcap_write_ops,
	[TRACES_FORMAT_PCAPNG] = &traces_pcapng_write_ops,
	[TRACES_FORMAT_IPSUM] = &traces_ipsum_write_ops,
	[TRACES_FORMAT_IPSUM_BINARY] = &traces_ipsum_write_ops,
	[TRACES_FORMAT_TUPLES] = &traces_tuples_write_ops,
};

void traces_writer_options_defaults(
	struct traces_writer_options *options, const char *path, bool nanoseconds)
{
	*options = (struct traces_writer_options){
		.format = traces_format_from_path(path, nanoseconds),
		.compression = traces_compression_from_path(path),
		.snaplen = TRACES_RECORD_BYTES_MAX,
		.nanoseconds = nanoseconds,
	};
}

int traces_writer_fail(struct traces_writer *writer, int error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(writer->message, sizeof(writer->message), format, arguments);
	va_end(arguments);
	return error;
}

static void writer_free(struct traces_writer *writer)
{
	if (writer->ops->destroy != NULL)
		writer->ops->destroy(writer);
	traces_output_abandon(writer->output);
	free(writer);
}

int traces_writer_open(
	struct traces_writer **out, const char *path, const struct traces_writer_options *options)
{
	if ((unsigned int)options->format >= TRACES_FORMATS_COUNT)
		return -EINVAL;
	struct traces_writer *writer = calloc(1, sizeof(*writer));
	if (writer == NULL)
		return -ENOMEM;
	writer->ops = formats[options->format];
	writer->options = *options;
	uint32_t *snaplen = &writer->options.snaplen;
	if (*snaplen == 0 || *snaplen > TRACES_RECORD_BYTES_MAX)
		*snaplen = TRACES_RECORD_BYTES_MAX;
	int error = traces_output_create(&writer->output, path, options->compression);
	if (error) {
		writer_free(writer);
		return error;
	}
	traces_output_watch(writer->output, options->stop);
	*out = writer;
	return 0;
}

int traces_writer_create(
	struct traces_writer **out, const char *path, enum traces_format format, uint32_t snaplen)
{
	struct traces_writer_options options;
	traces_writer_options_defaults(&options, path, format == TRACES_FORMAT_PCAP_NS);
	options.format = format;
	options.snaplen = snaplen;
	return traces_writer_open(out, path, &options);
}

static int writer_start(struct traces_writer *writer, enum base_link link)
{
	if (writer->started)
		return 0;
	writer->started = true;
	return writer->ops->start(writer, link);
}

int traces_writer_write_batch(struct traces_writer *writer, const struct traces_batch *batch)
{
	if (writer->error || batch->count == 0)
		return writer->error;
	int error = writer_start(writer, batch->records[0].link);
	if (error == 0)
		error = writer->ops->packets(writer, batch);
	writer->error = error;
	return error;
}

int traces_writer_write(struct traces_writer *writer, uint64_t time_ns, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len)
{
	if ((unsigned int)link >= BASE_LINKS_COUNT && writer->error == 0)
		writer->error = -EPROTONOSUPPORT;
	struct traces_record record = {
		.time_ns = time_ns,
		.cap_len = cap_len,
		.wire_len = wire_len,
		.link = (uint8_t)link,
	};
	struct traces_batch batch = { .records = &record, .bytes = frame, .count = 1 };
	return traces_writer_write_batch(writer, &batch);
}

void traces_writer_losses(const struct traces_writer *writer, struct traces_writer_losses *losses)
{
	*losses = writer->losses;
}

const char *traces_writer_message(const struct traces_writer *writer)
{
	return writer->message;
}

void traces_writer_abandon(struct traces_writer *writer)
{
	if (writer != NULL)
		writer_free(writer);
}

int traces_writer_close(struct traces_writer *writer)
{
	if (writer == NULL)
		return 0;
	int error = writer->error;
	/* Without packets the file is still one that every reader takes. */
	if (error == 0)
		error = writer_start(writer, BASE_LINK_ETHERNET);
	if (error == 0 && writer->ops->finish != NULL)
		error = writer->ops->finish(writer);
	if (error == 0) {
		error = traces_output_close(writer->output);
		writer->output = NULL;
	}
	writer_free(writer);
	return error;
}

/* ---- names ---- */

static const char *const compression_endings[] = {
	[TRACES_COMPRESSION_NONE] = "",
	[TRACES_COMPRESSION_GZIP] = ".gz",
	[TRACES_COMPRESSION_ZSTD] = ".zst",
};

bool traces_name_ends(const char *name, size_t length, const char *end)
{
	size_t end_length = strlen(end);
	return length >= end_length && memcmp(name + length - end_length, end, end_length) == 0;
}

enum traces_compression traces_compression_from_path(const char *path)
{
	size_t length = strlen(path);
	if (traces_name_ends(path, length, compression_endings[TRACES_COMPRESSION_GZIP]))
		return TRACES_COMPRESSION_GZIP;
	if (traces_name_ends(path, length, compression_endings[TRACES_COMPRESSION_ZSTD]))
		return TRACES_COMPRESSION_ZSTD;
	return TRACES_COMPRESSION_NONE;
}

size_t traces_plain_name_length(const char *path)
{
	return strlen(path) - strlen(compression_endings[traces_compression_from_path(path)]);
}

enum traces_format traces_format_from_path(const char *path, bool nanoseconds)
{
	size_t length = traces_plain_name_length(path);
	if (traces_name_ends(path, length, ".pcapng"))
		return TRACES_FORMAT_PCAPNG;
	if (traces_name_ends(path, length, ".dump") || traces_name_ends(path, length, ".ipsum"))
		return TRACES_FORMAT_IPSUM;
	if (traces_tuples_named(path))
		return TRACES_FORMAT_TUPLES;
	return nanoseconds || traces_name_ends(path, length, ".ns.pcap") ? TRACES_FORMAT_PCAP_NS
									 : TRACES_FORMAT_PCAP_US;
}
