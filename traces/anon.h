/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: rewriting the addresses of one frame.
 *
 * A walk goes down the headers of a frame, as far as they are understood, and replaces every
 * address it meets; the functions return where the part of the frame ends that may stay. What is
 * not understood is not kept.
 *
 * Each checksum over bytes that are about to change is announced as a cover before; patching then
 * updates all of them, innermost first, by the difference (RFC 1624). So right checksums stay
 * right, wrong ones wrong by as much, and nothing needs the payload.
 *
 * anonymize.c   the stream
 * anon_patch.c  covers and replacements
 * anon_link.c   link headers, tags, ARP
 * anon_ip.c     IPv4 and IPv6 with their options and extension headers
 * anon_l4.c     transport headers, ICMP and what it quotes
 * anon_tunnel.c tunnels
 */
#pragma once

#include "traces/cryptopan.h"
#include "traces/traces.h"

enum {
	TRACES_ANON_COVERS_MAX = 40,
	TRACES_ANON_DEPTH_MAX = 10, /* IP headers inside one another */
	TRACES_ANON_MAC_BYTES = 6,
};

/* A checksum: 16 bits at `field` over [start, end) and, when there is a pseudo-header, two
 * addresses. */
struct traces_anon_cover {
	uint32_t field, start, end;
	uint32_t source, destination;
	uint8_t address_bytes; /* 0: no pseudo-header */
	bool zero_is_none;     /* UDP: 0 is no checksum, so none comes out as 0 */
};

struct traces_anon_walk {
	uint8_t *frame;
	uint32_t cap_len;
	struct traces_cryptopan *cryptopan;
	const struct traces_anonymize_options *options;
	struct traces_anonymize_report *report;
	struct traces_anon_cover covers[TRACES_ANON_COVERS_MAX];
	uint32_t covers_count;
	uint32_t depth;
};

static inline bool traces_anon_has(uint32_t end, uint32_t at, uint32_t size)
{
	return at <= end && size <= end - at;
}

/* ---- anon_patch.c ---- */

/* Of a header that begins at start; pseudo-header addresses are set by the caller. False: no more
 * room, which the depth of walks prevents. */
bool traces_anon_cover(struct traces_anon_walk *walk, const struct traces_anon_cover *cover);
void traces_anon_patch(
	struct traces_anon_walk *walk, uint32_t at, const uint8_t *bytes, uint32_t size);
void traces_anon_ip4_address(struct traces_anon_walk *walk, uint32_t at);
void traces_anon_ip6_address(struct traces_anon_walk *walk, uint32_t at);
void traces_anon_mac(struct traces_anon_walk *walk, uint32_t at);
void traces_anon_fill(struct traces_anon_walk *walk, uint32_t at, uint32_t size, uint8_t value);

/* ---- the walks: from the header at `at`, whose frame or datagram is captured up to `end` ---- */

uint32_t traces_anon_link(struct traces_anon_walk *walk, enum base_link link);
uint32_t traces_anon_ethernet(struct traces_anon_walk *walk, uint32_t at, uint32_t end);
uint32_t traces_anon_ethertype(
	struct traces_anon_walk *walk, uint16_t ethertype, uint32_t at, uint32_t end);

uint32_t traces_anon_ip4(struct traces_anon_walk *walk, uint32_t at, uint32_t end);
uint32_t traces_anon_ip6(struct traces_anon_walk *walk, uint32_t at, uint32_t end);
/* By the version nibble; `at` for what is neither. */
uint32_t traces_anon_ip(struct traces_anon_walk *walk, uint32_t at, uint32_t end);

/* Announce the checksum of the transport header at `l4`, if it was captured. cover holds the
 * pseudo-header's addresses. */
void traces_anon_cover_l4(struct traces_anon_walk *walk, uint8_t protocol, uint32_t l4,
	uint32_t end, struct traces_anon_cover cover);
uint32_t traces_anon_l4(struct traces_anon_walk *walk, uint8_t protocol, uint32_t l4, uint32_t end);

/* What a protocol number or a UDP port carries. False: it is no tunnel. */
bool traces_anon_tunnel_protocol(
	struct traces_anon_walk *walk, uint8_t protocol, uint32_t at, uint32_t end, uint32_t *keep);
bool traces_anon_tunnel_port(struct traces_anon_walk *walk, uint16_t source, uint16_t destination,
	uint32_t at, uint32_t end, uint32_t *keep);
