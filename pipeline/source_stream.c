/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream source: copies frames from the chunks that the reader hands over into rotating packet
 * buffers, as the trace source does from a trace in memory.
 *
 * Under the virtual clock a burst is whole or the last one, wherever chunks end and however late
 * they come, so that results are those of a trace in memory: packets of a burst that the reader has
 * not finished wait in `held`.
 */
#include "pipeline/large_frames.h"
#include "pipeline/source.h"

#include <rte_memcpy.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PREFETCH_AHEAD = 12,
	/* A port's frames must lie in the mbuf itself: jumbo frames do, larger ones are cut. */
	PORT_FRAME_MAX = 16 << 10,
};

struct source_stream {
	struct source source;
	struct reader *reader;
	struct chunk_ring *ring;
	const struct chunk *chunk; /* being emptied; NULL: none */
	uint32_t at;               /* its next packet */
	bool whole_bursts, pad;
	unsigned int held_count;
	uint64_t seq;
	struct packet_ring buffers;
	struct large_frames large; /* none for a port's sink */
	struct base_parser
		*parser; /* finds headers for the address remap; NULL when there is none */
	struct base_packet *held[BASE_BURST_MAX];
};

static void take_chunk(struct source_stream *source)
{
	if (source->chunk != NULL)
		chunk_ring_release(source->ring);
	source->source.reached_ns = chunk_ring_reached_ns(source->ring);
	source->chunk = chunk_ring_front(source->ring);
	source->at = 0;
	if (source->chunk == NULL)
		return;
	source->source.took = true;
	source->source.took_ns = source->chunk->packets[0].time_ns;
	source->source.pauses = reader_pauses(source->reader);
}

/* Is there a next packet? */
static inline bool look(struct source_stream *source)
{
	if (BASE_LIKELY(source->chunk != NULL && source->at < source->chunk->count))
		return true;
	take_chunk(source);
	return source->chunk != NULL;
}

static inline void prefetch_ahead(const struct chunk *chunk, uint32_t at)
{
	if (BASE_LIKELY(at + 2 * PREFETCH_AHEAD < chunk->count))
		BASE_PREFETCH(&chunk->packets[at + 2 * PREFETCH_AHEAD]);
	if (BASE_LIKELY(at + PREFETCH_AHEAD < chunk->count)) {
		const uint8_t *frame = chunk->bytes + chunk->packets[at + PREFETCH_AHEAD].offset;
		BASE_PREFETCH(frame);
		BASE_PREFETCH(frame + 64);
		BASE_PREFETCH(frame + 128);
	}
}

static inline void set_record(struct base_packet *packet, uint8_t *data,
	const struct chunk_packet *from, uint32_t cap_len)
{
	base_packet_reset(packet);
	packet->data = data;
	packet->time_ns = from->time_ns;
	packet->wire_len = from->wire_len;
	packet->cap_len = cap_len;
	packet->link = from->link;
	packet->interface = from->interface;
}

/* False when there is no place for a frame that large; then nothing has happened. */
static bool emit(struct source_stream *source, struct base_packet *packet)
{
	const struct chunk *chunk = source->chunk;
	const struct chunk_packet *from = &chunk->packets[source->at];
	uint8_t *data = source_frame_data(packet);
	uint32_t room = source->buffers.data_room;
	prefetch_ahead(chunk, source->at);
	if (BASE_UNLIKELY((source->pad ? from->wire_len : from->cap_len) > room &&
			  source->large.count != 0)) {
		data = large_frames_take(&source->large);
		room = SOURCE_FRAME_ROOM_MAX;
		if (data == NULL)
			return false;
	}
	uint32_t cap_len = from->cap_len;
	if (BASE_UNLIKELY(cap_len > room)) {
		cap_len = room;
		source->source.frames_cut++;
	}
	set_record(packet, data, from, cap_len);
	rte_memcpy(data, chunk->bytes + from->offset, cap_len);
	if (BASE_UNLIKELY(source->pad))
		source_frame_pad(packet, room);
	if (BASE_UNLIKELY(from->number != 0)) {
		cap_len = packet->cap_len;
		if (base_parse_packet(source->parser, packet) == BASE_PARSE_FLOW)
			base_remap_packet(packet, from->number);
		set_record(packet, data, from, cap_len);
	}
	packet->seq = source->seq++;
	packet->flags = from->flags;
	source->at++;
	return true;
}

