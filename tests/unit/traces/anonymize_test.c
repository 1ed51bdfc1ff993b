/* SPDX-License-Identifier: BSD-2-Clause */
/* What the model test (anonymize_model_test.c) does not build: addresses in odd places of link
 * headers, ARP, IP and ICMP. */
#include "tests/unit/traces/anonymize.h"

#include "base/checksum.h"

/* Checksum of an IPv6 packet's transport part, its pseudo-header's destination given. */
static bool ip6_checksum_valid(
	const uint8_t *ip, size_t l4, size_t size, uint8_t protocol, const uint8_t *destination)
{
	uint8_t tail[8] = { [7] = protocol };
	traces_put_net32(tail, (uint32_t)(size - l4));
	uint32_t sum = base_checksum_add(ip + 8, 16, 0);
	sum = base_checksum_add(destination, 16, sum);
	sum = base_checksum_add(tail, sizeof(tail), sum);
	return base_checksum_finish(base_checksum_add(ip + l4, size - l4, sum)) == 0;
}

static void arp_has_four_addresses_and_no_padding(void **state)
{
	(void)state;
	static const uint8_t frame[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 2, 3, 4, 5,
		0x81, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 0, 1, 2, 3, 4, 5, 10, 0, 0, 1, 0xaa,
		0xbb, 0xcc, 0xdd, 0xee, 0xfe, 10, 0, 0, 2, 'l', 'e', 'a', 'k' };
	struct result result;
	for (int macs = 0; macs < 3; macs++) {
		options.macs = (enum traces_macs)macs;
		anonymize(&result, BASE_LINK_ETHERNET, frame, sizeof(frame));
		assert_int_equal(result.size, 18 + 28);
		assert_memory_equal(result.frame + 12, frame + 12, 6 + 8); /* the VLAN stays */
		check_mapped(result.frame + 18 + 14, frame + 18 + 14, 4);
		check_mapped(result.frame + 18 + 24, frame + 18 + 24, 4);
		static const unsigned int places[] = { 0, 6, 18 + 8, 18 + 18 };
		for (size_t i = 0; i < BASE_ARRAY_COUNT(places); i++) {
			const uint8_t *got = result.frame + places[i], *was = frame + places[i];
			uint8_t hashed[6];
			traces_cryptopan_mac(cryptopan, was, hashed);
			assert_memory_equal(got, macs == 0 ? zeros : macs == 1 ? hashed : was, 6);
		}
		assert_int_equal(result.report.ip4_addresses, 2);
		assert_int_equal(result.report.mac_addresses, macs == 2 ? 0 : 4);
		assert_int_equal(result.report.cut_bytes, 60 - 46);
	}
	options.macs = TRACES_MACS_ZERO;
	/* Cut inside: no part of a pair stays. */
	for (size_t size = 0; size < 46; size++) {
		anonymize(&result, BASE_LINK_ETHERNET, frame, size);
		size_t expected = size < 14            ? 0
				  : size < 18          ? 14
				  : size < 18 + 8      ? 18
				  : size < 18 + 8 + 10 ? 18 + 8
						       : 18 + 8 + 10;
		assert_int_equal(result.size, expected);
	}
}

