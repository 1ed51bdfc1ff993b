/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Part of traces/traces.h, which includes it: streams whose frames are rewritten.
 *
 * As all transforms they own what they pull from once they have succeeded; reports are set to zero
 * by the constructor, grow with the stream and must outlive it. -EINVAL, -ENOMEM.
 */
#pragma once

#include "base/packet.h"

#include <stdbool.h>
#include <stdint.h>

struct traces_packets;

/* ---- another link type ---- */

struct traces_relink_options {
	enum base_link link;               /* BASE_LINK_ETHERNET or BASE_LINK_RAW */
	uint8_t source[6], destination[6]; /* of Ethernet headers that are made */
	bool keep_source; /* take the sender's address from Linux cooked headers that have it */
};

struct traces_relink_report {
	uint64_t left_out;     /* packets that the link type cannot carry: no IP, no EtherType */
	uint64_t tags_dropped; /* packets that lost VLAN tags, MPLS labels or PPPoE headers */
	uint64_t ends_dropped; /* packets that lost bytes behind their IP datagram */
};

/* 02:00:00:00:00:01 to 02:00:00:00:00:02. */
void traces_relink_options_defaults(struct traces_relink_options *options, enum base_link link);
/*
 * Packets of that link type are passed on as they are. To Ethernet, the link header is replaced by
 * one with the same EtherType; to RAW, what precedes the IP header and what follows the datagram is
 * dropped. Lengths on the wire shrink and grow with the header.
 */
int traces_packets_relink(struct traces_packets **out, struct traces_packets *from,
	const struct traces_relink_options *options, struct traces_relink_report *report);

/* ---- cut packets and stale checksums ---- */

struct traces_repair_options {
	bool pad;       /* fill up to the IP header's length with zeros */
	bool checksums; /* compute those of IPv4, TCP, UDP, ICMP, ICMPv6 anew */
};

struct traces_repair_report {
	uint64_t padded;
	uint64_t corrected; /* packets with a checksum that changed */
	uint64_t unknown; /* packets whose transport checksum cannot be computed: cut, fragments */
};

/* Outermost IP header only. A UDP checksum of 0 over IPv4, "none", stays. */
int traces_packets_repair(struct traces_packets **out, struct traces_packets *from,
	const struct traces_repair_options *options, struct traces_repair_report *report);

/* ---- anonymisation ---- */

enum { TRACES_ANONYMIZE_KEY_BYTES = 32 };

enum traces_macs {
	TRACES_MACS_ZERO,
	TRACES_MACS_HASH, /* by the key; group and broadcast addresses stay such */
	TRACES_MACS_KEEP
};

struct traces_anonymize_options {
	uint8_t key[TRACES_ANONYMIZE_KEY_BYTES];
	enum traces_macs macs;
	bool keep_payload; /* behind TCP, UDP, ICMP echo, ...; never of tunnels and protocols that
	                    * carry addresses and are not understood */
};

struct traces_anonymize_report {
	uint64_t packets;
	uint64_t ip4_addresses, ip6_addresses, mac_addresses; /* replaced, not distinct ones */
	uint64_t cut_packets, cut_bytes;
};

/*
 * Every address that is met is replaced: in IP headers, their options and extension headers, ARP,
 * ICMP and what it quotes, neighbour discovery, IGMP, and all of these again inside tunnels (those
 * of base/parse.h, and MPLS over IP and UDP, ERSPAN, EtherIP, VXLAN-GPE, Teredo). IP addresses by
 * Crypto-PAn, so that common prefixes stay as long as they were. VLANs and labels stay. Packets are
 * cut behind their transport header, and wherever something is not understood; lengths on the wire
 * and in headers stay. Checksums are updated by what changed: right ones stay right.
 *
 * Cost: about 100 ns a packet while addresses are found in the cache. Also -EIO (libcrypto).
 */
int traces_packets_anonymize(struct traces_packets **out, struct traces_packets *from,
	const struct traces_anonymize_options *options, struct traces_anonymize_report *report);
