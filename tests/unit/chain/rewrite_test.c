/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/checksum.h"
#include "chain/rewrite.h"
#include "tests/support/packets.h"

#include "tests/unit/chain/test.h"

static const uint8_t new_ip4[4] = { 198, 18, 200, 7 };
static const uint8_t new_ip6[16] = { 0x20, 0x01, 0, 2, 0xff, 0xff, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7 };

static struct packets_spec spec_of(uint8_t family, uint8_t protocol)
{
	struct packets_spec spec =
		family == 4 ? packets_ip4(protocol, 0x0a010203, 40000, 0xc0a80105, 443)
			    : packets_ip6(protocol, 0x0a010203, 40000, 0xc0a80105, 443);
	spec.payload_len = 33;
	return spec;
}

/* Where the parser would say that the headers are. */
static void set_offsets(struct base_packet *packet, const struct packets_spec *spec)
{
	size_t l3 = packets_l3_offset(spec);
	bool ip6 = spec->family == 6;
	packet->l3_offset = (uint16_t)l3;
	packet->l4_offset =
		(uint16_t)(l3 + (ip6 ? 40u + spec->ip6_headers_len : 20u + spec->ip_options_len));
	packet->protocol = spec->protocol;
	packet->flags =
		BASE_PACKET_FLOW | BASE_PACKET_L4 | (ip6 ? BASE_PACKET_IP6 : BASE_PACKET_IP4);
}

static struct base_packet *build(struct packets_pool *pool, const struct packets_spec *spec)
{
	packets_pool_init(pool, 1);
	struct base_packet *packet = packets_pool_build(pool, 0, spec, 0);
	set_offsets(packet, spec);
	return packet;
}

static struct chain_rewrite to_new(uint8_t family, uint16_t port, bool with_port)
{
	return (struct chain_rewrite){
		.address = family == 6 ? new_ip6 : new_ip4, .port = port, .with_port = with_port
	};
}

static bool valid(const struct base_packet *packet)
{
	return packets_checksums_valid(
		packet->data + packet->l3_offset, packet->cap_len - packet->l3_offset);
}

static unsigned int read16(const uint8_t *bytes)
{
	return (unsigned int)bytes[0] << 8 | bytes[1];
}

static const struct {
	uint8_t family, protocol;
} kinds[] = {
	{ 4, BASE_PROTOCOL_TCP },
	{ 4, BASE_PROTOCOL_UDP },
	{ 4, BASE_PROTOCOL_ICMP },
	{ 4, BASE_PROTOCOL_GRE },
	{ 4, BASE_PROTOCOL_SCTP },
	{ 6, BASE_PROTOCOL_TCP },
	{ 6, BASE_PROTOCOL_UDP },
	{ 6, BASE_PROTOCOL_ICMP6 },
};

static void checksums_are_right_after_a_rewrite(void **state)
{
	(void)state;
	for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
		for (int side = 0; side < 2; side++) {
			struct packets_spec spec = spec_of(kinds[k].family, kinds[k].protocol);
			struct packets_pool pool;
			struct base_packet *packet = build(&pool, &spec);
			struct chain_rewrite to = to_new(spec.family, 1234, true);
			chain_rewrite_packet(packet, (enum chain_side)side, &to);
			size_t size = spec.family == 6 ? 16 : 4;
			const uint8_t *address = packet->data + packet->l3_offset +
						 (spec.family == 6 ? 8 : 12) + (size_t)side * size;
			assert_memory_equal(address, to.address, size);
			assert_true(valid(packet));
			packets_pool_release(&pool);
		}
	}
}

static void ports_and_identifiers_land_in_their_fields(void **state)
{
	(void)state;
	static const struct {
		uint8_t family, protocol;
		enum chain_side side;
		unsigned int offset;
	} cases[] = {
		{ 4, BASE_PROTOCOL_TCP, CHAIN_SIDE_SOURCE, 0 },
		{ 4, BASE_PROTOCOL_UDP, CHAIN_SIDE_DESTINATION, 2 },
		{ 4, BASE_PROTOCOL_ICMP, CHAIN_SIDE_SOURCE, 4 },
		{ 4, BASE_PROTOCOL_ICMP, CHAIN_SIDE_DESTINATION, 4 },
		{ 6, BASE_PROTOCOL_TCP, CHAIN_SIDE_DESTINATION, 2 },
	};
	for (size_t k = 0; k < BASE_ARRAY_COUNT(cases); k++) {
		struct packets_spec spec = spec_of(cases[k].family, cases[k].protocol);
		struct packets_pool pool;
		struct base_packet *packet = build(&pool, &spec);
		struct chain_rewrite to = to_new(spec.family, 0x1234, true);
		assert_true(chain_rewrite_has_port(packet));
		chain_rewrite_packet(packet, cases[k].side, &to);
		assert_int_equal(
			read16(packet->data + packet->l4_offset + cases[k].offset), 0x1234);
		packets_pool_release(&pool);
	}
}

