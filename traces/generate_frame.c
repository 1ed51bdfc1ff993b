/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet as bytes: headers are written field by field, the payload is a piece of one block whose
 * checksums are known beforehand, so that a packet costs the same for every length but the copy of
 * what is captured of it. All checksums are right, of packets that the snaplen cuts as well.
 */
#include "traces/generate.h"

#include "base/checksum.h"

enum {
	ETHERNET_BYTES = 14,
	FRAME_BYTES_MIN = 60, /* on Ethernet, without checksum */
	IP4_BYTES = 20,
	IP6_BYTES = 40,
	UDP_BYTES = 8,
	TCP_BYTES = 20,
	ICMP_BYTES = 8,
	ESP_BYTES = 8,
	QUOTE_BYTES = 8, /* of the transport header, RFC 792 */
	TTL_CLIENT = 63,
	TTL_SERVER = 57,
	MS_NS = 1000000,
};

static void put16(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static void put32(uint8_t *bytes, uint32_t value)
{
	value = __builtin_bswap32(value);
	memcpy(bytes, &value, sizeof(value));
}

void traces_gen_frames_init(struct traces_gen_frames *frames, struct base_rng *rng)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < sizeof(frames->payload); i++)
		frames->payload[i] = (uint8_t)base_rng_u64(rng);
	frames->sums[0] = 0;
	for (size_t i = 0; i < sizeof(frames->payload) / 2; i++) {
		uint16_t word;
		memcpy(&word, frames->payload + 2 * i, sizeof(word));
		frames->sums[i + 1] = sum += word;
	}
}

/* Sum of a piece of the payload; offset is even, and so is what stands before it in the packet. */
static uint32_t payload_sum(const struct traces_gen_frames *frames, size_t offset, size_t size)
{
	uint32_t sum = frames->sums[(offset + size) / 2] - frames->sums[offset / 2];
	if (size % 2 != 0)
		sum += base_checksum_add(frames->payload + offset + size - 1, 1, 0);
	return (sum & 0xffff) + (sum >> 16);
}

/* ---- addresses ---- */

struct ends {
	uint32_t address[2]; /* source, destination */
	uint16_t port[2];
	bool ip6;
};

static struct ends ends_of(const struct traces_gen_flow *flow, bool from_server)
{
	struct ends ends = {
		.address = { flow->client, flow->server },
		.port = { flow->client_port, flow->server_port },
		.ip6 = (flow->flags & TRACES_GEN_IP6) != 0,
	};
	if (from_server)
		ends = (struct ends){ { flow->server, flow->client },
			{ flow->server_port, flow->client_port }, ends.ip6 };
	return ends;
}

/* 2001:db8::/32 (RFC 3849); the upper bits tell clients from servers as they do in IPv4. */
static void put_address6(uint8_t *bytes, uint32_t address)
{
	static const uint8_t network[8] = { 0x20, 0x01, 0x0d, 0xb8 };
	memcpy(bytes, network, sizeof(network));
	bytes[5] = (uint8_t)(address >> 24);
	bytes[7] = (uint8_t)(address >> 16);
	put32(bytes + 8, 0);
	put32(bytes + 12, address);
}

/* IP header for `length` bytes behind it; returns its size and adds addresses to *sum. */
static size_t put_ip(uint8_t *ip, const struct ends *ends, uint8_t protocol, size_t length,
	uint8_t ttl, uint32_t *sum)
{
	if (ends->ip6) {
		put32(ip, UINT32_C(0x60000000));
		put16(ip + 4, (uint32_t)length);
		ip[6] = protocol;
		ip[7] = ttl;
		put_address6(ip + 8, ends->address[0]);
		put_address6(ip + 24, ends->address[1]);
		*sum = base_checksum_add(ip + 8, 32, *sum);
		return IP6_BYTES;
	}
	put16(ip, 0x4500);
	put16(ip + 2, (uint32_t)(IP4_BYTES + length));
	put32(ip + 4, 0x4000); /* don't fragment */
	ip[8] = ttl;
	ip[9] = protocol;
	put16(ip + 10, 0);
	put32(ip + 12, ends->address[0]);
	put32(ip + 16, ends->address[1]);
	*sum = base_checksum_add(ip + 12, 8, *sum);
	return IP4_BYTES;
}

