/* SPDX-License-Identifier: BSD-2-Clause */
/* A file read in batches gives what a file loaded whole gives, wherever the batches end. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <stdlib.h>

enum { PACKETS = 3000 };

/* Everything that the stream delivers, as a trace; the stream's result. */
static int collect(
	struct traces_packets *packets, struct traces_trace **trace, unsigned int *batches)
{
	struct traces_batch batch;
	int error;
	*batches = 0;
	assert_int_equal(traces_trace_create(trace), 0);
	while ((error = traces_packets_next(packets, &batch)) == 0 && batch.count > 0) {
		(*batches)++;
		for (size_t i = 0; i < batch.count; i++)
			assert_int_equal(traces_trace_append(*trace, &batch.records[i],
						 batch.bytes + batch.records[i].offset),
				0);
	}
	return error;
}

static void check_equal(const struct traces_trace *a, const struct traces_trace *b)
{
	size_t a_count, b_count;
	const struct traces_record *x = traces_trace_records(a, &a_count);
	const struct traces_record *y = traces_trace_records(b, &b_count);
	assert_int_equal(a_count, b_count);
	for (size_t i = 0; i < a_count; i++) {
		assert_true(x[i].time_ns == y[i].time_ns);
		assert_int_equal(x[i].cap_len, y[i].cap_len);
		assert_int_equal(x[i].wire_len, y[i].wire_len);
		assert_int_equal(x[i].link, y[i].link);
		assert_int_equal(x[i].interface, y[i].interface);
		assert_memory_equal(traces_trace_bytes(a) + x[i].offset,
			traces_trace_bytes(b) + y[i].offset, x[i].cap_len);
	}
}

static void check_reports(const struct traces_load_report *a, const struct traces_load_report *b)
{
	assert_int_equal(a->packets, b->packets);
	assert_int_equal(a->wire_bytes, b->wire_bytes);
	assert_int_equal(a->captured_bytes, b->captured_bytes);
	assert_int_equal(a->skipped_oversize, b->skipped_oversize);
	assert_int_equal(a->time_backwards, b->time_backwards);
	assert_int_equal(a->snaplen_cut, b->snaplen_cut);
	assert_int_equal(a->repeated_headers, b->repeated_headers);
	assert_int_equal(a->nanoseconds, b->nanoseconds);
	assert_int_equal(a->damages_count, b->damages_count);
	for (uint64_t i = 0; i < a->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		assert_int_equal(a->damages[i].packet, b->damages[i].packet);
		assert_int_equal(a->damages[i].offset, b->damages[i].offset);
		assert_string_equal(a->damages[i].reason, b->damages[i].reason);
	}
}

static void check_file(const char *path, unsigned int batches_min)
{
	struct traces_trace *whole = NULL, *parts = NULL;
	struct traces_load_report whole_report, parts_report;
	struct traces_packets *packets;
	unsigned int batches;
	assert_int_equal(captures_load(&whole, path, &whole_report), 0);
	assert_int_equal(traces_packets_open(&packets, path, NULL, &parts_report), 0);
	assert_int_equal(collect(packets, &parts, &batches), 0);
	assert_true(batches >= batches_min);
	check_equal(whole, parts);
	check_reports(&whole_report, &parts_report);
	traces_packets_destroy(packets);
	traces_trace_destroy(whole);
	traces_trace_destroy(parts);
}

/* Packets of all sizes, times that run backwards now and then, one record too long. */
static void make_pcap(struct captures_bytes *file, struct base_rng *rng)
{
	captures_pcap_header(file, CAPTURES_MAGIC_NS, 1 << 18, 1);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t size = (uint32_t)base_rng_below(rng, i % 64 == 0 ? 200000 : 1500);
		if (i == PACKETS / 2)
			size = TRACES_RECORD_BYTES_MAX + 5;
		captures_pcap_record(file, i, (uint32_t)base_rng_below(rng, 2000000000), size,
			size + (uint32_t)base_rng_below(rng, 2), (uint8_t)i);
	}
}

static void pcap_in_batches_equals_pcap_whole(void **state)
{
	struct captures_bytes file = { 0 };
	struct base_rng rng;
	uint64_t seed = 5;
	base_rng_seed(&rng, seed);
	make_pcap(&file, &rng);
	check_file(captures_write(*state, "a.pcap", &file), 10);
	/* Cut anywhere: the same damage at the same place. */
	for (int i = 0; i < 20; i++) {
		struct captures_bytes cut = { 0 };
		captures_put(&cut, file.data, 24 + base_rng_below(&rng, file.size - 24));
		check_file(captures_write(*state, "b.pcap", &cut), 0);
		captures_release(&cut);
	}
	captures_release(&file);
}

static void compressed_and_joined_files_in_batches_equal_whole_ones(void **state)
{
	struct captures_bytes file = { 0 }, packed = { 0 };
	struct base_rng rng;
	base_rng_seed(&rng, 6);
	make_pcap(&file, &rng);
	make_pcap(&file, &rng); /* a second header where a record should be */
	captures_gzip(&packed, file.data, file.size);
	check_file(captures_write(*state, "a.pcap.gz", &packed), 10);
	packed.size = packed.size / 2;
	check_file(captures_write(*state, "b.pcap.gz", &packed), 1);
	captures_release(&file);
	captures_release(&packed);
}

