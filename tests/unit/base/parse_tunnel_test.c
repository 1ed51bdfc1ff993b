/* SPDX-License-Identifier: BSD-2-Clause */
/* Tunnels: outer key by default, inner by configuration, and outer again for what merely looks like
 * a tunnel. */
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0x0a000002u
#define LEFT   0xc0a80001u
#define RIGHT  0xc0a80002u

/* What stands between the outer header and the inner packet. */
struct encapsulation {
	uint8_t protocol;
	uint16_t port;
	uint8_t header[24];
	uint8_t header_len;
	enum base_link inner_link;
	uint8_t inner_family; /* 0: both */
};

static const struct encapsulation encapsulations[] = {
	{ .protocol = BASE_PROTOCOL_IPIP, .inner_link = BASE_LINK_RAW, .inner_family = 4 },
	{ .protocol = BASE_PROTOCOL_IP6, .inner_link = BASE_LINK_RAW, .inner_family = 6 },
	{ .protocol = BASE_PROTOCOL_GRE,
		.header = { 0, 0, 0x08, 0 },
		.header_len = 4,
		.inner_link = BASE_LINK_RAW,
		.inner_family = 4 },
	{ .protocol = BASE_PROTOCOL_GRE, /* checksum, key, sequence */
		.header = { 0xb0, 0, 0x86, 0xdd },
		.header_len = 16,
		.inner_link = BASE_LINK_RAW,
		.inner_family = 6 },
	{ .protocol = BASE_PROTOCOL_GRE, /* bridged */
		.header = { 0, 0, 0x65, 0x58 },
		.header_len = 4,
		.inner_link = BASE_LINK_ETHERNET },
	{ .protocol = BASE_PROTOCOL_GRE, /* PPTP with sequence and acknowledgement */
		.header = { 0x30, 0x81, 0x88, 0x0b },
		.header_len = 16,
		.inner_link = BASE_LINK_PPP },
	{ .protocol = BASE_PROTOCOL_UDP,
		.port = 4789,
		.header = { 0x08 },
		.header_len = 8,
		.inner_link = BASE_LINK_ETHERNET },
	{ .protocol = BASE_PROTOCOL_UDP,
		.port = 6081,
		.header = { 0x02, 0, 0x65, 0x58 }, /* 8 bytes of options */
		.header_len = 16,
		.inner_link = BASE_LINK_ETHERNET },
	{ .protocol = BASE_PROTOCOL_UDP,
		.port = 2152,
		.header = { 0x30, 255 },
		.header_len = 8,
		.inner_link = BASE_LINK_RAW },
	{ .protocol = BASE_PROTOCOL_UDP, /* sequence number and one extension header */
		.port = 2152,
		.header = { 0x36, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 1, 2, 3, 0 },
		.header_len = 16,
		.inner_link = BASE_LINK_RAW },
};

static struct packets_spec inner_flow(uint8_t family)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, LEFT, 4000, RIGHT, 80);
	if (family == 6)
		spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 4000, 2, 80);
	spec.payload_len = 20;
	return spec;
}

static struct packets_spec encapsulate(const struct encapsulation *kind, uint8_t outer_family,
	const struct packets_spec *inner, uint8_t *room, size_t room_size)
{
	struct packets_spec packet = *inner;
	packet.link = kind->inner_link;
	memcpy(room, kind->header, kind->header_len);
	size_t len = packets_build(room + kind->header_len, room_size - kind->header_len, &packet);
	struct packets_spec outer = packets_ip4(kind->protocol, CLIENT, 50000, SERVER, kind->port);
	if (outer_family == 6)
		outer = packets_ip6(kind->protocol, 100, 50000, 200, kind->port);
	outer.payload = room;
	outer.payload_len = (uint16_t)(kind->header_len + len);
	return outer;
}

static void open(struct parse_fixture *f, bool inner)
{
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.inner = inner;
	parse_fixture_open_with(f, &config);
}

static void check_all(bool inner)
{
	uint8_t room[512];
	struct parse_fixture f;
	open(&f, inner);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(encapsulations); i++) {
		const struct encapsulation *kind = &encapsulations[i];
		for (uint8_t family = 4; family <= 6; family += 2) {
			if (kind->inner_family != 0 && kind->inner_family != family)
				continue;
			for (uint8_t around = 4; around <= 6; around += 2) {
				bool reversed;
				struct packets_spec flow = inner_flow(family);
				struct packets_spec outer =
					encapsulate(kind, around, &flow, room, sizeof(room));
				struct base_flow_key key =
					parse_fixture_key(inner ? &flow : &outer, &reversed);
				struct base_packet *packet = parse_fixture_flow(&f, &outer);
				assert_memory_equal(&packet->key, &key, sizeof(key));
				assert_int_equal((packet->flags & BASE_PACKET_TUNNEL) != 0, inner);
				if (inner)
					assert_int_equal(packet->payload_len, 20);
			}
		}
	}
	parse_fixture_close(&f);
}

