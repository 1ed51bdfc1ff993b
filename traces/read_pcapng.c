/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcapng. Blocks pass through one window; packets are copied out of it, so that nothing but frames
 * stays in memory. A block whose framing is right but whose content is not is counted as damage
 * and passed over; when the framing itself is wrong nothing behind it can be trusted.
 */
#include "traces/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_BYTES = 1 << 20,
	BLOCK_BYTES_MAX = WINDOW_BYTES / 2, /* longer ones are passed over */
	BLOCK_OVERHEAD_BYTES = 12,          /* type, length, length again */
	SPACE_FOR_LENGTH_BYTES = 4,
};

enum block_type {
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET_OLD = 2,
	BLOCK_PACKET_SIMPLE = 3,
	BLOCK_PACKET = 6,
	BLOCK_SECTION = 0x0a0d0d0a,
};

enum { OPTION_END = 0, OPTION_TSRESOL = 9, OPTION_TSOFFSET = 14 };

#define BYTE_ORDER_MAGIC UINT32_C(0x1a2b3c4d)
#define NS_PER_S         UINT64_C(1000000000)

__extension__ typedef unsigned __int128 wide_unsigned;
__extension__ typedef __int128 wide_signed;

struct capture_interface {
	uint16_t linktype;
	uint8_t tsresol; /* as stored: bit 7 chooses powers of 2 */
	bool used;
	uint32_t snaplen; /* 0 = no limit */
	int64_t tsoffset_s;
};

struct pcapng_reader {
	struct traces_loader *loader;
	bool swapped;
	size_t position; /* in window */
	size_t fill;
	uint64_t window_offset; /* of window[0] in the file */
	uint64_t last_ns;       /* for packets without a time */
	size_t timeless_from;   /* index of the first record of this fill ... */
	size_t timeless_count;  /* ... and how many come before any time is known */
	bool time_known;
	bool delivered; /* a packet */
	uint64_t interfaces_seen;
	uint64_t interfaces_supported;
	uint32_t first_unsupported;
	bool links_skipped;
	size_t interfaces_count; /* of this section; those above the maximum are only counted */
	struct capture_interface interfaces[TRACES_INTERFACES_MAX];
	uint8_t window[WINDOW_BYTES];
};

/* A packet block, whichever of the three kinds. */
struct packet_block {
	uint32_t interface;
	uint64_t ticks;
	bool has_time;
	uint32_t cap_len;
	uint32_t wire_len;
	const uint8_t *frame;
	size_t available; /* bytes of the block at frame */
};

bool traces_pcapng_known(const uint8_t head[TRACES_HEAD_BYTES])
{
	return traces_get32(head, false) == BLOCK_SECTION; /* the same in both orders */
}

static uint64_t file_offset(const struct pcapng_reader *reader)
{
	return reader->window_offset + reader->position;
}

/* Try to have `size` bytes at position; how many there are. */
static size_t window_need(struct pcapng_reader *reader, size_t size)
{
	size_t held = reader->fill - reader->position;
	if (BASE_LIKELY(held >= size))
		return held;
	memmove(reader->window, reader->window + reader->position, held);
	reader->window_offset += reader->position;
	reader->position = 0;
	reader->fill = held;
	reader->fill += traces_stream_read(
		reader->loader->stream, reader->window + held, WINDOW_BYTES - held);
	traces_loader_progress(reader->loader);
	return reader->fill;
}

static bool window_skip(struct pcapng_reader *reader, uint64_t size)
{
	size_t held = reader->fill - reader->position;
	if (size <= held) {
		reader->position += (size_t)size;
		return true;
	}
	uint64_t beyond = traces_stream_skip(reader->loader->stream, size - held);
	reader->window_offset += reader->fill + beyond;
	reader->position = reader->fill = 0;
	return beyond == size - held;
}

/* ticks * resolution + offset, clamped into 64-bit nanoseconds since 1970. */
static uint64_t interface_time_ns(
	const struct capture_interface *interface, uint64_t ticks, bool *clamped)
{
	unsigned int exponent = interface->tsresol & 0x7f;
	wide_unsigned ns;
	if (interface->tsresol & 0x80) {
		/* ticks * 10^9 takes less than 94 bits */
		ns = exponent < 128 ? ((wide_unsigned)ticks * NS_PER_S) >> exponent : 0;
	} else if (exponent <= 9) {
		uint64_t scale = 1;
		for (unsigned int i = exponent; i < 9; i++)
			scale *= 10;
		ns = (wide_unsigned)ticks * scale;
	} else {
		for (unsigned int i = 9; i < exponent && ticks > 0; i++)
			ticks /= 10;
		ns = ticks;
	}
	wide_signed time = (wide_signed)ns + (wide_signed)interface->tsoffset_s * (int64_t)NS_PER_S;
	*clamped = time < 0 || time > (wide_signed)TRACES_TIME_NS_MAX;
	if (*clamped)
		return time < 0 ? 0 : TRACES_TIME_NS_MAX;
	return (uint64_t)time;
}

