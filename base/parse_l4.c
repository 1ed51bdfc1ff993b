/* SPDX-License-Identifier: BSD-2-Clause */
/* Transport headers, the flow key, and what ICMP errors quote. */
#include "base/parse_private.h"

enum {
	TCP_HEADER = 20,
	UDP_HEADER = 8,
	SCTP_HEADER = 12,
	ICMP_HEADER = 8,
	QUOTED_L4_MIN = 8, /* RFC 792: at least 64 bits of the datagram's data are quoted */
};

struct transport {
	uint16_t source_port, destination_port;
	uint8_t protocol;
};

static void set_key(
	struct base_parse_walk *walk, const struct base_parse_ip *ip, struct transport transport)
{
	uint8_t source[16] = { 0 }, destination[16] = { 0 };
	size_t size = ip->family == 6 ? 16 : 4;
	memcpy(source, ip->source, size);
	memcpy(destination, ip->destination, size);
	struct base_flow_key *key = &walk->out.key;
	bool reversed = base_flow_key_order(
		key, source, transport.source_port, destination, transport.destination_port);
	key->zone = walk->zone;
	key->protocol = transport.protocol;
	key->family = ip->family;
	walk->out.flags = (uint16_t)(walk->out.flags & ~BASE_PACKET_REVERSED);
	walk->out.flags |= BASE_PACKET_FLOW | (reversed ? BASE_PACKET_REVERSED : 0);
}

/* Everything between `at` and the datagram's end is payload. Offsets into what was not captured
 * are capped, which readers cannot tell from any other offset beyond cap_len. */
static void set_payload(struct base_parse_walk *walk, uint32_t at)
{
	uint32_t len = walk->wire_end > at ? walk->wire_end - at : 0;
	walk->out.payload_offset = (uint16_t)(at < UINT16_MAX ? at : UINT16_MAX);
	walk->out.payload_len = (uint16_t)(len < UINT16_MAX ? len : UINT16_MAX);
}

/* Is the transport header's start, up to `needed` bytes, captured, and does the datagram hold the
 * whole fixed header? Sets BASE_PACKET_L4 when all of it was captured. */
static bool enter_l4(
	struct base_parse_walk *walk, uint32_t at, uint32_t header_len, uint32_t needed)
{
	if (walk->wire_end - at < header_len || !base_parse_has(walk, at, needed))
		return false;
	walk->out.l4_offset = (uint16_t)at;
	if (base_parse_has(walk, at, header_len))
		walk->out.flags |= BASE_PACKET_L4;
	return true;
}

static struct transport read_ports(const uint8_t *header, uint8_t protocol)
{
	return (struct transport){ .source_port = base_parse_get16(header),
		.destination_port = base_parse_get16(header + 2),
		.protocol = protocol };
}

static enum base_drop_reason parse_tcp(
	struct base_parse_walk *walk, uint32_t at, struct transport *transport)
{
	if (!enter_l4(walk, at, TCP_HEADER, 4))
		return BASE_DROP_L4_TRUNCATED;
	const uint8_t *header = walk->data + at;
	uint32_t header_len = TCP_HEADER;
	if (base_parse_has(walk, at, 13)) {
		header_len = (header[12] >> 4) * 4u;
		if (header_len < TCP_HEADER || header_len > walk->wire_end - at)
			return BASE_DROP_TCP_DATA_OFFSET;
	}
	if (base_parse_has(walk, at, 14))
		walk->out.tcp_flags = header[13];
	*transport = read_ports(header, BASE_PROTOCOL_TCP);
	set_payload(walk, at + header_len);
	return BASE_DROP_NONE;
}

static enum base_drop_reason parse_udp(
	struct base_parse_walk *walk, uint32_t at, struct transport *transport)
{
	if (!enter_l4(walk, at, UDP_HEADER, 4))
		return BASE_DROP_L4_TRUNCATED;
	const uint8_t *header = walk->data + at;
	uint32_t room = walk->wire_end - at;
	if (base_parse_has(walk, at, 6)) {
		uint32_t len = base_parse_get16(header + 4);
		/* The length is the whole datagram's, of which a fragment holds a part; 0 stands
		 * for more than the field can say (RFC 2675). */
		bool beyond = len > room && (walk->out.flags & BASE_PACKET_FRAGMENT) == 0;
		bool jumbo = len == 0 && room > UINT16_MAX;
		if ((len < UDP_HEADER && !jumbo) || beyond)
			return BASE_DROP_UDP_LENGTH;
	}
	*transport = read_ports(header, BASE_PROTOCOL_UDP);
	set_payload(walk, at + UDP_HEADER);
	return BASE_DROP_NONE;
}

static enum base_drop_reason parse_sctp(
	struct base_parse_walk *walk, uint32_t at, struct transport *transport)
{
	if (!enter_l4(walk, at, SCTP_HEADER, 4))
		return BASE_DROP_L4_TRUNCATED;
	*transport = read_ports(walk->data + at, BASE_PROTOCOL_SCTP);
	set_payload(walk, at + SCTP_HEADER);
	return BASE_DROP_NONE;
}

