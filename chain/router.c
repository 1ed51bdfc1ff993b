/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Longest-prefix match on the destination as it stands in the IP header (not in the key: address
 * translation may have come before), TTL or hop limit, next hop.
 *
 * The burst implementation gathers the burst's destinations, one for each run and direction, and
 * looks them up together. The next packet of a run compares its own destination with the one
 * gathered last, because an ICMP error shares a flow's key but need not share its destination.
 *
 * Stateless: untracked packets are routed like all others. Packets that are not IP are bridged:
 * they pass with next hop 0. Packets keyed by an inner header are routed by that header.
 */
#include "base/checksum.h"
#include "chain/function.h"
#include "chain/routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rte_errno.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_memory.h>
#include <rte_version.h>
#include <string.h>

enum {
	IP4_TTL_OFFSET = 8,
	IP4_CHECKSUM_OFFSET = 10,
	IP4_DESTINATION_OFFSET = 16,
	IP6_HOP_LIMIT_OFFSET = 7,
	IP6_DESTINATION_OFFSET = 24,
	NO_LOOKUP = UINT16_MAX,
	/* Lookups of IPv6 destinations are numbered behind those of IPv4. */
	LOOKUP6_FIRST = BASE_BURST_MAX,
	LOOKUPS_MAX = 2 * BASE_BURST_MAX,
	NEXT_HOP_NONE = -1,
	LPM6_GROUPS_MIN = 64,
};

struct router {
	const struct chain_function_context *context;
	struct rte_lpm *lpm4;   /* NULL: no route but the default */
	struct rte_lpm6 *lpm6;  /* NULL: no route but the default */
	int32_t default_hop[2]; /* IPv4, IPv6; NEXT_HOP_NONE */
	bool borrowed;          /* the tables are another chain's */
	uint64_t ip4_packets, ip6_packets, bridged_packets, default_packets;
};

/* What a burst has to look up. */
struct router_lookups {
	unsigned int count4, count6;
	uint32_t address4[BASE_BURST_MAX];
	uint8_t address6[BASE_BURST_MAX][16];
	int32_t hops[LOOKUPS_MAX];
	uint16_t lookup[BASE_BURST_MAX]; /* packet -> index into hops, or NO_LOOKUP */
};

static int lpm6_add(struct rte_lpm6 *lpm, const struct chain_route *route)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
	struct rte_ipv6_addr address;
	memcpy(&address, route->prefix.address, sizeof(address));
	return rte_lpm6_add(lpm, &address, route->prefix.length, route->next_hop);
#else
	return rte_lpm6_add(lpm, route->prefix.address, route->prefix.length, route->next_hop);
#endif
}

static void lpm6_lookup_bulk(
	const struct rte_lpm6 *lpm, uint8_t addresses[][16], int32_t *hops, unsigned int count)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
	rte_lpm6_lookup_bulk_func(lpm, (struct rte_ipv6_addr *)addresses, hops, count);
#else
	rte_lpm6_lookup_bulk_func(lpm, addresses, hops, count);
#endif
}

static int lpm6_lookup(const struct rte_lpm6 *lpm, const uint8_t *address, uint32_t *hop)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
	return rte_lpm6_lookup(lpm, (const struct rte_ipv6_addr *)address, hop);
#else
	return rte_lpm6_lookup(lpm, address, hop);
#endif
}

/* How many second-level groups the routes may take at most. */
static void count_routes(const struct chain_routes *routes, uint32_t counts[2], uint32_t groups[2])
{
	for (uint32_t i = 0; i < routes->count; i++) {
		const struct chain_prefix *prefix = &routes->list[i].prefix;
		unsigned int family = prefix->family == 6;
		if (prefix->length == 0)
			continue;
		counts[family]++;
		if (prefix->length > 24)
			groups[family] += (prefix->length - 24u + 7) / 8;
	}
}

