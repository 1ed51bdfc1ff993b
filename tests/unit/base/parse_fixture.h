/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses each frame twice, with the fast path and without, and insists on one outcome. */
#pragma once

#include "base/parse.h"
#include "tests/support/packets.h"

struct parse_fixture {
	struct base_parser *parser;    /* through base_parse_packet */
	struct base_parser *reference; /* through the generic walk only */
	struct packets_pool pool;      /* packet 0: last parsed by parser, 1: by reference */
	uint64_t time_ns;
	enum base_parse_result result;
};

void parse_fixture_open(struct parse_fixture *fixture);
void parse_fixture_open_with(struct parse_fixture *fixture, const struct base_parse_config *config);
void parse_fixture_close(struct parse_fixture *fixture);

/* Returns the packet; fixture->result holds what the parser said. wire_len 0: as captured. */
struct base_packet *parse_fixture_frame(struct parse_fixture *fixture, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len);
struct base_packet *parse_fixture_spec(
	struct parse_fixture *fixture, const struct packets_spec *spec);

/* Parse and require a flow; parse and require a refusal for one reason. */
struct base_packet *parse_fixture_flow(
	struct parse_fixture *fixture, const struct packets_spec *spec);
void parse_fixture_refused(struct parse_fixture *fixture, enum base_link link, const uint8_t *frame,
	size_t cap_len, size_t wire_len, enum base_drop_reason reason);

/* The key that spec should get, built without the parser. Sets *reversed. */
struct base_flow_key parse_fixture_key(const struct packets_spec *spec, bool *reversed);

struct base_parse_stats parse_fixture_stats(const struct parse_fixture *fixture);

void parse_fixture_assert_equal(const struct base_packet *a, const struct base_packet *b);