static bool finer_than_microseconds(uint8_t tsresol)
{
	return tsresol & 0x80 ? (tsresol & 0x7f) > 19 : tsresol > 6;
}

static void interface_options(struct pcapng_reader *reader, struct capture_interface *interface,
	const uint8_t *bytes, size_t size)
{
	while (size >= 4) {
		uint16_t code = traces_get16(bytes, reader->swapped);
		uint16_t length = traces_get16(bytes + 2, reader->swapped);
		size_t padded = ((size_t)length + 3) & ~(size_t)3;
		if (code == OPTION_END)
			return;
		if (length > size - 4) {
			traces_loader_damage(reader->loader, file_offset(reader),
				"interface option %u is longer than its block", code);
			return;
		}
		if (code == OPTION_TSRESOL && length == 1)
			interface->tsresol = bytes[4];
		if (code == OPTION_TSOFFSET && length == 8)
			interface->tsoffset_s = (int64_t)traces_get64(bytes + 4, reader->swapped);
		if (padded > size - 4)
			return;
		bytes += 4 + padded;
		size -= 4 + padded;
	}
}

static void interface_add(struct pcapng_reader *reader, const uint8_t *body, size_t size)
{
	size_t index = reader->interfaces_count++;
	if (index >= TRACES_INTERFACES_MAX)
		return;
	struct capture_interface *interface = &reader->interfaces[index];
	*interface = (struct capture_interface){
		.linktype = traces_get16(body, reader->swapped),
		.tsresol = 6,
		.snaplen = traces_get32(body + 4, reader->swapped),
	};
	interface_options(reader, interface, body + 8, size - 8);
	if (finer_than_microseconds(interface->tsresol))
		reader->loader->report->nanoseconds = true;
	int link = traces_link_from_number(interface->linktype);
	if (link >= 0)
		reader->loader->report->links |= 1u << link;
	if (link >= 0)
		reader->interfaces_supported++;
	else if (reader->interfaces_seen == reader->interfaces_supported)
		reader->first_unsupported = interface->linktype;
	reader->interfaces_seen++;
}

/* Packets without a time take that of the packet before, or at the start the first one known. */
static void note_time(struct pcapng_reader *reader, uint64_t time_ns, bool has_time)
{
	reader->last_ns = time_ns;
	if (reader->time_known)
		return;
	if (!has_time) {
		reader->timeless_count++;
		return;
	}
	reader->time_known = true;
	struct traces_record *records = traces_trace_mutable_records(reader->loader->trace);
	for (size_t i = 0; i < reader->timeless_count; i++)
		records[reader->timeless_from + i].time_ns = time_ns;
}

/* A packet of a link type that we do not read: refuse the file, or count if asked to. */
static int packet_skip_link(struct pcapng_reader *reader, uint16_t linktype)
{
	struct traces_loader *loader = reader->loader;
	if (!loader->options->skip_unsupported_links)
		return traces_loader_refuse_link(loader, linktype);
	struct traces_load_report *report = loader->report;
	if (report->skipped_link == 0)
		snprintf(report->skipped_link_name, sizeof(report->skipped_link_name), "%s",
			traces_link_name(linktype));
	report->skipped_link++;
	reader->links_skipped = true;
	loader->packets_seen++;
	return 0;
}

static_assert(TRACES_INTERFACES_MAX == 4096, "a message says so");

