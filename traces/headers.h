/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: from a captured frame to its IP header, for what converts and rewrites
 * frames. The walk is the parser's (base/parse_link.c); it keeps where the link header ends, which
 * the parser does not tell, and has no tunnels.
 */
#pragma once

#include "base/packet.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	TRACES_ETHERTYPE_IP4 = 0x0800,
	TRACES_ETHERTYPE_ARP = 0x0806,
	TRACES_ETHERTYPE_VLAN = 0x8100,
	TRACES_ETHERTYPE_IP6 = 0x86dd,
	TRACES_ETHERTYPE_PPP = 0x880b,
	TRACES_ETHERTYPE_MPLS = 0x8847,
	TRACES_ETHERTYPE_MPLS_MULTICAST = 0x8848,
	TRACES_ETHERTYPE_PPPOE = 0x8864,
	TRACES_ETHERTYPE_QINQ = 0x88a8,
	TRACES_ETHERTYPE_QINQ_OLD = 0x9100,
	TRACES_ETHERTYPE_QINQ_OLDER = 0x9200,
	TRACES_LLC_LENGTH_MAX = 1500, /* an EtherType up to here is a length, LLC follows */
	TRACES_ETHERNET_BYTES = 14,
	TRACES_IP4_BYTES = 20,
	TRACES_IP6_BYTES = 40,
};

struct traces_headers {
	bool link_known;    /* payload and ethertype are valid */
	uint32_t payload;   /* first byte behind the link header */
	uint16_t ethertype; /* of what stands there */
	uint8_t tags;       /* VLAN tags, MPLS labels, PPPoE headers before the IP header */
	uint8_t ip;         /* version of the IP header at `network`; 0: there is none */
	uint32_t network;
};

/* Reads below cap_len only. The IP header's fixed part is whole when ip is not 0. */
void traces_headers_find(
	enum base_link link, const uint8_t *frame, uint32_t cap_len, struct traces_headers *out);

/* Behind VLAN tags, MPLS labels, PPPoE, PPP and SNAP headers, which are counted: the EtherType of
 * what stands at *offset, 0 when that is not known or cut off. */
uint16_t traces_headers_skip_tags(const uint8_t *frame, uint32_t cap_len, uint16_t ethertype,
	uint32_t *offset, uint8_t *tags);

bool traces_ethertype_is_vlan(uint16_t ethertype);

/* ---- network byte order ---- */

static inline uint16_t traces_net16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t traces_net32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static inline void traces_put_net16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static inline void traces_put_net32(uint8_t *bytes, uint32_t value)
{
	traces_put_net16(bytes, (uint16_t)(value >> 16));
	traces_put_net16(bytes + 2, (uint16_t)value);
}

static inline void traces_put_net64(uint8_t *bytes, uint64_t value)
{
	traces_put_net32(bytes, (uint32_t)(value >> 32));
	traces_put_net32(bytes + 4, (uint32_t)value);
}
