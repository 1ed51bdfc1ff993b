/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser object, the fast path for what most packets are, and the burst loop. */
#include "base/checksum.h"
#include "base/flow_key_private.h"
#include "base/parse_private.h"

#include <errno.h>

enum {
	FRAGMENTS_DEFAULT = 4096,
	PREFETCH_AHEAD = 8,
	FAST_IP_MIN = 20 + 8, /* IPv4 and UDP: no header of the short path is shorter */
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
	packet->flags = (uint16_t)((packet->flags & BASE_PACKET_OPERATOR) | out.flags);
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
		if (walk->parser->config.verify_checksums && checksums_bad(walk)) {
			stats->checksums_bad++;
			walk->out.flags |= BASE_PACKET_CHECKSUM_BAD;
		}
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

static inline uint32_t load_be32(const uint8_t *bytes)
{
	return __builtin_bswap32(load32(bytes));
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
	uint32_t zone;
	bool zone_is_vlan;
	/* FAST_IP_MIN and as many lengths above it; 0: only the generic walk does what is asked */
	uint32_t captured_range;
};

static struct fast_config fast_config_of(const struct base_parse_config *config)
{
	bool vlan = config->zone_source == BASE_ZONE_VLAN;
	bool usable = !config->inner && !config->verify_checksums;
	return (struct fast_config){ .hash = config->hash,
		.zone = vlan ? 0 : config->zone,
		.zone_is_vlan = vlan,
		.captured_range = usable ? BASE_PARSE_CAPTURED_MAX - FAST_IP_MIN + 1 : 0 };
}

/* A plain packet on its way through the short path. */
struct fast_walk {
	const uint8_t *ip;
	uint32_t cap_room, wire_room; /* bytes from ip on: readable; on the wire, never fewer */
	uint32_t zone;
};

/*
 * Word by word, and the array never in memory: a copy of the whole makes the compiler store the
 * words and load them in pairs, which the CPU cannot forward from two stores (25 cycles a pair).
 */
static inline void store_key(struct base_packet *packet, const uint64_t words[5])
{
	uint8_t *key = (uint8_t *)&packet->key;
	for (unsigned int i = 0; i < 5; i++)
		memcpy(key + 8 * i, &words[i], 8);
}

/* flags, l3_offset, l4_offset and payload_offset stand in one word, and no sum carries over. */
static inline void store_offsets(struct base_packet *packet, uint32_t flags, uint32_t l3,
	uint32_t ip_len, uint32_t header_len)
{
	static_assert(offsetof(struct base_packet, l3_offset) ==
			      offsetof(struct base_packet, flags) + 2 &&
		      offsetof(struct base_packet, l4_offset) ==
			      offsetof(struct base_packet, flags) + 4 &&
		      offsetof(struct base_packet, payload_offset) ==
			      offsetof(struct base_packet, flags) + 6);
	uint64_t word = flags + l3 * UINT64_C(0x0001000100010000) +
			ip_len * UINT64_C(0x0001000100000000) + ((uint64_t)header_len << 48);
	memcpy((uint8_t *)packet + offsetof(struct base_packet, flags), &word, sizeof(word));
}

static inline uint32_t hash_words(
	const struct fast_config *config, const struct base_packet *packet, const uint64_t words[5])
{
	if (BASE_LIKELY(config->hash.kind == BASE_HASH_CRC32C))
		return base_hash_crc32c(words, config->hash.salt[0]);
	return base_flow_key_hash(&packet->key, &config->hash);
}

static inline uint32_t rotate32(uint32_t value, unsigned int bits)
{
	return value << (bits & 31) | value >> (-bits & 31);
}

/* The key's last word. Ports stand as source, destination in host order; `reversed` swaps them. */
static inline uint64_t last_word(const struct fast_walk *walk, uint8_t family, uint8_t protocol,
	uint32_t ports, bool reversed)
{
	/* Port 0 belongs in the low half: the pair as it is read is already the swapped one. */
	return rotate32(ports, reversed ? 0 : 16) | (uint64_t)walk->zone << 32 |
	       (uint64_t)protocol << 48 | (uint64_t)family << 56;
}

/*
 * Write the key as five words, hash them in registers, and return whether the packet is reversed.
 * Same order as base_flow_key_order: numbers in host order compare like bytes in network order, and
 * swapping the endpoints of IPv4 is a rotation of both pairs by half.
 */
static inline bool write_ip4_key(const struct fast_config *config, const struct fast_walk *walk,
	uint8_t protocol, struct base_packet *packet)
{
	uint64_t addresses = load64(walk->ip + 12), ordered = __builtin_bswap64(addresses);
	uint64_t swapped = ordered << 32 | ordered >> 32;
	uint32_t ports = load_be32(walk->ip + 20);
	uint32_t ports_swapped = ports << 16 | ports >> 16;
	bool reversed = (ordered > swapped) | ((ordered == swapped) & (ports > ports_swapped));
	addresses = base_rotate_left(addresses, reversed ? 32 : 0);
	uint64_t words[5] = { (uint32_t)addresses, 0, addresses >> 32, 0,
		last_word(walk, 4, protocol, ports, reversed) };
	store_key(packet, words);
	packet->hash = hash_words(config, packet, words);
	return reversed;
}

static inline bool write_ip6_key(const struct fast_config *config, const struct fast_walk *walk,
	uint8_t protocol, struct base_packet *packet)
{
	uint64_t source0 = load64(walk->ip + 8), source1 = load64(walk->ip + 16);
	uint64_t destination0 = load64(walk->ip + 24), destination1 = load64(walk->ip + 32);
	uint32_t ports = load_be32(walk->ip + 40);
	bool high_equal = source0 == destination0, equal = source1 == destination1;
	uint64_t from = __builtin_bswap64(high_equal ? source1 : source0);
	uint64_t to = __builtin_bswap64(high_equal ? destination1 : destination0);
	bool ports_above = ports > (ports << 16 | ports >> 16);
	bool reversed = (from > to) | (high_equal & equal & ports_above);
	uint64_t words[5] = { reversed ? destination0 : source0, reversed ? destination1 : source1,
		reversed ? source0 : destination0, reversed ? source1 : destination1,
		last_word(walk, 6, protocol, ports, reversed) };
	store_key(packet, words);
	packet->hash = hash_words(config, packet, words);
	return reversed;
}

/*
 * The transport header behind an IP header of ip_len bytes (20 or 40, known when this is inlined),
 * with data_len bytes of the datagram from there on, all within the wire; and all results.
 * TCP and UDP share the code without a branch: they come in no order that a predictor could learn.
 */
static inline __attribute__((always_inline)) bool finish_fast(const struct fast_config *config,
	const struct fast_walk *walk, uint32_t ip_len, uint8_t protocol, uint32_t data_len,
	struct base_packet *packet)
{
	uint32_t tcp = protocol == BASE_PROTOCOL_TCP, header_min = 8 + 12 * tcp;
	if (((tcp == 0) & (protocol != BASE_PROTOCOL_UDP)) || walk->cap_room < ip_len + header_min)
		return false;
	/* TCP's data offset and flags, or UDP's length. Either length must lie between the fixed
	 * header and what the datagram holds. */
	uint32_t word = load_be32(walk->ip + ip_len + 4 + 8 * tcp), tcp_mask = 0 - tcp;
	uint32_t offset_len = word >> 28 << 2;
	uint32_t declared_len = tcp != 0 ? offset_len : word >> 16;
	if (declared_len < header_min || declared_len > data_len)
		return false;
	uint32_t header_len = tcp != 0 ? offset_len : 8;
	bool reversed = ip_len == 20 ? write_ip4_key(config, walk, protocol, packet)
				     : write_ip6_key(config, walk, protocol, packet);
	uint32_t flags = (packet->flags & BASE_PACKET_OPERATOR) |
			 (ip_len == 20 ? BASE_PACKET_IP4 : BASE_PACKET_IP6) | BASE_PACKET_FLOW |
			 BASE_PACKET_L4 | (uint32_t)reversed * BASE_PACKET_REVERSED;
	store_offsets(packet, flags, (uint32_t)(walk->ip - packet->data), ip_len, header_len);
	packet->payload_len = (uint16_t)(data_len - header_len);
	packet->quote_offset = 0;
	packet->protocol = protocol;
	packet->tcp_flags = (uint8_t)(word >> 16 & tcp_mask);
	return true;
}

static inline bool parse_fast_ip4(
	const struct fast_config *config, const struct fast_walk *walk, struct base_packet *packet)
{
	uint64_t start = load64(walk->ip); /* version and length, ..., total length, id, fragment */
	uint32_t total_len = __builtin_bswap32((uint32_t)start) & 0xffff;
	if ((start & UINT64_C(0xff3f0000000000ff)) != 0x45 || total_len - 20 > walk->wire_room - 20)
		return false;
	return finish_fast(config, walk, 20, walk->ip[9], total_len - 20, packet);
}

static inline bool parse_fast_ip6(
	const struct fast_config *config, const struct fast_walk *walk, struct base_packet *packet)
{
	if (walk->cap_room < 48) /* the header, and UDP's */
		return false;
	uint32_t word = load_be32(walk->ip + 4); /* payload length, next header, hop limit */
	uint32_t payload_len = word >> 16;
	if (walk->ip[0] >> 4 != 6 || payload_len > walk->wire_room - 40)
		return false;
	return finish_fast(config, walk, 40, (uint8_t)(word >> 8), payload_len, packet);
}

/*
 * Ethernet with one tag at most, or bare IP; no options or extensions; TCP or UDP, captured at
 * least to the end of the fixed header and right in every length. Anything else, right or wrong,
 * returns false without a trace and takes the generic walk.
 */
static inline bool parse_fast(const struct fast_config *config, struct base_packet *packet)
{
	const uint8_t *data = packet->data;
	uint32_t captured = packet->cap_len, wire = packet->wire_len;
	wire = wire > captured ? wire : captured;
	if (captured - FAST_IP_MIN >= config->captured_range)
		return false;
	struct fast_walk walk = { .zone = config->zone };
	uint32_t l3 = 14;
	uint16_t ethertype = load16(data + 12);
	if (packet->link != BASE_LINK_ETHERNET) {
		if (packet->link != BASE_LINK_RAW)
			return false;
		ethertype = data[0] >> 4 == 4 ? 0x0008 : 0xdd86; /* which checks the version */
		l3 = 0;
	} else if (ethertype == 0x0081) { /* as it reads on this side of the network */
		ethertype = load16(data + 16);
		l3 = 18;
		if (config->zone_is_vlan)
			walk.zone = base_parse_get16(data + 14) & 0xfff;
	}
	walk.ip = data + l3;
	walk.cap_room = captured - l3;
	walk.wire_room = wire - l3;
	if (walk.cap_room < FAST_IP_MIN)
		return false;
	if (BASE_LIKELY(ethertype == 0x0008))
		return parse_fast_ip4(config, &walk, packet);
	return ethertype == 0xdd86 && parse_fast_ip6(config, &walk, packet);
}

enum base_parse_result base_parse_packet(struct base_parser *parser, struct base_packet *packet)
{
	struct fast_config config = fast_config_of(&parser->config);
	if (BASE_LIKELY(parse_fast(&config, packet))) {
		parser->stats.packets++;
		parser->stats.flow_packets++;
		parser->stats.snaplen_cut += packet->cap_len < packet->wire_len;
		return BASE_PARSE_FLOW;
	}
	return base_parse_packet_generic(parser, packet);
}

void base_parser_learn(struct base_parser *parser, struct base_packet *packet)
{
	const struct base_parse_stats stats = parser->stats;
	(void)base_parse_packet_generic(parser, packet);
	parser->stats = stats;
}

void base_parse_burst(struct base_parser *parser, struct base_burst *burst, bool single_runs)
{
	const struct fast_config config = fast_config_of(&parser->config);
	unsigned int count = burst->count, fast = 0, cut = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (i + PREFETCH_AHEAD < count) {
			struct base_packet *ahead = burst->packets[i + PREFETCH_AHEAD];
			BASE_PREFETCH_W(&ahead->key);
			BASE_PREFETCH(ahead->data);
		}
		if (BASE_UNLIKELY(packet->drop_reason != BASE_DROP_NONE))
			continue;
		if (BASE_LIKELY(parse_fast(&config, packet))) {
			fast++;
			cut += packet->cap_len < packet->wire_len;
		} else if (base_parse_packet_generic(parser, packet) == BASE_PARSE_MALFORMED) {
			burst->drop_count++;
		}
	}
	parser->stats.packets += fast;
	parser->stats.flow_packets += fast;
	parser->stats.snaplen_cut += cut;
	base_burst_mark_runs(burst, single_runs);
}
