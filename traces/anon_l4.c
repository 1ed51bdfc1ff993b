/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/anon.h"

#include "traces/headers.h"

enum {
	TCP_BYTES = 20,
	UDP_BYTES = 8,
	ICMP_BYTES = 8,
	SCTP_BYTES = 12,
	ESP_BYTES = 8,
	PROTOCOL_IGMP = 2,
	PROTOCOL_DCCP = 33,
	PROTOCOL_UDPLITE = 136,
	TCP_OPTION_END = 0,
	TCP_OPTION_NOP = 1,
	TCP_OPTION_MULTIPATH = 30,
	MULTIPATH_ADD_ADDRESS = 3,
	ICMP_REDIRECT = 5,
	ICMP6_REDIRECT = 137,
	IGMP_BYTES = 8,
};

/* ---- checksums ---- */

void traces_anon_cover_l4(struct traces_anon_walk *walk, uint8_t protocol, uint32_t l4,
	uint32_t end, struct traces_anon_cover cover)
{
	uint32_t field = 2;
	cover.start = l4;
	cover.end = end;
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		field = 16;
		break;
	case BASE_PROTOCOL_UDP:
		field = 6;
		cover.zero_is_none = true;
		break;
	case PROTOCOL_UDPLITE:
	case PROTOCOL_DCCP:
		/* Of the payload they may cover a part only; their headers hold no address. */
		field = 6;
		cover.end = l4;
		break;
	case BASE_PROTOCOL_ICMP:
	case PROTOCOL_IGMP:
		cover.address_bytes = 0;
		break;
	case BASE_PROTOCOL_ICMP6:
		break;
	default:
		return;
	}
	if (!traces_anon_has(end, l4, field + 2))
		return;
	cover.field = l4 + field;
	if (cover.zero_is_none && traces_net16(walk->frame + cover.field) == 0)
		return;
	traces_anon_cover(walk, &cover);
}

/* ---- headers ---- */

/* How much of a payload stays: all of it when that was asked for. */
static uint32_t payload(const struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	return walk->options->keep_payload || at > end ? end : at;
}

/* Multipath TCP's addresses of other paths become no-operations. */
static void tcp_options(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	while (at < end && walk->frame[at] != TCP_OPTION_END) {
		uint8_t kind = walk->frame[at];
		if (kind == TCP_OPTION_NOP) {
			at++;
			continue;
		}
		uint32_t length = at + 1 < end ? walk->frame[at + 1] : 2;
		if (length < 2)
			return;
		length = length < end - at ? length : end - at;
		if (kind == TCP_OPTION_MULTIPATH &&
			(length < 3 || walk->frame[at + 2] >> 4 == MULTIPATH_ADD_ADDRESS))
			traces_anon_fill(walk, at, length, TCP_OPTION_NOP);
		at += length;
	}
}

static uint32_t tcp(struct traces_anon_walk *walk, uint32_t l4, uint32_t end)
{
	if (!traces_anon_has(end, l4, TCP_BYTES))
		return end;
	uint32_t bytes = (uint32_t)(walk->frame[l4 + 12] >> 4) * 4;
	if (bytes < TCP_BYTES)
		return l4 + TCP_BYTES;
	uint32_t options_end = traces_anon_has(end, l4, bytes) ? l4 + bytes : end;
	tcp_options(walk, l4 + TCP_BYTES, options_end);
	return payload(walk, options_end, end);
}

static uint32_t udp(struct traces_anon_walk *walk, uint32_t l4, uint32_t end)
{
	uint32_t keep;
	if (!traces_anon_has(end, l4, UDP_BYTES))
		return end;
	const uint8_t *header = walk->frame + l4;
	if (traces_anon_tunnel_port(walk, traces_net16(header), traces_net16(header + 2),
		    l4 + UDP_BYTES, end, &keep))
		return keep;
	return payload(walk, l4 + UDP_BYTES, end);
}

static uint32_t fixed(
	const struct traces_anon_walk *walk, uint32_t l4, uint32_t bytes, uint32_t end)
{
	return traces_anon_has(end, l4, bytes) ? payload(walk, l4 + bytes, end) : end;
}

