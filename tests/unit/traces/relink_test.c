/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet of one link type made into another is what the packet of that type would have been. */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "tests/support/packets.h"

static struct traces_trace *new_trace(void)
{
	struct traces_trace *trace;
	assert_int_equal(traces_trace_create(&trace), 0);
	return trace;
}

static void add(struct traces_trace *trace, enum base_link link, const uint8_t *frame,
	size_t cap_len, size_t wire_len)
{
	struct traces_record record = {
		.time_ns = 5,
		.link = (uint8_t)link,
		.cap_len = (uint32_t)cap_len,
		.wire_len = (uint32_t)wire_len,
	};
	assert_int_equal(traces_trace_append(trace, &record, frame), 0);
}

/* Everything the transform makes of a trace, batches of `batch` packets. */
static struct traces_trace *relink(const struct traces_trace *from,
	const struct traces_relink_options *options, size_t batch,
	struct traces_relink_report *report)
{
	struct traces_packets *packets, *relinked;
	struct traces_batch got;
	struct traces_trace *to = new_trace();
	assert_int_equal(traces_packets_of_trace(&packets, from, batch), 0);
	assert_int_equal(traces_packets_relink(&relinked, packets, options, report), 0);
	while (traces_packets_next(relinked, &got) == 0 && got.count > 0) {
		for (size_t i = 0; i < got.count; i++)
			assert_int_equal(traces_trace_append(to, &got.records[i],
						 got.bytes + got.records[i].offset),
				0);
	}
	traces_packets_destroy(relinked);
	return to;
}

static void check_frame(const struct traces_trace *trace, size_t index, enum base_link link,
	const uint8_t *frame, size_t size)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_true(index < count);
	assert_int_equal(records[index].link, link);
	assert_int_equal(records[index].cap_len, size);
	assert_int_equal(records[index].time_ns, 5);
	assert_memory_equal(traces_trace_bytes(trace) + records[index].offset, frame, size);
}

static struct packets_spec make_spec(int family, enum base_link link)
{
	struct packets_spec spec = family == 4 ? packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4)
					       : packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	spec.payload_len = 77;
	spec.link = link;
	return spec;
}

static void any_link_type_becomes_ethernet_or_raw(void **state)
{
	(void)state;
	static const enum base_link targets[] = { BASE_LINK_ETHERNET, BASE_LINK_RAW };
	for (int link = 0; link < BASE_LINKS_COUNT; link++) {
		for (size_t i = 0; i < 4; i++) {
			enum base_link target = targets[i % 2];
			int family = i < 2 ? 4 : 6;
			uint8_t frame[512], expected[512];
			struct packets_spec spec = make_spec(family, (enum base_link)link);
			size_t size = packets_build(frame, sizeof(frame), &spec);
			spec.link = target;
			size_t expected_size = packets_build(expected, sizeof(expected), &spec);
			struct traces_relink_options options;
			struct traces_relink_report report;
			traces_relink_options_defaults(&options, target);
			options.keep_source = false;
			memcpy(options.destination, expected, 6);
			memcpy(options.source, expected + 6, 6);
			struct traces_trace *from = new_trace();
			add(from, (enum base_link)link, frame, size, size + 10);
			struct traces_trace *to = relink(from, &options, 0, &report);
			check_frame(to, 0, target, expected, expected_size);
			size_t count;
			uint32_t wire_len = traces_trace_records(to, &count)->wire_len;
			/* RAW ends with the datagram; packets of that type stay as they are. */
			bool trimmed = target == BASE_LINK_RAW && link != BASE_LINK_RAW;
			assert_int_equal(wire_len, expected_size + (trimmed ? 0 : 10));
			assert_int_equal(report.left_out + report.tags_dropped, 0);
			assert_int_equal(report.ends_dropped, trimmed);
			traces_trace_destroy(from);
			traces_trace_destroy(to);
		}
	}
}

