/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trace source: copies frames from the trace in memory into rotating packet buffers, as a NIC's DMA
 * would. With an overlay of K, K cursors walk the same schedule, each with its own addresses and
 * time shift; a binary heap of cursors merges them by time. Each pass of a loop is re-anchored one
 * period after the pass before.
 */
#include "pipeline/handover.h"
#include "pipeline/source.h"
#include "pipeline/source_frame.h"

#include <rte_memcpy.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PREFETCH_AHEAD = 12 };

struct cursor {
	uint64_t time_ns;  /* of the entry under it, on the run's time line */
	uint64_t position; /* in the schedule */
	uint64_t pass;
	uint64_t offset_ns; /* pass * period + copy * shift */
	uint32_t copy;
};

struct source_trace {
	struct source source;
	const struct schedule_entry *entries;
	uint64_t entries_count;
	const struct traces_record *records;
	const uint8_t *bytes;
	const struct schedule *schedule;
	uint64_t loops;
	uint32_t overlay;
	bool loop_shift, pad;
	uint64_t shift_ns;
	uint64_t seq; /* of the next packet: copies interleave, so it counts across them */
	struct packet_ring ring;
	struct base_parser *parser; /* finds headers for the address remap */
	uint32_t cursors_count;     /* still playing */
	struct cursor cursors[];    /* heap by (time, copy) */
};

static bool cursor_before(const struct cursor *a, const struct cursor *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->copy < b->copy);
}

static void heap_sift_down(struct source_trace *source)
{
	struct cursor *heap = source->cursors;
	struct cursor moving = heap[0];
	uint32_t hole = 0;
	for (;;) {
		uint32_t child = 2 * hole + 1;
		if (child >= source->cursors_count)
			break;
		if (child + 1 < source->cursors_count &&
			cursor_before(&heap[child + 1], &heap[child]))
			child++;
		if (!cursor_before(&heap[child], &moving))
			break;
		heap[hole] = heap[child];
		hole = child;
	}
	heap[hole] = moving;
}

static void cursor_anchor(const struct source_trace *source, struct cursor *cursor)
{
	cursor->offset_ns =
		cursor->pass * source->schedule->plan.period_ns + cursor->copy * source->shift_ns;
	cursor->position = 0;
	cursor->time_ns = source->entries[0].time_ns + cursor->offset_ns;
}

/* Move the first cursor on; drop it when its last pass is over. */
static void advance(struct source_trace *source)
{
	struct cursor *cursor = &source->cursors[0];
	if (BASE_LIKELY(++cursor->position < source->entries_count)) {
		cursor->time_ns = source->entries[cursor->position].time_ns + cursor->offset_ns;
	} else if (++cursor->pass < source->loops) {
		cursor_anchor(source, cursor);
	} else {
		*cursor = source->cursors[--source->cursors_count];
		source->source.done = source->cursors_count == 0;
	}
	if (source->cursors_count > 1)
		heap_sift_down(source);
}

static void remap(
	struct source_trace *source, struct base_packet *packet, uint64_t pass, uint32_t copy)
{
	uint64_t number = source->loop_shift ? pass * source->overlay + copy : copy;
	if (number == 0 || base_parse_packet(source->parser, packet) != BASE_PARSE_FLOW)
		return;
	base_remap_packet(packet, (uint32_t)number);
}

static void set_record(struct base_packet *packet, uint8_t *data, const struct cursor *cursor,
	const struct traces_record *record, uint32_t cap_len)
{
	base_packet_reset(packet);
	packet->data = data;
	packet->time_ns = cursor->time_ns;
	packet->wire_len = record->wire_len;
	packet->link = record->link;
	packet->interface = record->interface;
	packet->cap_len = cap_len;
}

/* Fetch what a few packets later will be copied: the trace streams through the cache once. */
static inline void prefetch_ahead(const struct source_trace *source, uint64_t position)
{
	if (BASE_LIKELY(position + 2 * PREFETCH_AHEAD < source->entries_count))
		BASE_PREFETCH(
			&source->records[source->entries[position + 2 * PREFETCH_AHEAD].record]);
	if (BASE_LIKELY(position + PREFETCH_AHEAD < source->entries_count)) {
		const uint8_t *frame =
			source->bytes +
			source->records[source->entries[position + PREFETCH_AHEAD].record].offset;
		BASE_PREFETCH(frame);
		BASE_PREFETCH(frame + 64);
		BASE_PREFETCH(frame + 128);
	}
}

