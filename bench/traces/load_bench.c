/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading, describing and making traces: bytes per second from the page cache, memory per packet,
 * packets per second.
 *
 *	load_bench [packets [frame_bytes]]
 */
#include "traces/traces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5 };

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_rates(const char *what, const char *unit, double *rates)
{
	qsort(rates, REPEATS, sizeof(*rates), compare);
	printf("%-28s %8.3f %s (median of %d; %.3f to %.3f)\n", what, rates[REPEATS / 2], unit,
		REPEATS, rates[0], rates[REPEATS - 1]);
}

static void fail(const char *what, const char *message)
{
	fprintf(stderr, "%s: %s\n", what, message);
	exit(1);
}

static void write_trace(
	const struct traces_trace *trace, const char *path, enum traces_format format)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	struct traces_writer *writer;
	int error = traces_writer_create(&writer, path, format, 0);
	if (error)
		fail(path, strerror(-error));
	for (size_t i = 0; i < count; i++)
		traces_writer_write(writer, records[i].time_ns, (enum base_link)records[i].link,
			bytes + records[i].offset, records[i].cap_len, records[i].wire_len);
	error = traces_writer_close(writer);
	if (error)
		fail(path, strerror(-error));
}

static void bench_load(const char *what, const char *path, uint64_t packets)
{
	double rates[REPEATS];
	uint64_t memory = 0, captured = 0;
	for (int i = 0; i < REPEATS; i++) {
		struct traces_trace *trace;
		struct traces_load_report report;
		double start = seconds_now();
		if (traces_trace_load(&trace, &path, 1, NULL, &report) != 0)
			fail(path, report.message);
		rates[i] = (double)report.captured_bytes / (seconds_now() - start) / 1e9;
		memory = traces_trace_memory_bytes(trace);
		captured = report.captured_bytes;
		traces_trace_destroy(trace);
	}
	print_rates(what, "GB/s", rates);
	printf("%-28s %8.3f bytes per packet beyond the captured ones\n", "",
		(double)(memory - captured) / (double)packets);
}

static void bench_info(const struct traces_synth_options *options)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_trace *trace;
	if (traces_synth_generate(&trace, options, message) != 0)
		fail("generate", message);
	double rates[REPEATS];
	for (int i = 0; i < REPEATS; i++) {
		struct traces_info info;
		double start = seconds_now();
		if (traces_info_compute(&info, trace, NULL) != 0)
			fail("info", "out of memory");
		rates[i] = (double)info.packets / (seconds_now() - start) / 1e6;
	}
	char what[64];
	snprintf(what, sizeof(what), "info, %" PRIu64 " flows", options->flows);
	print_rates(what, "Mpps", rates);
	traces_trace_destroy(trace);
}

int main(int argc, char **argv)
{
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.packets = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	options.frame_bytes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 800;
	options.flows = 65536;
	char message[TRACES_MESSAGE_SIZE];
	struct traces_trace *trace = NULL;
	double rates[REPEATS];
	for (int i = 0; i < REPEATS; i++) {
		traces_trace_destroy(trace);
		double start = seconds_now();
		if (traces_synth_generate(&trace, &options, message) != 0)
			fail("generate", message);
		rates[i] = (double)options.packets / (seconds_now() - start) / 1e6;
	}
	printf("%" PRIu64 " packets of %u bytes\n", options.packets, options.frame_bytes);
	print_rates("generate", "Mpps", rates);

	const char *folder = getenv("TMPDIR");
	char pcap[1024], pcapng[1040];
	snprintf(pcap, sizeof(pcap), "%s/load_bench.%ld.pcap", folder ? folder : "/tmp",
		(long)getpid());
	snprintf(pcapng, sizeof(pcapng), "%sng", pcap);
	double start = seconds_now();
	write_trace(trace, pcap, TRACES_FORMAT_PCAP_NS);
	printf("%-28s %8.3f GB/s (once, with fsync)\n", "write pcap",
		(double)options.packets * options.frame_bytes / (seconds_now() - start) / 1e9);
	write_trace(trace, pcapng, TRACES_FORMAT_PCAPNG);
	traces_trace_destroy(trace);
	bench_load("load pcap", pcap, options.packets);
	bench_load("load pcapng", pcapng, options.packets);
	unlink(pcap);
	unlink(pcapng);
	options.frame_bytes = 128;
	bench_info(&options);
	options.flows = 1000000;
	bench_info(&options);
	return 0;
}