static void what_is_not_ip_ends_behind_the_link_header(void **state)
{
	(void)state;
	uint8_t frame[100];
	struct result result;
	static const struct {
		enum base_link link;
		uint8_t head[20];
		size_t keep;
	} cases[] = {
		{ BASE_LINK_ETHERNET, { [12] = 0x88, 0xcc }, 14 },           /* LLDP */
		{ BASE_LINK_ETHERNET, { [12] = 0, 50, 0x42, 0x42, 3 }, 14 }, /* STP */
		{ BASE_LINK_ETHERNET, { [12] = 0x81, 0, 0, 1, 0x88, 0xcc }, 18 },
		{ BASE_LINK_ETHERNET, { [12] = 0x08, 0, 0x61 }, 14 }, /* a wrong version */
		{ BASE_LINK_RAW, { 0x31 }, 0 },
		{ BASE_LINK_PPP, { 0xff, 3, 0xc0, 0x21 }, 4 },
		{ BASE_LINK_NULL, { 7 }, 4 },
		{ BASE_LINK_C_HDLC, { 0x8f, 0, 0x80, 0x35 }, 4 },
		{ BASE_LINK_SLL2, { 0x88, 0xcc }, 20 },
	};
	for (int keep = 0; keep < 2; keep++) {
		options.keep_payload = keep;
		for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
			memset(frame, 0x77, sizeof(frame));
			memcpy(frame, cases[i].head, sizeof(cases[i].head));
			anonymize(&result, cases[i].link, frame, sizeof(frame));
			assert_int_equal(result.size, cases[i].keep);
			assert_int_equal(result.report.cut_packets, 1);
		}
		anonymize(&result, BASE_LINK_ETHERNET, frame, 0);
		assert_int_equal(result.size, 0);
	}
	options.keep_payload = false;
}

static void cooked_headers_lose_the_senders_address(void **state)
{
	(void)state;
	static const size_t places[] = { 6, 12 };
	for (int v2 = 0; v2 < 2; v2++) {
		for (unsigned int length = 0; length <= 8; length++) {
			uint8_t frame[256];
			struct result result;
			struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
			spec.link = v2 ? BASE_LINK_SLL2 : BASE_LINK_SLL;
			size_t size = packets_build(frame, sizeof(frame), &spec);
			memset(frame + places[v2], 0x99, 8);
			frame[v2 ? 11 : 5] = (uint8_t)length;
			anonymize(&result, spec.link, frame, size);
			assert_memory_equal(result.frame + places[v2], zeros, 8);
			assert_int_equal(result.report.ip4_addresses, 2);
		}
	}
}

/* An IPv4 packet with these options, UDP with a checksum. */
static size_t with_options(uint8_t *ip, const uint8_t *bytes, uint8_t size)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 5, 0x0a000002, 6);
	spec.link = BASE_LINK_RAW;
	spec.ip_options_len = size;
	spec.payload_len = 4;
	size_t packet = packets_build(ip, 256, &spec);
	memcpy(ip + 20, bytes, size);
	packets_fix_checksums(ip, packet);
	return packet;
}

static void addresses_in_ip_options_are_replaced(void **state)
{
	(void)state;
	uint8_t ip[256];
	struct result result;
	options.keep_payload = true;
	static const uint8_t route[] = { 7, 11, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1 };
	size_t size = with_options(ip, route, sizeof(route));
	anonymize(&result, BASE_LINK_RAW, ip, size);
	assert_int_equal(result.size, size);
	check_mapped(result.frame + 23, ip + 23, 4);
	check_mapped(result.frame + 27, ip + 27, 4);
	assert_true(packets_checksums_valid(result.frame, size));

	static const uint8_t stamps[] = { 68, 20, 13, 1, 1, 2, 3, 4, 0, 0, 0, 9, 5, 6, 7, 8, 0, 0,
		0, 10 };
	size = with_options(ip, stamps, sizeof(stamps));
	anonymize(&result, BASE_LINK_RAW, ip, size);
	check_mapped(result.frame + 24, ip + 24, 4);
	check_mapped(result.frame + 32, ip + 32, 4);
	assert_memory_equal(result.frame + 28, ip + 28, 4);
	assert_true(packets_checksums_valid(result.frame, size));

	/* Not known: emptied. Router alert stays. What stands behind the end goes. */
	static const uint8_t others[] = { 148, 4, 0, 1, 134, 6, 1, 2, 3, 4, 0, 9 };
	static const uint8_t emptied[] = { 148, 4, 0, 1, 134, 6, 0, 0, 0, 0, 0, 0 };
	size = with_options(ip, others, sizeof(others));
	anonymize(&result, BASE_LINK_RAW, ip, size);
	assert_memory_equal(result.frame + 20, emptied, sizeof(emptied));
	assert_true(packets_checksums_valid(result.frame, size));
	options.keep_payload = false;
}

