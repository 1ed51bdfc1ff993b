/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

/* A pcap with a packet at each of the given seconds; frames carry seed, seed + 1, ... */
static void write_times(void **state, char *path, const char *name, const uint32_t *seconds,
	size_t count, uint8_t seed)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	for (size_t i = 0; i < count; i++)
		captures_pcap_record(&file, seconds[i], 0, 50, 50, (uint8_t)(seed + i));
	strcpy(path, captures_write(*state, name, &file));
	captures_release(&file);
}

struct three_files {
	char text[3][600];
	const char *paths[3];
};

/* 1: 10 30 30 20; 2: 5 30 40; 3: nothing. */
static void write_three(void **state, struct three_files *files)
{
	write_times(state, files->text[0], "1.pcap", (const uint32_t[]){ 10, 30, 30, 20 }, 4, 10);
	write_times(state, files->text[1], "2.pcap", (const uint32_t[]){ 5, 30, 40 }, 3, 20);
	write_times(state, files->text[2], "3.pcap", NULL, 0, 0);
	for (int i = 0; i < 3; i++)
		files->paths[i] = files->text[i];
}

static void check_order(const struct traces_trace *trace, const uint8_t *seeds, size_t count)
{
	size_t found;
	const struct traces_record *records = traces_trace_records(trace, &found);
	assert_int_equal(found, count);
	for (size_t i = 0; i < count; i++) {
		test_assert_pattern(trace, i, seeds[i], 50);
		assert_int_equal(records[i].file, seeds[i] / 20);
	}
}

static void files_follow_one_another_by_default(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	check_order(trace, (const uint8_t[]){ 10, 11, 12, 13, 20, 21, 22 }, 7);
	assert_int_equal(report.time_backwards, 1); /* within a file only */
	traces_trace_destroy(trace);
}

static void merging_is_by_time_stable_and_keeps_each_files_order(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.merge = true;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	/* 13 is late: it follows its predecessor at once */
	check_order(trace, (const uint8_t[]){ 20, 10, 11, 12, 13, 21, 22 }, 7);
	assert_int_equal(report.time_backwards, 1);
	traces_trace_destroy(trace);
}

static void a_limit_of_packets_holds_for_all_files_together(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.packets_max = 5;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	check_order(trace, (const uint8_t[]){ 10, 11, 12, 13, 20 }, 5);
	assert_int_equal(report.packets, 5);
	assert_int_equal(report.captured_bytes, 250);
	traces_trace_destroy(trace);
	options.merge = true;
	options.packets_max = 2;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	check_order(trace, (const uint8_t[]){ 20, 10 }, 2);
	traces_trace_destroy(trace);
}

static void a_limit_of_bytes_refuses_to_hold_more(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	options.bytes_max = 350;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	traces_trace_destroy(trace);
	trace = NULL;
	options.bytes_max = 349;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), -EFBIG);
	assert_null(trace);
	assert_non_null(strstr(report.message, "349"));
}

static void system_errors_name_the_file(void **state)
{
	struct captures_directory *directory = *state;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(
		captures_load(&trace, captures_path(directory, "none.pcap"), &report), -ENOENT);
	assert_non_null(strstr(report.message, "none.pcap: No such file"));
	assert_int_equal(captures_load(&trace, directory->path, &report), -EISDIR);
	assert_int_equal(traces_trace_load(&trace, NULL, 0, NULL, &report), -EINVAL);
	assert_string_not_equal(report.message, "");
	assert_null(trace);
}

static void a_message_is_one_line_whatever_the_path(void **state)
{
	(void)state;
	char path[3000];
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	path[sizeof(path) - 3] = '\n';
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_true(captures_load(&trace, path, &report) < 0);
	assert_null(strchr(report.message, '\n'));
	assert_non_null(strstr(report.message, "too long"));
}

static void an_error_in_a_later_file_names_that_file(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct captures_bytes empty = { 0 };
	strcpy(files.text[2], captures_write(*state, "empty.pcap", &empty));
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, NULL, &report), -EBADMSG);
	assert_non_null(strstr(report.message, "empty.pcap"));
}

