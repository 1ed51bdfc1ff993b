/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hundreds of public captures against counts that another program made of them: INVENTORY.tsv in
 * $SHEAF_TRACES, or in the folder given as argument. Skipped (77) where the folder is absent.
 *
 * Every capture must either load with the listed number of packets or, when its link type is not
 * supported, be refused by name. Flows must agree unless the notes tell of fragments or damage,
 * where the rule of counting matters (docs/traces-inventory.md). Exceptions are listed here one by
 * one, with the value that was found right.
 */
#include "traces/traces.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 4096, COLUMNS = 21, SKIPPED = 77 };

enum column {
	COLUMN_FILE = 0,
	COLUMN_LINKTYPE = 5,
	COLUMN_PACKETS = 7,
	COLUMN_FLOWS = 9,
	COLUMN_NOTES = 20,
};

struct exception {
	const char *file;
	int error;
	uint64_t flows;
	const char *why;
};

static const struct exception exceptions[] = {
	{ "libpcap/shb-option-too-long.pcapng", -EBADMSG, 0,
		"the section's two lengths differ: libpcap refuses it too" },
	{ "mercury/emix.pcap", 0, 701, "ICMP errors belong to the flows that they quote" },
	{ "mercury/surfshark.pcap", 0, 151, "ICMPv6 errors belong to the flows that they quote" },
	{ "libpcap/AH-IPcomp-IPv4.pcap", 0, 2, "behind AH: IPComp and IP-in-IP are two flows" },
};

static const struct exception *exception_of(const char *file)
{
	for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++) {
		if (strcmp(exceptions[i].file, file) == 0)
			return &exceptions[i];
	}
	return NULL;
}

/* The list's names of link types, joined by '+' where a capture has several; "-": none at all.
 * A trailing '?' marks an interface that never carried a packet. */
static bool links_supported(const char *names)
{
	static const char *const supported[] = { "EN10MB", "LINUX_SLL", "LINUX_SLL2", "RAW",
		"RAW(DLT12)", "RAW(DLT14)", "IPV4", "IPV6", "NULL", "LOOP", "PPP", "PPP_HDLC",
		"C_HDLC", "-" };
	while (*names) {
		size_t length = strcspn(names, "+");
		bool found = names[length - 1] == '?';
		for (size_t i = 0; i < sizeof(supported) / sizeof(supported[0]); i++)
			found = found || (strlen(supported[i]) == length &&
						 strncmp(supported[i], names, length) == 0);
		if (!found)
			return false;
		names += length + (names[length] == '+');
	}
	return true;
}

/* Flows depend on how fragments, cut and broken packets are counted. */
static bool flows_depend_on_the_rule(const char *notes)
{
	static const char *const signs[] = { "frag", "ERR:", "snap-truncated", "ip-len>cap",
		"ip6-len>cap", "ip-bad", "short-l4", "caplen>len", "empty" };
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (strstr(notes, signs[i]) != NULL)
			return true;
	}
	return false;
}

static size_t split(char *line, char **columns)
{
	line[strcspn(line, "\n")] = '\0';
	size_t count = 0;
	for (char *rest = line; rest != NULL && count < COLUMNS;)
		columns[count++] = strsep(&rest, "\t");
	return count;
}

/* Of a capture that loaded. Returns what is wrong, or NULL. */
static const char *check_counts(const struct traces_trace *trace,
	const struct traces_load_report *report, char **columns, const struct exception *exception,
	char *text, size_t text_size)
{
	struct traces_info info;
	if (traces_info_compute(&info, trace, NULL) != 0)
		return "statistics failed";
	uint64_t packets = strtoull(columns[COLUMN_PACKETS], NULL, 10);
	uint64_t flows = strtoull(columns[COLUMN_FLOWS], NULL, 10);
	if (report->packets != packets || info.packets != packets) {
		snprintf(text, text_size, "%" PRIu64 " packets instead of %" PRIu64,
			report->packets, packets);
		return text;
	}
	if (info.flow_packets + info.non_ip_packets + info.malformed_packets != packets)
		return "the kinds of packets do not add up";
	if (exception != NULL)
		flows = exception->flows;
	else if (flows_depend_on_the_rule(columns[COLUMN_NOTES]))
		return NULL;
	if (info.flows != flows) {
		snprintf(text, text_size, "%" PRIu64 " flows instead of %" PRIu64 " (%s)",
			info.flows, flows, columns[COLUMN_NOTES]);
		return text;
	}
	return NULL;
}

static const char *check(const char *folder, char **columns, char *text, size_t text_size)
{
	char path[LINE_SIZE];
	snprintf(path, sizeof(path), "%s/%s", folder, columns[COLUMN_FILE]);
	const char *paths[] = { path };
	const struct exception *exception = exception_of(columns[COLUMN_FILE]);
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	int error = traces_trace_load(&trace, paths, 1, NULL, &report);
	int expected = links_supported(columns[COLUMN_LINKTYPE]) ? 0 : -EPROTONOSUPPORT;
	if (exception != NULL)
		expected = exception->error;
	const char *wrong = NULL;
	if (error != expected) {
		snprintf(text, text_size, "error %d instead of %d (%s)", error, expected,
			report.message);
		wrong = text;
	} else if (error != 0 && report.message[0] == '\0') {
		wrong = "refused without a message";
	} else if (error == -EPROTONOSUPPORT && strstr(report.message, "link type") == NULL) {
		wrong = "refused without the link type's name";
	} else if (error == 0) {
		wrong = check_counts(trace, &report, columns, exception, text, text_size);
	}
	traces_trace_destroy(trace);
	return wrong;
}

int main(int argc, char **argv)
{
	const char *folder = getenv("SHEAF_TRACES");
	if (folder == NULL && argc > 1)
		folder = argv[1];
	char path[LINE_SIZE], line[LINE_SIZE], text[LINE_SIZE];
	snprintf(path, sizeof(path), "%s/INVENTORY.tsv", folder != NULL ? folder : ".");
	FILE *list = fopen(path, "r");
	if (list == NULL) {
		printf("skipped: no captures here (%s: %s)\n", path, strerror(errno));
		return SKIPPED;
	}
	unsigned int captures = 0, failed = 0;
	while (fgets(line, sizeof(line), list) != NULL) {
		char *columns[COLUMNS];
		if (split(line, columns) < COLUMNS || strcmp(columns[COLUMN_FILE], "file") == 0)
			continue;
		captures++;
		const char *wrong = check(folder, columns, text, sizeof(text));
		if (wrong != NULL) {
			failed++;
			printf("%s: %s\n", columns[COLUMN_FILE], wrong);
		}
	}
	fclose(list);
	printf("%u captures, %u disagree\n", captures, failed);
	return failed > 0 || captures == 0;
}
