/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "tests/support/packets.h"

/* One packet through the transform; its record and frame are the stream's, kept in `to`. */
static struct traces_repair_report repair(struct traces_trace **to, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len, bool pad, bool checksums)
{
	struct traces_trace *from;
	struct traces_packets *packets, *repaired;
	struct traces_batch batch;
	struct traces_repair_report report;
	struct traces_repair_options options = { .pad = pad, .checksums = checksums };
	struct traces_record record = {
		.link = (uint8_t)link,
		.cap_len = (uint32_t)cap_len,
		.wire_len = (uint32_t)wire_len,
	};
	assert_int_equal(traces_trace_create(&from), 0);
	assert_int_equal(traces_trace_create(to), 0);
	assert_int_equal(traces_trace_append(from, &record, frame), 0);
	assert_int_equal(traces_packets_of_trace(&packets, from, 0), 0);
	assert_int_equal(traces_packets_repair(&repaired, packets, &options, &report), 0);
	assert_int_equal(traces_packets_next(repaired, &batch), 0);
	assert_int_equal(batch.count, 1);
	assert_int_equal(
		traces_trace_append(*to, batch.records, batch.bytes + batch.records->offset), 0);
	assert_int_equal(traces_packets_next(repaired, &batch), 0);
	assert_int_equal(batch.count, 0);
	traces_packets_destroy(repaired);
	traces_trace_destroy(from);
	return report;
}

static uint32_t cap_len_of(const struct traces_trace *trace)
{
	size_t count;
	return traces_trace_records(trace, &count)->cap_len;
}

static struct packets_spec random_spec(struct base_rng *rng)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	bool ip6 = base_rng_below(rng, 2);
	uint8_t protocol = protocols[base_rng_below(rng, 3)];
	if (ip6 && protocol == BASE_PROTOCOL_ICMP)
		protocol = BASE_PROTOCOL_ICMP6;
	struct packets_spec spec =
		ip6 ? packets_ip6(protocol, (uint32_t)base_rng_u64(rng), 1, 2, 3)
		    : packets_ip4(protocol, (uint32_t)base_rng_u64(rng), 1, 2, 3);
	spec.payload_len = (uint16_t)base_rng_below(rng, 900);
	spec.ip_options_len = ip6 ? 0 : (uint16_t)(4 * base_rng_below(rng, 4));
	spec.tags_count = base_rng_below(rng, 2);
	spec.tags[0] = (struct packets_tag){ 0x8100, 5 };
	spec.icmp_type = ip6 ? 128 : 8;
	spec.frame_min = base_rng_below(rng, 2) ? 64 : 0;
	return spec;
}

static uint32_t checksum_offset(uint8_t protocol)
{
	return protocol == BASE_PROTOCOL_TCP ? 16 : protocol == BASE_PROTOCOL_UDP ? 6 : 2;
}

static uint32_t ip_header_bytes(const struct packets_spec *spec)
{
	return spec->family == 6 ? 40u : 20u + spec->ip_options_len;
}

static void spoilt_checksums_become_what_they_were(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 5);
	for (int round = 0; round < 2000; round++) {
		uint8_t frame[2048], right[2048];
		struct packets_spec spec = random_spec(&rng);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		size_t l3 = packets_l3_offset(&spec);
		memcpy(right, frame, size);
		bool spoil_ip = spec.family != 6 && base_rng_below(&rng, 2);
		bool spoil_l4 = base_rng_below(&rng, 2);
		if (spoil_ip)
			frame[l3 + 10] ^= 0x5a;
		if (spoil_l4)
			frame[l3 + ip_header_bytes(&spec) + checksum_offset(spec.protocol)] ^= 0x5a;
		/* Spoilt to 0, a UDP checksum over IPv4 says "none" and stays. */
		const uint8_t *udp = frame + l3 + ip_header_bytes(&spec);
		if (spec.protocol == BASE_PROTOCOL_UDP && udp[6] == 0 && udp[7] == 0)
			continue;
		struct traces_trace *to;
		struct traces_repair_report report =
			repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
		assert_memory_equal(traces_trace_bytes(to), right, size);
		assert_int_equal(report.corrected, spoil_ip || spoil_l4);
		assert_int_equal(report.unknown, 0);
		traces_trace_destroy(to);
	}
}

static void cut_packets_are_filled_and_then_checked(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 6);
	for (int round = 0; round < 2000; round++) {
		uint8_t frame[2048];
		struct packets_spec spec = random_spec(&rng);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		size_t l3 = packets_l3_offset(&spec);
		size_t headers = l3 + ip_header_bytes(&spec) + 20;
		size_t datagram = spec.family == 6 ? 40u + traces_net16(frame + l3 + 4)
						   : traces_net16(frame + l3 + 2);
		size_t cap_len = headers + base_rng_below(&rng, size);
		cap_len = cap_len < size ? cap_len : size;
		struct traces_trace *to;
		struct traces_repair_report report =
			repair(&to, BASE_LINK_ETHERNET, frame, cap_len, size, true, true);
		size_t expected = cap_len < l3 + datagram ? l3 + datagram : cap_len;
		assert_int_equal(cap_len_of(to), expected);
		assert_int_equal(report.padded, cap_len < l3 + datagram);
		assert_int_equal(report.unknown, 0);
		uint8_t filled[2048];
		memcpy(filled, traces_trace_bytes(to), expected);
		for (size_t i = cap_len; i < expected; i++)
			assert_int_equal(filled[i], 0);
		assert_true(packets_checksums_valid(filled + l3, datagram));
		traces_trace_destroy(to);
	}
}

