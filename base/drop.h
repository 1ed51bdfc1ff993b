/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one list of reasons why a packet leaves the pipeline without being forwarded, and of the
 * reasons why the parser refuses a packet. Every packet that is not forwarded carries exactly
 * one of them; the books (pipeline/) balance per reason.
 *
 * Parser refusals come first so that `reason <= BASE_DROP_PARSE_LAST` tests for "malformed".
 */
#pragma once

#include <stdint.h>

enum base_drop_reason {
	BASE_DROP_NONE = 0,

	/* Refusals of the header parser: what the bytes got wrong. */
	BASE_DROP_LINK_TRUNCATED,     /* captured bytes end inside the link header */
	BASE_DROP_TAG_TRUNCATED,      /* ... inside a VLAN, MPLS or PPPoE header */
	BASE_DROP_TAG_DEPTH,          /* more stacked tags than BASE_PARSE_TAGS_MAX */
	BASE_DROP_IP_VERSION,         /* version nibble is not what the link type says */
	BASE_DROP_IP4_TRUNCATED,      /* captured bytes end inside the IPv4 header */
	BASE_DROP_IP4_HEADER_LENGTH,  /* IHL < 5, or longer than total length */
	BASE_DROP_IP4_TOTAL_LENGTH,   /* total length < header, or > bytes on the wire */
	BASE_DROP_IP4_FRAGMENT_RANGE, /* offset + length > 65535 */
	BASE_DROP_IP6_TRUNCATED,      /* captured bytes end inside the IPv6 header */
	BASE_DROP_IP6_PAYLOAD_LENGTH, /* payload length > bytes on the wire */
	BASE_DROP_IP6_EXTENSION_TRUNCATED,
	BASE_DROP_IP6_EXTENSION_DEPTH, /* more headers than BASE_PARSE_EXTENSIONS_MAX */
	BASE_DROP_IP6_FRAGMENT_RANGE,
	BASE_DROP_L4_TRUNCATED,     /* captured bytes end inside the transport header */
	BASE_DROP_TCP_DATA_OFFSET,  /* data offset < 5, or beyond the datagram */
	BASE_DROP_TCP_FLAGS,        /* reserved for strict flag checking */
	BASE_DROP_UDP_LENGTH,       /* UDP length < 8, or beyond the datagram */
	BASE_DROP_ICMP_QUOTE,       /* ICMP error whose quoted header is malformed */
	BASE_DROP_TUNNEL_DEPTH,     /* more nested tunnels than BASE_PARSE_TUNNELS_MAX */
	BASE_DROP_TUNNEL_TRUNCATED, /* captured bytes end inside a tunnel header */
	BASE_DROP_PARSE_LAST = BASE_DROP_TUNNEL_TRUNCATED,

	/* Source. */
	BASE_DROP_SOURCE_OVERSIZE, /* frame larger than the packet buffer */
	BASE_DROP_SOURCE_LINK,     /* link type cannot be sent on this sink */

	/* Connection tracking. */
	BASE_DROP_CONN_TABLE_FULL, /* full-table policy "drop new" */
	BASE_DROP_CONN_HALF_OPEN,  /* cap on half-open connections reached */
	BASE_DROP_CONN_INVALID,    /* invalid in its connection's state, policy "drop" */

	/* Flow inference. */
	BASE_DROP_INFER_VERDICT, /* the model's label of its flow says so */

	/* Chain. */
	BASE_DROP_ROUTER_TTL, /* TTL or hop limit would reach 0 */
	BASE_DROP_ROUTER_NO_ROUTE,
	BASE_DROP_FIREWALL_DENY,
	BASE_DROP_NAT_NO_PORT,        /* port pool empty */
	BASE_DROP_NAT_UNTRANSLATABLE, /* reply to the NAT address that no mapping covers */
	BASE_DROP_LB_NO_BACKEND,

	/* Sink and shutdown. */
	BASE_DROP_SINK_FULL,   /* device queue took fewer packets than offered */
	BASE_DROP_SINK_LINK,   /* packet's link type does not fit the sink */
	BASE_DROP_SINK_ERROR,  /* write error (disk full, broken pipe) */
	BASE_DROP_INTERRUPTED, /* still held when the run was stopped by force */

	BASE_DROP_REASONS_COUNT
};

/* Stable snake_case name for results ("ip4_total_length"); never NULL. */
const char *base_drop_name(enum base_drop_reason reason);
