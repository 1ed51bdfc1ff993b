/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include <stdlib.h>
#include <unistd.h>

enum { PACKETS = 3000 };

/* A pcap of PACKETS packets, large enough for several buffers. */
static struct captures_bytes sample(void)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	for (uint32_t i = 0; i < PACKETS; i++)
		captures_pcap_record(&file, i, 0, 100 + i % 1000, 1500, (uint8_t)i);
	return file;
}

static void check_whole(const struct traces_trace *trace)
{
	size_t count;
	traces_trace_records(trace, &count);
	assert_int_equal(count, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i += 7)
		test_assert_pattern(trace, i, (uint8_t)i, 100 + i % 1000);
}

static void check_loads_whole(void **state, const char *name, const struct captures_bytes *file)
{
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(captures_load(&trace, captures_write(*state, name, file), &report), 0);
	assert_int_equal(report.damages_count, 0);
	check_whole(trace);
	uint64_t promised = report.captured_bytes + 48 * report.packets;
	assert_true(traces_trace_memory_bytes(trace) <= promised + 3 * 4096);
	traces_trace_destroy(trace);
}

static void compression_is_told_by_magic_not_by_name(void **state)
{
	struct captures_bytes plain = sample(), gzip = { 0 }, zstd = { 0 };
	captures_gzip(&gzip, plain.data, plain.size);
	captures_zstd(&zstd, plain.data, plain.size);
	check_loads_whole(state, "plain.pcap.gz", &plain);
	check_loads_whole(state, "gzip.pcap", &gzip);
	check_loads_whole(state, "zstd", &zstd);
	captures_release(&plain);
	captures_release(&gzip);
	captures_release(&zstd);
}

static void members_and_frames_follow_one_another(void **state)
{
	struct captures_bytes plain = sample(), gzip = { 0 }, zstd = { 0 };
	size_t parts[] = { 0, 10, 24, 30000, plain.size };
	for (int i = 0; i < 4; i++) {
		captures_gzip(&gzip, plain.data + parts[i], parts[i + 1] - parts[i]);
		captures_zstd(&zstd, plain.data + parts[i], parts[i + 1] - parts[i]);
		/* a frame to skip, of four bytes */
		captures_put(&zstd, "\x53\x2a\x4d\x18\4\0\0\0skip", 12);
	}
	captures_put(&gzip, "\0\0\0\0\0\0\0", 7); /* padding, as from tape */
	check_loads_whole(state, "members", &gzip);
	check_loads_whole(state, "frames", &zstd);
	captures_release(&plain);
	captures_release(&gzip);
	captures_release(&zstd);
}

static void check_damaged(void **state, const struct captures_bytes *file, bool whole)
{
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(
		captures_load(&trace, captures_write(*state, "damaged", file), &report), 0);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].packet, report.packets + 1);
	assert_string_not_equal(report.damages[0].reason, "");
	if (whole) {
		check_whole(trace);
	} else {
		assert_in_range(report.packets, 1, PACKETS - 1);
		test_assert_pattern(trace, 0, 0, 100);
	}
	traces_trace_destroy(trace);
}

static void data_cut_or_spoilt_yields_the_packets_before(void **state)
{
	struct captures_bytes plain = sample(), packed[2] = { { 0 }, { 0 } };
	captures_gzip(&packed[0], plain.data, plain.size);
	/* zstd delivers whole blocks; several frames leave some before the cut */
	for (size_t at = 0; at < plain.size; at += 65536)
		captures_zstd(&packed[1], plain.data + at,
			plain.size - at < 65536 ? plain.size - at : 65536);
	for (int i = 0; i < 2; i++) {
		struct captures_bytes cut = { .data = packed[i].data, .size = packed[i].size / 2 };
		check_damaged(state, &cut, false);
		memset(packed[i].data + packed[i].size / 2, 0xff, 64);
		check_damaged(state, &packed[i], false);
		captures_release(&packed[i]);
	}
	captures_release(&plain);
}