static int create_tables(
	struct router *router, const uint32_t counts[2], const uint32_t groups[2], char *message)
{
	const struct chain_function_context *context = router->context;
	char name[RTE_LPM6_NAMESIZE];
	if (counts[0] > 0) {
		struct rte_lpm_config config = {
			.max_rules = counts[0],
			.number_tbl8s = groups[0] + 1,
		};
		snprintf(name, sizeof(name), "chain_lpm4_%u_%u", context->instance, context->index);
		router->lpm4 = rte_lpm_create(name, SOCKET_ID_ANY, &config);
		if (router->lpm4 == NULL)
			goto fail;
	}
	if (counts[1] > 0) {
		struct rte_lpm6_config config = {
			.max_rules = counts[1],
			.number_tbl8s = groups[1] + LPM6_GROUPS_MIN,
		};
		snprintf(name, sizeof(name), "chain_lpm6_%u_%u", context->instance, context->index);
		router->lpm6 = rte_lpm6_create(name, SOCKET_ID_ANY, &config);
		if (router->lpm6 == NULL)
			goto fail;
	}
	return 0;
fail:
	snprintf(message, CHAIN_MESSAGE_SIZE,
		"router: cannot create the table %s for %u IPv4 and %u IPv6 routes: %s "
		"(expected about 70 MB of DPDK memory for each family)",
		name, counts[0], counts[1], rte_strerror(rte_errno));
	return rte_errno > 0 ? -rte_errno : -ENOMEM;
}

static int fill_tables(struct router *router, const struct chain_routes *routes, char *message)
{
	for (uint32_t i = 0; i < routes->count; i++) {
		const struct chain_route *route = &routes->list[i];
		unsigned int family = route->prefix.family == 6;
		int rc = 0;
		if (route->prefix.length == 0) {
			router->default_hop[family] = route->next_hop;
		} else if (family == 1) {
			rc = lpm6_add(router->lpm6, route);
		} else {
			uint32_t address;
			memcpy(&address, route->prefix.address, sizeof(address));
			rc = rte_lpm_add(router->lpm4, __builtin_bswap32(address),
				route->prefix.length, route->next_hop);
		}
		if (rc != 0) {
			char prefix[CHAIN_PREFIX_TEXT_SIZE];
			chain_prefix_format(&route->prefix, prefix);
			snprintf(message, CHAIN_MESSAGE_SIZE, "router: cannot add %s: %s", prefix,
				rte_strerror(-rc));
			return rc;
		}
	}
	return 0;
}

static void router_destroy(void *function)
{
	struct router *router = function;
	if (!router->borrowed) {
		rte_lpm_free(router->lpm4);
		rte_lpm6_free(router->lpm6);
	}
	base_arena_free(router->context->arena, router, sizeof(*router));
}

static int get_routes(
	struct chain_routes *routes, const struct chain_router_config *config, char *message)
{
	if (config->routes_file != NULL)
		return chain_routes_load(routes, config->routes_file, message);
	int rc = chain_routes_generate(routes, config->routes_count, config->seed);
	if (rc != 0)
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"router: cannot generate %u routes, expected at most %d",
			config->routes_count, CHAIN_ROUTES_MAX);
	return rc;
}

static int create_borrowed(void **out, const struct chain_function_context *context, char *message)
{
	const struct router *lender = context->lender;
	struct router *router = base_arena_alloc(context->arena, sizeof(*router), BASE_CACHE_LINE);
	if (router == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "router: out of memory");
		return -ENOMEM;
	}
	router->context = context;
	router->borrowed = true;
	router->lpm4 = lender->lpm4;
	router->lpm6 = lender->lpm6;
	memcpy(router->default_hop, lender->default_hop, sizeof(router->default_hop));
	*out = router;
	return 0;
}

static int router_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *config, char *message)
{
	struct chain_routes routes;
	uint32_t counts[2] = { 0 }, groups[2] = { 0 };
	if (context->lender != NULL)
		return create_borrowed(out, context, message);
	int rc = get_routes(&routes, &config->router, message);
	if (rc != 0)
		return rc;
	struct router *router = base_arena_alloc(context->arena, sizeof(*router), BASE_CACHE_LINE);
	if (router == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "router: out of memory");
		chain_routes_free(&routes);
		return -ENOMEM;
	}
	router->context = context;
	for (unsigned int i = 0; i < 2; i++)
		router->default_hop[i] = config->router.default_route ? 0 : NEXT_HOP_NONE;
	count_routes(&routes, counts, groups);
	rc = create_tables(router, counts, groups, message);
	if (rc == 0)
		rc = fill_tables(router, &routes, message);
	chain_routes_free(&routes);
	if (rc != 0) {
		router_destroy(router);
		return rc;
	}
	*out = router;
	return 0;
}

