/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture variants that only libpcap knows: it opens the path again and reads it to the end. */
#include "traces/reader.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <string.h>

static int add_packets(struct traces_loader *loader, pcap_t *pcap, uint8_t link)
{
	struct pcap_pkthdr *header;
	const uint8_t *frame;
	int result;
	while ((result = pcap_next_ex(pcap, &header, &frame)) == 1) {
		if (header->caplen > TRACES_RECORD_BYTES_MAX) {
			loader->packets_seen++;
			loader->report->skipped_oversize++;
			continue;
		}
		struct traces_record record = {
			.cap_len = header->caplen,
			.wire_len = header->len,
			.link = link,
			.file = loader->file,
		};
		if (header->ts.tv_sec < 0)
			loader->report->time_clamped++;
		else
			record.time_ns = (uint64_t)header->ts.tv_sec * UINT64_C(1000000000) +
					 (uint64_t)header->ts.tv_usec;
		if (record.time_ns % 1000 != 0)
			loader->report->nanoseconds = true;
		int error = traces_loader_add(loader, &record, frame);
		if (error)
			return error;
	}
	if (result == PCAP_ERROR)
		traces_loader_damage(loader, 0, "%s", pcap_geterr(pcap));
	return 0;
}

int traces_libpcap_read(struct traces_loader *loader)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(
		loader->path, PCAP_TSTAMP_PRECISION_NANO, reason);
	if (pcap == NULL)
		return traces_loader_fail(loader, -EBADMSG, "not a capture file");
	uint32_t linktype = (uint32_t)pcap_datalink(pcap);
	int link = traces_link_from_number(linktype);
	int error = link < 0 ? traces_loader_refuse_link(loader, linktype)
			     : add_packets(loader, pcap, (uint8_t)link);
	pcap_close(pcap);
	return error == TRACES_LOAD_STOP ? 0 : error;
}
