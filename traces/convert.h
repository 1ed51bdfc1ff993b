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
