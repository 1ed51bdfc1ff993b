/* SPDX-License-Identifier: BSD-2-Clause */
/* The plain way: find the header with every bound checked, change it word by word. The shortcuts in
 * rewrite.h do the same to the common case. */
#include "chain/rewrite.h"

#include "base/checksum.h"

enum {
	EXTENSIONS_MAX = 16,
	UDP_LITE = 136,
	DCCP = 33,
};

struct header {
	uint8_t *ip;
	uint8_t *l4;  /* NULL: not captured, or a later fragment */
	uint8_t *end; /* of what may be read and written */
	uint8_t family, protocol;
	bool detour; /* a routing header with segments left: destination is not the final one */
};

/* A change on its way into checksums: words as they were and as they are. */
struct change {
	uint16_t old[16], new[16];
	unsigned int count;
};

static unsigned int read16(const uint8_t *bytes)
{
	return (unsigned int)bytes[0] << 8 | bytes[1];
}

static bool locate_ip4(struct header *header)
{
	const uint8_t *ip = header->ip;
	if (header->end - ip < 20 || (ip[0] & 15) < 5)
		return false;
	header->protocol = ip[9];
	header->family = 4;
	ptrdiff_t size = (ip[0] & 15) * 4;
	if ((read16(ip + 6) & 0x1fff) == 0 && header->end - ip > size)
		header->l4 = header->ip + size;
	return true;
}

/* Size of an extension header; 0: that is no extension header. At least 8 bytes are there. */
static ptrdiff_t extension_size(uint8_t type, const uint8_t *at)
{
	switch (type) {
	case 0:   /* hop-by-hop options */
	case 43:  /* routing */
	case 60:  /* destination options */
	case 135: /* mobility */
	case 139: /* host identity */
	case 140: /* shim6 */
		return (at[1] + 1) * 8;
	case 44: /* fragment */
		return 8;
	case BASE_PROTOCOL_AH:
		return (at[1] + 2) * 4;
	default:
		return 0;
	}
}

static bool locate_ip6(struct header *header)
{
	if (header->end - header->ip < 40)
		return false;
	header->family = 6;
	uint8_t type = header->ip[6];
	uint8_t *at = header->ip + 40;
	for (unsigned int i = 0; i < EXTENSIONS_MAX && header->end - at >= 8; i++) {
		ptrdiff_t size = extension_size(type, at);
		if (size == 0)
			break;
		if (type == 44 && (read16(at + 2) & 0xfff8) != 0)
			return true;
		if (type == 43 && at[3] != 0)
			header->detour = true;
		if (header->end - at <= size)
			return true;
		type = at[0];
		at += size;
	}
	uint8_t none[8] = { 0 };
	if (extension_size(type, none) != 0 || header->end == at)
		return true;
	header->protocol = type;
	header->l4 = at;
	return true;
}

static bool locate(struct header *header, uint8_t *ip, uint8_t *end)
{
	*header = (struct header){ .ip = ip, .end = end };
	if (end <= ip)
		return false;
	switch (ip[0] >> 4) {
	case 4:
		return locate_ip4(header);
	case 6:
		return locate_ip6(header);
	default:
		return false;
	}
}

/* The datagram ends where its length field says: link padding and trailers stay as they are. Length
 * 0 stands in captures of segments that the device was to cut, and in jumbograms. */
static bool locate_packet(struct header *header, const struct base_packet *packet)
{
	if (packet->l3_offset >= packet->cap_len)
		return false;
	uint8_t *ip = packet->data + packet->l3_offset;
	size_t size = packet->cap_len - packet->l3_offset;
	size_t said = 0;
	if (size >= 6) {
		unsigned int field = read16(ip + (ip[0] >> 4 == 6 ? 4 : 2));
		said = field != 0 && ip[0] >> 4 == 6 ? field + 40 : field;
	}
	if (said != 0 && said < size)
		size = said;
	return locate(header, ip, ip + size);
}

