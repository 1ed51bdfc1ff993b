/* SPDX-License-Identifier: BSD-2-Clause */
/* Later fragments follow their first, or are a counted class of their own; ports are never read
 * from them. */
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT  0x0a000001u
#define SERVER  0x0a000002u
#define SECOND  UINT64_C(1000000000)
#define TIMEOUT (30 * SECOND)

static struct packets_spec datagram(uint8_t family, uint16_t id)
{
	struct packets_spec spec =
		family == 6 ? packets_ip6(BASE_PROTOCOL_UDP, 1, 4000, 2, 5000)
			    : packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 4000, SERVER, 5000);
	spec.ip_id = id;
	spec.payload_len = 300;
	return spec;
}

static struct base_packet *parse_piece(
	struct parse_fixture *f, const struct packets_spec *spec, uint16_t offset, uint16_t size)
{
	uint8_t frame[1024];
	size_t len = packets_build_fragment(frame, sizeof(frame), spec, offset, size);
	struct base_packet *packet = parse_fixture_frame(f, spec->link, frame, len, 0);
	assert_int_equal(f->result, BASE_PARSE_FLOW);
	assert_true((packet->flags & BASE_PACKET_FRAGMENT) != 0);
	assert_int_equal((packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0, offset != 0);
	return packet;
}

static bool is_orphan(const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0;
}

static void later_fragments_follow_their_first(void **)
{
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct parse_fixture f;
		parse_fixture_open(&f);
		struct packets_spec there = datagram(family, 7), back = packets_reverse(&there);
		for (int way = 0; way < 2; way++) {
			const struct packets_spec *spec = way == 0 ? &there : &back;
			struct base_packet first = *parse_piece(&f, spec, 0, 104);
			assert_int_equal(first.payload_len, 96);
			struct base_packet *later = parse_piece(&f, spec, 104, 104);
			assert_memory_equal(&first.key, &later->key, sizeof(first.key));
			assert_int_equal(first.hash, later->hash);
			assert_int_equal((first.flags ^ later->flags) & BASE_PACKET_REVERSED, 0);
			assert_int_equal(later->payload_len, 104);
			assert_int_equal(later->flags & BASE_PACKET_L4, 0);
			assert_int_equal(later->protocol, BASE_PROTOCOL_UDP);
			later = parse_piece(&f, spec, 208, 100); /* the last one */
			assert_memory_equal(&first.key, &later->key, sizeof(first.key));
		}
		struct base_parse_stats stats = parse_fixture_stats(&f);
		assert_int_equal(stats.fragments, 6);
		assert_int_equal(stats.fragments_orphaned, 0);
		parse_fixture_close(&f);
	}
}

static void lone_later_fragment_has_no_ports(void **)
{
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct parse_fixture f;
		parse_fixture_open(&f);
		struct packets_spec spec = datagram(family, 7);
		struct base_packet *packet = parse_piece(&f, &spec, 104, 104);
		assert_true(is_orphan(packet));
		assert_int_equal(packet->key.port[0], 0);
		assert_int_equal(packet->key.port[1], 0);
		assert_int_equal(packet->key.protocol, BASE_PROTOCOL_UDP);
		assert_int_equal(parse_fixture_stats(&f).fragments_orphaned, 1);
		parse_fixture_close(&f);
	}
}

static void datagrams_are_told_apart(void **)
{
	struct base_parse_config config;
	struct parse_fixture f;
	base_parse_config_defaults(&config);
	config.zone_source = BASE_ZONE_VLAN;
	parse_fixture_open_with(&f, &config);
	struct packets_spec spec = datagram(4, 7);
	parse_piece(&f, &spec, 0, 104);
	assert_false(is_orphan(parse_piece(&f, &spec, 104, 104)));
	struct packets_spec other = spec;
	other.ip_id = 8;
	assert_true(is_orphan(parse_piece(&f, &other, 104, 104)));
	other = spec;
	other.protocol = BASE_PROTOCOL_TCP;
	assert_true(is_orphan(parse_piece(&f, &other, 104, 104)));
	other = packets_reverse(&spec);
	assert_true(is_orphan(parse_piece(&f, &other, 104, 104)));
	other = spec;
	other.tags_count = 1;
	other.tags[0] = (struct packets_tag){ 0x8100, 5 };
	assert_true(is_orphan(parse_piece(&f, &other, 104, 104)));
	parse_fixture_close(&f);
}

