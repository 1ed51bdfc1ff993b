/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <dirent.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t t0 = UINT64_C(1700000000123456789);

static void pattern(uint8_t *frame, uint8_t seed, size_t size)
{
	for (size_t i = 0; i < size; i++)
		frame[i] = (uint8_t)(seed + i);
}

/* Files of the folder whose names are not the given one's. */
static unsigned int others_count(struct captures_directory *directory, const char *name)
{
	unsigned int count = 0;
	DIR *entries = opendir(directory->path);
	struct dirent *entry;
	while ((entry = readdir(entries)) != NULL)
		count += entry->d_name[0] != '.' && strcmp(entry->d_name, name) != 0;
	closedir(entries);
	return count;
}

static void empty_directory(struct captures_directory *directory)
{
	captures_directory_destroy(directory);
	captures_directory_create(directory);
}

static void what_is_written_is_read_back_in_every_format(void **state)
{
	for (int format = TRACES_FORMAT_PCAP_US; format <= TRACES_FORMAT_PCAPNG; format++) {
		const char *path = captures_path(*state, "out");
		struct traces_writer *writer;
		assert_int_equal(
			traces_writer_create(&writer, path, (enum traces_format)format, 0), 0);
		uint8_t frame[9000];
		for (uint32_t i = 0; i < 2000; i++) {
			pattern(frame, (uint8_t)i, i % 9000);
			assert_int_equal(traces_writer_write(writer, t0 + i * 250,
						 BASE_LINK_ETHERNET, frame, i % 9000, 9000),
				0);
		}
		assert_int_equal(traces_writer_close(writer), 0);
		struct traces_load_report report;
		struct traces_trace *trace;
		assert_int_equal(captures_load(&trace, path, &report), 0);
		assert_int_equal(report.packets, 2000);
		assert_int_equal(report.damages_count, 0);
		bool ns = format != TRACES_FORMAT_PCAP_US;
		assert_int_equal(report.nanoseconds, ns);
		size_t count;
		const struct traces_record *records = traces_trace_records(trace, &count);
		for (uint32_t i = 0; i < 2000; i++) {
			uint64_t time_ns = t0 + i * 250;
			assert_int_equal(records[i].time_ns, ns ? time_ns : time_ns / 1000 * 1000);
			assert_int_equal(records[i].wire_len, 9000);
		}
		for (uint32_t i = 0; i < 2000; i += 111)
			test_assert_pattern(trace, i, (uint8_t)i, i % 9000);
		traces_trace_destroy(trace);
		empty_directory(*state);
	}
}

static void every_link_type_survives_a_copy(void **state)
{
	const char *path = captures_path(*state, "links.pcapng");
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAPNG, 0), 0);
	uint8_t frame[64] = { 0 };
	for (int i = 0; i < 3 * BASE_LINKS_COUNT; i++)
		assert_int_equal(traces_writer_write(writer, t0,
					 (enum base_link)(i % BASE_LINKS_COUNT), frame, 64, 64),
			0);
	assert_int_equal(traces_writer_close(writer), 0);
	struct traces_load_report report;
	struct traces_trace *trace;
	assert_int_equal(captures_load(&trace, path, &report), 0);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_int_equal(count, 3 * BASE_LINKS_COUNT);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(records[i].link, i % BASE_LINKS_COUNT);
	traces_trace_destroy(trace);
}

static void pcap_refuses_a_second_link_type_and_leaves_nothing(void **state)
{
	empty_directory(*state);
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, captures_path(*state, "a.pcap"),
				 TRACES_FORMAT_PCAP_NS, 0),
		0);
	uint8_t frame[64] = { 0 };
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_RAW, frame, 64, 64), 0);
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_ETHERNET, frame, 64, 64),
		-EPROTONOSUPPORT);
	/* After an error nothing else is taken, and closing says it again. */
	assert_int_equal(
		traces_writer_write(writer, t0, BASE_LINK_RAW, frame, 64, 64), -EPROTONOSUPPORT);
	assert_int_equal(traces_writer_close(writer), -EPROTONOSUPPORT);
	assert_int_equal(others_count(*state, ""), 0);
}

