/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { INPUT_BYTES = 256 << 10, MAGIC_BYTES = 16, STOP_CHECK_MS = 100 };

enum stream_kind { STREAM_PLAIN, STREAM_GZIP, STREAM_ZSTD };

struct traces_stream {
	int fd;
	bool owns_fd;
	bool interrupted;
	const atomic_bool *stop; /* may be NULL */
	enum stream_kind kind;
	uint64_t stored_size; /* 0 = unknown */
	uint64_t stored_done;
	bool input_ended;
	bool frame_open; /* inside a gzip member or zstd frame */
	bool frames_seen;
	size_t input_position;
	size_t input_fill;
	z_stream gzip;
	ZSTD_DStream *zstd;
	char damage[80];
	uint8_t input[INPUT_BYTES];
};

struct magic {
	uint8_t size;
	uint8_t bytes[8];
	const char *name;
};

/* Known, and not read: a named refusal helps more than "not a capture". */
static const struct magic foreign_magics[] = {
	{ 6, { 0xfd, '7', 'z', 'X', 'Z', 0 }, "xz-compressed data (decompress it first)" },
	{ 3, { 'B', 'Z', 'h' }, "bzip2-compressed data (decompress it first)" },
	{ 4, { 0x04, 0x22, 0x4d, 0x18 }, "lz4-compressed data (decompress it first)" },
	{ 4, { 'P', 'K', 3, 4 }, "a zip archive (unpack it first)" },
	{ 8, { 's', 'n', 'o', 'o', 'p', 0, 0, 0 }, "a snoop file (convert it to pcap first)" },
	{ 4, { 'G', 'M', 'B', 'U' }, "a Network Monitor file (convert it to pcap first)" },
};

static void stream_damaged(struct traces_stream *stream, const char *what, const char *detail)
{
	snprintf(stream->damage, sizeof(stream->damage), "%s%s%s", what, detail ? ": " : "",
		detail ? detail : "");
}

/* False when the caller wants no more. A pipe is waited for in steps, so that it may change its
 * mind; what else is there to say about the file, read() says. */
static bool wait_for_input(struct traces_stream *stream)
{
	struct pollfd poll_fd = { .fd = stream->fd, .events = POLLIN };
	int ready = 0;
	while (stream->stop != NULL && ready == 0) {
		/* relaxed: a hint, nothing is read behind it */
		stream->interrupted = atomic_load_explicit(stream->stop, memory_order_relaxed);
		if (stream->interrupted)
			return false;
		ready = stream->stored_size > 0 ? 1 : poll(&poll_fd, 1, STOP_CHECK_MS);
		if (ready < 0 && errno == EINTR)
			ready = 0;
	}
	return true;
}

/* One read of the stored file; 0 at its end, on damage or when interrupted. */
static size_t stored_read(struct traces_stream *stream, uint8_t *bytes, size_t size)
{
	if (stream->input_ended)
		return 0;
	if (!wait_for_input(stream)) {
		stream->input_ended = true;
		return 0;
	}
	if (size > 1 << 30)
		size = 1 << 30;
	ssize_t got;
	do {
		got = read(stream->fd, bytes, size);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		if (got < 0)
			stream_damaged(stream, "read error", strerror(errno));
		stream->input_ended = true;
		return 0;
	}
	stream->stored_done += (uint64_t)got;
	return (size_t)got;
}

static bool input_refill(struct traces_stream *stream)
{
	if (stream->input_position < stream->input_fill)
		return true;
	stream->input_position = 0;
	stream->input_fill = stored_read(stream, stream->input, INPUT_BYTES);
	return stream->input_fill > 0;
}

static size_t plain_read(struct traces_stream *stream, uint8_t *bytes, size_t size)
{
	size_t held = stream->input_fill - stream->input_position;
	size_t done = held < size ? held : size;
	memcpy(bytes, stream->input + stream->input_position, done);
	stream->input_position += done;
	while (done < size) {
		size_t got = stored_read(stream, bytes + done, size - done);
		if (got == 0)
			break;
		done += got;
	}
	return done;
}

