/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/headers.h"
#include "traces/packets.h"

#include "base/checksum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	EXTENSIONS_MAX = 16,
	NEXT_HOP_BY_HOP = 0,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_DESTINATION = 60,
	IP_FRAGMENT_MASK = 0x3fff,
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_LSRR = 131,
	OPTION_SSRR = 137,
};

struct repair {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_repair_options options;
	struct traces_repair_report *report;
	struct traces_trace *built;
};

/* A datagram in a frame. */
struct datagram {
	uint8_t *ip;
	uint32_t captured; /* bytes from ip on */
	uint32_t length;   /* as its header says */
	uint8_t version;
	uint8_t protocol;
	uint32_t l4; /* offset of the transport header */
};

/* 0 when the header does not say: segmentation offload, jumbograms. */
static uint32_t datagram_length(const uint8_t *ip, uint8_t version)
{
	if (version == 4)
		return traces_net16(ip + 2);
	uint16_t payload = traces_net16(ip + 4);
	return payload == 0 ? 0 : TRACES_IP6_BYTES + payload;
}

/* ---- checksums ---- */

static bool repair_ip4_header(struct datagram *datagram)
{
	uint32_t bytes = (datagram->ip[0] & 0xfu) * 4;
	if (bytes < TRACES_IP4_BYTES || bytes > datagram->captured)
		return false;
	uint16_t old;
	memcpy(&old, datagram->ip + 10, sizeof(old));
	memset(datagram->ip + 10, 0, sizeof(old));
	uint16_t sum = base_checksum_finish(base_checksum_add(datagram->ip, bytes, 0));
	memcpy(datagram->ip + 10, &sum, sizeof(sum));
	return sum != old;
}

/* Until a source route has ended, checksums are those of its last address. */
static bool has_source_route(const uint8_t *ip, uint32_t bytes)
{
	for (uint32_t at = TRACES_IP4_BYTES; at + 1 < bytes;) {
		if (ip[at] == OPTION_END)
			return false;
		if (ip[at] == OPTION_LSRR || ip[at] == OPTION_SSRR)
			return true;
		at += ip[at] == OPTION_NOP ? 1 : ip[at + 1] < 2 ? bytes : ip[at + 1];
	}
	return false;
}

/* The protocol and place of the transport header, as far as `bytes` go. False: its checksum cannot
 * be computed from this packet. */
static bool find_l4(struct datagram *datagram, uint32_t bytes)
{
	const uint8_t *ip = datagram->ip;
	if (datagram->version == 4) {
		datagram->protocol = ip[9];
		datagram->l4 = (ip[0] & 0xfu) * 4;
		return datagram->l4 >= TRACES_IP4_BYTES && datagram->l4 <= bytes &&
		       (traces_net16(ip + 6) & IP_FRAGMENT_MASK) == 0 &&
		       !has_source_route(ip, datagram->l4);
	}
	datagram->protocol = ip[6];
	datagram->l4 = TRACES_IP6_BYTES;
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		uint8_t type = datagram->protocol;
		const uint8_t *header = ip + datagram->l4;
		if (type != NEXT_HOP_BY_HOP && type != NEXT_DESTINATION && type != NEXT_ROUTING)
			return type != NEXT_FRAGMENT;
		/* With segments left the checksum is that of another destination. */
		if (datagram->l4 + 8 > bytes || (type == NEXT_ROUTING && header[3] != 0))
			return false;
		datagram->protocol = header[0];
		datagram->l4 += 8u + header[1] * 8u;
	}
	return false;
}

static uint32_t pseudo_sum(const struct datagram *datagram, uint32_t size)
{
	uint8_t tail[8] = { [7] = datagram->protocol };
	traces_put_net32(tail, size);
	bool ip4 = datagram->version == 4;
	uint32_t sum = base_checksum_add(tail, sizeof(tail), 0);
	return base_checksum_add(datagram->ip + (ip4 ? 12 : 8), ip4 ? 8 : 32, sum);
}

/* Over `size` bytes of transport header and payload, its field at `offset`. */
static bool repair_l4_at(
	struct datagram *datagram, uint32_t size, uint32_t offset, bool pseudo, bool zero_is_none)
{
	uint8_t *l4 = datagram->ip + datagram->l4;
	uint16_t old;
	memcpy(&old, l4 + offset, sizeof(old));
	memset(l4 + offset, 0, sizeof(old));
	uint32_t sum = base_checksum_add(l4, size, pseudo ? pseudo_sum(datagram, size) : 0);
	uint16_t checksum = base_checksum_finish(sum);
	if (checksum == 0 && zero_is_none)
		checksum = UINT16_MAX;
	memcpy(l4 + offset, &checksum, sizeof(checksum));
	return checksum != old;
}