/* The reader has not handed over more; taken packets of the burst are there. */
static unsigned int drained(
	struct source_stream *source, struct base_packet *const *packets, unsigned int taken)
{
	if (chunk_ring_is_over(source->ring)) {
		source->held_count = 0;
		source->source.done = true;
		source->source.failed = reader_failed(source->reader);
		source->source.end_ns = reader_end_ns(source->reader);
		source->source.pauses = reader_pauses(source->reader);
		return taken;
	}
	source->source.starved = true;
	if (!source->whole_bursts)
		return taken;
	memcpy(source->held, packets, taken * sizeof(*packets));
	source->held_count = taken;
	return 0;
}

static unsigned int stream_poll(
	struct source *base, uint64_t limit_ns, struct base_packet **packets, unsigned int count)
{
	struct source_stream *source = (struct source_stream *)base;
	unsigned int taken = source->held_count;
	base->starved = base->took = false;
	memcpy(packets, source->held, taken * sizeof(*packets));
	if (!look(source)) /* without turning the buffers round */
		return drained(source, packets, taken);
	if (packet_ring_take(&source->buffers, packets + taken, count - taken) == 0)
		return 0;
	source->held_count = 0;
	bool there = true;
	while (taken < count && (there = look(source)) &&
		source->chunk->packets[source->at].time_ns <= limit_ns) {
		if (BASE_LIKELY(taken + SOURCE_BUFFERS_AHEAD < count))
			source_frame_prefetch(packets[taken + SOURCE_BUFFERS_AHEAD]);
		if (BASE_UNLIKELY(!emit(source, packets[taken])))
			break;
		taken++;
	}
	if (taken < count)
		packet_ring_give(&source->buffers, packets + taken, count - taken);
	return BASE_LIKELY(there) ? taken : drained(source, packets, taken);
}

static void stream_give_back(
	struct source *base, struct base_packet *const *packets, unsigned int count)
{
	struct source_stream *source = (struct source_stream *)base;
	large_frames_give(&source->large, packets, count);
	packet_ring_give(&source->buffers, packets, count);
}

static void stream_destroy(struct source *base)
{
	struct source_stream *source = (struct source_stream *)base;
	packet_ring_destroy(&source->buffers);
	large_frames_destroy(&source->large);
	base_parser_destroy(source->parser);
	free(source);
}

static const struct source_ops stream_ops = { stream_poll, stream_give_back, stream_destroy };

uint32_t source_stream_frame_max(const struct pipeline_config *config)
{
	return config->sink == PIPELINE_SINK_PORT ? PORT_FRAME_MAX : 0;
}

static int allocate(struct source_stream *source, const struct pipeline_config *config,
	unsigned int worker, uint32_t reserve_buffers)
{
	char name[32];
	uint32_t ring_size = config->rx == PIPELINE_RX_COLD ? 1u << 17 : config->rx_ring;
	int error = 0;
	snprintf(name, sizeof(name), "packets%u", worker);
	if (config->overlay > 1 || (config->loop_shift && config->loops > 1))
		error = base_parser_create(&source->parser, &config->parse);
	if (error == 0)
		error = packet_ring_create(&source->buffers, name, ring_size, reserve_buffers,
			source_frame_room(source_stream_frame_max(config)));
	if (error == 0 && config->sink != PIPELINE_SINK_PORT)
		error = large_frames_create(&source->large, reserve_buffers + 2 * BASE_BURST_MAX);
	return error;
}

int source_stream_create(struct source **out, const struct pipeline_config *config,
	struct reader *reader, unsigned int worker, uint32_t reserve_buffers)
{
	struct source_stream *source = calloc(1, sizeof(*source));
	if (source == NULL)
		return -ENOMEM;
	source->source.ops = &stream_ops;
	source->reader = reader;
	source->ring = reader_ring(reader, worker);
	source->whole_bursts = config->clock == PIPELINE_CLOCK_VIRTUAL;
	source->pad = config->pad_to_wire;
	int error = allocate(source, config, worker, reserve_buffers);
	if (error != 0) {
		stream_destroy(&source->source);
		return error;
	}
	*out = &source->source;
	return 0;
}