/* Takes one hop off an IPv4 header's TTL, which is above 1: RFC 1624 on the 16-bit word that holds
 * it. The word is written whole, since a load of it after a byte store would stall. */
static inline void ip4_forward(uint8_t *header)
{
	uint16_t checksum, old;
	memcpy(&old, header + IP4_TTL_OFFSET, sizeof(old));
	memcpy(&checksum, header + IP4_CHECKSUM_OFFSET, sizeof(checksum));
	uint16_t new = (uint16_t)(old - htons(0x0100));
	checksum = base_checksum_update16(checksum, old, new);
	memcpy(header + IP4_TTL_OFFSET, &new, sizeof(new));
	memcpy(header + IP4_CHECKSUM_OFFSET, &checksum, sizeof(checksum));
}

static inline bool hop_allowed(const struct base_packet *packet)
{
	const uint8_t *header = packet->data + packet->l3_offset;
	bool ip4 = packet->flags & BASE_PACKET_IP4;
	return header[ip4 ? IP4_TTL_OFFSET : IP6_HOP_LIMIT_OFFSET] > 1;
}

static inline bool is_ip(const struct base_packet *packet)
{
	return packet->flags & (BASE_PACKET_IP4 | BASE_PACKET_IP6);
}

/* Of one burst: kept apart, because a store to a packet's bytes could change anything that the
 * compiler knows of a router. */
struct router_counts {
	unsigned int ip4_packets, ip6_packets, bridged_packets, default_packets;
};

static void add_counts(struct router *router, const struct router_counts *counts)
{
	router->ip4_packets += counts->ip4_packets;
	router->ip6_packets += counts->ip6_packets;
	router->bridged_packets += counts->bridged_packets;
	router->default_packets += counts->default_packets;
}

/* Send the packet on, by the table's answer (NEXT_HOP_NONE: none). */
static inline void forward(const struct router *router, struct base_burst *burst,
	unsigned int index, int32_t hop, struct router_counts *counts)
{
	struct base_packet *packet = burst->packets[index];
	bool ip4 = packet->flags & BASE_PACKET_IP4;
	if (hop == NEXT_HOP_NONE) {
		hop = router->default_hop[!ip4];
		if (hop == NEXT_HOP_NONE) {
			base_burst_drop(burst, index, BASE_DROP_ROUTER_NO_ROUTE);
			return;
		}
		counts->default_packets++;
	}
	packet->next_hop = (uint16_t)hop;
	if (BASE_LIKELY(ip4)) {
		counts->ip4_packets++;
		ip4_forward(packet->data + packet->l3_offset);
	} else {
		counts->ip6_packets++;
		packet->data[packet->l3_offset + IP6_HOP_LIMIT_OFFSET]--;
	}
}

static int32_t look_up(const struct router *router, const struct base_packet *packet)
{
	const uint8_t *header = packet->data + packet->l3_offset;
	uint32_t hop;
	if (packet->flags & BASE_PACKET_IP4) {
		uint32_t address;
		memcpy(&address, header + IP4_DESTINATION_OFFSET, sizeof(address));
		if (router->lpm4 == NULL ||
			rte_lpm_lookup(router->lpm4, __builtin_bswap32(address), &hop) != 0)
			return NEXT_HOP_NONE;
		return (int32_t)hop;
	}
	if (router->lpm6 == NULL ||
		lpm6_lookup(router->lpm6, header + IP6_DESTINATION_OFFSET, &hop) != 0)
		return NEXT_HOP_NONE;
	return (int32_t)hop;
}

static void router_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct router *router = function;
	struct router_counts counts = { 0 };
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		if (!is_ip(packet))
			counts.bridged_packets++;
		else if (!hop_allowed(packet))
			base_burst_drop(burst, i, BASE_DROP_ROUTER_TTL);
		else
			forward(router, burst, i, look_up(router, packet), &counts);
	}
	add_counts(router, &counts);
}

