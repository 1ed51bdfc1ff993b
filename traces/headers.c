/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/headers.h"

enum {
	TAGS_MAX = 32,
	PPP_IP4 = 0x0021,
	PPP_IP6 = 0x0057,
	PPP_MPLS = 0x0281,
	PPP_MPLS_MULTICAST = 0x0283,
	COOKED_LLC = 4, /* Linux's own number: a frame that starts with LLC */
	ARPHRD_NETLINK = 824,
};

static bool has(uint32_t cap_len, uint32_t offset, uint32_t size)
{
	return offset <= cap_len && size <= cap_len - offset;
}

/* ---- link headers: their length and the EtherType of what follows, or nothing ---- */

static void found(struct traces_headers *out, uint32_t payload, uint16_t ethertype)
{
	out->link_known = true;
	out->payload = payload;
	out->ethertype = ethertype;
}

static void ppp_header(const uint8_t *frame, uint32_t cap_len, struct traces_headers *out)
{
	uint32_t at = out->payload;
	if (has(cap_len, at, 2) && frame[at] == 0xff && frame[at + 1] == 0x03)
		at += 2;
	if (!has(cap_len, at, 1))
		return;
	uint16_t protocol = frame[at++];
	if ((protocol & 1) == 0) {
		if (!has(cap_len, at, 1))
			return;
		protocol = (uint16_t)(protocol << 8 | frame[at++]);
	}
	if (protocol == PPP_IP4)
		found(out, at, TRACES_ETHERTYPE_IP4);
	else if (protocol == PPP_IP6)
		found(out, at, TRACES_ETHERTYPE_IP6);
	else if (protocol == PPP_MPLS)
		found(out, at, TRACES_ETHERTYPE_MPLS);
	else if (protocol == PPP_MPLS_MULTICAST)
		found(out, at, TRACES_ETHERTYPE_MPLS_MULTICAST);
}

static void ppp_hdlc_header(const uint8_t *frame, uint32_t cap_len, struct traces_headers *out)
{
	bool cisco = has(cap_len, 0, 4) && (frame[0] == 0x0f || frame[0] == 0x8f) && frame[1] == 0;
	if (cisco)
		found(out, 4, traces_net16(frame + 2));
	else
		ppp_header(frame, cap_len, out);
}

/* BSD loopback: an address family in either byte order. */
static void loopback_header(const uint8_t *frame, struct traces_headers *out)
{
	uint32_t family = traces_net32(frame);
	if (family > UINT16_MAX)
		family = __builtin_bswap32(family);
	if (family == 2)
		found(out, 4, TRACES_ETHERTYPE_IP4);
	else if (family == 10 || family == 24 || family == 28 || family == 30)
		found(out, 4, TRACES_ETHERTYPE_IP6);
}

static void cooked_header(const uint8_t *frame, uint32_t size, uint32_t hardware, uint32_t protocol,
	struct traces_headers *out)
{
	uint16_t ethertype = traces_net16(frame + protocol);
	if (traces_net16(frame + hardware) == ARPHRD_NETLINK)
		return;
	if (ethertype > TRACES_LLC_LENGTH_MAX || ethertype == COOKED_LLC)
		found(out, size, ethertype);
}

static void link_header(
	enum base_link link, const uint8_t *frame, uint32_t cap_len, struct traces_headers *out)
{
	switch (link) {
	case BASE_LINK_ETHERNET:
		if (has(cap_len, 0, TRACES_ETHERNET_BYTES))
			found(out, TRACES_ETHERNET_BYTES, traces_net16(frame + 12));
		break;
	case BASE_LINK_RAW:
		if (has(cap_len, 0, 1) && (frame[0] >> 4 == 4 || frame[0] >> 4 == 6))
			found(out, 0,
				frame[0] >> 4 == 4 ? TRACES_ETHERTYPE_IP4 : TRACES_ETHERTYPE_IP6);
		break;
	case BASE_LINK_NULL:
	case BASE_LINK_LOOP:
		if (has(cap_len, 0, 4))
			loopback_header(frame, out);
		break;
	case BASE_LINK_SLL:
		if (has(cap_len, 0, 16))
			cooked_header(frame, 16, 2, 14, out);
		break;
	case BASE_LINK_SLL2:
		if (has(cap_len, 0, 20))
			cooked_header(frame, 20, 8, 0, out);
		break;
	case BASE_LINK_PPP:
	case BASE_LINK_PPP_HDLC:
		ppp_hdlc_header(frame, cap_len, out);
		break;
	case BASE_LINK_C_HDLC:
		if (has(cap_len, 0, 4))
			found(out, 4, traces_net16(frame + 2));
		break;
	default:
		break;
	}
}

/* ---- from an EtherType to IP ---- */

bool traces_ethertype_is_vlan(uint16_t ethertype)
{
	return ethertype == TRACES_ETHERTYPE_VLAN || ethertype == TRACES_ETHERTYPE_QINQ ||
	       ethertype == TRACES_ETHERTYPE_QINQ_OLD || ethertype == TRACES_ETHERTYPE_QINQ_OLDER;
}

