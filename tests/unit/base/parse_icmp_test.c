/* SPDX-License-Identifier: BSD-2-Clause */
/* ICMP queries are flows of their own; errors belong to the flow that they quote. */
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0x0a000002u
#define ROUTER 0x0a0000feu

static struct packets_spec error4(uint32_t to)
{
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, ROUTER, 0, to, 0);
	error.icmp_type = 3;
	error.icmp_code = 1;
	return error;
}

static struct packets_spec error6(uint32_t to)
{
	struct packets_spec error = packets_ip6(BASE_PROTOCOL_ICMP6, 0xfe, 0, to, 0);
	error.icmp_type = 2;
	return error;
}

static struct base_packet *parse_error(struct parse_fixture *f, const struct packets_spec *error,
	const struct packets_spec *quoted, size_t quote_len)
{
	uint8_t frame[2048];
	size_t len = packets_build_icmp_error(frame, sizeof(frame), error, quoted, quote_len);
	return parse_fixture_frame(f, error->link, frame, len, 0);
}

/* The error's key is the quoted flow's, and its direction that of the quoted receiver. */
static void assert_quotes(struct parse_fixture *f, const struct packets_spec *error,
	const struct packets_spec *quoted, size_t quote_len)
{
	bool reversed;
	struct base_flow_key key = parse_fixture_key(quoted, &reversed);
	bool self = memcmp(key.address[0], key.address[1], 16) == 0 && key.port[0] == key.port[1];
	struct base_packet *packet = parse_error(f, error, quoted, quote_len);
	assert_int_equal(f->result, BASE_PARSE_FLOW);
	assert_true((packet->flags & BASE_PACKET_ICMP_ERROR) != 0);
	assert_memory_equal(&packet->key, &key, sizeof(key));
	assert_int_equal((packet->flags & BASE_PACKET_REVERSED) != 0, self ? 0 : !reversed);
	assert_int_equal(
		packet->protocol, error->family == 6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP);
	assert_int_equal(packet->quote_offset, packet->l4_offset + 8);
	assert_int_equal(packet->l3_offset, packets_l3_offset(error));
}

static void errors_carry_the_quoted_flow(void **)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_ICMP, BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec there = packets_ip4(protocols[i], CLIENT, 4000, SERVER, 80);
		there.payload_len = 30;
		struct packets_spec back = packets_reverse(&there);
		struct packets_spec to_client = error4(CLIENT), to_server = error4(SERVER);
		for (size_t quote_len = 28; quote_len < 60; quote_len += 7) {
			assert_quotes(&f, &to_client, &there, quote_len);
			assert_quotes(&f, &to_server, &back, quote_len);
		}
		struct packets_spec there6 = packets_ip6(protocols[i], 1, 4000, 2, 80);
		if (protocols[i] == BASE_PROTOCOL_ICMP) {
			there6.protocol = BASE_PROTOCOL_ICMP6;
			there6.icmp_type = 128;
		}
		struct packets_spec to_client6 = error6(1);
		there6.payload_len = 30;
		assert_quotes(&f, &to_client6, &there6, 48);
		assert_quotes(&f, &to_client6, &there6, 200);
	}
	parse_fixture_close(&f);
}

static void every_error_type_is_known(void **)
{
	static const uint8_t types4[] = { 3, 4, 5, 11, 12 }, types6[] = { 1, 2, 3, 4 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
	struct packets_spec error = error4(CLIENT);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types4); i++) {
		error.icmp_type = types4[i];
		assert_quotes(&f, &error, &flow, 28);
	}
	flow = packets_ip6(BASE_PROTOCOL_TCP, 1, 4000, 2, 80);
	error = error6(1);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types6); i++) {
		error.icmp_type = types6[i];
		assert_quotes(&f, &error, &flow, 48);
	}
	parse_fixture_close(&f);
}

static void error_and_flow_share_the_hash(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 4000, SERVER, 53);
	struct packets_spec error = error4(CLIENT);
	uint32_t hash = parse_fixture_flow(&f, &flow)->hash;
	assert_int_equal(parse_error(&f, &error, &flow, 28)->hash, hash);
	parse_fixture_close(&f);
}

static void quote_without_ports_falls_back_to_the_outer_addresses(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
	struct packets_spec error = error4(CLIENT);
	struct base_packet *packet = parse_error(&f, &error, &flow, 27);
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(packet->flags & BASE_PACKET_ICMP_ERROR, 0);
	assert_int_equal(packet->key.protocol, BASE_PROTOCOL_ICMP);
	assert_int_equal(packet->key.port[0], 0);
	assert_int_equal(packet->quote_offset, 0);
	parse_fixture_close(&f);
}

