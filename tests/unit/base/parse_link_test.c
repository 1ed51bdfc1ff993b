/* SPDX-License-Identifier: BSD-2-Clause */
/* Link types, tags and labels: one flow, whatever it is wrapped in. */
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0x0a000002u

static struct packets_spec syn(void)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
	spec.tcp_flags = BASE_TCP_SYN;
	return spec;
}

/* Key of the same packet without any wrapping. */
static void assert_same_flow(struct parse_fixture *f, const struct packets_spec *spec)
{
	bool reversed;
	struct base_flow_key key = parse_fixture_key(spec, &reversed);
	struct base_packet *packet = parse_fixture_flow(f, spec);
	assert_memory_equal(&packet->key, &key, sizeof(key));
	assert_int_equal(packet->l3_offset, packets_l3_offset(spec));
}

static void every_link_type_yields_one_flow(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (unsigned int link = 0; link < BASE_LINKS_COUNT; link++) {
		struct packets_spec four = syn();
		struct packets_spec six = packets_ip6(BASE_PROTOCOL_TCP, 1, 4000, 2, 80);
		four.link = six.link = link;
		assert_same_flow(&f, &four);
		assert_same_flow(&f, &six);
	}
	parse_fixture_close(&f);
}

static void loopback_family_is_read_in_both_byte_orders(void **)
{
	static const uint8_t ip6_families[] = { 10, 24, 28, 30 };
	struct parse_fixture f;
	uint8_t frame[256];
	parse_fixture_open(&f);
	for (unsigned int link = BASE_LINK_NULL; link <= BASE_LINK_LOOP; link++) {
		struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
		spec.link = link;
		size_t len = packets_build(frame, sizeof(frame), &spec);
		for (size_t i = 0; i < BASE_ARRAY_COUNT(ip6_families); i++) {
			memcpy(frame, (uint8_t[4]){ 0, 0, 0, ip6_families[i] }, 4);
			parse_fixture_frame(&f, link, frame, len, 0);
			assert_int_equal(f.result, BASE_PARSE_FLOW);
			memcpy(frame, (uint8_t[4]){ ip6_families[i], 0, 0, 0 }, 4);
			parse_fixture_frame(&f, link, frame, len, 0);
			assert_int_equal(f.result, BASE_PARSE_FLOW);
		}
		frame[0] = 7;
		parse_fixture_frame(&f, link, frame, len, 0);
		assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	}
	parse_fixture_close(&f);
}

static void ppp_is_read_with_and_without_compression(void **)
{
	struct parse_fixture f;
	uint8_t ip[256], frame[260];
	parse_fixture_open(&f);
	struct packets_spec spec = syn();
	spec.link = BASE_LINK_RAW;
	size_t len = packets_build(ip, sizeof(ip), &spec);
	static const struct {
		uint8_t bytes[4];
		size_t len;
	} prefixes[] = { { { 0x00, 0x21 }, 2 }, { { 0x21 }, 1 }, { { 0xff, 0x03, 0x00, 0x21 }, 4 },
		{ { 0xff, 0x03, 0x21 }, 3 }, { { 0x0f, 0x00, 0x08, 0x00 }, 4 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(prefixes); i++) {
		memcpy(frame, prefixes[i].bytes, prefixes[i].len);
		memcpy(frame + prefixes[i].len, ip, len);
		struct base_packet *packet = parse_fixture_frame(
			&f, BASE_LINK_PPP_HDLC, frame, prefixes[i].len + len, 0);
		assert_int_equal(f.result, BASE_PARSE_FLOW);
		assert_int_equal(packet->l3_offset, prefixes[i].len);
	}
	static const uint8_t control[] = { 0xff, 0x03, 0xc0, 0x21, 1, 1 };
	parse_fixture_frame(&f, BASE_LINK_PPP, control, sizeof(control), 0);
	assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	parse_fixture_close(&f);
}

static void any_stack_of_tags_is_stepped_over(void **)
{
	static const struct packets_tag stacks[][4] = {
		{ { 0x8100, 5 } },
		{ { 0x8100, 0xe000 } }, /* priority only: VID 0 */
		{ { 0x9100, 5 }, { 0x8100, 6 } },
		{ { 0x8100, 1106 }, { 0x8100, 50 } },
		{ { 0x88a8, 1 }, { 0x9200, 2 }, { 0x8100, 3 } },
		{ { 0x8847, 100 } },
		{ { 0x8100, 9 }, { 0x8847, 16 }, { 0x8847, 17 } },
	};
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(stacks); i++) {
		struct packets_spec spec = syn();
		memcpy(spec.tags, stacks[i], sizeof(stacks[i]));
		while (spec.tags[spec.tags_count].tpid != 0)
			spec.tags_count++;
		assert_same_flow(&f, &spec);
		spec.pppoe = spec.tags[spec.tags_count - 1].tpid != 0x8847;
		assert_same_flow(&f, &spec);
	}
	parse_fixture_close(&f);
}