/* Only SNAP with an EtherType and IP's own LLC address carry IP. The EtherType, 0 for others. */
static uint16_t llc_header(const uint8_t *frame, uint32_t cap_len, uint32_t *offset)
{
	const uint8_t *llc = frame + *offset;
	if (has(cap_len, *offset, 3) && llc[0] == 0x06 && llc[1] == 0x06 && llc[2] == 0x03) {
		*offset += 3;
		return TRACES_ETHERTYPE_IP4;
	}
	if (!has(cap_len, *offset, 8) || llc[0] != 0xaa || llc[1] != 0xaa || llc[2] != 0x03)
		return 0;
	uint32_t organisation = traces_net32(llc + 2) & 0xffffff;
	uint16_t ethertype = traces_net16(llc + 6);
	if ((organisation != 0 && organisation != 0xf8) || ethertype <= TRACES_LLC_LENGTH_MAX)
		return 0;
	*offset += 8;
	return ethertype;
}

/* The EtherType behind all labels, by the version nibble; 0: not IP, or cut. */
static uint16_t mpls_labels(const uint8_t *frame, uint32_t cap_len, uint32_t *offset, uint8_t *tags)
{
	for (bool bottom = false; !bottom; *offset += 4) {
		if (!has(cap_len, *offset, 4) || ++*tags > TAGS_MAX)
			return 0;
		bottom = (frame[*offset + 2] & 1) != 0;
	}
	if (!has(cap_len, *offset, 1))
		return 0;
	uint8_t version = frame[*offset] >> 4;
	return version == 4 ? TRACES_ETHERTYPE_IP4 : version == 6 ? TRACES_ETHERTYPE_IP6 : 0;
}

static uint16_t ppp_ethertype(const uint8_t *frame, uint32_t cap_len, uint32_t *offset)
{
	struct traces_headers ppp = { .payload = *offset };
	ppp_header(frame, cap_len, &ppp);
	*offset = ppp.payload;
	return ppp.link_known ? ppp.ethertype : 0;
}

/* One header between EtherTypes; the next EtherType, 0 when there is none. */
static uint16_t next_ethertype(
	const uint8_t *frame, uint32_t cap_len, uint16_t ethertype, uint32_t *offset, uint8_t *tags)
{
	if (++*tags > TAGS_MAX)
		return 0;
	if (traces_ethertype_is_vlan(ethertype)) {
		if (!has(cap_len, *offset, 4))
			return 0;
		*offset += 4;
		return traces_net16(frame + *offset - 2);
	}
	switch (ethertype) {
	case TRACES_ETHERTYPE_MPLS:
	case TRACES_ETHERTYPE_MPLS_MULTICAST:
		--*tags; /* labels count for themselves */
		return mpls_labels(frame, cap_len, offset, tags);
	case TRACES_ETHERTYPE_PPPOE:
		if (!has(cap_len, *offset, 6) || traces_net16(frame + *offset) != 0x1100)
			return 0;
		*offset += 6;
		return ppp_ethertype(frame, cap_len, offset);
	case TRACES_ETHERTYPE_PPP:
		return ppp_ethertype(frame, cap_len, offset);
	default:
		return ethertype <= TRACES_LLC_LENGTH_MAX ? llc_header(frame, cap_len, offset) : 0;
	}
}

static bool is_tag(uint16_t ethertype)
{
	return traces_ethertype_is_vlan(ethertype) || ethertype == TRACES_ETHERTYPE_MPLS ||
	       ethertype == TRACES_ETHERTYPE_MPLS_MULTICAST ||
	       ethertype == TRACES_ETHERTYPE_PPPOE || ethertype == TRACES_ETHERTYPE_PPP ||
	       ethertype <= TRACES_LLC_LENGTH_MAX;
}

uint16_t traces_headers_skip_tags(
	const uint8_t *frame, uint32_t cap_len, uint16_t ethertype, uint32_t *offset, uint8_t *tags)
{
	while (is_tag(ethertype)) {
		ethertype = next_ethertype(frame, cap_len, ethertype, offset, tags);
		if (ethertype == 0)
			return 0;
	}
	return ethertype;
}

/* A version that the EtherType denies is not IP to anybody. */
static uint8_t ip_version(
	const uint8_t *frame, uint32_t cap_len, uint16_t ethertype, uint32_t offset)
{
	if (ethertype != TRACES_ETHERTYPE_IP4 && ethertype != TRACES_ETHERTYPE_IP6)
		return 0;
	uint8_t version = ethertype == TRACES_ETHERTYPE_IP4 ? 4 : 6;
	uint32_t size = version == 4 ? TRACES_IP4_BYTES : TRACES_IP6_BYTES;
	return has(cap_len, offset, size) && frame[offset] >> 4 == version ? version : 0;
}

void traces_headers_find(
	enum base_link link, const uint8_t *frame, uint32_t cap_len, struct traces_headers *out)
{
	*out = (struct traces_headers){ 0 };
	link_header(link, frame, cap_len, out);
	if (!out->link_known)
		return;
	out->network = out->payload;
	uint16_t inner =
		traces_headers_skip_tags(frame, cap_len, out->ethertype, &out->network, &out->tags);
	out->ip = ip_version(frame, cap_len, inner, out->network);
}
