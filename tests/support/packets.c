/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/packets.h"

#include "base/checksum.h"

struct writer {
	uint8_t *bytes;
	size_t size, at;
};

static uint8_t *take(struct writer *w, size_t count)
{
	BASE_ASSERT(count <= w->size - w->at);
	uint8_t *bytes = w->bytes + w->at;
	memset(bytes, 0, count);
	w->at += count;
	return bytes;
}

static void put16(uint8_t *bytes, unsigned int value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static void put32(uint8_t *bytes, uint32_t value)
{
	put16(bytes, value >> 16);
	put16(bytes + 2, value & 0xffff);
}

static unsigned int get16(const uint8_t *bytes)
{
	return (unsigned int)bytes[0] << 8 | bytes[1];
}

static struct packets_spec endpoints(
	uint8_t family, uint8_t protocol, uint16_t source_port, uint16_t destination_port)
{
	struct packets_spec spec = { .family = family,
		.protocol = protocol,
		.source_port = source_port,
		.destination_port = destination_port };
	if (protocol == BASE_PROTOCOL_TCP)
		spec.tcp_flags = BASE_TCP_ACK;
	if (protocol == BASE_PROTOCOL_ICMP)
		spec.icmp_type = 8;
	if (protocol == BASE_PROTOCOL_ICMP6)
		spec.icmp_type = 128;
	return spec;
}

struct packets_spec packets_ip4(uint8_t protocol, uint32_t source, uint16_t source_port,
	uint32_t destination, uint16_t destination_port)
{
	struct packets_spec spec = endpoints(4, protocol, source_port, destination_port);
	put32(spec.source, source);
	put32(spec.destination, destination);
	return spec;
}

struct packets_spec packets_ip6(uint8_t protocol, uint32_t source, uint16_t source_port,
	uint32_t destination, uint16_t destination_port)
{
	static const uint8_t prefix[4] = { 0x20, 0x01, 0x0d, 0xb8 };
	struct packets_spec spec = endpoints(6, protocol, source_port, destination_port);
	memcpy(spec.source, prefix, 4);
	memcpy(spec.destination, prefix, 4);
	put32(spec.source + 12, source);
	put32(spec.destination + 12, destination);
	return spec;
}

struct packets_spec packets_reverse(const struct packets_spec *spec)
{
	struct packets_spec reverse = *spec;
	memcpy(reverse.source, spec->destination, 16);
	memcpy(reverse.destination, spec->source, 16);
	if (spec->protocol == BASE_PROTOCOL_ICMP) {
		reverse.icmp_type = spec->icmp_type == 8 ? 0 : 8;
	} else if (spec->protocol == BASE_PROTOCOL_ICMP6) {
		reverse.icmp_type = spec->icmp_type == 128 ? 129 : 128;
	} else {
		reverse.source_port = spec->destination_port;
		reverse.destination_port = spec->source_port;
	}
	return reverse;
}

static unsigned int ethertype_of(const struct packets_spec *spec)
{
	return spec->family == 6 ? 0x86dd : 0x0800;
}

static void write_ethernet(struct writer *w, const struct packets_spec *spec)
{
	static const uint8_t addresses[12] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 };
	memcpy(take(w, 12), addresses, 12);
	bool mpls = false;
	for (unsigned int i = 0; i < spec->tags_count; i++) {
		const struct packets_tag *tag = &spec->tags[i];
		if (tag->tpid != 0x8847) {
			put16(take(w, 2), tag->tpid);
			put16(take(w, 2), tag->id);
			continue;
		}
		if (!mpls)
			put16(take(w, 2), 0x8847);
		mpls = true;
		bool last = i + 1 == spec->tags_count;
		put32(take(w, 4), (uint32_t)tag->id << 12 | (uint32_t)last << 8 | 64);
	}
	if (spec->pppoe)
		put16(take(w, 2), 0x8864);
	else if (!mpls)
		put16(take(w, 2), ethertype_of(spec));
}

