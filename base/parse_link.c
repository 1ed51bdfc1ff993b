/* SPDX-License-Identifier: BSD-2-Clause */
/* Link headers, tags and labels, down to an IP header. */
#include "base/parse_private.h"

enum {
	ETHERTYPE_IP4 = 0x0800,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_IP6 = 0x86dd,
	ETHERTYPE_PPP = 0x880b,
	ETHERTYPE_MPLS = 0x8847,
	ETHERTYPE_MPLS_MULTICAST = 0x8848,
	ETHERTYPE_PPPOE_SESSION = 0x8864,
	ETHERTYPE_QINQ = 0x88a8,
	ETHERTYPE_QINQ_OLD = 0x9100,
	ETHERTYPE_QINQ_OLDER = 0x9200,
	LLC_LENGTH_MAX = 1500,
	ARPHRD_NETLINK_MONITOR = 824, /* its "protocol" is a netlink family */
};

/* IP told by its version nibble alone. */
static enum base_parse_result parse_by_version(struct base_parse_walk *walk)
{
	if (walk->data[walk->at] >> 4 == 4)
		return base_parse_ip4(walk);
	if (walk->data[walk->at] >> 4 == 6)
		return base_parse_ip6(walk);
	return BASE_PARSE_NO_FLOW;
}

static enum base_parse_result parse_mpls(struct base_parse_walk *walk)
{
	for (;;) {
		if (!base_parse_has(walk, walk->at, 4))
			return base_parse_refuse(walk, BASE_DROP_TAG_TRUNCATED);
		if (++walk->tags > BASE_PARSE_TAGS_MAX)
			return base_parse_refuse(walk, BASE_DROP_TAG_DEPTH);
		bool bottom = (walk->data[walk->at + 2] & 1) != 0;
		walk->at += 4;
		if (bottom)
			break;
	}
	/* Labels do not say what they carry; what is not IP may be a pseudowire. */
	if (!base_parse_has(walk, walk->at, 1))
		return base_parse_refuse(walk, BASE_DROP_TAG_TRUNCATED);
	return parse_by_version(walk);
}

static enum base_parse_result parse_pppoe(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 8))
		return base_parse_refuse(walk, BASE_DROP_TAG_TRUNCATED);
	const uint8_t *header = walk->data + walk->at;
	if (header[0] != 0x11 || header[1] != 0)
		return BASE_PARSE_NO_FLOW;
	walk->at += 6;
	return base_parse_ppp(walk);
}

/* 802.3 with a length field: only SNAP with an EtherType, and IP's own LLC address, carry IP. */
static enum base_parse_result parse_llc(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 3))
		return BASE_PARSE_NO_FLOW;
	const uint8_t *llc = walk->data + walk->at;
	if (llc[0] == 0x06 && llc[1] == 0x06 && llc[2] == 0x03) {
		walk->at += 3;
		return base_parse_ip4(walk);
	}
	if (llc[0] != 0xaa || llc[1] != 0xaa || llc[2] != 0x03)
		return BASE_PARSE_NO_FLOW;
	if (!base_parse_has(walk, walk->at, 8))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	uint32_t organisation = base_parse_get32(llc + 2) & 0xffffff;
	uint16_t ethertype = base_parse_get16(llc + 6);
	if ((organisation != 0 && organisation != 0xf8) || ethertype <= LLC_LENGTH_MAX)
		return BASE_PARSE_NO_FLOW;
	walk->at += 8;
	return base_parse_ethertype(walk, ethertype);
}

/* Reads one VLAN tag and returns the EtherType behind it, or 0 after a refusal. */
static uint16_t parse_vlan(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 4)) {
		base_parse_refuse(walk, BASE_DROP_TAG_TRUNCATED);
		return 0;
	}
	if (++walk->tags > BASE_PARSE_TAGS_MAX) {
		base_parse_refuse(walk, BASE_DROP_TAG_DEPTH);
		return 0;
	}
	uint16_t id = base_parse_get16(walk->data + walk->at) & 0xfff;
	if (walk->parser->config.zone_source == BASE_ZONE_VLAN && walk->zone == 0)
		walk->zone = id;
	walk->at += 4;
	return base_parse_get16(walk->data + walk->at - 2);
}

static bool is_vlan(uint16_t ethertype)
{
	return ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ ||
	       ethertype == ETHERTYPE_QINQ_OLD || ethertype == ETHERTYPE_QINQ_OLDER;
}

