/* SPDX-License-Identifier: BSD-2-Clause */
/* Anonymisation behind the IP header: TCP, UDP, tunnels, and what is not understood. */
#include "tests/unit/traces/anonymize.h"

#include "base/rng.h"

static void addresses_of_multipath_tcp_become_no_operations(void **state)
{
	(void)state;
	static const uint8_t before[] = { 30, 8, 0x30, 1, 10, 0, 0, 9, 2, 4, 5, 180, 30, 4, 0x20,
		1 };
	static const uint8_t after[] = { 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 5, 180, 30, 4, 0x20, 1 };
	uint8_t frame[512];
	struct result result;
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
	spec.tcp_options = before;
	spec.tcp_options_len = sizeof(before);
	spec.payload_len = 10;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	options.keep_payload = true;
	anonymize(&result, BASE_LINK_ETHERNET, frame, size);
	options.keep_payload = false;
	assert_memory_equal(result.frame + 54, after, sizeof(after));
	assert_true(packets_checksums_valid(result.frame + 14, size - 14));
	/* Cut inside the option: no part of the address stays. */
	for (size_t cut = 55; cut < 62; cut++) {
		anonymize(&result, BASE_LINK_ETHERNET, frame, cut);
		for (size_t i = 54; i < result.size; i++)
			assert_int_equal(result.frame[i], 1);
	}
}

static void udp_checksums_of_zero_stay_none_and_none_becomes_zero(void **state)
{
	(void)state;
	uint8_t frame[256];
	struct result result;
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	spec.link = BASE_LINK_RAW;
	spec.udp_no_checksum = true;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(traces_net16(result.frame + 26), 0);
	/* For some source port the new checksum would be 0: it has to be 0xffff. */
	unsigned int all_ones = 0;
	spec.udp_no_checksum = false;
	for (uint32_t port = 0; port <= UINT16_MAX; port++) {
		spec.source_port = (uint16_t)port;
		size = packets_build(frame, sizeof(frame), &spec);
		anonymize(&result, BASE_LINK_RAW, frame, size);
		assert_int_not_equal(traces_net16(result.frame + 26), 0);
		assert_true(packets_checksums_valid(result.frame, size));
		all_ones += traces_net16(result.frame + 26) == UINT16_MAX;
	}
	assert_int_equal(all_ones, 1);
}

static void wrong_checksums_stay_wrong_by_as_much(void **state)
{
	(void)state;
	uint8_t frame[256], right[256];
	struct result result, expected;
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
	spec.link = BASE_LINK_RAW;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	memcpy(right, frame, size);
	traces_put_net16(frame + 36, (uint16_t)(traces_net16(frame + 36) ^ 0x1234));
	anonymize(&result, BASE_LINK_RAW, frame, size);
	anonymize(&expected, BASE_LINK_RAW, right, size);
	assert_false(packets_checksums_valid(result.frame, size));
	uint32_t was = (uint32_t)traces_net16(frame + 36) + 65535 - traces_net16(right + 36);
	uint32_t is = (uint32_t)traces_net16(result.frame + 36) + 65535 -
		      traces_net16(expected.frame + 36);
	assert_int_equal(was % 65535, is % 65535);
}

/* UDP with this destination port and payload; what stays of it. */
static size_t kept_of_udp(uint16_t source, uint16_t destination, const uint8_t *payload,
	uint16_t size, struct result *result)
{
	uint8_t frame[1024];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, source, 3, destination);
	spec.link = BASE_LINK_RAW;
	spec.payload = payload;
	spec.payload_len = size;
	size_t built = packets_build(frame, sizeof(frame), &spec);
	anonymize(result, BASE_LINK_RAW, frame, built);
	if (result->size == built)
		assert_true(packets_checksums_valid(result->frame, built));
	return result->size;
}

