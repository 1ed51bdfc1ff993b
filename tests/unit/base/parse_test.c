/* SPDX-License-Identifier: BSD-2-Clause */
/* What every protocol is keyed by, and where its headers are found. */
#include "tests/unit/base/parse_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0x0a000002u

static struct packets_spec tcp(void)
{
	return packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
}

static void assert_key(struct parse_fixture *f, const struct packets_spec *spec)
{
	bool reversed;
	struct base_flow_key key = parse_fixture_key(spec, &reversed);
	struct base_packet *packet = parse_fixture_flow(f, spec);
	assert_memory_equal(&packet->key, &key, sizeof(key));
	assert_int_equal((packet->flags & BASE_PACKET_REVERSED) != 0, reversed);
	assert_int_equal(packet->protocol, spec->protocol);
	assert_int_equal(packet->l3_offset, packets_l3_offset(spec));
}

static void tcp_packet_is_keyed_by_ports(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = tcp();
	spec.tcp_flags = BASE_TCP_SYN | BASE_TCP_ACK;
	spec.payload_len = 10;
	assert_key(&f, &spec);
	struct base_packet *packet = &f.pool.packets[0];
	assert_int_equal(packet->flags, BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4);
	assert_int_equal(packet->l4_offset, 34);
	assert_int_equal(packet->payload_offset, 54);
	assert_int_equal(packet->payload_len, 10);
	assert_int_equal(packet->tcp_flags, BASE_TCP_SYN | BASE_TCP_ACK);
	parse_fixture_close(&f);
}

static void both_directions_share_key_and_hash(void **)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_ICMP, BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP, 200 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec there = packets_ip4(protocols[i], CLIENT, 9, SERVER, 7);
		there.payload_len = 40;
		struct packets_spec back = packets_reverse(&there);
		assert_key(&f, &there);
		struct base_packet first = f.pool.packets[0];
		assert_key(&f, &back);
		assert_memory_equal(&first.key, &f.pool.packets[0].key, sizeof(first.key));
		assert_int_equal(first.hash, f.pool.packets[0].hash);
		assert_int_equal(first.flags & BASE_PACKET_REVERSED, 0);
		assert_true((f.pool.packets[0].flags & BASE_PACKET_REVERSED) != 0);
	}
	parse_fixture_close(&f);
}

static void equal_addresses_are_ordered_by_port(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 9000, CLIENT, 53);
	assert_key(&f, &spec);
	assert_true((f.pool.packets[0].flags & BASE_PACKET_REVERSED) != 0);
	spec = packets_reverse(&spec);
	assert_key(&f, &spec);
	assert_int_equal(f.pool.packets[0].flags & BASE_PACKET_REVERSED, 0);
	parse_fixture_close(&f);
}

static void self_connection_is_never_reversed(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 80, CLIENT, 80);
	assert_key(&f, &spec);
	assert_int_equal(f.pool.packets[0].flags & BASE_PACKET_REVERSED, 0);
	parse_fixture_close(&f);
}

static void ip6_packets_of_every_protocol_are_keyed(void **)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_ICMP6, BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP, 59 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec spec = packets_ip6(protocols[i], 1, 1000, 2, 2000);
		assert_key(&f, &spec);
		spec = packets_reverse(&spec);
		assert_key(&f, &spec);
		assert_true((f.pool.packets[0].flags & BASE_PACKET_IP6) != 0);
	}
	parse_fixture_close(&f);
}

static void ethernet_padding_is_not_payload(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = tcp();
	spec.frame_min = 60;
	assert_int_equal(parse_fixture_flow(&f, &spec)->payload_len, 0);
	spec.protocol = BASE_PROTOCOL_UDP;
	spec.payload_len = 3;
	assert_int_equal(parse_fixture_flow(&f, &spec)->payload_len, 3);
	struct packets_spec none = packets_ip6(59, 1, 0, 2, 0);
	none.frame_min = 60;
	assert_int_equal(parse_fixture_flow(&f, &none)->payload_len, 0);
	parse_fixture_close(&f);
}

static void options_are_stepped_over(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	static const uint8_t options[12] = { 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 };
	struct packets_spec spec = tcp();
	spec.ip_options_len = 40;
	spec.tcp_options = options;
	spec.tcp_options_len = sizeof(options);
	spec.payload_len = 5;
	assert_key(&f, &spec);
	assert_int_equal(f.pool.packets[0].l4_offset, 14 + 60);
	assert_int_equal(f.pool.packets[0].payload_offset, 14 + 60 + 32);
	assert_int_equal(f.pool.packets[0].payload_len, 5);
	parse_fixture_close(&f);
}

