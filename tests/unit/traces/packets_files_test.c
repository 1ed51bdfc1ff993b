/* SPDX-License-Identifier: BSD-2-Clause */
/* Several files as one stream give what they give loaded: packets, report, errors; and a stream
 * ends when it is told to. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 5 };

struct random_files {
	size_t count;
	char text[FILES_MAX][600];
	const char *paths[FILES_MAX];
};

/* Packets of all sizes, equal and backward times; some files are cut, oversized or empty. */
static void files_make(struct random_files *files, void **state, struct base_rng *rng)
{
	files->count = 1 + base_rng_below(rng, FILES_MAX);
	for (size_t i = 0; i < files->count; i++) {
		struct captures_bytes file = { 0 };
		bool nanoseconds = base_rng_below(rng, 2) == 0;
		uint64_t packets = base_rng_below(rng, 4) == 0 ? 0 : base_rng_below(rng, 1500);
		uint32_t now = 100;
		captures_pcap_header(
			&file, nanoseconds ? CAPTURES_MAGIC_NS : CAPTURES_MAGIC_US, 65535, 1);
		for (uint64_t j = 0; j < packets; j++) {
			uint32_t size = (uint32_t)base_rng_below(rng, 1500);
			now += (uint32_t)base_rng_below(rng, 3);
			now -= base_rng_below(rng, 8) == 0 ? 2 : 0;
			if (base_rng_below(rng, 500) == 0)
				size = TRACES_RECORD_BYTES_MAX + 1;
			captures_pcap_record(&file, now, 0, size,
				size + (uint32_t)base_rng_below(rng, 2), (uint8_t)j);
		}
		if (base_rng_below(rng, 3) == 0)
			file.size = 24 + base_rng_below(rng, file.size - 23);
		char name[32];
		snprintf(name, sizeof(name), "%zu.pcap", i);
		snprintf(files->text[i], sizeof(files->text[i]), "%s",
			captures_write(*state, name, &file));
		files->paths[i] = files->text[i];
		captures_release(&file);
	}
}

static int collect(struct traces_packets *packets, struct traces_trace *trace)
{
	struct traces_batch batch;
	int error;
	while ((error = traces_packets_next(packets, &batch)) == 0 && batch.count > 0) {
		for (size_t i = 0; i < batch.count; i++)
			assert_int_equal(traces_trace_append(trace, &batch.records[i],
						 batch.bytes + batch.records[i].offset),
				0);
	}
	return error;
}

