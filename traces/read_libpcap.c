/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture variants that only libpcap knows: it opens the path again and reads it to the end. */
#include "traces/reader.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <string.h>

static int add_packet(
	struct traces_loader *loader, const struct pcap_pkthdr *header, const uint8_t *frame)
{
	if (header->caplen > TRACES_RECORD_BYTES_MAX) {
		loader->packets_seen++;
		loader->report->skipped_oversize++;
		return 0;
	}
	struct traces_record record = {
		.cap_len = header->caplen,
		.wire_len = header->len,
		.link = (uint8_t)traces_link_from_number(
			(uint32_t)pcap_datalink((pcap_t *)loader->state)),
		.file = loader->file,
	};
	if (header->ts.tv_sec < 0)
		loader->report->time_clamped++;
	else
		record.time_ns = (uint64_t)header->ts.tv_sec * UINT64_C(1000000000) +
				 (uint64_t)header->ts.tv_usec;
	if (record.time_ns % 1000 != 0)
		loader->report->nanoseconds = true;
	return traces_loader_add(loader, &record, frame);
}

/* Where libpcap stands in the file: at or behind what it could not read. */
static uint64_t libpcap_offset(pcap_t *pcap)
{
	long offset = ftell(pcap_file(pcap));
	return offset < 0 ? 0 : (uint64_t)offset;
}

static int libpcap_fill(struct traces_loader *loader)
{
	pcap_t *pcap = loader->state;
	struct pcap_pkthdr *header;
	const uint8_t *frame;
	while (!traces_loader_pauses(loader)) {
		int result = pcap_next_ex(pcap, &header, &frame);
		if (result == PCAP_ERROR)
			traces_loader_damage(loader, libpcap_offset(pcap), "%s", pcap_geterr(pcap));
		if (result != 1)
			return TRACES_LOAD_STOP;
		int error = add_packet(loader, header, frame);
		if (error)
			return error;
	}
	return 0;
}

static int libpcap_open(struct traces_loader *loader, const uint8_t *head, size_t head_size)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	(void)head;
	(void)head_size;
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(
		loader->path, PCAP_TSTAMP_PRECISION_NANO, reason);
	if (pcap == NULL)
		return traces_loader_fail(loader, -EBADMSG, "not a capture file");
	uint32_t linktype = (uint32_t)pcap_datalink(pcap);
	if (traces_link_from_number(linktype) < 0) {
		pcap_close(pcap);
		return traces_loader_refuse_link(loader, linktype);
	}
	loader->state = pcap;
	return 0;
}

static void libpcap_close(struct traces_loader *loader)
{
	pcap_close(loader->state);
}

const struct traces_reader_ops traces_libpcap_reader = { libpcap_open, libpcap_fill,
	libpcap_close };