/* Hop-by-hop, routing, destination options, then TCP; and an authentication header. */
static void extension_headers_are_walked(void **)
{
	static const uint8_t chain[] = { 43, 0, 1, 4, 0, 0, 0, 0, /* hop-by-hop */
		60, 2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
		2, /* routing */
		6, 0, 1, 4, 0, 0, 0, 0 };
	static const uint8_t authentication[] = { 6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5,
		6, 7, 8, 9, 10, 11, 12 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 1000, 2, 80);
	spec.ip6_headers = chain;
	spec.ip6_headers_len = sizeof(chain);
	spec.ip6_first_header = 0;
	assert_key(&f, &spec);
	assert_int_equal(f.pool.packets[0].l4_offset, 14 + 40 + sizeof(chain));
	spec.ip6_headers = authentication;
	spec.ip6_headers_len = sizeof(authentication);
	spec.ip6_first_header = BASE_PROTOCOL_AH;
	assert_key(&f, &spec);
	parse_fixture_close(&f);
}

static void authentication_header_is_walked_in_ip4_too(void **)
{
	uint8_t inner[24 + 20] = { 6, 4 };
	inner[24 + 1] = 9;  /* source port */
	inner[24 + 3] = 80; /* destination port */
	inner[24 + 12] = 0x50;
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_AH, CLIENT, 0, SERVER, 0);
	spec.payload = inner;
	spec.payload_len = sizeof(inner);
	struct base_packet *packet = parse_fixture_flow(&f, &spec);
	assert_int_equal(packet->key.protocol, BASE_PROTOCOL_TCP);
	assert_int_equal(packet->key.port[0], 9);
	assert_int_equal(packet->key.port[1], 80);
	parse_fixture_close(&f);
}

static void mobility_header_alone_is_what_the_packet_carries(void **)
{
	static const uint8_t alone[8] = { 59, 0, 0 }, followed[8] = { 6, 0, 0 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip6(135, 1, 0, 2, 0);
	spec.payload = alone;
	spec.payload_len = sizeof(alone);
	assert_key(&f, &spec);
	spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 10, 2, 20);
	spec.ip6_headers = followed;
	spec.ip6_headers_len = sizeof(followed);
	spec.ip6_first_header = 135;
	assert_key(&f, &spec);
	parse_fixture_close(&f);
}

static void unknown_next_header_ends_the_walk_without_ports(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip6(99, 1, 0, 2, 0);
	spec.payload_len = 20; /* looks like ports */
	assert_key(&f, &spec);
	assert_int_equal(f.pool.packets[0].flags & BASE_PACKET_L4, 0);
	parse_fixture_close(&f);
}

static void snaplen_cut_packet_is_keyed_while_its_ports_are_there(void **)
{
	uint8_t frame[2048];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = tcp();
	spec.payload_len = 1400;
	size_t len = packets_build(frame, sizeof(frame), &spec);
	struct base_packet *packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 96, len);
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(packet->payload_len, 1400);
	assert_true((packet->flags & BASE_PACKET_L4) != 0);
	for (size_t cut = 38; cut < 54; cut++) {
		packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, cut, len);
		assert_int_equal(f.result, BASE_PARSE_FLOW);
		assert_int_equal(packet->flags & BASE_PACKET_L4, 0);
		assert_int_equal(packet->payload_len, 1400);
		assert_int_equal(packet->tcp_flags, cut >= 48 ? BASE_TCP_ACK : 0);
	}
	parse_fixture_refused(&f, BASE_LINK_ETHERNET, frame, 37, len, BASE_DROP_L4_TRUNCATED);
	assert_int_equal(parse_fixture_stats(&f).snaplen_cut, 1 + 16 + 1);
	parse_fixture_close(&f);
}

/* Every length a capture can be cut to: the fixture compares with the generic walk. */
static void check_every_cut(struct parse_fixture *f, const struct packets_spec *spec)
{
	uint8_t frame[2048];
	size_t len = packets_build(frame, sizeof(frame), spec);
	size_t headers = packets_l3_offset(spec) + (spec->family == 6 ? 40 : 20) +
			 (spec->protocol == BASE_PROTOCOL_TCP ? 20 : 8);
	struct base_flow_key key = parse_fixture_flow(f, spec)->key;
	for (size_t cap_len = 0; cap_len <= len; cap_len++) {
		struct base_packet *packet =
			parse_fixture_frame(f, spec->link, frame, cap_len, len);
		if (cap_len < headers) {
			assert_int_equal(packet->flags & BASE_PACKET_L4, 0);
			continue;
		}
		assert_int_equal(f->result, BASE_PARSE_FLOW);
		assert_true((packet->flags & BASE_PACKET_L4) != 0);
		assert_memory_equal(&packet->key, &key, sizeof(key));
		assert_int_equal(packet->payload_len, spec->payload_len);
		/* A datagram that claims more than was on the wire, cut or not. */
		if (spec->frame_min == 0)
			parse_fixture_frame(f, spec->link, frame, cap_len,
				cap_len < len - 1 ? len - 1 : cap_len);
	}
}

