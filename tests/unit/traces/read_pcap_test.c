/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

static struct traces_trace *load(
	void **state, const struct captures_bytes *file, struct traces_load_report *report)
{
	struct traces_trace *trace = NULL;
	const char *path = captures_write(*state, "a.pcap", file);
	int error = captures_load(&trace, path, report);
	if (error)
		print_error("%s\n", report->message);
	assert_int_equal(error, 0);
	assert_string_equal(report->message, "");
	return trace;
}

static void check_magic_and_order(void **state, uint32_t magic, bool big_endian)
{
	struct captures_bytes file = { .big_endian = big_endian };
	captures_pcap_header(&file, magic, 65535, 1);
	captures_pcap_record(&file, 7, 250, 60, 60, 1);
	captures_pcap_record(&file, 4294967295, 999999, 10, 1500, 9);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	uint64_t fraction_ns = magic == CAPTURES_MAGIC_NS ? 1 : 1000;
	assert_int_equal(count, 2);
	assert_int_equal(records[0].time_ns, 7 * UINT64_C(1000000000) + 250 * fraction_ns);
	assert_int_equal(records[1].time_ns,
		UINT64_C(4294967295) * 1000000000 + UINT64_C(999999) * fraction_ns);
	assert_int_equal(records[1].wire_len, 1500);
	assert_int_equal(records[0].link, BASE_LINK_ETHERNET);
	test_assert_pattern(trace, 0, 1, 60);
	test_assert_pattern(trace, 1, 9, 10);
	assert_int_equal(report.nanoseconds, magic == CAPTURES_MAGIC_NS);
	assert_int_equal(report.packets, 2);
	assert_int_equal(report.wire_bytes, 1560);
	assert_int_equal(report.captured_bytes, 70);
	assert_int_equal(report.snaplen_cut, 1);
	assert_int_equal(report.damages_count, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void both_magics_in_both_orders_are_read(void **state)
{
	check_magic_and_order(state, CAPTURES_MAGIC_US, false);
	check_magic_and_order(state, CAPTURES_MAGIC_US, true);
	check_magic_and_order(state, CAPTURES_MAGIC_NS, false);
	check_magic_and_order(state, CAPTURES_MAGIC_NS, true);
}

static void a_fraction_of_a_second_or_more_carries(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 10, 4000000001, 4, 4, 0);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	assert_int_equal(traces_trace_records(trace, &count)->time_ns, UINT64_C(4010000001000));
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void a_wire_length_below_the_captured_one_is_raised(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 0, 0, 40, 3, 0);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	assert_int_equal(traces_trace_records(trace, &count)->wire_len, 40);
	assert_int_equal(report.wire_bytes, 40);
	assert_int_equal(report.snaplen_cut, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void the_header_snaplen_refuses_nothing(void **state)
{
	static const uint32_t snaplens[] = { 0, 1, 524288, UINT32_MAX };
	for (size_t i = 0; i < 4; i++) {
		struct captures_bytes file = { 0 };
		captures_pcap_header(&file, CAPTURES_MAGIC_US, snaplens[i], 1);
		captures_pcap_record(&file, 0, 0, 66000, 66000, 0);
		captures_pcap_record(&file, 1, 0, 60, 60, 5);
		struct traces_load_report report;
		struct traces_trace *trace = load(state, &file, &report);
		assert_int_equal(report.packets, 2);
		test_assert_pattern(trace, 0, 0, 66000);
		test_assert_pattern(trace, 1, 5, 60);
		traces_trace_destroy(trace);
		captures_release(&file);
	}
}

static void an_oversized_record_is_passed_over_in_sync(void **state)
{
	/* Smaller and larger than what the reader takes at once. */
	static const uint32_t sizes[] = { TRACES_RECORD_BYTES_MAX + 1, 5000000 };
	for (size_t i = 0; i < 2; i++) {
		struct captures_bytes file = { 0 };
		captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
		captures_pcap_record(&file, 0, 0, 60, 60, 1);
		captures_pcap_record(&file, 1, 0, sizes[i], sizes[i], 0);
		captures_pcap_record(&file, 2, 0, 61, 61, 2);
		captures_pcap_record(&file, 3, 0, sizes[i], sizes[i], 0);
		captures_put(&file, "cut", 3);
		struct traces_load_report report;
		struct traces_trace *trace = load(state, &file, &report);
		assert_int_equal(report.packets, 2);
		assert_int_equal(report.skipped_oversize, 2);
		test_assert_pattern(trace, 0, 1, 60);
		test_assert_pattern(trace, 1, 2, 61);
		assert_true(traces_trace_memory_bytes(trace) < 3 * 4096 + 100);
		/* Numbers and offsets go on counting what was passed over. */
		assert_int_equal(report.damages_count, 1);
		assert_int_equal(report.damages[0].packet, 5);
		assert_int_equal(report.damages[0].offset, file.size - 3);
		traces_trace_destroy(trace);
		captures_release(&file);
	}
}

static void an_oversized_last_record_is_no_damage(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 0, 0, 300000, 300000, 0);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 0);
	assert_int_equal(report.skipped_oversize, 1);
	assert_int_equal(report.damages_count, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void the_largest_legal_record_is_kept(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 0, 0, TRACES_RECORD_BYTES_MAX, TRACES_RECORD_BYTES_MAX, 3);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	test_assert_pattern(trace, 0, 3, TRACES_RECORD_BYTES_MAX);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void an_oversized_record_beyond_the_end_is_damage(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 0, 0, 60, 60, 1);
	size_t offset = file.size;
	captures_put32(&file, 1);
	captures_put32(&file, 0);
	captures_put32(&file, UINT32_MAX);
	captures_put32(&file, UINT32_MAX);
	captures_put_pattern(&file, 0, 1000);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	assert_int_equal(report.skipped_oversize, 0);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].packet, 2);
	assert_int_equal(report.damages[0].offset, offset);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void a_file_cut_anywhere_yields_its_whole_packets(void **state)
{
	struct captures_bytes whole = { 0 };
	captures_pcap_header(&whole, CAPTURES_MAGIC_US, 65535, 1);
	size_t ends[4] = { whole.size };
	for (uint32_t i = 0; i < 3; i++) {
		captures_pcap_record(&whole, i, 0, 20 + i, 20 + i, (uint8_t)i);
		ends[i + 1] = whole.size;
	}
	for (size_t size = ends[0]; size <= whole.size; size++) {
		size_t packets = size >= ends[3] ? 3 : size >= ends[2] ? 2 : size >= ends[1];
		struct captures_bytes cut = { .data = whole.data, .size = size };
		struct traces_load_report report;
		struct traces_trace *trace = load(state, &cut, &report);
		assert_int_equal(report.packets, packets);
		assert_int_equal(report.damages_count, size != ends[packets]);
		if (report.damages_count > 0) {
			assert_int_equal(report.damages[0].packet, packets + 1);
			assert_int_equal(report.damages[0].offset, ends[packets]);
			assert_int_equal(report.damages[0].file, 0);
			assert_string_not_equal(report.damages[0].reason, "");
		}
		traces_trace_destroy(trace);
	}
	captures_release(&whole);
}

static void a_file_of_no_packets_is_an_empty_trace(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count = 1;
	traces_trace_records(trace, &count);
	assert_int_equal(count, 0);
	assert_int_equal(report.damages_count, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void old_versions_with_swapped_lengths_are_read(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	file.data[6] = 2; /* version 2.2 */
	captures_put64(&file, 0);
	captures_put32(&file, 1000); /* on the wire */
	captures_put32(&file, 8);    /* captured */
	captures_put_pattern(&file, 1, 8);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	assert_int_equal(traces_trace_records(trace, &count)->wire_len, 1000);
	test_assert_pattern(trace, 0, 1, 8);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void files_put_one_behind_the_other_are_read_on(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	captures_pcap_record(&file, 1, 5, 40, 40, 1);
	size_t second = file.size;
	file.big_endian = true;
	captures_pcap_header(&file, CAPTURES_MAGIC_NS, 65535, 101);
	captures_pcap_record(&file, 2, 5, 40, 40, 2);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 2);
	assert_int_equal(report.damages_count, 0);
	assert_int_equal(report.repeated_headers, 1);
	assert_int_equal(records[0].time_ns, 1000005000);
	assert_int_equal(records[0].link, BASE_LINK_ETHERNET);
	assert_int_equal(records[1].time_ns, 2000000005);
	assert_int_equal(records[1].link, BASE_LINK_RAW);
	test_assert_pattern(trace, 1, 2, 40);
	traces_trace_destroy(trace);

	/* Cut inside the second header: damage behind one packet. */
	file.size = second + 20;
	trace = load(state, &file, &report);
	assert_int_equal(report.packets, 1);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].offset, second);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void every_supported_link_type_is_read(void **state)
{
	static const struct {
		uint32_t number;
		enum base_link link;
	} links[] = {
		{ 0, BASE_LINK_NULL },
		{ 1, BASE_LINK_ETHERNET },
		{ 9, BASE_LINK_PPP },
		{ 12, BASE_LINK_RAW },
		{ 14, BASE_LINK_RAW },
		{ 50, BASE_LINK_PPP_HDLC },
		{ 101, BASE_LINK_RAW },
		{ 104, BASE_LINK_C_HDLC },
		{ 108, BASE_LINK_LOOP },
		{ 113, BASE_LINK_SLL },
		{ 228, BASE_LINK_RAW },
		{ 229, BASE_LINK_RAW },
		{ 276, BASE_LINK_SLL2 },
		/* with the length of a frame check sequence in the upper bits */
		{ 0x24000001, BASE_LINK_ETHERNET },
	};
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct captures_bytes file = { 0 };
		captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, links[i].number);
		captures_pcap_record(&file, 0, 0, 40, 40, 0);
		struct traces_load_report report;
		struct traces_trace *trace = load(state, &file, &report);
		size_t count;
		assert_int_equal(traces_trace_records(trace, &count)->link, links[i].link);
		traces_trace_destroy(trace);
		captures_release(&file);
	}
}

