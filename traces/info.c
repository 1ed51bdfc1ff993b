/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/locality.h"

#include "traces/parsing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32 };

struct traces_info_collector {
	struct base_parser *parser;
	struct traces_flow_hash hash;
	struct traces_locality locality;
	struct traces_info info; /* what is counted so far */
	uint64_t before_ns;
	struct base_burst burst; /* of packets */
	struct base_packet packets[GROUP];
};

void traces_info_options_defaults(struct traces_info_options *options)
{
	memset(options, 0, sizeof(*options));
	options->idle_timeout_ns = UINT64_C(5000000000);
	options->flows_max = TRACES_INFO_FLOWS_MAX;
	options->seed = 1;
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

static int count_packet(
	struct traces_info_collector *collector, const struct base_packet *packet, uint32_t hash)
{
	struct traces_info *info = &collector->info;
	bool is_flow = (packet->flags & BASE_PACKET_FLOW) != 0;
	traces_traits_count(info, packet, is_flow);
	if (is_flow) {
		info->flow_packets++;
		info->protocol_packets[packet->protocol]++;
		info->protocol_bytes[packet->protocol] += packet->wire_len;
		return traces_locality_add(&collector->locality, packet->time_ns, &packet->key,
			hash, (packet->flags & BASE_PACKET_REVERSED) != 0);
	}
	if (packet->drop_reason != BASE_DROP_NONE) {
		info->malformed_packets++;
		if (packet->drop_reason <= BASE_DROP_PARSE_LAST)
			info->refusals[packet->drop_reason]++;
	} else {
		info->non_ip_packets++;
	}
	return traces_locality_add_other(&collector->locality, packet->time_ns);
}

/* The next packets of a batch into the burst, parsed. */
static void parse_group(struct traces_info_collector *collector, const struct traces_batch *batch,
	size_t start, size_t size)
{
	struct base_burst *burst = &collector->burst;
	burst->count = (uint16_t)size;
	burst->drop_count = 0;
	for (size_t i = 0; i < size; i++) {
		const struct traces_record *record = &batch->records[start + i];
		traces_packet_from_record(
			burst->packets[i], record, batch->bytes, collector->info.packets);
		count_record(collector, record);
	}
	base_parse_burst(collector->parser, burst, true);
}

/*
 * In steps over a group, so that the memory of many flows is on its way at once: parse, call for
 * the slots, call for the flows that the slots name, look up and count.
 */
int traces_info_collector_add(
	struct traces_info_collector *collector, const struct traces_batch *batch)
{
	const struct traces_flow_table *table = &collector->locality.table;
	uint32_t hashes[GROUP];
	for (size_t start = 0; start < batch->count; start += GROUP) {
		size_t size = batch->count - start < GROUP ? batch->count - start : GROUP;
		parse_group(collector, batch, start, size);
		/* Of a packet without a flow: a line too many, rarely. */
		for (size_t i = 0; i < size; i++) {
			hashes[i] = traces_flow_hash(&collector->hash, &collector->packets[i].key);
			traces_flow_prefetch_slot(table, hashes[i]);
		}
		for (size_t i = 0; i < size; i++)
			traces_flow_prefetch(table, hashes[i]);
		for (size_t i = 0; i < size; i++) {
			int error = count_packet(collector, &collector->packets[i], hashes[i]);
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
	struct traces_info_collector *collector =
		aligned_alloc(BASE_CACHE_LINE, sizeof(*collector));
	if (collector == NULL)
		return -ENOMEM;
	memset(collector, 0, sizeof(*collector));
	for (unsigned int i = 0; i < GROUP; i++)
		collector->burst.packets[i] = &collector->packets[i];
	traces_flow_hash_init(&collector->hash, options->seed);
	int error = parser_create(&collector->parser, options);
	if (error == 0)
		error = traces_locality_init(&collector->locality, options);
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

uint64_t traces_info_collector_memory_bytes(const struct traces_info_collector *collector)
{
	return sizeof(*collector) + traces_locality_memory_bytes(&collector->locality);
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