static void write_link(struct writer *w, const struct packets_spec *spec)
{
	uint32_t bsd_family = spec->family == 6 ? 24 : 2;
	unsigned int ppp_protocol = spec->family == 6 ? 0x57 : 0x21;
	uint8_t *bytes;
	switch (spec->link) {
	case BASE_LINK_ETHERNET:
		write_ethernet(w, spec);
		break;
	case BASE_LINK_NULL: /* the capturing host's byte order: ours */
		memcpy(take(w, 4), &bsd_family, 4);
		break;
	case BASE_LINK_LOOP:
		put32(take(w, 4), bsd_family);
		break;
	case BASE_LINK_SLL:
		put16(take(w, 16) + 14, ethertype_of(spec));
		break;
	case BASE_LINK_SLL2:
		put16(take(w, 20), ethertype_of(spec));
		break;
	case BASE_LINK_PPP:
		put16(take(w, 2), ppp_protocol);
		break;
	case BASE_LINK_PPP_HDLC:
		bytes = take(w, 4);
		put16(bytes, 0xff03);
		put16(bytes + 2, ppp_protocol);
		break;
	case BASE_LINK_C_HDLC:
		bytes = take(w, 4);
		put16(bytes, 0x0f00);
		put16(bytes + 2, ethertype_of(spec));
		break;
	default:
		BASE_ASSERT(spec->link == BASE_LINK_RAW);
	}
}

static void write_ip4(struct writer *w, const struct packets_spec *spec)
{
	BASE_ASSERT(spec->ip_options_len % 4 == 0 && spec->ip_options_len <= 40);
	uint8_t *ip = take(w, 20u + spec->ip_options_len);
	ip[0] = (uint8_t)(0x45 + spec->ip_options_len / 4);
	put16(ip + 4, spec->ip_id);
	ip[8] = spec->ttl != 0 ? spec->ttl : 64;
	ip[9] = spec->protocol;
	memcpy(ip + 12, spec->source, 4);
	memcpy(ip + 16, spec->destination, 4);
	memset(ip + 20, 1, spec->ip_options_len);
}

static void write_ip6(struct writer *w, const struct packets_spec *spec)
{
	uint8_t *ip = take(w, 40);
	ip[0] = 0x60;
	ip[6] = spec->ip6_headers_len != 0 ? spec->ip6_first_header : spec->protocol;
	ip[7] = spec->ttl != 0 ? spec->ttl : 64;
	memcpy(ip + 8, spec->source, 16);
	memcpy(ip + 24, spec->destination, 16);
	if (spec->ip6_headers_len != 0)
		memcpy(take(w, spec->ip6_headers_len), spec->ip6_headers, spec->ip6_headers_len);
}

static void write_tcp(struct writer *w, const struct packets_spec *spec)
{
	BASE_ASSERT(spec->tcp_options_len % 4 == 0 && spec->tcp_options_len <= 40);
	uint8_t *tcp = take(w, 20u + spec->tcp_options_len);
	put16(tcp, spec->source_port);
	put16(tcp + 2, spec->destination_port);
	put32(tcp + 4, spec->seq);
	put32(tcp + 8, spec->ack);
	tcp[12] = (uint8_t)((5 + spec->tcp_options_len / 4) << 4);
	tcp[13] = spec->tcp_flags;
	put16(tcp + 14, spec->tcp_window != 0 ? spec->tcp_window : 65535);
	if (spec->tcp_options_len != 0)
		memcpy(tcp + 20, spec->tcp_options, spec->tcp_options_len);
}

static void write_l4(struct writer *w, const struct packets_spec *spec)
{
	uint8_t *header;
	switch (spec->protocol) {
	case BASE_PROTOCOL_TCP:
		write_tcp(w, spec);
		break;
	case BASE_PROTOCOL_UDP:
		header = take(w, 8);
		put16(header, spec->source_port);
		put16(header + 2, spec->destination_port);
		put16(header + 4, 8u + spec->payload_len);
		break;
	case BASE_PROTOCOL_SCTP: /* common header; its CRC is left zero */
		header = take(w, 12);
		put16(header, spec->source_port);
		put16(header + 2, spec->destination_port);
		put32(header + 4, spec->seq);
		break;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		header = take(w, 8);
		header[0] = spec->icmp_type;
		header[1] = spec->icmp_code;
		put16(header + 4, spec->source_port);
		put16(header + 6, spec->destination_port);
		break;
	default: /* everything else is all payload */
		break;
	}
}

/* Offset of the checksum in a transport header, or 0 when it has none that is computed here. */
static size_t checksum_offset(uint8_t protocol)
{
	switch (protocol) {
	case BASE_PROTOCOL_TCP:
		return 16;
	case BASE_PROTOCOL_UDP:
		return 6;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return 2;
	default:
		return 0;
	}
}