static void icmp_messages_that_are_no_queries_keep_their_bytes(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_ICMP);
	spec.icmp_type = 9; /* router advertisement */
	struct packets_pool pool;
	struct base_packet *packet = build(&pool, &spec);
	struct chain_rewrite to = to_new(4, 7, true);
	assert_false(chain_rewrite_has_port(packet));
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
	assert_int_equal(read16(packet->data + packet->l4_offset + 4), 40000);
	assert_true(valid(packet));
	packets_pool_release(&pool);
}

static void sctp_keeps_its_ports(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_SCTP);
	struct packets_pool pool;
	struct base_packet *packet = build(&pool, &spec);
	struct chain_rewrite to = to_new(4, 7, true);
	assert_false(chain_rewrite_has_port(packet));
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
	assert_int_equal(read16(packet->data + packet->l4_offset), 40000);
	packets_pool_release(&pool);
}

static void rewriting_back_restores_every_byte(void **state)
{
	(void)state;
	for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
		struct packets_spec spec = spec_of(kinds[k].family, kinds[k].protocol);
		struct packets_pool pool;
		struct base_packet *packet = build(&pool, &spec);
		uint8_t *before = malloc(packet->cap_len);
		assert_non_null(before);
		memcpy(before, packet->data, packet->cap_len);
		struct chain_rewrite to = to_new(spec.family, 1234, true);
		struct chain_rewrite back = { spec.source, 40000, true };
		chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
		assert_memory_not_equal(before, packet->data, packet->cap_len);
		chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &back);
		assert_memory_equal(before, packet->data, packet->cap_len);
		free(before);
		packets_pool_release(&pool);
	}
}

static void udp_checksum_zero_stays_zero(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_UDP);
	spec.udp_no_checksum = true;
	for (int plain = 0; plain < 2; plain++) {
		struct packets_pool pool;
		struct base_packet *packet = build(&pool, &spec);
		struct chain_rewrite to = to_new(4, 1234, true);
		uint32_t address;
		memcpy(&address, new_ip4, 4);
		if (plain)
			chain_rewrite_plain_source(packet, address, 1234);
		else
			chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
		assert_int_equal(read16(packet->data + packet->l4_offset + 6), 0);
		assert_true(valid(packet));
		packets_pool_release(&pool);
	}
}

/* Tries all ports: one of them makes the checksum come out as zero. */
static void a_computed_udp_checksum_of_zero_is_written_as_ones(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_UDP);
	struct packets_pool pool, plain_pool;
	struct base_packet *packet = build(&pool, &spec);
	struct base_packet *plain = build(&plain_pool, &spec);
	unsigned int ones = 0;
	uint32_t address;
	memcpy(&address, new_ip4, 4);
	for (unsigned int port = 0; port < 65536; port++) {
		struct chain_rewrite to = to_new(4, (uint16_t)port, true);
		chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
		chain_rewrite_plain_source(plain, address, __builtin_bswap16((uint16_t)port));
		unsigned int checksum = read16(packet->data + packet->l4_offset + 6);
		assert_int_not_equal(checksum, 0);
		ones += checksum == 0xffff;
		assert_memory_equal(packet->data, plain->data, plain->cap_len);
	}
	assert_int_equal(ones, 1);
	assert_true(valid(packet));
	packets_pool_release(&pool);
	packets_pool_release(&plain_pool);
}

static void wrong_checksums_stay_as_wrong_as_they_were(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_TCP);
	struct packets_pool pool, wrong_pool;
	struct base_packet *packet = build(&pool, &spec);
	struct base_packet *wrong = build(&wrong_pool, &spec);
	uint8_t *fields[2][2] = {
		{ packet->data + packet->l3_offset + 10, wrong->data + wrong->l3_offset + 10 },
		{ packet->data + packet->l4_offset + 16, wrong->data + wrong->l4_offset + 16 },
	};
	for (int i = 0; i < 2; i++)
		fields[i][1][1] ^= 0x5a;
	struct chain_rewrite to = to_new(4, 1234, true);
	struct chain_rewrite back = { spec.source, 40000, true };
	chain_rewrite_packet(wrong, CHAIN_SIDE_SOURCE, &to);
	assert_false(valid(wrong));
	chain_rewrite_packet(wrong, CHAIN_SIDE_SOURCE, &back);
	for (int i = 0; i < 2; i++) {
		fields[i][1][1] ^= 0x5a;
		assert_memory_equal(fields[i][0], fields[i][1], 2);
	}
	packets_pool_release(&pool);
	packets_pool_release(&wrong_pool);
}