static void other_link_types_are_refused_by_name(void **state)
{
	static const struct {
		uint32_t number;
		const char *name;
	} links[] = {
		{ 147, "USER0" },
		{ 127, "IEEE802_11_RADIOTAP" },
		{ 239, "NFLOG" },
		{ 60000, "60000" },
		{ 0x300000, "3145728" },
	};
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct captures_bytes file = { 0 };
		captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, links[i].number);
		captures_pcap_record(&file, 0, 0, 40, 40, 0);
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		const char *path = captures_write(*state, "link.pcap", &file);
		assert_int_equal(captures_load(&trace, path, &report), -EPROTONOSUPPORT);
		assert_null(trace);
		assert_non_null(strstr(report.message, links[i].name));
		assert_non_null(strstr(report.message, "link.pcap"));
		captures_release(&file);
	}
}

static void memory_is_captured_bytes_and_48_per_packet(void **state)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	for (uint32_t i = 0; i < 20000; i++)
		captures_pcap_record(&file, i, 0, 60 + i % 700, 1500, (uint8_t)i);
	struct traces_load_report report;
	struct traces_trace *trace = load(state, &file, &report);
	assert_int_equal(report.packets, 20000);
	for (uint32_t i = 0; i < 20000; i += 997)
		test_assert_pattern(trace, i, (uint8_t)i, 60 + i % 700);
	uint64_t promised = report.captured_bytes + 48 * report.packets;
	assert_true(traces_trace_memory_bytes(trace) <= promised + 3 * 4096);
	traces_trace_destroy(trace);
	captures_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_magics_in_both_orders_are_read),
		cmocka_unit_test(a_fraction_of_a_second_or_more_carries),
		cmocka_unit_test(a_wire_length_below_the_captured_one_is_raised),
		cmocka_unit_test(the_header_snaplen_refuses_nothing),
		cmocka_unit_test(an_oversized_record_is_passed_over_in_sync),
		cmocka_unit_test(an_oversized_last_record_is_no_damage),
		cmocka_unit_test(the_largest_legal_record_is_kept),
		cmocka_unit_test(an_oversized_record_beyond_the_end_is_damage),
		cmocka_unit_test(a_file_cut_anywhere_yields_its_whole_packets),
		cmocka_unit_test(a_file_of_no_packets_is_an_empty_trace),
		cmocka_unit_test(old_versions_with_swapped_lengths_are_read),
		cmocka_unit_test(files_put_one_behind_the_other_are_read_on),
		cmocka_unit_test(every_supported_link_type_is_read),
		cmocka_unit_test(other_link_types_are_refused_by_name),
		cmocka_unit_test(memory_is_captured_bytes_and_48_per_packet),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
