/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_packets.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_ROOM = 128, BURST = 256 };

/* What grows while packets are loaded. */
struct loader {
	struct bench_packets *out;
	struct base_parser *parser;
	size_t capacity;
	uint64_t first_ns, now_ns;
	bool begun;
};

static int grow(struct loader *loader)
{
	struct bench_packets *out = loader->out;
	if (out->count + BURST <= loader->capacity)
		return 0;
	size_t capacity = 2 * loader->capacity + 16384;
	struct base_packet *packets =
		aligned_alloc(BASE_CACHE_LINE, capacity * sizeof(*out->packets));
	uint8_t *frames = realloc(out->frames, capacity * HEADER_ROOM);
	if (frames != NULL)
		out->frames = frames;
	if (packets == NULL || frames == NULL) {
		free(packets);
		return -ENOMEM;
	}
	if (out->count != 0)
		memcpy(packets, out->packets, out->count * sizeof(*packets));
	free(out->packets);
	out->packets = packets;
	loader->capacity = capacity;
	return 0;
}

static void read_record(
	struct loader *loader, const struct traces_record *record, const uint8_t *frame, size_t at)
{
	struct base_packet *packet = &loader->out->packets[at];
	uint32_t cap_len = record->cap_len < HEADER_ROOM ? record->cap_len : HEADER_ROOM;
	if (!loader->begun)
		loader->first_ns = record->time_ns;
	loader->begun = true;
	uint64_t time_ns =
		record->time_ns > loader->first_ns ? record->time_ns - loader->first_ns : 0;
	if (time_ns > loader->now_ns)
		loader->now_ns = time_ns;
	base_packet_reset(packet);
	packet->data = loader->out->frames + at * HEADER_ROOM;
	memcpy(packet->data, frame, cap_len);
	packet->time_ns = loader->now_ns;
	packet->link = record->link;
	packet->cap_len = cap_len;
	packet->wire_len = record->wire_len;
}

/* Parse up to BURST records and keep those that are well formed. */
static int load_burst(
	struct loader *loader, const struct traces_batch *batch, size_t from, size_t count)
{
	struct bench_packets *out = loader->out;
	struct base_burst burst = { .count = (uint16_t)count };
	int error = grow(loader);
	if (error != 0)
		return error;
	for (size_t i = 0; i < count; i++) {
		const struct traces_record *record = &batch->records[from + i];
		read_record(loader, record, batch->bytes + record->offset, out->count + i);
		burst.packets[i] = &out->packets[out->count + i];
	}
	base_parse_burst(loader->parser, &burst, true);
	size_t kept = out->count;
	for (size_t i = 0; i < count; i++) {
		struct base_packet *packet = &out->packets[out->count + i];
		if (packet->drop_reason != BASE_DROP_NONE) {
			out->left_out++;
			continue;
		}
		out->flow_packets += (packet->flags & BASE_PACKET_FLOW) != 0;
		uint8_t *frame = out->frames + kept * HEADER_ROOM;
		if (frame != packet->data)
			memcpy(frame, packet->data, HEADER_ROOM);
		out->packets[kept] = *packet;
		kept++;
	}
	out->count = kept;
	return 0;
}

static int load(struct loader *loader, struct traces_packets *stream, uint64_t packets_max,
	const atomic_bool *stop)
{
	for (;;) {
		struct traces_batch batch;
		int error = traces_packets_next(stream, &batch);
		if (error != 0 || batch.count == 0)
			return error;
		for (size_t at = 0; at < batch.count; at += BURST) {
			uint64_t left = packets_max - loader->out->count;
			size_t count = batch.count - at < BURST ? batch.count - at : BURST;
			if (count > left)
				count = (size_t)left;
			if (count == 0)
				return 0;
			error = load_burst(loader, &batch, at, count);
			if (error != 0)
				return error;
		}
		/* no partner: a hint */
		if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed))
			return -EINTR;
	}
}

int bench_packets_load(struct bench_packets *out, struct traces_packets *stream,
	uint64_t packets_max, const atomic_bool *stop)
{
	struct base_parse_config config;
	struct bench_packets made = { 0 };
	struct loader loader = { .out = &made };
	base_parse_config_defaults(&config);
	int error = base_parser_create(&loader.parser, &config);
	if (error != 0)
		return error;
	error = load(&loader, stream, packets_max, stop);
	base_parser_destroy(loader.parser);
	if (error != 0) {
		bench_packets_destroy(&made);
		return error;
	}
	/* Frames may have moved while they grew. */
	for (uint64_t i = 0; i < made.count; i++)
		made.packets[i].data = made.frames + i * HEADER_ROOM;
	made.duration_ns = loader.now_ns;
	*out = made;
	return 0;
}

void bench_packets_destroy(struct bench_packets *packets)
{
	free(packets->packets);
	free(packets->frames);
	packets->packets = NULL;
	packets->frames = NULL;
	packets->count = 0;
}

void bench_packets_tell_damage(const struct traces_load_report *report, const char *path,
	char *message, size_t message_size)
{
	const struct traces_damage *first = &report->damages[0];
	if (report->damages_count == 0)
		return;
	snprintf(message, message_size,
		"%s: damaged at packet %" PRIu64 ", byte %" PRIu64
		": %s: what is behind is left out",
		path, first->packet, first->offset, first->reason);
}