static void emit(struct source_trace *source, struct base_packet *packet)
{
	const struct cursor *cursor = &source->cursors[0];
	const struct schedule_entry *entry = &source->entries[cursor->position];
	const struct traces_record *record = &source->records[entry->record];
	uint8_t *data = source_frame_data(packet);
	uint32_t cap_len = record->cap_len;
	prefetch_ahead(source, cursor->position);
	if (BASE_UNLIKELY(cap_len > source->ring.data_room)) {
		cap_len = source->ring.data_room;
		source->source.frames_cut++;
	}
	set_record(packet, data, cursor, record, cap_len);
	rte_memcpy(data, source->bytes + record->offset, cap_len);
	if (BASE_UNLIKELY(source->pad))
		source_frame_pad(packet, source->ring.data_room);
	if (source->parser != NULL) {
		cap_len = packet->cap_len;
		remap(source, packet, cursor->pass, cursor->copy);
		set_record(packet, data, cursor, record, cap_len);
	}
	packet->seq = source->seq++;
	packet->flags = (uint16_t)entry->flags;
}

static unsigned int trace_poll(
	struct source *base, uint64_t limit_ns, struct base_packet **packets, unsigned int count)
{
	struct source_trace *source = (struct source_trace *)base;
	unsigned int taken = 0;
	if (base->done || source->cursors[0].time_ns > limit_ns)
		return 0;
	if (packet_ring_take(&source->ring, packets, count) == 0)
		return 0;
	while (taken < count && source->cursors_count != 0 &&
		source->cursors[0].time_ns <= limit_ns) {
		if (BASE_LIKELY(taken + SOURCE_BUFFERS_AHEAD < count))
			source_frame_prefetch(packets[taken + SOURCE_BUFFERS_AHEAD]);
		emit(source, packets[taken++]);
		advance(source);
	}
	if (taken < count)
		packet_ring_give(&source->ring, packets + taken, count - taken);
	return taken;
}

/* Where groups change workers a packet's stamp is its place in the capture, with its group. */
static unsigned int handover_poll(
	struct source *base, uint64_t limit_ns, struct base_packet **packets, unsigned int count)
{
	const struct source_trace *source = (struct source_trace *)base;
	uint64_t position = source->cursors[0].position;
	unsigned int taken = trace_poll(base, limit_ns, packets, count);
	for (unsigned int i = 0; i < taken; i++) {
		const struct schedule_entry *entry = &source->entries[position + i];
		uint64_t group = entry->flags >> SCHEDULE_GROUP_SHIFT;
		packets[i]->seq = group << HANDOVER_STAMP_BITS | entry->record;
	}
	return taken;
}

static void trace_give_back(
	struct source *base, struct base_packet *const *packets, unsigned int count)
{
	packet_ring_give(&((struct source_trace *)base)->ring, packets, count);
}

static void trace_destroy(struct source *base)
{
	struct source_trace *source = (struct source_trace *)base;
	packet_ring_destroy(&source->ring);
	base_parser_destroy(source->parser);
	free(source);
}

static const struct source_ops trace_ops = { trace_poll, trace_give_back, trace_destroy };
static const struct source_ops handover_ops = { handover_poll, trace_give_back, trace_destroy };

static void start_cursors(struct source_trace *source)
{
	if (source->entries_count == 0) {
		source->source.done = true;
		return;
	}
	/* Copies start in order of time and number: already a heap. */
	for (uint32_t copy = 0; copy < source->overlay; copy++) {
		source->cursors[copy].copy = copy;
		cursor_anchor(source, &source->cursors[copy]);
	}
	source->cursors_count = source->overlay;
}

int source_trace_create(struct source **out, const struct pipeline_config *config,
	const struct schedule *schedule, const struct traces_trace *trace, unsigned int worker,
	uint32_t reserve_buffers)
{
	size_t records_count;
	char name[32];
	struct source_trace *source =
		calloc(1, sizeof(*source) + config->overlay * sizeof(struct cursor));
	if (source == NULL)
		return -ENOMEM;
	source->source.ops =
		config->sharing == PIPELINE_SHARING_HANDOVER ? &handover_ops : &trace_ops;
	source->source.end_ns = plan_end_ns(&schedule->plan, config);
	source->schedule = schedule;
	source->entries = schedule->entries[worker];
	source->entries_count = schedule->counts[worker];
	source->records = traces_trace_records(trace, &records_count);
	source->bytes = traces_trace_bytes(trace);
	source->loops = config->loops;
	source->overlay = config->overlay;
	source->loop_shift = config->loop_shift;
	source->pad = config->pad_to_wire;
	source->shift_ns = config->overlay_shift_ns;
	start_cursors(source);
	int error = 0;
	if (config->overlay > 1 || (config->loop_shift && config->loops > 1))
		error = base_parser_create(&source->parser, &config->parse);
	snprintf(name, sizeof(name), "packets%u", worker);
	uint32_t frame_max =
		config->pad_to_wire ? schedule->plan.wire_len_max : schedule->plan.cap_len_max;
	uint32_t ring_size = config->rx == PIPELINE_RX_COLD ? 1u << 17 : config->rx_ring;
	if (error == 0)
		error = packet_ring_create(&source->ring, name, ring_size, reserve_buffers,
			source_frame_room(frame_max));
	if (error != 0) {
		base_parser_destroy(source->parser);
		free(source);
		return error;
	}
	*out = &source->source;
	return 0;
}
