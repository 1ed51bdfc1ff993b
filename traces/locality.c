/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/locality.h"

#include "base/rng.h"
#include "traces/sketch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE TRACES_FLOW_NONE

static const uint64_t window_packets[TRACES_WINDOWS] = { 64, 256, 1024 };
static const uint64_t window_ns[TRACES_WINDOWS] = { 16000, 64000, 128000 };

enum { SKETCH_FLOWS, SKETCH_UNIDIRECTIONAL, SKETCHES };

int traces_locality_init(
	struct traces_locality *locality, const struct traces_info_options *options)
{
	memset(locality, 0, sizeof(*locality));
	locality->idle_timeout_ns = options->idle_timeout_ns;
	locality->flows_max = options->flows_max;
	if (locality->flows_max == 0 || locality->flows_max > TRACES_INFO_FLOWS_LIMIT)
		locality->flows_max = TRACES_INFO_FLOWS_LIMIT;
	for (unsigned int i = 0; i < 2; i++)
		locality->sketch_hash[i] = (struct base_hash_config){ .kind = BASE_HASH_SIPHASH,
			.salt = { options->seed, i } };
	locality->last_flow = NONE;
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++)
		locality->joined[i] = NONE;
	traces_idle_init(&locality->idle, options->idle_timeout_ns);
	return traces_flow_table_init(&locality->table);
}

void traces_locality_destroy(struct traces_locality *locality)
{
	traces_flow_table_destroy(&locality->table);
	traces_idle_destroy(&locality->idle);
	traces_leavers_destroy(&locality->leavers);
	free(locality->sketches);
}

uint64_t traces_locality_memory_bytes(const struct traces_locality *locality)
{
	uint64_t sketches =
		locality->sketches == NULL ? 0 : SKETCHES * sizeof(struct traces_sketch);
	return sizeof(*locality) + traces_flow_table_memory_bytes(&locality->table) +
	       traces_idle_memory_bytes(&locality->idle) + locality->leavers.notes.capacity +
	       sketches;
}

/* ---- sketches: the flows that do not all fit in the table ---- */

static uint64_t sketch_hash(const struct traces_locality *locality, const struct base_flow_key *key)
{
	return (uint64_t)base_flow_key_hash(key, &locality->sketch_hash[0]) << 32 |
	       base_flow_key_hash(key, &locality->sketch_hash[1]);
}

static void sketch_add(
	struct traces_locality *locality, const struct traces_flow *flow, uint8_t direction)
{
	uint64_t hash = sketch_hash(locality, &flow->key), state = hash + direction;
	traces_sketch_add(&locality->sketches[SKETCH_FLOWS], hash);
	traces_sketch_add(&locality->sketches[SKETCH_UNIDIRECTIONAL], base_rng_splitmix64(&state));
}

/* ---- room in the table ---- */

/* A packet with a number before this one is in no window that is still open. */
static uint64_t windows_first(const struct traces_locality *locality)
{
	uint64_t first = UINT64_MAX;
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++) {
		if (locality->window_first[i] < first)
			first = locality->window_first[i];
	}
	return first;
}

/* A flow leaves the table: it is over or has to make room. A window that it is in will not know it
 * should it come back. */
static void flow_leave(struct traces_locality *locality, uint32_t index)
{
	const struct traces_flow *flow = traces_flow_at(&locality->table, index);
	if (locality->last_flow == index)
		locality->last_flow = NONE; /* not the flow that comes */
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++) {
		if (flow->last_packet >= locality->window_first[i])
			locality->window_short[i] = true;
	}
	traces_flow_table_remove(&locality->table, index);
}

/* Whether a note still stands: its flow has not come back since. */
static bool leaver_stays_idle(
	const struct traces_locality *locality, const struct traces_leaver *leaver)
{
	const struct traces_flow *flow = traces_flow_at(&locality->table, leaver->index);
	return !flow->live && flow->last_packet == leaver->last_packet;
}

/* The first of the leavers leaves. False when it had come back. */
static bool leaver_leave(struct traces_locality *locality)
{
	struct traces_leaver leaver = traces_leavers_front(&locality->leavers);
	traces_leavers_pop(&locality->leavers);
	bool idle = leaver_stays_idle(locality, &leaver);
	if (idle)
		flow_leave(locality, leaver.index);
	return idle;
}

/* A flow that is over and not known by the table alone leaves, or waits until no window needs it.
 * Notes are no more than flows: void ones must not pile up. */
static int flow_retire(struct traces_locality *locality, uint32_t index)
{
	const struct traces_flow *flow = traces_flow_at(&locality->table, index);
	if (flow->last_packet < windows_first(locality)) {
		flow_leave(locality, index);
		return 0;
	}
	if (traces_leavers_count(&locality->leavers) >= locality->flows_max)
		leaver_leave(locality);
	return traces_leavers_push(&locality->leavers,
		(struct traces_leaver){ .last_packet = flow->last_packet, .index = index });
}

