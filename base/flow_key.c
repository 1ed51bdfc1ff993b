/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/flow_key.h"

#include "base/packet.h"

#include <arpa/inet.h>
#include <stdio.h>

bool base_flow_key_order(struct base_flow_key *key, const uint8_t source[16], uint16_t source_port,
	const uint8_t destination[16], uint16_t destination_port)
{
	int order = memcmp(source, destination, 16);
	bool swap = order > 0 || (order == 0 && source_port > destination_port);
	memcpy(key->address[swap], source, 16);
	memcpy(key->address[!swap], destination, 16);
	key->port[swap] = source_port;
	key->port[!swap] = destination_port;
	return swap;
}

static void format_protocol(uint8_t protocol, char text[16])
{
	switch (protocol) {
	case BASE_PROTOCOL_ICMP:
		snprintf(text, 16, "icmp");
		break;
	case BASE_PROTOCOL_TCP:
		snprintf(text, 16, "tcp");
		break;
	case BASE_PROTOCOL_UDP:
		snprintf(text, 16, "udp");
		break;
	case BASE_PROTOCOL_GRE:
		snprintf(text, 16, "gre");
		break;
	case BASE_PROTOCOL_ESP:
		snprintf(text, 16, "esp");
		break;
	case BASE_PROTOCOL_ICMP6:
		snprintf(text, 16, "icmp6");
		break;
	case BASE_PROTOCOL_SCTP:
		snprintf(text, 16, "sctp");
		break;
	default:
		snprintf(text, 16, "protocol-%u", protocol);
	}
}

static bool protocol_has_ports(uint8_t protocol)
{
	return protocol == BASE_PROTOCOL_TCP || protocol == BASE_PROTOCOL_UDP ||
	       protocol == BASE_PROTOCOL_SCTP || protocol == BASE_PROTOCOL_ICMP ||
	       protocol == BASE_PROTOCOL_ICMP6;
}

static void format_endpoint(const struct base_flow_key *key, int side, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN] = "?";
	bool ip6 = key->family == 6;
	inet_ntop(ip6 ? AF_INET6 : AF_INET, key->address[side], address, sizeof(address));
	if (!protocol_has_ports(key->protocol))
		snprintf(text, size, "%s", address);
	else
		snprintf(text, size, ip6 ? "[%s]:%u" : "%s:%u", address, key->port[side]);
}

int base_flow_key_format(const struct base_flow_key *key, char *text, size_t text_size)
{
	if (key->family == 0)
		return snprintf(text, text_size, "no flow");
	char protocol[16], endpoints[2][INET6_ADDRSTRLEN + 10], zone[16] = "";
	format_protocol(key->protocol, protocol);
	format_endpoint(key, 0, endpoints[0], sizeof(endpoints[0]));
	format_endpoint(key, 1, endpoints[1], sizeof(endpoints[1]));
	if (key->zone != 0)
		snprintf(zone, sizeof(zone), " zone %u", key->zone);
	return snprintf(
		text, text_size, "%s %s <> %s%s", protocol, endpoints[0], endpoints[1], zone);
}