/* ---- ICMP ---- */

/* The packet that an error quotes, up to where RFC 4884 says it ends: extensions behind it may hold
 * addresses. */
static uint32_t quote(struct traces_anon_walk *walk, uint32_t at, uint32_t end, uint32_t length)
{
	if (length > 0 && length < end - at)
		end = at + length;
	return traces_anon_ip(walk, at, end);
}

static uint32_t icmp(struct traces_anon_walk *walk, uint32_t l4, uint32_t end)
{
	if (!traces_anon_has(end, l4, ICMP_BYTES))
		return traces_anon_has(end, l4, 4) ? l4 + 4 : end;
	const uint8_t *header = walk->frame + l4;
	uint32_t body = l4 + ICMP_BYTES;
	switch (header[0]) {
	case 0: /* echo and its reply, timestamps: bytes of the sender's choice, and times */
	case 8:
	case 13:
	case 14:
		return payload(walk, body, end);
	case ICMP_REDIRECT:
		traces_anon_ip4_address(walk, l4 + 4);
		return quote(walk, body, end, 0);
	case 3: /* unreachable, quench, time exceeded, parameter problem */
	case 4:
	case 11:
	case 12:
		return quote(walk, body, end, header[5] * 4u);
	default:
		return body;
	}
}

static uint32_t icmp6(struct traces_anon_walk *walk, uint32_t l4, uint32_t end)
{
	if (!traces_anon_has(end, l4, ICMP_BYTES))
		return traces_anon_has(end, l4, 4) ? l4 + 4 : end;
	const uint8_t *header = walk->frame + l4;
	uint32_t body = l4 + ICMP_BYTES;
	uint32_t addresses = 0; /* that follow; options behind them are not kept */
	switch (header[0]) {
	case 1: /* unreachable, time exceeded: lengths in 8 bytes */
	case 3:
		return quote(walk, body, end, header[4] * 8u);
	case 2: /* too big, parameter problem */
	case 4:
		return quote(walk, body, end, 0);
	case 128: /* echo and its reply */
	case 129:
		return payload(walk, body, end);
	case 130: /* multicast listeners, neighbours */
	case 131:
	case 132:
	case 135:
	case 136:
		addresses = 1;
		break;
	case ICMP6_REDIRECT:
		addresses = 2;
		break;
	default:
		break;
	}
	for (uint32_t i = 0; i < addresses && traces_anon_has(end, body, 16); i++, body += 16)
		traces_anon_ip6_address(walk, body);
	return body;
}

/* Queries, reports and leaves of versions 1 and 2, and version 3's query: one group. */
static uint32_t igmp(struct traces_anon_walk *walk, uint32_t l4, uint32_t end)
{
	if (!traces_anon_has(end, l4, IGMP_BYTES))
		return traces_anon_has(end, l4, 4) ? l4 + 4 : end;
	uint8_t type = walk->frame[l4];
	if (type != 0x11 && type != 0x12 && type != 0x16 && type != 0x17)
		return l4 + 4;
	traces_anon_ip4_address(walk, l4 + 4);
	return l4 + IGMP_BYTES;
}

uint32_t traces_anon_l4(struct traces_anon_walk *walk, uint8_t protocol, uint32_t l4, uint32_t end)
{
	uint32_t keep;
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		return tcp(walk, l4, end);
	case BASE_PROTOCOL_UDP:
		return udp(walk, l4, end);
	case PROTOCOL_UDPLITE:
		return fixed(walk, l4, UDP_BYTES, end);
	case BASE_PROTOCOL_SCTP:
	case PROTOCOL_DCCP:
		return fixed(walk, l4, SCTP_BYTES, end);
	case BASE_PROTOCOL_ESP:
		return fixed(walk, l4, ESP_BYTES, end);
	case BASE_PROTOCOL_ICMP:
		return icmp(walk, l4, end);
	case BASE_PROTOCOL_ICMP6:
		return icmp6(walk, l4, end);
	case PROTOCOL_IGMP:
		return igmp(walk, l4, end);
	default:
		break;
	}
	return traces_anon_tunnel_protocol(walk, protocol, l4, end, &keep) ? keep : l4;
}
