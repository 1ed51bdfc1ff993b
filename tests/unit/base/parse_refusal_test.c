/* SPDX-License-Identifier: BSD-2-Clause */
/* Each reason to refuse a packet has a test that provokes it, and its harmless neighbour passes. */
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CLIENT 0x0a000001u
#define SERVER 0x0a000002u
#define ETH    BASE_LINK_ETHERNET

struct frame {
	uint8_t bytes[4096];
	size_t len;
};

static int setup(void **state)
{
	static struct parse_fixture fixture;
	parse_fixture_open(&fixture);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	parse_fixture_close(*state);
	return 0;
}

static struct frame build(const struct packets_spec *spec)
{
	struct frame frame;
	frame.len = packets_build(frame.bytes, sizeof(frame.bytes), spec);
	return frame;
}

static struct frame build4(uint8_t protocol, uint16_t payload_len)
{
	struct packets_spec spec = packets_ip4(protocol, CLIENT, 4000, SERVER, 80);
	spec.payload_len = payload_len;
	return build(&spec);
}

static struct frame build6(uint8_t protocol, uint16_t payload_len)
{
	struct packets_spec spec = packets_ip6(protocol, 1, 4000, 2, 80);
	spec.payload_len = payload_len;
	return build(&spec);
}

/* The frame as it is, nothing cut. */
static void refused(void **state, const struct frame *frame, enum base_drop_reason reason)
{
	parse_fixture_refused(*state, ETH, frame->bytes, frame->len, 0, reason);
}

static void passes(void **state, const struct frame *frame)
{
	struct parse_fixture *f = *state;
	parse_fixture_frame(f, ETH, frame->bytes, frame->len, 0);
	assert_int_equal(f->result, BASE_PARSE_FLOW);
}

static void link_header_cut_short(void **state)
{
	static const uint8_t sizes[BASE_LINKS_COUNT] = { [BASE_LINK_ETHERNET] = 14,
		[BASE_LINK_RAW] = 1,
		[BASE_LINK_NULL] = 4,
		[BASE_LINK_LOOP] = 4,
		[BASE_LINK_SLL] = 16,
		[BASE_LINK_SLL2] = 20,
		[BASE_LINK_PPP] = 2,
		[BASE_LINK_PPP_HDLC] = 2,
		[BASE_LINK_C_HDLC] = 4 };
	static const uint8_t zeros[20];
	for (unsigned int link = 0; link < BASE_LINKS_COUNT; link++)
		for (unsigned int size = 0; size < sizes[link]; size++)
			parse_fixture_refused(
				*state, link, zeros, size, 100, BASE_DROP_LINK_TRUNCATED);
	static const uint8_t hdlc[3] = { 0xff, 0x03, 0x00 };
	parse_fixture_refused(*state, BASE_LINK_PPP, hdlc, 3, 100, BASE_DROP_LINK_TRUNCATED);
	static const uint8_t snap[20] = { [13] = 46, [14] = 0xaa, [15] = 0xaa, [16] = 3 };
	parse_fixture_refused(*state, ETH, snap, 20, 60, BASE_DROP_LINK_TRUNCATED);
}

static void tag_cut_short(void **state)
{
	static const uint16_t types[] = { 0x8100, 0x88a8, 0x9100, 0x9200, 0x8847, 0x8864 };
	uint8_t bytes[64] = { 0 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(types); i++) {
		bytes[12] = (uint8_t)(types[i] >> 8);
		bytes[13] = (uint8_t)types[i];
		parse_fixture_refused(*state, ETH, bytes, 17, 60, BASE_DROP_TAG_TRUNCATED);
	}
	static const uint8_t bottom[18] = { [12] = 0x88, [13] = 0x47, [16] = 1 };
	parse_fixture_refused(*state, ETH, bottom, 18, 0, BASE_DROP_TAG_TRUNCATED);
}

static void more_tags_than_the_limit(void **state)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	spec.tags_count = BASE_PARSE_TAGS_MAX;
	for (unsigned int i = 0; i < PACKETS_TAGS_MAX; i++)
		spec.tags[i] = (struct packets_tag){ i % 2 != 0 ? 0x88a8 : 0x8100, 7 };
	struct frame frame = build(&spec);
	passes(state, &frame);
	spec.tags_count++;
	frame = build(&spec);
	refused(state, &frame, BASE_DROP_TAG_DEPTH);
	for (unsigned int i = 8; i < PACKETS_TAGS_MAX; i++)
		spec.tags[i] = (struct packets_tag){ 0x8847, 7 };
	frame = build(&spec);
	refused(state, &frame, BASE_DROP_TAG_DEPTH);
	spec.tags_count--;
	frame = build(&spec);
	passes(state, &frame);
}