/* Between members: padding zeros are passed over. False at the end of the data. */
static bool gzip_next_member(struct traces_stream *stream)
{
	while (input_refill(stream)) {
		if (stream->frames_seen && stream->input[stream->input_position] == 0) {
			stream->input_position++;
			continue;
		}
		if (inflateReset(&stream->gzip) != Z_OK) {
			stream_damaged(stream, "gzip data cannot be read", NULL);
			return false;
		}
		stream->frame_open = true;
		return true;
	}
	return false;
}

static size_t gzip_read(struct traces_stream *stream, uint8_t *bytes, size_t size)
{
	z_stream *gzip = &stream->gzip;
	size_t done = 0;
	while (done < size && stream->damage[0] == '\0') {
		if (!stream->frame_open && !gzip_next_member(stream))
			break;
		if (!input_refill(stream)) {
			if (stream->damage[0] == '\0')
				stream_damaged(stream, "gzip data ends inside a member", NULL);
			break;
		}
		uInt room = size - done > 1u << 30 ? 1u << 30 : (uInt)(size - done);
		gzip->next_in = stream->input + stream->input_position;
		gzip->avail_in = (uInt)(stream->input_fill - stream->input_position);
		gzip->next_out = bytes + done;
		gzip->avail_out = room;
		bool at_start = gzip->total_in == 0;
		int result = inflate(gzip, Z_NO_FLUSH);
		done += room - gzip->avail_out;
		stream->input_position = stream->input_fill - gzip->avail_in;
		if (result == Z_STREAM_END) {
			stream->frame_open = false;
			stream->frames_seen = true;
		} else if (result != Z_OK && result != Z_BUF_ERROR) {
			bool garbage = at_start && stream->frames_seen;
			stream_damaged(stream,
				garbage ? "garbage after gzip data" : "gzip data damaged",
				garbage ? NULL : gzip->msg);
		}
	}
	return done;
}

static size_t zstd_read(struct traces_stream *stream, uint8_t *bytes, size_t size)
{
	ZSTD_outBuffer out = { bytes, size, 0 };
	while (out.pos < out.size && stream->damage[0] == '\0') {
		bool input_left = input_refill(stream);
		if (!input_left && !stream->frame_open)
			break;
		ZSTD_inBuffer in = { stream->input, stream->input_fill, stream->input_position };
		size_t out_before = out.pos, in_before = in.pos;
		size_t result = ZSTD_decompressStream(stream->zstd, &out, &in);
		stream->input_position = in.pos;
		if (ZSTD_isError(result)) {
			bool garbage = stream->frames_seen && !stream->frame_open;
			stream_damaged(stream,
				garbage ? "garbage after zstd data" : "zstd data damaged",
				garbage ? NULL : ZSTD_getErrorName(result));
			break;
		}
		stream->frame_open = result != 0;
		if (result == 0)
			stream->frames_seen = true;
		if (out.pos == out_before && in.pos == in_before && !input_left) {
			if (stream->damage[0] == '\0')
				stream_damaged(stream, "zstd data ends inside a frame", NULL);
			break;
		}
	}
	return out.pos;
}

size_t traces_stream_read(struct traces_stream *stream, uint8_t *bytes, size_t size)
{
	if (size == 0)
		return 0;
	switch (stream->kind) {
	case STREAM_GZIP:
		return gzip_read(stream, bytes, size);
	case STREAM_ZSTD:
		return zstd_read(stream, bytes, size);
	case STREAM_PLAIN:
	default:
		return plain_read(stream, bytes, size);
	}
}

