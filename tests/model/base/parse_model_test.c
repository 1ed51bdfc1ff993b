/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packets in random wrappings: the parsed key must be the one that the packet was built
 * from, with and without the short path. Random fragments of several datagrams in random order:
 * each later fragment must find what a plain list of first fragments says.
 *
 * SHEAF_SEED chooses other random numbers.
 */
#include "base/rng.h"
#include "tests/unit/base/parse_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static uint64_t seed_of(uint64_t fallback)
{
	const char *text = getenv("SHEAF_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
	print_message("SHEAF_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static uint32_t pick(struct base_rng *rng, uint32_t bound)
{
	return (uint32_t)base_rng_below(rng, bound);
}

static void random_link(struct base_rng *rng, struct packets_spec *spec)
{
	static const uint16_t tpids[] = { 0x8100, 0x88a8, 0x9100, 0x9200 };
	static const uint8_t usual[] = { BASE_LINK_ETHERNET, BASE_LINK_ETHERNET, BASE_LINK_RAW };
	spec->link = pick(rng, 2) != 0 ? usual[pick(rng, 3)] : pick(rng, BASE_LINKS_COUNT);
	if (spec->link != BASE_LINK_ETHERNET || pick(rng, 2) != 0)
		return;
	spec->tags_count = pick(rng, 5);
	for (unsigned int i = 0; i < spec->tags_count; i++)
		spec->tags[i] =
			(struct packets_tag){ tpids[pick(rng, 4)], (uint16_t)base_rng_u64(rng) };
	if (spec->tags_count != 0 && pick(rng, 4) == 0)
		spec->tags[spec->tags_count - 1] =
			(struct packets_tag){ 0x8847, (uint16_t)base_rng_u64(rng) };
	else
		spec->pppoe = pick(rng, 8) == 0;
}

/* Extension headers with random contents, ending in `protocol`. */
static void random_extensions(
	struct base_rng *rng, struct packets_spec *spec, uint8_t *room, size_t room_size)
{
	static const uint8_t kinds[] = { 0, 43, 60, 51, 44, 135, 139, 140 };
	unsigned int count = pick(rng, 5);
	size_t at = 0;
	uint8_t *type = &spec->ip6_first_header;
	for (unsigned int i = 0; i < count; i++) {
		uint8_t kind = kinds[pick(rng, sizeof(kinds))];
		size_t size = kind == 44 ? 8 : 8 * (1 + (size_t)pick(rng, 4));
		if (kind == 51)
			size += 4;
		BASE_ASSERT(at + size <= room_size);
		for (size_t b = 0; b < size; b++)
			room[at + b] = (uint8_t)base_rng_u64(rng);
		room[at + 1] = (uint8_t)(kind == 51 ? size / 4 - 2 : size / 8 - 1);
		if (kind == 44) /* atomic: a fragment header that fragments nothing */
			memset(room + at, 0, 4);
		*type = kind;
		type = room + at;
		at += size;
	}
	*type = spec->protocol;
	spec->ip6_headers = room;
	spec->ip6_headers_len = (uint16_t)at;
}

static struct packets_spec random_spec(struct base_rng *rng, uint8_t *room, size_t room_size)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_SCTP, BASE_PROTOCOL_ICMP,
		BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP, 99, 253 };
	uint8_t protocol = protocols[pick(rng, sizeof(protocols))];
	uint32_t a = pick(rng, 4) == 0 ? pick(rng, 3) : (uint32_t)base_rng_u64(rng);
	uint32_t b = pick(rng, 4) == 0 ? pick(rng, 3) : (uint32_t)base_rng_u64(rng);
	uint16_t a_port = (uint16_t)(pick(rng, 2) != 0 ? pick(rng, 3) : pick(rng, 65536));
	uint16_t b_port = (uint16_t)(pick(rng, 2) != 0 ? pick(rng, 3) : pick(rng, 65536));
	struct packets_spec spec;
	if (pick(rng, 3) == 0) {
		if (protocol == BASE_PROTOCOL_ICMP)
			protocol = BASE_PROTOCOL_ICMP6;
		spec = packets_ip6(protocol, a, a_port, b, b_port);
		random_extensions(rng, &spec, room, room_size);
	} else {
		spec = packets_ip4(protocol, a, a_port, b, b_port);
		spec.ip_options_len = (uint16_t)(pick(rng, 4) == 0 ? 4 * pick(rng, 11) : 0);
	}
	random_link(rng, &spec);
	spec.tcp_flags = (uint8_t)base_rng_u64(rng);
	spec.payload_len = (uint16_t)pick(rng, pick(rng, 10) == 0 ? 1400 : 40);
	/* IPv6 says 0 for nothing and for everything: padding behind nothing would be payload. */
	bool nothing = spec.family == 6 && spec.ip6_headers_len == 0 && spec.payload_len == 0;
	bool padded = spec.link == BASE_LINK_ETHERNET && pick(rng, 2) != 0 && !nothing;
	spec.frame_min = padded ? 60 : 0;
	return spec;
}

static void check_one(struct parse_fixture *f, const struct packets_spec *spec, bool vlan_zone)
{
	bool reversed;
	struct base_flow_key key = parse_fixture_key(spec, &reversed);
	for (unsigned int i = 0; vlan_zone && i < spec->tags_count && key.zone == 0; i++)
		if (spec->tags[i].tpid != 0x8847)
			key.zone = spec->tags[i].id & 0xfff;
	struct base_packet *packet = parse_fixture_flow(f, spec);
	assert_memory_equal(&packet->key, &key, sizeof(key));
	assert_int_equal((packet->flags & BASE_PACKET_REVERSED) != 0, reversed);
	assert_int_equal(packet->l3_offset, packets_l3_offset(spec));
	assert_int_equal(packet->payload_len, spec->payload_len);
	assert_int_equal(
		packet->tcp_flags, spec->protocol == BASE_PROTOCOL_TCP ? spec->tcp_flags : 0);
}

/* The capture may end anywhere behind the headers and change nothing; wherever it ends, both walks
 * agree (the fixture compares). */
static void check_cut(
	struct parse_fixture *f, struct base_rng *rng, const struct packets_spec *spec)
{
	uint8_t frame[2048];
	size_t len = packets_build(frame, sizeof(frame), spec);
	struct base_packet whole = *parse_fixture_frame(f, spec->link, frame, len, 0);
	size_t cut = pick(rng, (uint32_t)len + 1);
	parse_fixture_frame(f, spec->link, frame, cut, len);
	cut = whole.payload_offset + pick(rng, (uint32_t)len + 1 - whole.payload_offset);
	struct base_packet *packet = parse_fixture_frame(f, spec->link, frame, cut, len);
	assert_int_equal(f->result, BASE_PARSE_FLOW);
	parse_fixture_assert_equal(packet, &whole);
}

static void parsed_keys_are_the_built_ones(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed_of(11));
	for (int round = 0; round < 40; round++) {
		struct base_parse_config config;
		struct parse_fixture f;
		base_parse_config_defaults(&config);
		config.hash.kind = pick(&rng, 2);
		config.hash.salt[0] = base_rng_u64(&rng);
		config.zone_source = pick(&rng, 2);
		config.verify_checksums = pick(&rng, 2) != 0;
		parse_fixture_open_with(&f, &config);
		for (int i = 0; i < 500; i++) {
			uint8_t room[512];
			struct packets_spec spec = random_spec(&rng, room, sizeof(room));
			check_one(&f, &spec, config.zone_source == BASE_ZONE_VLAN);
			spec = packets_reverse(&spec);
			check_one(&f, &spec, config.zone_source == BASE_ZONE_VLAN);
		}
		struct base_parse_stats stats = parse_fixture_stats(&f);
		for (int i = 0; i < 500; i++) {
			uint8_t room[512];
			struct packets_spec spec = random_spec(&rng, room, sizeof(room));
			check_cut(&f, &rng, &spec);
		}
		assert_true(parse_fixture_stats(&f).snaplen_cut > 500);
		assert_int_equal(stats.packets, 1000);
		assert_int_equal(stats.flow_packets, 1000);
		assert_int_equal(stats.checksums_bad, 0);
		parse_fixture_close(&f);
	}
}

