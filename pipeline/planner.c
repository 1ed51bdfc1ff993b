/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/planner.h"

#include "pipeline/filter.h"
#include "pipeline/handover.h"
#include "pipeline/key_set.h"

#include <errno.h>
#include <stdlib.h>

enum { WALL_GAP_S = 5 };

struct planner {
	const struct pipeline_config *config;
	const struct chain_nat_config *nat; /* NULL unless it decides about workers */
	struct base_parser *parser;
	struct filter *filter;
	struct key_set *keys; /* NULL: flows are not counted */
	uint64_t flows_max;
	uint64_t max_gap_ns; /* 0: gaps are not cut */
	uint64_t last_ns;    /* monotone capture time of the packet before */
	uint64_t now_ns;     /* the same on the plan's time line */
	struct plan plan;
	struct base_packet packets[PLANNER_BATCH];
};

static const struct chain_nat_config *nat_of(const struct pipeline_config *config)
{
	const struct chain_config *chain = &config->chain;
	bool steers = config->workers > 1 || config->sharing == PIPELINE_SHARING_HANDOVER;
	for (uint32_t i = 0; i < chain->functions_count && steers; i++) {
		if (chain->functions[i].kind == CHAIN_NAT)
			return &chain->functions[i].nat;
	}
	return NULL;
}

static uint64_t max_gap_ns(const struct pipeline_config *config)
{
	if (config->max_gap_ns != UINT64_MAX)
		return config->max_gap_ns;
	return config->clock == PIPELINE_CLOCK_WALL ? WALL_GAP_S * UINT64_C(1000000000) : 0;
}

int planner_create(struct planner **out, const struct pipeline_config *config, uint64_t flows_max,
	char *message)
{
	struct planner *planner = aligned_alloc(BASE_CACHE_LINE, sizeof(*planner));
	if (planner == NULL)
		return -ENOMEM;
	memset(planner, 0, sizeof(*planner));
	planner->config = config;
	planner->nat = nat_of(config);
	planner->max_gap_ns = max_gap_ns(config);
	planner->flows_max = flows_max;
	int error = filter_create(
		&planner->filter, config->bypass_filter, config->bulk_filter, message);
	if (error == 0)
		error = base_parser_create(&planner->parser, &config->parse);
	if (error == 0 && flows_max > 0)
		error = key_set_create(&planner->keys);
	if (error != 0) {
		planner_destroy(planner);
		return error;
	}
	*out = planner;
	return 0;
}

void planner_destroy(struct planner *planner)
{
	if (planner == NULL)
		return;
	key_set_destroy(planner->keys);
	base_parser_destroy(planner->parser);
	filter_destroy(planner->filter);
	free(planner);
}

/* Next point on the monotone, gap-cut time line. */
static uint64_t step_time(struct planner *planner, uint64_t captured_ns)
{
	struct plan *plan = &planner->plan;
	if (captured_ns < planner->last_ns) {
		plan->time_clamped++;
		return planner->now_ns;
	}
	uint64_t gap_ns = captured_ns - planner->last_ns;
	planner->last_ns = captured_ns;
	if (planner->max_gap_ns != 0 && gap_ns > planner->max_gap_ns) {
		plan->gaps_cut++;
		plan->gaps_cut_ns += gap_ns - planner->max_gap_ns;
		gap_ns = planner->max_gap_ns;
	}
	return planner->now_ns += gap_ns;
}

/* The packet has been parsed, with this result. */
static uint16_t steer(const struct planner *planner, const struct base_packet *packet)
{
	uint16_t workers = (uint16_t)planner->config->workers;
	uint16_t worker;
	if (planner->nat != NULL && chain_nat_worker(planner->nat, packet, workers, &worker) == 0)
		return worker;
	return (uint16_t)(packet->hash % PIPELINE_RETA_SIZE % workers);
}