/* Index of the lookup for this packet, shared with `last` where the destination is the same. */
static inline uint16_t gather(
	struct router_lookups *lookups, const struct base_packet *packet, uint16_t last)
{
	const uint8_t *header = packet->data + packet->l3_offset;
	if (packet->flags & BASE_PACKET_IP4) {
		uint32_t address;
		memcpy(&address, header + IP4_DESTINATION_OFFSET, sizeof(address));
		address = __builtin_bswap32(address);
		if (last < LOOKUP6_FIRST && lookups->address4[last] == address)
			return last;
		lookups->address4[lookups->count4] = address;
		return (uint16_t)lookups->count4++;
	}
	const uint8_t *address = header + IP6_DESTINATION_OFFSET;
	if (last != NO_LOOKUP && last >= LOOKUP6_FIRST &&
		memcmp(lookups->address6[last - LOOKUP6_FIRST], address, 16) == 0)
		return last;
	memcpy(lookups->address6[lookups->count6], address, 16);
	return (uint16_t)(LOOKUP6_FIRST + lookups->count6++);
}

static inline void gather_run(const struct router *router, struct base_burst *burst,
	const struct base_run *run, struct router_lookups *lookups, struct router_counts *counts)
{
	uint16_t last[2] = { NO_LOOKUP, NO_LOOKUP };
	for (unsigned int i = run->first; i < (unsigned int)run->first + run->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		lookups->lookup[i] = NO_LOOKUP;
		if (BASE_UNLIKELY(!is_ip(packet))) {
			counts->bridged_packets++;
			continue;
		}
		if (BASE_UNLIKELY(!hop_allowed(packet))) {
			base_burst_drop(burst, i, BASE_DROP_ROUTER_TTL);
			continue;
		}
		unsigned int direction = (packet->flags & BASE_PACKET_REVERSED) ? 1 : 0;
		uint16_t lookup = gather(lookups, packet, last[direction]);
		lookups->lookup[i] = lookup;
		if (!router->context->no_runs)
			last[direction] = lookup;
	}
}

static void look_up_bulk(const struct router *router, struct router_lookups *lookups)
{
	uint32_t hops4[BASE_BURST_MAX];
	if (router->lpm4 != NULL && lookups->count4 > 0) {
		rte_lpm_lookup_bulk(router->lpm4, lookups->address4, hops4, lookups->count4);
		for (unsigned int i = 0; i < lookups->count4; i++)
			lookups->hops[i] = (hops4[i] & RTE_LPM_LOOKUP_SUCCESS)
						   ? (int32_t)(hops4[i] & 0xffffff)
						   : NEXT_HOP_NONE;
	} else {
		for (unsigned int i = 0; i < lookups->count4; i++)
			lookups->hops[i] = NEXT_HOP_NONE;
	}
	if (router->lpm6 != NULL && lookups->count6 > 0) {
		lpm6_lookup_bulk(router->lpm6, lookups->address6, lookups->hops + LOOKUP6_FIRST,
			lookups->count6);
	} else {
		for (unsigned int i = 0; i < lookups->count6; i++)
			lookups->hops[LOOKUP6_FIRST + i] = NEXT_HOP_NONE;
	}
}

static void router_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct router *router = function;
	struct router_lookups lookups;
	struct router_counts counts = { 0 };
	(void)now_ns;
	lookups.count4 = 0;
	lookups.count6 = 0;
	for (unsigned int r = 0; r < burst->run_count; r++)
		gather_run(router, burst, &burst->runs[r], &lookups, &counts);
	look_up_bulk(router, &lookups);
	for (unsigned int i = 0; i < burst->count; i++) {
		if (lookups.lookup[i] != NO_LOOKUP)
			forward(router, burst, i, lookups.hops[lookups.lookup[i]], &counts);
	}
	add_counts(router, &counts);
}

static void router_counters(const void *function, struct chain_function_stats *out)
{
	const struct router *router = function;
	const struct chain_counter counters[] = {
		{ "ip4_packets", router->ip4_packets },
		{ "ip6_packets", router->ip6_packets },
		{ "default_route_packets", router->default_packets },
		{ "bridged_packets", router->bridged_packets },
	};
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
}

const struct chain_function_ops chain_router_ops = {
	.name = "router",
	.create = router_create,
	.destroy = router_destroy,
	.process = router_process,
	.process_scalar = router_process_scalar,
	.counters = router_counters,
};