static void cut_bare_and_short_packets_are_parsed_like_whole_ones(void **)
{
	static const uint8_t options[12] = { 1, 1, 8, 10 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (unsigned int kind = 0; kind < 64; kind++) {
		uint8_t protocol = (kind & 1) != 0 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
		struct packets_spec spec = (kind & 2) != 0 ? packets_ip6(protocol, 9, 4000, 8, 53)
							   : packets_ip4(protocol, 9, 4000, 8, 53);
		spec.payload_len = (kind & 4) != 0 ? 30 : 0;
		spec.link = (kind & 8) != 0 ? BASE_LINK_RAW : BASE_LINK_ETHERNET;
		spec.tags_count = (kind & 24) == 16;
		spec.tags[0] = (struct packets_tag){ 0x8100, 7 };
		spec.tcp_flags = BASE_TCP_ACK | BASE_TCP_PSH;
		if ((kind & 33) == 33) {
			spec.tcp_options = options;
			spec.tcp_options_len = sizeof(options);
		}
		spec.frame_min = (kind & 41) == 32 ? 60 : 0;
		check_every_cut(&f, &spec);
	}
	assert_true(parse_fixture_stats(&f).snaplen_cut > 1000);
	parse_fixture_close(&f);
}

static void total_length_zero_means_up_to_the_wire(void **)
{
	uint8_t frame[2048];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = tcp();
	spec.payload_len = 1000;
	size_t len = packets_build(frame, sizeof(frame), &spec);
	frame[16] = frame[17] = 0;
	struct base_packet *packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, len);
	assert_int_equal(packet->payload_len, 1000);
	packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 60, len);
	assert_int_equal(packet->payload_len, 1000);
	spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 1, 2, 2);
	spec.payload_len = 700;
	len = packets_build(frame, sizeof(frame), &spec);
	frame[18] = frame[19] = 0;
	packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, len);
	assert_int_equal(packet->payload_len, 700);
	parse_fixture_close(&f);
}

static void bad_checksums_pass_and_are_counted_only_when_asked(void **)
{
	uint8_t frame[2048];
	struct base_parse_config config;
	struct parse_fixture f, strict;
	base_parse_config_defaults(&config);
	parse_fixture_open_with(&f, &config);
	config.verify_checksums = true;
	parse_fixture_open_with(&strict, &config);
	struct packets_spec spec = tcp();
	spec.payload_len = 33;
	size_t len = packets_build(frame, sizeof(frame), &spec);
	parse_fixture_frame(&strict, BASE_LINK_ETHERNET, frame, len, 0);
	assert_int_equal(parse_fixture_stats(&strict).checksums_bad, 0);
	frame[50] ^= 1; /* TCP checksum */
	parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, 0);
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(parse_fixture_stats(&f).checksums_bad, 0);
	parse_fixture_frame(&strict, BASE_LINK_ETHERNET, frame, len, 0);
	assert_int_equal(strict.result, BASE_PARSE_FLOW);
	assert_int_equal(parse_fixture_stats(&strict).checksums_bad, 1);
	frame[50] ^= 1;
	frame[24] = frame[25] = 0; /* IPv4 checksum left to the hardware */
	parse_fixture_frame(&strict, BASE_LINK_ETHERNET, frame, len, 0);
	assert_int_equal(parse_fixture_stats(&strict).checksums_bad, 2);
	parse_fixture_close(&f);
	parse_fixture_close(&strict);
}

static void right_checksums_of_every_protocol_verify(void **)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP, BASE_PROTOCOL_ICMP6, BASE_PROTOCOL_SCTP };
	struct base_parse_config config;
	struct parse_fixture f;
	base_parse_config_defaults(&config);
	config.verify_checksums = true;
	parse_fixture_open_with(&f, &config);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		for (uint16_t len = 0; len < 5; len++) {
			struct packets_spec spec = packets_ip4(protocols[i], CLIENT, 5, SERVER, 6);
			if (protocols[i] == BASE_PROTOCOL_ICMP6)
				spec = packets_ip6(protocols[i], 1, 5, 2, 6);
			spec.payload_len = len;
			spec.frame_min = 60;
			parse_fixture_flow(&f, &spec);
		}
	}
	struct packets_spec none = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 5, SERVER, 6);
	none.udp_no_checksum = true;
	parse_fixture_flow(&f, &none);
	assert_int_equal(parse_fixture_stats(&f).checksums_bad, 0);
	none = packets_ip6(BASE_PROTOCOL_UDP, 1, 5, 2, 6);
	none.udp_no_checksum = true; /* not allowed in IPv6 */
	parse_fixture_flow(&f, &none);
	assert_int_equal(parse_fixture_stats(&f).checksums_bad, 1);
	parse_fixture_close(&f);
}