uint64_t traces_stream_skip(struct traces_stream *stream, uint64_t size)
{
	uint8_t scratch[16384];
	uint64_t done = 0;
	while (done < size) {
		size_t want = size - done < sizeof(scratch) ? size - done : sizeof(scratch);
		size_t got = traces_stream_read(stream, scratch, want);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

static bool has_magic(const struct traces_stream *stream, const void *magic, size_t size)
{
	return stream->input_fill >= size && memcmp(stream->input, magic, size) == 0;
}

/* Told by the first bytes, whatever the file is called. */
static int stream_detect(struct traces_stream *stream, char *message, size_t message_size)
{
	for (size_t i = 0; i < BASE_ARRAY_COUNT(foreign_magics); i++) {
		const struct magic *magic = &foreign_magics[i];
		if (has_magic(stream, magic->bytes, magic->size)) {
			snprintf(message, message_size, "not a capture: %s", magic->name);
			return -EBADMSG;
		}
	}
	if (has_magic(stream, "\x1f\x8b", 2)) {
		stream->kind = STREAM_GZIP;
		return inflateInit2(&stream->gzip, 15 + 16) == Z_OK ? 0 : -ENOMEM;
	}
	bool skippable = stream->input_fill >= 4 && (stream->input[0] & 0xf0) == 0x50 &&
			 memcmp(stream->input + 1, "\x2a\x4d\x18", 3) == 0;
	if (skippable || has_magic(stream, "\x28\xb5\x2f\xfd", 4)) {
		stream->kind = STREAM_ZSTD;
		stream->zstd = ZSTD_createDStream();
		return stream->zstd ? 0 : -ENOMEM;
	}
	return 0;
}

static int stream_open(struct traces_stream *stream, const char *path)
{
	stream->owns_fd = strcmp(path, "-") != 0;
	stream->fd = stream->owns_fd ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (stream->fd < 0)
		return -errno;
	struct stat status;
	if (fstat(stream->fd, &status) != 0)
		return -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	/* Standard input may stand anywhere in its file: its size says nothing. */
	if (S_ISREG(status.st_mode) && stream->owns_fd) {
		stream->stored_size = (uint64_t)status.st_size;
		posix_fadvise(stream->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	}
	return 0;
}

int traces_stream_create(struct traces_stream **out, const char *path, const atomic_bool *stop,
	char *message, size_t message_size)
{
	struct traces_stream *stream = calloc(1, sizeof(*stream));
	if (stream == NULL)
		return -ENOMEM;
	stream->fd = -1;
	stream->stop = stop;
	int error = stream_open(stream, path);
	if (error == 0) {
		/* A pipe may hand over its first bytes one by one. */
		while (stream->input_fill < MAGIC_BYTES) {
			size_t got = stored_read(stream, stream->input + stream->input_fill,
				INPUT_BYTES - stream->input_fill);
			if (got == 0)
				break;
			stream->input_fill += got;
		}
		error = stream->interrupted ? -EINTR : stream_detect(stream, message, message_size);
	}
	if (error) {
		traces_stream_destroy(stream);
		return error;
	}
	*out = stream;
	return 0;
}

void traces_stream_destroy(struct traces_stream *stream)
{
	if (stream == NULL)
		return;
	if (stream->kind == STREAM_GZIP)
		inflateEnd(&stream->gzip);
	ZSTD_freeDStream(stream->zstd);
	if (stream->owns_fd && stream->fd >= 0)
		close(stream->fd);
	free(stream);
}

const char *traces_stream_damage(const struct traces_stream *stream)
{
	return stream->damage[0] ? stream->damage : NULL;
}

bool traces_stream_interrupted(const struct traces_stream *stream)
{
	return stream->interrupted;
}

uint64_t traces_stream_size(const struct traces_stream *stream)
{
	return stream->kind == STREAM_PLAIN ? stream->stored_size : 0;
}

uint64_t traces_stream_stored_done(const struct traces_stream *stream)
{
	return stream->stored_done;
}

bool traces_stream_compressed(const struct traces_stream *stream)
{
	return stream->kind != STREAM_PLAIN;
}
