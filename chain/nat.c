/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source NAPT (RFC 3022) of IPv4 TCP, UDP and ICMP queries.
 *
 * Every connection is taken to be opened from the inside: packets of its original direction leave
 * with an external address and port. Mapping is endpoint-independent (RFC 4787, REQ-1) within a
 * worker; two connections of one inside endpoint that belong to different workers get a port from
 * each worker's share. Filtering is by address and port: a packet to an external endpoint is let
 * in when it belongs to a live connection of the one behind it, and dropped otherwise
 * (BASE_DROP_NAT_UNTRANSLATABLE), which an answer in one burst with the packet that opened its
 * connection cannot yet. Hairpinning is not done. A mapping lives as long as its connections do.
 *
 * Replies come in two ways. Live, they are addressed to the external endpoint: the translate hook,
 * before tracking, puts the inside endpoint in their place. In a capture that was taken inside they
 * are addressed to the inside endpoint already and pass as they are.
 *
 * ICMP errors: one that comes in quotes the translated packet, so quote and destination are put
 * back by the translate hook. One that goes out quotes a reply: the quoted destination becomes the
 * external endpoint and the sender (the host, or a router inside) the external address (RFC 5508,
 * REQ-4 and 5).
 *
 * Passed untranslated and counted: IPv6, other protocols (SCTP among them), packets without a
 * connection, inner headers of tunnels, and fragments whose first one was not seen. The external
 * addresses are not expected as sources of untranslated traffic.
 *
 * With a pool run dry the packet is dropped (BASE_DROP_NAT_NO_PORT) and the next packet of the
 * connection tries again.
 */
#include "chain/digest.h"
#include "chain/function.h"
#include "chain/nat_ports.h"
#include "chain/rewrite.h"

#include <errno.h>
#include <stdio.h>

/* All zeros: not translated (yet). */
struct nat_flow {
	uint32_t mapping_plus_one;
	uint32_t address; /* external, as both stand in the packet */
	uint16_t port;
	uint16_t share; /* of those that this chain has */
	uint16_t unused[2];
};
static_assert(sizeof(struct nat_flow) == 16, "the tracker's block holds several functions");

enum { CLASS_NONE = -1, PREFETCH_AHEAD = 6 };

struct nat {
	const struct chain_function_context *context;
	struct chain_nat_ports **ports; /* by share */
	uint32_t share;                 /* of the worker at work */
	struct chain_nat_config config;
	uint64_t connections;        /* that got an external endpoint */
	uint64_t translated_packets; /* original direction, source rewritten */
	uint64_t reply_packets;      /* reply direction, passed */
	uint64_t restored_packets;   /* by the translate hook */
	uint64_t related_packets;    /* ICMP errors going out, rewritten */
	uint64_t untranslated_packets;
};

static int check_ports(const struct chain_nat_config *config, char *message)
{
	unsigned int ports = config->port_last - config->port_first + 1u;
	if (ports >= config->workers)
		return 0;
	snprintf(message, CHAIN_MESSAGE_SIZE,
		"nat: ports: got %u of them, expected %u or more: one for each share", ports,
		config->workers);
	return -EINVAL;
}

static int check_config(const struct chain_nat_config *config, char *message)
{
	const char *expected = NULL;
	if (config->addresses_count < 1 || config->addresses_count > CHAIN_NAT_ADDRESSES_MAX)
		expected = "1 to 256 addresses";
	else if (config->address == 0 || config->address > UINT32_MAX - config->addresses_count)
		expected = "addresses between 0.0.0.1 and 255.255.255.254";
	else if (config->port_first == 0 || config->port_first > config->port_last)
		expected = "first port at least 1 and not above the last";
	else if (config->workers == 0 || config->worker >= config->workers)
		expected = "worker below the number of workers";
	else if (config->shares == 0 || config->shares > config->workers - config->worker)
		expected = "at least one share, and none beyond the number of workers";
	if (expected == NULL)
		return check_ports(config, message);
	snprintf(message, CHAIN_MESSAGE_SIZE, "nat: expected %s", expected);
	return -EINVAL;
}

static void nat_destroy(void *function)
{
	struct nat *nat = function;
	struct base_arena *arena = nat->context->arena;
	for (uint32_t i = 0; nat->ports != NULL && i < nat->config.shares; i++)
		chain_nat_ports_destroy(nat->ports[i]);
	base_arena_free(arena, nat->ports, nat->config.shares * sizeof(struct chain_nat_ports *));
	base_arena_free(arena, nat, sizeof(*nat));
}