static void the_final_name_appears_only_on_close(void **state)
{
	empty_directory(*state);
	const char *path = captures_path(*state, "late.pcap");
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAP_US, 0), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(traces_writer_close(writer), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(others_count(*state, "late.pcap"), 0);
	/* No packet was written: still a capture. */
	struct traces_load_report report;
	struct traces_trace *trace;
	assert_int_equal(captures_load(&trace, path, &report), 0);
	assert_int_equal(report.packets, 0);
	traces_trace_destroy(trace);
}

static void an_abandoned_file_never_appears(void **state)
{
	empty_directory(*state);
	struct traces_writer *writer;
	uint8_t frame[64] = { 0 };
	assert_int_equal(traces_writer_create(&writer, captures_path(*state, "a.pcap"),
				 TRACES_FORMAT_PCAP_NS, 0),
		0);
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_RAW, frame, 64, 64), 0);
	traces_writer_abandon(writer);
	assert_int_equal(others_count(*state, ""), 0);
}

/* libpcap opens no pcapng file without an interface description. */
static void a_file_without_packets_opens_in_every_format(void **state)
{
	for (int format = TRACES_FORMAT_PCAP_US; format <= TRACES_FORMAT_PCAPNG; format++) {
		const char *path = captures_path(*state, "empty");
		char error[PCAP_ERRBUF_SIZE];
		struct traces_writer *writer;
		assert_int_equal(
			traces_writer_create(&writer, path, (enum traces_format)format, 0), 0);
		assert_int_equal(traces_writer_close(writer), 0);
		pcap_t *pcap = pcap_open_offline(path, error);
		assert_non_null(pcap);
		assert_int_equal(pcap_datalink(pcap), DLT_EN10MB);
		pcap_close(pcap);
	}
}

static void frames_are_cut_at_the_snaplen(void **state)
{
	const char *path = captures_path(*state, "cut.pcap");
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAP_US, 96), 0);
	uint8_t frame[1000];
	pattern(frame, 3, sizeof(frame));
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_ETHERNET, frame, 1000, 1000), 0);
	assert_int_equal(traces_writer_close(writer), 0);
	struct traces_load_report report;
	struct traces_trace *trace;
	assert_int_equal(captures_load(&trace, path, &report), 0);
	test_assert_pattern(trace, 0, 3, 96);
	assert_int_equal(report.wire_bytes, 1000);
	traces_trace_destroy(trace);
}

static void a_full_disk_is_reported_and_leaves_no_partial_file(void **state)
{
	empty_directory(*state);
	struct rlimit saved, small = { 3 << 20, 3 << 20 };
	getrlimit(RLIMIT_FSIZE, &saved);
	small.rlim_max = saved.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, captures_path(*state, "a.pcap"),
				 TRACES_FORMAT_PCAP_NS, 0),
		0);
	static uint8_t frame[100000];
	int error = 0;
	for (int i = 0; i < 100 && error == 0; i++)
		error = traces_writer_write(
			writer, t0, BASE_LINK_RAW, frame, sizeof(frame), sizeof(frame));
	assert_int_equal(error, -EFBIG);
	assert_int_equal(traces_writer_close(writer), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &saved);
	assert_int_equal(others_count(*state, ""), 0);

	/* A device: written to, not replaced; it is always full. */
	assert_int_equal(traces_writer_create(&writer, "/dev/full", TRACES_FORMAT_PCAP_NS, 0), 0);
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_RAW, frame, 60, 60), 0);
	assert_int_equal(traces_writer_close(writer), -ENOSPC);
	struct stat status;
	assert_int_equal(stat("/dev/full", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
}

static void a_broken_pipe_is_reported(void **state)
{
	signal(SIGPIPE, SIG_IGN);
	(void)state;
	int ends[2], saved = dup(STDOUT_FILENO);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[0]);
	close(ends[1]);
	struct traces_writer *writer;
	int created = traces_writer_create(&writer, "-", TRACES_FORMAT_PCAPNG, 0);
	int closed = traces_writer_close(writer);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(created, 0);
	assert_int_equal(closed, -EPIPE);
}

