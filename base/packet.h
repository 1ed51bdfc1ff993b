/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The per-packet record: what one stage tells the next goes through these named fields, and
 * nothing else. It lives in the private area of an mbuf on the packet path and anywhere in tests;
 * no stage needs to know (base/mbuf.h is the edge).
 *
 * Line 0 (64 bytes) is the metadata that every stage touches. Line 1 holds the flow key and what
 * only a holder of the packet writes. Each field names its writer -> its readers.
 *
 * Life cycle: the source fills `data`, `time_ns`, `seq`, lengths and link, zeroes the rest of
 * line 0 (base_packet_reset); the parser fills offsets, key and hash; stages in order after that.
 * A packet that leaves early carries a drop reason (base_burst_drop).
 */
#pragma once

#include "base/compiler.h"
#include "base/drop.h"
#include "base/flow_key.h"

#include <stddef.h>
#include <stdint.h>

#define BASE_CONN_NONE UINT32_MAX

/* What the first byte of the frame is. */
enum base_link {
	BASE_LINK_ETHERNET,
	BASE_LINK_RAW,  /* IPv4 or IPv6, told by the version nibble (RAW, IPV4, IPV6) */
	BASE_LINK_NULL, /* BSD loopback, family in the capturing host's byte order */
	BASE_LINK_LOOP, /* OpenBSD loopback, family in network order */
	BASE_LINK_SLL,  /* Linux cooked v1 */
	BASE_LINK_SLL2, /* Linux cooked v2 */
	BASE_LINK_PPP,
	BASE_LINK_PPP_HDLC,
	BASE_LINK_C_HDLC, /* Cisco HDLC */
	BASE_LINKS_COUNT
};

enum base_packet_flag {
	BASE_PACKET_FLOW = 1 << 0,     /* key and hash are valid */
	BASE_PACKET_REVERSED = 1 << 1, /* source is endpoint 1 of the key */
	BASE_PACKET_IP4 = 1 << 2,      /* l3_offset points at an IPv4 header */
	BASE_PACKET_IP6 = 1 << 3,
	BASE_PACKET_FRAGMENT = 1 << 4,        /* part of a fragmented datagram (not atomic) */
	BASE_PACKET_FRAGMENT_LATER = 1 << 5,  /* not the first fragment: no transport header here */
	BASE_PACKET_ICMP_ERROR = 1 << 6,      /* key is the quoted flow's; see quote_offset */
	BASE_PACKET_TUNNEL = 1 << 7,          /* key is of an inner header */
	BASE_PACKET_L4 = 1 << 8,              /* l4_offset points at a whole transport header */
	BASE_PACKET_FRAGMENT_ORPHAN = 1 << 9, /* later fragment whose first was not seen: ports 0 */
	BASE_PACKET_OPERATOR_BYPASS = 1 << 10, /* operator's filter matched: do not hold */
	BASE_PACKET_OPERATOR_BULK = 1 << 11, /* operator's other filter matched: may wait longer */
	BASE_PACKET_CHECKSUM_BAD = 1 << 12,  /* a checksum that was asked for and is wrong */
};

/* Set by the source, kept by the parser. */
enum { BASE_PACKET_OPERATOR = BASE_PACKET_OPERATOR_BYPASS | BASE_PACKET_OPERATOR_BULK };

/* Written by conntrack for the chain. */
enum base_conn_flag {
	BASE_CONN_NEW = 1 << 0,     /* this packet created the connection */
	BASE_CONN_REPLY = 1 << 1,   /* sent by the side that did not open the connection */
	BASE_CONN_RELATED = 1 << 2, /* ICMP error about the connection; did not refresh it */
	BASE_CONN_INVALID = 1 << 3, /* not acceptable in its state; did not refresh it */
	BASE_CONN_CLOSING = 1 << 4, /* the connection has seen FIN or RST */
};

struct base_packet {
	/* line 0: metadata */
	uint8_t *data;      /* source -> all: first captured byte of the frame */
	uint64_t time_ns;   /* source -> reframer, conntrack, chain, sink: arrival */
	uint64_t seq;       /* source -> books: position in the input, checks order per flow */
	uint32_t hash;      /* parser -> reframer, conntrack */
	uint32_t conn;      /* conntrack -> chain: entry index or BASE_CONN_NONE */
	uint32_t wire_len;  /* source -> counters, sink: bytes that were on the wire */
	uint32_t cap_len;   /* source -> all: readable bytes at data */
	uint16_t flags;     /* parser (source: operator's) -> all: enum base_packet_flag */
	uint16_t l3_offset; /* parser -> chain: IP header the key was taken from */
	uint16_t l4_offset; /* parser -> conntrack, chain: transport header, see BASE_PACKET_L4 */
	uint16_t payload_offset; /* parser -> chain, gpu_offload: byte after transport header */
	uint16_t payload_len;    /* parser -> conntrack: by the IP header, not by the frame */
	uint16_t quote_offset;   /* parser -> chain (nat): IP header quoted by an ICMP error */
	uint16_t next_hop;       /* chain (router) -> sink */
	uint8_t link;            /* source -> parser, sink: enum base_link */
	uint8_t protocol;        /* parser -> conntrack, chain: transport protocol of this packet */
	uint8_t tcp_flags;       /* parser -> reframer, conntrack */
	uint8_t conn_flags;      /* conntrack -> chain: enum base_conn_flag */
	uint8_t drop_reason;     /* any stage -> books: enum base_drop_reason */
	uint8_t interface;       /* source -> sink: capture interface or port number */

	/* line 1: key, and the holder's link */
	struct base_flow_key key BASE_ALIGNED(64); /* parser -> reframer, conntrack, chain */
	struct base_packet *next;                  /* whoever holds the packet (reframer) */
	uint64_t release_ns;  /* reframer -> results: virtual time of release */
	uint64_t holder_word; /* scratch of whoever holds the packet */
} BASE_ALIGNED(64);
static_assert(offsetof(struct base_packet, key) == 64, "metadata is one cache line");
static_assert(sizeof(struct base_packet) == 128, "two cache lines in the mbuf's private area");

/* TCP flag bits as they stand in byte 13 of the header (RFC 9293). */
enum {
	BASE_TCP_FIN = 0x01,
	BASE_TCP_SYN = 0x02,
	BASE_TCP_RST = 0x04,
	BASE_TCP_PSH = 0x08,
	BASE_TCP_ACK = 0x10,
	BASE_TCP_URG = 0x20,
};

enum {
	BASE_PROTOCOL_ICMP = 1,
	BASE_PROTOCOL_IPIP = 4,
	BASE_PROTOCOL_TCP = 6,
	BASE_PROTOCOL_UDP = 17,
	BASE_PROTOCOL_IP6 = 41,
	BASE_PROTOCOL_GRE = 47,
	BASE_PROTOCOL_ESP = 50,
	BASE_PROTOCOL_AH = 51,
	BASE_PROTOCOL_ICMP6 = 58,
	BASE_PROTOCOL_SCTP = 132,
};

/* Source: start a record. The caller then sets data, time_ns, seq, wire_len, cap_len, link. */
static inline void base_packet_reset(struct base_packet *packet)
{
	__builtin_memset(packet, 0, 64);
	packet->conn = BASE_CONN_NONE;
}