static uint16_t l4_checksum(const uint8_t *ip, uint8_t protocol, const uint8_t *l4, size_t size)
{
	uint32_t sum = 0;
	if (protocol != BASE_PROTOCOL_ICMP) {
		uint8_t tail[8] = { 0 };
		put32(tail, (uint32_t)size);
		tail[7] = protocol;
		sum = ip[0] >> 4 == 6 ? base_checksum_add(ip + 8, 32, 0)
				      : base_checksum_add(ip + 12, 8, 0);
		sum = base_checksum_add(tail, 8, sum);
	}
	return base_checksum_finish(base_checksum_add(l4, size, sum));
}

static void fix_l4(const uint8_t *ip, uint8_t protocol, uint8_t *l4, size_t size)
{
	size_t offset = checksum_offset(protocol);
	if (offset == 0 || size < offset + 2)
		return;
	memset(l4 + offset, 0, 2);
	uint16_t checksum = l4_checksum(ip, protocol, l4, size);
	if (protocol == BASE_PROTOCOL_UDP && checksum == 0)
		checksum = 0xffff;
	memcpy(l4 + offset, &checksum, 2);
}

static void fix_ip4(uint8_t *ip)
{
	memset(ip + 10, 0, 2);
	uint16_t checksum = base_checksum_finish(base_checksum_add(ip, (ip[0] & 15u) * 4, 0));
	memcpy(ip + 10, &checksum, 2);
}

void packets_fix_checksums(uint8_t *ip, size_t size)
{
	bool ip6 = ip[0] >> 4 == 6;
	size_t header_len = ip6 ? 40 : (ip[0] & 15u) * 4;
	size_t end = ip6 ? 40 + get16(ip + 4) : get16(ip + 2);
	BASE_ASSERT(header_len <= end && end <= size);
	if (!ip6)
		fix_ip4(ip);
	fix_l4(ip, ip[ip6 ? 6 : 9], ip + header_len, end - header_len);
}

bool packets_checksums_valid(const uint8_t *ip, size_t size)
{
	bool ip6 = ip[0] >> 4 == 6;
	size_t header_len = ip6 ? 40 : (ip[0] & 15u) * 4;
	size_t end = ip6 ? 40 + get16(ip + 4) : get16(ip + 2);
	if (header_len > end || end > size)
		return false;
	if (!ip6 && base_checksum_finish(base_checksum_add(ip, header_len, 0)) != 0)
		return false;
	uint8_t protocol = ip[ip6 ? 6 : 9];
	size_t offset = checksum_offset(protocol);
	if (offset == 0 || end - header_len < offset + 2)
		return true;
	const uint8_t *l4 = ip + header_len;
	if (protocol == BASE_PROTOCOL_UDP && get16(l4 + 6) == 0)
		return !ip6;
	return l4_checksum(ip, protocol, l4, end - header_len) == 0;
}

static void write_payload(struct writer *w, const struct packets_spec *spec)
{
	uint8_t *payload = take(w, spec->payload_len);
	if (spec->payload != NULL) {
		memcpy(payload, spec->payload, spec->payload_len);
		return;
	}
	for (size_t i = 0; i < spec->payload_len; i++)
		payload[i] = (uint8_t)(i * 7 + 13);
}

size_t packets_build(uint8_t *frame, size_t frame_size, const struct packets_spec *spec)
{
	struct writer w = { .bytes = frame, .size = frame_size };
	write_link(&w, spec);
	uint8_t *pppoe = spec->pppoe ? take(&w, 8) : NULL;
	uint8_t *ip = w.bytes + w.at;
	bool ip6 = spec->family == 6;
	if (ip6)
		write_ip6(&w, spec);
	else
		write_ip4(&w, spec);
	uint8_t *l4 = w.bytes + w.at;
	write_l4(&w, spec);
	write_payload(&w, spec);

	uint8_t *end = w.bytes + w.at;
	BASE_ASSERT(end - ip <= UINT16_MAX);
	if (pppoe != NULL) {
		pppoe[0] = 0x11;
		put16(pppoe + 2, 1);
		put16(pppoe + 4, (unsigned int)(end - ip) + 2);
		put16(pppoe + 6, ip6 ? 0x57 : 0x21);
	}
	put16(ip + (ip6 ? 4 : 2), (unsigned int)(end - ip) - (ip6 ? 40 : 0));
	if (!ip6)
		fix_ip4(ip);
	fix_l4(ip, spec->protocol, l4, (size_t)(end - l4));
	if (spec->protocol == BASE_PROTOCOL_UDP && spec->udp_no_checksum)
		memset(l4 + 6, 0, 2);
	if (w.at < spec->frame_min)
		take(&w, spec->frame_min - w.at);
	return w.at;
}

