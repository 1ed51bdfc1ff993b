/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng: one section, one interface per link type, nanoseconds (draft-ietf-opsawg-pcapng). */
#include "traces/write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	OPTION_COMMENT = 1,
	OPTION_TSRESOL = 9,
	COMMENT_BYTES_MAX = 1024,
	SECTION_BYTES = 28,
	PACKET_BYTES = 32, /* without the frame */
};

#define NO_INTERFACE UINT32_MAX

struct pcapng_writer {
	uint32_t interfaces[BASE_LINKS_COUNT]; /* of a link type */
	uint32_t interfaces_count;
};

/* Its end is the second length; a comment stands before it as the section's only option. */
static int put_section(struct traces_writer *writer)
{
	const char *comment = writer->options.comment;
	uint32_t size = comment == NULL ? 0 : (uint32_t)strnlen(comment, COMMENT_BYTES_MAX);
	uint32_t padded = (size + 3) & ~3u;
	struct {
		uint32_t type, length, magic;
		uint16_t major, minor;
		uint32_t section_length[2];
	} section = {
		.type = BLOCK_SECTION,
		.length = SECTION_BYTES + (size > 0 ? 8 + padded : 0),
		.magic = BYTE_ORDER_MAGIC,
		.major = 1,
		.section_length = { UINT32_MAX, UINT32_MAX }, /* not stated */
	};
	static_assert(sizeof(section) + 4 == SECTION_BYTES, "as in the file");
	int error = traces_output_put(writer->output, &section, sizeof(section));
	if (size > 0 && error == 0) {
		uint8_t option[8 + COMMENT_BYTES_MAX] = { OPTION_COMMENT, 0, (uint8_t)size,
			(uint8_t)(size >> 8) };
		memcpy(option + 4, comment, size);
		/* Zeros behind it: padding and the end of the options. */
		error = traces_output_put(writer->output, option, 4 + padded + 4);
	}
	return error ? error : traces_output_put(writer->output, &section.length, 4);
}

static int pcapng_start(struct traces_writer *writer, enum base_link link)
{
	(void)link;
	struct pcapng_writer *pcapng = malloc(sizeof(*pcapng));
	if (pcapng == NULL)
		return -ENOMEM;
	pcapng->interfaces_count = 0;
	for (int i = 0; i < BASE_LINKS_COUNT; i++)
		pcapng->interfaces[i] = NO_INTERFACE;
	writer->state = pcapng;
	return put_section(writer);
}

static int describe_interface(struct traces_writer *writer, enum base_link link)
{
	struct pcapng_writer *pcapng = writer->state;
	struct {
		uint32_t type, length;
		uint16_t linktype, reserved;
		uint32_t snaplen;
		uint16_t option, option_length;
		uint8_t tsresol, padding[3];
		uint32_t end_of_options, length_again;
	} block = {
		.type = BLOCK_INTERFACE,
		.length = sizeof(block),
		.linktype = (uint16_t)traces_link_number(link),
		.snaplen = writer->options.snaplen,
		.option = OPTION_TSRESOL,
		.option_length = 1,
		.tsresol = 9, /* nanoseconds */
		.length_again = sizeof(block),
	};
	static_assert(sizeof(block) == 32, "as in the file");
	pcapng->interfaces[link] = pcapng->interfaces_count++;
	return traces_output_put(writer->output, &block, sizeof(block));
}

static int put_packet(struct traces_writer *writer, struct pcapng_writer *pcapng,
	const struct traces_record *record, const uint8_t *frame)
{
	if (BASE_UNLIKELY(pcapng->interfaces[record->link] == NO_INTERFACE)) {
		int error = describe_interface(writer, record->link);
		if (error)
			return error;
	}
	uint32_t cap_len = traces_writer_cap_len(writer, record);
	uint32_t padded = (cap_len + 3) & ~3u, length = PACKET_BYTES + padded;
	int error = 0;
	uint8_t *room = traces_output_reserve(writer->output, length, &error);
	if (BASE_UNLIKELY(room == NULL))
		return error;
	struct {
		uint32_t type, length, interface, time_high, time_low, cap_len, wire_len;
	} block = {
		.type = BLOCK_PACKET,
		.length = length,
		.interface = pcapng->interfaces[record->link],
		.time_high = (uint32_t)(record->time_ns >> 32),
		.time_low = (uint32_t)record->time_ns,
		.cap_len = cap_len,
		.wire_len = traces_writer_wire_len(record),
	};
	static_assert(sizeof(block) + 4 == PACKET_BYTES, "as in the file");
	/* Zeros first: the rest then covers all but the padding. */
	memset(room + length - 8, 0, 4);
	memcpy(room, &block, sizeof(block));
	memcpy(room + sizeof(block), frame, cap_len);
	memcpy(room + length - 4, &length, 4);
	traces_output_commit(writer->output, length);
	writer->packets++;
	return 0;
}

static int pcapng_packets(struct traces_writer *writer, const struct traces_batch *batch)
{
	struct pcapng_writer *pcapng = writer->state;
	int error = 0;
	for (size_t i = 0; i < batch->count && error == 0; i++)
		error = put_packet(writer, pcapng, &batch->records[i],
			batch->bytes + batch->records[i].offset);
	return error;
}

/* libpcap refuses a pcapng file that describes no interface. */
static int pcapng_finish(struct traces_writer *writer)
{
	struct pcapng_writer *pcapng = writer->state;
	return pcapng->interfaces_count == 0 ? describe_interface(writer, BASE_LINK_ETHERNET) : 0;
}

static void pcapng_destroy(struct traces_writer *writer)
{
	free(writer->state);
}

const struct traces_write_ops traces_pcapng_write_ops = {
	.start = pcapng_start,
	.packets = pcapng_packets,
	.finish = pcapng_finish,
	.destroy = pcapng_destroy,
};
