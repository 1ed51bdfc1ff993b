/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a stream that lies in a span of time, is of some flows, stands at some places. */
#include "traces/flow_index.h"
#include "traces/packets.h"
#include "traces/parsing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slice {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_slice_options options;
	struct traces_slice_report *report;
	struct traces_trace *kept; /* records only: the bytes are the input's */
	struct base_parser *parser;
	struct traces_flow_index flows;
	bool started, finished;
	uint64_t begin_ns, end_ns; /* on the capture's time line */
	uint64_t clock_ns;         /* latest time so far */
	uint64_t passed;           /* packets that reached the count */
};

static uint64_t place(struct traces_slice_time time, uint64_t first_ns, uint64_t otherwise_ns)
{
	if (!time.given)
		return otherwise_ns;
	if (time.absolute)
		return time.time_ns;
	return time.time_ns > UINT64_MAX - first_ns ? UINT64_MAX : first_ns + time.time_ns;
}

/* Whether the packet is of a flow that was asked for. */
static bool flow_wanted(
	struct slice *slice, const struct traces_record *record, const uint8_t *bytes)
{
	struct base_packet packet;
	if (slice->parser == NULL)
		return true;
	traces_packet_from_record(&packet, record, bytes, slice->report->packets_in);
	if (base_parse_packet(slice->parser, &packet) != BASE_PARSE_FLOW) {
		slice->report->no_flow++;
		return false;
	}
	if (slice->options.one_flow && !base_flow_key_equal(&packet.key, &slice->options.flow))
		return false;
	if (slice->options.flows_max == 0)
		return true;
	if (traces_flow_index_find(&slice->flows, &packet.key, packet.hash) != TRACES_FLOW_NONE)
		return true;
	if (slice->flows.count == slice->flows.capacity)
		return false;
	traces_flow_index_add(&slice->flows, &packet.key, packet.hash);
	return true;
}

/* Is it time for the packet? */
static bool in_time(struct slice *slice, const struct traces_record *record)
{
	if (BASE_UNLIKELY(!slice->started)) {
		slice->started = true;
		slice->begin_ns = place(slice->options.from, record->time_ns, 0);
		slice->end_ns = place(slice->options.to, record->time_ns, UINT64_MAX);
	}
	if (record->time_ns > slice->clock_ns)
		slice->clock_ns = record->time_ns;
	uint64_t time_ns = slice->options.by_clock ? slice->clock_ns : record->time_ns;
	slice->finished = slice->options.by_clock && time_ns >= slice->end_ns;
	return time_ns >= slice->begin_ns && time_ns < slice->end_ns;
}

static int keep(struct slice *slice, const struct traces_batch *batch)
{
	const struct traces_slice_options *options = &slice->options;
	for (size_t i = 0; i < batch->count && !slice->finished; i++) {
		const struct traces_record *record = &batch->records[i];
		slice->report->packets_in++;
		if (!in_time(slice, record) || !flow_wanted(slice, record, batch->bytes) ||
			slice->passed++ < options->packets_skip)
			continue;
		int error = traces_trace_push(slice->kept, record);
		if (error)
			return error;
		slice->report->packets_out++;
		slice->finished = slice->report->packets_out == options->packets_max;
	}
	return 0;
}

static int slice_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct slice *slice = (struct slice *)packets;
	struct traces_batch input = { .count = 1 };
	traces_trace_clear(slice->kept);
	while (input.count > 0 && traces_trace_count(slice->kept) == 0 && !slice->finished) {
		int error = traces_packets_pull(packets, slice->from, &input);
		if (error == 0)
			error = keep(slice, &input);
		if (error)
			return error;
	}
	*batch = traces_trace_batch(slice->kept);
	batch->bytes = input.bytes;
	return 0;
}

static void slice_free(struct slice *slice)
{
	base_parser_destroy(slice->parser);
	traces_flow_index_destroy(&slice->flows);
	traces_trace_destroy(slice->kept);
	free(slice);
}

static void slice_destroy(struct traces_packets *packets)
{
	struct slice *slice = (struct slice *)packets;
	traces_packets_destroy(slice->from);
	slice_free(slice);
}

static const struct traces_packets_ops slice_ops = { slice_next, slice_destroy };

int traces_packets_slice(struct traces_packets **out, struct traces_packets *from,
	const struct traces_slice_options *options, struct traces_slice_report *report)
{
	if (options->flows_max > TRACES_SLICE_FLOWS_MAX)
		return -EINVAL;
	struct slice *slice = calloc(1, sizeof(*slice));
	memset(report, 0, sizeof(*report));
	if (slice == NULL)
		return -ENOMEM;
	int error = traces_trace_create(&slice->kept);
	if (error == 0 && (options->one_flow || options->flows_max > 0))
		error = traces_parser_create(&slice->parser);
	if (error == 0 && options->flows_max > 0)
		error = traces_flow_index_init(&slice->flows, options->flows_max);
	if (error) {
		slice_free(slice);
		return error;
	}
	slice->packets.ops = &slice_ops;
	slice->from = from;
	slice->options = *options;
	slice->report = report;
	*out = &slice->packets;
	return 0;
}
