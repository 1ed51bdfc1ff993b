/* SPDX-License-Identifier: BSD-2-Clause */
/* What tunnels carry. A tunnel that is not understood is cut behind the header that announced it,
 * even where payloads are kept: what it carries has addresses. */
#include "traces/anon.h"

#include "traces/headers.h"

enum {
	PROTOCOL_ETHERIP = 97,
	PROTOCOL_MPLS = 137,
	ETHERIP_BYTES = 2,
	ETHERTYPE_BRIDGED = 0x6558,
	ETHERTYPE_ERSPAN = 0x88be,
	ETHERTYPE_ERSPAN3 = 0x22eb,
	ERSPAN_BYTES = 8,
	ERSPAN3_BYTES = 12,
	ERSPAN3_SUBHEADER_BYTES = 8,
	GRE_CHECKSUM = 0x8000,
	GRE_ROUTING = 0x4000,
	GRE_KEY = 0x2000,
	GRE_SEQUENCE = 0x1000,
	GRE_ACKNOWLEDGED = 0x0080,
	PORT_L2TP = 1701,
	PORT_GTP_USER = 2152,
	PORT_TEREDO = 3544,
	PORT_LISP = 4341,
	PORT_LISP_CONTROL = 4342,
	PORT_VXLAN = 4789,
	PORT_VXLAN_GPE = 4790,
	PORT_CAPWAP_CONTROL = 5246,
	PORT_CAPWAP = 5247,
	PORT_GUE = 6080,
	PORT_GENEVE = 6081,
	PORT_MPLS = 6635,
	PORT_VXLAN_LINUX = 8472,
	VXLAN_BYTES = 8,
	GTP_BYTES = 8,
	GTP_G_PDU = 255,
	GTP_EXTENSIONS_MAX = 16,
};

/* ---- GRE ---- */

static uint32_t erspan(struct traces_anon_walk *walk, uint16_t ethertype, bool sequenced,
	uint32_t at, uint32_t end)
{
	uint32_t bytes = sequenced ? ERSPAN_BYTES : 0; /* type I has no header */
	if (ethertype == ETHERTYPE_ERSPAN3) {
		if (!traces_anon_has(end, at, ERSPAN3_BYTES))
			return at;
		bool subheader = (walk->frame[at + ERSPAN3_BYTES - 1] & 1) != 0;
		bytes = ERSPAN3_BYTES + (subheader ? ERSPAN3_SUBHEADER_BYTES : 0);
	}
	return traces_anon_has(end, at, bytes) ? traces_anon_ethernet(walk, at + bytes, end) : at;
}

static uint32_t gre(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, 4))
		return at;
	uint16_t bits = traces_net16(walk->frame + at);
	uint16_t ethertype = traces_net16(walk->frame + at + 2);
	unsigned int version = bits & 7;
	bool sequenced = (bits & GRE_SEQUENCE) != 0;
	uint32_t bytes = 4;
	bytes += (bits & GRE_CHECKSUM) != 0 ? 4 : 0;
	bytes += (bits & GRE_KEY) != 0 ? 4 : 0;
	bytes += sequenced ? 4 : 0;
	bytes += version == 1 && (bits & GRE_ACKNOWLEDGED) != 0 ? 4 : 0;
	/* Source routes hold addresses; nobody uses them any more. */
	if (version > 1 || (bits & GRE_ROUTING) != 0 || !traces_anon_has(end, at, bytes))
		return at;
	if ((bits & GRE_CHECKSUM) != 0) {
		struct traces_anon_cover cover = { .field = at + 4, .start = at, .end = end };
		traces_anon_cover(walk, &cover);
	}
	/* An acknowledgement of PPTP without a sequence number carries nothing. */
	if (version == 1 && !sequenced)
		return at + bytes;
	if (ethertype == ETHERTYPE_ERSPAN || ethertype == ETHERTYPE_ERSPAN3)
		return erspan(walk, ethertype, sequenced, at + bytes, end);
	return traces_anon_ethertype(walk, ethertype, at + bytes, end);
}

bool traces_anon_tunnel_protocol(
	struct traces_anon_walk *walk, uint8_t protocol, uint32_t at, uint32_t end, uint32_t *keep)
{
	switch (protocol) {
	case BASE_PROTOCOL_IPIP:
		*keep = traces_anon_ip4(walk, at, end);
		return true;
	case BASE_PROTOCOL_IP6:
		*keep = traces_anon_ip6(walk, at, end);
		return true;
	case BASE_PROTOCOL_GRE:
		*keep = gre(walk, at, end);
		return true;
	case PROTOCOL_MPLS:
		*keep = traces_anon_ethertype(walk, TRACES_ETHERTYPE_MPLS, at, end);
		return true;
	case PROTOCOL_ETHERIP:
		*keep = traces_anon_has(end, at, ETHERIP_BYTES)
				? traces_anon_ethernet(walk, at + ETHERIP_BYTES, end)
				: at;
		return true;
	default:
		return false;
	}
}

