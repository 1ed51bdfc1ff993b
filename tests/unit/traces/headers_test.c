/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "tests/support/packets.h"

#include <stdlib.h>

static struct traces_headers find(enum base_link link, const uint8_t *frame, size_t size)
{
	/* Of exactly its size, so that a sanitizer sees reads beyond it. */
	uint8_t *copy = malloc(size > 0 ? size : 1);
	assert_non_null(copy);
	if (size > 0)
		memcpy(copy, frame, size);
	struct traces_headers headers;
	traces_headers_find(link, copy, (uint32_t)size, &headers);
	free(copy);
	return headers;
}

static const struct {
	enum base_link link;
	uint32_t payload;
} links[] = { { BASE_LINK_ETHERNET, 14 }, { BASE_LINK_RAW, 0 }, { BASE_LINK_NULL, 4 },
	{ BASE_LINK_LOOP, 4 }, { BASE_LINK_SLL, 16 }, { BASE_LINK_SLL2, 20 }, { BASE_LINK_PPP, 4 },
	{ BASE_LINK_PPP_HDLC, 4 }, { BASE_LINK_C_HDLC, 4 } };

static void every_link_type_leads_to_ip(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(links); i++) {
		for (int family = 4; family <= 6; family += 2) {
			uint8_t frame[256];
			struct packets_spec spec =
				family == 4 ? packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4)
					    : packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
			spec.link = links[i].link;
			size_t size = packets_build(frame, sizeof(frame), &spec);
			size_t l3 = packets_l3_offset(&spec);
			struct traces_headers headers = find(links[i].link, frame, size);
			assert_true(headers.link_known);
			assert_int_equal(headers.payload, l3);
			assert_int_equal(headers.network, l3);
			assert_int_equal(headers.ip, family);
			assert_int_equal(headers.tags, 0);
			assert_int_equal(headers.ethertype,
				family == 4 ? TRACES_ETHERTYPE_IP4 : TRACES_ETHERTYPE_IP6);
		}
	}
}

/* Cut anywhere: nothing beyond is read, and no IP header is found that is not whole. */
static void cut_frames_are_not_read_beyond_their_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(links); i++) {
		uint8_t frame[256];
		struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
		spec.link = links[i].link;
		packets_build(frame, sizeof(frame), &spec);
		size_t whole = packets_l3_offset(&spec) + TRACES_IP6_BYTES;
		for (size_t size = 0; size <= whole; size++) {
			struct traces_headers headers = find(links[i].link, frame, size);
			assert_int_equal(headers.ip, size == whole ? 6 : 0);
		}
	}
}

static void tags_labels_and_sessions_are_walked_and_counted(void **state)
{
	(void)state;
	uint8_t frame[512];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
	spec.tags_count = 3;
	spec.tags[0] = (struct packets_tag){ 0x88a8, 5 };
	spec.tags[1] = (struct packets_tag){ 0x8100, 6 };
	spec.tags[2] = (struct packets_tag){ 0x8100, 7 };
	size_t size = packets_build(frame, sizeof(frame), &spec);
	struct traces_headers headers = find(BASE_LINK_ETHERNET, frame, size);
	assert_int_equal(headers.ip, 4);
	assert_int_equal(headers.payload, 14);
	assert_int_equal(headers.network, 14 + 12);
	assert_int_equal(headers.tags, 3);

	spec.tags[1] = (struct packets_tag){ 0x8847, 1000 };
	spec.tags[2] = (struct packets_tag){ 0x8847, 1001 };
	size = packets_build(frame, sizeof(frame), &spec);
	headers = find(BASE_LINK_ETHERNET, frame, size);
	assert_int_equal(headers.ip, 4);
	assert_int_equal(headers.tags, 3);

	spec.tags_count = 1;
	spec.pppoe = true;
	size = packets_build(frame, sizeof(frame), &spec);
	headers = find(BASE_LINK_ETHERNET, frame, size);
	assert_int_equal(headers.ip, 4);
	assert_int_equal(headers.network, packets_l3_offset(&spec));
	assert_int_equal(headers.tags, 2);
}

static void a_version_that_the_ethertype_denies_is_no_ip(void **state)
{
	(void)state;
	uint8_t frame[256];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	size_t size = packets_build(frame, sizeof(frame), &spec);
	frame[14] = 0x65;
	assert_int_equal(find(BASE_LINK_ETHERNET, frame, size).ip, 0);
	frame[12] = 0x08;
	frame[13] = 0x06; /* ARP */
	struct traces_headers headers = find(BASE_LINK_ETHERNET, frame, size);
	assert_true(headers.link_known);
	assert_int_equal(headers.ip, 0);
	assert_int_equal(headers.ethertype, TRACES_ETHERTYPE_ARP);
	/* Families and protocols that have no EtherType. */
	static const uint8_t loop[24] = { 0, 0, 0, 7 }, ppp[24] = { 0xff, 3, 0xc0, 0x21 };
	assert_false(find(BASE_LINK_LOOP, loop, sizeof(loop)).link_known);
	assert_false(find(BASE_LINK_PPP, ppp, sizeof(ppp)).link_known);
}

static void snap_carries_ip_and_other_llc_does_not(void **state)
{
	(void)state;
	uint8_t frame[128] = { [12] = 0, 80, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45 };
	struct traces_headers headers = find(BASE_LINK_ETHERNET, frame, 94);
	assert_int_equal(headers.ip, 4);
	assert_int_equal(headers.network, 22);
	frame[14] = 0x42;
	assert_int_equal(find(BASE_LINK_ETHERNET, frame, 94).ip, 0);
	static const uint8_t ends[] = { 0xaa, 0xaa, 3, 0, 0, 0, 0, 1 };
	memcpy(frame + 14, ends, sizeof(ends)); /* a SNAP that leads to LLC again */
	assert_int_equal(find(BASE_LINK_ETHERNET, frame, 94).ip, 0);
}

static void any_bytes_end_the_walk(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 3);
	static const uint16_t types[] = { 0x8100, 0x88a8, 0x8847, 0x8864, 0x880b, 0x0800, 0x86dd,
		0x9100 };
	for (int round = 0; round < 200000; round++) {
		uint8_t frame[200];
		size_t size = base_rng_below(&rng, sizeof(frame) + 1);
		for (size_t i = 0; i < sizeof(frame); i += 2) {
			uint16_t value = (uint16_t)base_rng_u64(&rng);
			if (base_rng_below(&rng, 3) != 0)
				value = types[base_rng_below(&rng, BASE_ARRAY_COUNT(types))];
			traces_put_net16(frame + i, value);
		}
		enum base_link link = (enum base_link)base_rng_below(&rng, BASE_LINKS_COUNT);
		struct traces_headers headers = find(link, frame, size);
		if (headers.ip != 0)
			assert_true(headers.network + (headers.ip == 4 ? 20 : 40) <= size);
		if (headers.link_known)
			assert_true(headers.payload <= size && headers.payload <= headers.network);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_link_type_leads_to_ip),
		cmocka_unit_test(cut_frames_are_not_read_beyond_their_end),
		cmocka_unit_test(tags_labels_and_sessions_are_walked_and_counted),
		cmocka_unit_test(a_version_that_the_ethertype_denies_is_no_ip),
		cmocka_unit_test(snap_carries_ip_and_other_llc_does_not),
		cmocka_unit_test(any_bytes_end_the_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