static int packet_add(struct pcapng_reader *reader, const struct packet_block *block)
{
	struct traces_loader *loader = reader->loader;
	if (block->interface >= reader->interfaces_count ||
		block->interface >= TRACES_INTERFACES_MAX) {
		traces_loader_damage(loader, file_offset(reader),
			block->interface >= reader->interfaces_count
				? "packet of interface %u, which is not described"
				: "packet of interface %u: the first 4096 of a section are known",
			block->interface);
		loader->packets_seen++;
		return 0;
	}
	const struct capture_interface *interface = &reader->interfaces[block->interface];
	int link = traces_link_from_number(interface->linktype);
	if (link < 0)
		return packet_skip_link(reader, interface->linktype);
	if (block->cap_len > block->available) {
		traces_loader_damage(loader, file_offset(reader),
			"captured length %u is longer than its block", block->cap_len);
		loader->packets_seen++;
		return 0;
	}
	if (block->cap_len > TRACES_RECORD_BYTES_MAX) {
		loader->report->skipped_oversize++;
		loader->packets_seen++;
		return 0;
	}
	bool clamped = false;
	uint64_t time_ns = reader->last_ns;
	if (block->has_time)
		time_ns = interface_time_ns(interface, block->ticks, &clamped);
	struct traces_record record = {
		.time_ns = time_ns,
		.cap_len = block->cap_len,
		.wire_len = block->wire_len < block->cap_len ? block->cap_len : block->wire_len,
		.link = (uint8_t)link,
		.interface = block->interface > UINT8_MAX ? UINT8_MAX : (uint8_t)block->interface,
		.file = loader->file,
	};
	int error = traces_loader_add(loader, &record, block->frame);
	if (error)
		return error;
	reader->delivered = true;
	loader->report->time_clamped += clamped;
	loader->report->time_missing += !block->has_time;
	note_time(reader, time_ns, block->has_time);
	return 0;
}

/* Body of an enhanced packet (interface in 32 bits) or of its obsolete form (16, and drops). */
static int packet_enhanced(
	struct pcapng_reader *reader, const uint8_t *body, size_t size, bool obsolete)
{
	bool swapped = reader->swapped;
	uint64_t high = traces_get32(body + 4, swapped), low = traces_get32(body + 8, swapped);
	struct packet_block block = {
		.interface = obsolete ? traces_get16(body, swapped) : traces_get32(body, swapped),
		.ticks = high << 32 | low,
		.has_time = true,
		.cap_len = traces_get32(body + 12, swapped),
		.wire_len = traces_get32(body + 16, swapped),
		.frame = body + 20,
		.available = size - 20,
	};
	return packet_add(reader, &block);
}

/* A simple packet says only how long it was: what was kept follows from the snaplen. */
static int packet_simple(struct pcapng_reader *reader, const uint8_t *body, size_t size)
{
	struct packet_block block = {
		.wire_len = traces_get32(body, reader->swapped),
		.frame = body + 4,
		.available = size - 4,
	};
	block.cap_len = block.wire_len;
	uint32_t snaplen = reader->interfaces_count > 0 ? reader->interfaces[0].snaplen : 0;
	if (snaplen > 0 && block.cap_len > snaplen)
		block.cap_len = snaplen;
	if (block.cap_len > block.available)
		block.cap_len = (uint32_t)block.available;
	return packet_add(reader, &block);
}

static size_t body_bytes_min(uint32_t type)
{
	switch (type) {
	case BLOCK_SECTION:
		return 16;
	case BLOCK_INTERFACE:
		return 8;
	case BLOCK_PACKET:
	case BLOCK_PACKET_OLD:
		return 20;
	case BLOCK_PACKET_SIMPLE:
		return 4;
	default:
		return 0;
	}
}

static int block_read(struct pcapng_reader *reader, uint32_t type, const uint8_t *body, size_t size)
{
	switch (type) {
	case BLOCK_SECTION:
		reader->interfaces_count = 0;
		return 0;
	case BLOCK_INTERFACE:
		interface_add(reader, body, size);
		return 0;
	case BLOCK_PACKET:
		return packet_enhanced(reader, body, size, false);
	case BLOCK_PACKET_OLD:
		return packet_enhanced(reader, body, size, true);
	case BLOCK_PACKET_SIMPLE:
		return packet_simple(reader, body, size);
	default:
		return 0;
	}
}

static bool is_packet(uint32_t type)
{
	return type == BLOCK_PACKET || type == BLOCK_PACKET_OLD || type == BLOCK_PACKET_SIMPLE;
}

/* Framing that cannot be trusted: the file is not pcapng when it is the first block's. */
static int framing_damaged(struct pcapng_reader *reader, uint64_t offset, const char *reason)
{
	const char *cause = traces_stream_damage(reader->loader->stream);
	if (cause == NULL)
		cause = reason;
	if (offset == 0)
		return traces_loader_fail(reader->loader, -EBADMSG, "%s", cause);
	traces_loader_damage(reader->loader, offset, "%s", cause);
	return TRACES_LOAD_STOP;
}

