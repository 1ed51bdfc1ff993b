/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as 5-tuples: a packet for every 13 bytes, the rest is damage. */
#include "traces/traces.h"

#include "base/compiler.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t magics[][2] = { { 0x1f, 0x8b }, { 'B', 'Z' }, { 'P', 'K' } };
	int fd = memfd_create("tuples", MFD_CLOEXEC);
	BASE_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const char *paths[] = { path };
	struct traces_load_options options;
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	traces_load_options_defaults(&options);
	options.input = TRACES_INPUT_TUPLES;
	options.made_packets_per_s = size;
	options.made_ip_bytes = size < 20 ? 0 : (uint32_t)size;
	options.packets_max = 100000;
	int error = traces_trace_load(&trace, paths, 1, &options, &report);
	bool packed = false; /* or so it looks */
	for (size_t i = 0; i < BASE_ARRAY_COUNT(magics); i++)
		packed |= size >= 2 && memcmp(data, magics[i], 2) == 0;
	packed |= size >= 4 && (memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0 || data[0] >> 4 == 5);
	if (error == 0 && !packed && size / 13 <= options.packets_max) {
		BASE_ASSERT(report.packets == size / 13);
		BASE_ASSERT(report.damages_count == (size % 13 != 0));
	}
	traces_trace_destroy(trace);
	close(fd);
	return 0;
}
