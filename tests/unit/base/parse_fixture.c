/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/base/parse_fixture.h"

#include "base/parse_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void parse_fixture_open_with(struct parse_fixture *fixture, const struct base_parse_config *config)
{
	*fixture = (struct parse_fixture){ .time_ns = 1000 };
	assert_int_equal(base_parser_create(&fixture->parser, config), 0);
	assert_int_equal(base_parser_create(&fixture->reference, config), 0);
	packets_pool_init(&fixture->pool, 2);
}

void parse_fixture_open(struct parse_fixture *fixture)
{
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.hash.salt[0] = 0x1234567890abcdef;
	parse_fixture_open_with(fixture, &config);
}

void parse_fixture_close(struct parse_fixture *fixture)
{
	base_parser_destroy(fixture->parser);
	base_parser_destroy(fixture->reference);
	packets_pool_release(&fixture->pool);
}

void parse_fixture_assert_equal(const struct base_packet *a, const struct base_packet *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->l3_offset, b->l3_offset);
	assert_int_equal(a->l4_offset, b->l4_offset);
	assert_int_equal(a->payload_offset, b->payload_offset);
	assert_int_equal(a->payload_len, b->payload_len);
	assert_int_equal(a->quote_offset, b->quote_offset);
	assert_int_equal(a->protocol, b->protocol);
	assert_int_equal(a->tcp_flags, b->tcp_flags);
	assert_int_equal(a->drop_reason, b->drop_reason);
	assert_int_equal(a->hash, b->hash);
	assert_memory_equal(&a->key, &b->key, sizeof(a->key));
}

struct base_packet *parse_fixture_frame(struct parse_fixture *fixture, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len)
{
	struct base_packet *a = packets_pool_set(
		&fixture->pool, 0, link, frame, cap_len, wire_len, fixture->time_ns);
	struct base_packet *b = packets_pool_set(
		&fixture->pool, 1, link, frame, cap_len, wire_len, fixture->time_ns);
	fixture->result = base_parse_packet(fixture->parser, a);
	assert_int_equal(fixture->result, base_parse_packet_generic(fixture->reference, b));
	parse_fixture_assert_equal(a, b);
	return a;
}

struct base_packet *parse_fixture_spec(
	struct parse_fixture *fixture, const struct packets_spec *spec)
{
	uint8_t frame[2048];
	size_t len = packets_build(frame, sizeof(frame), spec);
	return parse_fixture_frame(fixture, spec->link, frame, len, 0);
}

struct base_packet *parse_fixture_flow(
	struct parse_fixture *fixture, const struct packets_spec *spec)
{
	struct base_packet *packet = parse_fixture_spec(fixture, spec);
	if (packet->drop_reason != BASE_DROP_NONE)
		print_message("refused: %s\n", base_drop_name(packet->drop_reason));
	assert_int_equal(fixture->result, BASE_PARSE_FLOW);
	assert_true((packet->flags & BASE_PACKET_FLOW) != 0);
	return packet;
}

void parse_fixture_refused(struct parse_fixture *fixture, enum base_link link, const uint8_t *frame,
	size_t cap_len, size_t wire_len, enum base_drop_reason reason)
{
	struct base_packet *packet = parse_fixture_frame(fixture, link, frame, cap_len, wire_len);
	assert_string_equal(base_drop_name(packet->drop_reason), base_drop_name(reason));
	assert_int_equal(fixture->result, BASE_PARSE_MALFORMED);
	assert_int_equal(packet->flags & BASE_PACKET_FLOW, 0);
}

static bool endpoints_swapped(const struct packets_spec *spec, uint16_t sport, uint16_t dport)
{
	int order = memcmp(spec->source, spec->destination, 16);
	return order != 0 ? order > 0 : sport > dport;
}

struct base_flow_key parse_fixture_key(const struct packets_spec *spec, bool *reversed)
{
	struct base_flow_key key = { .family = spec->family == 6 ? 6 : 4,
		.protocol = spec->protocol };
	uint16_t sport = 0, dport = 0;
	if (spec->protocol == BASE_PROTOCOL_TCP || spec->protocol == BASE_PROTOCOL_UDP ||
		spec->protocol == BASE_PROTOCOL_SCTP) {
		sport = spec->source_port;
		dport = spec->destination_port;
	} else if (spec->protocol == BASE_PROTOCOL_ICMP || spec->protocol == BASE_PROTOCOL_ICMP6) {
		sport = dport = spec->source_port;
	}
	*reversed = endpoints_swapped(spec, sport, dport);
	memcpy(key.address[0], *reversed ? spec->destination : spec->source, 16);
	memcpy(key.address[1], *reversed ? spec->source : spec->destination, 16);
	key.port[0] = *reversed ? dport : sport;
	key.port[1] = *reversed ? sport : dport;
	return key;
}

struct base_parse_stats parse_fixture_stats(const struct parse_fixture *fixture)
{
	struct base_parse_stats stats, reference;
	base_parser_stats(fixture->parser, &stats);
	base_parser_stats(fixture->reference, &reference);
	assert_memory_equal(&stats, &reference, sizeof(stats));
	return stats;
}