static void finish_ip4(uint8_t *ip)
{
	uint16_t checksum = base_checksum_finish(base_checksum_add(ip, IP4_BYTES, 0));
	memcpy(ip + 10, &checksum, sizeof(checksum));
}

/* ---- transport headers ---- */

struct build {
	const struct traces_gen_frames *frames;
	struct traces_gen_flow *flow;
	const struct traces_gen_packet *packet;
	uint64_t time_ns;
	size_t payload_offset; /* in the shared payload */
	struct ends ends;
	uint8_t protocol;
	uint8_t header[TRACES_GEN_HEADER_BYTES_MAX];
};

static size_t put_timestamps(uint8_t *options, const struct build *build)
{
	uint32_t now_ms = (uint32_t)(build->time_ns / MS_NS);
	uint32_t own = build->ends.address[0] * UINT32_C(0x9e3779b1);
	uint32_t other = build->ends.address[1] * UINT32_C(0x9e3779b1);
	bool first = (build->packet->tcp_flags & (BASE_TCP_SYN | BASE_TCP_ACK)) == BASE_TCP_SYN;
	options[0] = 8;
	options[1] = 10;
	put32(options + 2, now_ms + own);
	put32(options + 6, first ? 0 : now_ms + other - 1);
	return 10;
}

/* Options as Linux writes them (RFC 9293, 7323, 2018). */
static size_t put_tcp_options(uint8_t *options, const struct build *build)
{
	bool timestamps = (build->flow->flags & TRACES_GEN_TIMESTAMPS) != 0;
	size_t size = 0;
	if ((build->packet->tcp_flags & BASE_TCP_SYN) != 0) {
		put32(options, UINT32_C(0x02040000) + (build->ends.ip6 ? 1440 : 1460));
		put16(options + 4, 0x0402); /* selective acknowledgements */
		size = 6;
		if (timestamps) {
			size += put_timestamps(options + size, build);
			put32(options + size, UINT32_C(0x01030307)); /* window scale */
			return size + 4;
		}
		put16(options + size, 0x0101);
		put32(options + size + 2, UINT32_C(0x01030307));
		return size + 6;
	}
	if (!timestamps || (build->packet->tcp_flags & BASE_TCP_RST) != 0)
		return 0;
	put16(options, 0x0101);
	return 2 + put_timestamps(options + 2, build);
}

/* Each returns the header's size without checksum, and where that goes in *at (0: none). */
static size_t put_tcp(uint8_t *l4, const struct build *build, size_t *at)
{
	size_t options = put_tcp_options(l4 + TCP_BYTES, build);
	put16(l4, build->ends.port[0]);
	put16(l4 + 2, build->ends.port[1]);
	put32(l4 + 4, build->packet->sequence);
	put32(l4 + 8, build->packet->acknowledgement);
	l4[12] = (uint8_t)((TCP_BYTES + options) / 4 << 4);
	l4[13] = build->packet->tcp_flags;
	put16(l4 + 14, 501);
	put32(l4 + 16, 0);
	*at = 16;
	return TCP_BYTES + options;
}

static size_t put_udp(uint8_t *l4, const struct build *build, size_t *at)
{
	put16(l4, build->ends.port[0]);
	put16(l4 + 2, build->ends.port[1]);
	put16(l4 + 4, UDP_BYTES + (uint32_t)build->packet->payload + build->packet->rest);
	put16(l4 + 6, 0);
	*at = 6;
	return UDP_BYTES;
}