static int create_ports(struct nat *nat)
{
	const struct chain_nat_config *config = &nat->config;
	struct base_arena *arena = nat->context->arena;
	nat->ports = base_arena_alloc(
		arena, config->shares * sizeof(struct chain_nat_ports *), BASE_CACHE_LINE);
	int rc = nat->ports == NULL ? -ENOMEM : 0;
	for (uint32_t i = 0; i < config->shares && rc == 0; i++) {
		const struct chain_nat_ports_config ports = {
			.address = config->address,
			.addresses_count = config->addresses_count,
			.port_first = config->port_first,
			.port_last = config->port_last,
			.worker = (uint16_t)(config->worker + i),
			.workers = config->workers,
			.salt = nat->context->hash.salt[0],
			.arena = arena,
		};
		rc = chain_nat_ports_create(&nat->ports[i], &ports);
	}
	return rc;
}

static void nat_use_share(void *function, uint32_t share)
{
	struct nat *nat = function;
	BASE_DEBUG_ASSERT(share < nat->config.shares);
	nat->share = share;
}

static int nat_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *function_config, char *message)
{
	const struct chain_nat_config *config = &function_config->nat;
	int rc = check_config(config, message);
	if (rc != 0)
		return rc;
	struct nat *nat = base_arena_alloc(context->arena, sizeof(*nat), BASE_CACHE_LINE);
	if (nat == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "nat: out of memory");
		return -ENOMEM;
	}
	nat->context = context;
	nat->config = *config;
	rc = create_ports(nat);
	if (rc != 0) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "nat: no memory for %u addresses' ports",
			config->addresses_count);
		nat_destroy(nat);
		return rc;
	}
	*out = nat;
	return 0;
}

static int class_of(uint8_t protocol)
{
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		return CHAIN_NAT_TCP;
	case BASE_PROTOCOL_UDP:
		return CHAIN_NAT_UDP;
	case BASE_PROTOCOL_ICMP:
		return CHAIN_NAT_ICMP;
	default:
		return CLASS_NONE;
	}
}

static inline uint32_t read_address(const uint8_t *bytes)
{
	uint32_t word;
	memcpy(&word, bytes, 4);
	return __builtin_bswap32(word);
}

/* The key's endpoint that the packet comes from; of an ICMP error, as if the receiver of the quoted
 * packet had sent it. */
static inline unsigned int source_endpoint(const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_REVERSED) ? 1 : 0;
}

/* IPv4 by its own header, of a protocol that has mappings. For errors: of the quoted flow. */
static inline bool is_translatable(const struct base_packet *packet)
{
	const unsigned int wanted = BASE_PACKET_FLOW | BASE_PACKET_IP4;
	return (packet->flags & (wanted | BASE_PACKET_TUNNEL)) == wanted &&
	       packet->key.family == 4 && class_of(packet->key.protocol) != CLASS_NONE;
}

/* Give the connection its external endpoint. False when no port is free. */
static bool flow_open(struct nat *nat, struct nat_flow *flow, const struct base_packet *packet)
{
	unsigned int source = source_endpoint(packet);
	const struct chain_nat_inside inside = {
		.address = read_address(packet->key.address[source]),
		.port = packet->key.port[source],
		.zone = packet->key.zone,
	};
	struct chain_nat_ports *ports = nat->ports[nat->share];
	uint32_t mapping = chain_nat_ports_hold(
		ports, (enum chain_nat_class)class_of(packet->key.protocol), &inside);
	if (mapping == CHAIN_NAT_NONE)
		return false;
	struct chain_nat_outside outside;
	chain_nat_ports_outside(ports, mapping, &outside);
	flow->mapping_plus_one = mapping + 1;
	flow->share = (uint16_t)nat->share;
	flow->address = __builtin_bswap32(outside.address);
	flow->port = __builtin_bswap16(outside.port);
	nat->connections++;
	return true;
}

/* An ICMP error that goes out. */
static void translate_error(const struct nat_flow *flow, struct base_packet *packet)
{
	struct chain_rewrite to = {
		.address = (const uint8_t *)&flow->address,
		.port = __builtin_bswap16(flow->port),
		.with_port = true,
	};
	chain_rewrite_quote(packet, CHAIN_SIDE_DESTINATION, &to);
	to.with_port = false;
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
}

