/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: write another address, and another port or ICMP identifier, into a packet and
 * keep its checksums (RFC 1624). Wrong checksums stay exactly as wrong as they were.
 *
 *  - Nothing is read or written beyond the captured bytes, nor beyond the datagram: a checksum or a
 *    port that the capture cut off is left alone.
 *  - A UDP checksum of 0 means "none" and stays 0; a computed 0 is written as 0xffff.
 *  - Later fragments have addresses only. The first fragment's checksum covers the whole datagram,
 *    so it is updated there.
 *  - The quote in an ICMP error gets its own checksums updated as far as it goes, and the error's
 *    checksum follows every byte that changed.
 *  - SCTP: addresses only. Its CRC32c covers no address, but it does cover the ports and could be
 *    made anew only over packets captured whole.
 *  - A destination behind an IPv6 routing header with segments left is not what the transport
 *    checksum covers, so that checksum is left alone.
 */
#pragma once

#include "base/packet.h"

#include <stdbool.h>
#include <string.h>

enum chain_side { CHAIN_SIDE_SOURCE, CHAIN_SIDE_DESTINATION };

struct chain_rewrite {
	const uint8_t *address; /* network order, of the family of the header that is rewritten */
	uint16_t port;          /* host order; the identifier of an ICMP query */
	bool with_port;
};

/* One side of the packet's own header. */
void chain_rewrite_packet(
	struct base_packet *packet, enum chain_side side, const struct chain_rewrite *to);

/* One side of the header that an ICMP error quotes. Does nothing to other packets. */
void chain_rewrite_quote(
	struct base_packet *packet, enum chain_side side, const struct chain_rewrite *to);

/* Whether this packet's ports, or the identifier of an ICMP query, are among the captured bytes. */
bool chain_rewrite_has_port(const struct base_packet *packet);

/* Plain IPv4 TCP or UDP with its whole fixed transport header captured: what the functions below
 * may be used on. */
static inline bool chain_rewrite_is_plain(const struct base_packet *packet)
{
	const unsigned int wanted = BASE_PACKET_IP4 | BASE_PACKET_L4;
	const unsigned int mask =
		wanted | BASE_PACKET_ICMP_ERROR | BASE_PACKET_TUNNEL | BASE_PACKET_FRAGMENT_LATER;
	return (packet->flags & mask) == wanted &&
	       (packet->protocol == BASE_PROTOCOL_TCP || packet->protocol == BASE_PROTOCOL_UDP);
}

/* The two 16-bit words of an IPv4 address, added. */
static inline uint32_t chain_rewrite_sum32(uint32_t word)
{
	return (word & 0xffff) + (word >> 16);
}

/* What a change adds to a one's complement sum: new words, and complemented old words. */
static inline uint16_t chain_rewrite_checksum(uint16_t checksum, uint32_t delta)
{
	uint32_t sum = (uint16_t)~checksum + delta;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* The checksums of a plain packet: of the IP header for a change of addresses, of the transport
 * header for that and a change of ports. */
static inline void chain_rewrite_plain_checksums(
	struct base_packet *packet, uint32_t address_delta, uint32_t port_delta)
{
	uint8_t *ip_field = packet->data + packet->l3_offset + 10;
	bool udp = packet->protocol == BASE_PROTOCOL_UDP;
	uint8_t *l4_field = packet->data + packet->l4_offset + (udp ? 6 : 16);
	uint16_t ip_checksum, old, new;
	memcpy(&ip_checksum, ip_field, 2);
	memcpy(&old, l4_field, 2);
	ip_checksum = chain_rewrite_checksum(ip_checksum, address_delta);
	new = chain_rewrite_checksum(old, address_delta + port_delta);
	if (udp) {
		new = new == 0 ? 0xffff : new;
		new = old == 0 ? 0 : new;
	}
	memcpy(ip_field, &ip_checksum, 2);
	memcpy(l4_field, &new, 2);
}

/* Destination address of a plain packet; address as it stands in the packet, address_sum its
 * chain_rewrite_sum32. */
static inline void chain_rewrite_plain_destination(
	struct base_packet *packet, uint32_t address, uint32_t address_sum)
{
	uint8_t *field = packet->data + packet->l3_offset + 16;
	uint32_t old;
	memcpy(&old, field, 4);
	if (BASE_UNLIKELY(old == address))
		return;
	memcpy(field, &address, 4);
	chain_rewrite_plain_checksums(packet, chain_rewrite_sum32(~old) + address_sum, 0);
}

/* Source address and port of a plain packet, both as they stand in the packet. */
static inline void chain_rewrite_plain_source(
	struct base_packet *packet, uint32_t address, uint16_t port)
{
	uint8_t *field = packet->data + packet->l3_offset + 12;
	uint8_t *port_field = packet->data + packet->l4_offset;
	uint32_t old;
	uint16_t old_port;
	memcpy(&old, field, 4);
	memcpy(&old_port, port_field, 2);
	if (BASE_UNLIKELY(old == address && old_port == port))
		return;
	memcpy(field, &address, 4);
	memcpy(port_field, &port, 2);
	uint32_t address_delta =
		old == address ? 0 : chain_rewrite_sum32(~old) + chain_rewrite_sum32(address);
	uint32_t port_delta = old_port == port ? 0 : (uint32_t)(uint16_t)~old_port + port;
	chain_rewrite_plain_checksums(packet, address_delta, port_delta);
}
