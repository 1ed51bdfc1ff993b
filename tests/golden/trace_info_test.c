/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `trace info` over the small captures of cases/ against trace_info.tsv.
 *
 *	trace_info_test LIST FOLDER            compare; differing lines are shown in both forms
 *	trace_info_test --print LIST FOLDER    print the list with the values as they are now
 */
#include "traces/traces.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 1024 };

static const char *error_name(int error)
{
	switch (error) {
	case 0:
		return "read";
	case -EBADMSG:
		return "not_a_capture";
	case -EPROTONOSUPPORT:
		return "link_refused";
	default:
		return "other_error";
	}
}

/* One line of the list for one capture. */
static void describe(const char *folder, const char *name, char *line)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	const char *paths[] = { path };
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	struct traces_info info = { 0 };
	int error = traces_trace_load(&trace, paths, 1, NULL, &report);
	if (error == 0)
		error = traces_info_compute(&info, trace, NULL);
	traces_trace_destroy(trace);
	int used = snprintf(line, LINE_SIZE,
		"%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
		"\t%" PRIu64 "\t%.3f\t%" PRIu64 "\t%" PRIu64,
		name, error_name(error), info.packets, info.wire_bytes, info.captured_bytes,
		info.flows, info.flows_unidirectional, info.non_ip_packets, info.malformed_packets,
		info.slf, info.duration_ns, report.damages_count);
	if (report.damages_count > 0)
		snprintf(line + used, LINE_SIZE - (size_t)used, "\t%" PRIu64 "@%" PRIu64,
			report.damages[0].packet, report.damages[0].offset);
}

int main(int argc, char **argv)
{
	bool print = argc == 4 && strcmp(argv[1], "--print") == 0;
	if (argc != (print ? 4 : 3)) {
		fprintf(stderr, "usage: %s [--print] LIST FOLDER\n", argv[0]);
		return 2;
	}
	FILE *list = fopen(argv[argc - 2], "r");
	if (list == NULL) {
		perror(argv[argc - 2]);
		return 2;
	}
	char expected[LINE_SIZE], name[LINE_SIZE], found[LINE_SIZE];
	unsigned int differ = 0, cases = 0;
	while (fgets(expected, sizeof(expected), list) != NULL) {
		expected[strcspn(expected, "\n")] = '\0';
		if (expected[0] == '#' || expected[0] == '\0') {
			if (print)
				printf("%s\n", expected);
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(expected, "\t"), expected);
		describe(argv[argc - 1], name, found);
		cases++;
		if (print) {
			printf("%s\n", found);
		} else if (strcmp(expected, found) != 0) {
			differ++;
			printf("expected  %s\nfound     %s\n", expected, found);
		}
	}
	fclose(list);
	if (!print)
		printf("%u cases, %u differ\n", cases, differ);
	return differ > 0 || cases == 0;
}