enum base_parse_result base_parse_ethertype(struct base_parse_walk *walk, uint16_t ethertype)
{
	while (is_vlan(ethertype)) {
		ethertype = parse_vlan(walk);
		if (walk->refusal != BASE_DROP_NONE)
			return BASE_PARSE_MALFORMED;
	}
	if (ethertype <= LLC_LENGTH_MAX)
		return parse_llc(walk);
	switch (ethertype) {
	case ETHERTYPE_IP4:
		return base_parse_ip4(walk);
	case ETHERTYPE_IP6:
		return base_parse_ip6(walk);
	case ETHERTYPE_MPLS:
	case ETHERTYPE_MPLS_MULTICAST:
		return parse_mpls(walk);
	case ETHERTYPE_PPPOE_SESSION:
		return parse_pppoe(walk);
	case ETHERTYPE_PPP:
		return base_parse_ppp(walk);
	default:
		return BASE_PARSE_NO_FLOW;
	}
}

enum base_parse_result base_parse_ethernet(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 14))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	uint16_t ethertype = base_parse_get16(walk->data + walk->at + 12);
	walk->at += 14;
	return base_parse_ethertype(walk, ethertype);
}

static enum base_parse_result parse_cisco_hdlc(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 4))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	uint16_t ethertype = base_parse_get16(walk->data + walk->at + 2);
	walk->at += 4;
	return base_parse_ethertype(walk, ethertype);
}

/* PPP: address and control bytes may be there or not, the protocol may be one byte or two. */
enum base_parse_result base_parse_ppp(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 2))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	const uint8_t *bytes = walk->data + walk->at;
	if (bytes[0] == 0xff && bytes[1] == 0x03) {
		walk->at += 2;
		if (!base_parse_has(walk, walk->at, 2))
			return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
		bytes += 2;
	}
	uint16_t protocol = bytes[0];
	walk->at++;
	if ((protocol & 1) == 0) {
		protocol = base_parse_get16(bytes);
		walk->at++;
	}
	switch (protocol) {
	case 0x0021:
		return base_parse_ip4(walk);
	case 0x0057:
		return base_parse_ip6(walk);
	case 0x0281:
	case 0x0283:
		return parse_mpls(walk);
	default:
		return BASE_PARSE_NO_FLOW;
	}
}

static enum base_parse_result parse_ppp_hdlc(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 2))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	uint8_t address = walk->data[walk->at];
	if ((address == 0x0f || address == 0x8f) && walk->data[walk->at + 1] == 0)
		return parse_cisco_hdlc(walk);
	return base_parse_ppp(walk);
}

/* BSD loopback: a 32-bit address family. Both byte orders are met in captures of either type. */
static enum base_parse_result parse_loopback(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 4))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	uint32_t family = base_parse_get32(walk->data + walk->at);
	if (family > UINT16_MAX)
		family = __builtin_bswap32(family);
	walk->at += 4;
	switch (family) {
	case 2:
		return base_parse_ip4(walk);
	case 10: /* Linux */
	case 24: /* NetBSD, OpenBSD */
	case 28: /* FreeBSD */
	case 30: /* Darwin */
		return base_parse_ip6(walk);
	default:
		return BASE_PARSE_NO_FLOW;
	}
}

static enum base_parse_result parse_cooked(struct base_parse_walk *walk, uint32_t header_len,
	uint32_t hardware_offset, uint32_t protocol_offset)
{
	if (!base_parse_has(walk, walk->at, header_len))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	const uint8_t *header = walk->data + walk->at;
	uint16_t protocol = base_parse_get16(header + protocol_offset);
	walk->at += header_len;
	if (base_parse_get16(header + hardware_offset) == ARPHRD_NETLINK_MONITOR)
		return BASE_PARSE_NO_FLOW;
	/* Below the length limit stand Linux's own numbers; 4 is a frame that starts with LLC. */
	if (protocol <= LLC_LENGTH_MAX && protocol != 4)
		return BASE_PARSE_NO_FLOW;
	return base_parse_ethertype(walk, protocol);
}

static enum base_parse_result parse_raw(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 1))
		return base_parse_refuse(walk, BASE_DROP_LINK_TRUNCATED);
	enum base_parse_result result = parse_by_version(walk);
	if (result == BASE_PARSE_NO_FLOW)
		return base_parse_refuse(walk, BASE_DROP_IP_VERSION);
	return result;
}

enum base_parse_result base_parse_link(struct base_parse_walk *walk, enum base_link link)
{
	switch (link) {
	case BASE_LINK_ETHERNET:
		return base_parse_ethernet(walk);
	case BASE_LINK_RAW:
		return parse_raw(walk);
	case BASE_LINK_NULL:
	case BASE_LINK_LOOP:
		return parse_loopback(walk);
	case BASE_LINK_SLL:
		return parse_cooked(walk, 16, 2, 14);
	case BASE_LINK_SLL2:
		return parse_cooked(walk, 20, 8, 0);
	case BASE_LINK_PPP:
	case BASE_LINK_PPP_HDLC:
		return parse_ppp_hdlc(walk);
	case BASE_LINK_C_HDLC:
		return parse_cisco_hdlc(walk);
	default:
		return BASE_PARSE_NO_FLOW;
	}
}
