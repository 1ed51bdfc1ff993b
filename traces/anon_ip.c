/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/anon.h"

#include "traces/headers.h"

enum {
	IP_OFFSET_MASK = 0x1fff,
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_RECORD_ROUTE = 7,
	OPTION_TIMESTAMP = 68,
	OPTION_LSRR = 131,
	OPTION_SSRR = 137,
	OPTION_ROUTER_ALERT = 148,
	ROUTE_OPTION_BYTES = 3,
	TIMESTAMP_OPTION_BYTES = 4,
	NEXT_HOP_BY_HOP = 0,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_DESTINATION = 60,
	EXTENSIONS_MAX = 16,
	ROUTING_SOURCE = 0,
	ROUTING_MOBILE = 2,
	ROUTING_SEGMENTS = 4,
	OPTION6_PAD1 = 0,
	OPTION6_PADN = 1,
	OPTION6_ROUTER_ALERT = 5,
	OPTION6_JUMBO = 0xc2,
	OPTION6_HOME_ADDRESS = 0xc9,
	ADDRESSES_MAX = 160,
};

/* ---- IPv4 ---- */

/* Addresses of a route, all of them: also those behind the pointer are somebody's. */
static void route_option(struct traces_anon_walk *walk, uint32_t at, uint32_t length)
{
	for (uint32_t i = ROUTE_OPTION_BYTES; i + 4 <= length; i += 4)
		traces_anon_ip4_address(walk, at + i);
}

/* Flag 1 and 3: pairs of an address and a time; others hold times only. */
static void timestamp_option(struct traces_anon_walk *walk, uint32_t at, uint32_t length)
{
	if (length < TIMESTAMP_OPTION_BYTES || (walk->frame[at + 3] & 0xf) == 0)
		return;
	for (uint32_t i = TIMESTAMP_OPTION_BYTES; i + 8 <= length; i += 8)
		traces_anon_ip4_address(walk, at + i);
}

static void ip4_options(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	while (at < end && walk->frame[at] != OPTION_END) {
		uint8_t type = walk->frame[at];
		if (type == OPTION_NOP) {
			at++;
			continue;
		}
		uint32_t length = at + 1 < end ? walk->frame[at + 1] : 0;
		if (length < 2 || length > end - at)
			break;
		if (type == OPTION_RECORD_ROUTE || type == OPTION_LSRR || type == OPTION_SSRR)
			route_option(walk, at, length);
		else if (type == OPTION_TIMESTAMP)
			timestamp_option(walk, at, length);
		else if (type != OPTION_ROUTER_ALERT)
			traces_anon_fill(walk, at + 2, length - 2, 0);
		at += length;
	}
	/* Behind the end, or damaged: whatever stands there is not known. */
	traces_anon_fill(walk, at, end - at, 0);
}

/* A source route under way: the checksum is that of its last address. 0: there is none. */
static uint32_t route_end(const struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	while (at + 1 < end && walk->frame[at] != OPTION_END) {
		uint8_t type = walk->frame[at];
		uint32_t length = type == OPTION_NOP ? 1 : walk->frame[at + 1];
		if (type != OPTION_NOP && (length < 2 || length > end - at))
			return 0;
		bool route = type == OPTION_LSRR || type == OPTION_SSRR;
		if (route && length >= ROUTE_OPTION_BYTES + 4u && walk->frame[at + 2] <= length)
			return at + ROUTE_OPTION_BYTES +
			       ((length - ROUTE_OPTION_BYTES) / 4 - 1) * 4;
		at += length;
	}
	return 0;
}

/* Past authentication headers; *protocol is then that of what stands there. */
static uint32_t skip_authentication(
	const struct traces_anon_walk *walk, uint8_t *protocol, uint32_t at, uint32_t end)
{
	while (*protocol == BASE_PROTOCOL_AH && traces_anon_has(end, at, 8)) {
		const uint8_t *header = walk->frame + at;
		uint32_t bytes = header[1] * 4u + 8;
		if (!traces_anon_has(end, at, bytes))
			break;
		*protocol = header[0];
		at += bytes;
	}
	return at;
}

