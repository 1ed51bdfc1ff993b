/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of a stream in random order. */
#include "base/rng.h"
#include "traces/flow_index.h"
#include "traces/packets.h"
#include "traces/parsing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_PACKET UINT32_MAX

/* A flow inside a block: its packets in the order they came. */
struct shuffle_flow {
	uint32_t next, last;
};

struct shuffle {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_shuffle_options options;
	struct traces_shuffle_report *report;
	struct base_rng rng;

	struct traces_batch input;
	size_t input_next;
	uint64_t seq;
	bool started;
	uint64_t first_ns, clock_ns;

	struct traces_trace *batch; /* whole blocks and the one that grows */
	size_t block_start;         /* record where that one begins */
	size_t block_bytes;
	uint64_t block_number;      /* of its window of time */
	struct traces_buffer order; /* uint32_t: which packet of the block comes where */

	/* flow_order */
	struct base_parser *parser;
	struct traces_flow_index flows;
	struct shuffle_flow *flow;      /* by number */
	struct traces_buffer flow_of;   /* uint32_t by packet of the block, TRACES_FLOW_NONE */
	struct traces_buffer same_flow; /* uint32_t: the flow's next packet */
};

static uint32_t *numbers(struct traces_buffer *buffer)
{
	return (uint32_t *)(void *)buffer->data;
}

static int reserve_numbers(struct traces_buffer *buffer, size_t count)
{
	return traces_buffer_reserve(buffer, count * sizeof(uint32_t));
}

/* Fisher and Yates, from the end. */
static void draw_order(struct shuffle *shuffle, size_t count)
{
	uint32_t *order = numbers(&shuffle->order);
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	for (size_t i = count; i > 1; i--) {
		size_t other = base_rng_below(&shuffle->rng, i);
		uint32_t moved = order[i - 1];
		order[i - 1] = order[other];
		order[other] = moved;
	}
}

/* Which flow each packet of the block is of, and the flow's packets as lists. */
static void find_flows(struct shuffle *shuffle, size_t count)
{
	const struct traces_record *records =
		traces_trace_mutable_records(shuffle->batch) + shuffle->block_start;
	uint32_t *flow_of = numbers(&shuffle->flow_of), *next = numbers(&shuffle->same_flow);
	traces_flow_index_clear(&shuffle->flows);
	for (uint32_t i = 0; i < count; i++) {
		struct base_packet packet;
		flow_of[i] = TRACES_FLOW_NONE;
		next[i] = NO_PACKET;
		traces_packet_from_record(
			&packet, &records[i], traces_trace_bytes(shuffle->batch), shuffle->seq++);
		if (base_parse_packet(shuffle->parser, &packet) != BASE_PARSE_FLOW)
			continue;
		uint32_t number = traces_flow_index_find(&shuffle->flows, &packet.key, packet.hash);
		if (number == TRACES_FLOW_NONE) {
			number = traces_flow_index_add(&shuffle->flows, &packet.key, packet.hash);
			shuffle->flow[number].next = i;
		} else {
			next[shuffle->flow[number].last] = i;
		}
		shuffle->flow[number].last = i;
		flow_of[i] = number;
	}
}

/* The places of a flow stay; its packets take them in the order they came. */
static void restore_flow_order(struct shuffle *shuffle, size_t count)
{
	uint32_t *order = numbers(&shuffle->order), *flow_of = numbers(&shuffle->flow_of),
		 *next = numbers(&shuffle->same_flow);
	find_flows(shuffle, count);
	for (size_t i = 0; i < count; i++) {
		uint32_t number = flow_of[order[i]];
		if (number == TRACES_FLOW_NONE)
			continue;
		order[i] = shuffle->flow[number].next;
		shuffle->flow[number].next = next[order[i]];
	}
}

/* Put the block's records in the order drawn. Records go round once through `order`: each cycle of
 * the permutation is walked with one record in hand. */
static void apply_order(struct shuffle *shuffle, size_t count)
{
	struct traces_record *records =
		traces_trace_mutable_records(shuffle->batch) + shuffle->block_start;
	uint32_t *order = numbers(&shuffle->order);
	for (uint32_t start = 0; start < count; start++) {
		struct traces_record in_hand = records[start];
		uint32_t at = start;
		while (order[at] != NO_PACKET) {
			uint32_t from = order[at];
			uint64_t time_ns = records[at].time_ns;
			order[at] = NO_PACKET;
			/* Every place is filled from one that was not filled yet, but the last. */
			const struct traces_record *source =
				from == start ? &in_hand : &records[from];
			uint64_t own_ns = source->time_ns;
			records[at] = *source;
			records[at].time_ns = shuffle->options.keep_times ? own_ns : time_ns;
			at = from;
		}
	}
}

