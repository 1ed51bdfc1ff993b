/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header walk's own vocabulary. parse.c decides between the fast path and the generic walk;
 * the walk goes parse_link.c -> parse_ip.c -> parse_l4.c, and through parse_tunnel.c back to
 * the start for inner headers. fragment_cache.c remembers ports for later fragments.
 */
#pragma once

#include "base/parse.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the fast path builds keys as words");

/* Header offsets are 16 bits. Bytes past this many count as not captured, which leaves room to add
 * any one header's length to an offset. */
#define BASE_PARSE_CAPTURED_MAX (UINT16_MAX - 2048u)

/* What a walk found so far. Copied aside before an inner header is tried. */
struct base_parse_out {
	uint16_t flags;
	uint16_t l3_offset, l4_offset, payload_offset, payload_len, quote_offset;
	uint8_t protocol;
	uint8_t tcp_flags;
	uint32_t ip_end; /* end of the datagram on the wire, for checksums */
	struct base_flow_key key;
};

struct base_parse_walk {
	struct base_parser *parser;
	const uint8_t *data;
	uint64_t time_ns;
	uint32_t cap_end;  /* first byte that must not be read; shrinks to the datagram's end */
	uint32_t wire_end; /* end of what was on the wire; shrinks likewise */
	uint32_t at;       /* the header to be read next */
	uint16_t zone;
	uint8_t tags;
	uint8_t extensions;
	uint8_t tunnels;
	uint8_t refusal; /* enum base_drop_reason, when the result is malformed */
	struct base_parse_out out;
};

/* One IP header with its extension headers behind it. */
struct base_parse_ip {
	const uint8_t *source, *destination;
	uint32_t l3, l4;
	uint32_t fragment_id;
	uint8_t family;
	uint8_t protocol;          /* of what stands at l4 */
	uint8_t fragment_protocol; /* tells datagrams with one id apart; 0 for IPv6 (RFC 8200) */
	bool fragment;
	bool later;
};

/* Is [offset, offset + size) captured? */
static inline bool base_parse_has(
	const struct base_parse_walk *walk, uint32_t offset, uint32_t size)
{
	return offset <= walk->cap_end && size <= walk->cap_end - offset;
}

static inline uint16_t base_parse_get16(const uint8_t *bytes)
{
	uint16_t value;
	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap16(value);
}

static inline uint32_t base_parse_get32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap32(value);
}

static inline enum base_parse_result base_parse_refuse(
	struct base_parse_walk *walk, enum base_drop_reason reason)
{
	walk->refusal = (uint8_t)reason;
	return BASE_PARSE_MALFORMED;
}

/* parse_link.c: walk->at stands on the header that the name says. */
enum base_parse_result base_parse_link(struct base_parse_walk *walk, enum base_link link);
enum base_parse_result base_parse_ethernet(struct base_parse_walk *walk);
enum base_parse_result base_parse_ethertype(struct base_parse_walk *walk, uint16_t ethertype);
enum base_parse_result base_parse_ppp(struct base_parse_walk *walk);

/* parse_ip.c */
enum base_parse_result base_parse_ip4(struct base_parse_walk *walk);
enum base_parse_result base_parse_ip6(struct base_parse_walk *walk);

/* Follow extension headers from ip->l4 to the transport header or a later fragment's data, within
 * [.., end). BASE_DROP_NONE or the reason to refuse. */
enum base_drop_reason base_parse_extensions(
	struct base_parse_walk *walk, struct base_parse_ip *ip, uint32_t end);

/* parse_l4.c: walk->cap_end and wire_end are the datagram's. */
enum base_parse_result base_parse_l4(struct base_parse_walk *walk, const struct base_parse_ip *ip);

/* parse_tunnel.c: the outer key is complete in walk->out; replace it by the inner one when what
 * follows is a tunnel that carries IP. */
enum base_parse_result base_parse_tunnel(
	struct base_parse_walk *walk, const struct base_parse_ip *ip);

/* fragment_cache.c: fixed memory, set-associative, O(1). A datagram is (source, destination,
 * identification, protocol, zone); its entry holds the ports that its first fragment showed. */
struct base_fragment_cache;

struct base_fragment_ports {
	uint16_t source_port, destination_port;
	uint8_t protocol; /* of the transport header */
};

int base_fragment_cache_create(struct base_fragment_cache **out, uint32_t datagrams_max,
	uint64_t timeout_ns, uint64_t salt);
void base_fragment_cache_destroy(struct base_fragment_cache *cache);

/* Returns true when an entry that had not timed out was forgotten to make room. */
bool base_fragment_cache_add(struct base_fragment_cache *cache, const struct base_parse_ip *ip,
	uint16_t zone, const struct base_fragment_ports *ports, uint64_t now_ns);
bool base_fragment_cache_find(const struct base_fragment_cache *cache,
	const struct base_parse_ip *ip, uint16_t zone, struct base_fragment_ports *ports,
	uint64_t now_ns);

/* parse.c */
struct base_parser {
	struct base_parse_config config;
	struct base_fragment_cache *fragments;
	struct base_parse_stats stats;
};

/* The walk without the fast path: the reference that tests compare with. */
enum base_parse_result base_parse_packet_generic(
	struct base_parser *parser, struct base_packet *packet);
