/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

static const uint64_t s = UINT64_C(1000000000);

static struct traces_trace *load(
	void **state, const struct captures_bytes *file, struct traces_load_report *report)
{
	struct traces_trace *trace = NULL;
	const char *path = captures_write(*state, "a.pcapng", file);
	int error = captures_load(&trace, path, report);
	if (error)
		print_error("%s\n", report->message);
	assert_int_equal(error, 0);
	return trace;
}

/* The time of one packet, by the interface's resolution and offset. */
static uint64_t time_of(void **state, int tsresol, int64_t tsoffset_s, uint64_t ticks,
	struct traces_load_report *report)
{
	struct captures_bytes file = { .big_endian = ticks & 1 };
	captures_section(&file);
	captures_interface(&file, 1, 0, tsresol, tsoffset_s);
	captures_enhanced_packet(&file, 0, ticks, 60, 60, 0);
	struct traces_trace *trace = load(state, &file, report);
	size_t count;
	uint64_t time_ns = traces_trace_records(trace, &count)->time_ns;
	assert_int_equal(count, 1);
	traces_trace_destroy(trace);
	captures_release(&file);
	return time_ns;
}

static void times_follow_resolution_and_offset(void **state)
{
	struct traces_load_report report;
	assert_int_equal(time_of(state, -1, 0, 1500000, &report), s * 3 / 2); /* microseconds */
	assert_false(report.nanoseconds);
	assert_int_equal(time_of(state, 9, 0, 1500000, &report), 1500000);
	assert_true(report.nanoseconds);
	assert_int_equal(time_of(state, 0, 0, 1700000000, &report), 1700000000 * s);
	assert_int_equal(time_of(state, 3, 0, 5, &report), 5000000);
	assert_int_equal(time_of(state, 12, 0, 1999, &report), 1);
	assert_int_equal(time_of(state, 127, 0, UINT64_MAX, &report), 0);
	assert_int_equal(time_of(state, 0x80 | 8, 0, 128, &report), s / 2);
	assert_false(report.nanoseconds);
	time_of(state, 0x80 | 19, 0, 1, &report); /* 1.9 us */
	assert_false(report.nanoseconds);
	time_of(state, 0x80 | 20, 0, 1, &report); /* 0.95 us */
	assert_true(report.nanoseconds);
	assert_int_equal(time_of(state, 0x80 | 32, 0, UINT64_C(3) << 31, &report), s * 3 / 2);
	assert_true(report.nanoseconds);
	assert_int_equal(time_of(state, 0x80 | 64, 0, UINT64_C(1) << 63, &report), s / 2);
	assert_int_equal(time_of(state, 0x80 | 127, 0, UINT64_MAX, &report), 0);
	assert_int_equal(time_of(state, 0x80, 0, 77, &report), 77 * s);
	assert_int_equal(time_of(state, 9, 3600, 5, &report), 3600 * s + 5);
	assert_int_equal(time_of(state, 9, -10, 10 * s + 7, &report), 7);
	assert_int_equal(report.time_clamped, 0);
}

static void times_out_of_range_are_clamped_and_counted(void **state)
{
	struct traces_load_report report;
	assert_int_equal(time_of(state, 9, -10, 3 * s, &report), 0);
	assert_int_equal(report.time_clamped, 1);
	assert_int_equal(time_of(state, 9, INT64_MIN, 3, &report), 0);
	assert_int_equal(report.time_clamped, 1);
	assert_int_equal(time_of(state, 9, INT64_MAX, 3, &report), TRACES_TIME_NS_MAX);
	assert_int_equal(report.time_clamped, 1);
	assert_int_equal(time_of(state, 0, 0, UINT64_MAX, &report), TRACES_TIME_NS_MAX);
	assert_int_equal(report.time_clamped, 1);
	assert_int_equal(time_of(state, 9, 0, INT64_MAX, &report), INT64_MAX);
	assert_int_equal(report.time_clamped, 0);
}

