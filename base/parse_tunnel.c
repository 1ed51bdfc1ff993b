/* SPDX-License-Identifier: BSD-2-Clause */
/* Inner headers of tunnels, when the configuration asks for them. What merely uses a tunnel's port
 * or protocol without carrying IP keeps its outer key. */
#include "base/parse_private.h"

enum {
	PORT_GTP_USER = 2152,
	PORT_VXLAN = 4789,
	PORT_VXLAN_LINUX = 8472, /* Linux's default before the port was assigned */
	PORT_GENEVE = 6081,
	ETHERTYPE_BRIDGED = 0x6558,
	GRE_CHECKSUM = 0x8000,
	GRE_ROUTING = 0x4000,
	GRE_KEY = 0x2000,
	GRE_SEQUENCE = 0x1000,
	GRE_ACKNOWLEDGED = 0x0080, /* version 1 only */
	GTP_G_PDU = 255,
};

static enum base_parse_result truncated(struct base_parse_walk *walk)
{
	return base_parse_refuse(walk, BASE_DROP_TUNNEL_TRUNCATED);
}

static enum base_parse_result parse_inner(struct base_parse_walk *walk, uint16_t ethertype)
{
	if (ethertype == ETHERTYPE_BRIDGED)
		return base_parse_ethernet(walk);
	return base_parse_ethertype(walk, ethertype);
}

static enum base_parse_result parse_gre(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 4))
		return truncated(walk);
	uint16_t bits = base_parse_get16(walk->data + walk->at);
	uint16_t ethertype = base_parse_get16(walk->data + walk->at + 2);
	unsigned int version = bits & 7;
	if (version > 1 || (bits & GRE_ROUTING) != 0)
		return BASE_PARSE_NO_FLOW;
	uint32_t header_len = 4;
	header_len += (bits & GRE_CHECKSUM) != 0 ? 4 : 0;
	header_len += (bits & GRE_KEY) != 0 ? 4 : 0;
	header_len += (bits & GRE_SEQUENCE) != 0 ? 4 : 0;
	header_len += version == 1 && (bits & GRE_ACKNOWLEDGED) != 0 ? 4 : 0;
	/* A PPTP acknowledgement without a sequence number carries nothing. */
	if (version == 1 && (bits & GRE_SEQUENCE) == 0)
		return BASE_PARSE_NO_FLOW;
	if (!base_parse_has(walk, walk->at, header_len))
		return truncated(walk);
	walk->at += header_len;
	return parse_inner(walk, ethertype);
}

static enum base_parse_result parse_vxlan(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 8))
		return truncated(walk);
	if ((walk->data[walk->at] & 0x08) == 0)
		return BASE_PARSE_NO_FLOW;
	walk->at += 8;
	return base_parse_ethernet(walk);
}

static enum base_parse_result parse_geneve(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 8))
		return truncated(walk);
	const uint8_t *header = walk->data + walk->at;
	uint32_t header_len = 8 + (header[0] & 0x3fu) * 4;
	if (header[0] >> 6 != 0)
		return BASE_PARSE_NO_FLOW;
	if (!base_parse_has(walk, walk->at, header_len))
		return truncated(walk);
	walk->at += header_len;
	return parse_inner(walk, base_parse_get16(header + 2));
}

/* GTP-U's extension headers: length in words first, type of the next one last. */
static bool skip_gtp_extensions(struct base_parse_walk *walk, uint8_t type)
{
	while (type != 0) {
		if (++walk->extensions > BASE_PARSE_EXTENSIONS_MAX ||
			!base_parse_has(walk, walk->at, 4))
			return false;
		uint32_t size = walk->data[walk->at] * 4u;
		if (size == 0 || !base_parse_has(walk, walk->at, size))
			return false;
		walk->at += size;
		type = walk->data[walk->at - 1];
	}
	return true;
}

static enum base_parse_result parse_gtp(struct base_parse_walk *walk)
{
	if (!base_parse_has(walk, walk->at, 8))
		return truncated(walk);
	const uint8_t *header = walk->data + walk->at;
	if (header[0] >> 4 != 3 || header[1] != GTP_G_PDU) /* version 1, GTP rather than GTP' */
		return BASE_PARSE_NO_FLOW;
	walk->at += 8;
	if ((header[0] & 7) != 0) {
		if (!base_parse_has(walk, walk->at, 4))
			return truncated(walk);
		walk->at += 4;
		if ((header[0] & 4) != 0 && !skip_gtp_extensions(walk, header[11]))
			return truncated(walk);
	}
	if (!base_parse_has(walk, walk->at, 1))
		return truncated(walk);
	if (walk->data[walk->at] >> 4 == 4)
		return base_parse_ip4(walk);
	if (walk->data[walk->at] >> 4 == 6)
		return base_parse_ip6(walk);
	return BASE_PARSE_NO_FLOW;
}

enum tunnel {
	TUNNEL_NONE,
	TUNNEL_IP4,
	TUNNEL_IP6,
	TUNNEL_GRE,
	TUNNEL_VXLAN,
	TUNNEL_GENEVE,
	TUNNEL_GTP
};

static enum tunnel tunnel_kind(const struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	switch (ip->protocol) {
	case BASE_PROTOCOL_IPIP:
		return TUNNEL_IP4;
	case BASE_PROTOCOL_IP6:
		return TUNNEL_IP6;
	case BASE_PROTOCOL_GRE:
		return TUNNEL_GRE;
	case BASE_PROTOCOL_UDP:
		break;
	default:
		return TUNNEL_NONE;
	}
	bool reversed = (walk->out.flags & BASE_PACKET_REVERSED) != 0;
	switch (walk->out.key.port[!reversed]) {
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		return TUNNEL_VXLAN;
	case PORT_GENEVE:
		return TUNNEL_GENEVE;
	case PORT_GTP_USER:
		return TUNNEL_GTP;
	default:
		return TUNNEL_NONE;
	}
}

static enum base_parse_result parse_tunnel_kind(struct base_parse_walk *walk, enum tunnel kind)
{
	switch (kind) {
	case TUNNEL_IP4:
		return base_parse_ip4(walk);
	case TUNNEL_IP6:
		return base_parse_ip6(walk);
	case TUNNEL_GRE:
		return parse_gre(walk);
	case TUNNEL_VXLAN:
		return parse_vxlan(walk);
	case TUNNEL_GENEVE:
		return parse_geneve(walk);
	case TUNNEL_GTP:
		return parse_gtp(walk);
	default:
		return BASE_PARSE_NO_FLOW;
	}
}

enum base_parse_result base_parse_tunnel(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	enum tunnel kind = tunnel_kind(walk, ip);
	if (kind == TUNNEL_NONE)
		return BASE_PARSE_FLOW;
	if (++walk->tunnels > BASE_PARSE_TUNNELS_MAX)
		return base_parse_refuse(walk, BASE_DROP_TUNNEL_DEPTH);
	struct base_parse_out outer = walk->out;
	walk->at = ip->protocol == BASE_PROTOCOL_UDP ? ip->l4 + 8 : ip->l4;
	walk->out = (struct base_parse_out){ .flags = BASE_PACKET_TUNNEL };
	enum base_parse_result result = parse_tunnel_kind(walk, kind);
	if (result == BASE_PARSE_NO_FLOW) {
		walk->out = outer;
		return BASE_PARSE_FLOW;
	}
	return result;
}
