/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/locality.h"

#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32, FRAMES_AHEAD = 8 };

struct info_packet {
	struct base_packet packet;
	enum base_parse_result result;
};

struct traces_info_collector {
	struct base_parser *parser;
	struct traces_locality locality;
	struct traces_info info; /* what is counted so far */
	uint64_t before_ns;
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

static void count_record(
	struct traces_info_collector *collector, const struct traces_record *record)
{
	struct traces_info *info = &collector->info;
	info->time_backwards += record->time_ns < collector->before_ns;
	collector->before_ns = record->time_ns;
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

static int count_packet(struct traces_info_collector *collector, const struct info_packet *parsed)
{
	struct traces_info *info = &collector->info;
	const struct base_packet *packet = &parsed->packet;
	bool is_flow = parsed->result == BASE_PARSE_FLOW;
	traces_traits_count(info, packet, is_flow);
	if (is_flow) {
		info->flow_packets++;
		info->protocol_packets[packet->protocol]++;
		info->protocol_bytes[packet->protocol] += packet->wire_len;
		return traces_locality_add(&collector->locality, packet->time_ns, &packet->key,
			packet->hash, (packet->flags & BASE_PACKET_REVERSED) != 0);
	}
	if (parsed->result == BASE_PARSE_MALFORMED) {
		info->malformed_packets++;
		if (packet->drop_reason <= BASE_DROP_PARSE_LAST)
			info->refusals[packet->drop_reason]++;
	} else {
		info->non_ip_packets++;
	}
	traces_locality_add_other(&collector->locality, packet->time_ns);
	return 0;
}

/* Parse a group, then look its flows up: by then the table's lines are on their way. */
int traces_info_collector_add(
	struct traces_info_collector *collector, const struct traces_batch *batch)
{
	const struct traces_record *records = batch->records;
	struct info_packet group[GROUP];
	for (size_t start = 0; start < batch->count; start += GROUP) {
		size_t size = batch->count - start < GROUP ? batch->count - start : GROUP;
		for (size_t i = 0; i < size; i++) {
			if (start + i + FRAMES_AHEAD < batch->count)
				BASE_PREFETCH(
					batch->bytes + records[start + i + FRAMES_AHEAD].offset);
			const struct traces_record *record = &records[start + i];
			struct base_packet *packet = &group[i].packet;
			packet_from_record(packet, record, batch->bytes, collector->info.packets);
			count_record(collector, record);
			group[i].result = base_parse_packet(collector->parser, packet);
			if (group[i].result == BASE_PARSE_FLOW)
				traces_locality_prefetch(&collector->locality, packet->hash);
		}
		for (size_t i = 0; i < size; i++) {
			int error = count_packet(collector, &group[i]);
			if (error)
				return error;
		}
	}
	return 0;
}

static int parser_create(struct base_parser **out, const struct traces_info_options *options)
{
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	/* Keyed: a capture must not be able to choose keys that collide in the table here. */
	config.hash.kind = BASE_HASH_SIPHASH;
	config.hash.salt[0] = options->seed;
	config.hash.salt[1] = ~options->seed;
	config.inner = options->inner;
	config.zone_source = options->vlan_zone ? BASE_ZONE_VLAN : BASE_ZONE_NONE;
	return base_parser_create(out, &config);
}

int traces_info_collector_create(
	struct traces_info_collector **out, const struct traces_info_options *options)
{
	struct traces_info_options defaults;
	if (options == NULL) {
		traces_info_options_defaults(&defaults);
		options = &defaults;
	}
	struct traces_info_collector *collector = calloc(1, sizeof(*collector));
	if (collector == NULL)
		return -ENOMEM;
	int error = parser_create(&collector->parser, options);
	if (error == 0)
		error = traces_locality_init(&collector->locality, options->idle_timeout_ns);
	if (error) {
		traces_info_collector_destroy(collector);
		return error;
	}
	*out = collector;
	return 0;
}

void traces_info_collector_finish(
	const struct traces_info_collector *collector, struct traces_info *out)
{
	*out = collector->info;
	traces_locality_finish(&collector->locality, out);
	out->duration_ns = out->last_ns - out->first_ns;
}

void traces_info_collector_destroy(struct traces_info_collector *collector)
{
	if (collector == NULL)
		return;
	traces_locality_destroy(&collector->locality);
	base_parser_destroy(collector->parser);
	free(collector);
}

int traces_info_of_packets(struct traces_info *out, struct traces_packets *packets,
	const struct traces_info_options *options)
{
	struct traces_info_collector *collector;
	struct traces_batch batch;
	int error = traces_info_collector_create(&collector, options);
	if (error)
		return error;
	do {
		error = traces_packets_next(packets, &batch);
		if (error == 0)
			error = traces_info_collector_add(collector, &batch);
	} while (error == 0 && batch.count > 0);
	if (error == 0)
		traces_info_collector_finish(collector, out);
	traces_info_collector_destroy(collector);
	return error;
}

int traces_info_compute(struct traces_info *out, const struct traces_trace *trace,
	const struct traces_info_options *options)
{
	struct traces_packets *packets;
	int error = traces_packets_of_trace(&packets, trace, 0);
	if (error)
		return error;
	error = traces_info_of_packets(out, packets, options);
	traces_packets_destroy(packets);
	return error;
}