static void what_cannot_be_computed_is_left_and_counted(void **state)
{
	(void)state;
	uint8_t frame[512];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
	spec.payload_len = 100;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	struct traces_trace *to;
	struct traces_repair_report report =
		repair(&to, BASE_LINK_ETHERNET, frame, size - 1, size, false, true);
	assert_int_equal(report.unknown, 1);
	assert_int_equal(report.corrected, 0);
	assert_memory_equal(traces_trace_bytes(to), frame, size - 1);
	traces_trace_destroy(to);

	size = packets_build_fragment(frame, sizeof(frame), &spec, 0, 64);
	report = repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
	assert_int_equal(report.unknown, 1);
	assert_memory_equal(traces_trace_bytes(to), frame, size);
	traces_trace_destroy(to);

	/* Protocols that have no such checksum are nothing unknown. */
	spec = packets_ip4(BASE_PROTOCOL_ESP, 1, 2, 3, 4);
	size = packets_build(frame, sizeof(frame), &spec);
	report = repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
	assert_int_equal(report.unknown + report.corrected, 0);
	traces_trace_destroy(to);

	/* A source route under way: the checksum is that of another destination. */
	spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	spec.ip_options_len = 8;
	size = packets_build(frame, sizeof(frame), &spec);
	frame[14 + 20] = 131;
	frame[14 + 21] = 7;
	report = repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
	assert_int_equal(report.unknown, 1);
	traces_trace_destroy(to);
}

static void no_checksum_stays_none_over_ip4_and_becomes_one_over_ip6(void **state)
{
	(void)state;
	for (int family = 4; family <= 6; family += 2) {
		uint8_t frame[512];
		struct packets_spec spec = family == 4 ? packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4)
						       : packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
		spec.payload_len = 10;
		spec.udp_no_checksum = true;
		size_t size = packets_build(frame, sizeof(frame), &spec);
		struct traces_trace *to;
		struct traces_repair_report report =
			repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
		assert_int_equal(report.corrected, family == 6);
		if (family == 4)
			assert_memory_equal(traces_trace_bytes(to), frame, size);
		traces_trace_destroy(to);
	}
}

static void extension_headers_are_walked(void **state)
{
	(void)state;
	static const uint8_t headers[] = { 60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 1, 4, 0, 0, 0, 0,
		BASE_PROTOCOL_UDP, 0, 0, 0, 0, 0, 0, 0 };
	for (uint8_t segments_left = 0; segments_left < 2; segments_left++) {
		uint8_t frame[512], right[512], extensions[sizeof(headers)];
		struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
		memcpy(extensions, headers, sizeof(headers));
		extensions[16 + 3] = segments_left;
		spec.ip6_headers = extensions;
		spec.ip6_headers_len = sizeof(extensions);
		spec.ip6_first_header = 0;
		spec.payload_len = 33;
		size_t size = packets_build(frame, sizeof(frame), &spec);
		memcpy(right, frame, size);
		frame[14 + 40 + 24 + 6] ^= 0x11;
		struct traces_trace *to;
		struct traces_repair_report report =
			repair(&to, BASE_LINK_ETHERNET, frame, size, size, false, true);
		assert_int_equal(report.unknown, segments_left);
		assert_memory_equal(
			traces_trace_bytes(to), segments_left == 0 ? right : frame, size);
		traces_trace_destroy(to);
	}
}

static void any_bytes_are_survived(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 9);
	for (int round = 0; round < 20000; round++) {
		uint8_t frame[1200];
		struct packets_spec spec = random_spec(&rng);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		for (uint64_t i = base_rng_below(&rng, 6); i > 0; i--)
			frame[base_rng_below(&rng, 80)] = (uint8_t)base_rng_u64(&rng);
		size_t cap_len = base_rng_below(&rng, size + 1);
		struct traces_trace *to;
		repair(&to, BASE_LINK_ETHERNET, frame, cap_len, size, base_rng_below(&rng, 2),
			true);
		assert_true(cap_len_of(to) >= cap_len);
		traces_trace_destroy(to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spoilt_checksums_become_what_they_were),
		cmocka_unit_test(cut_packets_are_filled_and_then_checked),
		cmocka_unit_test(what_cannot_be_computed_is_left_and_counted),
		cmocka_unit_test(no_checksum_stays_none_over_ip4_and_becomes_one_over_ip6),
		cmocka_unit_test(extension_headers_are_walked),
		cmocka_unit_test(any_bytes_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