static void sections_in_both_orders_follow_one_another(void **state)
{
	struct captures_bytes file = { 0 };
	for (int i = 0; i < 4; i++) {
		file.big_endian = i & 1;
		captures_section(&file);
		captures_interface(&file, i == 2 ? 101 : 1, 65535, i == 3 ? 9 : -1, 0);
		captures_enhanced_packet(&file, 0, 1000, 60, 90, (uint8_t)i);
	}
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 4);
	for (int i = 0; i < 4; i++) {
		test_assert_pattern(trace, (size_t)i, (uint8_t)i, 60);
		assert_int_equal(records[i].wire_len, 90);
		assert_int_equal(records[i].time_ns, i == 3 ? 1000 : 1000000);
		assert_int_equal(records[i].link, i == 2 ? BASE_LINK_RAW : BASE_LINK_ETHERNET);
	}
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void interfaces_differ_in_snaplen_and_link_type(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 262144, -1, 0);
	captures_interface(&file, 113, 96, -1, 0);
	captures_enhanced_packet(&file, 1, 10, 96, 1454, 1);
	captures_enhanced_packet(&file, 0, 11, 1454, 1454, 2);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 2);
	assert_int_equal(records[0].link, BASE_LINK_SLL);
	assert_int_equal(records[0].interface, 1);
	assert_int_equal(records[1].link, BASE_LINK_ETHERNET);
	assert_int_equal(records[1].interface, 0);
	test_assert_pattern(trace, 0, 1, 96);
	test_assert_pattern(trace, 1, 2, 1454);
	assert_int_equal(report.snaplen_cut, 1);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void simple_and_obsolete_packets_are_read(void **state)
{
	struct captures_bytes file = { .big_endian = true };
	captures_section(&file);
	captures_interface(&file, 1, 30, -1, 0);
	captures_obsolete_packet(&file, 0, 5, 21, 22, 1);
	captures_simple_packet(&file, 19, 19, 2);
	captures_simple_packet(&file, 30, 1000, 3); /* cut at the snaplen, 2 bytes of padding */
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0); /* no limit: the block tells */
	captures_simple_packet(&file, 40, 1000, 4);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 4);
	test_assert_pattern(trace, 0, 1, 21);
	test_assert_pattern(trace, 1, 2, 19);
	test_assert_pattern(trace, 2, 3, 30);
	test_assert_pattern(trace, 3, 4, 40);
	assert_int_equal(records[0].wire_len, 22);
	assert_int_equal(records[2].wire_len, 1000);
	/* They have no time of their own: that of the packet before. */
	assert_int_equal(records[0].time_ns, 5000);
	assert_int_equal(records[1].time_ns, 5000);
	assert_int_equal(report.time_missing, 3);
	assert_int_equal(report.time_backwards, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void packets_before_any_time_take_the_first_one(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_simple_packet(&file, 40, 40, 1);
	captures_simple_packet(&file, 40, 40, 2);
	captures_enhanced_packet(&file, 0, 1000, 60, 60, 3);
	captures_simple_packet(&file, 40, 40, 4);
	captures_enhanced_packet(&file, 0, 2000, 60, 60, 5);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(records[i].time_ns, i < 4 ? 1000000 : 2000000);
	assert_int_equal(report.time_missing, 3);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void unknown_blocks_are_passed_over(void **state)
{
	struct captures_bytes file = { 0 }, body = { 0 };
	captures_put_pattern(&body, 0, 3 << 20);
	captures_section(&file);
	captures_block(&file, 0xbad, body.data, 0);
	captures_interface(&file, 1, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	captures_block(&file, 0x40000bad, body.data, 3); /* padded */
	captures_block(&file, 5, body.data, 200);
	captures_block(&file, 10, body.data, body.size); /* longer than any buffer */
	captures_enhanced_packet(&file, 0, 2, 60, 60, 2);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 2);
	assert_int_equal(report.damages_count, 0);
	test_assert_pattern(trace, 1, 2, 60);
	traces_trace_destroy(trace);
	captures_release(&file);
	captures_release(&body);
}

static void oversized_packets_are_passed_over_in_sync(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 300000, 300000, 0);
	captures_enhanced_packet(&file, 0, 2, 60, 60, 1);
	captures_enhanced_packet(&file, 0, 3, 2000000, 2000000, 0);
	captures_enhanced_packet(&file, 0, 4, TRACES_RECORD_BYTES_MAX, 300000, 2);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 2);
	assert_int_equal(report.skipped_oversize, 2);
	assert_int_equal(report.damages_count, 0);
	test_assert_pattern(trace, 1, 2, TRACES_RECORD_BYTES_MAX);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void a_bad_packet_in_a_good_block_is_damage_without_loss_of_sync(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	size_t first = file.size;
	captures_enhanced_packet(&file, 7, 2, 60, 60, 2); /* no such interface */
	size_t second = file.size;
	captures_enhanced_packet(&file, 0, 3, 60, 60, 3);
	file.data[second + 20] = 200; /* captured length beyond the block */
	captures_enhanced_packet(&file, 0, 4, 60, 60, 4);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 2);
	test_assert_pattern(trace, 1, 4, 60);
	assert_int_equal(report.damages_count, 2);
	assert_int_equal(report.damages[0].packet, 2);
	assert_int_equal(report.damages[0].offset, first);
	assert_int_equal(report.damages[1].packet, 3);
	assert_int_equal(report.damages[1].offset, second);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void more_damage_than_is_located_is_counted(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	for (int i = 0; i < TRACES_DAMAGES_MAX + 5; i++)
		captures_enhanced_packet(&file, 0, 2, 60, 60, 2); /* nothing was described */
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 0);
	assert_int_equal(report.damages_count, TRACES_DAMAGES_MAX + 5);
	assert_int_equal(report.damages[TRACES_DAMAGES_MAX - 1].packet, TRACES_DAMAGES_MAX);
	traces_trace_destroy(trace);
	captures_release(&file);
}

