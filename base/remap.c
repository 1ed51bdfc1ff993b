/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/remap.h"

#include "base/checksum.h"

enum { FEISTEL_ROUNDS = 4 };

/* Round keys of one copy. Any function of copy and round that differs between them serves; the
 * rounds themselves mix. */
struct permutation {
	uint32_t keys[FEISTEL_ROUNDS];
};

static inline struct permutation permutation_of(uint32_t copy)
{
	struct permutation permutation;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t key = (copy * UINT32_C(0x9e3779b9)) ^ (round * UINT32_C(0x85ebca6b));
		permutation.keys[round] = (key ^ key >> 15) * UINT32_C(0x2c1b3c6d);
	}
	return permutation;
}

static inline uint32_t permute32(const struct permutation *permutation, uint32_t value)
{
	uint32_t left = value >> 16, right = value & 0xffff;
	for (int round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t mixed = (right ^ permutation->keys[round]) * UINT32_C(0x7feb352d);
		uint32_t next = left ^ ((mixed >> 12 ^ mixed >> 3) & 0xffff);
		left = right;
		right = next;
	}
	return left << 16 | right;
}

static inline uint64_t permute64(const struct permutation *permutation, uint64_t value)
{
	uint32_t left = (uint32_t)(value >> 32), right = (uint32_t)value;
	for (int round = 0; round < FEISTEL_ROUNDS; round++) {
		uint64_t mixed =
			(uint64_t)(right ^ permutation->keys[round]) * UINT64_C(0x9e3779b97f4a7c15);
		uint32_t next = left ^ (uint32_t)(mixed >> 29);
		left = right;
		right = next;
	}
	return (uint64_t)left << 32 | right;
}

uint32_t base_remap_ip4(uint32_t address, uint32_t copy)
{
	if (copy == 0)
		return address;
	struct permutation permutation = permutation_of(copy);
	return permute32(&permutation, address);
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

/* One's complement sum of a change: what covers the bytes moves by it (RFC 1624). */
static uint32_t delta_of(const uint8_t *old, const uint8_t *new, size_t size)
{
	uint32_t delta = 0;
	for (size_t i = 0; i < size; i += 2)
		delta += (uint32_t)(uint16_t)~load16(old + i) + load16(new + i);
	return delta;
}

static void move(uint8_t *checksum, uint32_t delta)
{
	uint16_t value = base_checksum_finish((uint16_t)~load16(checksum) + delta);
	memcpy(checksum, &value, sizeof(value));
}

/* Move a checksum field, which may itself be covered by the enclosing one. */
static void move_inside(const struct sums *sums, uint8_t *checksum, uint32_t delta)
{
	uint8_t before[2];
	memcpy(before, checksum, sizeof(before));
	move(checksum, delta);
	if (sums->enclosing != NULL)
		move(sums->enclosing, delta_of(before, checksum, sizeof(before)));
}

static void move_pseudo(const struct sums *sums, uint32_t delta)
{
	static const uint8_t none[2] = { 0, 0 }, ones[2] = { 0xff, 0xff };
	if (sums->pseudo == NULL)
		return;
	/* UDP: 0 says "not computed", so a computed 0 is written as its other form. */
	if (sums->pseudo_is_udp && load16(sums->pseudo) == 0)
		return;
	move_inside(sums, sums->pseudo, delta);
	if (!sums->pseudo_is_udp || load16(sums->pseudo) != 0)
		return;
	memcpy(sums->pseudo, ones, sizeof(ones));
	if (sums->enclosing != NULL)
		move(sums->enclosing, delta_of(none, ones, sizeof(ones)));
}

static void remap_ip4(uint8_t *ip, const struct permutation *permutation, const struct sums *sums)
{
	uint32_t old[2], new[2];
	memcpy(old, ip + 12, sizeof(old));
	for (int side = 0; side < 2; side++)
		new[side] = __builtin_bswap32(permute32(permutation, __builtin_bswap32(old[side])));
	memcpy(ip + 12, new, sizeof(new));
	uint32_t delta = delta_of((const uint8_t *)old, (const uint8_t *)new, sizeof(old));
	if (sums->enclosing != NULL)
		move(sums->enclosing, delta);
	move_inside(sums, ip + 10, delta);
	move_pseudo(sums, delta);
}

static void remap_ip6(uint8_t *ip, const struct permutation *permutation, const struct sums *sums)
{
	uint64_t old[2], new[2];
	for (int side = 0; side < 2; side++) {
		uint8_t *interface_id = ip + 16 + 16 * side;
		memcpy(&old[side], interface_id, sizeof(old[side]));
		new[side] = __builtin_bswap64(permute64(permutation, __builtin_bswap64(old[side])));
		memcpy(interface_id, &new[side], sizeof(new[side]));
	}
	uint32_t delta = delta_of((const uint8_t *)old, (const uint8_t *)new, sizeof(old));
	if (sums->enclosing != NULL)
		move(sums->enclosing, delta);
	move_pseudo(sums, delta);
}

static void remap_header(
	uint8_t *ip, bool ip6, const struct permutation *permutation, const struct sums *sums)
{
	if (ip6)
		remap_ip6(ip, permutation, sums);
	else
		remap_ip4(ip, permutation, sums);
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

static void remap_quote(struct base_packet *packet, const struct permutation *permutation)
{
	uint8_t *quote = packet->data + packet->quote_offset;
	bool ip6 = quote[0] >> 4 == 6;
	/* The parser saw the quoted header whole, and the ICMP header before it. */
	struct sums sums = { .enclosing = packet->data + packet->l4_offset + 2 };
	uint32_t header_len = ip6 ? 40 : (quote[0] & 15u) * 4;
	bool later = !ip6 && (load16(quote + 6) & 0xff1f) != 0;
	if (!later)
		set_pseudo(&sums, packet, packet->quote_offset + header_len, quote[ip6 ? 6 : 9]);
	remap_header(quote, ip6, permutation, &sums);
}

void base_remap_packet(struct base_packet *packet, uint32_t copy)
{
	if (copy == 0 || (packet->flags & BASE_PACKET_FLOW) == 0)
		return;
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	struct permutation permutation = permutation_of(copy);
	struct sums sums = { 0 };
	if ((packet->flags & BASE_PACKET_FRAGMENT_LATER) == 0)
		set_pseudo(&sums, packet, packet->l4_offset, packet->protocol);
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0)
		remap_quote(packet, &permutation);
	remap_header(packet->data + packet->l3_offset, ip6, &permutation, &sums);
}