/* What a cut packet should be: the whole one's bytes, as far as fields were captured whole. */
static void assert_cut(const struct base_packet *packet, const uint8_t *frame, const uint8_t *whole)
{
	bool icmp =
		packet->protocol == BASE_PROTOCOL_ICMP || packet->protocol == BASE_PROTOCOL_ICMP6;
	size_t header = (packet->flags & BASE_PACKET_IP6) ? 40 : 20;
	const uint8_t *want = packet->cap_len < packet->l3_offset + header ? frame : whole;
	for (uint32_t i = 0; i < packet->cap_len; i++) {
		/* An identifier that was cut off stays, and so does the checksum before it. */
		if (icmp && i >= packet->l4_offset && packet->cap_len < packet->l4_offset + 6u)
			break;
		/* A field cut in the middle is not touched. */
		if (i + 1 == packet->cap_len && packet->data[i] == frame[i])
			break;
		assert_int_equal(packet->data[i], want[i]);
	}
}

/* Every length a capture can cut to; each frame is an allocation of exactly that size. */
static void cut_packets_are_rewritten_as_far_as_they_go(void **state)
{
	(void)state;
	for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
		struct packets_spec spec = spec_of(kinds[k].family, kinds[k].protocol);
		uint8_t frame[256];
		size_t wire_len = packets_build(frame, sizeof(frame), &spec);
		struct packets_pool whole_pool, pool;
		struct base_packet *whole = build(&whole_pool, &spec);
		struct chain_rewrite to = to_new(spec.family, 1234, true);
		chain_rewrite_packet(whole, CHAIN_SIDE_SOURCE, &to);
		packets_pool_init(&pool, 1);
		for (size_t cap_len = 1; cap_len < wire_len; cap_len++) {
			struct base_packet *packet =
				packets_pool_set(&pool, 0, spec.link, frame, cap_len, wire_len, 0);
			set_offsets(packet, &spec);
			chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
			assert_cut(packet, frame, whole->data);
		}
		packets_pool_release(&pool);
		packets_pool_release(&whole_pool);
	}
}

static void later_fragments_change_addresses_only(void **state)
{
	(void)state;
	for (unsigned int family = 4; family <= 6; family += 2) {
		struct packets_spec spec = spec_of((uint8_t)family, BASE_PROTOCOL_UDP);
		uint8_t frame[512];
		size_t len = packets_build_fragment(frame, sizeof(frame), &spec, 16, 16);
		struct packets_pool pool;
		packets_pool_init(&pool, 1);
		struct base_packet *packet =
			packets_pool_set(&pool, 0, spec.link, frame, len, 0, 0);
		set_offsets(packet, &spec);
		assert_false(chain_rewrite_has_port(packet));
		struct chain_rewrite to = to_new((uint8_t)family, 1234, true);
		chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
		size_t data = len - 16;
		assert_memory_equal(packet->data + data, frame + data, 16);
		if (family == 4)
			assert_true(base_checksum_finish(base_checksum_add(
					    packet->data + packet->l3_offset, 20, 0)) == 0);
		packets_pool_release(&pool);
	}
}

/* A datagram in two fragments, rewritten apart, has a right checksum when it is put together. */
static void first_fragment_carries_the_checksum_of_the_whole(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_UDP);
	uint8_t frame[512], whole[512];
	size_t whole_len = packets_build(whole, sizeof(whole), &spec);
	size_t len = packets_build_fragment(frame, sizeof(frame), &spec, 0, 16);
	struct packets_pool pool;
	packets_pool_init(&pool, 1);
	struct base_packet *packet = packets_pool_set(&pool, 0, spec.link, frame, len, 0, 0);
	set_offsets(packet, &spec);
	struct chain_rewrite to = to_new(4, 1234, true);
	chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
	size_t l3 = packet->l3_offset;
	memcpy(whole + l3 + 12, packet->data + l3 + 12, 8 + 16);
	uint16_t zero = 0;
	memcpy(whole + l3 + 10, &zero, 2);
	uint16_t checksum = base_checksum_finish(base_checksum_add(whole + l3, 20, 0));
	memcpy(whole + l3 + 10, &checksum, 2);
	assert_true(packets_checksums_valid(whole + l3, whole_len - l3));
	packets_pool_release(&pool);
}

