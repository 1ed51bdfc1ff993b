/* SPDX-License-Identifier: BSD-2-Clause */
/* pcap, in this machine's byte order. */
#include "traces/write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER_BYTES = 24, RECORD_HEADER_BYTES = 16 };

#define MAGIC_MICROSECONDS UINT32_C(0xa1b2c3d4)
#define MAGIC_NANOSECONDS  UINT32_C(0xa1b23c4d)
#define NS_PER_S           UINT64_C(1000000000)

struct pcap_writer {
	uint8_t link; /* of the file: that of the first packet */
	/* Traffic has many packets a second: dividing once in that time is enough. */
	uint64_t second_ns;
	uint32_t second;
};

static int pcap_start(struct traces_writer *writer, enum base_link link)
{
	struct pcap_writer *pcap = calloc(1, sizeof(*pcap));
	if (pcap == NULL)
		return -ENOMEM;
	pcap->link = (uint8_t)link;
	writer->state = pcap;
	bool ns = writer->options.format == TRACES_FORMAT_PCAP_NS;
	struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t zone, accuracy, snaplen, linktype;
	} header = {
		.magic = ns ? MAGIC_NANOSECONDS : MAGIC_MICROSECONDS,
		.major = 2,
		.minor = 4,
		.snaplen = writer->options.snaplen,
		.linktype = traces_link_number(link),
	};
	static_assert(sizeof(header) == FILE_HEADER_BYTES, "as in the file");
	return traces_output_put(writer->output, &header, sizeof(header));
}

static int refuse_link(struct traces_writer *writer, const struct traces_record *record)
{
	struct pcap_writer *pcap = writer->state;
	return traces_writer_fail(writer, -EPROTONOSUPPORT,
		"packet %" PRIu64 " is of link type %s and those before of %s, which pcap cannot "
		"hold together: write pcapng, or convert with --link",
		writer->packets + 1, traces_link_name(traces_link_number(record->link)),
		traces_link_name(traces_link_number(pcap->link)));
}

static int refuse_time(struct traces_writer *writer)
{
	return traces_writer_fail(writer, -ERANGE,
		"the time of packet %" PRIu64
		" is after 2106, which pcap cannot hold: write pcapng",
		writer->packets + 1);
}

static int put_packet(struct traces_writer *writer, struct pcap_writer *pcap, bool ns,
	const struct traces_record *record, const uint8_t *frame)
{
	if (BASE_UNLIKELY(record->link != pcap->link))
		return refuse_link(writer, record);
	uint64_t fraction = record->time_ns - pcap->second_ns;
	if (BASE_UNLIKELY(fraction >= NS_PER_S)) {
		uint64_t second = record->time_ns / NS_PER_S;
		if (second > UINT32_MAX)
			return refuse_time(writer);
		pcap->second = (uint32_t)second;
		pcap->second_ns = second * NS_PER_S;
		fraction = record->time_ns - pcap->second_ns;
	}
	uint32_t ticks = (uint32_t)fraction;
	if (!ns) {
		ticks = (uint32_t)fraction / 1000;
		writer->losses.time_rounded += ticks * 1000 != (uint32_t)fraction;
	}
	uint32_t cap_len = traces_writer_cap_len(writer, record);
	int error = 0;
	uint8_t *room =
		traces_output_reserve(writer->output, RECORD_HEADER_BYTES + cap_len, &error);
	if (BASE_UNLIKELY(room == NULL))
		return error;
	uint32_t header[4] = { pcap->second, ticks, cap_len, traces_writer_wire_len(record) };
	static_assert(sizeof(header) == RECORD_HEADER_BYTES, "as in the file");
	memcpy(room, header, sizeof(header));
	memcpy(room + RECORD_HEADER_BYTES, frame, cap_len);
	traces_output_commit(writer->output, RECORD_HEADER_BYTES + cap_len);
	writer->packets++;
	return 0;
}

static int pcap_packets(struct traces_writer *writer, const struct traces_batch *batch)
{
	struct pcap_writer *pcap = writer->state;
	bool ns = writer->options.format == TRACES_FORMAT_PCAP_NS;
	int error = 0;
	for (size_t i = 0; i < batch->count && error == 0; i++)
		error = put_packet(writer, pcap, ns, &batch->records[i],
			batch->bytes + batch->records[i].offset);
	return error;
}

static void pcap_destroy(struct traces_writer *writer)
{
	free(writer->state);
}

const struct traces_write_ops traces_pcap_write_ops = {
	.start = pcap_start,
	.packets = pcap_packets,
	.destroy = pcap_destroy,
};