static void version_differs_from_what_the_link_says(void **state)
{
	struct frame four = build4(BASE_PROTOCOL_TCP, 0), six = build6(BASE_PROTOCOL_TCP, 0);
	four.bytes[14] = 0x55;
	refused(state, &four, BASE_DROP_IP_VERSION);
	six.bytes[14] = 0x30;
	refused(state, &six, BASE_DROP_IP_VERSION);
	four.bytes[14] = 0x45;
	four.bytes[12] = 0x86;
	four.bytes[13] = 0xdd;
	refused(state, &four, BASE_DROP_IP_VERSION);
	four.bytes[14] = 0x75;
	parse_fixture_refused(
		*state, BASE_LINK_RAW, four.bytes + 14, four.len - 14, 0, BASE_DROP_IP_VERSION);
}

static void ip4_header_cut_short(void **state)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	spec.ip_options_len = 8;
	struct frame frame = build(&spec);
	for (size_t cut = 14; cut < 14 + 28; cut++)
		parse_fixture_refused(
			*state, ETH, frame.bytes, cut, frame.len, BASE_DROP_IP4_TRUNCATED);
}

static void ip4_header_length_impossible(void **state)
{
	struct frame frame = build4(BASE_PROTOCOL_TCP, 0);
	frame.bytes[14] = 0x44;
	refused(state, &frame, BASE_DROP_IP4_HEADER_LENGTH);
	frame.bytes[14] = 0x4f; /* 60 bytes of header in 40 of datagram */
	refused(state, &frame, BASE_DROP_IP4_HEADER_LENGTH);
}

static void ip4_total_length_impossible(void **state)
{
	struct frame frame = build4(BASE_PROTOCOL_TCP, 0);
	frame.bytes[17] = 19;
	refused(state, &frame, BASE_DROP_IP4_TOTAL_LENGTH);
	frame.bytes[17] = 41; /* one byte more than the wire carried */
	refused(state, &frame, BASE_DROP_IP4_TOTAL_LENGTH);
	parse_fixture_frame(*state, ETH, frame.bytes, frame.len, frame.len + 1);
	assert_int_equal(((struct parse_fixture *)*state)->result, BASE_PARSE_FLOW);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 4000, SERVER, 80);
	spec.frame_min = 60;
	frame = build(&spec);
	frame.bytes[16] = 0x0f;
	refused(state, &frame, BASE_DROP_IP4_TOTAL_LENGTH);
}

static void ip4_fragment_reaches_past_64k(void **state)
{
	struct frame frame = build4(BASE_PROTOCOL_UDP, 0); /* 8 bytes of data */
	frame.bytes[20] = 0x1f;
	frame.bytes[21] = 0xff; /* offset 65528: ends at 65536 */
	refused(state, &frame, BASE_DROP_IP4_FRAGMENT_RANGE);
	frame.bytes[21] = 0xfe;
	passes(state, &frame);
}

static void ip6_header_cut_short(void **state)
{
	struct frame frame = build6(BASE_PROTOCOL_TCP, 0);
	for (size_t cut = 14; cut < 14 + 40; cut++)
		parse_fixture_refused(
			*state, ETH, frame.bytes, cut, frame.len, BASE_DROP_IP6_TRUNCATED);
}

static void ip6_payload_longer_than_the_wire(void **state)
{
	struct frame frame = build6(BASE_PROTOCOL_TCP, 0);
	frame.bytes[19]++;
	refused(state, &frame, BASE_DROP_IP6_PAYLOAD_LENGTH);
	parse_fixture_frame(*state, ETH, frame.bytes, frame.len, frame.len + 1);
	assert_int_equal(((struct parse_fixture *)*state)->result, BASE_PARSE_FLOW);
}

static void ip6_extension_cut_short(void **state)
{
	static const uint8_t options[16] = { BASE_PROTOCOL_UDP, 1 };
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
	spec.ip6_headers = options;
	spec.ip6_headers_len = sizeof(options);
	spec.ip6_first_header = 60;
	struct frame frame = build(&spec);
	passes(state, &frame);
	parse_fixture_refused(*state, ETH, frame.bytes, 14 + 40 + 7, frame.len,
		BASE_DROP_IP6_EXTENSION_TRUNCATED);
	frame.bytes[14 + 41] = 9; /* longer than the datagram */
	refused(state, &frame, BASE_DROP_IP6_EXTENSION_TRUNCATED);
}

