/* SPDX-License-Identifier: BSD-2-Clause */
/* libpcap's filters over frames of any link type, and the stream of what matches. */
#include "traces/packets.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

enum {
	SNAPLEN = 262144,
	REASON_SIZE = 200,
	OPTIMIZED_MAX = 512, /* bytes of text: libpcap's optimizer takes minutes for long ones */
};

struct traces_filter {
	bool usable[BASE_LINKS_COUNT]; /* not every expression fits every link type */
	struct bpf_program programs[BASE_LINKS_COUNT];
	char reasons[BASE_LINKS_COUNT][REASON_SIZE];
};

/* DLT_ numbers equal LINKTYPE_ numbers for all but RAW. */
static int dlt_of(enum base_link link)
{
	return link == BASE_LINK_RAW ? DLT_RAW : (int)traces_link_number(link);
}

static int compile(struct traces_filter *filter, enum base_link link, const char *expression)
{
	bool optimize = strlen(expression) <= OPTIMIZED_MAX;
	pcap_t *dead = pcap_open_dead(dlt_of(link), SNAPLEN);
	if (dead == NULL)
		return -ENOMEM;
	filter->usable[link] = pcap_compile(dead, &filter->programs[link], expression, optimize,
				       PCAP_NETMASK_UNKNOWN) == 0;
	if (!filter->usable[link])
		snprintf(filter->reasons[link], REASON_SIZE, "%s", pcap_geterr(dead));
	pcap_close(dead);
	return 0;
}

int traces_filter_create(struct traces_filter **out, const char *expression, char *message)
{
	bool any = false;
	int error = 0;
	if (strlen(expression) > TRACES_FILTER_TEXT_MAX) {
		snprintf(message, TRACES_MESSAGE_SIZE, "it has %zu bytes, the limit is %d",
			strlen(expression), TRACES_FILTER_TEXT_MAX);
		return -EINVAL;
	}
	struct traces_filter *filter = calloc(1, sizeof(*filter));
	if (filter == NULL)
		return -ENOMEM;
	for (int link = 0; link < BASE_LINKS_COUNT && error == 0; link++) {
		error = compile(filter, (enum base_link)link, expression);
		any = any || filter->usable[link];
	}
	if (error == 0 && !any) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", filter->reasons[BASE_LINK_ETHERNET]);
		error = -EINVAL;
	}
	if (error) {
		traces_filter_destroy(filter);
		return error;
	}
	*out = filter;
	return 0;
}

void traces_filter_destroy(struct traces_filter *filter)
{
	if (filter == NULL)
		return;
	for (int link = 0; link < BASE_LINKS_COUNT; link++) {
		if (filter->usable[link])
			pcap_freecode(&filter->programs[link]);
	}
	free(filter);
}

const char *traces_filter_misfit(const struct traces_filter *filter, enum base_link link)
{
	return filter->usable[link] ? NULL : filter->reasons[link];
}

/* The family of BSD loopback stands in the capturing host's byte order, and filters compare with
 * this machine's. It is a small number: a large one was captured on a host of the other order, and
 * its frames read like OpenBSD's (network order). */
static bool null_of_other_order(const uint8_t *frame, uint32_t cap_len)
{
	uint32_t family;
	if (cap_len < sizeof(family))
		return false;
	memcpy(&family, frame, sizeof(family));
	return family > UINT16_MAX;
}

bool traces_filter_match(const struct traces_filter *filter, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len)
{
	if (link == BASE_LINK_NULL && null_of_other_order(frame, cap_len))
		link = BASE_LINK_LOOP;
	return filter->usable[link] &&
	       bpf_filter(filter->programs[link].bf_insns, frame, wire_len, cap_len) != 0;
}

/* ---- the stream ---- */

struct filter_packets {
	struct traces_packets packets;
	struct traces_packets *from;
	const struct traces_filter *filter;
	struct traces_filter_report *report;
	struct traces_trace *kept; /* records only: the bytes are the input's */
};

static int keep_matches(struct filter_packets *of, const struct traces_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct traces_record *record = &batch->records[i];
		const char *misfit = traces_filter_misfit(of->filter, record->link);
		if (BASE_UNLIKELY(misfit != NULL))
			return traces_packets_fail(&of->packets, -EINVAL,
				"filter: got a packet of link type %s, which it does not fit: %s",
				traces_link_name(traces_link_number(record->link)), misfit);
		of->report->packets_in++;
		if (!traces_filter_match(of->filter, record->link, batch->bytes + record->offset,
			    record->cap_len, record->wire_len))
			continue;
		of->report->packets_out++;
		int error = traces_trace_push(of->kept, record);
		if (error)
			return error;
	}
	return 0;
}

static int filter_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct filter_packets *of = (struct filter_packets *)packets;
	struct traces_batch input;
	traces_trace_clear(of->kept);
	do {
		int error = traces_packets_pull(packets, of->from, &input);
		if (error == 0)
			error = keep_matches(of, &input);
		if (error)
			return error;
	} while (input.count > 0 && traces_trace_count(of->kept) == 0);
	*batch = traces_trace_batch(of->kept);
	batch->bytes = input.bytes;
	return 0;
}

static void filter_destroy(struct traces_packets *packets)
{
	struct filter_packets *of = (struct filter_packets *)packets;
	traces_packets_destroy(of->from);
	traces_trace_destroy(of->kept);
	free(of);
}

static const struct traces_packets_ops filter_ops = { filter_next, filter_destroy };

int traces_packets_filter(struct traces_packets **out, struct traces_packets *from,
	const struct traces_filter *filter, struct traces_filter_report *report)
{
	struct filter_packets *of = calloc(1, sizeof(*of));
	memset(report, 0, sizeof(*report));
	if (of == NULL || traces_trace_create(&of->kept) != 0) {
		free(of);
		return -ENOMEM;
	}
	of->packets.ops = &filter_ops;
	of->from = from;
	of->filter = filter;
	of->report = report;
	*out = &of->packets;
	return 0;
}