static void tunnels_that_are_not_understood_are_cut_even_with_payloads(void **state)
{
	(void)state;
	static const uint16_t opaque[] = { 1701, 4341, 4342, 5246, 5247, 6080 };
	uint8_t payload[64];
	struct result result;
	memset(payload, 0x45, sizeof(payload));
	options.keep_payload = true;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(opaque); i++) {
		assert_int_equal(kept_of_udp(99, opaque[i], payload, 64, &result), 28);
		assert_int_equal(kept_of_udp(opaque[i], 99, payload, 64, &result), 28);
	}
	assert_int_equal(kept_of_udp(99, 53, payload, 64, &result), 28 + 64);
	/* On a tunnel's port, but not of its form; and from such a port. */
	memset(payload, 0, sizeof(payload));
	static const uint16_t ports[] = { 4789, 8472, 3544, 2152 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(ports); i++) {
		assert_true(kept_of_udp(99, ports[i], payload, 64, &result) <= 28 + 8);
		assert_int_equal(kept_of_udp(ports[i], 99, payload, 64, &result), 28);
	}
	/* Protocols that nobody here knows. */
	uint8_t frame[256];
	static const uint8_t protocols[] = { 89, 103, 112, 46, 99, 255 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec spec = packets_ip4(protocols[i], 1, 2, 3, 4);
		spec.link = BASE_LINK_RAW;
		spec.payload_len = 50;
		size_t size = packets_build(frame, sizeof(frame), &spec);
		anonymize(&result, BASE_LINK_RAW, frame, size);
		assert_int_equal(result.size, 20);
	}
	options.keep_payload = false;
}

/* Headers before an inner packet, of tunnels that the model test does not know. */
static void other_tunnels_are_walked(void **state)
{
	(void)state;
	static const struct {
		uint16_t port; /* over UDP; 0: the protocol */
		uint8_t protocol;
		uint8_t header_len;
		bool ethernet, ip6;
		uint8_t header[24];
	} cases[] = {
		{ 6635, 0, 8, false, false, { 0, 1, 0, 64, 0, 2, 1, 64 } },
		{ 4790, 0, 8, false, false, { 0x0c, 0, 0, 1 } },
		{ 4790, 0, 8, false, true, { 0x0c, 0, 0, 2 } },
		{ 4790, 0, 8, true, false, { 0x0c, 0, 0, 3 } },
		{ 3544, 0, 0, false, true, { 0 } },
		{ 6081, 0, 16, true, false,
			{ 2, 0, 0x65, 0x58, 0, 0, 1, 0, 0xff, 0xff, 1, 1, 9, 9, 9, 9 } },
		{ 2152, 0, 16, false, false,
			{ 0x34, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 1, 0, 5, 0 } },
		{ 0, 137, 4, false, true, { 0, 1, 1, 64 } },
		{ 0, 97, 2, true, false, { 0x30, 0 } },
		{ 0, 47, 16, true, false, { 0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 1, 0, 0 } },
		{ 0, 47, 4, true, false, { 0, 0, 0x88, 0xbe } },
		{ 0, 47, 20, true, false, { 0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 1 } },
		{ 0, 47, 14, false, false,
			{ 0x30, 0x01, 0x88, 0x0b, 0, 9, 0, 0, 0, 0, 0, 1, 0, 0x21 } },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		uint8_t payload[512], frame[1024];
		struct result result;
		struct packets_spec inner = cases[i].ip6
						    ? packets_ip6(BASE_PROTOCOL_TCP, 7, 8, 9, 10)
						    : packets_ip4(BASE_PROTOCOL_TCP, 7, 8, 9, 10);
		inner.link = cases[i].ethernet ? BASE_LINK_ETHERNET : BASE_LINK_RAW;
		memcpy(payload, cases[i].header, cases[i].header_len);
		size_t inner_len = packets_build(payload + cases[i].header_len, 256, &inner);
		struct packets_spec spec =
			packets_ip4(cases[i].port != 0 ? BASE_PROTOCOL_UDP : cases[i].protocol, 1,
				50, 3, cases[i].port);
		spec.link = BASE_LINK_RAW;
		spec.payload = payload;
		spec.payload_len = (uint16_t)(cases[i].header_len + inner_len);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		anonymize(&result, BASE_LINK_RAW, frame, size);
		assert_int_equal(result.size, size);
		assert_true(packets_checksums_valid(result.frame, size));
		size_t l3 = size - inner_len + (cases[i].ethernet ? 14 : 0);
		assert_true(packets_checksums_valid(result.frame + l3, size - l3));
		size_t address = l3 + (cases[i].ip6 ? 8 : 12);
		check_mapped(result.frame + address, frame + address, cases[i].ip6 ? 16 : 4);
		if (cases[i].ethernet)
			assert_memory_equal(result.frame + l3 - 14, zeros, 12);
		for (size_t cap_len = 0; cap_len < size; cap_len++)
			anonymize(&result, BASE_LINK_RAW, frame, cap_len);
	}
}

