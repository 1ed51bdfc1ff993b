/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a capture file: load, check what the trace promises, compute its statistics. */
#include "traces/traces.h"

#include "base/compiler.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const struct traces_load_report *report, int error)
{
	BASE_ASSERT((error != 0) == (report->message[0] != '\0'));
	BASE_ASSERT(strchr(report->message, '\n') == NULL);
}

/* Every frame lies in memory that the trace holds: the sanitizer watches the reads. */
static uint64_t read_frames(const struct traces_trace *trace)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *frame = traces_trace_bytes(trace) + records[i].offset;
		BASE_ASSERT(records[i].cap_len <= TRACES_RECORD_BYTES_MAX);
		BASE_ASSERT(records[i].wire_len >= records[i].cap_len);
		BASE_ASSERT(records[i].link < BASE_LINKS_COUNT);
		for (uint32_t j = 0; j < records[i].cap_len; j++)
			sum += frame[j];
	}
	return sum;
}

/* With fewer flows than there are, the figures that stay are the same and the others bounds. */
static void check_few_flows(const struct traces_trace *trace,
	const struct traces_info_options *options, const struct traces_info *all)
{
	struct traces_info_options few = *options;
	few.flows_max = 3;
	struct traces_info info;
	BASE_ASSERT(traces_info_compute(&info, trace, &few) == 0);
	BASE_ASSERT((info.flows_exactness == TRACES_EXACT) == (all->flows <= 3));
	BASE_ASSERT(info.flow_runs == all->flow_runs);
	BASE_ASSERT(info.insertions >= all->insertions);
	BASE_ASSERT(info.insertions - info.early_evictions <= all->insertions);
	BASE_ASSERT(info.peak_live <= all->peak_live);
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		BASE_ASSERT(info.slf_window_packets[i] <= all->slf_window_packets[i]);
		BASE_ASSERT(info.slf_window_time[i] <= all->slf_window_time[i]);
	}
}

static void check_info(
	const struct traces_trace *trace, const struct traces_load_report *report, bool inner)
{
	struct traces_info_options options;
	traces_info_options_defaults(&options);
	options.inner = inner;
	options.vlan_zone = inner;
	struct traces_info info;
	BASE_ASSERT(traces_info_compute(&info, trace, &options) == 0);
	BASE_ASSERT(info.packets == report->packets);
	BASE_ASSERT(info.wire_bytes == report->wire_bytes);
	BASE_ASSERT(
		info.flow_packets + info.non_ip_packets + info.malformed_packets == info.packets);
	BASE_ASSERT(info.flow_runs <= info.packets);
	BASE_ASSERT(info.flows <= info.insertions && info.insertions <= info.flow_packets);
	BASE_ASSERT(info.flows <= info.flows_unidirectional);
	BASE_ASSERT(info.peak_live <= info.flows);
	check_few_flows(trace, &options, &info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	BASE_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const char *paths[] = { path, path };

	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.bytes_max = 32 << 20;
	options.packets_max = 100000;
	options.skip_unsupported_links = size & 1;
	options.merge = size & 2;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	int error = traces_trace_load(&trace, paths, size & 2 ? 2 : 1, &options, &report);
	check_message(&report, error);
	if (error == 0) {
		uint64_t sum = read_frames(trace);
		BASE_ASSERT(sum <= report.captured_bytes * 255);
		check_info(trace, &report, size & 1);
		traces_trace_destroy(trace);
	}
	close(fd);
	return 0;
}