static size_t put_echo(uint8_t *l4, const struct build *build, size_t *at)
{
	bool reply = build->packet->from_server;
	if (build->ends.ip6)
		l4[0] = reply ? 129 : 128;
	else
		l4[0] = reply ? 0 : 8;
	l4[1] = 0;
	put16(l4 + 2, 0);
	put16(l4 + 4, build->flow->client_port);
	put16(l4 + 6, build->packet->sequence);
	*at = 2;
	return ICMP_BYTES;
}

/* Port unreachable, with the packet it answers: the client's first. */
static size_t put_unreachable(uint8_t *l4, const struct build *build, size_t *at)
{
	uint32_t unused = 0;
	struct ends quoted = ends_of(build->flow, false);
	size_t payload = build->flow->partial;
	uint8_t *quote = l4 + ICMP_BYTES;
	l4[0] = quoted.ip6 ? 1 : 3;
	l4[1] = quoted.ip6 ? 4 : 3;
	put16(l4 + 2, 0);
	put32(l4 + 4, 0);
	size_t ip = put_ip(
		quote, &quoted, BASE_PROTOCOL_UDP, UDP_BYTES + payload, TTL_CLIENT - 6, &unused);
	if (!quoted.ip6)
		finish_ip4(quote);
	put16(quote + ip, quoted.port[0]);
	put16(quote + ip + 2, quoted.port[1]);
	put16(quote + ip + 4, (uint32_t)(UDP_BYTES + payload));
	put16(quote + ip + 6, 0);
	*at = 2;
	return ICMP_BYTES + ip + QUOTE_BYTES;
}

static size_t put_esp(uint8_t *l4, const struct build *build, size_t *at)
{
	put32(l4, build->ends.address[0] ^ UINT32_C(0x5a5a5a5a));
	put32(l4 + 4, build->packet->sequence);
	*at = 0;
	return ESP_BYTES;
}

static uint8_t protocol_of(const struct build *build)
{
	switch (build->packet->kind) {
	case TRACES_GEN_SEGMENT:
		return BASE_PROTOCOL_TCP;
	case TRACES_GEN_ICMP_ERROR:
	case TRACES_GEN_ICMP_ECHO:
		return build->ends.ip6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
	case TRACES_GEN_ESP_PACKET:
		return BASE_PROTOCOL_ESP;
	default:
		return BASE_PROTOCOL_UDP;
	}
}

static size_t put_l4(uint8_t *l4, struct build *build, size_t *at)
{
	*at = 0;
	switch (build->packet->kind) {
	case TRACES_GEN_SEGMENT:
		return put_tcp(l4, build, at);
	case TRACES_GEN_DATAGRAM:
	case TRACES_GEN_FRAGMENT_FIRST:
		return put_udp(l4, build, at);
	case TRACES_GEN_ICMP_ERROR:
		return put_unreachable(l4, build, at);
	case TRACES_GEN_ICMP_ECHO:
		return put_echo(l4, build, at);
	case TRACES_GEN_ESP_PACKET:
		return put_esp(l4, build, at);
	default:
		return 0; /* later fragments have none */
	}
}

/* ---- the frame ---- */

static size_t put_link(
	const struct traces_gen_frames *frames, const struct build *build, uint8_t *to)
{
	/* Two routers: their addresses tell the direction. */
	static const uint8_t addresses[2][12] = { { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 },
		{ 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 } };
	size_t size = 12;
	if (frames->raw)
		return 0;
	memcpy(to, addresses[build->packet->from_server], 12);
	if (build->flow->vlan != 0) {
		put16(to + size, 0x8100);
		put16(to + size + 2, build->flow->vlan);
		size += 4;
	}
	put16(to + size, build->ends.ip6 ? 0x86dd : 0x0800);
	return size + 2;
}

