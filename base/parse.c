/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser object, the fast path for what most packets are, and the burst loop. */
#include "base/checksum.h"
#include "base/flow_key_private.h"
#include "base/parse_private.h"

#include <errno.h>

enum {
	FRAGMENTS_DEFAULT = 4096,
	PREFETCH_AHEAD = 8,
	/* Ethernet, IPv4, UDP: covers the link and IP headers also with one tag, and what follows
	 * is bounded by the total length. */
	FAST_CAPTURED_MIN = 14 + 20 + 8,
};

void base_parse_config_defaults(struct base_parse_config *config)
{
	*config = (struct base_parse_config){ .hash.kind = BASE_HASH_CRC32C,
		.zone_source = BASE_ZONE_NONE,
		.fragments_max = FRAGMENTS_DEFAULT,
		.fragment_timeout_ns = UINT64_C(30) * 1000 * 1000 * 1000 };
}

int base_parser_create(struct base_parser **out, const struct base_parse_config *config)
{
	struct base_parse_config defaults;
	base_parse_config_defaults(&defaults);
	if (config->hash.kind > BASE_HASH_SIPHASH || config->zone_source > BASE_ZONE_VLAN)
		return -EINVAL;
	struct base_parser *parser = calloc(1, sizeof(*parser));
	if (parser == NULL)
		return -ENOMEM;
	parser->config = *config;
	if (config->fragments_max == 0)
		parser->config.fragments_max = defaults.fragments_max;
	if (config->fragment_timeout_ns == 0)
		parser->config.fragment_timeout_ns = defaults.fragment_timeout_ns;
	int error = base_fragment_cache_create(&parser->fragments, parser->config.fragments_max,
		parser->config.fragment_timeout_ns, config->hash.salt[0]);
	if (error != 0) {
		free(parser);
		return error;
	}
	*out = parser;
	return 0;
}

void base_parser_destroy(struct base_parser *parser)
{
	if (parser == NULL)
		return;
	base_fragment_cache_destroy(parser->fragments);
	free(parser);
}

void base_parser_stats(const struct base_parser *parser, struct base_parse_stats *stats)
{
	*stats = parser->stats;
}

static uint16_t sum_with_pseudo_header(const struct base_parse_walk *walk, uint32_t len)
{
	const struct base_parse_out *out = &walk->out;
	const uint8_t *ip = walk->data + out->l3_offset;
	uint32_t sum = 0;
	if (out->protocol != BASE_PROTOCOL_ICMP) {
		uint8_t tail[8] = { 0, 0, (uint8_t)(len >> 8), (uint8_t)len, 0, 0, 0,
			out->protocol };
		tail[1] = (uint8_t)(len >> 16);
		sum = (out->flags & BASE_PACKET_IP6) != 0 ? base_checksum_add(ip + 8, 32, 0)
							  : base_checksum_add(ip + 12, 8, 0);
		sum = base_checksum_add(tail, sizeof(tail), sum);
	}
	return base_checksum_finish(base_checksum_add(walk->data + out->l4_offset, len, sum));
}

/* Only what was captured whole can be verified. IPv6 with extension headers is left out: a routing
 * header changes the address that the sum covers. */
static bool checksums_bad(const struct base_parse_walk *walk)
{
	const struct base_parse_out *out = &walk->out;
	const uint8_t *ip = walk->data + out->l3_offset;
	if ((out->flags & BASE_PACKET_IP4) != 0) {
		uint32_t sum = base_checksum_add(ip, (ip[0] & 15u) * 4, 0);
		if (base_checksum_finish(sum) != 0)
			return true;
	} else if (out->l4_offset != out->l3_offset + 40) {
		return false;
	}
	if ((out->flags & BASE_PACKET_L4) == 0 || (out->flags & BASE_PACKET_FRAGMENT) != 0 ||
		out->ip_end > walk->cap_end)
		return false;
	const uint8_t *l4 = walk->data + out->l4_offset;
	uint32_t len = out->ip_end - out->l4_offset;
	switch (out->protocol) {
	case BASE_PROTOCOL_TCP:
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return sum_with_pseudo_header(walk, len) != 0;
	case BASE_PROTOCOL_UDP:
		if (l4[6] == 0 && l4[7] == 0) /* not computed; IPv6 forbids that (RFC 8200) */
			return (out->flags & BASE_PACKET_IP6) != 0;
		return sum_with_pseudo_header(walk, base_parse_get16(l4 + 4)) != 0;
	default:
		return false;
	}
}