static void ip6_extension_chain_too_long(void **state)
{
	uint8_t chain[8 * (BASE_PARSE_EXTENSIONS_MAX + 1)] = { 0 };
	for (unsigned int i = 0; i <= BASE_PARSE_EXTENSIONS_MAX; i++)
		chain[8 * i] = 60;
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
	spec.ip6_headers = chain;
	spec.ip6_headers_len = 8 * BASE_PARSE_EXTENSIONS_MAX;
	spec.ip6_first_header = 60;
	chain[spec.ip6_headers_len - 8] = BASE_PROTOCOL_UDP;
	struct frame frame = build(&spec);
	passes(state, &frame);
	chain[spec.ip6_headers_len - 8] = 60;
	chain[spec.ip6_headers_len] = BASE_PROTOCOL_UDP;
	spec.ip6_headers_len += 8;
	frame = build(&spec);
	refused(state, &frame, BASE_DROP_IP6_EXTENSION_DEPTH);
}

static void ip6_fragment_reaches_past_64k(void **state)
{
	uint8_t header[8] = { BASE_PROTOCOL_UDP, 0, 0xff, 0xf8 };
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
	spec.ip6_headers = header;
	spec.ip6_headers_len = sizeof(header);
	spec.ip6_first_header = 44;
	struct frame frame = build(&spec);
	refused(state, &frame, BASE_DROP_IP6_FRAGMENT_RANGE);
	header[3] = 0xf0;
	frame = build(&spec);
	passes(state, &frame);
}

