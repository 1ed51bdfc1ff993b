/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/generated.h"

#include "traces/flow_index.h"

#include <stdlib.h>

struct traces_packets *generated_open(const struct traces_generate_options *options)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_packets *stream = NULL;
	if (traces_packets_generate(&stream, options, message) != 0)
		fprintf(stderr, "%s\n", message);
	BASE_ASSERT(stream != NULL);
	return stream;
}

static struct base_parser *make_parser(void)
{
	struct base_parse_config config;
	struct base_parser *parser;
	base_parse_config_defaults(&config);
	config.hash.kind = BASE_HASH_SIPHASH;
	config.verify_checksums = true;
	config.fragments_max = 1 << 16;
	int error = base_parser_create(&parser, &config);
	BASE_ASSERT(error == 0);
	return parser;
}

static void walk_packet(struct base_parser *parser, struct traces_flow_index *index,
	struct generated_packet *packet, struct generated_summary *summary, generated_fn *visit,
	void *context)
{
	struct base_packet parsed;
	const struct traces_record *record = packet->record;
	base_packet_reset(&parsed);
	parsed.data = (uint8_t *)(uintptr_t)packet->frame;
	parsed.time_ns = record->time_ns;
	parsed.wire_len = record->wire_len;
	parsed.cap_len = record->cap_len;
	parsed.link = record->link;
	if (base_parse_packet(parser, &parsed) != BASE_PARSE_FLOW) {
		summary->malformed++;
		return;
	}
	packet->parsed = &parsed;
	packet->flow = traces_flow_index_find(index, &parsed.key, parsed.hash);
	packet->fresh = packet->flow == TRACES_FLOW_NONE;
	if (packet->fresh) {
		BASE_ASSERT(index->count < index->capacity);
		packet->flow = traces_flow_index_add(index, &parsed.key, parsed.hash);
		summary->flows++;
	}
	if (visit != NULL)
		visit(context, packet);
}

struct generated_summary generated_walk(
	struct traces_packets *stream, uint32_t flows_max, generated_fn *visit, void *context)
{
	struct generated_summary summary = { 0 };
	struct base_parser *parser = make_parser();
	struct traces_flow_index index;
	struct traces_batch batch;
	struct base_parse_stats stats;
	uint64_t before_ns = 0;
	int error = traces_flow_index_init(&index, flows_max);
	BASE_ASSERT(error == 0);
	do {
		error = traces_packets_next(stream, &batch);
		BASE_ASSERT(error == 0);
		for (size_t i = 0; i < batch.count; i++) {
			struct generated_packet packet = { .record = &batch.records[i] };
			packet.frame = batch.bytes + packet.record->offset;
			summary.backwards += packet.record->time_ns < before_ns;
			before_ns = packet.record->time_ns;
			walk_packet(parser, &index, &packet, &summary, visit, context);
			summary.packets++;
		}
	} while (batch.count > 0);
	base_parser_stats(parser, &stats);
	summary.checksums_bad = stats.checksums_bad;
	summary.orphans = stats.fragments_orphaned;
	traces_flow_index_destroy(&index);
	base_parser_destroy(parser);
	traces_packets_destroy(stream);
	return summary;
}

static uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;
	for (size_t i = 0; i < size; i++)
		digest = (digest ^ from[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return digest;
}

uint64_t generated_digest(struct traces_packets *stream)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325);
	struct traces_batch batch;
	do {
		int error = traces_packets_next(stream, &batch);
		BASE_ASSERT(error == 0);
		for (size_t i = 0; i < batch.count; i++) {
			const struct traces_record *record = &batch.records[i];
			digest = digest_bytes(digest, &record->time_ns, sizeof(record->time_ns));
			digest = digest_bytes(digest, &record->wire_len, sizeof(record->wire_len));
			digest = digest_bytes(digest, &record->link, sizeof(record->link));
			digest =
				digest_bytes(digest, batch.bytes + record->offset, record->cap_len);
		}
	} while (batch.count > 0);
	traces_packets_destroy(stream);
	return digest;
}