/* The whole decision for one packet, nothing assumed. */
static void process_packet(struct nat *nat, struct base_burst *burst, unsigned int index)
{
	struct base_packet *packet = burst->packets[index];
	if (packet->conn == BASE_CONN_NONE || !is_translatable(packet)) {
		nat->untranslated_packets++;
		return;
	}
	if (packet->conn_flags & BASE_CONN_REPLY) {
		nat->reply_packets++;
		return;
	}
	struct nat_flow *flow = chain_function_user(nat->context, packet->conn);
	if (packet->flags & BASE_PACKET_ICMP_ERROR) {
		if (flow->mapping_plus_one == 0) {
			nat->untranslated_packets++;
			return;
		}
		translate_error(flow, packet);
		nat->related_packets++;
		return;
	}
	bool has_port = chain_rewrite_has_port(packet);
	bool later = (packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0;
	if (!has_port && (flow->mapping_plus_one == 0 || !later)) {
		nat->untranslated_packets++;
		return;
	}
	if (flow->mapping_plus_one == 0 && !flow_open(nat, flow, packet)) {
		base_burst_drop(burst, index, BASE_DROP_NAT_NO_PORT);
		return;
	}
	const struct chain_rewrite to = {
		.address = (const uint8_t *)&flow->address,
		.port = __builtin_bswap16(flow->port),
		.with_port = true,
	};
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
	nat->translated_packets++;
}

static void nat_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++)
		process_packet(function, burst, i);
}

/* Plain TCP and UDP of connections that have a mapping, one look at the connection per run; all
 * else takes the long way. */
static void nat_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct nat *nat = function;
	const struct chain_function_context *context = nat->context;
	uint32_t conn = BASE_CONN_NONE;
	const struct nat_flow *flow = NULL;
	uint64_t reply_packets = 0, translated_packets = 0;
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (!context->no_prefetch && i + PREFETCH_AHEAD < burst->count) {
			const struct base_packet *ahead = burst->packets[i + PREFETCH_AHEAD];
			BASE_PREFETCH_W(ahead->data + ahead->l3_offset);
		}
		if (packet->conn == BASE_CONN_NONE || !chain_rewrite_is_plain(packet)) {
			process_packet(nat, burst, i);
			continue;
		}
		if (packet->conn_flags & BASE_CONN_REPLY) {
			reply_packets++;
			continue;
		}
		if (packet->conn != conn || context->no_runs) {
			conn = packet->conn;
			flow = chain_function_user(context, conn);
			chain_function_prefetch(context, sizeof(*flow), burst, i);
		}
		if (BASE_UNLIKELY(flow->mapping_plus_one == 0)) {
			process_packet(nat, burst, i);
			continue;
		}
		chain_rewrite_plain_source(packet, flow->address, flow->port);
		translated_packets++;
	}
	nat->reply_packets += reply_packets;
	nat->translated_packets += translated_packets;
}

static void nat_on_remove(void *function, uint32_t conn, void *user)
{
	struct nat *nat = function;
	struct nat_flow *flow = chain_function_part(nat->context, user);
	(void)conn;
	if (flow->mapping_plus_one != 0)
		chain_nat_ports_release(nat->ports[flow->share], flow->mapping_plus_one - 1);
	flow->mapping_plus_one = 0;
}

static inline bool is_external(const struct chain_nat_config *config, uint32_t address)
{
	return address - config->address < config->addresses_count;
}

/* Make the key that the packet has with the inside endpoint in place of the external one. Returns
 * whether it is reversed. */
static bool key_inside(const struct base_packet *packet, const struct chain_nat_inside *inside,
	struct base_flow_key *key)
{
	unsigned int source = source_endpoint(packet);
	uint8_t address[16] = { 0 };
	uint32_t word = __builtin_bswap32(inside->address);
	memcpy(address, &word, 4);
	*key = packet->key;
	key->zone = inside->zone;
	/* The identifier of an ICMP query is the port of both ends. */
	uint16_t port = packet->key.protocol == BASE_PROTOCOL_ICMP ? inside->port
								   : packet->key.port[source];
	return base_flow_key_order(key, packet->key.address[source], port, address, inside->port);
}

static bool connection_lives(
	const struct nat *nat, const struct base_flow_key *key, uint32_t hash, uint64_t time_ns)
{
	struct conntrack_conn view;
	uint32_t conn;
	return conntrack_find(nat->context->tracker, key, hash, &conn) == 0 &&
	       conntrack_conn_get(nat->context->tracker, conn, &view) == 0 && time_ns < view.due_ns;
}