static void an_authentication_header_is_passed(void **state)
{
	(void)state;
	for (int family = 4; family <= 6; family += 2) {
		uint8_t frame[256],
			header[24 + 64] = { BASE_PROTOCOL_TCP, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5 };
		struct result result;
		struct packets_spec tcp = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
		tcp.link = BASE_LINK_RAW;
		uint8_t packet[64];
		packets_build(packet, sizeof(packet), &tcp);
		memcpy(header + 24, packet + 20, 20);
		struct packets_spec spec =
			family == 4 ? packets_ip4(51, 1, 2, 3, 4) : packets_ip6(51, 1, 2, 3, 4);
		spec.link = BASE_LINK_RAW;
		spec.payload = header;
		spec.payload_len = 24 + 20 + 10;
		size_t size = packets_build(frame, sizeof(frame), &spec);
		anonymize(&result, BASE_LINK_RAW, frame, size);
		assert_int_equal(result.size, size - 10);
	}
}

/* IP in IP in IP ...: the walk ends somewhere, with nothing of what it has not seen. */
static void nesting_has_an_end(void **state)
{
	(void)state;
	uint8_t frame[1400] = { 0 };
	struct result result;
	for (size_t at = 0; at + 20 <= sizeof(frame); at += 20) {
		frame[at] = 0x45;
		traces_put_net16(frame + at + 2, (uint16_t)(sizeof(frame) - at));
		frame[at + 9] = 4;
		traces_put_net32(frame + at + 12, 0x0a000000);
	}
	anonymize(&result, BASE_LINK_RAW, frame, sizeof(frame));
	assert_int_equal(result.size, 200);
	assert_int_equal(result.report.ip4_addresses, 20);
}

static void any_bytes_are_survived(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 12);
	static const uint8_t protocols[] = { 1, 2, 4, 6, 17, 41, 43, 44, 47, 51, 58, 60, 97, 137 };
	for (int round = 0; round < 40000; round++) {
		uint8_t frame[300];
		struct result result;
		for (size_t i = 0; i < sizeof(frame); i++)
			frame[i] = (uint8_t)base_rng_u64(&rng);
		bool ip6 = base_rng_below(&rng, 2);
		frame[0] = ip6 ? 0x60 : (uint8_t)(0x40 | (5 + base_rng_below(&rng, 11)));
		frame[ip6 ? 6 : 9] = protocols[base_rng_below(&rng, BASE_ARRAY_COUNT(protocols))];
		if (base_rng_below(&rng, 2))
			frame[6] = 0;
		options.keep_payload = base_rng_below(&rng, 2);
		size_t size = base_rng_below(&rng, sizeof(frame) + 1);
		anonymize(&result, BASE_LINK_RAW, frame, size);
	}
	options.keep_payload = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_multipath_tcp_become_no_operations),
		cmocka_unit_test(udp_checksums_of_zero_stay_none_and_none_becomes_zero),
		cmocka_unit_test(wrong_checksums_stay_wrong_by_as_much),
		cmocka_unit_test(tunnels_that_are_not_understood_are_cut_even_with_payloads),
		cmocka_unit_test(other_tunnels_are_walked),
		cmocka_unit_test(an_authentication_header_is_passed),
		cmocka_unit_test(nesting_has_an_end),
		cmocka_unit_test(any_bytes_are_survived),
	};
	return cmocka_run_group_tests(tests, anonymize_setup, anonymize_teardown);
}
