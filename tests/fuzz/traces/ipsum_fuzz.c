/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as an IPSummaryDump: what is read can be written, and read again the same. */
#include "traces/traces.h"

#include "base/compiler.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int open_memory(char path[64])
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	BASE_ASSERT(fd >= 0);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static struct traces_trace *load(const char *path, struct traces_load_report *report)
{
	struct traces_load_options options;
	struct traces_trace *trace = NULL;
	traces_load_options_defaults(&options);
	options.input = TRACES_INPUT_IPSUM;
	options.packets_max = 100000;
	int error = traces_trace_load(&trace, &path, 1, &options, report);
	BASE_ASSERT((error != 0) == (report->message[0] != '\0'));
	return error ? NULL : trace;
}

static void write_trace(
	const struct traces_trace *trace, const char *path, enum traces_format format)
{
	struct traces_writer_options options;
	struct traces_writer *writer;
	struct traces_batch batch = { .bytes = traces_trace_bytes(trace) };
	batch.records = traces_trace_records(trace, &batch.count);
	traces_writer_options_defaults(&options, path, true);
	options.format = format;
	BASE_ASSERT(traces_writer_open(&writer, path, &options) == 0);
	BASE_ASSERT(traces_writer_write_batch(writer, &batch) == 0);
	BASE_ASSERT(traces_writer_close(writer) == 0);
}

static void compare(const struct traces_trace *a, const struct traces_trace *b)
{
	size_t a_count, b_count;
	const struct traces_record *x = traces_trace_records(a, &a_count);
	const struct traces_record *y = traces_trace_records(b, &b_count);
	BASE_ASSERT(a_count == b_count);
	for (size_t i = 0; i < a_count; i++) {
		const uint8_t *p = traces_trace_bytes(a) + x[i].offset;
		const uint8_t *q = traces_trace_bytes(b) + y[i].offset;
		BASE_ASSERT(x[i].time_ns == y[i].time_ns && x[i].link == BASE_LINK_RAW);
		BASE_ASSERT(x[i].wire_len == y[i].wire_len && x[i].cap_len >= 20);
		BASE_ASSERT(memcmp(p + 9, q + 9, 1) == 0 && memcmp(p + 12, q + 12, 8) == 0);
		/* Text has no place for the reserved bit. */
		BASE_ASSERT(((p[6] ^ q[6]) & 0x7f) == 0 && p[7] == q[7]);
	}
}

static bool fits_binary(const struct traces_trace *trace)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	for (size_t i = 0; i < count; i++) {
		if (records[i].time_ns / 1000000000 > UINT32_MAX)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64], again_path[256];
	struct traces_load_report report;
	int fd = open_memory(path);
	BASE_ASSERT(write(fd, data, size) == (ssize_t)size);
	struct traces_trace *trace = load(path, &report);
	if (trace != NULL) {
		bool binary = (size & 1) != 0 && fits_binary(trace);
		struct traces_load_report again_report;
		/* In memory where there is such a place: the writer waits for disks. */
		const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
		snprintf(again_path, sizeof(again_path), "%s/ipsum_fuzz.%d", folder, (int)getpid());
		write_trace(trace, again_path,
			binary ? TRACES_FORMAT_IPSUM_BINARY : TRACES_FORMAT_IPSUM);
		struct traces_trace *copy = load(again_path, &again_report);
		BASE_ASSERT(copy != NULL && again_report.damages_count == 0);
		compare(trace, copy);
		traces_trace_destroy(copy);
		unlink(again_path);
	}
	traces_trace_destroy(trace);
	close(fd);
	return 0;
}