static void tunnels_are_keyed_by_the_outer_header(void **)
{
	check_all(false);
}

static void tunnels_are_keyed_by_the_inner_header_when_asked(void **)
{
	check_all(true);
}

static void what_is_not_a_tunnel_keeps_its_outer_key(void **)
{
	static const struct {
		uint8_t protocol;
		uint16_t port;
		uint8_t header[8];
	} impostors[] = {
		{ BASE_PROTOCOL_UDP, 4789, { 0 } },               /* no VXLAN identifier */
		{ BASE_PROTOCOL_UDP, 6081, { 0x40 } },            /* unknown GENEVE version */
		{ BASE_PROTOCOL_UDP, 2152, { 0x30, 1 } },         /* GTP echo */
		{ BASE_PROTOCOL_UDP, 2152, { 0x50, 255 } },       /* GTP version 2 */
		{ BASE_PROTOCOL_UDP, 2152, { 0x30, 255, 0 } },    /* carries neither IP version */
		{ BASE_PROTOCOL_GRE, 0, { 0, 2, 8, 0 } },         /* unknown GRE version */
		{ BASE_PROTOCOL_GRE, 0, { 0x40, 0, 8, 0 } },      /* source routing */
		{ BASE_PROTOCOL_GRE, 0, { 0, 0, 0x88, 0xcc } },   /* LLDP in GRE */
		{ BASE_PROTOCOL_GRE, 0, { 0x20, 1, 0x88, 0x0b } } /* PPTP without data */
	};
	uint8_t payload[64] = { 0 };
	struct parse_fixture f;
	open(&f, true);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(impostors); i++) {
		bool reversed;
		memcpy(payload, impostors[i].header, 8);
		struct packets_spec spec = packets_ip4(
			impostors[i].protocol, CLIENT, 50000, SERVER, impostors[i].port);
		spec.payload = payload;
		spec.payload_len = sizeof(payload);
		struct base_flow_key key = parse_fixture_key(&spec, &reversed);
		struct base_packet *packet = parse_fixture_flow(&f, &spec);
		assert_memory_equal(&packet->key, &key, sizeof(key));
		assert_int_equal(packet->flags & BASE_PACKET_TUNNEL, 0);
		assert_int_equal(packet->l3_offset, 14);
		assert_true(packet->payload_len != 0);
	}
	parse_fixture_close(&f);
}

static void fragmented_tunnel_stays_with_its_outer_header(void **)
{
	uint8_t room[512], frame[512];
	struct parse_fixture f;
	open(&f, true);
	struct packets_spec flow = inner_flow(4);
	struct packets_spec outer = encapsulate(&encapsulations[0], 4, &flow, room, sizeof(room));
	size_t len = packets_build_fragment(frame, sizeof(frame), &outer, 0, 48);
	struct base_packet first = *parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, 0);
	assert_int_equal(first.key.protocol, BASE_PROTOCOL_IPIP);
	len = packets_build_fragment(
		frame, sizeof(frame), &outer, 48, (uint16_t)(outer.payload_len - 48));
	struct base_packet *later = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, 0);
	assert_memory_equal(&first.key, &later->key, sizeof(first.key));
	parse_fixture_close(&f);
}

static void inner_refusal_refuses_the_packet(void **)
{
	uint8_t room[512], frame[512];
	struct parse_fixture f;
	open(&f, true);
	struct packets_spec flow = inner_flow(4);
	struct packets_spec outer = encapsulate(&encapsulations[0], 4, &flow, room, sizeof(room));
	room[0] = 0x44;
	size_t len = packets_build(frame, sizeof(frame), &outer);
	parse_fixture_refused(&f, BASE_LINK_ETHERNET, frame, len, 0, BASE_DROP_IP4_HEADER_LENGTH);
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tunnels_are_keyed_by_the_outer_header),
		cmocka_unit_test(tunnels_are_keyed_by_the_inner_header_when_asked),
		cmocka_unit_test(what_is_not_a_tunnel_keeps_its_outer_key),
		cmocka_unit_test(fragmented_tunnel_stays_with_its_outer_header),
		cmocka_unit_test(inner_refusal_refuses_the_packet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