/* A header that is whole, and the options in it; l4 of a later fragment is not looked at. */
static uint32_t ip4_whole(
	struct traces_anon_walk *walk, uint32_t at, uint32_t options_end, uint32_t end)
{
	const uint8_t *ip = walk->frame + at;
	uint8_t protocol = ip[9];
	bool later = (traces_net16(ip + 6) & IP_OFFSET_MASK) != 0;
	uint32_t final = route_end(walk, at + TRACES_IP4_BYTES, options_end);
	struct traces_anon_cover pseudo = {
		.source = at + 12,
		.destination = final != 0 ? final : at + 16,
		.address_bytes = 4,
	};
	uint32_t l4 = options_end;
	if (!later) {
		l4 = skip_authentication(walk, &protocol, options_end, end);
		traces_anon_cover_l4(walk, protocol, l4, end, pseudo);
	}
	traces_anon_ip4_address(walk, at + 12);
	traces_anon_ip4_address(walk, at + 16);
	ip4_options(walk, at + TRACES_IP4_BYTES, options_end);
	return later ? l4 : traces_anon_l4(walk, protocol, l4, end);
}

uint32_t traces_anon_ip4(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	const uint8_t *ip = walk->frame + at;
	if (!traces_anon_has(end, at, TRACES_IP4_BYTES) || ip[0] >> 4 != 4)
		return at;
	uint32_t header_bytes = (ip[0] & 0xfu) * 4, length = traces_net16(ip + 2);
	if (header_bytes < TRACES_IP4_BYTES || walk->depth == TRACES_ANON_DEPTH_MAX)
		return at;
	if (length >= header_bytes && length < end - at)
		end = at + length; /* what follows is padding */
	uint32_t covers_count = walk->covers_count;
	/* Options that were cut are not kept in part. */
	bool whole = traces_anon_has(end, at, header_bytes);
	uint32_t keep = at + (whole ? header_bytes : TRACES_IP4_BYTES);
	struct traces_anon_cover cover = { .field = at + 10, .start = at, .end = keep };
	traces_anon_cover(walk, &cover);
	walk->depth++;
	if (whole) {
		keep = ip4_whole(walk, at, keep, end);
	} else {
		traces_anon_ip4_address(walk, at + 12);
		traces_anon_ip4_address(walk, at + 16);
	}
	walk->depth--;
	walk->covers_count = covers_count;
	return keep;
}

/* ---- IPv6 ---- */

/* What the extension headers say, before anything is changed. */
struct ip6_plan {
	uint32_t at, end;
	uint32_t l4;      /* where they end; only headers before it are kept */
	uint8_t protocol; /* of what stands there */
	bool transport;   /* it is a transport header, the first fragment's */
	struct traces_anon_cover pseudo;
	uint32_t addresses[ADDRESSES_MAX];
	uint32_t addresses_count;
};

static void plan_address(struct ip6_plan *plan, uint32_t at)
{
	if (plan->addresses_count < ADDRESSES_MAX)
		plan->addresses[plan->addresses_count++] = at;
}

/* False: a kind whose addresses are not known. */
static bool plan_routing(struct traces_anon_walk *walk, struct ip6_plan *plan, uint32_t size)
{
	const uint8_t *header = walk->frame + plan->l4;
	uint32_t count = header[1] / 2u, first = plan->l4 + 8;
	uint8_t type = header[2], left = header[3];
	if (type == ROUTING_SEGMENTS && header[4] < count)
		count = header[4] + 1u;
	else if (type != ROUTING_SOURCE && type != ROUTING_MOBILE)
		return false;
	if (count == 0 || count > (size - 8) / 16 || plan->addresses_count + count > ADDRESSES_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++)
		plan_address(plan, first + 16 * i);
	/* What segment routing adds behind its addresses is not known. */
	traces_anon_fill(walk, first + 16 * count, size - 8 - 16 * count, 0);
	/* Until the route has ended, checksums are those of its last address; segments are listed
	 * from the last to the first. */
	if (left > 0)
		plan->pseudo.destination =
			type == ROUTING_SEGMENTS ? first : first + 16 * (count - 1);
	return true;
}