size_t packets_l3_offset(const struct packets_spec *spec)
{
	uint8_t bytes[512];
	struct writer w = { .bytes = bytes, .size = sizeof(bytes) };
	write_link(&w, spec);
	return w.at + (spec->pppoe ? 8 : 0);
}

size_t packets_build_icmp_error(uint8_t *frame, size_t frame_size, const struct packets_spec *error,
	const struct packets_spec *quoted, size_t quote_len)
{
	uint8_t *quote = malloc(PACKETS_FRAME_MAX);
	BASE_ASSERT(quote != NULL);
	struct packets_spec inner = *quoted, outer = *error;
	inner.link = BASE_LINK_RAW;
	inner.frame_min = 0;
	size_t len = packets_build(quote, PACKETS_FRAME_MAX, &inner);
	outer.protocol = error->family == 6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
	outer.payload = quote;
	outer.payload_len = (uint16_t)(len < quote_len ? len : quote_len);
	len = packets_build(frame, frame_size, &outer);
	free(quote);
	return len;
}

size_t packets_build_fragment(uint8_t *frame, size_t frame_size, const struct packets_spec *spec,
	uint16_t offset, uint16_t size)
{
	struct packets_spec whole = *spec;
	bool ip6 = spec->family == 6;
	whole.frame_min = 0;
	size_t len = packets_build(frame, frame_size, &whole);
	size_t l3 = packets_l3_offset(spec);
	size_t data = l3 + (ip6 ? 40u + spec->ip6_headers_len : 20u + spec->ip_options_len);
	size_t data_len = len - data;
	BASE_ASSERT(offset % 8 == 0 && offset < data_len && size <= data_len - offset);
	bool more = (size_t)offset + size < data_len;
	uint8_t *ip = frame + l3;
	if (!ip6) {
		memmove(frame + data, frame + data + offset, size);
		put16(ip + 2, (unsigned int)(data - l3) + size);
		put16(ip + 6, (unsigned int)more << 13 | offset / 8);
		fix_ip4(ip);
		return data + size;
	}
	/* The fragment header goes last: extension headers before it are per fragment. */
	BASE_ASSERT(spec->ip6_headers_len == 0 && data + 8 + size <= frame_size);
	memmove(frame + data + 8, frame + data + offset, size);
	memset(frame + data, 0, 8);
	frame[data] = spec->protocol;
	put16(frame + data + 2, offset | more);
	put32(frame + data + 4, spec->ip_id);
	ip[6] = 44;
	put16(ip + 4, 8u + size);
	return data + 8 + size;
}

void packets_pool_init(struct packets_pool *pool, uint32_t count)
{
	*pool = (struct packets_pool){ .count = count };
	pool->packets = aligned_alloc(64, (size_t)count * sizeof(*pool->packets));
	BASE_ASSERT(pool->packets != NULL);
	memset(pool->packets, 0, (size_t)count * sizeof(*pool->packets));
}

void packets_pool_release(struct packets_pool *pool)
{
	for (uint32_t i = 0; i < pool->count; i++)
		free(pool->packets[i].data);
	free(pool->packets);
	*pool = (struct packets_pool){ 0 };
}

struct base_packet *packets_pool_set(struct packets_pool *pool, uint32_t index, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len, uint64_t time_ns)
{
	BASE_ASSERT(index < pool->count);
	struct base_packet *packet = &pool->packets[index];
	uint8_t *data = malloc(cap_len != 0 ? cap_len : 1);
	BASE_ASSERT(data != NULL);
	if (cap_len != 0)
		memcpy(data, frame, cap_len);
	free(packet->data);
	memset(packet, 0, sizeof(*packet));
	base_packet_reset(packet);
	packet->data = data;
	packet->cap_len = (uint32_t)cap_len;
	packet->wire_len = (uint32_t)(wire_len != 0 ? wire_len : cap_len);
	packet->link = (uint8_t)link;
	packet->time_ns = time_ns;
	packet->seq = pool->seq_next++;
	return packet;
}

struct base_packet *packets_pool_build(struct packets_pool *pool, uint32_t index,
	const struct packets_spec *spec, uint64_t time_ns)
{
	uint8_t *frame = malloc(PACKETS_FRAME_MAX);
	BASE_ASSERT(frame != NULL);
	size_t len = packets_build(frame, PACKETS_FRAME_MAX, spec);
	struct base_packet *packet =
		packets_pool_set(pool, index, spec->link, frame, len, 0, time_ns);
	free(frame);
	return packet;
}