static void check_packets(const struct traces_trace *a, const struct traces_trace *b)
{
	size_t a_count, b_count;
	const struct traces_record *x = traces_trace_records(a, &a_count);
	const struct traces_record *y = traces_trace_records(b, &b_count);
	assert_int_equal(a_count, b_count);
	for (size_t i = 0; i < a_count; i++) {
		assert_true(x[i].time_ns == y[i].time_ns);
		assert_int_equal(x[i].file, y[i].file);
		assert_int_equal(x[i].cap_len, y[i].cap_len);
		assert_int_equal(x[i].wire_len, y[i].wire_len);
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
	assert_int_equal(a->nanoseconds, b->nanoseconds);
	assert_int_equal(a->damages_count, b->damages_count);
	for (uint64_t i = 0; i < a->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		assert_int_equal(a->damages[i].file, b->damages[i].file);
		assert_int_equal(a->damages[i].packet, b->damages[i].packet);
		assert_int_equal(a->damages[i].offset, b->damages[i].offset);
		assert_string_equal(a->damages[i].reason, b->damages[i].reason);
	}
}

static void a_stream_of_files_equals_the_files_loaded(void **state)
{
	for (uint64_t seed = 1; seed <= 150; seed++) {
		static struct random_files files;
		struct base_rng rng;
		struct traces_load_options options;
		struct traces_load_report loaded_report, streamed_report;
		struct traces_trace *loaded = NULL, *streamed = NULL;
		struct traces_packets *packets;
		base_rng_seed(&rng, seed);
		files_make(&files, state, &rng);
		traces_load_options_defaults(&options);
		options.merge = base_rng_below(&rng, 3) != 0;
		options.packets_max =
			base_rng_below(&rng, 2) == 0 ? 0 : 1 + base_rng_below(&rng, 3000);
		print_message("seed %llu\n", (unsigned long long)seed);
		assert_int_equal(traces_trace_load(&loaded, files.paths, files.count, &options,
					 &loaded_report),
			0);
		assert_int_equal(traces_trace_create(&streamed), 0);
		assert_int_equal(traces_packets_open_files(&packets, files.paths, files.count,
					 &options, &streamed_report),
			0);
		assert_int_equal(collect(packets, streamed), 0);
		check_packets(loaded, streamed);
		check_reports(&loaded_report, &streamed_report);
		traces_packets_destroy(packets);
		traces_trace_destroy(loaded);
		traces_trace_destroy(streamed);
	}
}

static void one_file(struct random_files *files, void **state, const char *name, size_t packets)
{
	struct captures_bytes file = { 0 };
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	for (size_t i = 0; i < packets; i++)
		captures_pcap_record(&file, (uint32_t)i, 0, 1000, 1000, (uint8_t)i);
	snprintf(files->text[files->count], sizeof(files->text[0]), "%s",
		captures_write(*state, name, &file));
	files->paths[files->count] = files->text[files->count];
	files->count++;
	captures_release(&file);
}

/* Error, message and all, as from loading. */
static void check_refused(const struct random_files *files, bool merge)
{
	struct traces_load_options options;
	struct traces_load_report loaded_report, streamed_report;
	struct traces_trace *trace = NULL;
	struct traces_packets *packets = NULL;
	traces_load_options_defaults(&options);
	options.merge = merge;
	int wanted =
		traces_trace_load(&trace, files->paths, files->count, &options, &loaded_report);
	assert_true(wanted < 0);
	int error = traces_packets_open_files(
		&packets, files->paths, files->count, &options, &streamed_report);
	if (error == 0) {
		assert_int_equal(traces_trace_create(&trace), 0);
		error = collect(packets, trace);
		assert_string_equal(traces_packets_message(packets), loaded_report.message);
		traces_packets_destroy(packets);
		traces_trace_destroy(trace);
	} else {
		assert_string_equal(streamed_report.message, loaded_report.message);
	}
	assert_int_equal(error, wanted);
}

static void what_loading_refuses_is_refused(void **state)
{
	struct random_files files = { 0 };
	one_file(&files, state, "good.pcap", 2000);
	files.paths[files.count++] = "/nowhere/x.pcap";
	check_refused(&files, true);
	check_refused(&files, false);
	struct captures_bytes text = { 0 };
	captures_put(&text, "this is not a capture at all, sorry", 35);
	files.paths[1] = captures_write(*state, "text", &text);
	check_refused(&files, true);
	check_refused(&files, false);
	captures_release(&text);
}

/* ---- ending early ---- */

struct feeder {
	const char *path;
	atomic_bool stop; /* partner: the stream's relaxed loads */
	size_t bytes;     /* written before it falls silent */
};

/* Write a part of a capture into the pipe, keep it open, and ask for the end a little later. */
static void *feed(void *context)
{
	struct feeder *feeder = context;
	struct captures_bytes file = { 0 };
	const struct timespec pause = { .tv_nsec = 200000000 };
	FILE *pipe = fopen(feeder->path, "wb");
	captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
	for (size_t i = 0; i < 1000; i++)
		captures_pcap_record(&file, (uint32_t)i, 0, 1000, 1000, (uint8_t)i);
	assert_int_equal(fwrite(file.data, 1, feeder->bytes, pipe), feeder->bytes);
	fflush(pipe);
	nanosleep(&pause, NULL);
	atomic_store_explicit(&feeder->stop, true, memory_order_relaxed);
	nanosleep(&pause, NULL);
	nanosleep(&pause, NULL);
	fclose(pipe);
	captures_release(&file);
	return NULL;
}

static void a_silent_pipe_is_left_when_asked(void **state)
{
	static const size_t bytes[] = { 0, 10, 700000 };
	char path[600];
	snprintf(path, sizeof(path), "%s", captures_path(*state, "pipe"));
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(bytes); i++) {
		struct feeder feeder = { .path = path, .bytes = bytes[i] };
		struct traces_load_options options;
		struct traces_load_report report;
		struct traces_packets *packets;
		struct traces_trace *trace = NULL;
		const char *paths[] = { path };
		pthread_t thread;
		traces_load_options_defaults(&options);
		options.stop = &feeder.stop;
		assert_int_equal(pthread_create(&thread, NULL, feed, &feeder), 0);
		int error = traces_packets_open_files(&packets, paths, 1, &options, &report);
		if (error == 0) {
			assert_true(bytes[i] > 100000);
			assert_int_equal(traces_trace_create(&trace), 0);
			error = collect(packets, trace);
			traces_packets_destroy(packets);
			traces_trace_destroy(trace);
		}
		assert_int_equal(error, -EINTR);
		assert_int_equal(report.damages_count, 0);
		pthread_join(thread, NULL);
	}
}

static void loading_ends_when_asked(void **state)
{
	struct random_files files = { 0 };
	const atomic_bool stop = true;
	struct traces_load_options options;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	one_file(&files, state, "good.pcap", 2000);
	traces_load_options_defaults(&options);
	options.stop = &stop;
	assert_int_equal(traces_trace_load(&trace, files.paths, 1, &options, &report), -EINTR);
	assert_null(trace);
	assert_int_equal(report.damages_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_of_files_equals_the_files_loaded),
		cmocka_unit_test(what_loading_refuses_is_refused),
		cmocka_unit_test(a_silent_pipe_is_left_when_asked),
		cmocka_unit_test(loading_ends_when_asked),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
