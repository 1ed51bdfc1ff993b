/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcap. The file's bytes are read once, straight to where they stay, and the records are indexed
 * in place; the 16 bytes of each record header stay between the frames.
 */
#include "traces/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_HEADER_BYTES = 16, TAIL_BYTES_MAX = RECORD_HEADER_BYTES + TRACES_RECORD_BYTES_MAX };

#define MAGIC_MICROSECONDS UINT32_C(0xa1b2c3d4)
#define MAGIC_NANOSECONDS  UINT32_C(0xa1b23c4d)

struct pcap_reader {
	struct traces_loader *loader;
	bool swapped;
	bool lengths_swapped; /* very old writers: wire length first */
	bool lengths_unsure;  /* version 2.3 had both */
	uint32_t fraction_ns;
	uint8_t link;
	size_t start;     /* in the trace's bytes: where this file's records begin */
	size_t position;  /* first byte not yet indexed */
	size_t fill;      /* end of what was read */
	uint64_t skipped; /* bytes of the file that are not kept here */
	bool reserved;    /* room for the records of the whole file was asked for */
	struct traces_record record;
	size_t tail_count; /* while paused: bytes of the record that position stands on */
	uint8_t tail[TAIL_BYTES_MAX];
};

bool traces_pcap_known(const uint8_t head[TRACES_HEAD_BYTES])
{
	uint32_t magic = traces_get32(head, false), other = traces_get32(head, true);
	return magic == MAGIC_MICROSECONDS || magic == MAGIC_NANOSECONDS ||
	       other == MAGIC_MICROSECONDS || other == MAGIC_NANOSECONDS;
}

static uint64_t file_offset(const struct pcap_reader *reader)
{
	return TRACES_HEAD_BYTES + (reader->position - reader->start) + reader->skipped;
}

static int pcap_read_header(struct pcap_reader *reader, const uint8_t head[TRACES_HEAD_BYTES])
{
	uint32_t magic = traces_get32(head, false);
	reader->swapped = magic != MAGIC_MICROSECONDS && magic != MAGIC_NANOSECONDS;
	magic = traces_get32(head, reader->swapped);
	reader->fraction_ns = magic == MAGIC_NANOSECONDS ? 1 : 1000;
	if (magic == MAGIC_NANOSECONDS)
		reader->loader->report->nanoseconds = true;

	/* Byte order of the length pair by version, as tcpdump's history has it. */
	uint16_t major = traces_get16(head + 4, reader->swapped);
	uint16_t minor = traces_get16(head + 6, reader->swapped);
	reader->lengths_swapped = major == 2 && (minor < 3 || minor == 543);
	reader->lengths_unsure = major == 2 && minor == 3;

	/* Upper bits: length of a frame check sequence, its flag, and 10 reserved ones. */
	uint32_t linktype = traces_get32(head + 20, reader->swapped);
	bool reserved = (linktype & UINT32_C(0x03ff0000)) != 0;
	int link = reserved ? -1 : traces_link_from_number(linktype & 0xffff);
	if (link < 0)
		return traces_loader_refuse_link(
			reader->loader, reserved ? linktype : linktype & 0xffff);
	reader->link = (uint8_t)link;
	return 0;
}

/* Read more bytes behind `fill`. 1: there were some, 0: the data ended, or an error. */
static int pcap_fill(struct pcap_reader *reader)
{
	struct traces_loader *loader = reader->loader;
	struct traces_buffer *bytes = &loader->trace->bytes;
	if (bytes->capacity - reader->fill < loader->chunk_bytes) {
		int error = traces_buffer_reserve(bytes, reader->fill + loader->chunk_bytes);
		if (error)
			return traces_loader_fail(loader, error, "out of memory");
	}
	size_t got =
		traces_stream_read(loader->stream, bytes->data + reader->fill, loader->chunk_bytes);
	reader->fill += got;
	traces_loader_progress(loader);
	return got > 0;
}

/*
 * A record longer than any real one. When it ends inside the file it is passed over and reading
 * goes on behind it; when it does not, its header is damaged and nothing behind it can be found.
 */