/* Does the message carry an identifier that both directions share? */
static bool icmp_is_query(uint8_t protocol, uint8_t type)
{
	if (protocol == BASE_PROTOCOL_ICMP6) /* echo, extended echo (RFC 8335) */
		return type == 128 || type == 129 || type == 160 || type == 161;
	switch (type) {
	case 0:
	case 8: /* echo */
	case 13:
	case 14: /* timestamp */
	case 15:
	case 16: /* information */
	case 17:
	case 18: /* address mask */
	case 42:
	case 43: /* extended echo */
		return true;
	default:
		return false;
	}
}

static bool icmp_is_error(uint8_t protocol, uint8_t type)
{
	if (protocol == BASE_PROTOCOL_ICMP6) /* RFC 4443 reserves up to 127, but defines these */
		return type >= 1 && type <= 4;
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* What could be told from an ICMP error's quote. */
enum quote { QUOTE_FLOW, QUOTE_TOO_SHORT, QUOTE_MALFORMED };

static enum quote quote_ip4(
	const struct base_parse_walk *walk, uint32_t at, struct base_parse_ip *ip)
{
	const uint8_t *header = walk->data + at;
	uint32_t header_len = (header[0] & 15u) * 4;
	if (header[0] >> 4 != 4 || header_len < 20 || header_len > walk->wire_end - at)
		return QUOTE_MALFORMED;
	if (!base_parse_has(walk, at, 20))
		return QUOTE_TOO_SHORT;
	uint32_t fragment_word = base_parse_get16(header + 6);
	*ip = (struct base_parse_ip){ .source = header + 12,
		.destination = header + 16,
		.l3 = at,
		.l4 = at + header_len,
		.fragment_id = base_parse_get16(header + 4),
		.family = 4,
		.protocol = header[9],
		.fragment_protocol = header[9],
		.fragment = (fragment_word & 0x3fff) != 0,
		.later = (fragment_word & 0x1fff) != 0 };
	return QUOTE_FLOW;
}

static enum quote quote_ip6(
	const struct base_parse_walk *walk, uint32_t at, struct base_parse_ip *ip)
{
	const uint8_t *header = walk->data + at;
	if (header[0] >> 4 != 6 || walk->wire_end - at < 40)
		return QUOTE_MALFORMED;
	if (!base_parse_has(walk, at, 40))
		return QUOTE_TOO_SHORT;
	*ip = (struct base_parse_ip){ .source = header + 8,
		.destination = header + 24,
		.l3 = at,
		.l4 = at + 40,
		.family = 6,
		.protocol = header[6] };
	return QUOTE_FLOW;
}

/* Ports of the quoted packet, as its sender wrote them. */
static enum quote quote_transport(
	struct base_parse_walk *walk, const struct base_parse_ip *ip, struct transport *transport)
{
	*transport = (struct transport){ .protocol = ip->protocol };
	if (ip->later) {
		struct base_fragment_ports ports;
		if (base_fragment_cache_find(
			    walk->parser->fragments, ip, walk->zone, &ports, walk->time_ns)) {
			*transport = (struct transport){ .source_port = ports.source_port,
				.destination_port = ports.destination_port,
				.protocol = ports.protocol };
		}
		return QUOTE_FLOW;
	}
	const uint8_t *header = walk->data + ip->l4;
	switch (ip->protocol) {
	case BASE_PROTOCOL_TCP:
	case BASE_PROTOCOL_UDP:
	case BASE_PROTOCOL_SCTP:
		if (!base_parse_has(walk, ip->l4, QUOTED_L4_MIN))
			return QUOTE_TOO_SHORT;
		*transport = read_ports(header, ip->protocol);
		return QUOTE_FLOW;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		if (!base_parse_has(walk, ip->l4, QUOTED_L4_MIN))
			return QUOTE_TOO_SHORT;
		/* Errors about errors are not sent (RFC 1122); their flow is out of reach here. */
		if (icmp_is_error(ip->protocol, header[0]))
			return QUOTE_TOO_SHORT;
		if (icmp_is_query(ip->protocol, header[0])) {
			transport->source_port = base_parse_get16(header + 4);
			transport->destination_port = transport->source_port;
		}
		return QUOTE_FLOW;
	default:
		return QUOTE_FLOW;
	}
}

static enum quote read_quote(struct base_parse_walk *walk, const struct base_parse_ip *outer,
	uint32_t at, struct base_parse_ip *ip, struct transport *transport)
{
	if (walk->wire_end - at < 20)
		return QUOTE_MALFORMED;
	if (!base_parse_has(walk, at, 1))
		return QUOTE_TOO_SHORT;
	enum quote quote = outer->family == 6 ? quote_ip6(walk, at, ip) : quote_ip4(walk, at, ip);
	if (quote != QUOTE_FLOW)
		return quote;
	if (!ip->later) {
		/* An error may cut its quote anywhere, also inside extension headers. */
		enum base_drop_reason reason = base_parse_extensions(walk, ip, walk->wire_end);
		if (reason == BASE_DROP_IP6_EXTENSION_TRUNCATED)
			return QUOTE_TOO_SHORT;
		if (reason != BASE_DROP_NONE)
			return QUOTE_MALFORMED;
	}
	return quote_transport(walk, ip, transport);
}

static enum base_parse_result parse_icmp_error(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	struct base_parse_ip quoted;
	struct transport transport;
	uint32_t at = ip->l4 + ICMP_HEADER;
	switch (read_quote(walk, ip, at, &quoted, &transport)) {
	case QUOTE_MALFORMED:
		return base_parse_refuse(walk, BASE_DROP_ICMP_QUOTE);
	case QUOTE_TOO_SHORT:
		set_key(walk, ip, (struct transport){ .protocol = ip->protocol });
		return BASE_PARSE_FLOW;
	default:
		break;
	}
	/* The error travels towards the quoted packet's source, as the receiver's answer would. */
	struct base_parse_ip answer = quoted;
	answer.source = quoted.destination;
	answer.destination = quoted.source;
	set_key(walk, &answer,
		(struct transport){ .source_port = transport.destination_port,
			.destination_port = transport.source_port,
			.protocol = transport.protocol });
	walk->out.flags |= BASE_PACKET_ICMP_ERROR;
	walk->out.quote_offset = (uint16_t)at;
	return BASE_PARSE_FLOW;
}

static enum base_parse_result parse_icmp(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	if (!enter_l4(walk, ip->l4, ICMP_HEADER, 6))
		return base_parse_refuse(walk, BASE_DROP_L4_TRUNCATED);
	const uint8_t *header = walk->data + ip->l4;
	set_payload(walk, ip->l4 + ICMP_HEADER);
	/* All fragments of a datagram must have one key, and later ones show no quote. */
	if (icmp_is_error(ip->protocol, header[0]) && !ip->fragment)
		return parse_icmp_error(walk, ip);
	struct transport transport = { .protocol = ip->protocol };
	if (icmp_is_query(ip->protocol, header[0])) {
		transport.source_port = base_parse_get16(header + 4);
		transport.destination_port = transport.source_port;
	}
	set_key(walk, ip, transport);
	return BASE_PARSE_FLOW;
}

static enum base_parse_result parse_later_fragment(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	struct base_fragment_ports ports = { .protocol = ip->protocol };
	if (!base_fragment_cache_find(
		    walk->parser->fragments, ip, walk->zone, &ports, walk->time_ns))
		walk->out.flags |= BASE_PACKET_FRAGMENT_ORPHAN;
	walk->out.protocol = ports.protocol;
	set_payload(walk, ip->l4);
	set_key(walk, ip,
		(struct transport){ .source_port = ports.source_port,
			.destination_port = ports.destination_port,
			.protocol = ports.protocol });
	return BASE_PARSE_FLOW;
}

/* Headers without ports: the key is addresses and protocol. */
static enum base_parse_result parse_portless(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	walk->out.l4_offset = (uint16_t)(ip->l4 < UINT16_MAX ? ip->l4 : UINT16_MAX);
	set_payload(walk, ip->l4);
	set_key(walk, ip, (struct transport){ .protocol = ip->protocol });
	return BASE_PARSE_FLOW;
}

static enum base_parse_result parse_transport(
	struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	struct transport transport = { 0 };
	enum base_drop_reason reason;
	switch (ip->protocol) {
	case BASE_PROTOCOL_TCP:
		reason = parse_tcp(walk, ip->l4, &transport);
		break;
	case BASE_PROTOCOL_UDP:
		reason = parse_udp(walk, ip->l4, &transport);
		break;
	case BASE_PROTOCOL_SCTP:
		reason = parse_sctp(walk, ip->l4, &transport);
		break;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return parse_icmp(walk, ip);
	default:
		return parse_portless(walk, ip);
	}
	if (reason != BASE_DROP_NONE)
		return base_parse_refuse(walk, reason);
	set_key(walk, ip, transport);
	return BASE_PARSE_FLOW;
}

static void remember_first_fragment(struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	const struct base_flow_key *key = &walk->out.key;
	bool reversed = (walk->out.flags & BASE_PACKET_REVERSED) != 0;
	struct base_fragment_ports ports = { .source_port = key->port[reversed],
		.destination_port = key->port[!reversed],
		.protocol = key->protocol };
	if (base_fragment_cache_add(walk->parser->fragments, ip, walk->zone, &ports, walk->time_ns))
		walk->parser->stats.fragments_forgotten++;
}

enum base_parse_result base_parse_l4(struct base_parse_walk *walk, const struct base_parse_ip *ip)
{
	walk->out.protocol = ip->protocol;
	if (ip->later)
		return parse_later_fragment(walk, ip);
	enum base_parse_result result = parse_transport(walk, ip);
	if (result != BASE_PARSE_FLOW)
		return result;
	if (ip->fragment) {
		/* The datagram's other fragments show no inner header: all stay with the outer. */
		remember_first_fragment(walk, ip);
		return result;
	}
	if (walk->parser->config.inner)
		return base_parse_tunnel(walk, ip);
	return result;
}
