/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames for tests and benchmarks: describe a packet, get its bytes with right checksums and
 * lengths. Invalid frames are made by building a valid one and spoiling it.
 *
 * Tunnels and ICMP errors nest: build the inner packet with link BASE_LINK_RAW and give its bytes
 * as the payload of the outer one. Out of memory or out of room aborts: these are tests.
 */
#pragma once

#include "base/packet.h"

#include <stdbool.h>

enum { PACKETS_TAGS_MAX = 32, PACKETS_FRAME_MAX = 65536 + 256 };

struct packets_tag {
	uint16_t tpid; /* 0x8100, 0x88a8, 0x9100, 0x9200; 0x8847: an MPLS label instead of a VLAN */
	uint16_t id;
};

/* All zeros but addresses and protocol is a plain packet: Ethernet, IPv4, TTL 64, no payload. */
struct packets_spec {
	enum base_link link;
	struct packets_tag tags[PACKETS_TAGS_MAX]; /* outermost first, Ethernet only */
	unsigned int tags_count;
	bool pppoe; /* PPPoE session header after the tags */

	uint8_t family; /* 4 (or 0) or 6 */
	uint8_t source[16], destination[16];
	uint8_t ttl; /* 0: 64 */
	uint16_t ip_id;
	uint16_t ip_options_len;    /* bytes of no-operation options, multiple of 4, at most 40 */
	const uint8_t *ip6_headers; /* extension headers, ready made; the last one must name */
	uint16_t ip6_headers_len;   /* `protocol` as its next header */
	uint8_t ip6_first_header;   /* type of the first of them */

	uint8_t protocol;
	uint16_t source_port, destination_port; /* ICMP and ICMPv6: identifier, sequence number */
	uint32_t seq, ack;
	uint8_t tcp_flags;
	uint16_t tcp_window;        /* 0: 65535 */
	const uint8_t *tcp_options; /* multiple of 4 bytes */
	uint16_t tcp_options_len;
	uint8_t icmp_type, icmp_code;
	bool udp_no_checksum;

	const uint8_t *payload; /* NULL: payload_len bytes of a fixed pattern */
	uint16_t payload_len;
	uint16_t frame_min; /* zero padding up to this many bytes, as Ethernet pads to 60 */
};

/* A spec with IPv4 endpoints in host order, e.g. packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 1234,
 * 0x0a000002, 80). */
struct packets_spec packets_ip4(uint8_t protocol, uint32_t source, uint16_t source_port,
	uint32_t destination, uint16_t destination_port);

/* Endpoints 2001:db8::source and 2001:db8::destination. */
struct packets_spec packets_ip6(uint8_t protocol, uint32_t source, uint16_t source_port,
	uint32_t destination, uint16_t destination_port);

/* The same flow seen the other way: addresses and ports swapped (ICMP: addresses only; echo
 * request becomes reply). */
struct packets_spec packets_reverse(const struct packets_spec *spec);

/* Returns the frame's length. */
size_t packets_build(uint8_t *frame, size_t frame_size, const struct packets_spec *spec);

/* Offset of the IP header in a frame built from spec. */
size_t packets_l3_offset(const struct packets_spec *spec);

/* An ICMP (or ICMPv6, by error->family) error about `quoted`: addresses and type, code from
 * `error`, quoting the first quote_len bytes of quoted's IP packet (all of it if it is shorter). */
size_t packets_build_icmp_error(uint8_t *frame, size_t frame_size, const struct packets_spec *error,
	const struct packets_spec *quoted, size_t quote_len);

/* The fragment of spec's packet that carries bytes [offset, offset + size) of what follows the IP
 * header; offset must be a multiple of 8, size too unless it is the last. IPv6 gets a fragment
 * header. ip_id identifies the datagram. */
size_t packets_build_fragment(uint8_t *frame, size_t frame_size, const struct packets_spec *spec,
	uint16_t offset, uint16_t size);

/* Recompute the IPv4 header checksum and the TCP, UDP or ICMP checksum of the IP packet at bytes
 * (no extension headers, not a fragment). packets_checksums_valid tests the same fields. */
void packets_fix_checksums(uint8_t *ip, size_t size);
bool packets_checksums_valid(const uint8_t *ip, size_t size);

/*
 * Packets on the heap. Each frame is an allocation of its own of exactly cap_len bytes, so that a
 * sanitizer sees every access beyond it.
 */
struct packets_pool {
	struct base_packet *packets;
	uint32_t count;
	uint64_t seq_next;
};

void packets_pool_init(struct packets_pool *pool, uint32_t count);
void packets_pool_release(struct packets_pool *pool);

/* Make packet `index` carry a copy of frame; wire_len 0 means cap_len. seq counts up by itself. */
struct base_packet *packets_pool_set(struct packets_pool *pool, uint32_t index, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len, uint64_t time_ns);

/* Build spec into packet `index`. */
struct base_packet *packets_pool_build(struct packets_pool *pool, uint32_t index,
	const struct packets_spec *spec, uint64_t time_ns);
