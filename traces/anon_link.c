/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/anon.h"

#include "traces/headers.h"

enum {
	ETHERTYPE_RARP = 0x8035,
	ETHERTYPE_BRIDGED = 0x6558,
	ARP_BYTES = 8, /* before its addresses */
	COOKED_ADDRESS_BYTES = 8,
};

/* ARP for IPv4: two pairs of hardware and protocol addresses. What follows is padding. */
static uint32_t arp(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, ARP_BYTES))
		return at;
	const uint8_t *header = walk->frame + at;
	uint8_t hardware_bytes = header[4], protocol_bytes = header[5];
	bool ip4 = traces_net16(header + 2) == TRACES_ETHERTYPE_IP4 && protocol_bytes == 4;
	at += ARP_BYTES;
	for (int i = 0; i < 2; i++) {
		if (!ip4 || !traces_anon_has(end, at, hardware_bytes + 4u))
			return at;
		if (hardware_bytes == TRACES_ANON_MAC_BYTES)
			traces_anon_mac(walk, at);
		else
			traces_anon_fill(walk, at, hardware_bytes, 0);
		traces_anon_ip4_address(walk, at + hardware_bytes);
		at += hardware_bytes + 4u;
	}
	return at;
}

uint32_t traces_anon_ethertype(
	struct traces_anon_walk *walk, uint16_t ethertype, uint32_t at, uint32_t end)
{
	uint8_t tags = 0;
	ethertype = traces_headers_skip_tags(walk->frame, end, ethertype, &at, &tags);
	switch (ethertype) {
	case TRACES_ETHERTYPE_IP4:
		return traces_anon_ip4(walk, at, end);
	case TRACES_ETHERTYPE_IP6:
		return traces_anon_ip6(walk, at, end);
	case TRACES_ETHERTYPE_ARP:
	case ETHERTYPE_RARP:
		return arp(walk, at, end);
	case ETHERTYPE_BRIDGED:
		return traces_anon_ethernet(walk, at, end);
	default:
		return at < end ? at : end;
	}
}

uint32_t traces_anon_ethernet(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, TRACES_ETHERNET_BYTES))
		return at;
	traces_anon_mac(walk, at);
	traces_anon_mac(walk, at + TRACES_ANON_MAC_BYTES);
	uint16_t ethertype = traces_net16(walk->frame + at + 12);
	return traces_anon_ethertype(walk, ethertype, at + TRACES_ETHERNET_BYTES, end);
}

/* The sender's address in Linux's cooked headers: up to 8 bytes, of whatever hardware. */
static void cooked_address(struct traces_anon_walk *walk, uint32_t at, uint32_t length)
{
	if (length == TRACES_ANON_MAC_BYTES) {
		traces_anon_mac(walk, at);
		traces_anon_fill(walk, at + length, COOKED_ADDRESS_BYTES - length, 0);
	} else {
		traces_anon_fill(walk, at, COOKED_ADDRESS_BYTES, 0);
	}
}

static uint32_t link_header_bytes(enum base_link link)
{
	static const uint8_t bytes[BASE_LINKS_COUNT] = {
		[BASE_LINK_ETHERNET] = TRACES_ETHERNET_BYTES,
		[BASE_LINK_RAW] = 0,
		[BASE_LINK_NULL] = 4,
		[BASE_LINK_LOOP] = 4,
		[BASE_LINK_SLL] = 16,
		[BASE_LINK_SLL2] = 20,
		[BASE_LINK_PPP] = 4,
		[BASE_LINK_PPP_HDLC] = 4,
		[BASE_LINK_C_HDLC] = 4,
	};
	return bytes[link];
}

uint32_t traces_anon_link(struct traces_anon_walk *walk, enum base_link link)
{
	uint32_t end = walk->cap_len;
	if (link == BASE_LINK_ETHERNET)
		return traces_anon_ethernet(walk, 0, end);
	struct traces_headers headers;
	uint32_t header_bytes = link_header_bytes(link);
	if (end < header_bytes)
		return 0;
	traces_headers_find(link, walk->frame, end, &headers);
	if (link == BASE_LINK_SLL)
		cooked_address(walk, 6, traces_net16(walk->frame + 4));
	else if (link == BASE_LINK_SLL2)
		cooked_address(walk, 12, walk->frame[11]);
	/* Cisco's SLARP has RARP's number and another form. */
	bool slarp = link != BASE_LINK_SLL && link != BASE_LINK_SLL2 &&
		     headers.ethertype == ETHERTYPE_RARP;
	if (!headers.link_known || slarp)
		return header_bytes;
	return traces_anon_ethertype(walk, headers.ethertype, headers.payload, end);
}