/* Checksums of source-routed packets are those of the route's last address. */
static void a_source_route_under_way_keeps_its_checksum_right(void **state)
{
	(void)state;
	for (uint8_t pointer = 4; pointer <= 12; pointer += 4) {
		const uint8_t route[] = { 131, 11, pointer, 1, 2, 3, 4, 5, 6, 7, 8, 0 };
		uint8_t ip[256], routed[256];
		struct result result;
		size_t size = with_options(ip, route, sizeof(route));
		bool ended = pointer > 11;
		if (!ended) { /* as if sent to the last address */
			memcpy(routed, ip, size);
			memcpy(routed + 16, ip + 27, 4);
			packets_fix_checksums(routed, size);
			memcpy(ip + 32 + 6, routed + 32 + 6, 2);
		}
		options.keep_payload = true;
		anonymize(&result, BASE_LINK_RAW, ip, size);
		options.keep_payload = false;
		memcpy(routed, result.frame, size);
		if (!ended) {
			memcpy(routed + 16, routed + 27, 4);
			packets_fix_checksums(routed, size);
		}
		assert_true(packets_checksums_valid(routed, size));
		assert_memory_equal(result.frame + 32, routed + 32, size - 32);
	}
}

static void ip6_routing_headers_and_home_addresses_are_replaced(void **state)
{
	(void)state;
	static const struct {
		uint8_t type, left, last_entry;
		int final; /* which address the checksum is of; -1: the header's */
	} cases[] = { { 0, 2, 0, 1 }, { 0, 0, 0, -1 }, { 2, 1, 0, 0 }, { 4, 1, 1, 0 },
		{ 4, 0, 1, -1 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		uint8_t frame[512], header[8 + 32 + 8] = { 0 };
		struct result result;
		uint8_t count = cases[i].type == 2 ? 1 : 2, tail = cases[i].type == 4 ? 8 : 0;
		header[0] = BASE_PROTOCOL_TCP;
		header[1] = (uint8_t)((16 * count + tail) / 8);
		header[2] = cases[i].type;
		header[3] = cases[i].left;
		header[4] = cases[i].last_entry;
		for (int j = 8; j < 48; j++)
			header[j] = (uint8_t)(j * 7);
		struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
		spec.link = BASE_LINK_RAW;
		spec.ip6_headers = header;
		spec.ip6_headers_len = (uint16_t)(8 + 16 * count + tail);
		spec.ip6_first_header = 43;
		spec.payload_len = 21;
		size_t size = packets_build(frame, sizeof(frame), &spec);
		size_t l4 = 40u + spec.ip6_headers_len;
		if (cases[i].final >= 0) { /* build the checksum for that destination */
			uint8_t saved[16];
			uint8_t *final = frame + 48 + 16 * cases[i].final;
			memcpy(saved, frame + 24, 16);
			traces_put_net16(frame + l4 + 16, 0);
			uint8_t pseudo[8] = { [7] = BASE_PROTOCOL_TCP };
			traces_put_net32(pseudo, (uint32_t)(size - l4));
			uint32_t sum = base_checksum_add(frame + 8, 16, 0);
			sum = base_checksum_add(final, 16, sum);
			sum = base_checksum_add(pseudo, 8, sum);
			uint16_t checksum =
				base_checksum_finish(base_checksum_add(frame + l4, size - l4, sum));
			memcpy(frame + l4 + 16, &checksum, 2);
		}
		options.keep_payload = true;
		anonymize(&result, BASE_LINK_RAW, frame, size);
		options.keep_payload = false;
		assert_int_equal(result.size, size);
		assert_int_equal(result.report.ip6_addresses, 2u + count);
		for (int j = 0; j < count; j++)
			check_mapped(result.frame + 48 + 16 * j, frame + 48 + 16 * j, 16);
		if (tail > 0)
			assert_memory_equal(result.frame + 80, zeros, 8);
		assert_true(ip6_checksum_valid(result.frame, l4, size, BASE_PROTOCOL_TCP,
			result.frame + (cases[i].final < 0 ? 24 : 48 + 16 * cases[i].final)));
	}
	/* A kind that is not known: the walk ends before it. */
	uint8_t frame[512], header[24] = { BASE_PROTOCOL_UDP, 2, 3, 1 };
	struct result result;
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	spec.link = BASE_LINK_RAW;
	spec.ip6_headers = header;
	spec.ip6_headers_len = sizeof(header);
	spec.ip6_first_header = 43;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, 40);
}