/* The last extension header names the transport protocol. */
static void extension_headers_are_walked(void **state)
{
	(void)state;
	uint8_t headers[24] = { 60, 0, 1, 4, 0, 0, 0, 0 };
	headers[8] = BASE_PROTOCOL_TCP;
	headers[9] = 1;
	struct packets_spec spec = spec_of(6, BASE_PROTOCOL_TCP);
	spec.ip6_headers = headers;
	spec.ip6_headers_len = sizeof(headers);
	struct packets_pool pool;
	struct base_packet *packet = build(&pool, &spec);
	struct chain_rewrite to = to_new(6, 1234, true);
	struct chain_rewrite back = { spec.source, 40000, true };
	uint8_t before[2];
	memcpy(before, packet->data + packet->l4_offset + 16, 2);
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
	assert_int_equal(read16(packet->data + packet->l4_offset), 1234);
	assert_memory_not_equal(before, packet->data + packet->l4_offset + 16, 2);
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &back);
	assert_memory_equal(before, packet->data + packet->l4_offset + 16, 2);
	packets_pool_release(&pool);
}

static void a_destination_on_a_detour_is_not_in_the_checksum(void **state)
{
	(void)state;
	uint8_t headers[24] = { BASE_PROTOCOL_TCP, 2, 0, 1 }; /* type 0, one segment left */
	struct packets_spec spec = spec_of(6, BASE_PROTOCOL_TCP);
	spec.ip6_headers = headers;
	spec.ip6_headers_len = sizeof(headers);
	spec.ip6_first_header = 43;
	struct packets_pool pool;
	struct base_packet *packet = build(&pool, &spec);
	uint8_t before[2];
	memcpy(before, packet->data + packet->l4_offset + 16, 2);
	struct chain_rewrite to = to_new(6, 0, false);
	chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
	assert_memory_equal(before, packet->data + packet->l4_offset + 16, 2);
	chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
	assert_memory_not_equal(before, packet->data + packet->l4_offset + 16, 2);
	packets_pool_release(&pool);
}

static const struct {
	uint8_t family, error_type, protocol;
} quotes[] = {
	{ 4, 3, BASE_PROTOCOL_TCP },
	{ 4, 3, BASE_PROTOCOL_UDP },
	{ 4, 11, BASE_PROTOCOL_ICMP },
	{ 4, 3, BASE_PROTOCOL_GRE },
	{ 6, 1, BASE_PROTOCOL_TCP },
	{ 6, 2, BASE_PROTOCOL_UDP },
	{ 6, 3, BASE_PROTOCOL_ICMP6 },
};

static struct base_packet *build_error(struct packets_pool *pool, size_t k, size_t quote_len,
	size_t padding, struct packets_spec *inner)
{
	uint8_t frame[512] = { 0 };
	*inner = spec_of(quotes[k].family, quotes[k].protocol);
	struct packets_spec error = spec_of(
		quotes[k].family, quotes[k].family == 6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP);
	error.icmp_type = quotes[k].error_type;
	error.source_port = 0;
	error.destination_port = 0;
	size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, inner, quote_len);
	packets_pool_init(pool, 1);
	struct base_packet *packet =
		packets_pool_set(pool, 0, error.link, frame, len + padding, 0, 0);
	set_offsets(packet, &error);
	packet->flags |= BASE_PACKET_ICMP_ERROR;
	packet->quote_offset = (uint16_t)(packet->l4_offset + 8);
	return packet;
}

static void quotes_and_the_errors_around_them_keep_right_checksums(void **state)
{
	(void)state;
	for (size_t k = 0; k < BASE_ARRAY_COUNT(quotes); k++) {
		for (int side = 0; side < 2; side++) {
			struct packets_pool pool;
			struct packets_spec inner;
			struct base_packet *packet = build_error(&pool, k, 256, 0, &inner);
			struct chain_rewrite to = to_new(inner.family, 1234, true);
			struct chain_rewrite outer = to_new(inner.family, 0, false);
			chain_rewrite_quote(packet, (enum chain_side)side, &to);
			assert_true(valid(packet));
			assert_true(packets_checksums_valid(packet->data + packet->quote_offset,
				packet->cap_len - packet->quote_offset));
			size_t size = inner.family == 6 ? 16 : 4;
			assert_memory_equal(packet->data + packet->quote_offset +
						    (inner.family == 6 ? 8 : 12) +
						    (size_t)side * size,
				to.address, size);
			chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &outer);
			assert_true(valid(packet));
			packets_pool_release(&pool);
		}
	}
}

