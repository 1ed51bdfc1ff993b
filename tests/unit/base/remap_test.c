/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/remap.h"
#include "base/rng.h"
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0xc0a80102u
#define ROUTER 0x0a0000feu

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void map_is_a_bijection_of_its_own_per_copy(void **)
{
	enum { COUNT = 1 << 18 };
	uint32_t *mapped = malloc(COUNT * sizeof(*mapped));
	assert_non_null(mapped);
	for (uint32_t copy = 0; copy < 20; copy += copy + 1) {
		uint32_t same = 0;
		/* A dense range and a scattered half: images of distinct addresses differ. */
		for (uint32_t i = 0; i < COUNT; i++) {
			uint32_t address =
				i < COUNT / 2 ? 0x0a000000 + i : i * 2654435761u | 1u << 31;
			mapped[i] = base_remap_ip4(address, copy);
			same += mapped[i] == address;
			if (copy == 0)
				assert_int_equal(mapped[i], address);
		}
		if (copy != 0)
			assert_true(same < 20);
		qsort(mapped, COUNT, sizeof(*mapped), compare);
		for (uint32_t i = 1; i < COUNT; i++)
			assert_true(mapped[i - 1] < mapped[i]);
	}
	free(mapped);
}

static void copies_do_not_share_flows(void **)
{
	for (uint32_t a = 0; a < 64; a++)
		for (uint32_t b = 0; b < a; b++)
			assert_false(base_remap_ip4(CLIENT, a) == base_remap_ip4(CLIENT, b) &&
				     base_remap_ip4(SERVER, a) == base_remap_ip4(SERVER, b));
}

/* Parse, remap, parse again; checksums and lengths must still be right. */
static struct base_packet *remapped(
	struct parse_fixture *f, const struct packets_spec *spec, uint32_t copy)
{
	struct base_packet *packet = parse_fixture_flow(f, spec);
	base_remap_packet(packet, copy);
	const uint8_t *ip = packet->data + packet->l3_offset;
	assert_true(packets_checksums_valid(ip, packet->cap_len - packet->l3_offset));
	assert_int_equal(base_parse_packet(f->parser, packet), BASE_PARSE_FLOW);
	return packet;
}

static void both_directions_move_together(void **)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP, BASE_PROTOCOL_SCTP, BASE_PROTOCOL_GRE, 200 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		for (uint16_t len = 0; len < 50; len++) {
			struct packets_spec specs[2] = {
				packets_ip4(protocols[i], CLIENT, 4000, SERVER, 80),
				packets_ip6(protocols[i], 1, 4000, 2, 80),
			};
			if (protocols[i] == BASE_PROTOCOL_ICMP)
				specs[1] = packets_ip6(BASE_PROTOCOL_ICMP6, 1, 4000, 2, 80);
			for (int family = 0; family < 2; family++) {
				struct packets_spec there = specs[family];
				there.payload_len = len;
				there.tags_count = len % 3;
				there.tags[0] = there.tags[1] = (struct packets_tag){ 0x8100, 5 };
				struct packets_spec back = packets_reverse(&there);
				struct base_flow_key before = parse_fixture_flow(&f, &there)->key;
				struct base_flow_key key = remapped(&f, &there, len + 1u)->key;
				assert_false(base_flow_key_equal(&before, &key));
				struct base_packet *packet = remapped(&f, &back, len + 1u);
				assert_true(base_flow_key_equal(&key, &packet->key));
			}
		}
	}
	parse_fixture_close(&f);
}

static void copy_zero_changes_nothing(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	struct base_packet *packet = parse_fixture_flow(&f, &spec);
	uint8_t before[64];
	memcpy(before, packet->data, packet->cap_len);
	base_remap_packet(packet, 0);
	assert_memory_equal(before, packet->data, packet->cap_len);
	parse_fixture_close(&f);
}

static void udp_checksum_zero_stays_and_is_never_made(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	spec.udp_no_checksum = true;
	struct base_packet *packet = remapped(&f, &spec, 3);
	assert_int_equal(packet->data[40] | packet->data[41], 0);
	/* Among 65536 payloads one makes the new checksum come out as 0. */
	spec.udp_no_checksum = false;
	unsigned int ones = 0;
	for (unsigned int value = 0; value < 65536; value++) {
		uint8_t payload[2] = { (uint8_t)(value >> 8), (uint8_t)value };
		spec.payload = payload;
		spec.payload_len = 2;
		packet = packets_pool_build(&f.pool, 0, &spec, 0);
		base_parse_packet(f.parser, packet);
		base_remap_packet(packet, 3);
		assert_int_not_equal(packet->data[40] | packet->data[41], 0);
		ones += packet->data[40] == 0xff && packet->data[41] == 0xff;
		assert_true(packets_checksums_valid(packet->data + 14, packet->cap_len - 14));
	}
	assert_true(ones >= 1);
	parse_fixture_close(&f);
}

