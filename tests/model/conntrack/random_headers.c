/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/conntrack/random_headers.h"

#include <string.h>

enum { L4 = 40, HEADER = RANDOM_HEADER_SIZE };

static uint64_t pick(struct base_rng *rng, uint64_t bound)
{
	return base_rng_below(rng, bound);
}

static bool chance(struct base_rng *rng, unsigned int percent)
{
	return pick(rng, 100) < percent;
}

static uint8_t random_tcp_flags(struct base_rng *rng)
{
	static const uint8_t usual[] = {
		BASE_TCP_SYN,
		BASE_TCP_SYN,
		BASE_TCP_SYN | BASE_TCP_ACK,
		BASE_TCP_ACK,
		BASE_TCP_ACK,
		BASE_TCP_ACK | BASE_TCP_PSH,
		BASE_TCP_FIN | BASE_TCP_ACK,
		BASE_TCP_FIN | BASE_TCP_ACK,
		BASE_TCP_RST,
		BASE_TCP_RST | BASE_TCP_ACK,
	};
	if (chance(rng, 5))
		return (uint8_t)pick(rng, 256);
	return usual[pick(rng, BASE_ARRAY_COUNT(usual))];
}

void random_key(struct base_rng *rng, struct base_flow_key *key, unsigned int flows)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_TCP,
		BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_ICMP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP };
	uint64_t flow = pick(rng, flows);
	memset(key, 0, sizeof(*key));
	key->family = flow % 5 == 0 ? 6 : 4;
	key->protocol = protocols[flow % BASE_ARRAY_COUNT(protocols)];
	if (key->protocol == BASE_PROTOCOL_ICMP && key->family == 6)
		key->protocol = BASE_PROTOCOL_ICMP6;
	key->address[0][0] = (uint8_t)flow;
	key->address[1][0] = (uint8_t)(flow >> 8);
	key->address[1][15] = key->family == 6 ? 9 : 0;
	key->port[0] = (uint16_t)(flow / 3);
	key->zone = (uint16_t)(flow % 2);
}

static void store32(uint8_t *at, uint32_t value)
{
	for (unsigned int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* One of them, or bytes that are none. */
static void random_options(struct base_rng *rng, uint8_t *l4)
{
	uint8_t *option = l4 + 20;
	memset(option, 1, 20);
	switch (pick(rng, 5)) {
	case 0:
		option[1] = 3;
		option[2] = 3;
		option[3] = (uint8_t)pick(rng, 3);
		break;
	case 1:
		option[2] = 4;
		option[3] = 2;
		option[4] = 3;
		option[5] = 3;
		option[6] = (uint8_t)(chance(rng, 90) ? pick(rng, 3) : 200);
		break;
	case 2:
		option[2] = 5;
		option[3] = 10;
		memcpy(option + 4, l4 + 8, 4);
		memcpy(option + 8, l4 + 8, 4);
		option[11] = (uint8_t)(option[11] + pick(rng, 30));
		break;
	case 3:
		for (unsigned int i = 0; i < 20; i++)
			option[i] = (uint8_t)pick(rng, 256);
		break;
	default:
		return;
	}
	/* Sometimes more than was captured. */
	l4[12] = (uint8_t)((chance(rng, 97) ? 10 : 15) << 4);
}

static void random_tcp(struct base_rng *rng, struct base_packet *packet, uint8_t *l4, bool windows)
{
	uint32_t base = packet->key.port[0] % 2 != 0 ? UINT32_MAX - 20 : 0;
	packet->tcp_flags = random_tcp_flags(rng);
	store32(l4 + 4, (windows ? base : 0) + (uint32_t)pick(rng, windows ? 60 : 3));
	store32(l4 + 8, (windows ? base : 0) + (uint32_t)pick(rng, windows ? 60 : 4));
	l4[12] = 5 << 4;
	if (!windows)
		return;
	if (chance(rng, 5)) /* far away */
		store32(l4 + 4 * (1 + pick(rng, 2)), (uint32_t)base_rng_u64(rng));
	packet->payload_len = (uint16_t)(chance(rng, 60) ? 0 : pick(rng, 30));
	l4[15] = (uint8_t)pick(rng, 40);
	random_options(rng, l4);
}

static void random_sctp(struct base_rng *rng, struct base_packet *packet, uint8_t *l4)
{
	static const uint8_t chunks[] = { 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 99 };
	l4[12] = chunks[pick(rng, BASE_ARRAY_COUNT(chunks))];
	l4[15] = (uint8_t)(chance(rng, 95) ? 4 : pick(rng, 20));
	l4[16] = chunks[pick(rng, BASE_ARRAY_COUNT(chunks))];
	l4[19] = 4;
	/* An INIT has no tag, all others have one. */
	l4[7] = (l4[12] != 1) != chance(rng, 5);
	packet->payload_len = (uint16_t)(chance(rng, 70) ? 4 : pick(rng, 12));
}

static void random_icmp(struct base_rng *rng, struct base_packet *packet, uint8_t *l4)
{
	static const uint8_t types[] = { 8, 0, 0, 13, 14, 16, 18, 43, 9, 128, 129, 129, 161, 135 };
	(void)packet;
	l4[0] = types[pick(rng, BASE_ARRAY_COUNT(types))];
}

void random_headers(struct base_rng *rng, struct base_packet *packet, uint8_t *header, bool windows)
{
	unsigned int to = (packet->flags & BASE_PACKET_REVERSED) != 0 ? 0 : 1;
	bool ip6 = packet->key.family == 6;
	memset(header, 0, HEADER);
	packet->data = header;
	packet->cap_len = packet->wire_len = HEADER;
	packet->l4_offset = L4;
	packet->protocol = packet->key.protocol;
	memcpy(header + (ip6 ? 24 : 16), packet->key.address[to], ip6 ? 16 : 4);
	if (chance(rng, 10))
		header[ip6 ? 24 : 16] ^= 0x80;
	switch (packet->protocol) {
	case BASE_PROTOCOL_TCP:
		random_tcp(rng, packet, header + L4, windows);
		break;
	case BASE_PROTOCOL_SCTP:
		random_sctp(rng, packet, header + L4);
		break;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		random_icmp(rng, packet, header + L4);
		break;
	default:
		break;
	}
}