/* One packet, then a block with its length fields set to first and last. */
static void check_framing(void **state, uint32_t first, uint32_t last)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	size_t offset = file.size;
	captures_put32(&file, 6);
	captures_put32(&file, first);
	captures_put_pattern(&file, 0, 80);
	captures_put32(&file, last);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].packet, 2);
	assert_int_equal(report.damages[0].offset, offset);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void wrong_framing_ends_the_file_as_damage(void **state)
{
	check_framing(state, 0, 0);
	check_framing(state, 11, 11);
	check_framing(state, 28, 28);
	check_framing(state, 90, 90); /* not a multiple of 4 */
	check_framing(state, 92, 96);
	check_framing(state, 100000, 100000);
	check_framing(state, 0xfffffffc, 0xfffffffc);
}

static void a_file_cut_anywhere_yields_its_whole_packets(void **state)
{
	struct captures_bytes whole = { 0 };
	captures_section(&whole);
	size_t section_end = whole.size;
	captures_interface(&whole, 1, 0, 9, 5);
	size_t interface_end = whole.size;
	captures_enhanced_packet(&whole, 0, 1, 33, 33, 1);
	size_t packet_end = whole.size;
	captures_enhanced_packet(&whole, 0, 2, 33, 33, 2);
	for (size_t size = 0; size <= whole.size; size++) {
		struct captures_bytes cut = { .data = whole.data, .size = size };
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		const char *path = captures_write(*state, "cut.pcapng", &cut);
		int error = captures_load(&trace, path, &report);
		if (size < section_end) {
			assert_int_equal(error, -EBADMSG);
			assert_string_not_equal(report.message, "");
			continue;
		}
		assert_int_equal(error, 0);
		assert_int_equal(report.packets, (size >= packet_end) + (size == whole.size));
		bool at_a_block = size == section_end || size == interface_end ||
				  size == packet_end || size == whole.size;
		assert_int_equal(report.damages_count, !at_a_block);
		traces_trace_destroy(trace);
	}
	captures_release(&whole);
}

