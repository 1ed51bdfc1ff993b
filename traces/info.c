/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/locality.h"

#include "base/parse.h"

#include <errno.h>
#include <string.h>

enum { BATCH = 32, FRAMES_AHEAD = 8 };

struct info_packet {
	struct base_packet packet;
	enum base_parse_result result;
};

void traces_info_options_defaults(struct traces_info_options *options)
{
	memset(options, 0, sizeof(*options));
	options->idle_timeout_ns = UINT64_C(5000000000);
	options->seed = 1;
}

static void packet_from_record(struct base_packet *packet, const struct traces_record *record,
	const uint8_t *bytes, uint64_t seq)
{
	base_packet_reset(packet);
	/* The parser only reads; the field is not const because chain functions write frames. */
	packet->data = (uint8_t *)(uintptr_t)(bytes + record->offset);
	packet->time_ns = record->time_ns;
	packet->seq = seq;
	packet->wire_len = record->wire_len;
	packet->cap_len = record->cap_len;
	packet->link = record->link;
	packet->interface = record->interface;
}

static void count_record(struct traces_info *info, const struct traces_record *record)
{
	if (info->packets == 0 || record->time_ns < info->first_ns)
		info->first_ns = record->time_ns;
	if (record->time_ns > info->last_ns)
		info->last_ns = record->time_ns;
	info->packets++;
	info->wire_bytes += record->wire_len;
	info->captured_bytes += record->cap_len;
	if (record->link < BASE_LINKS_COUNT)
		info->links[record->link]++;
}

static int count_packet(struct traces_info *info, struct traces_locality *locality,
	const struct info_packet *parsed)
{
	const struct base_packet *packet = &parsed->packet;
	bool is_flow = parsed->result == BASE_PARSE_FLOW;
	traces_traits_count(info, packet, is_flow);
	if (is_flow) {
		info->flow_packets++;
		info->protocol_packets[packet->protocol]++;
		info->protocol_bytes[packet->protocol] += packet->wire_len;
		return traces_locality_add(locality, packet->time_ns, &packet->key, packet->hash,
			(packet->flags & BASE_PACKET_REVERSED) != 0);
	}
	if (parsed->result == BASE_PARSE_MALFORMED) {
		info->malformed_packets++;
		if (packet->drop_reason <= BASE_DROP_PARSE_LAST)
			info->refusals[packet->drop_reason]++;
	} else {
		info->non_ip_packets++;
	}
	traces_locality_add_other(locality, packet->time_ns);
	return 0;
}

/* Parse a batch, then look its flows up: by then the table's lines are on their way. */
static int compute(struct traces_info *info, struct traces_locality *locality,
	struct base_parser *parser, const struct traces_trace *trace)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	struct info_packet batch[BATCH];
	uint64_t before_ns = 0;
	for (size_t start = 0; start < count; start += BATCH) {
		size_t size = count - start < BATCH ? count - start : BATCH;
		for (size_t i = 0; i < size; i++) {
			if (start + i + FRAMES_AHEAD < count)
				BASE_PREFETCH(bytes + records[start + i + FRAMES_AHEAD].offset);
			const struct traces_record *record = &records[start + i];
			count_record(info, record);
			info->time_backwards += record->time_ns < before_ns;
			before_ns = record->time_ns;
			packet_from_record(&batch[i].packet, record, bytes, start + i);
			batch[i].result = base_parse_packet(parser, &batch[i].packet);
			if (batch[i].result == BASE_PARSE_FLOW)
				traces_locality_prefetch(locality, batch[i].packet.hash);
		}
		for (size_t i = 0; i < size; i++) {
			int error = count_packet(info, locality, &batch[i]);
			if (error)
				return error;
		}
	}
	return 0;
}

int traces_info_compute(struct traces_info *out, const struct traces_trace *trace,
	const struct traces_info_options *options)
{
	struct traces_info_options defaults;
	if (options == NULL) {
		traces_info_options_defaults(&defaults);
		options = &defaults;
	}
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	/* Keyed: a capture must not be able to choose keys that collide in the table here. */
	config.hash.kind = BASE_HASH_SIPHASH;
	config.hash.salt[0] = options->seed;
	config.hash.salt[1] = ~options->seed;
	config.inner = options->inner;
	config.zone_source = options->vlan_zone ? BASE_ZONE_VLAN : BASE_ZONE_NONE;

	struct base_parser *parser;
	int error = base_parser_create(&parser, &config);
	if (error)
		return error;
	struct traces_locality locality;
	error = traces_locality_init(&locality, options->idle_timeout_ns);
	if (error == 0) {
		struct traces_info info = { 0 };
		error = compute(&info, &locality, parser, trace);
		if (error == 0) {
			traces_locality_finish(&locality, &info);
			info.duration_ns = info.last_ns - info.first_ns;
			*out = info;
		}
		traces_locality_destroy(&locality);
	}
	base_parser_destroy(parser);
	return error;
}