static void cooked_headers_keep_their_sender_unless_told(void **state)
{
	(void)state;
	static const uint8_t sender[] = { 0xaa, 1, 2, 3, 4, 5 };
	for (int i = 0; i < 4; i++) {
		bool v2 = i / 2;
		uint8_t frame[512];
		struct packets_spec spec = make_spec(4, v2 ? BASE_LINK_SLL2 : BASE_LINK_SLL);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		if (v2) {
			frame[11] = 6;
			memcpy(frame + 12, sender, 6);
		} else {
			traces_put_net16(frame + 4, 6);
			memcpy(frame + 6, sender, 6);
		}
		struct traces_relink_options options;
		struct traces_relink_report report;
		traces_relink_options_defaults(&options, BASE_LINK_ETHERNET);
		options.keep_source = i % 2;
		struct traces_trace *from = new_trace();
		add(from, spec.link, frame, size, size);
		struct traces_trace *to = relink(from, &options, 0, &report);
		const uint8_t *made = traces_trace_bytes(to);
		assert_memory_equal(made, options.destination, 6);
		assert_memory_equal(made + 6, i % 2 ? sender : options.source, 6);
		traces_trace_destroy(from);
		traces_trace_destroy(to);
	}
}

static void arp_goes_to_ethernet_and_not_to_raw(void **state)
{
	(void)state;
	uint8_t frame[44] = { [1] = 4, [14] = 0x08, [15] = 0x06, [16] = 0, 1, 8, 0, 6, 4, 0, 1 };
	struct traces_trace *from = new_trace();
	add(from, BASE_LINK_SLL, frame, sizeof(frame), sizeof(frame));
	struct traces_relink_options options;
	struct traces_relink_report report;
	traces_relink_options_defaults(&options, BASE_LINK_ETHERNET);
	struct traces_trace *to = relink(from, &options, 0, &report);
	assert_int_equal(report.left_out, 0);
	const uint8_t *made = traces_trace_bytes(to);
	assert_int_equal(traces_net16(made + 12), TRACES_ETHERTYPE_ARP);
	assert_memory_equal(made + 14, frame + 16, sizeof(frame) - 16);
	traces_trace_destroy(to);
	traces_relink_options_defaults(&options, BASE_LINK_RAW);
	to = relink(from, &options, 0, &report);
	size_t count;
	traces_trace_records(to, &count);
	assert_int_equal(count, 0);
	assert_int_equal(report.left_out, 1);
	traces_trace_destroy(to);
	traces_trace_destroy(from);
}

static void raw_drops_tags_and_ethernet_padding_and_says_so(void **state)
{
	(void)state;
	uint8_t frame[512], expected[512];
	struct packets_spec spec = make_spec(4, BASE_LINK_ETHERNET);
	spec.payload_len = 0;
	spec.tags_count = 2;
	spec.tags[0] = (struct packets_tag){ 0x88a8, 1 };
	spec.tags[1] = (struct packets_tag){ 0x8847, 2 };
	spec.frame_min = 100;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	assert_int_equal(size, 100);
	struct traces_trace *from = new_trace();
	add(from, BASE_LINK_ETHERNET, frame, size, size);
	add(from, BASE_LINK_ETHERNET, frame, 50, size); /* cut inside TCP's header */
	add(from, BASE_LINK_ETHERNET, frame, 30, size); /* and inside IP's */
	add(from, BASE_LINK_ETHERNET, frame, 0, 0);
	struct traces_relink_options options;
	struct traces_relink_report report;
	traces_relink_options_defaults(&options, BASE_LINK_RAW);
	struct traces_trace *to = relink(from, &options, 0, &report);
	spec = make_spec(4, BASE_LINK_RAW);
	spec.payload_len = 0;
	size = packets_build(expected, sizeof(expected), &spec);
	check_frame(to, 0, BASE_LINK_RAW, expected, size);
	check_frame(to, 1, BASE_LINK_RAW, expected, 50 - 14 - 8);
	assert_int_equal(report.tags_dropped, 2);
	assert_int_equal(report.ends_dropped, 2);
	assert_int_equal(report.left_out, 2);
	traces_trace_destroy(to);
	traces_trace_destroy(from);
}

