/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/drop.h"

#include "base/compiler.h"

static const char *const names[BASE_DROP_REASONS_COUNT] = {
	[BASE_DROP_NONE] = "none",
	[BASE_DROP_LINK_TRUNCATED] = "link_truncated",
	[BASE_DROP_TAG_TRUNCATED] = "tag_truncated",
	[BASE_DROP_TAG_DEPTH] = "tag_depth",
	[BASE_DROP_IP_VERSION] = "ip_version",
	[BASE_DROP_IP4_TRUNCATED] = "ip4_truncated",
	[BASE_DROP_IP4_HEADER_LENGTH] = "ip4_header_length",
	[BASE_DROP_IP4_TOTAL_LENGTH] = "ip4_total_length",
	[BASE_DROP_IP4_FRAGMENT_RANGE] = "ip4_fragment_range",
	[BASE_DROP_IP6_TRUNCATED] = "ip6_truncated",
	[BASE_DROP_IP6_PAYLOAD_LENGTH] = "ip6_payload_length",
	[BASE_DROP_IP6_EXTENSION_TRUNCATED] = "ip6_extension_truncated",
	[BASE_DROP_IP6_EXTENSION_DEPTH] = "ip6_extension_depth",
	[BASE_DROP_IP6_FRAGMENT_RANGE] = "ip6_fragment_range",
	[BASE_DROP_L4_TRUNCATED] = "l4_truncated",
	[BASE_DROP_TCP_DATA_OFFSET] = "tcp_data_offset",
	[BASE_DROP_TCP_FLAGS] = "tcp_flags",
	[BASE_DROP_UDP_LENGTH] = "udp_length",
	[BASE_DROP_ICMP_QUOTE] = "icmp_quote",
	[BASE_DROP_TUNNEL_DEPTH] = "tunnel_depth",
	[BASE_DROP_TUNNEL_TRUNCATED] = "tunnel_truncated",
	[BASE_DROP_SOURCE_OVERSIZE] = "source_oversize",
	[BASE_DROP_SOURCE_LINK] = "source_link",
	[BASE_DROP_CONN_TABLE_FULL] = "conn_table_full",
	[BASE_DROP_CONN_HALF_OPEN] = "conn_half_open",
	[BASE_DROP_CONN_INVALID] = "conn_invalid",
	[BASE_DROP_INFER_VERDICT] = "infer_verdict",
	[BASE_DROP_ROUTER_TTL] = "router_ttl",
	[BASE_DROP_ROUTER_NO_ROUTE] = "router_no_route",
	[BASE_DROP_FIREWALL_DENY] = "firewall_deny",
	[BASE_DROP_NAT_NO_PORT] = "nat_no_port",
	[BASE_DROP_NAT_UNTRANSLATABLE] = "nat_untranslatable",
	[BASE_DROP_LB_NO_BACKEND] = "lb_no_backend",
	[BASE_DROP_SINK_FULL] = "sink_full",
	[BASE_DROP_SINK_LINK] = "sink_link",
	[BASE_DROP_SINK_ERROR] = "sink_error",
	[BASE_DROP_INTERRUPTED] = "interrupted",
};

const char *base_drop_name(enum base_drop_reason reason)
{
	unsigned int index = (unsigned int)reason;
	if (index >= BASE_ARRAY_COUNT(names) || names[index] == NULL)
		return "unknown";
	return names[index];
}
