/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traits are counted for people who choose a trace: how many packets carry tags, options, tunnels
 * and so on. The walk is its own (the parser keeps only what the data path needs) and reads only
 * captured bytes.
 */
#include "traces/locality.h"

enum { TAGS_MAX = 32, EXTENSIONS_MAX = 16, JUMBO_FROM_BYTES = 1523 };

static uint16_t get16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static bool is_vlan(uint16_t ethertype)
{
	return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100 ||
	       ethertype == 0x9200;
}

static void count_tags(struct traces_info *info, const struct base_packet *packet)
{
	uint32_t offset; /* of the ethertype */
	if (packet->link == BASE_LINK_ETHERNET)
		offset = 12;
	else if (packet->link == BASE_LINK_SLL)
		offset = 14;
	else
		return;
	uint16_t ethertype = offset + 2 <= packet->cap_len ? get16(packet->data + offset) : 0;
	if (BASE_LIKELY(ethertype == 0x0800 || ethertype == 0x86dd))
		return; /* plain IP */
	unsigned int vlans = 0;
	ethertype = 0;
	for (int i = 0; i < TAGS_MAX && offset + 2 <= packet->cap_len; i++) {
		ethertype = get16(packet->data + offset);
		if (!is_vlan(ethertype))
			break;
		vlans++;
		offset += 4;
	}
	info->vlan += vlans > 0;
	info->vlan_stacked += vlans > 1;
	info->mpls += ethertype == 0x8847 || ethertype == 0x8848;
	info->pppoe += ethertype == 0x8863 || ethertype == 0x8864;
}

/* Bytes of an extension header; 0 when the chain ends here. */
static uint32_t extension_size(uint8_t type, uint8_t length)
{
	switch (type) {
	case 0:   /* hop-by-hop */
	case 43:  /* routing */
	case 60:  /* destination options */
	case 135: /* mobility */
	case 139: /* host identity */
	case 140: /* shim6 */
		return (length + 1u) * 8;
	case 44: /* fragment */
		return 8;
	case BASE_PROTOCOL_AH:
		return (length + 2u) * 4;
	default:
		return 0;
	}
}

static void count_extensions(struct traces_info *info, const struct base_packet *packet)
{
	uint32_t offset = packet->l3_offset;
	if (offset + 40 > packet->cap_len)
		return;
	uint8_t next = packet->data[offset + 6];
	offset += 40;
	bool atomic = false;
	int extensions = 0;
	for (; extensions < EXTENSIONS_MAX && offset + 8 <= packet->cap_len; extensions++) {
		const uint8_t *header = packet->data + offset;
		uint32_t size = extension_size(next, header[1]);
		if (size == 0)
			break;
		if (next == 44) {
			uint16_t position = get16(header + 2) & 0xfff9;
			atomic = position == 0;
			if (position & 0xfff8)
				break; /* what follows a later fragment is no header */
		}
		next = header[0];
		offset += size;
	}
	info->extension_headers += extensions > 0;
	info->atomic_fragments += atomic;
}

static bool is_tunnel(const struct base_packet *packet)
{
	if (packet->flags & BASE_PACKET_TUNNEL)
		return true;
	if (packet->protocol == BASE_PROTOCOL_GRE || packet->protocol == BASE_PROTOCOL_IPIP ||
		packet->protocol == BASE_PROTOCOL_IP6)
		return true;
	if (packet->protocol != BASE_PROTOCOL_UDP || !(packet->flags & BASE_PACKET_L4) ||
		(uint32_t)packet->l4_offset + 4 > packet->cap_len)
		return false;
	uint16_t port = get16(packet->data + packet->l4_offset + 2);
	return port == 4789 || port == 6081 || port == 2152; /* VXLAN, GENEVE, GTP-U */
}

void traces_traits_count(struct traces_info *info, const struct base_packet *packet, bool is_flow)
{
	info->snaplen_cut += packet->cap_len < packet->wire_len;
	info->jumbo += packet->wire_len >= JUMBO_FROM_BYTES;
	count_tags(info, packet);
	if (!is_flow)
		return;
	if (packet->flags & BASE_PACKET_IP4) {
		info->ip4_packets++;
		if (packet->l3_offset < packet->cap_len)
			info->ip_options += (packet->data[packet->l3_offset] & 0x0f) > 5;
	} else if (packet->flags & BASE_PACKET_IP6) {
		info->ip6_packets++;
		count_extensions(info, packet);
	}
	info->fragments += (packet->flags & BASE_PACKET_FRAGMENT) != 0;
	info->icmp_errors += (packet->flags & BASE_PACKET_ICMP_ERROR) != 0;
	info->tunnels += is_tunnel(packet);
	if (packet->protocol == BASE_PROTOCOL_TCP) {
		info->tcp_syn += (packet->tcp_flags & BASE_TCP_SYN) != 0;
		info->tcp_fin += (packet->tcp_flags & BASE_TCP_FIN) != 0;
		info->tcp_rst += (packet->tcp_flags & BASE_TCP_RST) != 0;
	}
}