static bool icmp_is_query(uint8_t protocol, uint8_t type)
{
	if (protocol == BASE_PROTOCOL_ICMP6)
		return type == 128 || type == 129;
	return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

/* Where the port stands, or NULL. */
static uint8_t *port_field(const struct header *header, enum chain_side side)
{
	ptrdiff_t offset;
	if (header->l4 == NULL)
		return NULL;
	switch (header->protocol) {
	case BASE_PROTOCOL_TCP:
	case BASE_PROTOCOL_UDP:
	case UDP_LITE:
	case DCCP:
		offset = side == CHAIN_SIDE_SOURCE ? 0 : 2;
		break;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		if (!icmp_is_query(header->protocol, header->l4[0]))
			return NULL;
		offset = 4;
		break;
	default:
		return NULL;
	}
	return header->end - header->l4 >= offset + 2 ? header->l4 + offset : NULL;
}

/* Where the transport checksum stands, or NULL. */
static uint8_t *checksum_field(const struct header *header)
{
	ptrdiff_t offset;
	if (header->l4 == NULL)
		return NULL;
	switch (header->protocol) {
	case BASE_PROTOCOL_TCP:
		offset = 16;
		break;
	case BASE_PROTOCOL_UDP:
	case UDP_LITE:
	case DCCP:
		offset = 6;
		break;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		offset = 2;
		break;
	default:
		return NULL;
	}
	return header->end - header->l4 >= offset + 2 ? header->l4 + offset : NULL;
}

static void change_word(struct change *change, uint8_t *at, uint16_t new)
{
	BASE_DEBUG_ASSERT(change->count < BASE_ARRAY_COUNT(change->old));
	memcpy(&change->old[change->count], at, 2);
	memcpy(at, &new, 2);
	change->new[change->count] = new;
	change->count++;
}

static uint16_t follow(uint16_t checksum, const struct change *change)
{
	for (unsigned int i = 0; i < change->count; i++)
		checksum = base_checksum_update16(checksum, change->old[i], change->new[i]);
	return checksum;
}

static void change_address(const struct header *header, enum chain_side side,
	const uint8_t *address, struct change *out)
{
	size_t size = header->family == 4 ? 4 : 16;
	uint8_t *at = header->ip + (header->family == 4 ? 12 : 8);
	if (side == CHAIN_SIDE_DESTINATION)
		at += size;
	if (memcmp(at, address, size) == 0)
		return;
	for (size_t i = 0; i < size; i += 2) {
		uint16_t word;
		memcpy(&word, address + i, 2);
		change_word(out, at + i, word);
	}
}

static void change_port(
	const struct header *header, enum chain_side side, uint16_t port, struct change *out)
{
	uint8_t *at = port_field(header, side);
	if (at == NULL)
		return;
	uint8_t bytes[2] = { (uint8_t)(port >> 8), (uint8_t)port };
	uint16_t word;
	memcpy(&word, bytes, 2);
	if (memcmp(at, bytes, 2) != 0)
		change_word(out, at, word);
}

/* Bring the transport checksum up to date; the change of the field itself goes to `all`. */
static void follow_l4(const struct header *header, const struct change *address,
	const struct change *port, struct change *all)
{
	uint8_t *field = checksum_field(header);
	uint16_t checksum;
	if (field == NULL || address->count + port->count == 0)
		return;
	memcpy(&checksum, field, 2);
	bool udp = header->protocol == BASE_PROTOCOL_UDP || header->protocol == UDP_LITE;
	if (udp && checksum == 0)
		return;
	/* ICMP's checksum covers no pseudo-header with addresses, the others do. */
	if (header->protocol != BASE_PROTOCOL_ICMP)
		checksum = follow(checksum, address);
	checksum = follow(checksum, port);
	if (udp && checksum == 0)
		checksum = 0xffff;
	change_word(all, field, checksum);
}

/* Returns through `all` every word of the packet that changed. */
static void rewrite(const struct header *header, enum chain_side side,
	const struct chain_rewrite *to, struct change *all)
{
	struct change address = { 0 }, port = { 0 };
	change_address(header, side, to->address, &address);
	if (to->with_port)
		change_port(header, side, to->port, &port);
	*all = address;
	for (unsigned int i = 0; i < port.count; i++) {
		all->old[all->count] = port.old[i];
		all->new[all->count++] = port.new[i];
	}
	if (header->family == 4 && address.count != 0) {
		uint16_t checksum;
		memcpy(&checksum, header->ip + 10, 2);
		change_word(all, header->ip + 10, follow(checksum, &address));
	}
	if (header->detour && side == CHAIN_SIDE_DESTINATION)
		address.count = 0;
	follow_l4(header, &address, &port, all);
}

void chain_rewrite_packet(
	struct base_packet *packet, enum chain_side side, const struct chain_rewrite *to)
{
	struct header header;
	struct change all;
	if (locate_packet(&header, packet))
		rewrite(&header, side, to, &all);
}

void chain_rewrite_quote(
	struct base_packet *packet, enum chain_side side, const struct chain_rewrite *to)
{
	struct header outer, quote;
	struct change all;
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) == 0 || !locate_packet(&outer, packet))
		return;
	uint8_t *ip = packet->data + packet->quote_offset;
	if (outer.l4 == NULL || ip <= outer.l4 || !locate(&quote, ip, outer.end) ||
		quote.family != outer.family)
		return;
	rewrite(&quote, side, to, &all);
	uint8_t *field = checksum_field(&outer);
	uint16_t checksum;
	if (field == NULL)
		return;
	memcpy(&checksum, field, 2);
	checksum = follow(checksum, &all);
	memcpy(field, &checksum, 2);
}

bool chain_rewrite_has_port(const struct base_packet *packet)
{
	struct header header;
	return locate_packet(&header, packet) && port_field(&header, CHAIN_SIDE_SOURCE) != NULL;
}