static void first_fragment_is_forgotten_after_its_timeout(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = datagram(4, 7);
	f.time_ns = 100 * SECOND;
	parse_piece(&f, &spec, 0, 104);
	f.time_ns = 50 * SECOND; /* a capture whose clock steps back */
	assert_false(is_orphan(parse_piece(&f, &spec, 104, 104)));
	f.time_ns = 100 * SECOND + TIMEOUT;
	assert_false(is_orphan(parse_piece(&f, &spec, 104, 104)));
	f.time_ns++;
	assert_true(is_orphan(parse_piece(&f, &spec, 104, 104)));
	parse_fixture_close(&f);
}

static void reused_identification_takes_the_newer_ports(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = datagram(4, 7);
	parse_piece(&f, &spec, 0, 104);
	spec.source_port = 4001;
	parse_piece(&f, &spec, 0, 104);
	assert_int_equal(parse_piece(&f, &spec, 104, 104)->key.port[0], 4001);
	parse_fixture_close(&f);
}

static void full_cache_forgets_and_counts(void **)
{
	struct base_parse_config config;
	struct parse_fixture f;
	base_parse_config_defaults(&config);
	config.fragments_max = 1; /* one set */
	parse_fixture_open_with(&f, &config);
	for (uint16_t id = 0; id < 10; id++) {
		struct packets_spec spec = datagram(4, id);
		f.time_ns++;
		parse_piece(&f, &spec, 0, 104);
	}
	assert_int_equal(parse_fixture_stats(&f).fragments_forgotten, 6);
	for (uint16_t id = 0; id < 10; id++) { /* the oldest went */
		struct packets_spec spec = datagram(4, id);
		assert_int_equal(is_orphan(parse_piece(&f, &spec, 104, 104)), id < 6);
	}
	f.time_ns += TIMEOUT + 1;
	struct packets_spec spec = datagram(4, 100);
	parse_piece(&f, &spec, 0, 104);
	assert_int_equal(parse_fixture_stats(&f).fragments_forgotten, 6);
	parse_fixture_close(&f);
}

static void atomic_fragment_is_an_ordinary_packet(void **)
{
	static const uint8_t atomic[8] = { BASE_PROTOCOL_TCP, 0, 0, 0, 0, 0, 0, 7 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 1, 2, 80);
	spec.ip6_headers = atomic;
	spec.ip6_headers_len = sizeof(atomic);
	spec.ip6_first_header = 44;
	struct base_packet *packet = parse_fixture_flow(&f, &spec);
	assert_int_equal(packet->key.port[1], 80);
	assert_int_equal(packet->flags & BASE_PACKET_FRAGMENT, 0);
	/* It must not pose as the first fragment of another datagram with its number. */
	struct packets_spec other = datagram(6, 7);
	assert_true(is_orphan(parse_piece(&f, &other, 104, 104)));
	parse_fixture_close(&f);
}

static void udp_length_of_a_first_fragment_covers_the_whole(void **)
{
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec spec = datagram(4, 7);
	assert_int_equal(parse_piece(&f, &spec, 0, 8)->payload_len, 0);
	parse_fixture_close(&f);
}

static void fragmented_icmp_error_keeps_its_own_addresses(void **)
{
	uint8_t quote[200] = { 0x45 };
	struct parse_fixture f;
	parse_fixture_open(&f);
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, CLIENT, 0, SERVER, 0);
	error.icmp_type = 3;
	error.payload = quote;
	error.payload_len = sizeof(quote);
	struct base_packet first = *parse_piece(&f, &error, 0, 104);
	assert_int_equal(first.flags & BASE_PACKET_ICMP_ERROR, 0);
	struct base_packet *later = parse_piece(&f, &error, 104, 104);
	assert_memory_equal(&first.key, &later->key, sizeof(first.key));
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_fragments_follow_their_first),
		cmocka_unit_test(lone_later_fragment_has_no_ports),
		cmocka_unit_test(datagrams_are_told_apart),
		cmocka_unit_test(first_fragment_is_forgotten_after_its_timeout),
		cmocka_unit_test(reused_identification_takes_the_newer_ports),
		cmocka_unit_test(full_cache_forgets_and_counts),
		cmocka_unit_test(atomic_fragment_is_an_ordinary_packet),
		cmocka_unit_test(udp_length_of_a_first_fragment_covers_the_whole),
		cmocka_unit_test(fragmented_icmp_error_keeps_its_own_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
