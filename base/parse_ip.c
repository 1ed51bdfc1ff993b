/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4 and IPv6 headers, with the extension headers that both can carry. */
#include "base/parse_private.h"

enum {
	HEADER_HOP_BY_HOP = 0,
	HEADER_ROUTING = 43,
	HEADER_FRAGMENT = 44,
	HEADER_NONE = 59,
	HEADER_DESTINATION = 60,
	HEADER_MOBILITY = 135,
	HEADER_HIP = 139,
	HEADER_SHIM6 = 140,
	DATAGRAM_MAX = 65535,
};

static void enter_datagram(struct base_parse_walk *walk, const struct base_parse_ip *ip,
	uint16_t family_flag, uint32_t end)
{
	walk->wire_end = end;
	if (walk->cap_end > end)
		walk->cap_end = end;
	walk->out.l3_offset = (uint16_t)ip->l3;
	walk->out.ip_end = end;
	walk->out.flags = (uint16_t)(walk->out.flags & ~(BASE_PACKET_IP4 | BASE_PACKET_IP6));
	walk->out.flags |= family_flag;
	if (ip->fragment)
		walk->out.flags |= BASE_PACKET_FRAGMENT;
	if (ip->later)
		walk->out.flags |= BASE_PACKET_FRAGMENT_LATER;
}

enum base_parse_result base_parse_ip4(struct base_parse_walk *walk)
{
	uint32_t at = walk->at;
	const uint8_t *header = walk->data + at;
	if (base_parse_has(walk, at, 1) && header[0] >> 4 != 4)
		return base_parse_refuse(walk, BASE_DROP_IP_VERSION);
	if (!base_parse_has(walk, at, 20))
		return base_parse_refuse(walk, BASE_DROP_IP4_TRUNCATED);
	uint32_t header_len = (header[0] & 15u) * 4;
	uint32_t total_len = base_parse_get16(header + 2);
	/* Segmentation offload leaves the length 0 in captures: then the wire tells. */
	if (total_len == 0)
		total_len = walk->wire_end - at;
	if (header_len < 20)
		return base_parse_refuse(walk, BASE_DROP_IP4_HEADER_LENGTH);
	if (total_len < 20 || total_len > walk->wire_end - at)
		return base_parse_refuse(walk, BASE_DROP_IP4_TOTAL_LENGTH);
	if (header_len > total_len)
		return base_parse_refuse(walk, BASE_DROP_IP4_HEADER_LENGTH);
	if (!base_parse_has(walk, at, header_len))
		return base_parse_refuse(walk, BASE_DROP_IP4_TRUNCATED);
	uint32_t fragment_word = base_parse_get16(header + 6);
	uint32_t fragment_offset = (fragment_word & 0x1fff) * 8;
	if (fragment_offset != 0 && fragment_offset + total_len - header_len > DATAGRAM_MAX)
		return base_parse_refuse(walk, BASE_DROP_IP4_FRAGMENT_RANGE);

	struct base_parse_ip ip = { .source = header + 12,
		.destination = header + 16,
		.l3 = at,
		.l4 = at + header_len,
		.fragment_id = base_parse_get16(header + 4),
		.family = 4,
		.protocol = header[9],
		.fragment_protocol = header[9],
		.fragment = (fragment_word & 0x3fff) != 0,
		.later = fragment_offset != 0 };
	enter_datagram(walk, &ip, BASE_PACKET_IP4, at + total_len);
	/* The authentication header is IPv6's extension header in IPv4 too. */
	if (ip.protocol == BASE_PROTOCOL_AH && !ip.later) {
		enum base_drop_reason reason = base_parse_extensions(walk, &ip, walk->wire_end);
		if (reason != BASE_DROP_NONE)
			return base_parse_refuse(walk, reason);
	}
	return base_parse_l4(walk, &ip);
}

static bool is_extension(uint8_t family, uint8_t protocol)
{
	if (family == 4)
		return protocol == BASE_PROTOCOL_AH;
	switch (protocol) {
	case HEADER_HOP_BY_HOP:
	case HEADER_ROUTING:
	case HEADER_FRAGMENT:
	case BASE_PROTOCOL_AH:
	case HEADER_DESTINATION:
	case HEADER_MOBILITY:
	case HEADER_HIP:
	case HEADER_SHIM6:
		return true;
	default:
		return false;
	}
}

