/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser object, the fast path for what most packets are, and the burst loop. */
#include "base/checksum.h"
#include "base/flow_key_private.h"
#include "base/parse_private.h"

#include <errno.h>

enum {
	FRAGMENTS_DEFAULT = 4096,
	PREFETCH_AHEAD = 8,
	/* Ethernet, IPv4, TCP without options: the short path may read this much at once. */
	FAST_CAPTURED_MIN = 14 + 20 + 20,
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

static inline uint16_t load16(const uint8_t *bytes)
{
	uint16_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline uint32_t load32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline uint64_t load64(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* What the short path needs of the configuration, in registers for a whole burst. */
struct fast_config {
	struct base_hash_config hash;
	uint16_t zone;
	bool zone_is_vlan;
	bool usable; /* nothing is asked that only the generic walk does */
};

static struct fast_config fast_config_of(const struct base_parse_config *config)
{
	bool vlan = config->zone_source == BASE_ZONE_VLAN;
	return (struct fast_config){ .hash = config->hash,
		.zone = vlan ? 0 : config->zone,
		.zone_is_vlan = vlan,
		.usable = !config->inner && !config->verify_checksums };
}

/*
 * Write the key of an unfragmented IPv4 packet as five words, hash them in registers, and return
 * the flag for its direction. Same order as base_flow_key_order: numbers in host order compare like
 * bytes in network order, and swapping the endpoints is a rotation of both pairs by half.
 */
static inline uint16_t write_ip4_key(const struct fast_config *config, struct base_packet *packet,
	const uint8_t *ip, const uint8_t *l4, uint16_t zone)
{
	uint64_t addresses = load64(ip + 12), ordered = __builtin_bswap64(addresses);
	uint64_t swapped = ordered << 32 | ordered >> 32;
	uint32_t ports = __builtin_bswap32(load32(l4)), ports_swapped = ports << 16 | ports >> 16;
	bool reversed = (ordered > swapped) | ((ordered == swapped) & (ports > ports_swapped));
	addresses = reversed ? addresses << 32 | addresses >> 32 : addresses;
	ports = reversed ? ports : ports_swapped; /* port 0 stands in the low half */
	uint64_t words[5] = { (uint32_t)addresses, 0, addresses >> 32, 0,
		(uint64_t)ports | (uint64_t)zone << 32 | (uint64_t)ip[9] << 48 |
			(uint64_t)4 << 56 };
	memcpy(&packet->key, words, sizeof(words));
	packet->hash = BASE_LIKELY(config->hash.kind == BASE_HASH_CRC32C)
			       ? base_hash_crc32c(words, config->hash.salt[0])
			       : base_hash_siphash(words, config->hash.salt);
	return reversed ? BASE_PACKET_REVERSED : 0;
}

/* Where the IPv4 header of a plain frame starts, or 0. One tag at most. */
static inline uint32_t fast_l3_offset(
	const struct fast_config *config, const uint8_t *data, uint16_t *zone)
{
	uint16_t ethertype = load16(data + 12);
	*zone = config->zone;
	if (BASE_LIKELY(ethertype == 0x0008))
		return 14;
	if (ethertype != 0x0081 || load16(data + 16) != 0x0008)
		return 0;
	if (config->zone_is_vlan)
		*zone = base_parse_get16(data + 14) & 0xfff;
	return 18;
}

/*
 * Plain Ethernet, IPv4, TCP or UDP, captured whole and right in every length. Anything else, right
 * or wrong, returns false without a trace and takes the generic walk. TCP and UDP share the code
 * without a branch: they come in no order that a predictor could learn.
 */
static inline bool parse_fast(const struct fast_config *config, struct base_packet *packet)
{
	uint32_t captured = packet->cap_len;
	if (packet->link != BASE_LINK_ETHERNET || captured < FAST_CAPTURED_MIN ||
		captured < packet->wire_len || captured > BASE_PARSE_CAPTURED_MAX ||
		!config->usable)
		return false;
	uint16_t zone;
	uint32_t l3 = fast_l3_offset(config, packet->data, &zone);
	const uint8_t *ip = packet->data + l3, *l4 = ip + 20;
	uint64_t start = load64(ip); /* version and length, service, total length, id, fragment */
	if (l3 == 0 || captured < l3 + 40 || (start & UINT64_C(0xff3f0000000000ff)) != 0x45)
		return false;
	bool tcp = ip[9] == BASE_PROTOCOL_TCP;
	uint32_t header_min = tcp ? 20 : 8;
	uint32_t total_len = __builtin_bswap16((uint16_t)(start >> 16));
	if ((!tcp && ip[9] != BASE_PROTOCOL_UDP) || total_len > captured - l3 ||
		total_len < 20 + header_min)
		return false;
	/* Either length must lie between the fixed header and what the datagram holds. */
	uint32_t offset_len = (l4[12] >> 4) * 4u, udp_len = base_parse_get16(l4 + 4);
	uint32_t declared_len = tcp ? offset_len : udp_len, data_len = total_len - 20;
	if (declared_len - header_min > data_len - header_min)
		return false;
	uint32_t header_len = tcp ? offset_len : 8;
	uint16_t direction = write_ip4_key(config, packet, ip, l4, zone);
	packet->flags = (uint16_t)((packet->flags & BASE_PACKET_OPERATOR_BYPASS) |
				   BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4 | direction);
	packet->l3_offset = (uint16_t)l3;
	packet->l4_offset = (uint16_t)(l3 + 20);
	packet->payload_offset = (uint16_t)(l3 + 20 + header_len);
	packet->payload_len = (uint16_t)(data_len - header_len);
	packet->quote_offset = 0;
	packet->protocol = ip[9];
	packet->tcp_flags = tcp ? l4[13] : 0;
	return true;
}

enum base_parse_result base_parse_packet(struct base_parser *parser, struct base_packet *packet)
{
	struct fast_config config = fast_config_of(&parser->config);
	if (BASE_LIKELY(parse_fast(&config, packet))) {
		parser->stats.packets++;
		parser->stats.flow_packets++;
		return BASE_PARSE_FLOW;
	}
	return base_parse_packet_generic(parser, packet);
}

void base_parse_burst(struct base_parser *parser, struct base_burst *burst, bool single_runs)
{
	const struct fast_config config = fast_config_of(&parser->config);
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
		if (BASE_LIKELY(parse_fast(&config, packet)))
			fast++;
		else if (base_parse_packet_generic(parser, packet) == BASE_PARSE_MALFORMED)
			burst->drop_count++;
	}
	parser->stats.packets += fast;
	parser->stats.flow_packets += fast;
	base_burst_mark_runs(burst, single_runs);
}