static void check_error(uint8_t family, uint8_t protocol, size_t quote_len, bool no_checksum)
{
	uint8_t frame[1024];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec flow = packets_ip4(protocol, CLIENT, 4000, SERVER, 80);
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, ROUTER, 0, CLIENT, 0);
	error.icmp_type = 3;
	if (family == 6) {
		flow = packets_ip6(protocol, 1, 4000, 2, 80);
		error = packets_ip6(BASE_PROTOCOL_ICMP6, 9, 0, 1, 0);
		error.icmp_type = 1;
	}
	flow.payload_len = 30;
	flow.udp_no_checksum = no_checksum;
	struct base_flow_key key = remapped(&f, &flow, 5)->key;
	size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, &flow, quote_len);
	struct base_packet *packet = parse_fixture_frame(&f, error.link, frame, len, 0);
	assert_true((packet->flags & BASE_PACKET_ICMP_ERROR) != 0);
	base_remap_packet(packet, 5);
	assert_true(packets_checksums_valid(
		packet->data + packet->l3_offset, packet->cap_len - packet->l3_offset));
	uint8_t *quote = packet->data + packet->quote_offset;
	if (quote_len >= 100) /* the whole packet is quoted: its own checksums hold too */
		assert_true(packets_checksums_valid(quote, packet->payload_len));
	assert_int_equal(base_parse_packet(f.parser, packet), BASE_PARSE_FLOW);
	assert_true(base_flow_key_equal(&key, &packet->key));
	parse_fixture_close(&f);
}

static void errors_move_with_the_flow_they_quote(void **)
{
	static const size_t lengths[] = { 48, 52, 60, 200 };
	check_error(4, BASE_PROTOCOL_TCP, 28, false);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(lengths); i++) {
		for (uint8_t family = 4; family <= 6; family += 2) {
			check_error(family, BASE_PROTOCOL_TCP, lengths[i], false);
			check_error(family, BASE_PROTOCOL_UDP, lengths[i], false);
			check_error(family, BASE_PROTOCOL_GRE, lengths[i], false);
		}
		check_error(4, BASE_PROTOCOL_UDP, lengths[i], true);
		check_error(4, BASE_PROTOCOL_ICMP, lengths[i], false);
		check_error(6, BASE_PROTOCOL_ICMP6, lengths[i], false);
	}
}

static void fragments_of_one_datagram_move_together(void **)
{
	uint8_t frame[1024];
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 4000, SERVER, 5000);
	spec.payload_len = 300;
	struct base_flow_key keys[2];
	for (int i = 0; i < 2; i++) {
		size_t len = packets_build_fragment(
			frame, sizeof(frame), &spec, (uint16_t)(i * 104), 104);
		struct base_packet *packet =
			parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, len, 0);
		uint8_t data[104];
		memcpy(data, packet->data + 34, sizeof(data));
		base_remap_packet(packet, 9);
		if (i == 1) /* payload that looks like a checksum is left alone */
			assert_memory_equal(data, packet->data + 34, sizeof(data));
		assert_int_equal(base_parse_packet(f.parser, packet), BASE_PARSE_FLOW);
		keys[i] = packet->key;
	}
	assert_true(base_flow_key_equal(&keys[0], &keys[1]));
	parse_fixture_close(&f);
}

static void cut_packets_are_remapped_within_their_bytes(void **)
{
	uint8_t frame[512];
	struct parse_fixture f;
	parse_fixture_open(&f);
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 1, SERVER, 2);
		if (family == 6)
			spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 1, 2, 2);
		size_t len = packets_build(frame, sizeof(frame), &spec);
		for (size_t cut = 0; cut <= len; cut++) {
			struct base_packet *packet =
				parse_fixture_frame(&f, BASE_LINK_ETHERNET, frame, cut, len);
			base_remap_packet(packet, 2); /* the sanitizer watches */
		}
	}
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_is_a_bijection_of_its_own_per_copy),
		cmocka_unit_test(copies_do_not_share_flows),
		cmocka_unit_test(both_directions_move_together),
		cmocka_unit_test(copy_zero_changes_nothing),
		cmocka_unit_test(udp_checksum_zero_stays_and_is_never_made),
		cmocka_unit_test(errors_move_with_the_flow_they_quote),
		cmocka_unit_test(fragments_of_one_datagram_move_together),
		cmocka_unit_test(cut_packets_are_remapped_within_their_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