/* These may stand alone, with nothing behind them: then they are what the packet carries. */
static bool is_signalling(uint8_t protocol)
{
	return protocol == HEADER_MOBILITY || protocol == HEADER_HIP || protocol == HEADER_SHIM6;
}

static enum base_drop_reason read_fragment_header(
	const uint8_t *header, struct base_parse_ip *ip, uint32_t data_len)
{
	uint32_t word = base_parse_get16(header + 2);
	uint32_t offset = word & 0xfff8;
	if (offset != 0 && offset + data_len > DATAGRAM_MAX)
		return BASE_DROP_IP6_FRAGMENT_RANGE;
	/* Offset 0 without "more" is atomic (RFC 6946): no fragment at all. */
	if (offset == 0 && (word & 1) == 0)
		return BASE_DROP_NONE;
	ip->fragment = true;
	ip->later = offset != 0;
	ip->fragment_id = base_parse_get32(header + 4);
	return BASE_DROP_NONE;
}

enum base_drop_reason base_parse_extensions(
	struct base_parse_walk *walk, struct base_parse_ip *ip, uint32_t end)
{
	while (is_extension(ip->family, ip->protocol)) {
		if (++walk->extensions > BASE_PARSE_EXTENSIONS_MAX)
			return BASE_DROP_IP6_EXTENSION_DEPTH;
		if (!base_parse_has(walk, ip->l4, 8))
			return BASE_DROP_IP6_EXTENSION_TRUNCATED;
		const uint8_t *header = walk->data + ip->l4;
		uint32_t size = 8;
		if (ip->protocol == BASE_PROTOCOL_AH)
			size = (header[1] + 2u) * 4;
		else if (ip->protocol != HEADER_FRAGMENT)
			size = (header[1] + 1u) * 8;
		if (size > end - ip->l4)
			return BASE_DROP_IP6_EXTENSION_TRUNCATED;
		if (ip->protocol == HEADER_FRAGMENT) {
			enum base_drop_reason reason =
				read_fragment_header(header, ip, end - ip->l4 - size);
			if (reason != BASE_DROP_NONE)
				return reason;
		} else if (is_signalling(ip->protocol) && header[0] == HEADER_NONE) {
			return BASE_DROP_NONE;
		}
		ip->protocol = header[0];
		ip->l4 += size;
		if (ip->later)
			return BASE_DROP_NONE;
	}
	return BASE_DROP_NONE;
}

enum base_parse_result base_parse_ip6(struct base_parse_walk *walk)
{
	uint32_t at = walk->at;
	const uint8_t *header = walk->data + at;
	if (base_parse_has(walk, at, 1) && header[0] >> 4 != 6)
		return base_parse_refuse(walk, BASE_DROP_IP_VERSION);
	if (!base_parse_has(walk, at, 40))
		return base_parse_refuse(walk, BASE_DROP_IP6_TRUNCATED);
	uint32_t payload_len = base_parse_get16(header + 4);
	uint32_t room = walk->wire_end - at - 40;
	/* 0 stands for a jumbogram or segmentation offload, unless there is nothing to carry. */
	if (payload_len == 0 && header[6] != HEADER_NONE)
		payload_len = room;
	if (payload_len > room)
		return base_parse_refuse(walk, BASE_DROP_IP6_PAYLOAD_LENGTH);

	struct base_parse_ip ip = { .source = header + 8,
		.destination = header + 24,
		.l3 = at,
		.l4 = at + 40,
		.family = 6,
		.protocol = header[6] };
	uint32_t end = at + 40 + payload_len;
	if (walk->cap_end > end)
		walk->cap_end = end;
	enum base_drop_reason reason = base_parse_extensions(walk, &ip, end);
	if (reason != BASE_DROP_NONE)
		return base_parse_refuse(walk, reason);
	enter_datagram(walk, &ip, BASE_PACKET_IP6, end);
	return base_parse_l4(walk, &ip);
}
