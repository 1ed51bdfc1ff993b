/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of 13-byte 5-tuples. */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"

static void put_tuple(struct captures_bytes *file, uint32_t source, uint16_t source_port,
	uint32_t destination, uint16_t destination_port, uint8_t protocol)
{
	file->big_endian = true;
	captures_put32(file, source);
	captures_put16(file, source_port);
	captures_put32(file, destination);
	captures_put16(file, destination_port);
	captures_put8(file, protocol);
}

static struct captures_bytes make_tuples(uint32_t count)
{
	static const uint8_t protocols[] = { 6, 17, 1, 47, 0, 255 };
	struct captures_bytes file = { 0 };
	for (uint32_t i = 0; i < count; i++)
		put_tuple(&file, 0x0a000000 + i, (uint16_t)i, 0xc0a80000 - i, (uint16_t)(7 * i),
			protocols[i % BASE_ARRAY_COUNT(protocols)]);
	return file;
}

static int load(struct traces_trace **trace, const char *path, struct traces_load_options *options,
	struct traces_load_report *report)
{
	return traces_trace_load(trace, &path, 1, options, report);
}

static void tuples_become_packets_with_made_times(void **state)
{
	enum { COUNT = 10000 };
	struct captures_bytes file = make_tuples(COUNT);
	const char *path = captures_write(*state, "a.tuples", &file);
	struct traces_load_options options;
	struct traces_load_report report;
	struct traces_trace *trace;
	traces_load_options_defaults(&options);
	options.made_start_ns = 5000000000;
	options.made_packets_per_s = 3;
	options.made_ip_bytes = 200;
	assert_int_equal(load(&trace, path, &options, &report), 0);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, COUNT);
	assert_int_equal(report.time_missing, COUNT);
	assert_true(report.nanoseconds);
	for (uint32_t i = 0; i < COUNT; i++) {
		const uint8_t *ip = traces_trace_bytes(trace) + records[i].offset;
		assert_true(records[i].time_ns == 5000000000 + i * UINT64_C(1000000000) / 3);
		assert_int_equal(records[i].wire_len, 200);
		assert_int_equal(records[i].link, BASE_LINK_RAW);
		assert_int_equal(traces_net32(ip + 12), 0x0a000000 + i);
		assert_int_equal(traces_net32(ip + 16), 0xc0a80000 - i);
		if (ip[9] == 6 || ip[9] == 17)
			assert_int_equal(
				traces_net32(ip + 20), (i & 0xffff) << 16 | (7 * i & 0xffff));
	}
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void defaults_are_a_million_a_second_from_1970(void **state)
{
	struct captures_bytes file = make_tuples(3);
	const char *path = captures_write(*state, "a.5t", &file);
	struct traces_load_report report;
	struct traces_trace *trace;
	assert_int_equal(load(&trace, path, NULL, &report), 0);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 3);
	assert_false(report.nanoseconds);
	assert_true(records[2].time_ns == 2000);
	assert_int_equal(records[2].wire_len, 114);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void compressed_and_cut_and_empty_files_are_read(void **state)
{
	struct captures_bytes file = make_tuples(5000), packed = { 0 };
	struct traces_load_report report;
	struct traces_trace *trace;
	captures_gzip(&packed, file.data, file.size - 5);
	const char *path = captures_write(*state, "a.tuples.gz", &packed);
	assert_int_equal(load(&trace, path, NULL, &report), 0);
	assert_int_equal(report.packets, 4999);
	assert_int_equal(report.damages_count, 1);
	assert_string_equal(report.damages[0].reason, "file ends inside a 5-tuple");
	assert_int_equal(report.damages[0].offset, 4999 * 13);
	assert_int_equal(report.damages[0].packet, 5000);
	traces_trace_destroy(trace);
	captures_release(&packed);

	path = captures_write(*state, "none.5t", &packed);
	assert_int_equal(load(&trace, path, NULL, &report), 0);
	assert_int_equal(report.packets + report.damages_count, 0);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void other_names_need_to_be_told(void **state)
{
	struct captures_bytes file = make_tuples(5);
	const char *path = captures_write(*state, "a.dat", &file);
	struct traces_load_options options;
	struct traces_load_report report;
	struct traces_trace *trace;
	assert_int_equal(load(&trace, path, NULL, &report), -EBADMSG);
	traces_load_options_defaults(&options);
	options.input = TRACES_INPUT_TUPLES;
	options.packets_max = 4;
	assert_int_equal(load(&trace, path, &options, &report), 0);
	assert_int_equal(report.packets, 4);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void packets_become_tuples(void **state)
{
	const char *path = captures_path(*state, "out.5t");
	struct traces_writer *writer;
	struct traces_writer_losses losses;
	uint8_t frame[256];
	assert_int_equal(
		traces_writer_create(&writer, path, traces_format_from_path(path, false), 0), 0);
	struct packets_spec spec =
		packets_ip4(BASE_PROTOCOL_UDP, 0x01020304, 0x0506, 0x0708090a, 0x0b0c);
	uint32_t size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_writer_write(writer, 1, BASE_LINK_ETHERNET, frame, size, size);
	traces_writer_write(writer, 1, BASE_LINK_ETHERNET, frame, 14 + 20, size);
	traces_writer_write(writer, 1, BASE_LINK_ETHERNET, frame, 14 + 19, size);
	spec.protocol = BASE_PROTOCOL_ICMP;
	size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_writer_write(writer, 1, BASE_LINK_ETHERNET, frame, size, size);
	spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_writer_write(writer, 1, BASE_LINK_ETHERNET, frame, size, size);
	traces_writer_losses(writer, &losses);
	assert_int_equal(losses.left_out, 2);
	assert_int_equal(traces_writer_close(writer), 0);
	struct captures_bytes written = captures_read(path);
	static const uint8_t expected[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17, 1, 2, 3, 4,
		0, 0, 7, 8, 9, 10, 0, 0, 17, 1, 2, 3, 4, 0, 0, 7, 8, 9, 10, 0, 0, 1 };
	assert_int_equal(written.size, sizeof(expected));
	assert_memory_equal(written.data, expected, sizeof(expected));
	captures_release(&written);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tuples_become_packets_with_made_times),
		cmocka_unit_test(defaults_are_a_million_a_second_from_1970),
		cmocka_unit_test(compressed_and_cut_and_empty_files_are_read),
		cmocka_unit_test(other_names_need_to_be_told),
		cmocka_unit_test(packets_become_tuples),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
