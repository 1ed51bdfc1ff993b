/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/remap.h"

#include "base/checksum.h"

enum {
	FEISTEL_ROUNDS = 4,
	IP4_SOURCE = 12,
	IP4_CHECKSUM = 10,
	IP4_ADDRESSES_SIZE = 8,
	IP6_SOURCE = 8,
	IP6_ADDRESSES_SIZE = 32,
	IP6_HEADER_SIZE = 40,
};

/* Round function: any function of (half, round key) makes a permutation. */
static uint32_t mix32(uint32_t half, uint32_t key)
{
	uint32_t x = half ^ key;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	return x ^ x >> 16;
}

uint32_t base_remap_ip4(uint32_t address, uint32_t copy)
{
	uint32_t left = address >> 16, right = address & 0xffff;
	if (copy == 0)
		return address;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t key = copy * 0x9e3779b9u + round * 0x7f4a7c15u;
		uint32_t next = left ^ (mix32(right, key) & 0xffff);
		left = right;
		right = next;
	}
	return left << 16 | right;
}

/* The low half of an IPv6 address: the interface identifier. */
static uint64_t remap_ip6_low(uint64_t low, uint32_t copy)
{
	uint32_t left = (uint32_t)(low >> 32), right = (uint32_t)low;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t next = left ^ mix32(right, copy * 0x9e3779b9u + round * 0x7f4a7c15u);
		left = right;
		right = next;
	}
	return (uint64_t)left << 32 | right;
}

static uint64_t load_be(const uint8_t *bytes, unsigned int size)
{
	uint64_t value = 0;
	for (unsigned int i = 0; i < size; i++)
		value = value << 8 | bytes[i];
	return value;
}

static void store_be(uint8_t *bytes, uint64_t value, unsigned int size)
{
	for (unsigned int i = size; i-- > 0; value >>= 8)
		bytes[i] = (uint8_t)value;
}

/* Rewrite both addresses of the IP header at `ip`, which is captured whole; returns their place. */
static uint8_t *rewrite_addresses(uint8_t *ip, bool ip6, uint32_t copy)
{
	uint8_t *addresses = ip + (ip6 ? IP6_SOURCE : IP4_SOURCE);
	for (int i = 0; i < 2; i++) {
		uint8_t *address = addresses + i * (ip6 ? 16 : 4);
		if (ip6)
			store_be(address + 8, remap_ip6_low(load_be(address + 8, 8), copy), 8);
		else
			store_be(address, base_remap_ip4((uint32_t)load_be(address, 4), copy), 4);
	}
	return addresses;
}

/* Where the checksum that covers the pseudo-header stands, from the transport header; 0: none. */
static unsigned int checksum_offset(uint8_t protocol)
{
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		return 16;
	case BASE_PROTOCOL_UDP:
		return 6;
	case BASE_PROTOCOL_ICMP6:
		return 2;
	default:
		return 0;
	}
}

struct span {
	const uint8_t *end; /* of the captured bytes */
	uint8_t *outer;     /* ICMP checksum that covers all this, or NULL */
};

/* Update the checksum at `field` for a change elsewhere, and what covers the field itself. */
static void update(const struct span *span, uint8_t *field, const uint8_t *old_bytes,
	const uint8_t *new_bytes, size_t size)
{
	uint16_t before, after, outer;
	if (field + 2 > span->end)
		return;
	memcpy(&before, field, 2);
	after = base_checksum_update_bytes(before, old_bytes, new_bytes, size);
	memcpy(field, &after, 2);
	if (span->outer == NULL || span->outer + 2 > span->end)
		return;
	memcpy(&outer, span->outer, 2);
	outer = base_checksum_update16(outer, before, after);
	memcpy(span->outer, &outer, 2);
}

/* One IP header with, when l4 is not NULL, its transport header. */
static void remap_header(const struct span *span, uint8_t *ip, bool ip6, uint8_t *l4,
	uint8_t protocol, uint32_t copy)
{
	uint8_t old_bytes[IP6_ADDRESSES_SIZE];
	size_t size = ip6 ? IP6_ADDRESSES_SIZE : IP4_ADDRESSES_SIZE;
	memcpy(old_bytes, ip + (ip6 ? IP6_SOURCE : IP4_SOURCE), size);
	const uint8_t *new_bytes = rewrite_addresses(ip, ip6, copy);
	if (span->outer != NULL && span->outer + 2 <= span->end) {
		uint16_t outer;
		memcpy(&outer, span->outer, 2);
		outer = base_checksum_update_bytes(outer, old_bytes, new_bytes, size);
		memcpy(span->outer, &outer, 2);
	}
	if (!ip6)
		update(span, ip + IP4_CHECKSUM, old_bytes, new_bytes, size);
	unsigned int offset = l4 == NULL ? 0 : checksum_offset(protocol);
	if (offset == 0 || l4 + offset + 2 > span->end)
		return;
	bool absent = protocol == BASE_PROTOCOL_UDP && l4[offset] == 0 && l4[offset + 1] == 0;
	if (absent) /* the sender computed none (RFC 768) */
		return;
	update(span, l4 + offset, old_bytes, new_bytes, size);
	if (protocol == BASE_PROTOCOL_UDP && l4[offset] == 0 && l4[offset + 1] == 0)
		l4[offset] = l4[offset + 1] = 0xff; /* the same sum, but not "none" */
}

static void remap_quote(struct base_packet *packet, bool ip6, uint32_t copy)
{
	uint8_t *quote = packet->data + packet->quote_offset;
	const struct span span = { packet->data + packet->cap_len,
		packet->data + packet->l4_offset + 2 };
	size_t left = packet->cap_len - packet->quote_offset;
	size_t header = IP6_HEADER_SIZE;
	uint8_t protocol = ip6 ? quote[6] : quote[9];
	bool first = true;
	if (!ip6) {
		header = (size_t)(quote[0] & 15) * 4;
		first = (load_be(quote + 6, 2) & 0x1fff) == 0;
	}
	uint8_t *l4 = first && left > header ? quote + header : NULL;
	remap_header(&span, quote, ip6, l4, protocol, copy);
}

void base_remap_packet(struct base_packet *packet, uint32_t copy)
{
	const uint16_t ip_flags = BASE_PACKET_IP4 | BASE_PACKET_IP6;
	if (copy == 0 || !(packet->flags & BASE_PACKET_FLOW) || !(packet->flags & ip_flags))
		return;
	bool ip6 = packet->flags & BASE_PACKET_IP6;
	const struct span span = { packet->data + packet->cap_len, NULL };
	uint8_t *l4 = packet->flags & BASE_PACKET_L4 ? packet->data + packet->l4_offset : NULL;
	remap_header(&span, packet->data + packet->l3_offset, ip6, l4, packet->protocol, copy);
	size_t quoted_size = ip6 ? IP6_HEADER_SIZE : 20;
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) &&
		packet->quote_offset + quoted_size <= packet->cap_len)
		remap_quote(packet, ip6, copy);
}
