/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: the parts of reading a capture.
 *
 * stream.c       bytes of a file, decompressed, with where and why they stop
 * read_*.c       one per format: bytes in, records out, as much at a time as was asked for
 * loader.c       detection of the format, limits, report
 * load.c         whole files into a trace
 * packets_file.c a file in batches
 */
#pragma once

#include "traces/trace.h"

/* ---- stream.c ---- */

struct traces_stream;

/* "-" is standard input. Compression is told by magic. stop may be NULL. Negative errno; -EBADMSG
 * with a reason in message (never with the path). */
int traces_stream_create(struct traces_stream **out, const char *path, const atomic_bool *stop,
	char *message, size_t message_size);
void traces_stream_destroy(struct traces_stream *stream);

/* Fill `size` bytes; fewer only at the end of the data or before damage. */
size_t traces_stream_read(struct traces_stream *stream, uint8_t *bytes, size_t size);
/* Read and forget; how many there were. */
uint64_t traces_stream_skip(struct traces_stream *stream, uint64_t size);
/* Why the data ended too early; NULL when it did not. */
const char *traces_stream_damage(const struct traces_stream *stream);
/* Whether the data ended because stop was set. */
bool traces_stream_interrupted(const struct traces_stream *stream);
/* Size of the data when it is known beforehand (plain regular file), else 0. */
uint64_t traces_stream_size(const struct traces_stream *stream);
/* Bytes of the stored file consumed so far, and in all (0 when unknown), for progress. */
uint64_t traces_stream_stored_done(const struct traces_stream *stream);
bool traces_stream_compressed(const struct traces_stream *stream);

/* ---- loader.c: one file ---- */

enum { TRACES_HEAD_BYTES = 24 }; /* read before the format is known */

struct traces_loader;

/* A format's reader; its state hangs in loader->state. */
struct traces_reader_ops {
	/* head: the file's first bytes, which the stream does not give again. 0 or an error with
	 * its message. */
	int (*open)(struct traces_loader *loader, const uint8_t *head, size_t head_size);
	/* Append packets to loader->trace until it holds pause_bytes. 0: there may be more,
	 * TRACES_LOAD_STOP: there are no more, or an error with its message. */
	int (*fill)(struct traces_loader *loader);
	void (*close)(struct traces_loader *loader);
};

struct traces_loader {
	struct traces_trace *trace;
	const struct traces_load_options *options;
	struct traces_load_report *report;
	uint64_t pause_bytes;  /* fill returns when the trace holds so many */
	uint64_t chunk_bytes;  /* asked from the stream at a time */
	uint64_t packets_left; /* of the file's, before it is left */
	uint64_t held_bytes;   /* captured bytes in the trace */
	uint64_t done_bytes;   /* stored bytes of the files before this one */
	uint64_t total_bytes;  /* stored bytes of all files, 0 = unknown */

	/* the file being read */
	struct traces_stream *stream;
	const struct traces_reader_ops *reader; /* NULL: none is open */
	void *state;
	const char *path;
	uint16_t file;
	uint64_t packets_seen; /* records met, delivered or skipped */
};

/* Where a reader stops without an error: the data ended, or a limit was reached. */
#define TRACES_LOAD_STOP 1

/* Open a file and find its reader; path must outlive it. 0 or an error with its message. */
int traces_loader_open(struct traces_loader *loader, const char *path, uint16_t file);
/* As reader->fill. */
int traces_loader_fill(struct traces_loader *loader);
/* After open, whether it worked or not. */
void traces_loader_close(struct traces_loader *loader);

/* Write the one-line message; returns error. */
int traces_loader_fail(struct traces_loader *loader, int error, const char *format, ...)
	BASE_PRINTF(3, 4);
/* Locate and count a damage at the packet after packets_seen. */
void traces_loader_damage(struct traces_loader *loader, uint64_t offset, const char *format, ...)
	BASE_PRINTF(3, 4);
/* The data ended: `rest` bytes of an unfinished record, which began at offset. */
void traces_loader_end(
	struct traces_loader *loader, uint64_t offset, uint64_t rest, const char *reason);
int traces_loader_refuse_link(struct traces_loader *loader, uint32_t linktype);
void traces_loader_progress(struct traces_loader *loader);
/* Is there room for one more packet? 0, TRACES_LOAD_STOP, or an error with its message. */
int traces_loader_admit(struct traces_loader *loader, uint32_t cap_len);
/* Copy a packet into the trace. 0, TRACES_LOAD_STOP or an error. */
int traces_loader_add(
	struct traces_loader *loader, struct traces_record *record, const uint8_t *frame);

static inline bool traces_loader_pauses(const struct traces_loader *loader)
{
	return loader->trace->bytes.used + loader->trace->records.used >= loader->pause_bytes;
}

/* ---- read_*.c ---- */

bool traces_pcap_known(const uint8_t head[TRACES_HEAD_BYTES]);
extern const struct traces_reader_ops traces_pcap_reader;
bool traces_pcapng_known(const uint8_t head[TRACES_HEAD_BYTES]);
extern const struct traces_reader_ops traces_pcapng_reader;
bool traces_ipsum_known(const uint8_t head[TRACES_HEAD_BYTES], size_t head_size);
extern const struct traces_reader_ops traces_ipsum_reader;
/* Nothing tells a 5-tuple: traces_tuples_named, or the caller. */
extern const struct traces_reader_ops traces_tuples_reader;
/* Formats that only libpcap knows; opens the path again. */
extern const struct traces_reader_ops traces_libpcap_reader;

/* ---- bytes of either order ---- */

static inline uint16_t traces_get16(const uint8_t *bytes, bool swapped)
{
	uint16_t value;
	__builtin_memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t traces_get32(const uint8_t *bytes, bool swapped)
{
	uint32_t value;
	__builtin_memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap32(value) : value;
}

static inline uint64_t traces_get64(const uint8_t *bytes, bool swapped)
{
	uint64_t value;
	__builtin_memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap64(value) : value;
}