/* Flows whose idle timeout ran out, in the order in which it did. Without sketches they stay
 * known. */
static int expire(struct traces_locality *locality, uint64_t limit_ns)
{
	for (;;) {
		uint32_t index;
		int error = traces_idle_take(&locality->idle, &locality->table, limit_ns, &index);
		if (error || index == NONE)
			return error;
		locality->live--;
		traces_flow_at(&locality->table, index)->live = false;
		error = locality->sketches != NULL ? flow_retire(locality, index) : 0;
		if (error)
			return error;
	}
}

/* The table is full for the first time: from here on sketches count flows, and those that nothing
 * else needs leave. */
static int start_sketches(struct traces_locality *locality)
{
	locality->sketches = calloc(SKETCHES, sizeof(*locality->sketches));
	if (locality->sketches == NULL)
		return -ENOMEM;
	uint32_t count = locality->table.count; /* none has left yet */
	for (uint32_t index = 0; index < count; index++) {
		const struct traces_flow *flow = traces_flow_at(&locality->table, index);
		for (uint8_t direction = 1; direction <= 2; direction++) {
			if (flow->directions & direction)
				sketch_add(locality, flow, direction);
		}
		int error = flow->live ? 0 : flow_retire(locality, index);
		if (error)
			return error;
	}
	return 0;
}

/* A flow leaves before its time: one that only windows need, or the one idle for longest. */
static int evict(struct traces_locality *locality)
{
	while (traces_leavers_count(&locality->leavers) > 0) {
		if (leaver_leave(locality))
			return 0;
	}
	uint32_t index;
	int error =
		traces_idle_take(&locality->idle, &locality->table, locality->now_ns + 1, &index);
	if (error)
		return error;
	BASE_ASSERT(index != NONE); /* all flows are live, and those all wait */
	locality->live--;
	locality->early_evictions++;
	flow_leave(locality, index);
	return 0;
}

/* Room for one more flow beside those that are kept. -ENOMEM. */
static int make_room(struct traces_locality *locality)
{
	uint64_t first = windows_first(locality);
	while (traces_leavers_count(&locality->leavers) > 0 &&
		traces_leavers_front(&locality->leavers).last_packet < first)
		leaver_leave(locality);
	return locality->table.count >= locality->flows_max ? evict(locality) : 0;
}

/* A flow that is not in the table. -ENOMEM. */
static int flow_enter(struct traces_locality *locality, const struct base_flow_key *key,
	uint32_t hash, uint32_t *index)
{
	if (locality->sketches == NULL && locality->table.count >= locality->flows_max) {
		int error = start_sketches(locality);
		if (error)
			return error;
	}
	if (locality->sketches != NULL) {
		int error = make_room(locality);
		if (error)
			return error;
	}
	return traces_flow_table_insert(&locality->table, key, hash, index);
}

/* ---- windows ---- */

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
	locality->window_first[i] = locality->packets;
}

/* The windows that the current packet, of `flow`, is not in any more give way to new ones. */
static void windows_turn(struct traces_locality *locality, uint64_t since_ns, uint32_t flow)
{
	locality->next_end_packet = locality->next_end_ns = UINT64_MAX;
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		int j = TRACES_WINDOWS + i;
		if (locality->packets > locality->window_end[i]) {
			locality->window_end[i] = locality->packets - 1 + window_packets[i];
			window_open(locality, i, flow);
		}
		if (since_ns >= locality->window_end[j]) {
			locality->window_end[j] = (since_ns / window_ns[i] + 1) * window_ns[i];
			window_open(locality, j, flow);
		}
		if (locality->window_end[i] < locality->next_end_packet)
			locality->next_end_packet = locality->window_end[i];
		if (locality->window_end[j] < locality->next_end_ns)
			locality->next_end_ns = locality->window_end[j];
	}
}

static inline void windows_advance(struct traces_locality *locality, uint32_t flow)
{
	uint64_t since_ns = locality->now_ns - locality->first_ns;
	if (BASE_UNLIKELY(locality->packets > locality->next_end_packet ||
			  since_ns >= locality->next_end_ns))
		windows_turn(locality, since_ns, flow);
}

/* ---- packets ---- */

/* The next packet, at time_ns: flows that were idle for too long until now leave. */
static inline int clock_advance(struct traces_locality *locality, uint64_t time_ns)
{
	if (BASE_UNLIKELY(locality->packets++ == 0))
		locality->first_ns = locality->now_ns = time_ns;
	if (time_ns > locality->now_ns)
		locality->now_ns = time_ns;
	if (locality->now_ns <= locality->idle_timeout_ns)
		return 0;
	uint64_t limit_ns = locality->now_ns - locality->idle_timeout_ns;
	return BASE_UNLIKELY(limit_ns > locality->idle.next_ns) ? expire(locality, limit_ns) : 0;
}