static void garbage_behind_compressed_data_is_damage_behind_the_last_packet(void **state)
{
	struct captures_bytes plain = sample(), gzip = { 0 }, zstd = { 0 };
	captures_gzip(&gzip, plain.data, plain.size);
	captures_put(&gzip, "garbage and more garbage", 24);
	check_damaged(state, &gzip, true);
	captures_zstd(&zstd, plain.data, plain.size);
	captures_put(&zstd, "garbage and more garbage", 24);
	check_damaged(state, &zstd, true);
	captures_release(&plain);
	captures_release(&gzip);
	captures_release(&zstd);
}

static void check_refused(void **state, const void *bytes, size_t size, const char *word)
{
	struct captures_bytes file = { 0 };
	captures_put(&file, bytes, size);
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	const char *path = captures_write(*state, "refused.bin", &file);
	assert_int_equal(captures_load(&trace, path, &report), -EBADMSG);
	assert_null(trace);
	assert_non_null(strstr(report.message, word));
	assert_non_null(strstr(report.message, "refused.bin"));
	assert_null(strchr(report.message, '\n'));
	captures_release(&file);
}

static void what_is_no_capture_is_refused_with_a_reason(void **state)
{
	check_refused(state, "", 0, "empty");
	check_refused(state, "\xa1", 1, "not a capture");
	check_refused(state, "\xa1\xb2\xc3\xd4\0\2\0\4", 8, "ends inside");
	check_refused(state, "Just some text, longer than a file header.\n", 43, "not a capture");
	check_refused(state,
		"\xfd"
		"7zXZ\0\0",
		7, "xz");
	check_refused(state, "BZh91AY&SY", 10, "bzip2");
	check_refused(state, "snoop\0\0\0\0\0\0\2", 12, "snoop");
	check_refused(state, "\x1f\x8b", 2, "gzip");
	check_refused(state, "\x1f\x8b\xff\xff\xff\xff\xff\xff", 8, "gzip");
	check_refused(state, "\x28\xb5\x2f\xfd", 4, "zstd");
	struct captures_bytes inner = { 0 };
	captures_gzip(&inner, "not a capture, but packed", 25);
	check_refused(state, inner.data, inner.size, "not a capture");
	captures_release(&inner);
	captures_gzip(&inner, "", 0);
	check_refused(state, inner.data, inner.size, "empty");
	captures_release(&inner);
}

static void standard_input_is_read_from_a_pipe(void **state)
{
	(void)state;
	struct captures_bytes plain = { 0 }, packed = { 0 };
	captures_pcap_header(&plain, CAPTURES_MAGIC_US, 65535, 1);
	for (uint32_t i = 0; i < 100; i++)
		captures_pcap_record(&plain, i, 0, 200, 200, (uint8_t)i);
	captures_gzip(&packed, plain.data, plain.size);
	int saved = dup(STDIN_FILENO);
	for (int i = 0; i < 2; i++) {
		const struct captures_bytes *file = i ? &packed : &plain;
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], file->data, file->size), file->size);
		close(ends[1]);
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		assert_int_equal(captures_load(&trace, "-", &report), 0);
		assert_int_equal(report.packets, 100);
		test_assert_pattern(trace, 99, 99, 200);
		traces_trace_destroy(trace);
	}
	dup2(saved, STDIN_FILENO);
	close(saved);
	captures_release(&plain);
	captures_release(&packed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compression_is_told_by_magic_not_by_name),
		cmocka_unit_test(members_and_frames_follow_one_another),
		cmocka_unit_test(data_cut_or_spoilt_yields_the_packets_before),
		cmocka_unit_test(garbage_behind_compressed_data_is_damage_behind_the_last_packet),
		cmocka_unit_test(what_is_no_capture_is_refused_with_a_reason),
		cmocka_unit_test(standard_input_is_read_from_a_pipe),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
