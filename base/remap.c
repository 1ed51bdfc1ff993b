/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/remap.h"

#include "base/checksum.h"

enum { FEISTEL_ROUNDS = 4 };

/* Round key: any function of copy and round that differs between them serves; the rounds mix. */
static uint32_t round_key(uint32_t copy, uint32_t round)
{
	uint32_t key = (copy * UINT32_C(0x9e3779b9)) ^ (round * UINT32_C(0x85ebca6b));
	return (key ^ key >> 15) * UINT32_C(0x2c1b3c6d);
}

uint32_t base_remap_ip4(uint32_t address, uint32_t copy)
{
	if (copy == 0)
		return address;
	uint32_t left = address >> 16, right = address & 0xffff;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t mixed = (right ^ round_key(copy, round)) * UINT32_C(0x7feb352d);
		uint32_t next = left ^ ((mixed >> 12 ^ mixed >> 3) & 0xffff);
		left = right;
		right = next;
	}
	return left << 16 | right;
}

/* The same for the low 64 bits of an IPv6 address. */
static uint64_t remap_interface_id(uint64_t id, uint32_t copy)
{
	uint32_t left = (uint32_t)(id >> 32), right = (uint32_t)id;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint64_t mixed =
			(uint64_t)(right ^ round_key(copy, round)) * UINT64_C(0x9e3779b97f4a7c15);
		uint32_t next = left ^ (uint32_t)(mixed >> 29);
		left = right;
		right = next;
	}
	return (uint64_t)left << 32 | right;
}

static uint16_t load16(const uint8_t *bytes)
{
	uint16_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/*
 * Checksums to keep right while bytes of a packet change. `enclosing` covers everything that is
 * written (the ICMP checksum over a quote), `pseudo` covers addresses only through the pseudo
 * header. Either is NULL when there is none, or when it was not captured.
 */
struct sums {
	uint8_t *enclosing;
	uint8_t *pseudo;
	bool pseudo_is_udp;
};

static void update(uint8_t *checksum, const uint8_t *old, const uint8_t *new, size_t size)
{
	uint16_t value = base_checksum_update_bytes(load16(checksum), old, new, size);
	memcpy(checksum, &value, sizeof(value));
}

/* Change a checksum field because `old` became `new` somewhere in what it covers. */
static void update_inside(const struct sums *sums, uint8_t *checksum, const uint8_t *old,
	const uint8_t *new, size_t size)
{
	uint8_t before[2];
	memcpy(before, checksum, sizeof(before));
	update(checksum, old, new, size);
	if (sums->enclosing != NULL)
		update(sums->enclosing, before, checksum, sizeof(before));
}

static void update_pseudo(
	const struct sums *sums, const uint8_t *old, const uint8_t *new, size_t size)
{
	static const uint8_t none[2] = { 0, 0 }, ones[2] = { 0xff, 0xff };
	if (sums->pseudo == NULL)
		return;
	if (!sums->pseudo_is_udp) {
		update_inside(sums, sums->pseudo, old, new, size);
		return;
	}
	/* UDP: 0 says "not computed", so a computed 0 is written as its other form. */
	if (load16(sums->pseudo) == 0)
		return;
	update_inside(sums, sums->pseudo, old, new, size);
	if (load16(sums->pseudo) != 0)
		return;
	memcpy(sums->pseudo, ones, sizeof(ones));
	if (sums->enclosing != NULL)
		update(sums->enclosing, none, ones, sizeof(ones));
}

static void remap_ip4(uint8_t *ip, uint32_t copy, const struct sums *sums)
{
	uint8_t old[8];
	memcpy(old, ip + 12, sizeof(old));
	for (int side = 0; side < 2; side++) {
		uint32_t address;
		memcpy(&address, old + 4 * side, sizeof(address));
		address = __builtin_bswap32(base_remap_ip4(__builtin_bswap32(address), copy));
		memcpy(ip + 12 + 4 * side, &address, sizeof(address));
	}
	if (sums->enclosing != NULL)
		update(sums->enclosing, old, ip + 12, sizeof(old));
	update_inside(sums, ip + 10, old, ip + 12, sizeof(old));
	update_pseudo(sums, old, ip + 12, sizeof(old));
}

static void remap_ip6(uint8_t *ip, uint32_t copy, const struct sums *sums)
{
	for (int side = 0; side < 2; side++) {
		uint8_t old[8], *id = ip + 16 + 16 * side;
		uint64_t value;
		memcpy(old, id, sizeof(old));
		memcpy(&value, id, sizeof(value));
		value = __builtin_bswap64(remap_interface_id(__builtin_bswap64(value), copy));
		memcpy(id, &value, sizeof(value));
		if (sums->enclosing != NULL)
			update(sums->enclosing, old, id, sizeof(old));
		update_pseudo(sums, old, id, sizeof(old));
	}
}

static void remap_header(uint8_t *ip, bool ip6, uint32_t copy, const struct sums *sums)
{
	if (ip6)
		remap_ip6(ip, copy, sums);
	else
		remap_ip4(ip, copy, sums);
}

/* Where a transport protocol keeps a checksum that covers addresses, or 0. */
static uint32_t pseudo_checksum_offset(uint8_t protocol)
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

static void set_pseudo(
	struct sums *sums, const struct base_packet *packet, uint32_t l4, uint8_t protocol)
{
	uint32_t offset = pseudo_checksum_offset(protocol);
	if (offset == 0 || l4 + offset + 2 > packet->cap_len)
		return;
	sums->pseudo = packet->data + l4 + offset;
	sums->pseudo_is_udp = protocol == BASE_PROTOCOL_UDP;
}

static void remap_quote(struct base_packet *packet, uint32_t copy)
{
	uint8_t *quote = packet->data + packet->quote_offset;
	bool ip6 = quote[0] >> 4 == 6;
	/* The parser saw the quoted header whole, and the ICMP header before it. */
	struct sums sums = { .enclosing = packet->data + packet->l4_offset + 2 };
	uint32_t header_len = ip6 ? 40 : (quote[0] & 15u) * 4;
	bool later = !ip6 && (load16(quote + 6) & 0xff1f) != 0;
	if (!later)
		set_pseudo(&sums, packet, packet->quote_offset + header_len, quote[ip6 ? 6 : 9]);
	remap_header(quote, ip6, copy, &sums);
}

void base_remap_packet(struct base_packet *packet, uint32_t copy)
{
	if (copy == 0 || (packet->flags & BASE_PACKET_FLOW) == 0)
		return;
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	struct sums sums = { 0 };
	if ((packet->flags & BASE_PACKET_FRAGMENT_LATER) == 0)
		set_pseudo(&sums, packet, packet->l4_offset, packet->protocol);
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0)
		remap_quote(packet, copy);
	remap_header(packet->data + packet->l3_offset, ip6, copy, &sums);
}