static bool repair_udp(struct datagram *datagram, uint32_t size, bool *known)
{
	const uint8_t *udp = datagram->ip + datagram->l4;
	uint16_t length = traces_net16(udp + 4);
	*known = length >= 8 && length <= size;
	return *known && repair_l4_at(datagram, length, 6, true, true);
}

static uint32_t l4_bytes_min(uint8_t protocol)
{
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		return 20;
	case BASE_PROTOCOL_UDP:
		return 8;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return 4;
	default:
		return 0; /* no such checksum */
	}
}

/* UDP over IPv4 whose sender made no checksum. */
static bool has_none(const struct datagram *datagram)
{
	return datagram->version == 4 && datagram->protocol == BASE_PROTOCOL_UDP &&
	       datagram->l4 + 8 <= datagram->captured &&
	       traces_net16(datagram->ip + datagram->l4 + 6) == 0;
}

/* known: false when there is a checksum that cannot be computed. */
static bool repair_l4(struct datagram *datagram, bool *known)
{
	bool whole = datagram->length > 0 && datagram->length <= datagram->captured;
	bool found = find_l4(datagram, whole ? datagram->length : datagram->captured);
	uint32_t bytes_min = l4_bytes_min(datagram->protocol);
	/* Behind IPv6 extension headers that end the walk may stand anything. */
	*known = bytes_min == 0 && (found || datagram->version == 4);
	if (found && has_none(datagram)) {
		*known = true;
		return false;
	}
	if (bytes_min == 0 || !found || !whole || datagram->length < datagram->l4 + bytes_min)
		return false;
	*known = true;
	uint32_t size = datagram->length - datagram->l4;
	switch (datagram->protocol) {
	case BASE_PROTOCOL_TCP:
		return repair_l4_at(datagram, size, 16, true, false);
	case BASE_PROTOCOL_UDP:
		return repair_udp(datagram, size, known);
	case BASE_PROTOCOL_ICMP6:
		return repair_l4_at(datagram, size, 2, true, false);
	default:
		return repair_l4_at(datagram, size, 2, false, false);
	}
}

/* ---- the stream ---- */

static int repair_packet(
	struct repair *repair, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_headers headers;
	struct traces_record repaired = *record;
	uint8_t *place;
	traces_headers_find((enum base_link)record->link, frame, record->cap_len, &headers);
	uint32_t length =
		headers.ip == 0 ? 0 : datagram_length(frame + headers.network, headers.ip);
	if (repair->options.pad && length > record->cap_len - headers.network) {
		repaired.cap_len = headers.network + length;
		repair->report->padded++;
	}
	int error = traces_trace_extend(repair->built, &repaired, &place);
	if (error)
		return error;
	memcpy(place, frame, record->cap_len);
	memset(place + record->cap_len, 0, repaired.cap_len - record->cap_len);
	if (!repair->options.checksums || headers.ip == 0)
		return 0;
	struct datagram datagram = {
		.ip = place + headers.network,
		.captured = repaired.cap_len - headers.network,
		.length = length,
		.version = headers.ip,
	};
	bool known;
	bool changed = headers.ip == 4 && repair_ip4_header(&datagram);
	changed |= repair_l4(&datagram, &known);
	repair->report->corrected += changed;
	repair->report->unknown += !known;
	return 0;
}

static int repair_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct repair *repair = (struct repair *)packets;
	struct traces_batch input;
	traces_trace_clear(repair->built);
	int error = traces_packets_pull(packets, repair->from, &input);
	for (size_t i = 0; i < input.count && error == 0; i++)
		error = repair_packet(
			repair, &input.records[i], input.bytes + input.records[i].offset);
	*batch = traces_trace_batch(repair->built);
	return error;
}

static void repair_destroy(struct traces_packets *packets)
{
	struct repair *repair = (struct repair *)packets;
	traces_packets_destroy(repair->from);
	traces_trace_destroy(repair->built);
	free(repair);
}

static const struct traces_packets_ops repair_ops = { repair_next, repair_destroy };

int traces_packets_repair(struct traces_packets **out, struct traces_packets *from,
	const struct traces_repair_options *options, struct traces_repair_report *report)
{
	struct repair *repair = calloc(1, sizeof(*repair));
	if (repair == NULL || traces_trace_create(&repair->built) != 0) {
		free(repair);
		return -ENOMEM;
	}
	*report = (struct traces_repair_report){ 0 };
	repair->packets.ops = &repair_ops;
	repair->from = from;
	repair->options = *options;
	repair->report = report;
	*out = &repair->packets;
	return 0;
}