/* The same where groups change their worker; packets without a flow are of the first. */
static void steer_group(
	const struct planner *planner, const struct base_packet *packet, struct planner_step *step)
{
	const struct pipeline_config *config = planner->config;
	if (packet->flags & BASE_PACKET_FLOW) {
		step->first_fragment = (packet->flags & BASE_PACKET_FRAGMENT) &&
				       !(packet->flags & BASE_PACKET_FRAGMENT_LATER);
		if (planner->nat == NULL ||
			chain_nat_worker(planner->nat, packet, HANDOVER_GROUPS, &step->group) != 0)
			step->group = (uint16_t)handover_group(packet->hash);
	}
	step->worker = (uint16_t)handover_owner(
		step->group, packet->time_ns / config->handover_ns, config->workers);
}

static void plan_packet(struct planner *planner, const struct traces_record *record,
	const uint8_t *frame, struct base_packet *packet, struct planner_step *step)
{
	struct plan *plan = &planner->plan;
	base_packet_reset(packet);
	packet->data = (uint8_t *)frame; /* the parser only reads */
	packet->time_ns = step_time(planner, record->time_ns);
	packet->wire_len = record->wire_len;
	packet->cap_len = record->cap_len;
	packet->link = record->link;
	step->time_ns = packet->time_ns;
	step->worker = step->group = 0;
	step->first_fragment = false;
	bool flow = base_parse_packet(planner->parser, packet) == BASE_PARSE_FLOW;
	if (planner->config->sharing == PIPELINE_SHARING_HANDOVER)
		steer_group(planner, packet, step);
	else if (flow)
		step->worker = steer(planner, packet);
	step->flags = filter_flags(planner->filter, packet);
	plan->wire_bytes += record->wire_len;
	plan->captured_bytes += record->cap_len;
	if (record->cap_len > plan->cap_len_max)
		plan->cap_len_max = record->cap_len;
	if (record->wire_len > plan->wire_len_max)
		plan->wire_len_max = record->wire_len;
}

/* The set is larger than the cache: its lines are asked for together. */
static int count_flows(struct planner *planner, unsigned int count)
{
	const struct base_packet *packets = planner->packets;
	for (unsigned int i = 0; i < count; i++)
		key_set_prefetch(planner->keys, packets[i].hash);
	for (unsigned int i = 0; i < count; i++) {
		if ((packets[i].flags & BASE_PACKET_FLOW) == 0)
			continue;
		if (BASE_UNLIKELY(key_set_count(planner->keys) >= planner->flows_max) &&
			!key_set_has(planner->keys, &packets[i].key, packets[i].hash)) {
			planner->plan.flows_more = true;
			return 0;
		}
		if (key_set_add(planner->keys, &packets[i].key, packets[i].hash) < 0)
			return -ENOMEM;
	}
	return 0;
}

int planner_plan(struct planner *planner, const struct traces_record *records, const uint8_t *bytes,
	unsigned int count, struct planner_step *steps)
{
	struct plan *plan = &planner->plan;
	BASE_ASSERT(count <= PLANNER_BATCH);
	if (BASE_UNLIKELY(plan->packets == 0 && count > 0)) {
		plan->epoch_ns = planner->last_ns = records[0].time_ns;
		plan->first_link = records[0].link;
	}
	for (unsigned int i = 0; i < count; i++)
		plan_packet(planner, &records[i], bytes + records[i].offset, &planner->packets[i],
			&steps[i]);
	plan->packets += count;
	return planner->keys != NULL && !plan->flows_more ? count_flows(planner, count) : 0;
}

void planner_summary(const struct planner *planner, struct plan *plan)
{
	*plan = planner->plan;
	uint64_t mean_gap_ns = plan->packets > 1 ? planner->now_ns / (plan->packets - 1) : 0;
	plan->duration_ns = planner->now_ns;
	plan->period_ns = planner->now_ns + (mean_gap_ns == 0 ? 1000 : mean_gap_ns);
	plan->flows = planner->keys == NULL ? 0 : key_set_count(planner->keys);
}

uint64_t plan_end_ns(const struct plan *plan, const struct pipeline_config *config)
{
	return (config->loops - 1) * plan->period_ns + plan->duration_ns +
	       (config->overlay - 1) * config->overlay_shift_ns;
}