/* The naive memory of first fragments: one slot per datagram, no limit. */
enum { DATAGRAMS = 48 };

struct first {
	bool seen;
	uint64_t time_ns;
	uint16_t source_port;
};

static void check_fragment(
	struct parse_fixture *f, struct base_rng *rng, struct first *firsts, uint64_t timeout_ns)
{
	uint8_t frame[512];
	uint32_t number = pick(rng, DATAGRAMS);
	struct first *first = &firsts[number];
	struct packets_spec spec = number % 2 == 0 ? packets_ip4(BASE_PROTOCOL_UDP, 1, 0, 2, 9)
						   : packets_ip6(BASE_PROTOCOL_UDP, 1, 0, 2, 9);
	spec.ip_id = (uint16_t)(number / 2);
	spec.payload_len = 100;
	bool later = pick(rng, 3) != 0;
	if (!later) {
		spec.source_port = (uint16_t)(1 + pick(rng, 60000));
		*first = (struct first){ true, f->time_ns, spec.source_port };
	}
	size_t len = packets_build_fragment(
		frame, sizeof(frame), &spec, later ? 48 : 0, later ? 60 : 48);
	struct base_packet *packet = parse_fixture_frame(f, spec.link, frame, len, 0);
	assert_int_equal(f->result, BASE_PARSE_FLOW);
	/* Reading back in time finds what was stored later: age 0. */
	bool known = first->seen &&
		     (f->time_ns <= first->time_ns || f->time_ns - first->time_ns <= timeout_ns);
	bool reversed = (packet->flags & BASE_PACKET_REVERSED) != 0;
	assert_int_equal(packet->key.port[reversed], known ? first->source_port : 0);
	assert_int_equal((packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0, !known);
}

static void later_fragments_find_what_a_list_would(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed_of(12));
	for (int round = 0; round < 30; round++) {
		struct first firsts[DATAGRAMS] = { 0 };
		struct base_parse_config config;
		struct parse_fixture f;
		base_parse_config_defaults(&config);
		config.fragment_timeout_ns = 1000;
		config.hash.salt[0] = base_rng_u64(&rng);
		parse_fixture_open_with(&f, &config);
		for (int i = 0; i < 1000; i++) {
			f.time_ns += pick(&rng, 60);
			f.time_ns -= pick(&rng, 10); /* and sometimes a step back */
			check_fragment(&f, &rng, firsts, config.fragment_timeout_ns);
		}
		assert_int_equal(parse_fixture_stats(&f).fragments_forgotten, 0);
		parse_fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parsed_keys_are_the_built_ones),
		cmocka_unit_test(later_fragments_find_what_a_list_would),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