/* The frame's own destination, which an ICMP error's key does not tell. */
static uint32_t frame_destination(const struct base_packet *packet)
{
	uint32_t address = 0;
	if (packet->cap_len >= packet->l3_offset + 20u)
		address = read_address(packet->data + packet->l3_offset + 16);
	return address;
}

static bool restore(struct nat *nat, struct base_packet *packet, bool to_us)
{
	unsigned int destination = 1 - source_endpoint(packet);
	const struct chain_nat_outside outside = {
		.address = read_address(packet->key.address[destination]),
		.port = packet->key.port[destination],
	};
	struct chain_nat_inside inside;
	struct base_flow_key key;
	if (!is_translatable(packet) || (packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) ||
		!chain_nat_ports_find(nat->ports[nat->share],
			(enum chain_nat_class)class_of(packet->key.protocol), &outside, &inside))
		return false;
	bool reversed = key_inside(packet, &inside, &key);
	uint32_t hash = base_flow_key_hash(&key, &nat->context->hash);
	if (!connection_lives(nat, &key, hash, packet->time_ns))
		return false;

	uint32_t address = __builtin_bswap32(inside.address);
	struct chain_rewrite to = {
		.address = (const uint8_t *)&address,
		.port = inside.port,
		.with_port = true,
	};
	if (packet->flags & BASE_PACKET_ICMP_ERROR) {
		chain_rewrite_quote(packet, CHAIN_SIDE_SOURCE, &to);
		to.with_port = false;
	}
	if (to_us)
		chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
	packet->key = key;
	packet->hash = hash;
	packet->flags = (uint16_t)(packet->flags & ~BASE_PACKET_REVERSED);
	packet->flags |= reversed ? BASE_PACKET_REVERSED : 0;
	return true;
}

static bool nat_translate(void *function, struct base_packet *packet)
{
	struct nat *nat = function;
	const unsigned int wanted = BASE_PACKET_FLOW | BASE_PACKET_IP4;
	if ((packet->flags & (wanted | BASE_PACKET_TUNNEL)) != wanted)
		return false;
	unsigned int destination = 1 - source_endpoint(packet);
	bool key_to_us = packet->key.family == 4 &&
			 is_external(&nat->config, read_address(packet->key.address[destination]));
	bool to_us = key_to_us;
	if (BASE_UNLIKELY(packet->flags & BASE_PACKET_ICMP_ERROR))
		to_us = is_external(&nat->config, frame_destination(packet));
	if (BASE_LIKELY(!key_to_us && !to_us))
		return false;
	if (key_to_us && restore(nat, packet, to_us)) {
		nat->restored_packets++;
		return true;
	}
	if (to_us)
		packet->drop_reason = BASE_DROP_NAT_UNTRANSLATABLE;
	return false;
}

static void nat_counters(const void *function, struct chain_function_stats *out)
{
	const struct nat *nat = function;
	const struct chain_counter counters[] = {
		{ "connections", nat->connections },
		{ "translated_packets", nat->translated_packets },
		{ "reply_packets", nat->reply_packets },
		{ "restored_packets", nat->restored_packets },
		{ "related_packets", nat->related_packets },
		{ "untranslated_packets", nat->untranslated_packets },
	};
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
}

/* Whether, not to which port: that depends on what other connections of the worker took. */
static uint64_t nat_digest(
	const void *function, const struct conntrack_conn *conn, const void *user)
{
	const struct nat *nat = function;
	const struct nat_flow *flow = chain_function_part_const(nat->context, user);
	return flow->mapping_plus_one != 0 ? chain_digest_conn(conn) : 0;
}

const struct chain_function_ops chain_nat_ops = {
	.name = "nat",
	.user_bytes = sizeof(struct nat_flow),
	.create = nat_create,
	.destroy = nat_destroy,
	.process = nat_process,
	.process_scalar = nat_process_scalar,
	.on_remove = nat_on_remove,
	.translate = nat_translate,
	.use_share = nat_use_share,
	.counters = nat_counters,
	.digest = nat_digest,
};

int chain_nat_worker(const struct chain_nat_config *config, const struct base_packet *packet,
	uint16_t workers, uint16_t *worker)
{
	if (workers == 0 || !is_translatable(packet))
		return -ENOENT;
	unsigned int destination = 1 - source_endpoint(packet);
	uint16_t port = packet->key.port[destination];
	if (!is_external(config, read_address(packet->key.address[destination])) ||
		port < config->port_first || port > config->port_last)
		return -ENOENT;
	*worker = (uint16_t)((port - config->port_first) % workers);
	return 0;
}
