/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/locality.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 1024 };

#define NONE UINT32_MAX

struct traces_flow_slot {
	uint32_t hash;
	uint32_t flow_plus_one; /* 0 = free */
};

static const uint64_t window_packets[TRACES_WINDOWS] = { 64, 256, 1024 };
static const uint64_t window_ns[TRACES_WINDOWS] = { 16000, 64000, 128000 };

static struct traces_flow *flow_at(const struct traces_locality *locality, uint32_t index)
{
	return (struct traces_flow *)(void *)locality->flows.data + index;
}

int traces_locality_init(struct traces_locality *locality, uint64_t idle_timeout_ns)
{
	memset(locality, 0, sizeof(*locality));
	locality->slots = calloc(SLOTS_MIN, sizeof(*locality->slots));
	if (locality->slots == NULL)
		return -ENOMEM;
	locality->slots_mask = SLOTS_MIN - 1;
	locality->idle_timeout_ns = idle_timeout_ns;
	locality->last_flow = locality->oldest = locality->newest = NONE;
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++)
		locality->joined[i] = NONE;
	return 0;
}

void traces_locality_destroy(struct traces_locality *locality)
{
	free(locality->slots);
	traces_buffer_destroy(&locality->flows);
}

void traces_locality_prefetch(const struct traces_locality *locality, uint32_t hash)
{
	BASE_PREFETCH(&locality->slots[hash & locality->slots_mask]);
}

static int slots_grow(struct traces_locality *locality)
{
	uint64_t mask = locality->slots_mask * 2 + 1;
	struct traces_flow_slot *slots = calloc(mask + 1, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i <= locality->slots_mask; i++) {
		struct traces_flow_slot slot = locality->slots[i];
		if (slot.flow_plus_one == 0)
			continue;
		uint64_t place = slot.hash & mask;
		while (slots[place].flow_plus_one != 0)
			place = (place + 1) & mask;
		slots[place] = slot;
	}
	free(locality->slots);
	locality->slots = slots;
	locality->slots_mask = mask;
	return 0;
}

/* Index of the flow of a key, which is made when it is new. -ENOMEM. */
static int flow_find(struct traces_locality *locality, const struct base_flow_key *key,
	uint32_t hash, uint32_t *index)
{
	uint64_t place = hash & locality->slots_mask;
	for (; locality->slots[place].flow_plus_one != 0;
		place = (place + 1) & locality->slots_mask) {
		const struct traces_flow_slot *slot = &locality->slots[place];
		uint32_t found = slot->flow_plus_one - 1;
		if (slot->hash == hash &&
			base_flow_key_equal(&flow_at(locality, found)->key, key)) {
			*index = found;
			return 0;
		}
	}
	struct traces_buffer *flows = &locality->flows;
	if (locality->flows_count >= NONE - 1 ||
		traces_buffer_reserve(flows, flows->used + sizeof(struct traces_flow)) != 0)
		return -ENOMEM;
	*index = (uint32_t)locality->flows_count++;
	flows->used += sizeof(struct traces_flow);
	struct traces_flow *flow = flow_at(locality, *index);
	*flow = (struct traces_flow){ .key = *key, .hash = hash };
	locality->slots[place] = (struct traces_flow_slot){ hash, *index + 1 };
	return locality->flows_count * 2 > locality->slots_mask ? slots_grow(locality) : 0;
}

static void live_unlink(struct traces_locality *locality, struct traces_flow *flow)
{
	if (flow->older != NONE)
		flow_at(locality, flow->older)->newer = flow->newer;
	else
		locality->oldest = flow->newer;
	if (flow->newer != NONE)
		flow_at(locality, flow->newer)->older = flow->older;
	else
		locality->newest = flow->older;
}

static void live_append(struct traces_locality *locality, struct traces_flow *flow, uint32_t index)
{
	flow->older = locality->newest;
	flow->newer = NONE;
	if (locality->newest != NONE)
		flow_at(locality, locality->newest)->newer = index;
	else
		locality->oldest = index;
	locality->newest = index;
}