/* Routers often quote 8 bytes of the transport header: no TCP checksum among them. The frame's
 * padding behind the datagram must not be taken for more of the quote. */
static void short_quotes_change_nothing_beyond_themselves(void **state)
{
	(void)state;
	for (size_t k = 0; k < BASE_ARRAY_COUNT(quotes); k++) {
		for (size_t l4_len = 0; l4_len <= 20; l4_len += 2) {
			struct packets_pool pool;
			struct packets_spec inner;
			size_t header = quotes[k].family == 6 ? 40 : 20;
			struct base_packet *packet =
				build_error(&pool, k, header + l4_len, 24, &inner);
			struct chain_rewrite to = to_new(inner.family, 1234, true);
			chain_rewrite_quote(packet, CHAIN_SIDE_SOURCE, &to);
			assert_true(valid(packet));
			for (uint32_t i = packet->cap_len - 24; i < packet->cap_len; i++)
				assert_int_equal(packet->data[i], 0);
			packets_pool_release(&pool);
		}
	}
}

static void a_quote_in_other_packets_is_not_looked_for(void **state)
{
	(void)state;
	struct packets_spec spec = spec_of(4, BASE_PROTOCOL_TCP);
	struct packets_pool pool;
	struct base_packet *packet = build(&pool, &spec);
	uint8_t before[256];
	memcpy(before, packet->data, packet->cap_len);
	packet->quote_offset = packet->l3_offset;
	struct chain_rewrite to = to_new(4, 1234, true);
	chain_rewrite_quote(packet, CHAIN_SIDE_SOURCE, &to);
	assert_memory_equal(before, packet->data, packet->cap_len);
	packets_pool_release(&pool);
}

static void shortcut_for_plain_packets_equals_the_plain_way(void **state)
{
	(void)state;
	uint32_t address;
	memcpy(&address, new_ip4, 4);
	static const uint8_t protocols[2] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP };
	for (unsigned int i = 0; i < 256; i++) {
		struct packets_spec spec = spec_of(4, protocols[i % 2]);
		spec.payload_len = (uint16_t)i;
		spec.source[3] = (uint8_t)i;
		struct packets_pool pool, plain_pool;
		struct base_packet *packet = build(&pool, &spec);
		struct base_packet *plain = build(&plain_pool, &spec);
		struct chain_rewrite to = to_new(4, 0x0102, true);
		struct chain_rewrite to_address = to_new(4, 0, false);
		assert_true(chain_rewrite_is_plain(plain));
		chain_rewrite_packet(packet, CHAIN_SIDE_SOURCE, &to);
		chain_rewrite_plain_source(plain, address, __builtin_bswap16(0x0102));
		assert_memory_equal(packet->data, plain->data, plain->cap_len);
		chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to_address);
		chain_rewrite_plain_destination(plain, address, chain_rewrite_sum32(address));
		assert_memory_equal(packet->data, plain->data, plain->cap_len);
		assert_true(valid(plain));
		packets_pool_release(&pool);
		packets_pool_release(&plain_pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_are_right_after_a_rewrite),
		cmocka_unit_test(ports_and_identifiers_land_in_their_fields),
		cmocka_unit_test(icmp_messages_that_are_no_queries_keep_their_bytes),
		cmocka_unit_test(sctp_keeps_its_ports),
		cmocka_unit_test(rewriting_back_restores_every_byte),
		cmocka_unit_test(udp_checksum_zero_stays_zero),
		cmocka_unit_test(a_computed_udp_checksum_of_zero_is_written_as_ones),
		cmocka_unit_test(wrong_checksums_stay_as_wrong_as_they_were),
		cmocka_unit_test(cut_packets_are_rewritten_as_far_as_they_go),
		cmocka_unit_test(later_fragments_change_addresses_only),
		cmocka_unit_test(first_fragment_carries_the_checksum_of_the_whole),
		cmocka_unit_test(extension_headers_are_walked),
		cmocka_unit_test(a_destination_on_a_detour_is_not_in_the_checksum),
		cmocka_unit_test(quotes_and_the_errors_around_them_keep_right_checksums),
		cmocka_unit_test(short_quotes_change_nothing_beyond_themselves),
		cmocka_unit_test(a_quote_in_other_packets_is_not_looked_for),
		cmocka_unit_test(shortcut_for_plain_packets_equals_the_plain_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