static void put_checksum(struct build *build, uint8_t *l4, size_t header, size_t at, uint32_t sum)
{
	const struct traces_gen_packet *packet = build->packet;
	size_t length = header + packet->payload + packet->rest;
	uint8_t tail[4] = { (uint8_t)(length >> 8), (uint8_t)length, 0, build->protocol };
	if (build->protocol == BASE_PROTOCOL_ICMP)
		sum = 0; /* without a pseudo header */
	else
		sum = base_checksum_add(tail, sizeof(tail), sum);
	sum = base_checksum_add(l4, header, sum);
	/* The other fragment's payload is the beginning of the shared one again. */
	sum += payload_sum(build->frames, build->payload_offset, packet->payload);
	sum += payload_sum(build->frames, 0, packet->rest);
	uint16_t checksum = base_checksum_finish(sum);
	if (checksum == 0 && build->protocol == BASE_PROTOCOL_UDP)
		checksum = 0xffff; /* 0 would say "none" (RFC 768) */
	memcpy(l4 + at, &checksum, sizeof(checksum));
}

static void put_fragment(struct build *build, uint8_t *ip)
{
	bool first = build->packet->kind == TRACES_GEN_FRAGMENT_FIRST;
	put16(ip + 6, first ? 0x2000 : (TRACES_GEN_MTU - IP4_BYTES) / 8);
}

static size_t put_headers(struct build *build)
{
	const struct traces_gen_packet *packet = build->packet;
	uint32_t sum = 0;
	size_t at, link = put_link(build->frames, build, build->header);
	uint8_t *ip = build->header + link;
	uint8_t *l4 = ip + (build->ends.ip6 ? IP6_BYTES : IP4_BYTES);
	size_t header = put_l4(l4, build, &at);
	size_t ip_size = put_ip(ip, &build->ends, build->protocol, header + packet->payload,
		packet->from_server ? TTL_SERVER : TTL_CLIENT, &sum);
	if (at != 0)
		put_checksum(build, l4, header, at, sum);
	if (!build->ends.ip6) {
		bool rest = packet->kind == TRACES_GEN_FRAGMENT_REST;
		/* Both fragments of a datagram have one identification. */
		put16(ip + 4, build->flow->ip_id ^ (packet->from_server ? 0x5a5a : 0));
		build->flow->ip_id += packet->kind != TRACES_GEN_FRAGMENT_FIRST;
		if (rest || packet->kind == TRACES_GEN_FRAGMENT_FIRST)
			put_fragment(build, ip);
		finish_ip4(ip);
	}
	return link + ip_size + header;
}

void traces_gen_frame(const struct traces_gen_frames *frames, struct traces_gen_flow *flow,
	const struct traces_gen_packet *packet, uint64_t time_ns, uint8_t *out,
	struct traces_record *record)
{
	struct build build = {
		.frames = frames,
		.flow = flow,
		.packet = packet,
		.time_ns = time_ns,
		.ends = ends_of(flow, packet->from_server),
	};
	/* What a sender sends again is the same bytes. */
	if (packet->kind == TRACES_GEN_SEGMENT)
		build.payload_offset = packet->sequence * 2u % TRACES_GEN_PAYLOAD_SHIFTS;
	build.protocol = protocol_of(&build);
	size_t header = put_headers(&build), size = header + packet->payload;
	size_t wire = size < FRAME_BYTES_MIN && !frames->raw ? FRAME_BYTES_MIN : size;
	size_t captured = wire < frames->snaplen ? wire : frames->snaplen;
	size_t part = header < captured ? header : captured;
	memcpy(out, build.header, part);
	size_t payload = (size < captured ? size : captured) - part;
	memcpy(out + part, frames->payload + build.payload_offset, payload);
	memset(out + part + payload, 0, captured - part - payload);
	record->wire_len = (uint32_t)wire;
	record->cap_len = (uint32_t)captured;
	record->link = frames->raw ? BASE_LINK_RAW : BASE_LINK_ETHERNET;
}