static void vlan_joins_the_key_only_when_asked(void **)
{
	struct base_parse_config config;
	struct parse_fixture f;
	base_parse_config_defaults(&config);
	config.zone_source = BASE_ZONE_VLAN;
	config.zone = 77; /* not used */
	parse_fixture_open_with(&f, &config);
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP, BASE_PROTOCOL_ESP };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec spec = packets_ip4(protocols[i], CLIENT, 1, SERVER, 2);
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 0);
		spec.tags_count = 1;
		spec.tags[0] = (struct packets_tag){ 0x8100, 0xe00a };
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 10);
		uint32_t hash = f.pool.packets[0].hash;
		spec.tags[0].id = 20;
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 20);
		assert_int_not_equal(hash, f.pool.packets[0].hash);
		spec.tags_count = 3; /* the outermost that is not 0 */
		spec.tags[0] = (struct packets_tag){ 0x88a8, 0xe000 };
		spec.tags[1] = (struct packets_tag){ 0x8100, 30 };
		spec.tags[2] = (struct packets_tag){ 0x8100, 40 };
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 30);
	}
	parse_fixture_close(&f);
}

static void constant_zone_enters_every_key(void **)
{
	struct base_parse_config config;
	struct parse_fixture f;
	base_parse_config_defaults(&config);
	config.zone = 9;
	parse_fixture_open_with(&f, &config);
	struct packets_spec spec = syn();
	assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 9);
	spec.tags_count = 1;
	spec.tags[0] = (struct packets_tag){ 0x8100, 5 };
	assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 9);
	spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
	assert_int_equal(parse_fixture_flow(&f, &spec)->key.zone, 9);
	parse_fixture_close(&f);
}

static void snap_carries_ip(void **)
{
	static const uint8_t snap[8] = { 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00 };
	struct parse_fixture f;
	uint8_t ip[256], frame[300] = { 0 };
	parse_fixture_open(&f);
	struct packets_spec spec = syn();
	spec.link = BASE_LINK_RAW;
	size_t len = packets_build(ip, sizeof(ip), &spec);
	frame[13] = (uint8_t)(len + 8);
	memcpy(frame + 14, snap, 8);
	memcpy(frame + 22, ip, len);
	struct base_packet *packet =
		parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 22 + len, 0);
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(packet->l3_offset, 22);
	frame[17] = 1; /* another organisation */
	parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 22 + len, 0);
	assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	frame[14] = frame[15] = 0x42; /* spanning tree */
	parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 22 + len, 0);
	assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	parse_fixture_close(&f);
}

static void what_is_not_ip_passes_without_a_flow(void **)
{
	static const uint16_t types[] = { 0x0806, 0x88cc, 0x8863, 0x88e5, 0x22f0, 0xffff, 0x05dd };
	uint8_t frame[64] = { 0 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types); i++) {
		frame[12] = (uint8_t)(types[i] >> 8);
		frame[13] = (uint8_t)types[i];
		struct base_packet *packet =
			parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, sizeof(frame), 0);
		assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
		assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
		assert_int_equal(packet->flags, 0);
	}
	static const uint8_t netlink[32] = { [2] = 3, [3] = 0x38, [14] = 0x08, [16] = 0x45 };
	parse_fixture_frame(&f, BASE_LINK_SLL, netlink, sizeof(netlink), 0);
	assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	assert_int_equal(parse_fixture_stats(&f).non_ip_packets, BASE_ARRAY_COUNT(types) + 1);
	parse_fixture_close(&f);
}

static void pseudowire_under_a_label_has_no_flow(void **)
{
	static const uint8_t frame[40] = { [12] = 0x88, [13] = 0x47, [16] = 1, [17] = 64 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, sizeof(frame), 0);
	assert_int_equal(f.result, BASE_PARSE_NO_FLOW);
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_link_type_yields_one_flow),
		cmocka_unit_test(loopback_family_is_read_in_both_byte_orders),
		cmocka_unit_test(ppp_is_read_with_and_without_compression),
		cmocka_unit_test(any_stack_of_tags_is_stepped_over),
		cmocka_unit_test(vlan_joins_the_key_only_when_asked),
		cmocka_unit_test(constant_zone_enters_every_key),
		cmocka_unit_test(snap_carries_ip),
		cmocka_unit_test(what_is_not_ip_passes_without_a_flow),
		cmocka_unit_test(pseudowire_under_a_label_has_no_flow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