static int pcap_skip_oversize(struct pcap_reader *reader, uint32_t cap_len)
{
	struct traces_loader *loader = reader->loader;
	uint64_t size = (uint64_t)RECORD_HEADER_BYTES + cap_len;
	uint64_t offset = file_offset(reader);
	uint64_t file_size = traces_stream_size(loader->stream);
	uint8_t *bytes = loader->trace->bytes.data;
	size_t held = reader->fill - reader->position;
	bool fits = file_size == 0 || offset + size <= file_size;
	if (fits && held >= size) {
		memmove(bytes + reader->position, bytes + reader->position + size, held - size);
		reader->fill -= size;
	} else if (fits) {
		reader->fill = reader->position;
		fits = traces_stream_skip(loader->stream, size - held) == size - held;
	}
	if (!fits) {
		traces_loader_damage(loader, offset,
			"record of %u bytes is longer than the rest of the file", cap_len);
		return TRACES_LOAD_STOP;
	}
	reader->skipped += size;
	loader->packets_seen++;
	loader->report->skipped_oversize++;
	return 0;
}

/* A file header where a record should be: captures were put one behind the other (cat, gzip
 * members). No real record has its bytes: it would be empty, on the wire too, and of 2055. */
static bool is_file_header(const uint8_t *bytes)
{
	static const uint8_t zeros[8];
	if (!traces_pcap_known(bytes) || memcmp(bytes + 8, zeros, sizeof(zeros)) != 0)
		return false;
	uint32_t magic = traces_get32(bytes, false);
	bool swapped = magic != MAGIC_MICROSECONDS && magic != MAGIC_NANOSECONDS;
	return traces_get16(bytes + 4, swapped) == 2 && traces_get16(bytes + 6, swapped) == 4;
}

/* Go on by what the new header says. 1: its end has not been read yet. */
static int pcap_reopen(struct pcap_reader *reader, const uint8_t *header)
{
	if (reader->fill - reader->position < TRACES_HEAD_BYTES)
		return 1;
	int error = pcap_read_header(reader, header);
	if (error)
		return error;
	reader->record.link = reader->link;
	reader->position += TRACES_HEAD_BYTES;
	reader->loader->report->repeated_headers++;
	return 0;
}

/* Index the whole records between position and fill. 0, TRACES_LOAD_STOP or an error. */
static int pcap_index(struct pcap_reader *reader)
{
	struct traces_loader *loader = reader->loader;
	struct traces_record record = reader->record;
	while (reader->fill - reader->position >= RECORD_HEADER_BYTES) {
		const uint8_t *header = loader->trace->bytes.data + reader->position;
		uint32_t cap_len = traces_get32(header + 8, reader->swapped);
		uint32_t wire_len = traces_get32(header + 12, reader->swapped);
		if (BASE_UNLIKELY(reader->lengths_swapped ||
				  (reader->lengths_unsure && cap_len > wire_len))) {
			uint32_t other = cap_len;
			cap_len = wire_len;
			wire_len = other;
		}
		int error;
		if (BASE_UNLIKELY(cap_len > TRACES_RECORD_BYTES_MAX)) {
			error = pcap_skip_oversize(reader, cap_len);
			if (error)
				return error;
			continue;
		}
		if (reader->fill - reader->position - RECORD_HEADER_BYTES < cap_len)
			break;
		if (BASE_UNLIKELY((cap_len | wire_len) == 0) && is_file_header(header)) {
			error = pcap_reopen(reader, header);
			if (error)
				return error < 0 ? error : 0;
			record.link = reader->link;
			continue;
		}
		error = traces_loader_admit(loader, cap_len);
		if (BASE_UNLIKELY(error))
			return error;
		/* A fraction of a second or more carries into the seconds by itself. */
		record.time_ns =
			traces_get32(header, reader->swapped) * UINT64_C(1000000000) +
			(uint64_t)traces_get32(header + 4, reader->swapped) * reader->fraction_ns;
		record.offset = reader->position + RECORD_HEADER_BYTES;
		record.cap_len = cap_len;
		record.wire_len = wire_len < cap_len ? cap_len : wire_len;
		if (BASE_UNLIKELY(traces_trace_push(loader->trace, &record)))
			return traces_loader_fail(loader, -ENOMEM, "out of memory");
		reader->position += RECORD_HEADER_BYTES + cap_len;
	}
	return 0;
}