static void quote_cut_by_the_capture_is_not_malformed(void **)
{
	uint8_t frame[256];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
	struct packets_spec error = error4(CLIENT);
	size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, &flow, 100);
	for (size_t cut = 42; cut < 70; cut++) {
		struct base_packet *packet =
			parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, cut, len);
		assert_int_equal(f.result, BASE_PARSE_FLOW);
		assert_int_equal(packet->flags & BASE_PACKET_ICMP_ERROR, 0);
	}
	struct base_packet *packet = parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, 70, len);
	assert_true((packet->flags & BASE_PACKET_ICMP_ERROR) != 0);
	parse_fixture_close(&f);
}

static void quoted_extension_headers_are_walked(void **)
{
	static const uint8_t options[8] = { BASE_PROTOCOL_UDP, 0, 1, 4 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip6(BASE_PROTOCOL_UDP, 1, 4000, 2, 53);
	flow.ip6_headers = options;
	flow.ip6_headers_len = sizeof(options);
	flow.ip6_first_header = 60;
	struct packets_spec error = error6(1);
	assert_quotes(&f, &error, &flow, 56);
	struct base_packet *packet = parse_error(&f, &error, &flow, 44); /* inside the options */
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(packet->flags & BASE_PACKET_ICMP_ERROR, 0);
	parse_fixture_close(&f);
}

static void error_about_an_error_is_keyed_by_its_own_addresses(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec quoted = packets_ip4(BASE_PROTOCOL_ICMP, CLIENT, 0, SERVER, 0);
	quoted.icmp_type = 3;
	struct packets_spec error = error4(CLIENT);
	struct base_packet *packet = parse_error(&f, &error, &quoted, 100);
	assert_int_equal(f.result, BASE_PARSE_FLOW);
	assert_int_equal(packet->flags & BASE_PACKET_ICMP_ERROR, 0);
	parse_fixture_close(&f);
}

static void quoted_later_fragment_finds_its_flow(void **)
{
	uint8_t fragment[512];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 4000, SERVER, 53);
	flow.ip_id = 7;
	flow.payload_len = 200;
	struct packets_spec error = error4(CLIENT);
	error.payload = fragment + 14;
	error.payload_len =
		(uint16_t)(packets_build_fragment(fragment, sizeof(fragment), &flow, 64, 64) - 14);
	struct base_packet *packet = parse_fixture_flow(&f, &error);
	assert_true((packet->flags & BASE_PACKET_ICMP_ERROR) != 0);
	assert_int_equal(packet->key.port[0], 0);
	uint8_t first[512];
	size_t len = packets_build_fragment(first, sizeof(first), &flow, 0, 64);
	parse_fixture_frame(&f, BASE_LINK_ETHERNET, first, len, 0);
	packet = parse_fixture_flow(&f, &error);
	assert_int_equal(packet->key.port[0], 4000);
	assert_int_equal(packet->key.port[1], 53);
	parse_fixture_close(&f);
}

static void queries_are_keyed_by_identifier(void **)
{
	static const uint8_t types4[] = { 0, 8, 13, 14, 15, 16, 17, 18, 42, 43 };
	static const uint8_t types6[] = { 128, 129, 160, 161 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_ICMP, CLIENT, 77, SERVER, 1);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types4); i++) {
		spec.icmp_type = types4[i];
		struct base_packet *packet = parse_fixture_flow(&f, &spec);
		assert_int_equal(packet->key.port[0], 77);
		assert_int_equal(packet->key.port[1], 77);
		assert_true((packet->flags & BASE_PACKET_L4) != 0);
	}
	spec = packets_ip6(BASE_PROTOCOL_ICMP6, 1, 78, 2, 1);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types6); i++) {
		spec.icmp_type = types6[i];
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.port[0], 78);
	}
	parse_fixture_close(&f);
}

static void other_messages_are_keyed_by_addresses(void **)
{
	static const uint8_t types6[] = { 133, 134, 135, 136, 143, 100, 127 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_ICMP, CLIENT, 77, SERVER, 1);
	spec.icmp_type = 9;
	assert_int_equal(parse_fixture_flow(&f, &spec)->key.port[0], 0);
	spec = packets_ip6(BASE_PROTOCOL_ICMP6, 1, 78, 2, 1);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types6); i++) {
		spec.icmp_type = types6[i];
		assert_int_equal(parse_fixture_flow(&f, &spec)->key.port[0], 0);
	}
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_carry_the_quoted_flow),
		cmocka_unit_test(every_error_type_is_known),
		cmocka_unit_test(error_and_flow_share_the_hash),
		cmocka_unit_test(quote_without_ports_falls_back_to_the_outer_addresses),
		cmocka_unit_test(quote_cut_by_the_capture_is_not_malformed),
		cmocka_unit_test(quoted_extension_headers_are_walked),
		cmocka_unit_test(error_about_an_error_is_keyed_by_its_own_addresses),
		cmocka_unit_test(quoted_later_fragment_finds_its_flow),
		cmocka_unit_test(queries_are_keyed_by_identifier),
		cmocka_unit_test(other_messages_are_keyed_by_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