static void ip6_options_are_known_or_emptied(void **state)
{
	(void)state;
	uint8_t frame[512];
	const uint8_t header[] = { BASE_PROTOCOL_UDP, 3, 0xc9, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
		11, 12, 13, 14, 15, 16, 5, 2, 0, 0, 0x1e, 4, 0xde, 0xad, 0xbe, 0xef, 0, 0 };
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	struct result result;
	spec.link = BASE_LINK_RAW;
	spec.ip6_headers = header;
	spec.ip6_headers_len = sizeof(header);
	spec.ip6_first_header = 60;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, size);
	assert_int_equal(result.report.ip6_addresses, 3);
	check_mapped(result.frame + 44, frame + 44, 16);
	assert_memory_equal(result.frame + 60, header + 20, 4);
	assert_memory_equal(result.frame + 66, zeros, 4);
	/* At every cut, nothing of what was cut off is needed. */
	for (size_t cap_len = 0; cap_len <= size; cap_len++)
		anonymize(&result, BASE_LINK_RAW, frame, cap_len);
}

static size_t build_icmp6(uint8_t *frame, uint8_t type, const uint8_t *body, uint16_t body_len)
{
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_ICMP6, 1, 0, 3, 0);
	spec.link = BASE_LINK_RAW;
	spec.icmp_type = type;
	spec.payload = body;
	spec.payload_len = body_len;
	return packets_build(frame, 512, &spec);
}

