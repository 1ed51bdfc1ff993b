/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/schedule.h"

#include "pipeline/filter.h"
#include "pipeline/key_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STOP_CHECK_PACKETS = 1 << 16 };

/* State of the one walk over the trace. */
struct planner {
	const struct pipeline_config *config;
	struct schedule *schedule;
	struct base_parser *parser;
	struct filter *filter;
	struct key_set *keys;
	uint64_t last_ns; /* monotone capture time of the packet before */
	uint64_t now_ns;  /* the same on the schedule's time line */
	uint64_t capacity[PIPELINE_WORKERS_MAX];
};

static int grow(struct planner *planner, unsigned int worker)
{
	uint64_t capacity = planner->capacity[worker] == 0 ? 4096 : planner->capacity[worker] * 2;
	if (planner->config->workers == 1)
		capacity = planner->schedule->packets;
	struct schedule_entry *entries = realloc(
		planner->schedule->entries[worker], capacity * sizeof(struct schedule_entry));
	if (entries == NULL)
		return -ENOMEM;
	planner->schedule->entries[worker] = entries;
	planner->capacity[worker] = capacity;
	return 0;
}

static int append(struct planner *planner, unsigned int worker, struct schedule_entry entry)
{
	struct schedule *schedule = planner->schedule;
	if (schedule->counts[worker] == planner->capacity[worker]) {
		int error = grow(planner, worker);
		if (error != 0)
			return error;
	}
	schedule->entries[worker][schedule->counts[worker]++] = entry;
	return 0;
}

/* Next point on the monotone, gap-cut time line. */
static uint64_t step_time(struct planner *planner, uint64_t captured_ns)
{
	struct schedule *schedule = planner->schedule;
	if (captured_ns < planner->last_ns) {
		schedule->time_clamped++;
		return planner->now_ns;
	}
	uint64_t gap_ns = captured_ns - planner->last_ns;
	planner->last_ns = captured_ns;
	uint64_t limit_ns = planner->config->max_gap_ns;
	if (limit_ns == UINT64_MAX) /* not given */
		limit_ns = planner->config->clock == PIPELINE_CLOCK_WALL ? UINT64_C(5000000000) : 0;
	if (limit_ns != 0 && gap_ns > limit_ns) {
		schedule->gaps_cut++;
		schedule->gaps_cut_ns += gap_ns - limit_ns;
		gap_ns = limit_ns;
	}
	return planner->now_ns += gap_ns;
}

static const struct chain_nat_config *nat_of(const struct chain_config *chain)
{
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		if (chain->functions[i].kind == CHAIN_NAT)
			return &chain->functions[i].nat;
	}
	return NULL;
}

static unsigned int steer(struct planner *planner, struct base_packet *packet)
{
	uint16_t workers = (uint16_t)planner->config->workers;
	uint16_t worker;
	if (base_parse_packet(planner->parser, packet) != BASE_PARSE_FLOW)
		return 0;
	const struct chain_nat_config *nat = nat_of(&planner->config->chain);
	if (workers > 1 && nat != NULL && chain_nat_worker(nat, packet, workers, &worker) == 0)
		return worker;
	return packet->hash % PIPELINE_RETA_SIZE % workers;
}

static int plan_packet(struct planner *planner, const struct traces_record *record,
	const uint8_t *frame, uint32_t index)
{
	struct schedule *schedule = planner->schedule;
	struct base_packet packet;
	base_packet_reset(&packet);
	packet.data = (uint8_t *)frame; /* the parser only reads */
	packet.time_ns = step_time(planner, record->time_ns);
	packet.wire_len = record->wire_len;
	packet.cap_len = record->cap_len;
	packet.link = record->link;
	unsigned int worker = steer(planner, &packet);
	if ((packet.flags & BASE_PACKET_FLOW) &&
		key_set_add(planner->keys, &packet.key, packet.hash) < 0)
		return -ENOMEM;
	struct schedule_entry entry = { packet.time_ns, index,
		filter_flags(planner->filter, &packet) };
	schedule->wire_bytes += record->wire_len;
	schedule->captured_bytes += record->cap_len;
	if (record->cap_len > schedule->cap_len_max)
		schedule->cap_len_max = record->cap_len;
	if (record->wire_len > schedule->wire_len_max)
		schedule->wire_len_max = record->wire_len;
	return append(planner, worker, entry);
}

static int plan(struct planner *planner, const struct traces_trace *trace, const atomic_bool *stop)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	planner->schedule->packets = count;
	if (count == 0)
		return 0;
	planner->schedule->epoch_ns = planner->last_ns = records[0].time_ns;
	for (size_t i = 0; i < count; i++) {
		if (i % STOP_CHECK_PACKETS == 0 && atomic_load_explicit(stop, memory_order_relaxed))
			return -EINTR;
		int error =
			plan_packet(planner, &records[i], bytes + records[i].offset, (uint32_t)i);
		if (error != 0)
			return error;
	}
	return 0;
}

static void finish(struct planner *planner)
{
	struct schedule *schedule = planner->schedule;
	uint64_t mean_gap_ns =
		schedule->packets > 1 ? planner->now_ns / (schedule->packets - 1) : 0;
	schedule->duration_ns = planner->now_ns;
	schedule->period_ns = planner->now_ns + (mean_gap_ns == 0 ? 1000 : mean_gap_ns);
	schedule->flows = key_set_count(planner->keys);
}

int schedule_create(struct schedule *schedule, const struct pipeline_config *config,
	const struct traces_trace *trace, const atomic_bool *stop, char *message)
{
	struct planner planner = { .config = config, .schedule = schedule };
	size_t count;
	traces_trace_records(trace, &count);
	memset(schedule, 0, sizeof(*schedule));
	if (count >= UINT32_MAX) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "more than 2^32 - 2 packets");
		return -EFBIG;
	}
	int error =
		filter_create(&planner.filter, config->bypass_filter, config->bulk_filter, message);
	if (error == 0)
		error = base_parser_create(&planner.parser, &config->parse);
	if (error == 0)
		error = key_set_create(&planner.keys);
	if (error == 0)
		error = plan(&planner, trace, stop);
	if (error == 0)
		finish(&planner);
	else
		schedule_destroy(schedule);
	key_set_destroy(planner.keys);
	base_parser_destroy(planner.parser);
	filter_destroy(planner.filter);
	return error;
}

void schedule_destroy(struct schedule *schedule)
{
	for (unsigned int i = 0; i < PIPELINE_WORKERS_MAX; i++)
		free(schedule->entries[i]);
	memset(schedule, 0, sizeof(*schedule));
}