static void unsupported_links_are_refused_or_skipped_as_asked(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_interface(&file, 127, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	struct traces_load_report report;
	/* An interface without packets does no harm. */
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	traces_trace_destroy(trace);

	captures_enhanced_packet(&file, 1, 2, 60, 60, 1);
	captures_enhanced_packet(&file, 0, 3, 60, 60, 2);
	const char *path = captures_write(*state, "mixed.pcapng", &file);
	trace = NULL;
	assert_int_equal(captures_load(&trace, path, &report), -EPROTONOSUPPORT);
	assert_null(trace);
	assert_non_null(strstr(report.message, "IEEE802_11_RADIOTAP"));

	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.skip_unsupported_links = true;
	assert_int_equal(traces_trace_load(&trace, &path, 1, &options, &report), 0);
	assert_int_equal(report.packets, 2);
	assert_int_equal(report.skipped_link, 1);
	assert_string_equal(report.skipped_link_name, "IEEE802_11_RADIOTAP");
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void a_file_of_unsupported_links_only_is_always_refused(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 147, 0, -1, 0);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.skip_unsupported_links = true;
	for (int i = 0; i < 2; i++) {
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		const char *path = captures_write(*state, "user0.pcapng", &file);
		assert_int_equal(captures_load(&trace, path, &report), -EPROTONOSUPPORT);
		assert_non_null(strstr(report.message, "USER0"));
		assert_int_equal(
			traces_trace_load(&trace, &path, 1, &options, &report), -EPROTONOSUPPORT);
		assert_non_null(strstr(report.message, "USER0"));
		captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	}
	captures_release(&file);
}

static void a_file_whose_only_packets_are_unsupported_is_refused(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_interface(&file, 147, 0, -1, 0);
	captures_enhanced_packet(&file, 1, 1, 60, 60, 1);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.skip_unsupported_links = true;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	const char *path = captures_write(*state, "only.pcapng", &file);
	assert_int_equal(traces_trace_load(&trace, &path, 1, &options, &report), -EPROTONOSUPPORT);
	assert_non_null(strstr(report.message, "USER0"));
	captures_release(&file);
}

static void a_section_too_long_to_hold_still_starts_anew(void **state)
{
	struct captures_bytes file = { 0 }, body = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_put32(&body, 0x1a2b3c4d);
	captures_put32(&body, 1);
	captures_put64(&body, UINT64_MAX);
	captures_put_pattern(&body, 0, 1 << 20); /* options */
	captures_block(&file, 0x0a0d0d0a, body.data, body.size);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1); /* its interface is gone */
	captures_interface(&file, 101, 0, -1, 0);
	captures_enhanced_packet(&file, 0, 1, 60, 60, 2);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	assert_int_equal(report.damages_count, 1);
	test_assert_pattern(trace, 0, 2, 60);
	traces_trace_destroy(trace);
	captures_release(&file);
	captures_release(&body);
}

static void an_option_longer_than_its_block_is_damage(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	size_t at = file.size;
	captures_interface(&file, 1, 0, 9, 0);
	file.data[at + 18] = 200;
	captures_enhanced_packet(&file, 0, 1, 60, 60, 1);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	assert_int_equal(traces_trace_records(trace, &count)->time_ns, 1000);
	assert_int_equal(count, 1);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].offset, at);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void interfaces_beyond_the_maximum_are_damage_when_used(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	for (int i = 0; i <= TRACES_INTERFACES_MAX; i++)
		captures_interface(&file, 1, 0, -1, 0);
	captures_enhanced_packet(&file, TRACES_INTERFACES_MAX - 1, 1, 60, 60, 1);
	captures_enhanced_packet(&file, TRACES_INTERFACES_MAX, 1, 60, 60, 1);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	assert_int_equal(report.damages_count, 1);
	traces_trace_destroy(trace);
	captures_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_follow_resolution_and_offset),
		cmocka_unit_test(times_out_of_range_are_clamped_and_counted),
		cmocka_unit_test(sections_in_both_orders_follow_one_another),
		cmocka_unit_test(interfaces_differ_in_snaplen_and_link_type),
		cmocka_unit_test(simple_and_obsolete_packets_are_read),
		cmocka_unit_test(packets_before_any_time_take_the_first_one),
		cmocka_unit_test(unknown_blocks_are_passed_over),
		cmocka_unit_test(oversized_packets_are_passed_over_in_sync),
		cmocka_unit_test(a_bad_packet_in_a_good_block_is_damage_without_loss_of_sync),
		cmocka_unit_test(more_damage_than_is_located_is_counted),
		cmocka_unit_test(wrong_framing_ends_the_file_as_damage),
		cmocka_unit_test(a_file_cut_anywhere_yields_its_whole_packets),
		cmocka_unit_test(unsupported_links_are_refused_or_skipped_as_asked),
		cmocka_unit_test(a_file_of_unsupported_links_only_is_always_refused),
		cmocka_unit_test(a_file_whose_only_packets_are_unsupported_is_refused),
		cmocka_unit_test(a_section_too_long_to_hold_still_starts_anew),
		cmocka_unit_test(an_option_longer_than_its_block_is_damage),
		cmocka_unit_test(interfaces_beyond_the_maximum_are_damage_when_used),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