/* ---- over UDP ---- */

static uint32_t vxlan(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, VXLAN_BYTES) || (walk->frame[at] & 0x08) == 0)
		return at;
	return traces_anon_ethernet(walk, at + VXLAN_BYTES, end);
}

static uint32_t vxlan_gpe(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, VXLAN_BYTES))
		return at;
	switch (walk->frame[at + 3]) {
	case 1:
		return traces_anon_ip4(walk, at + VXLAN_BYTES, end);
	case 2:
		return traces_anon_ip6(walk, at + VXLAN_BYTES, end);
	case 3:
		return traces_anon_ethernet(walk, at + VXLAN_BYTES, end);
	default:
		return at + VXLAN_BYTES;
	}
}

/* Its options may hold anything: they are emptied. */
static uint32_t geneve(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, 8) || walk->frame[at] >> 6 != 0)
		return at;
	uint32_t bytes = 8 + (walk->frame[at] & 0x3fu) * 4;
	uint16_t ethertype = traces_net16(walk->frame + at + 2);
	if (!traces_anon_has(end, at, bytes))
		return at + 8;
	for (uint32_t i = 8; i + 4 <= bytes;) {
		uint32_t length = (walk->frame[at + i + 3] & 0x1fu) * 4;
		i += 4;
		length = length < bytes - i ? length : bytes - i;
		traces_anon_fill(walk, at + i, length, 0);
		i += length;
	}
	return traces_anon_ethertype(walk, ethertype, at + bytes, end);
}

static uint32_t gtp(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, GTP_BYTES))
		return at;
	const uint8_t *header = walk->frame + at;
	uint8_t flags = header[0];
	/* Other messages than packets hold addresses of the network's nodes. */
	if (flags >> 4 != 3 || header[1] != GTP_G_PDU)
		return at + GTP_BYTES;
	at += GTP_BYTES;
	if ((flags & 7) == 0)
		return traces_anon_ip(walk, at, end);
	if (!traces_anon_has(end, at, 4))
		return at;
	uint8_t type = (flags & 4) != 0 ? walk->frame[at + 3] : 0;
	at += 4;
	for (int i = 0; type != 0; i++) {
		uint32_t bytes = traces_anon_has(end, at, 4) ? walk->frame[at] * 4u : 0;
		if (i == GTP_EXTENSIONS_MAX || bytes == 0 || !traces_anon_has(end, at, bytes))
			return at;
		at += bytes;
		type = walk->frame[at - 1];
	}
	return traces_anon_ip(walk, at, end);
}

bool traces_anon_tunnel_port(struct traces_anon_walk *walk, uint16_t source, uint16_t destination,
	uint32_t at, uint32_t end, uint32_t *keep)
{
	static const uint16_t opaque[] = { PORT_L2TP, PORT_LISP, PORT_LISP_CONTROL,
		PORT_CAPWAP_CONTROL, PORT_CAPWAP, PORT_GUE };
	*keep = at;
	switch (destination) {
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		*keep = vxlan(walk, at, end);
		return true;
	case PORT_VXLAN_GPE:
		*keep = vxlan_gpe(walk, at, end);
		return true;
	case PORT_GENEVE:
		*keep = geneve(walk, at, end);
		return true;
	case PORT_GTP_USER:
		*keep = gtp(walk, at, end);
		return true;
	case PORT_MPLS:
		*keep = traces_anon_ethertype(walk, TRACES_ETHERTYPE_MPLS, at, end);
		return true;
	default:
		break;
	}
	if (destination == PORT_TEREDO || source == PORT_TEREDO) {
		/* Its indications hold an address, and stand before the packet. */
		*keep = traces_anon_ip6(walk, at, end);
		return true;
	}
	for (size_t i = 0; i < BASE_ARRAY_COUNT(opaque); i++) {
		if (source == opaque[i] || destination == opaque[i])
			return true;
	}
	/* The other direction of these: whoever answers from the tunnel's port. */
	return source == PORT_VXLAN || source == PORT_VXLAN_LINUX || source == PORT_VXLAN_GPE ||
	       source == PORT_GENEVE || source == PORT_GTP_USER || source == PORT_MPLS;
}
