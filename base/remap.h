/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address remapping for overlays and loops: copy k of a trace gets addresses of its own, so that
 * copies share no flow, while all packets of one flow (both directions, ICMP errors with the flow
 * they quote) move together.
 *
 * The map is a bijection of the 32-bit IPv4 space per copy (a keyed Feistel permutation; copy 0 is
 * the identity) and, for IPv6, of the low 64 bits. Checksums are updated incrementally, UDP
 * checksum 0 stays 0. With inner keys only the inner header is rewritten, and a checksum of the
 * outer transport, which tunnels seldom use, goes stale. Cost: about 50 cycles per packet from
 * cache.
 */
#pragma once

#include "base/packet.h"

/* Rewrite the addresses of a parsed packet (packet->flags & BASE_PACKET_FLOW), outer header and
 * quoted header; packets without an IP header are left alone. Parse again afterwards: the key is
 * stale. */
void base_remap_packet(struct base_packet *packet, uint32_t copy);

uint32_t base_remap_ip4(uint32_t address, uint32_t copy);
