/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as frames. One input is a configuration byte and then records: link type, two bytes of
 * captured length, one byte that adds to the wire length, and the frame. Both parsers see the same
 * frames; each frame is an allocation of its own size.
 */
#include "base/parse_private.h"
#include "base/remap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD_HEADER = 4, RECORDS_MAX = 64 };

static struct base_packet make_packet(
	const uint8_t *record, uint32_t cap_len, uint8_t *frame, uint64_t number)
{
	struct base_packet packet = { .data = frame,
		.time_ns = number * UINT64_C(7000000000),
		.seq = number,
		.cap_len = cap_len,
		.wire_len = cap_len + record[3] * 8u,
		.link = record[0] % (BASE_LINKS_COUNT + 1),
		.drop_reason = BASE_DROP_NONE };
	return packet;
}

static void check_flow(const struct base_packet *packet)
{
	uint32_t wire = packet->wire_len;
	uint16_t flags = packet->flags;
	BASE_ASSERT((flags & BASE_PACKET_FLOW) != 0);
	BASE_ASSERT(((flags & BASE_PACKET_IP4) != 0) != ((flags & BASE_PACKET_IP6) != 0));
	uint32_t ip_len = (flags & BASE_PACKET_IP4) != 0 ? 20 : 40;
	BASE_ASSERT(packet->l3_offset + ip_len <= packet->cap_len);
	BASE_ASSERT(packet->data[packet->l3_offset] >> 4 == (ip_len == 20 ? 4 : 6));
	BASE_ASSERT(packet->payload_offset == UINT16_MAX ||
		    packet->payload_offset + packet->payload_len <= wire);
	BASE_ASSERT(packet->key.family == 4 || packet->key.family == 6);
	BASE_ASSERT(memcmp(packet->key.address[0], packet->key.address[1], 16) <= 0);
	if ((flags & BASE_PACKET_L4) != 0) {
		BASE_ASSERT((flags & BASE_PACKET_FRAGMENT_LATER) == 0);
		BASE_ASSERT(packet->l4_offset >= packet->l3_offset + ip_len);
		BASE_ASSERT(packet->l4_offset + 8u <= packet->cap_len);
	}
	if ((flags & BASE_PACKET_ICMP_ERROR) != 0)
		BASE_ASSERT(packet->quote_offset + ip_len <= packet->cap_len);
	else
		BASE_ASSERT(packet->quote_offset == 0);
	if ((flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0)
		BASE_ASSERT((flags & BASE_PACKET_FRAGMENT_LATER) != 0 && packet->key.port[0] == 0 &&
			    packet->key.port[1] == 0);
}

static void check_result(const struct base_packet *packet, enum base_parse_result result)
{
	if (result == BASE_PARSE_MALFORMED) {
		BASE_ASSERT(packet->drop_reason != BASE_DROP_NONE &&
			    packet->drop_reason <= BASE_DROP_PARSE_LAST);
	} else {
		BASE_ASSERT(packet->drop_reason == BASE_DROP_NONE);
	}
	if (result == BASE_PARSE_FLOW)
		check_flow(packet);
	else
		BASE_ASSERT((packet->flags | packet->hash | packet->key.family) == 0);
}

static void check_record(struct base_parser *fast, struct base_parser *generic,
	const uint8_t *record, uint32_t cap_len, uint64_t number)
{
	uint8_t *frame = malloc(cap_len != 0 ? cap_len : 1);
	BASE_ASSERT(frame != NULL);
	if (cap_len != 0)
		memcpy(frame, record + RECORD_HEADER, cap_len);
	struct base_packet a = make_packet(record, cap_len, frame, number), b = a;
	enum base_parse_result result = base_parse_packet(fast, &a);
	BASE_ASSERT(base_parse_packet_generic(generic, &b) == result);
	BASE_ASSERT(memcmp(&a, &b, 64) == 0 && memcmp(&a.key, &b.key, sizeof(a.key)) == 0);
	check_result(&a, result);
	if (result == BASE_PARSE_FLOW) {
		/* Other addresses, the same structure. */
		base_remap_packet(&a, (uint32_t)number + 1);
		BASE_ASSERT(base_parse_packet_generic(generic, &b) == BASE_PARSE_FLOW);
		BASE_ASSERT(b.l3_offset == a.l3_offset && b.payload_len == a.payload_len &&
			    b.l4_offset == a.l4_offset && b.quote_offset == a.quote_offset);
		/* Keep the two fragment caches alike. */
		(void)base_parse_packet(fast, &a);
	}
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.inner = (data[0] & 1) != 0;
	config.zone_source = (data[0] & 2) != 0 ? BASE_ZONE_VLAN : BASE_ZONE_NONE;
	config.verify_checksums = (data[0] & 4) != 0;
	config.hash.kind = (data[0] & 8) != 0 ? BASE_HASH_SIPHASH : BASE_HASH_CRC32C;
	config.fragments_max = 16;
	struct base_parser *fast, *generic;
	BASE_ASSERT(base_parser_create(&fast, &config) == 0);
	BASE_ASSERT(base_parser_create(&generic, &config) == 0);
	size_t at = 1;
	for (uint64_t number = 0; number < RECORDS_MAX && size - at >= RECORD_HEADER; number++) {
		const uint8_t *record = data + at;
		size_t room = size - at - RECORD_HEADER;
		uint32_t cap_len = (uint32_t)record[1] << 8 | record[2];
		if (cap_len > room)
			cap_len = (uint32_t)room;
		check_record(fast, generic, record, cap_len, number);
		at += RECORD_HEADER + cap_len;
	}
	struct base_parse_stats a, b;
	base_parser_stats(fast, &a);
	base_parser_stats(generic, &b);
	BASE_ASSERT(memcmp(&a, &b, sizeof(a)) == 0);
	BASE_ASSERT(a.packets == a.flow_packets + a.non_ip_packets + a.refused_packets);
	base_parser_destroy(fast);
	base_parser_destroy(generic);
	return 0;
}