/* A window ended; a packet of `flow` opens the next. When the packet before is of the same flow
 * its group ends the old window and begins the new one, unless it begins the old one already. */
static void window_open(struct traces_locality *locality, int i, uint32_t flow)
{
	bool joined = locality->joined[i] != NONE;
	uint64_t distinct = locality->groups[i] - locality->groups_before[i] + joined;
	bool joins = flow != NONE && flow == locality->last_flow &&
		     (distinct == 1 || flow != locality->joined[i]);
	locality->groups_before[i] = locality->groups[i];
	locality->groups[i] -= joins; /* it will be counted as one of the new window's */
	locality->joined[i] = joins ? flow : NONE;
	locality->window[i]++;
}

/* Time to now: the flows that were idle for too long leave, in the order in which they fell idle,
 * and windows that ended give way to new ones. */
static void clock_advance(struct traces_locality *locality, uint64_t time_ns, uint32_t flow_index)
{
	if (locality->packets == 0)
		locality->first_ns = locality->now_ns = time_ns;
	if (time_ns > locality->now_ns)
		locality->now_ns = time_ns;
	uint64_t now_ns = locality->now_ns;
	while (locality->oldest != NONE) {
		struct traces_flow *flow = flow_at(locality, locality->oldest);
		if (now_ns - flow->last_ns <= locality->idle_timeout_ns)
			break;
		live_unlink(locality, flow);
		flow->live = false;
		locality->live--;
	}
	uint64_t since_ns = now_ns - locality->first_ns;
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		if (locality->packets >= locality->window_end[i]) {
			locality->window_end[i] = locality->packets + window_packets[i];
			window_open(locality, i, flow_index);
		}
		int j = TRACES_WINDOWS + i;
		if (since_ns >= locality->window_end[j]) {
			locality->window_end[j] = (since_ns / window_ns[i] + 1) * window_ns[i];
			window_open(locality, j, flow_index);
		}
	}
	locality->packets++;
}

int traces_locality_add(struct traces_locality *locality, uint64_t time_ns,
	const struct base_flow_key *key, uint32_t hash, bool reversed)
{
	uint32_t index;
	int error = flow_find(locality, key, hash, &index);
	if (error)
		return error;
	clock_advance(locality, time_ns, index);
	struct traces_flow *flow = flow_at(locality, index);
	uint8_t direction = reversed ? 2 : 1;
	if (!(flow->directions & direction)) {
		flow->directions |= direction;
		locality->flows_unidirectional++;
	}
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++) {
		locality->groups[i] += flow->windows[i] != locality->window[i];
		flow->windows[i] = locality->window[i];
	}
	locality->runs += index != locality->last_flow;
	locality->last_flow = index;
	flow->last_ns = locality->now_ns;
	if (flow->live) {
		if (locality->newest != index) {
			live_unlink(locality, flow);
			live_append(locality, flow, index);
		}
		return 0;
	}
	flow->live = true;
	live_append(locality, flow, index);
	locality->insertions++;
	if (++locality->live > locality->peak_live)
		locality->peak_live = locality->live;
	return 0;
}

void traces_locality_add_other(struct traces_locality *locality, uint64_t time_ns)
{
	clock_advance(locality, time_ns, NONE);
	locality->runs++;
	locality->last_flow = NONE;
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++)
		locality->groups[i]++;
}

static double ratio(uint64_t packets, uint64_t runs)
{
	return runs > 0 ? (double)packets / (double)runs : 0;
}

void traces_locality_finish(const struct traces_locality *locality, struct traces_info *info)
{
	info->flows = locality->flows_count;
	info->flows_unidirectional = locality->flows_unidirectional;
	info->flow_runs = locality->runs;
	info->slf = ratio(locality->packets, locality->runs);
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		info->slf_window_packets[i] = ratio(locality->packets, locality->groups[i]);
		info->slf_window_time[i] =
			ratio(locality->packets, locality->groups[TRACES_WINDOWS + i]);
	}
	info->peak_live = locality->peak_live;
	info->insertions = locality->insertions;
}
