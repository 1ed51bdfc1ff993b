/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/headers.h"
#include "traces/packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAC_BYTES = 6, COOKED_LLC = 4 };

struct relink {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_relink_options options;
	struct traces_relink_report *report;
	struct traces_trace *built; /* to RAW, only its records: the bytes are the input's */
};

void traces_relink_options_defaults(struct traces_relink_options *options, enum base_link link)
{
	*options = (struct traces_relink_options){
		.link = link,
		.source = { 2, 0, 0, 0, 0, 1 },
		.destination = { 2, 0, 0, 0, 0, 2 },
		.keep_source = true,
	};
}

/* ---- to RAW ---- */

static uint32_t datagram_bytes(const uint8_t *ip, uint8_t version)
{
	if (version == 4)
		return traces_net16(ip + 2);
	uint16_t payload = traces_net16(ip + 4);
	return payload == 0 ? 0 : TRACES_IP6_BYTES + payload;
}

static int to_raw(struct relink *relink, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_headers headers;
	struct traces_record raw = *record;
	if (record->link != BASE_LINK_RAW) {
		traces_headers_find((enum base_link)record->link, frame, record->cap_len, &headers);
		if (headers.ip == 0) {
			relink->report->left_out++;
			return 0;
		}
		raw.link = BASE_LINK_RAW;
		raw.offset += headers.network;
		raw.cap_len -= headers.network;
		raw.wire_len -= headers.network;
		uint32_t length = datagram_bytes(frame + headers.network, headers.ip);
		/* A length of 0 is that of segmentation offload or a jumbogram: to the end. */
		if (length > 0 && length < raw.wire_len) {
			raw.wire_len = length;
			raw.cap_len = raw.cap_len < length ? raw.cap_len : length;
			relink->report->ends_dropped++;
		}
		relink->report->tags_dropped += headers.tags > 0;
	}
	return traces_trace_push(relink->built, &raw);
}

/* ---- to Ethernet ---- */

/* The sender's address where a cooked header has one of the right length. */
static const uint8_t *cooked_source(const struct traces_record *record, const uint8_t *frame)
{
	if (record->link == BASE_LINK_SLL && traces_net16(frame + 4) == MAC_BYTES)
		return frame + 6;
	if (record->link == BASE_LINK_SLL2 && frame[11] == MAC_BYTES)
		return frame + 12;
	return NULL;
}

static int to_ethernet(
	struct relink *relink, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_headers headers;
	if (record->link == BASE_LINK_ETHERNET)
		return traces_trace_append(relink->built, record, frame);
	traces_headers_find((enum base_link)record->link, frame, record->cap_len, &headers);
	uint32_t rest = record->wire_len - headers.payload;
	uint16_t ethertype = headers.ethertype == COOKED_LLC ? (uint16_t)rest : headers.ethertype;
	bool llc_too_long = headers.ethertype == COOKED_LLC && rest > TRACES_LLC_LENGTH_MAX;
	if (!headers.link_known || llc_too_long) {
		relink->report->left_out++;
		return 0;
	}
	struct traces_record made = *record;
	uint8_t *bytes;
	made.link = BASE_LINK_ETHERNET;
	made.cap_len = TRACES_ETHERNET_BYTES + record->cap_len - headers.payload;
	made.wire_len = TRACES_ETHERNET_BYTES + rest;
	int error = traces_trace_extend(relink->built, &made, &bytes);
	if (error)
		return error;
	const uint8_t *source = cooked_source(record, frame);
	if (source == NULL || !relink->options.keep_source)
		source = relink->options.source;
	memcpy(bytes, relink->options.destination, MAC_BYTES);
	memcpy(bytes + MAC_BYTES, source, MAC_BYTES);
	traces_put_net16(bytes + 12, ethertype);
	memcpy(bytes + TRACES_ETHERNET_BYTES, frame + headers.payload,
		record->cap_len - headers.payload);
	return 0;
}

/* ---- the stream ---- */

static int relink_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct relink *relink = (struct relink *)packets;
	bool raw = relink->options.link == BASE_LINK_RAW;
	traces_trace_clear(relink->built);
	struct traces_batch input;
	do { /* until one of the packets has a place */
		int error = traces_packets_pull(packets, relink->from, &input);
		for (size_t i = 0; i < input.count && error == 0; i++) {
			const struct traces_record *record = &input.records[i];
			const uint8_t *frame = input.bytes + record->offset;
			error = raw ? to_raw(relink, record, frame)
				    : to_ethernet(relink, record, frame);
		}
		if (error)
			return error;
	} while (input.count > 0 && traces_trace_count(relink->built) == 0);
	*batch = traces_trace_batch(relink->built);
	if (raw)
		batch->bytes = input.bytes;
	return 0;
}

static void relink_destroy(struct traces_packets *packets)
{
	struct relink *relink = (struct relink *)packets;
	traces_packets_destroy(relink->from);
	traces_trace_destroy(relink->built);
	free(relink);
}

static const struct traces_packets_ops relink_ops = { relink_next, relink_destroy };

int traces_packets_relink(struct traces_packets **out, struct traces_packets *from,
	const struct traces_relink_options *options, struct traces_relink_report *report)
{
	if (options->link != BASE_LINK_ETHERNET && options->link != BASE_LINK_RAW)
		return -EINVAL;
	struct relink *relink = calloc(1, sizeof(*relink));
	if (relink == NULL || traces_trace_create(&relink->built) != 0) {
		free(relink);
		return -ENOMEM;
	}
	*report = (struct traces_relink_report){ 0 };
	relink->packets.ops = &relink_ops;
	relink->from = from;
	relink->options = *options;
	relink->report = report;
	*out = &relink->packets;
	return 0;
}