static void transport_header_cut_short(void **state)
{
	static const struct {
		uint8_t protocol, header_len, needed;
	} cases[] = { { BASE_PROTOCOL_TCP, 20, 4 }, { BASE_PROTOCOL_UDP, 8, 4 },
		{ BASE_PROTOCOL_SCTP, 12, 4 }, { BASE_PROTOCOL_ICMP, 8, 6 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		/* The datagram itself is too short for the header. */
		for (unsigned int len = 0; len < cases[i].header_len; len++) {
			struct frame frame = build4(cases[i].protocol, 0);
			frame.bytes[17] = (uint8_t)(20 + len);
			refused(state, &frame, BASE_DROP_L4_TRUNCATED);
		}
		/* Only the capture is. */
		struct frame whole = build4(cases[i].protocol, 100);
		for (unsigned int len = 0; len < cases[i].needed; len++)
			parse_fixture_refused(*state, ETH, whole.bytes, 34 + len, whole.len,
				BASE_DROP_L4_TRUNCATED);
		parse_fixture_frame(*state, ETH, whole.bytes, 34u + cases[i].needed, whole.len);
		assert_int_equal(((struct parse_fixture *)*state)->result, BASE_PARSE_FLOW);
	}
}

static void tcp_data_offset_impossible(void **state)
{
	struct frame frame = build4(BASE_PROTOCOL_TCP, 3);
	frame.bytes[46] = 0x40;
	refused(state, &frame, BASE_DROP_TCP_DATA_OFFSET);
	frame.bytes[46] = 0x60; /* 24 bytes of header in 23 */
	refused(state, &frame, BASE_DROP_TCP_DATA_OFFSET);
}

static void udp_length_impossible(void **state)
{
	struct frame frame = build4(BASE_PROTOCOL_UDP, 3);
	frame.bytes[39] = 7;
	refused(state, &frame, BASE_DROP_UDP_LENGTH);
	frame.bytes[39] = 12; /* one more than the datagram holds */
	refused(state, &frame, BASE_DROP_UDP_LENGTH);
	frame.bytes[39] = 10; /* less is allowed: options may follow */
	passes(state, &frame);
}

static struct frame build_error(uint8_t family, size_t quote_len)
{
	struct packets_spec quoted = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 0x0a0000fe, 0, CLIENT, 0);
	error.icmp_type = 3;
	if (family == 6) {
		quoted = packets_ip6(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
		error = packets_ip6(BASE_PROTOCOL_ICMP6, 9, 0, 1, 0);
		error.icmp_type = 1;
	}
	struct frame frame;
	frame.len = packets_build_icmp_error(
		frame.bytes, sizeof(frame.bytes), &error, &quoted, quote_len);
	return frame;
}

static void icmp_quote_malformed(void **state)
{
	struct frame frame = build_error(4, 28);
	passes(state, &frame);
	frame.bytes[42] = 0x65;
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
	frame.bytes[42] = 0x44;
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
	frame.bytes[42] = 0x4f;
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
	frame = build_error(4, 19);
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
	frame = build_error(6, 48);
	passes(state, &frame);
	frame.bytes[62] = 0x45;
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
	frame = build_error(6, 39);
	refused(state, &frame, BASE_DROP_ICMP_QUOTE);
}

static struct parse_fixture *inner_fixture(struct parse_fixture *f)
{
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.inner = true;
	parse_fixture_open_with(f, &config);
	return f;
}

static void more_tunnels_than_the_limit(void **)
{
	struct parse_fixture f;
	inner_fixture(&f);
	uint8_t inner[1024], outer[1024];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	spec.link = BASE_LINK_RAW;
	size_t len = packets_build(inner, sizeof(inner), &spec);
	for (int depth = 1; depth <= BASE_PARSE_TUNNELS_MAX + 1; depth++) {
		spec = packets_ip4(BASE_PROTOCOL_IPIP, CLIENT, 0, SERVER, 0);
		spec.link = BASE_LINK_RAW;
		spec.payload = inner;
		spec.payload_len = (uint16_t)len;
		len = packets_build(outer, sizeof(outer), &spec);
		memcpy(inner, outer, len);
		if (depth > BASE_PARSE_TUNNELS_MAX) {
			parse_fixture_refused(
				&f, BASE_LINK_RAW, outer, len, 0, BASE_DROP_TUNNEL_DEPTH);
			continue;
		}
		parse_fixture_frame(&f, BASE_LINK_RAW, outer, len, 0);
		assert_int_equal(f.result, BASE_PARSE_FLOW);
		assert_int_equal(f.pool.packets[0].key.protocol, BASE_PROTOCOL_UDP);
	}
	parse_fixture_close(&f);
}

static void tunnel_header_cut_short(void **)
{
	struct parse_fixture f;
	inner_fixture(&f);
	static const uint16_t ports[] = { 4789, 8472, 6081, 2152 };
	uint8_t bytes[256];
	for (size_t i = 0; i < BASE_ARRAY_COUNT(ports); i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, ports[i]);
		spec.payload_len = 7;
		size_t len = packets_build(bytes, sizeof(bytes), &spec);
		parse_fixture_refused(&f, ETH, bytes, len, 0, BASE_DROP_TUNNEL_TRUNCATED);
	}
	static const uint8_t keyed[4] = { 0x20, 0, 8, 0 },
			     acknowledged[8] = { 0x10, 0x81, 0x88, 0x0b };
	struct packets_spec gre = packets_ip4(BASE_PROTOCOL_GRE, CLIENT, 0, SERVER, 0);
	gre.payload = keyed;
	for (gre.payload_len = 0; gre.payload_len <= sizeof(keyed); gre.payload_len++) {
		size_t len = packets_build(bytes, sizeof(bytes), &gre);
		parse_fixture_refused(&f, ETH, bytes, len, 0, BASE_DROP_TUNNEL_TRUNCATED);
	}
	gre.payload = acknowledged;
	gre.payload_len = sizeof(acknowledged);
	size_t len = packets_build(bytes, sizeof(bytes), &gre);
	parse_fixture_refused(&f, ETH, bytes, len, 0, BASE_DROP_TUNNEL_TRUNCATED);
	parse_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_header_cut_short),
		cmocka_unit_test(tag_cut_short),
		cmocka_unit_test(more_tags_than_the_limit),
		cmocka_unit_test(version_differs_from_what_the_link_says),
		cmocka_unit_test(ip4_header_cut_short),
		cmocka_unit_test(ip4_header_length_impossible),
		cmocka_unit_test(ip4_total_length_impossible),
		cmocka_unit_test(ip4_fragment_reaches_past_64k),
		cmocka_unit_test(ip6_header_cut_short),
		cmocka_unit_test(ip6_payload_longer_than_the_wire),
		cmocka_unit_test(ip6_extension_cut_short),
		cmocka_unit_test(ip6_extension_chain_too_long),
		cmocka_unit_test(ip6_fragment_reaches_past_64k),
		cmocka_unit_test(transport_header_cut_short),
		cmocka_unit_test(tcp_data_offset_impossible),
		cmocka_unit_test(udp_length_impossible),
		cmocka_unit_test(icmp_quote_malformed),
		cmocka_unit_test(more_tunnels_than_the_limit),
		cmocka_unit_test(tunnel_header_cut_short),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
