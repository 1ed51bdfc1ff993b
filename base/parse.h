/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounds-checked header walk over captured bytes. Pure: no DPDK, no clock, no allocation.
 *
 * In: packet->data, cap_len, wire_len, link (and BASE_PACKET_OPERATOR in flags).
 * Out: offsets, protocol, flags, payload_len, key, hash, or a named refusal.
 *
 * Walks Ethernet (802.1Q, 802.1ad, 0x9100, 0x9200 stacks; VID 0 is untagged), 802.3/SNAP, MPLS,
 * PPPoE, the other link types of base/packet.h, IPv4 with options, IPv6 with extension headers,
 * fragments, TCP, UDP, SCTP, ICMP, ICMPv6, GRE, ESP. Tunnels (VXLAN, GENEVE, GRE, GTP-U,
 * IP-in-IP, 6in4) are keyed by the outer header unless the configuration says inner.
 *
 * Keys: TCP, UDP, SCTP by ports; ICMP and ICMPv6 queries by identifier; ICMP errors carry the key
 * of the flow they quote (RFC 792, RFC 4443), direction as if that flow's receiver had sent them;
 * everything else by addresses and protocol. Ports are never read from a later fragment: it takes
 * its first fragment's key from the fragment cache, or, when that is unknown, ports 0 and
 * BASE_PACKET_FRAGMENT_ORPHAN.
 *
 * A snaplen-cut packet is not malformed: a transport header cut short by the capture (cap_len <
 * wire_len) is still keyed when its ports were captured; BASE_PACKET_L4 is set only when the whole
 * fixed header is there. So payload_offset + payload_len may lie beyond cap_len, never beyond
 * wire_len; readers of the payload check against cap_len. Headers without ports (ESP, GRE, ...)
 * get l4_offset but not BASE_PACKET_L4.
 *
 * Length fields of 0 (segmentation offload, jumbograms) mean "to the end of the wire". A datagram
 * sent in fragments is keyed by its outer header even when inner keys are asked for, because only
 * the first fragment shows the inner one.
 *
 * Threads: one base_parser per worker (it owns the fragment cache). Cost: TCP or UDP over Ethernet
 * or bare IP, cut or not, about 40 cycles with its hash, from cache; the generic walk about 150.
 */
#pragma once

#include "base/burst.h"

enum {
	BASE_PARSE_TAGS_MAX = 16,       /* VLAN + MPLS labels */
	BASE_PARSE_EXTENSIONS_MAX = 16, /* IPv6 extension headers */
	BASE_PARSE_TUNNELS_MAX = 4,     /* nested tunnels followed with inner keys */
};

enum base_parse_result {
	BASE_PARSE_FLOW,     /* key, hash and offsets are valid */
	BASE_PARSE_NO_FLOW,  /* well-formed but not IP (ARP, LLDP, ...): passes untracked */
	BASE_PARSE_MALFORMED /* packet->drop_reason says what is wrong */
};

enum base_zone_source {
	BASE_ZONE_NONE, /* VLANs are skipped, one zone */
	BASE_ZONE_VLAN, /* outermost non-zero VLAN id */
};

struct base_parse_config {
	struct base_hash_config hash;
	enum base_zone_source zone_source;
	uint16_t zone; /* constant zone when zone_source is NONE */
	bool inner;    /* key tunnels by their inner header */
	/* Count bad IPv4, TCP, UDP and ICMP checksums and set BASE_PACKET_CHECKSUM_BAD; they still
	 * pass. For captures of a wire: a capturing host shows what it sends before its card has
	 * filled them in. */
	bool verify_checksums;
	uint32_t fragments_max;       /* datagrams remembered, default 4096, rounded up to 2^n */
	uint64_t fragment_timeout_ns; /* default 30 s (RFC 791 asks for at least 15 s) */
	/* 0 means the default in the last two; fragments_max is at most 2^24. */
};

/* Counters that do not refuse anything. Writer: the worker. */
struct base_parse_stats {
	uint64_t packets;
	uint64_t flow_packets;
	uint64_t non_ip_packets;
	uint64_t refused_packets;
	uint64_t fragments; /* first and later */
	uint64_t fragments_orphaned;
	uint64_t fragments_forgotten; /* cache entry overwritten before its timeout */
	uint64_t checksums_bad;
	uint64_t snaplen_cut;
};

struct base_parser;

void base_parse_config_defaults(struct base_parse_config *config);

/* -ENOMEM, -EINVAL. */
int base_parser_create(struct base_parser **out, const struct base_parse_config *config);
void base_parser_destroy(struct base_parser *parser);

enum base_parse_result base_parse_packet(struct base_parser *parser, struct base_packet *packet);

/* Remember the ports of a first fragment that somebody else has handled. Counts nothing. */
void base_parser_learn(struct base_parser *parser, struct base_packet *packet);

/* Parse a whole burst, prefetching frames ahead; malformed packets get marked for compaction
 * (burst->drop_count). Fills burst->runs through base_burst_mark_runs(burst, single_runs). */
void base_parse_burst(struct base_parser *parser, struct base_burst *burst, bool single_runs);

void base_parser_stats(const struct base_parser *parser, struct base_parse_stats *stats);