static void pcapng_in_batches_equals_pcapng_whole(void **state)
{
	struct captures_bytes file = { 0 };
	struct base_rng rng;
	base_rng_seed(&rng, 7);
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_interface(&file, 101, 0, -1, 0);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t size = (uint32_t)base_rng_below(&rng, 1500);
		if (i % 100 == 99)
			captures_simple_packet(&file, size, size, (uint8_t)i);
		else
			captures_enhanced_packet(
				&file, i % 2, i * UINT64_C(1000), size, size, (uint8_t)i);
	}
	check_file(captures_write(*state, "a.pcapng", &file), 5);
	for (int i = 0; i < 20; i++) {
		struct captures_bytes cut = { 0 };
		captures_put(&cut, file.data, 200 + base_rng_below(&rng, file.size - 200));
		check_file(captures_write(*state, "b.pcapng", &cut), 0);
		captures_release(&cut);
	}
	captures_release(&file);
}

static void a_limit_ends_the_stream(void **state)
{
	struct captures_bytes file = { 0 };
	struct base_rng rng;
	base_rng_seed(&rng, 8);
	make_pcap(&file, &rng);
	const char *path = captures_write(*state, "a.pcap", &file);
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.packets_max = 2000;
	struct traces_load_report report;
	struct traces_packets *packets;
	struct traces_trace *trace = NULL;
	unsigned int batches;
	assert_int_equal(traces_packets_open(&packets, path, &options, &report), 0);
	assert_int_equal(collect(packets, &trace, &batches), 0);
	size_t count;
	traces_trace_records(trace, &count);
	assert_int_equal(count, 2000);
	assert_int_equal(report.packets, 2000);
	/* Asking again at the end changes nothing. */
	struct traces_batch batch;
	assert_int_equal(traces_packets_next(packets, &batch), 0);
	assert_int_equal(batch.count, 0);
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void what_is_no_capture_is_refused_at_once(void **state)
{
	struct captures_bytes file = { 0 };
	captures_put(&file, "hello, hello, hello, hello, hello", 33);
	const char *path = captures_write(*state, "a.txt", &file);
	struct traces_load_report report;
	struct traces_packets *packets = NULL;
	assert_int_equal(traces_packets_open(&packets, path, NULL, &report), -EBADMSG);
	assert_non_null(strstr(report.message, "not a capture"));
	assert_int_equal(traces_packets_open(&packets, "/nowhere/x", NULL, &report), -ENOENT);
	assert_null(packets);
	captures_release(&file);
}

static void a_bad_link_in_the_middle_fails_with_its_message(void **state)
{
	struct captures_bytes file = { 0 };
	captures_section(&file);
	captures_interface(&file, 1, 0, -1, 0);
	captures_interface(&file, 147, 0, -1, 0);
	for (uint32_t i = 0; i < 500; i++)
		captures_enhanced_packet(&file, i == 499, i, 1400, 1400, (uint8_t)i);
	const char *path = captures_write(*state, "a.pcapng", &file);
	struct traces_load_report report;
	struct traces_packets *packets;
	struct traces_trace *trace = NULL;
	unsigned int batches;
	assert_int_equal(traces_packets_open(&packets, path, NULL, &report), 0);
	assert_int_equal(collect(packets, &trace, &batches), -EPROTONOSUPPORT);
	assert_true(batches >= 1);
	assert_non_null(strstr(traces_packets_message(packets), "USER0"));
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	captures_release(&file);
}

static void a_trace_is_a_stream_and_a_stream_a_file(void **state)
{
	struct captures_bytes file = { 0 };
	struct base_rng rng;
	base_rng_seed(&rng, 9);
	make_pcap(&file, &rng);
	struct traces_trace *trace = NULL, *again = NULL;
	struct traces_load_report report;
	assert_int_equal(
		captures_load(&trace, captures_write(*state, "a.pcap", &file), &report), 0);
	struct traces_packets *packets;
	struct traces_writer *writer;
	assert_int_equal(traces_packets_of_trace(&packets, trace, 77), 0);
	const char *copy = captures_path(*state, "copy.pcapng");
	assert_int_equal(
		traces_writer_create(&writer, copy, TRACES_FORMAT_PCAPNG, TRACES_RECORD_BYTES_MAX),
		0);
	bool failed_read = true;
	assert_int_equal(traces_writer_pump(writer, packets, NULL, &failed_read), 0);
	assert_false(failed_read);
	assert_int_equal(traces_writer_close(writer), 0);
	assert_int_equal(captures_load(&again, copy, &report), 0);
	check_equal(trace, again);
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	traces_trace_destroy(again);
	captures_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pcap_in_batches_equals_pcap_whole),
		cmocka_unit_test(compressed_and_joined_files_in_batches_equal_whole_ones),
		cmocka_unit_test(pcapng_in_batches_equals_pcapng_whole),
		cmocka_unit_test(a_limit_ends_the_stream),
		cmocka_unit_test(what_is_no_capture_is_refused_at_once),
		cmocka_unit_test(a_bad_link_in_the_middle_fails_with_its_message),
		cmocka_unit_test(a_trace_is_a_stream_and_a_stream_a_file),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