static void write_outputs(const struct base_parse_walk *walk, struct base_packet *packet, bool flow)
{
	struct base_parse_out out = walk->out;
	if (!flow)
		out = (struct base_parse_out){ 0 };
	packet->flags = (uint16_t)((packet->flags & BASE_PACKET_OPERATOR_BYPASS) | out.flags);
	packet->l3_offset = out.l3_offset;
	packet->l4_offset = out.l4_offset;
	packet->payload_offset = out.payload_offset;
	packet->payload_len = out.payload_len;
	packet->quote_offset = out.quote_offset;
	packet->protocol = out.protocol;
	packet->tcp_flags = out.tcp_flags;
	packet->key = out.key;
	packet->hash = flow ? base_hash_key(&out.key, &walk->parser->config.hash) : 0;
}

static void count_result(struct base_parse_walk *walk, enum base_parse_result result)
{
	struct base_parse_stats *stats = &walk->parser->stats;
	stats->packets++;
	switch (result) {
	case BASE_PARSE_FLOW:
		stats->flow_packets++;
		stats->fragments += (walk->out.flags & BASE_PACKET_FRAGMENT) != 0;
		stats->fragments_orphaned += (walk->out.flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0;
		if (walk->parser->config.verify_checksums && checksums_bad(walk))
			stats->checksums_bad++;
		break;
	case BASE_PARSE_NO_FLOW:
		stats->non_ip_packets++;
		break;
	default:
		stats->refused_packets++;
	}
}

enum base_parse_result base_parse_packet_generic(
	struct base_parser *parser, struct base_packet *packet)
{
	uint32_t captured = packet->cap_len;
	uint32_t wire = packet->wire_len > captured ? packet->wire_len : captured;
	struct base_parse_walk walk = { .parser = parser,
		.data = packet->data,
		.time_ns = packet->time_ns,
		.cap_end = captured < BASE_PARSE_CAPTURED_MAX ? captured : BASE_PARSE_CAPTURED_MAX,
		.wire_end = wire };
	if (parser->config.zone_source == BASE_ZONE_NONE)
		walk.zone = parser->config.zone;
	enum base_parse_result result = base_parse_link(&walk, packet->link);
	if (result == BASE_PARSE_MALFORMED && packet->drop_reason == BASE_DROP_NONE)
		packet->drop_reason = walk.refusal;
	parser->stats.snaplen_cut += captured < wire;
	count_result(&walk, result);
	write_outputs(&walk, packet, result == BASE_PARSE_FLOW);
	return result;
}

static inline uint32_t load32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline void store64(uint8_t *bytes, uint64_t value)
{
	memcpy(bytes, &value, sizeof(value));
}

static inline uint16_t load16(const uint8_t *bytes)
{
	uint16_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Write the key of an unfragmented IPv4 packet as five words, hash them in registers, and return
 * the flags for its direction. The endpoint order is that of base_flow_key_order. */
static inline uint16_t write_ip4_key(const struct base_parse_config *config,
	struct base_packet *packet, const uint8_t *ip, const uint8_t *l4, uint16_t zone)
{
	uint32_t addresses[2] = { load32(ip + 12), load32(ip + 16) };
	uint64_t ports[2] = { base_parse_get16(l4), base_parse_get16(l4 + 2) };
	uint64_t source = (uint64_t)__builtin_bswap32(addresses[0]) << 16 | ports[0];
	uint64_t destination = (uint64_t)__builtin_bswap32(addresses[1]) << 16 | ports[1];
	bool reversed = source > destination;
	uint64_t low = reversed ? destination : source, high = reversed ? source : destination;
	uint64_t low_address = __builtin_bswap32((uint32_t)(low >> 16));
	uint64_t high_address = __builtin_bswap32((uint32_t)(high >> 16));
	uint64_t rest = (low & 0xffff) | (high & 0xffff) << 16 | (uint64_t)zone << 32 |
			(uint64_t)ip[9] << 48 | (uint64_t)4 << 56;
	/* Word by word: going through an array makes the compiler load pairs of words that it has
	 * just stored one by one, which the CPU cannot forward (25 cycles each). */
	uint8_t *key = (uint8_t *)&packet->key;
	store64(key, low_address);
	store64(key + 8, 0);
	store64(key + 16, high_address);
	store64(key + 24, 0);
	store64(key + 32, rest);
	if (BASE_LIKELY(config->hash.kind == BASE_HASH_CRC32C)) {
		uint64_t words[5] = { low_address, 0, high_address, 0, rest };
		packet->hash = base_hash_crc32c(words, config->hash.salt[0]);
	} else {
		packet->hash = base_flow_key_hash(&packet->key, &config->hash);
	}
	return reversed ? BASE_PACKET_REVERSED : 0;
}

/* Where the IPv4 header of a plain frame starts, or 0. One tag at most. */
static inline uint32_t fast_l3_offset(
	const struct base_parse_config *config, const struct base_packet *packet, uint16_t *zone)
{
	const uint8_t *data = packet->data;
	uint16_t ethertype = load16(data + 12);
	*zone = config->zone_source == BASE_ZONE_NONE ? config->zone : 0;
	if (BASE_LIKELY(ethertype == 0x0008))
		return 14;
	if (ethertype != 0x0081 || load16(data + 16) != 0x0008)
		return 0;
	if (config->zone_source == BASE_ZONE_VLAN)
		*zone = base_parse_get16(data + 14) & 0xfff;
	return 18;
}

/* Plain Ethernet, IPv4, TCP or UDP, captured whole and right in every length. Anything else, right
 * or wrong, returns false without a trace and takes the generic walk. */
static inline bool parse_fast(struct base_parser *parser, struct base_packet *packet)
{
	const struct base_parse_config *config = &parser->config;
	uint32_t captured = packet->cap_len;
	if (packet->link != BASE_LINK_ETHERNET || captured < FAST_CAPTURED_MIN ||
		captured < packet->wire_len || captured > BASE_PARSE_CAPTURED_MAX ||
		config->inner || config->verify_checksums)
		return false;
	uint16_t zone;
	uint32_t l3 = fast_l3_offset(config, packet, &zone);
	const uint8_t *ip = packet->data + l3, *l4 = ip + 20;
	if (l3 == 0 || ip[0] != 0x45 || (load16(ip + 6) & 0xff3f) != 0)
		return false;
	uint32_t total_len = base_parse_get16(ip + 2);
	uint32_t header_len = 8;
	uint8_t tcp_flags = 0;
	if (total_len > captured - l3 || total_len < 28)
		return false;
	if (ip[9] == BASE_PROTOCOL_TCP) {
		if (total_len < 40)
			return false;
		header_len = (l4[12] >> 4) * 4u;
		if (header_len < 20 || header_len > total_len - 20)
			return false;
		tcp_flags = l4[13];
	} else {
		uint32_t udp_len = base_parse_get16(l4 + 4);
		if (ip[9] != BASE_PROTOCOL_UDP || udp_len < 8 || udp_len > total_len - 20)
			return false;
	}
	uint16_t direction = write_ip4_key(config, packet, ip, l4, zone);
	packet->flags = (uint16_t)((packet->flags & BASE_PACKET_OPERATOR_BYPASS) |
				   BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4 | direction);
	packet->l3_offset = (uint16_t)l3;
	packet->l4_offset = (uint16_t)(l3 + 20);
	packet->payload_offset = (uint16_t)(l3 + 20 + header_len);
	packet->payload_len = (uint16_t)(total_len - 20 - header_len);
	packet->quote_offset = 0;
	packet->protocol = ip[9];
	packet->tcp_flags = tcp_flags;
	return true;
}

enum base_parse_result base_parse_packet(struct base_parser *parser, struct base_packet *packet)
{
	if (BASE_LIKELY(parse_fast(parser, packet))) {
		parser->stats.packets++;
		parser->stats.flow_packets++;
		return BASE_PARSE_FLOW;
	}
	return base_parse_packet_generic(parser, packet);
}

void base_parse_burst(struct base_parser *parser, struct base_burst *burst, bool single_runs)
{
	unsigned int count = burst->count, fast = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (i + PREFETCH_AHEAD < count) {
			struct base_packet *ahead = burst->packets[i + PREFETCH_AHEAD];
			BASE_PREFETCH_W(&ahead->key);
			BASE_PREFETCH(ahead->data);
		}
		if (BASE_UNLIKELY(packet->drop_reason != BASE_DROP_NONE))
			continue;
		if (BASE_LIKELY(parse_fast(parser, packet)))
			fast++;
		else if (base_parse_packet_generic(parser, packet) == BASE_PARSE_MALFORMED)
			burst->drop_count++;
	}
	parser->stats.packets += fast;
	parser->stats.flow_packets += fast;
	base_burst_mark_runs(burst, single_runs);
}