static void damage_says_in_which_file(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct captures_bytes file = captures_read(files.paths[1]);
	file.size -= 1;
	strcpy(files.text[1], captures_write(*state, "2.pcap", &file));
	captures_release(&file);
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, NULL, &report), 0);
	check_order(trace, (const uint8_t[]){ 10, 11, 12, 13, 20, 21 }, 6);
	assert_int_equal(report.damages_count, 1);
	assert_int_equal(report.damages[0].file, 1);
	assert_int_equal(report.damages[0].packet, 3);
	traces_trace_destroy(trace);
}

static void variants_that_only_libpcap_knows_go_through_it(void **state)
{
	/* The old patched format: its record headers carry 8 more bytes. */
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, 0xa1b2cd34, 65535, 1);
	for (uint32_t i = 0; i < 3; i++) {
		captures_put32(&file, 100 + i);
		captures_put32(&file, 7);
		captures_put32(&file, 40);
		captures_put32(&file, 60);
		captures_put64(&file, 0);
		captures_put_pattern(&file, (uint8_t)i, 40);
	}
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	const char *path = captures_write(*state, "patched.pcap", &file);
	assert_int_equal(captures_load(&trace, path, &report), 0);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 3);
	assert_int_equal(records[2].time_ns, UINT64_C(102000007000));
	assert_int_equal(records[2].wire_len, 60);
	test_assert_pattern(trace, 2, 2, 40);
	traces_trace_destroy(trace);
	captures_release(&file);
}

struct progress {
	unsigned int calls;
	uint64_t done, total;
	bool backwards;
};

static void note_progress(void *context, uint64_t done, uint64_t total)
{
	struct progress *progress = context;
	progress->backwards |= done < progress->done;
	progress->calls++;
	progress->done = done;
	progress->total = total;
}

static void progress_runs_up_to_the_size_of_all_files(void **state)
{
	struct three_files files;
	write_three(state, &files);
	struct progress progress = { 0 };
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.progress = note_progress;
	options.progress_context = &progress;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	assert_int_equal(traces_trace_load(&trace, files.paths, 3, &options, &report), 0);
	assert_true(progress.calls >= 3);
	assert_false(progress.backwards);
	assert_int_equal(progress.total, 3 * 24 + 7 * 66);
	assert_int_equal(progress.done, progress.total);
	traces_trace_destroy(trace);
}

static void a_trace_can_be_built_packet_by_packet(void **state)
{
	(void)state;
	struct traces_trace *trace;
	assert_int_equal(traces_trace_create(&trace), 0);
	uint8_t frame[3000];
	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)i;
	for (uint32_t i = 0; i < 20000; i++) {
		struct traces_record record = { .time_ns = i, .cap_len = i % 2000, .wire_len = 9 };
		assert_int_equal(traces_trace_append(trace, &record, frame + i % 256), 0);
	}
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 20000);
	for (uint32_t i = 0; i < 20000; i += 13) {
		assert_int_equal(records[i].time_ns, i);
		assert_true(records[i].wire_len >= records[i].cap_len);
		test_assert_pattern(trace, i, (uint8_t)i, i % 2000);
	}
	traces_trace_destroy(trace);
	traces_trace_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_follow_one_another_by_default),
		cmocka_unit_test(merging_is_by_time_stable_and_keeps_each_files_order),
		cmocka_unit_test(a_limit_of_packets_holds_for_all_files_together),
		cmocka_unit_test(a_limit_of_bytes_refuses_to_hold_more),
		cmocka_unit_test(system_errors_name_the_file),
		cmocka_unit_test(a_message_is_one_line_whatever_the_path),
		cmocka_unit_test(an_error_in_a_later_file_names_that_file),
		cmocka_unit_test(damage_says_in_which_file),
		cmocka_unit_test(variants_that_only_libpcap_knows_go_through_it),
		cmocka_unit_test(progress_runs_up_to_the_size_of_all_files),
		cmocka_unit_test(a_trace_can_be_built_packet_by_packet),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