static void neighbours_and_listeners_are_replaced_their_options_go(void **state)
{
	(void)state;
	static const struct {
		uint8_t type, addresses;
	} cases[] = { { 135, 1 }, { 136, 1 }, { 137, 2 }, { 130, 1 }, { 131, 1 }, { 132, 1 },
		{ 133, 0 }, { 134, 0 }, { 143, 0 }, { 200, 0 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		uint8_t frame[512], body[16 * 2 + 8];
		struct result result;
		for (size_t j = 0; j < sizeof(body); j++)
			body[j] = (uint8_t)(j * 5 + 1);
		size_t kept = 48u + 16u * cases[i].addresses;
		size_t size = build_icmp6(frame, cases[i].type, body, sizeof(body));
		anonymize(&result, BASE_LINK_RAW, frame, size);
		assert_int_equal(result.size, kept);
		for (int j = 0; j < cases[i].addresses; j++)
			check_mapped(result.frame + 48 + 16 * j, frame + 48 + 16 * j, 16);
		/* With what was cut put back, the checksum is right. */
		memcpy(result.frame + kept, frame + kept, size - kept);
		assert_true(ip6_checksum_valid(
			result.frame, 40, size, BASE_PROTOCOL_ICMP6, result.frame + 24));
	}
}

static void redirects_groups_and_other_icmp(void **state)
{
	(void)state;
	uint8_t frame[512], quoted[128];
	struct result result;
	struct packets_spec inner = packets_ip4(BASE_PROTOCOL_UDP, 0x0a010101, 5, 0x0a010102, 6);
	inner.link = BASE_LINK_RAW;
	size_t quoted_len = packets_build(quoted, sizeof(quoted), &inner);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_ICMP, 1, 0x0a00, 3, 0x0009);
	spec.link = BASE_LINK_RAW;
	spec.icmp_type = 5; /* the gateway stands where others have identifier and number */
	spec.payload = quoted;
	spec.payload_len = (uint16_t)quoted_len;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, size);
	check_mapped(result.frame + 24, frame + 24, 4);
	check_mapped(result.frame + 40, frame + 40, 4);
	assert_true(packets_checksums_valid(result.frame, size));
	assert_true(packets_checksums_valid(result.frame + 28, quoted_len));

	/* Advertised routers' addresses are not kept, whatever else is. */
	options.keep_payload = true;
	spec.icmp_type = 9;
	size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, 28);
	spec.icmp_type = 8;
	size = packets_build(frame, sizeof(frame), &spec);
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, size);
	options.keep_payload = false;

	static const uint8_t igmp[] = { 0x16, 0, 0x09, 0xf2, 224, 1, 2, 3 };
	spec = packets_ip4(2, 1, 2, 3, 4);
	spec.link = BASE_LINK_RAW;
	spec.payload = igmp;
	spec.payload_len = sizeof(igmp);
	size = packets_build(frame, sizeof(frame), &spec);
	uint16_t sum = base_checksum_finish(base_checksum_add(igmp, sizeof(igmp), 0));
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, 28);
	check_mapped(result.frame + 24, igmp + 4, 4);
	/* As right, or as wrong, as it was. */
	assert_int_equal(base_checksum_finish(base_checksum_add(result.frame + 20, 8, 0)), sum);
	frame[20] = 0x22; /* version 3: records of sources */
	anonymize(&result, BASE_LINK_RAW, frame, size);
	assert_int_equal(result.size, 24);
}

/* RFC 4884: behind the quoted packet stand extensions, with addresses of interfaces. */
static void extensions_of_icmp_are_not_kept(void **state)
{
	(void)state;
	uint8_t frame[512], quoted[128 + 20] = { 0 };
	struct result result;
	struct packets_spec inner = packets_ip4(BASE_PROTOCOL_UDP, 0x0a010101, 5, 0x0a010102, 6);
	inner.link = BASE_LINK_RAW;
	inner.payload_len = 400;
	uint8_t whole[512];
	packets_build(whole, sizeof(whole), &inner);
	memcpy(quoted, whole, 128);
	memset(quoted + 128, 0xee, 20);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_ICMP, 1, 32, 3, 0); /* 32 words */
	spec.link = BASE_LINK_RAW;
	spec.icmp_type = 11;
	spec.payload = quoted;
	spec.payload_len = sizeof(quoted);
	size_t size = packets_build(frame, sizeof(frame), &spec);
	options.keep_payload = true;
	anonymize(&result, BASE_LINK_RAW, frame, size);
	options.keep_payload = false;
	assert_int_equal(result.size, 28 + 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arp_has_four_addresses_and_no_padding),
		cmocka_unit_test(what_is_not_ip_ends_behind_the_link_header),
		cmocka_unit_test(cooked_headers_lose_the_senders_address),
		cmocka_unit_test(addresses_in_ip_options_are_replaced),
		cmocka_unit_test(a_source_route_under_way_keeps_its_checksum_right),
		cmocka_unit_test(ip6_routing_headers_and_home_addresses_are_replaced),
		cmocka_unit_test(ip6_options_are_known_or_emptied),
		cmocka_unit_test(neighbours_and_listeners_are_replaced_their_options_go),
		cmocka_unit_test(redirects_groups_and_other_icmp),
		cmocka_unit_test(extensions_of_icmp_are_not_kept),
	};
	return cmocka_run_group_tests(tests, anonymize_setup, anonymize_teardown);
}