static void operators_marks_survive_parsing(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = tcp();
	struct base_packet *packet = packets_pool_build(&f.pool, 0, &spec, 0);
	packet->flags = BASE_PACKET_OPERATOR | BASE_PACKET_TUNNEL;
	assert_int_equal(base_parse_packet(f.parser, packet), BASE_PARSE_FLOW);
	assert_int_equal(packet->flags,
		BASE_PACKET_OPERATOR | BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4);
	packet->data[12] = 0x08;
	packet->data[13] = 0x06; /* now ARP */
	assert_int_equal(base_parse_packet(f.parser, packet), BASE_PARSE_NO_FLOW);
	assert_int_equal(packet->flags, BASE_PACKET_OPERATOR);
	assert_int_equal(packet->key.family, 0);
	parse_fixture_close(&f);
}

static void burst_counts_refusals_and_finds_runs(void **)
{
	static struct base_burst burst;
	static uint8_t junk[60] = { [12] = 0x08, [14] = 0x65 };
	struct packets_pool pool;
	struct parse_fixture f;
	parse_fixture_open(&f);
	packets_pool_init(&pool, 6);
	struct packets_spec there = tcp(), back = packets_reverse(&there);
	struct packets_spec other = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	burst.count = 6;
	burst.packets[0] = packets_pool_build(&pool, 0, &there, 0);
	burst.packets[1] = packets_pool_build(&pool, 1, &back, 0);
	burst.packets[2] = packets_pool_set(&pool, 2, BASE_LINK_ETHERNET, junk, 60, 0, 0);
	burst.packets[3] = packets_pool_build(&pool, 3, &there, 0);
	burst.packets[4] = packets_pool_build(&pool, 4, &other, 0);
	burst.packets[5] = packets_pool_build(&pool, 5, &other, 0);
	burst.packets[4]->wire_len++;                              /* cut by the capture */
	burst.packets[5]->drop_reason = BASE_DROP_SOURCE_OVERSIZE; /* refused before */
	burst.drop_count = 1;
	base_parse_burst(f.parser, &burst, false);
	assert_int_equal(burst.drop_count, 2);
	assert_int_equal(burst.packets[2]->drop_reason, BASE_DROP_IP_VERSION);
	assert_int_equal(burst.run_count, 5);
	assert_int_equal(burst.runs[0].count, 2);
	struct base_parse_stats stats;
	base_parser_stats(f.parser, &stats);
	assert_int_equal(stats.packets, 5);
	assert_int_equal(stats.flow_packets, 4);
	assert_int_equal(stats.refused_packets, 1);
	assert_int_equal(stats.snaplen_cut, 1);
	packets_pool_release(&pool);
	parse_fixture_close(&f);
}

static void impossible_configurations_are_refused(void **)
{
	struct base_parser *parser = NULL;
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.fragments_max = 1u << 30;
	assert_int_equal(base_parser_create(&parser, &config), -EINVAL);
	base_parse_config_defaults(&config);
	config.hash.kind = 17;
	assert_int_equal(base_parser_create(&parser, &config), -EINVAL);
	assert_null(parser);
	base_parser_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_packet_is_keyed_by_ports),
		cmocka_unit_test(both_directions_share_key_and_hash),
		cmocka_unit_test(equal_addresses_are_ordered_by_port),
		cmocka_unit_test(self_connection_is_never_reversed),
		cmocka_unit_test(ip6_packets_of_every_protocol_are_keyed),
		cmocka_unit_test(ethernet_padding_is_not_payload),
		cmocka_unit_test(options_are_stepped_over),
		cmocka_unit_test(extension_headers_are_walked),
		cmocka_unit_test(authentication_header_is_walked_in_ip4_too),
		cmocka_unit_test(mobility_header_alone_is_what_the_packet_carries),
		cmocka_unit_test(unknown_next_header_ends_the_walk_without_ports),
		cmocka_unit_test(snaplen_cut_packet_is_keyed_while_its_ports_are_there),
		cmocka_unit_test(cut_bare_and_short_packets_are_parsed_like_whole_ones),
		cmocka_unit_test(total_length_zero_means_up_to_the_wire),
		cmocka_unit_test(bad_checksums_pass_and_are_counted_only_when_asked),
		cmocka_unit_test(right_checksums_of_every_protocol_verify),
		cmocka_unit_test(operators_marks_survive_parsing),
		cmocka_unit_test(burst_counts_refusals_and_finds_runs),
		cmocka_unit_test(impossible_configurations_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