static void a_missing_folder_is_reported_at_once(void **state)
{
	(void)state;
	struct traces_writer *writer = NULL;
	assert_int_equal(traces_writer_create(
				 &writer, "/nonexistent/folder/a.pcap", TRACES_FORMAT_PCAP_US, 0),
		-ENOENT);
	assert_int_equal(traces_writer_create(&writer, "/", TRACES_FORMAT_PCAP_US, 0), -EISDIR);
	assert_null(writer);
}

static void a_time_that_pcap_cannot_hold_is_refused(void **state)
{
	const char *path = captures_path(*state, "late.pcap");
	uint8_t frame[60] = { 0 };
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAP_US, 0), 0);
	assert_int_equal(traces_writer_write(writer, UINT64_MAX, BASE_LINK_ETHERNET, frame, 60, 60),
		-ERANGE);
	assert_int_equal(traces_writer_close(writer), -ERANGE);
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAPNG, 0), 0);
	assert_int_equal(
		traces_writer_write(writer, UINT64_MAX, BASE_LINK_ETHERNET, frame, 60, 60), 0);
	assert_int_equal(traces_writer_close(writer), 0);
}

static void a_link_keeps_pointing_to_what_was_written(void **state)
{
	empty_directory(*state);
	char target[600], name[600];
	strcpy(target, captures_path(*state, "target.pcap"));
	strcpy(name, captures_path(*state, "name.pcap"));
	fclose(fopen(target, "w"));
	assert_int_equal(symlink("target.pcap", name), 0);
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, name, TRACES_FORMAT_PCAP_US, 0), 0);
	assert_int_equal(traces_writer_close(writer), 0);
	struct stat status;
	assert_int_equal(lstat(name, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(stat(target, &status), 0);
	assert_int_equal(status.st_size, 24);
}

static void the_format_follows_the_name(void **state)
{
	(void)state;
	assert_int_equal(traces_format_from_path("a.pcapng", false), TRACES_FORMAT_PCAPNG);
	assert_int_equal(traces_format_from_path("a.ns.pcap", false), TRACES_FORMAT_PCAP_NS);
	assert_int_equal(traces_format_from_path("a.pcap", false), TRACES_FORMAT_PCAP_US);
	assert_int_equal(traces_format_from_path("a.pcap", true), TRACES_FORMAT_PCAP_NS);
	assert_int_equal(traces_format_from_path("-", false), TRACES_FORMAT_PCAP_US);
}

static void the_name_also_tells_the_compression(void **state)
{
	(void)state;
	assert_int_equal(traces_compression_from_path("a.pcap.gz"), TRACES_COMPRESSION_GZIP);
	assert_int_equal(traces_compression_from_path("a.zst"), TRACES_COMPRESSION_ZSTD);
	assert_int_equal(traces_compression_from_path("gz"), TRACES_COMPRESSION_NONE);
	assert_int_equal(traces_compression_from_path("-"), TRACES_COMPRESSION_NONE);
	assert_int_equal(traces_format_from_path("a.pcapng.gz", false), TRACES_FORMAT_PCAPNG);
	assert_int_equal(traces_format_from_path("a.ns.pcap.zst", false), TRACES_FORMAT_PCAP_NS);
	assert_int_equal(traces_format_from_path("a.pcapng.bz2", false), TRACES_FORMAT_PCAP_US);
}

/* Frames that do not compress, more than any buffer holds, and one that does. */
static void write_noise(const char *path, uint32_t frames_count, uint32_t frame_bytes)
{
	struct traces_writer *writer;
	struct base_rng rng;
	static uint8_t frame[TRACES_RECORD_BYTES_MAX];
	base_rng_seed(&rng, 7);
	assert_int_equal(
		traces_writer_create(&writer, path, traces_format_from_path(path, true), 0), 0);
	for (uint32_t i = 0; i < frames_count; i++) {
		for (uint32_t j = 0; j < frame_bytes; j++)
			frame[j] = i % 2 == 0 ? (uint8_t)base_rng_u64(&rng) : 0;
		assert_int_equal(traces_writer_write(writer, t0 + i, BASE_LINK_RAW, frame,
					 frame_bytes, frame_bytes),
			0);
	}
	assert_int_equal(traces_writer_close(writer), 0);
}

static void compressed_files_read_back_as_the_plain_one(void **state)
{
	static const char *const names[] = { "a.pcap", "a.pcap.gz", "a.pcap.zst", "a.pcapng.gz",
		"a.pcapng.zst" };
	static const uint8_t magics[][2] = { { 0x4d, 0x3c }, { 0x1f, 0x8b }, { 0x28, 0xb5 },
		{ 0x1f, 0x8b }, { 0x28, 0xb5 } };
	struct traces_trace *plain = NULL;
	size_t plain_count = 0, count;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
		const char *path = captures_path(*state, names[i]);
		write_noise(path, 40, TRACES_RECORD_BYTES_MAX);
		struct captures_bytes bytes = captures_read(path);
		assert_memory_equal(bytes.data, magics[i], 2);
		captures_release(&bytes);
		struct traces_load_report report;
		struct traces_trace *trace;
		assert_int_equal(captures_load(&trace, path, &report), 0);
		assert_int_equal(report.damages_count, 0);
		if (plain == NULL) {
			plain = trace;
			plain_count = report.packets;
			continue;
		}
		const struct traces_record *a = traces_trace_records(plain, &count);
		const struct traces_record *b = traces_trace_records(trace, &count);
		assert_int_equal(count, plain_count);
		for (size_t j = 0; j < count; j++) {
			assert_int_equal(a[j].time_ns, b[j].time_ns);
			assert_int_equal(a[j].cap_len, b[j].cap_len);
			assert_memory_equal(traces_trace_bytes(plain) + a[j].offset,
				traces_trace_bytes(trace) + b[j].offset, a[j].cap_len);
		}
		traces_trace_destroy(trace);
	}
	traces_trace_destroy(plain);
}