static void llc_behind_a_cooked_header_gets_its_length(void **state)
{
	(void)state;
	uint8_t frame[16 + 100] = { [15] = 4, [16] = 0x42, 0x42, 3 };
	for (int i = 0; i < 2; i++) {
		struct traces_trace *from = new_trace();
		add(from, BASE_LINK_SLL, frame, sizeof(frame), i ? 16 + 1501 : 16 + 1500);
		struct traces_relink_options options;
		struct traces_relink_report report;
		traces_relink_options_defaults(&options, BASE_LINK_ETHERNET);
		struct traces_trace *to = relink(from, &options, 0, &report);
		size_t count;
		traces_trace_records(to, &count);
		assert_int_equal(report.left_out, i);
		assert_int_equal(count, 1 - i);
		if (i == 0)
			assert_int_equal(traces_net16(traces_trace_bytes(to) + 12), 1500);
		traces_trace_destroy(to);
		traces_trace_destroy(from);
	}
}

/* Whatever the bytes: every packet is passed on or counted, wherever batches end. */
static void every_packet_is_passed_on_or_counted(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 11);
	for (int round = 0; round < 200; round++) {
		struct traces_trace *from = new_trace();
		for (int i = 0; i < 50; i++) {
			uint8_t frame[300];
			enum base_link link =
				(enum base_link)base_rng_below(&rng, BASE_LINKS_COUNT);
			struct packets_spec spec = make_spec(base_rng_below(&rng, 2) ? 4 : 6, link);
			size_t size = packets_build(frame, sizeof(frame), &spec);
			for (uint64_t j = base_rng_below(&rng, 4); j > 0; j--)
				frame[base_rng_below(&rng, 40)] = (uint8_t)base_rng_u64(&rng);
			add(from, link, frame, base_rng_below(&rng, size + 1), size);
		}
		struct traces_relink_options options;
		struct traces_relink_report report, report_parts;
		traces_relink_options_defaults(
			&options, round % 2 ? BASE_LINK_RAW : BASE_LINK_ETHERNET);
		struct traces_trace *whole = relink(from, &options, 0, &report);
		struct traces_trace *parts =
			relink(from, &options, 1 + base_rng_below(&rng, 3), &report_parts);
		size_t count, parts_count;
		const struct traces_record *a = traces_trace_records(whole, &count);
		const struct traces_record *b = traces_trace_records(parts, &parts_count);
		assert_int_equal(count + report.left_out, 50);
		assert_int_equal(count, parts_count);
		assert_memory_equal(&report, &report_parts, sizeof(report));
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(a[i].link, options.link);
			assert_true(a[i].cap_len <= a[i].wire_len);
			assert_int_equal(a[i].cap_len, b[i].cap_len);
			assert_memory_equal(traces_trace_bytes(whole) + a[i].offset,
				traces_trace_bytes(parts) + b[i].offset, a[i].cap_len);
		}
		traces_trace_destroy(whole);
		traces_trace_destroy(parts);
		traces_trace_destroy(from);
	}
}

static void other_link_types_are_refused(void **state)
{
	(void)state;
	struct traces_relink_options options;
	struct traces_relink_report report;
	struct traces_packets *out = NULL;
	traces_relink_options_defaults(&options, BASE_LINK_SLL);
	assert_int_equal(traces_packets_relink(&out, NULL, &options, &report), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_link_type_becomes_ethernet_or_raw),
		cmocka_unit_test(cooked_headers_keep_their_sender_unless_told),
		cmocka_unit_test(arp_goes_to_ethernet_and_not_to_raw),
		cmocka_unit_test(raw_drops_tags_and_ethernet_padding_and_says_so),
		cmocka_unit_test(llc_behind_a_cooked_header_gets_its_length),
		cmocka_unit_test(every_packet_is_passed_on_or_counted),
		cmocka_unit_test(other_link_types_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