static int end_block(struct shuffle *shuffle)
{
	size_t count = traces_trace_count(shuffle->batch) - shuffle->block_start;
	if (count == 0)
		return 0;
	int error = reserve_numbers(&shuffle->order, count);
	if (error == 0 && shuffle->options.flow_order)
		error = reserve_numbers(&shuffle->flow_of, count);
	if (error == 0 && shuffle->options.flow_order)
		error = reserve_numbers(&shuffle->same_flow, count);
	if (error)
		return error;
	draw_order(shuffle, count);
	if (shuffle->options.flow_order)
		restore_flow_order(shuffle, count);
	apply_order(shuffle, count);
	shuffle->block_start += count;
	shuffle->block_bytes = 0;
	shuffle->report->blocks++;
	return 0;
}

/* Whether the next packet opens another block. */
static bool opens_block(struct shuffle *shuffle, const struct traces_record *record)
{
	size_t held = traces_trace_count(shuffle->batch) - shuffle->block_start;
	if (!shuffle->started) {
		shuffle->started = true;
		shuffle->first_ns = shuffle->clock_ns = record->time_ns;
	}
	if (record->time_ns > shuffle->clock_ns)
		shuffle->clock_ns = record->time_ns;
	if (shuffle->options.window_packets > 0) {
		if (held == shuffle->options.window_packets)
			return true;
	} else {
		uint64_t number =
			(shuffle->clock_ns - shuffle->first_ns) / shuffle->options.window_ns;
		if (number != shuffle->block_number) {
			shuffle->block_number = number;
			return true;
		}
	}
	bool cut = held == TRACES_SHUFFLE_PACKETS_MAX ||
		   (held > 0 && record->cap_len > TRACES_SHUFFLE_BYTES_MAX - shuffle->block_bytes);
	shuffle->report->blocks_cut += cut;
	return cut;
}

/* Take packets until whole blocks make a batch, or the input ends: then the rest is a block. */
static int collect(struct shuffle *shuffle)
{
	for (;;) {
		if (shuffle->input_next == shuffle->input.count) {
			shuffle->input_next = 0;
			int error = traces_packets_pull(
				&shuffle->packets, shuffle->from, &shuffle->input);
			if (error)
				return error;
			if (shuffle->input.count == 0)
				return end_block(shuffle);
		}
		const struct traces_record *record = &shuffle->input.records[shuffle->input_next];
		if (opens_block(shuffle, record)) {
			int error = end_block(shuffle);
			/* The packet waits; asked again, it opens no other block. */
			if (error || traces_trace_is_batch(shuffle->batch))
				return error;
		}
		int error = traces_trace_append(
			shuffle->batch, record, shuffle->input.bytes + record->offset);
		if (error)
			return error;
		shuffle->block_bytes += record->cap_len;
		shuffle->input_next++;
	}
}

static int shuffle_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct shuffle *shuffle = (struct shuffle *)packets;
	traces_trace_clear(shuffle->batch);
	shuffle->block_start = 0;
	int error = collect(shuffle);
	if (error)
		return error;
	*batch = traces_trace_batch(shuffle->batch);
	return 0;
}

static void shuffle_free(struct shuffle *shuffle)
{
	traces_trace_destroy(shuffle->batch);
	traces_buffer_destroy(&shuffle->order);
	traces_buffer_destroy(&shuffle->flow_of);
	traces_buffer_destroy(&shuffle->same_flow);
	traces_flow_index_destroy(&shuffle->flows);
	base_parser_destroy(shuffle->parser);
	free(shuffle->flow);
	free(shuffle);
}

static void shuffle_destroy(struct traces_packets *packets)
{
	struct shuffle *shuffle = (struct shuffle *)packets;
	traces_packets_destroy(shuffle->from);
	shuffle_free(shuffle);
}

static const struct traces_packets_ops shuffle_ops = { shuffle_next, shuffle_destroy };

static int shuffle_setup(struct shuffle *shuffle)
{
	const struct traces_shuffle_options *options = &shuffle->options;
	int error = traces_trace_create(&shuffle->batch);
	if (error || !options->flow_order)
		return error;
	uint32_t flows = options->window_packets > 0 ? options->window_packets
						     : (uint32_t)TRACES_SHUFFLE_PACKETS_MAX;
	shuffle->flow = calloc(flows, sizeof(*shuffle->flow));
	if (shuffle->flow == NULL)
		return -ENOMEM;
	error = traces_flow_index_init(&shuffle->flows, flows);
	return error ? error : traces_parser_create(&shuffle->parser);
}

int traces_packets_shuffle(struct traces_packets **out, struct traces_packets *from,
	const struct traces_shuffle_options *options, struct traces_shuffle_report *report)
{
	if (options->window_packets > TRACES_SHUFFLE_PACKETS_MAX ||
		(options->window_packets == 0 && options->window_ns == 0))
		return -EINVAL;
	struct shuffle *shuffle = calloc(1, sizeof(*shuffle));
	memset(report, 0, sizeof(*report));
	if (shuffle == NULL)
		return -ENOMEM;
	shuffle->packets.ops = &shuffle_ops;
	shuffle->from = from;
	shuffle->options = *options;
	shuffle->report = report;
	base_rng_seed(&shuffle->rng, options->seed);
	int error = shuffle_setup(shuffle);
	if (error) {
		shuffle_free(shuffle);
		return error;
	}
	*out = &shuffle->packets;
	return 0;
}