static void a_compressed_file_without_packets_is_a_capture(void **state)
{
	static const char *const names[] = { "none.pcap.gz", "none.pcapng.zst" };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
		const char *path = captures_path(*state, names[i]);
		write_noise(path, 0, 0);
		struct traces_load_report report;
		struct traces_trace *trace;
		assert_int_equal(captures_load(&trace, path, &report), 0);
		assert_int_equal(report.packets + report.damages_count, 0);
		traces_trace_destroy(trace);
	}
}

static void lost_digits_of_times_are_counted(void **state)
{
	static const uint64_t times_ns[] = { t0, 1000, 1001, 999, 2000000000, 1999999999, 5 };
	const char *path = captures_path(*state, "rounded.pcap");
	for (int format = 0; format < TRACES_FORMATS_COUNT; format++) {
		struct traces_writer *writer;
		struct traces_writer_losses losses;
		uint8_t frame[1] = { 0 };
		assert_int_equal(
			traces_writer_create(&writer, path, (enum traces_format)format, 0), 0);
		for (size_t i = 0; i < BASE_ARRAY_COUNT(times_ns); i++)
			assert_int_equal(traces_writer_write(writer, times_ns[i],
						 BASE_LINK_ETHERNET, frame, 1, 1),
				0);
		traces_writer_losses(writer, &losses);
		assert_int_equal(losses.time_rounded, format == TRACES_FORMAT_PCAP_US ? 5 : 0);
		assert_int_equal(traces_writer_close(writer), 0);
	}
}