/* A block too long for the window: passed over, still in sync. */
static int block_skip(struct pcapng_reader *reader, uint32_t type, uint32_t length)
{
	uint64_t offset = file_offset(reader);
	uint64_t file_size = traces_stream_size(reader->loader->stream);
	if ((file_size > 0 && offset + length > file_size) ||
		!window_skip(reader, length - SPACE_FOR_LENGTH_BYTES) ||
		window_need(reader, SPACE_FOR_LENGTH_BYTES) < SPACE_FOR_LENGTH_BYTES)
		return framing_damaged(reader, offset, "block is longer than the rest of the file");
	if (traces_get32(reader->window + reader->position, reader->swapped) != length)
		return framing_damaged(reader, offset, "block's two lengths differ");
	reader->position += SPACE_FOR_LENGTH_BYTES;
	if (type == BLOCK_SECTION)
		reader->interfaces_count = 0;
	if (is_packet(type)) {
		reader->loader->report->skipped_oversize++;
		reader->loader->packets_seen++;
	}
	return 0;
}

/* One block. 0, TRACES_LOAD_STOP at the end or at damage, or an error. */
static int block_next(struct pcapng_reader *reader)
{
	uint64_t offset = file_offset(reader);
	size_t held = window_need(reader, BLOCK_OVERHEAD_BYTES);
	if (held < BLOCK_OVERHEAD_BYTES) {
		traces_loader_end(reader->loader, offset, held, "file ends inside a block header");
		return TRACES_LOAD_STOP;
	}
	const uint8_t *block = reader->window + reader->position;
	uint32_t type = traces_get32(block, false);
	if (type == BLOCK_SECTION) {
		uint32_t magic = traces_get32(block + 8, false);
		if (magic != BYTE_ORDER_MAGIC && __builtin_bswap32(magic) != BYTE_ORDER_MAGIC)
			return framing_damaged(reader, offset, "section without byte-order magic");
		reader->swapped = magic != BYTE_ORDER_MAGIC;
	}
	type = traces_get32(block, reader->swapped);
	uint32_t length = traces_get32(block + 4, reader->swapped);
	if (length % 4 != 0)
		return framing_damaged(reader, offset, "block length is not a multiple of 4");
	if (length < BLOCK_OVERHEAD_BYTES + body_bytes_min(type))
		return framing_damaged(reader, offset, "block is shorter than its fixed fields");
	if (length > BLOCK_BYTES_MAX && type != BLOCK_INTERFACE)
		return block_skip(reader, type, length);
	if (length > BLOCK_BYTES_MAX || window_need(reader, length) < length)
		return framing_damaged(reader, offset, "file ends inside a block");
	block = reader->window + reader->position;
	if (traces_get32(block + length - 4, reader->swapped) != length)
		return framing_damaged(reader, offset, "block's two lengths differ");
	int error = block_read(reader, type, block + 8, length - BLOCK_OVERHEAD_BYTES);
	reader->position += length;
	return error;
}

static int pcapng_open(struct traces_loader *loader, const uint8_t *head, size_t head_size)
{
	struct pcapng_reader *reader = malloc(sizeof(*reader));
	if (reader == NULL)
		return traces_loader_fail(loader, -ENOMEM, "out of memory");
	memset(reader, 0, offsetof(struct pcapng_reader, interfaces));
	reader->loader = loader;
	memcpy(reader->window, head, head_size);
	reader->fill = head_size;
	int error = 0;
	if (head_size < TRACES_HEAD_BYTES)
		error = framing_damaged(reader, 0, "file ends inside the section header");
	if (error) {
		free(reader);
		return error;
	}
	loader->state = reader;
	return 0;
}

static int pcapng_fill(struct traces_loader *loader)
{
	struct pcapng_reader *reader = loader->state;
	int error;
	/* Packets without a time that were handed out already keep the one they got. */
	reader->timeless_from = traces_trace_count(loader->trace);
	reader->timeless_count = 0;
	do {
		error = block_next(reader);
	} while (error == 0 && !traces_loader_pauses(loader));
	/* A file of nothing but what we cannot read is no empty capture. */
	bool unreadable = reader->links_skipped ||
			  (reader->interfaces_seen > 0 && reader->interfaces_supported == 0);
	if (error == TRACES_LOAD_STOP && unreadable && !reader->delivered)
		error = traces_loader_refuse_link(loader, reader->first_unsupported);
	return error;
}

static void pcapng_close(struct traces_loader *loader)
{
	free(loader->state);
}

const struct traces_reader_ops traces_pcapng_reader = { pcapng_open, pcapng_fill, pcapng_close };