/* A packet of a flow that no idle timeout has left alive. -ENOMEM. */
static int flow_revive(struct traces_locality *locality, struct traces_flow *flow, uint32_t index)
{
	flow->live = true;
	locality->insertions++;
	if (++locality->live > locality->peak_live)
		locality->peak_live = locality->live;
	return traces_idle_add(&locality->idle, index, locality->now_ns);
}

/* The first packet that way since the flow is in the table. */
static void flow_turned(
	struct traces_locality *locality, struct traces_flow *flow, uint8_t direction)
{
	flow->directions |= direction;
	locality->flows_unidirectional++;
	if (locality->sketches != NULL)
		sketch_add(locality, flow, direction);
}

int traces_locality_add(struct traces_locality *locality, uint64_t time_ns,
	const struct base_flow_key *key, uint32_t hash, bool reversed)
{
	int error = clock_advance(locality, time_ns);
	if (BASE_UNLIKELY(error))
		return error;
	uint32_t index = traces_flow_find(&locality->table, key, hash);
	if (BASE_UNLIKELY(index == NONE)) {
		error = flow_enter(locality, key, hash, &index);
		if (error)
			return error;
	}
	windows_advance(locality, index);
	struct traces_flow *flow = traces_flow_at(&locality->table, index);
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++)
		locality->groups[i] += flow->last_packet < locality->window_first[i];
	locality->runs += index != locality->last_flow;
	locality->last_flow = index;
	flow->last_packet = locality->packets;
	flow->last_ns = locality->now_ns;
	uint8_t direction = reversed ? 2 : 1;
	if (BASE_UNLIKELY(!(flow->directions & direction)))
		flow_turned(locality, flow, direction);
	return BASE_LIKELY(flow->live) ? 0 : flow_revive(locality, flow, index);
}

int traces_locality_add_other(struct traces_locality *locality, uint64_t time_ns)
{
	int error = clock_advance(locality, time_ns);
	windows_advance(locality, NONE);
	locality->runs++;
	locality->last_flow = NONE;
	for (int i = 0; i < TRACES_LOCALITY_WINDOWS; i++)
		locality->groups[i]++;
	return error;
}

/* ---- results ---- */

static double ratio(uint64_t packets, uint64_t runs)
{
	return runs > 0 ? (double)packets / (double)runs : 0;
}

/* Grouping never adds runs: a bound that the groups counted too often may miss. */
static double window_slf(const struct traces_locality *locality, int i)
{
	uint64_t groups = locality->groups[i];
	if (locality->window_short[i] && groups > locality->runs)
		groups = locality->runs;
	return ratio(locality->packets, groups);
}

static uint64_t at_least(uint64_t value, uint64_t bound)
{
	return value > bound ? value : bound;
}

static void finish_flows(const struct traces_locality *locality, struct traces_info *info)
{
	info->flows_max = locality->flows_max;
	info->flows = locality->table.count;
	info->flows_unidirectional = locality->flows_unidirectional;
	if (locality->sketches == NULL)
		return;
	info->flows_exactness = TRACES_ESTIMATED;
	info->flows_standard_error = TRACES_SKETCH_STANDARD_ERROR;
	/* Bounds that are known and that an estimate need not keep by itself. */
	info->flows = at_least(traces_sketch_count(&locality->sketches[SKETCH_FLOWS]),
		(uint64_t)locality->flows_max + 1);
	info->flows_unidirectional = at_least(
		traces_sketch_count(&locality->sketches[SKETCH_UNIDIRECTIONAL]), info->flows);
}

void traces_locality_finish(const struct traces_locality *locality, struct traces_info *info)
{
	finish_flows(locality, info);
	info->flow_runs = locality->runs;
	info->slf = ratio(locality->packets, locality->runs);
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		int j = TRACES_WINDOWS + i;
		info->slf_window_packets[i] = window_slf(locality, i);
		info->slf_window_time[i] = window_slf(locality, j);
		if (locality->window_short[i])
			info->slf_window_packets_exactness[i] = TRACES_AT_LEAST;
		if (locality->window_short[j])
			info->slf_window_time_exactness[i] = TRACES_AT_LEAST;
	}
	info->peak_live = locality->peak_live;
	info->insertions = locality->insertions;
	info->early_evictions = locality->early_evictions;
	if (locality->early_evictions > 0) {
		info->peak_live_exactness = TRACES_AT_LEAST;
		info->insertions_exactness = TRACES_AT_MOST;
	}
}