/* Options of a hop-by-hop or destination header; unknown ones are emptied. */
static void plan_options(struct traces_anon_walk *walk, struct ip6_plan *plan, uint32_t size)
{
	uint32_t at = plan->l4 + 2, end = plan->l4 + size;
	while (at < end) {
		uint8_t type = walk->frame[at];
		if (type == OPTION6_PAD1) {
			at++;
			continue;
		}
		if (end - at < 2 || walk->frame[at + 1] > end - at - 2)
			break;
		uint32_t length = walk->frame[at + 1];
		bool known = type == OPTION6_ROUTER_ALERT || type == OPTION6_JUMBO;
		if (type == OPTION6_HOME_ADDRESS && length == 16) {
			plan_address(plan, at + 2);
			plan->pseudo.source = at + 2;
		} else if (!known) {
			traces_anon_fill(walk, at + 2, length, 0);
		}
		at += 2 + length;
	}
	traces_anon_fill(walk, at, end - at, 0);
}

/* Move over one header. False: the walk ends before it, or with it (later fragments). */
static bool plan_extension(struct traces_anon_walk *walk, struct ip6_plan *plan)
{
	uint8_t type = plan->protocol;
	const uint8_t *header = walk->frame + plan->l4;
	if (!traces_anon_has(plan->end, plan->l4, 8))
		return false;
	uint32_t size = type == NEXT_FRAGMENT      ? 8
			: type == BASE_PROTOCOL_AH ? header[1] * 4u + 8
						   : header[1] * 8u + 8;
	if (!traces_anon_has(plan->end, plan->l4, size))
		return false;
	if (type == NEXT_ROUTING && !plan_routing(walk, plan, size))
		return false;
	if (type == NEXT_HOP_BY_HOP || type == NEXT_DESTINATION)
		plan_options(walk, plan, size);
	bool later = type == NEXT_FRAGMENT && traces_net16(header + 2) >> 3 != 0;
	plan->protocol = header[0];
	plan->l4 += size;
	return !later;
}

static void plan_extensions(struct traces_anon_walk *walk, struct ip6_plan *plan)
{
	for (int i = 0; i <= EXTENSIONS_MAX; i++) {
		uint8_t type = plan->protocol;
		bool extension = type == NEXT_HOP_BY_HOP || type == NEXT_DESTINATION ||
				 type == NEXT_ROUTING || type == NEXT_FRAGMENT ||
				 type == BASE_PROTOCOL_AH;
		if (!extension)
			plan->transport = true;
		if (!extension || i == EXTENSIONS_MAX || !plan_extension(walk, plan))
			return;
	}
}

uint32_t traces_anon_ip6(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	const uint8_t *ip = walk->frame + at;
	if (!traces_anon_has(end, at, TRACES_IP6_BYTES) || ip[0] >> 4 != 6 ||
		walk->depth == TRACES_ANON_DEPTH_MAX)
		return at;
	walk->depth++;
	uint32_t length = traces_net16(ip + 4);
	if (length > 0 && length < end - at - TRACES_IP6_BYTES)
		end = at + TRACES_IP6_BYTES + length;
	struct ip6_plan plan = {
		.at = at,
		.end = end,
		.l4 = at + TRACES_IP6_BYTES,
		.protocol = ip[6],
		.pseudo = { .source = at + 8, .destination = at + 24, .address_bytes = 16 },
	};
	uint32_t covers_count = walk->covers_count;
	plan_extensions(walk, &plan);
	if (plan.transport)
		traces_anon_cover_l4(walk, plan.protocol, plan.l4, end, plan.pseudo);
	traces_anon_ip6_address(walk, at + 8);
	traces_anon_ip6_address(walk, at + 24);
	for (uint32_t i = 0; i < plan.addresses_count; i++)
		traces_anon_ip6_address(walk, plan.addresses[i]);
	uint32_t keep = plan.l4;
	if (plan.transport)
		keep = traces_anon_l4(walk, plan.protocol, plan.l4, end);
	walk->covers_count = covers_count;
	walk->depth--;
	return keep;
}

uint32_t traces_anon_ip(struct traces_anon_walk *walk, uint32_t at, uint32_t end)
{
	if (!traces_anon_has(end, at, 1))
		return at;
	if (walk->frame[at] >> 4 == 4)
		return traces_anon_ip4(walk, at, end);
	return walk->frame[at] >> 4 == 6 ? traces_anon_ip6(walk, at, end) : at;
}