static void what_a_format_cannot_hold_is_said(void **state)
{
	const char *path = captures_path(*state, "refused.pcap");
	struct traces_writer *writer;
	uint8_t frame[20] = { 0 };
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAP_NS, 0), 0);
	assert_string_equal(traces_writer_message(writer), "");
	assert_int_equal(traces_writer_write(writer, t0, BASE_LINK_RAW, frame, 20, 20), 0);
	assert_int_equal(
		traces_writer_write(writer, t0, BASE_LINK_SLL, frame, 20, 20), -EPROTONOSUPPORT);
	assert_string_equal(traces_writer_message(writer),
		"packet 2 is of link type LINUX_SLL and those before of RAW, which pcap cannot "
		"hold together: write pcapng, or convert with --link");
	traces_writer_abandon(writer);
	assert_int_equal(traces_writer_create(&writer, path, TRACES_FORMAT_PCAP_NS, 0), 0);
	assert_int_equal(traces_writer_write(writer, UINT64_C(4294967296000000000), BASE_LINK_RAW,
				 frame, 20, 20),
		-ERANGE);
	assert_string_equal(traces_writer_message(writer),
		"the time of packet 1 is after 2106, which pcap cannot hold: write pcapng");
	traces_writer_abandon(writer);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* Lengths of every remainder by 4, none at all among them: padding is zeros, blocks stay whole. */
static void a_comment_stands_in_the_section(void **state)
{
	static const char *const comments[] = { "", "a", "ab", "abc", "abcd", "abcde" };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(comments); i++) {
		const char *path = captures_path(*state, "comment.pcapng");
		struct traces_writer_options options;
		struct traces_writer *writer;
		uint8_t frame[2] = { 1, 2 };
		traces_writer_options_defaults(&options, path, false);
		options.comment = comments[i];
		assert_int_equal(traces_writer_open(&writer, path, &options), 0);
		assert_int_equal(
			traces_writer_write(writer, t0, BASE_LINK_RAW, frame, (uint32_t)i % 3, 2),
			0);
		assert_int_equal(traces_writer_close(writer), 0);
		struct captures_bytes bytes = captures_read(path);
		size_t size = strlen(comments[i]), padded = (size + 3) / 4 * 4;
		uint32_t length;
		memcpy(&length, bytes.data + 4, sizeof(length));
		assert_int_equal(length, 28 + (size > 0 ? 8 + padded : 0));
		if (size > 0)
			assert_memory_equal(bytes.data + 28, comments[i], size);
		captures_release(&bytes);
		struct traces_load_report report;
		struct traces_trace *trace;
		assert_int_equal(captures_load(&trace, path, &report), 0);
		assert_int_equal(report.packets, 1);
		assert_int_equal(report.damages_count, 0);
		assert_int_equal(report.captured_bytes, i % 3);
		traces_trace_destroy(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back_in_every_format),
		cmocka_unit_test(every_link_type_survives_a_copy),
		cmocka_unit_test(pcap_refuses_a_second_link_type_and_leaves_nothing),
		cmocka_unit_test(the_final_name_appears_only_on_close),
		cmocka_unit_test(an_abandoned_file_never_appears),
		cmocka_unit_test(a_file_without_packets_opens_in_every_format),
		cmocka_unit_test(frames_are_cut_at_the_snaplen),
		cmocka_unit_test(a_full_disk_is_reported_and_leaves_no_partial_file),
		cmocka_unit_test(a_broken_pipe_is_reported),
		cmocka_unit_test(a_missing_folder_is_reported_at_once),
		cmocka_unit_test(a_time_that_pcap_cannot_hold_is_refused),
		cmocka_unit_test(a_link_keeps_pointing_to_what_was_written),
		cmocka_unit_test(the_format_follows_the_name),
		cmocka_unit_test(the_name_also_tells_the_compression),
		cmocka_unit_test(compressed_files_read_back_as_the_plain_one),
		cmocka_unit_test(a_compressed_file_without_packets_is_a_capture),
		cmocka_unit_test(lost_digits_of_times_are_counted),
		cmocka_unit_test(what_a_format_cannot_hold_is_said),
		cmocka_unit_test(a_comment_stands_in_the_section),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