/* The first chunk tells the mean record; room for all at once saves moving the index later. */
static void pcap_reserve_records(struct pcap_reader *reader)
{
	struct traces_loader *loader = reader->loader;
	uint64_t file_size = traces_stream_size(loader->stream);
	uint64_t indexed = reader->position - reader->start;
	uint64_t count = loader->packets_seen;
	if (indexed == 0 || count == 0 || file_size <= 2 * indexed)
		return;
	uint64_t estimate = (uint64_t)((double)file_size / (double)indexed * (double)count * 1.05);
	if (estimate > loader->packets_left)
		estimate = loader->packets_left;
	/* Only address space until it is used; growth on demand works too. */
	(void)traces_buffer_reserve_exact(&loader->trace->records,
		loader->trace->records.used + estimate * sizeof(struct traces_record));
}

/* Go on where the last fill paused: its trace may be another, or emptied. -ENOMEM. */
static int pcap_resume(struct pcap_reader *reader)
{
	struct traces_buffer *bytes = &reader->loader->trace->bytes;
	if (traces_buffer_reserve(bytes, bytes->used + reader->tail_count) != 0)
		return traces_loader_fail(reader->loader, -ENOMEM, "out of memory");
	reader->start = reader->position = bytes->used;
	if (reader->tail_count > 0)
		memcpy(bytes->data + bytes->used, reader->tail, reader->tail_count);
	reader->fill = bytes->used + reader->tail_count;
	reader->tail_count = 0;
	return 0;
}

static void pcap_pause(struct pcap_reader *reader)
{
	struct traces_buffer *bytes = &reader->loader->trace->bytes;
	reader->tail_count = reader->fill - reader->position;
	BASE_ASSERT(reader->tail_count <= TAIL_BYTES_MAX);
	if (reader->tail_count > 0)
		memcpy(reader->tail, bytes->data + reader->position, reader->tail_count);
	reader->skipped += reader->position - reader->start;
}

/* One chunk. 0: more may follow. */
static int pcap_step(struct pcap_reader *reader)
{
	int filled = pcap_fill(reader);
	if (filled < 0)
		return filled;
	int error = pcap_index(reader);
	if (error)
		return error;
	if (!reader->reserved && reader->loader->pause_bytes == UINT64_MAX)
		pcap_reserve_records(reader);
	reader->reserved = true;
	if (filled > 0)
		return 0;
	size_t rest = reader->fill - reader->position;
	traces_loader_end(reader->loader, file_offset(reader), rest,
		rest < RECORD_HEADER_BYTES ? "file ends inside a record header"
					   : "file ends inside a packet");
	return TRACES_LOAD_STOP;
}

static int pcap_reader_fill(struct traces_loader *loader)
{
	struct pcap_reader *reader = loader->state;
	int error = pcap_resume(reader);
	while (error == 0) {
		error = pcap_step(reader);
		/* Another trace of the loader must not find bytes of an unfinished record. */
		loader->trace->bytes.used = reader->position;
		if (error == 0 && traces_loader_pauses(loader)) {
			pcap_pause(reader);
			break;
		}
	}
	return error;
}

static int pcap_reader_open(struct traces_loader *loader, const uint8_t *head, size_t head_size)
{
	struct pcap_reader *reader = malloc(sizeof(*reader));
	BASE_ASSERT(head_size == TRACES_HEAD_BYTES);
	if (reader == NULL)
		return traces_loader_fail(loader, -ENOMEM, "out of memory");
	memset(reader, 0, offsetof(struct pcap_reader, tail));
	reader->loader = loader;
	int error = pcap_read_header(reader, head);
	if (error) {
		free(reader);
		return error;
	}
	reader->record.link = reader->link;
	reader->record.file = loader->file;
	uint64_t file_size = traces_stream_size(loader->stream);
	struct traces_buffer *bytes = &loader->trace->bytes;
	if (loader->pause_bytes == UINT64_MAX && file_size > 0 && loader->options->packets_max == 0)
		(void)traces_buffer_reserve_exact(
			bytes, bytes->used + file_size + loader->chunk_bytes);
	loader->state = reader;
	return 0;
}

static void pcap_reader_close(struct traces_loader *loader)
{
	free(loader->state);
}

const struct traces_reader_ops traces_pcap_reader = { pcap_reader_open, pcap_reader_fill,
	pcap_reader_close };
