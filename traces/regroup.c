/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Greedy grouping by flow under a delay bound.
 *
 * Groups stand in a list in the order of their first packets, which is the order in which they fall
 * due: the bound is the same for all. Held records lie in slots, linked by group; their frames lie
 * in one buffer in the order of arrival, of which the part before the oldest held packet is given
 * up now and then by moving the rest down.
 */
#include "traces/flow_index.h"
#include "traces/packets.h"
#include "traces/parsing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE TRACES_FLOW_NONE

struct slot {
	struct traces_record record; /* offset counts from the first byte ever held */
	uint32_t next;               /* of the group, or free */
};

struct group {
	uint64_t arrival_ns; /* of its first packet */
	uint32_t first, last;
	uint32_t count;
	uint32_t older, newer;
};

struct regroup {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_regroup_options options;
	struct traces_regroup_report *report;
	struct base_parser *parser;

	struct traces_batch input;
	size_t input_next;
	bool input_ended;
	uint64_t seq;
	uint64_t now_ns;
	struct base_packet packet; /* the one at input_next, once it is parsed */
	bool parsed, is_flow;

	struct traces_flow_index flows; /* of the groups */
	struct group *groups;           /* by flow number */
	uint32_t oldest, newest;        /* groups */
	struct slot *slots;
	uint32_t slots_used, slots_free; /* ever used; list of free ones */
	uint32_t held;
	struct traces_buffer bytes; /* frames from bytes_start on, counted as offsets are */
	uint64_t bytes_start;

	uint32_t leaving;    /* first slot of the group that leaves, NONE */
	uint64_t leaving_ns; /* when */
	struct traces_trace *batch;
};

static uint32_t slot_take(struct regroup *regroup)
{
	uint32_t slot = regroup->slots_free;
	if (slot == NONE)
		return regroup->slots_used++;
	regroup->slots_free = regroup->slots[slot].next;
	return slot;
}

static void groups_append(struct regroup *regroup, uint32_t number)
{
	struct group *group = &regroup->groups[number];
	group->older = regroup->newest;
	group->newer = NONE;
	if (regroup->newest != NONE)
		regroup->groups[regroup->newest].newer = number;
	else
		regroup->oldest = number;
	regroup->newest = number;
}

static void groups_unlink(struct regroup *regroup, uint32_t number)
{
	const struct group *group = &regroup->groups[number];
	if (group->older != NONE)
		regroup->groups[group->older].newer = group->newer;
	else
		regroup->oldest = group->newer;
	if (group->newer != NONE)
		regroup->groups[group->newer].older = group->older;
	else
		regroup->newest = group->older;
}

/* The group is no more; its packets leave one by one (emit). */
static void let_go(struct regroup *regroup, uint32_t number, uint64_t time_ns)
{
	regroup->leaving = regroup->groups[number].first;
	regroup->leaving_ns = time_ns;
	regroup->report->groups++;
	groups_unlink(regroup, number);
	traces_flow_index_remove(&regroup->flows, number);
}

static uint64_t due_ns(const struct regroup *regroup, uint32_t number)
{
	uint64_t arrival_ns = regroup->groups[number].arrival_ns;
	uint64_t delay_ns = regroup->options.delay_ns;
	return delay_ns > TRACES_TIME_NS_MAX - arrival_ns ? TRACES_TIME_NS_MAX
							  : arrival_ns + delay_ns;
}

/* Give up bytes that nothing held lies in, once they are as many as the others: so each byte is
 * moved once on average. */
static void bytes_compact(struct regroup *regroup)
{
	struct traces_buffer *bytes = &regroup->bytes;
	uint64_t needed = regroup->bytes_start + bytes->used;
	if (regroup->oldest != NONE)
		needed = regroup->slots[regroup->groups[regroup->oldest].first].record.offset;
	size_t dead = (size_t)(needed - regroup->bytes_start);
	if (dead == 0 || dead < bytes->used - dead)
		return;
	memmove(bytes->data, bytes->data + dead, bytes->used - dead);
	bytes->used -= dead;
	regroup->bytes_start = needed;
}

/* Captured bytes from the oldest held packet on. */
static uint64_t bytes_span(const struct regroup *regroup)
{
	if (regroup->oldest == NONE)
		return 0;
	uint32_t first = regroup->groups[regroup->oldest].first;
	return regroup->bytes_start + regroup->bytes.used - regroup->slots[first].record.offset;
}

static int emit_record(
	struct regroup *regroup, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_record sent = *record;
	if (!regroup->options.keep_times)
		sent.time_ns = regroup->leaving_ns;
	return traces_trace_append(regroup->batch, &sent, frame);
}

/* The next packet of the group that leaves. */
static int emit(struct regroup *regroup)
{
	struct slot *slot = &regroup->slots[regroup->leaving];
	uint32_t next = slot->next;
	int error = emit_record(regroup, &slot->record,
		regroup->bytes.data + (slot->record.offset - regroup->bytes_start));
	if (error)
		return error;
	slot->next = regroup->slots_free;
	regroup->slots_free = regroup->leaving;
	regroup->leaving = next;
	regroup->held--;
	return 0;
}

/* A copy of the packet in a slot of its own. */
static int slot_fill(struct regroup *regroup, const struct traces_record *record, uint32_t *at)
{
	struct traces_buffer *bytes = &regroup->bytes;
	bytes_compact(regroup);
	int error = traces_buffer_reserve(bytes, bytes->used + record->cap_len + 1);
	if (error)
		return error;
	*at = slot_take(regroup);
	struct slot *slot = &regroup->slots[*at];
	*slot = (struct slot){ .record = *record, .next = NONE };
	slot->record.offset = regroup->bytes_start + bytes->used;
	memcpy(bytes->data + bytes->used, regroup->packet.data, record->cap_len);
	bytes->used += record->cap_len;
	regroup->held++;
	return 0;
}

/* Behind its flow's packets, or as the first of a new group. */
static int hold(struct regroup *regroup, const struct traces_record *record, uint32_t number)
{
	uint32_t at;
	int error = slot_fill(regroup, record, &at);
	if (error)
		return error;
	if (number != NONE) {
		struct group *group = &regroup->groups[number];
		regroup->slots[group->last].next = at;
		group->last = at;
		group->count++;
		return 0;
	}
	number = traces_flow_index_add(&regroup->flows, &regroup->packet.key, regroup->packet.hash);
	regroup->groups[number] = (struct group){
		.arrival_ns = regroup->now_ns, .first = at, .last = at, .count = 1
	};
	groups_append(regroup, number);
	return 0;
}

static bool has_room(const struct regroup *regroup, const struct traces_record *record)
{
	return regroup->held < regroup->options.held_max &&
	       record->cap_len <= TRACES_REGROUP_BYTES_MAX - bytes_span(regroup);
}

/* A packet of a flow. It is held when it may be, completes a run and goes with it, or lets the
 * oldest group leave first; then *taken is false. */
static int take_of_flow(struct regroup *regroup, const struct traces_record *record, bool *taken)
{
	uint32_t number =
		traces_flow_index_find(&regroup->flows, &regroup->packet.key, regroup->packet.hash);
	uint32_t before = number == NONE ? 0 : regroup->groups[number].count;
	bool completes = before + 1 == regroup->options.run_packets;
	if (!completes && !has_room(regroup, record)) {
		*taken = false;
		regroup->report->groups_early++;
		let_go(regroup, regroup->oldest, regroup->now_ns);
		return 0;
	}
	if (completes && number == NONE) {
		regroup->report->groups++;
		regroup->leaving_ns = regroup->now_ns;
		return emit_record(regroup, record, regroup->packet.data);
	}
	int error = hold(regroup, record, number);
	if (error == 0 && completes)
		let_go(regroup, number, regroup->now_ns);
	else if (error == 0 && regroup->held > regroup->report->peak_held)
		regroup->report->peak_held = regroup->held;
	return error;
}

/* The next packet of the input. It stays there while groups leave before it: those that are due,
 * and the one that makes room. */
static int take(struct regroup *regroup, const struct traces_record *record)
{
	bool taken = true;
	int error;
	if (record->time_ns > regroup->now_ns)
		regroup->now_ns = record->time_ns;
	if (regroup->oldest != NONE && due_ns(regroup, regroup->oldest) <= regroup->now_ns) {
		let_go(regroup, regroup->oldest, due_ns(regroup, regroup->oldest));
		return 0;
	}
	if (!regroup->parsed) {
		traces_packet_from_record(
			&regroup->packet, record, regroup->input.bytes, regroup->seq++);
		regroup->is_flow =
			base_parse_packet(regroup->parser, &regroup->packet) == BASE_PARSE_FLOW;
		regroup->parsed = true;
	}
	if (regroup->is_flow) {
		error = take_of_flow(regroup, record, &taken);
	} else {
		regroup->report->no_flow++;
		regroup->leaving_ns = regroup->now_ns;
		error = emit_record(regroup, record, regroup->packet.data);
	}
	if (taken) {
		regroup->input_next++;
		regroup->parsed = false;
	}
	return error;
}

/* One step: a packet out, or a packet in, or a group that starts to leave. false: all is done. */
static int step(struct regroup *regroup, bool *done)
{
	if (regroup->leaving != NONE)
		return emit(regroup);
	if (regroup->input_ended) {
		*done = regroup->oldest == NONE;
		if (!*done) /* nothing to wait for */
			let_go(regroup, regroup->oldest, regroup->now_ns);
		return 0;
	}
	if (regroup->input_next == regroup->input.count) {
		regroup->input_next = 0;
		int error = traces_packets_pull(&regroup->packets, regroup->from, &regroup->input);
		regroup->input_ended = regroup->input.count == 0;
		return error;
	}
	return take(regroup, &regroup->input.records[regroup->input_next]);
}

static int regroup_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct regroup *regroup = (struct regroup *)packets;
	bool done = false;
	traces_trace_clear(regroup->batch);
	while (!done && !traces_trace_is_batch(regroup->batch)) {
		int error = step(regroup, &done);
		if (error)
			return error;
	}
	*batch = traces_trace_batch(regroup->batch);
	return 0;
}

static void regroup_free(struct regroup *regroup)
{
	traces_flow_index_destroy(&regroup->flows);
	base_parser_destroy(regroup->parser);
	traces_trace_destroy(regroup->batch);
	traces_buffer_destroy(&regroup->bytes);
	free(regroup->groups);
	free(regroup->slots);
	free(regroup);
}

static void regroup_destroy(struct traces_packets *packets)
{
	struct regroup *regroup = (struct regroup *)packets;
	traces_packets_destroy(regroup->from);
	regroup_free(regroup);
}

static const struct traces_packets_ops regroup_ops = { regroup_next, regroup_destroy };

static int regroup_setup(struct regroup *regroup)
{
	uint32_t held_max = regroup->options.held_max;
	/* Touched only as far as packets are held; one slot more for a packet that completes a run
	 * and leaves at once. */
	regroup->groups = calloc(held_max, sizeof(*regroup->groups));
	regroup->slots = calloc(held_max + 1, sizeof(*regroup->slots));
	if (regroup->groups == NULL || regroup->slots == NULL)
		return -ENOMEM;
	int error = traces_flow_index_init(&regroup->flows, held_max);
	if (error == 0)
		error = traces_trace_create(&regroup->batch);
	return error ? error : traces_parser_create(&regroup->parser);
}

int traces_packets_regroup(struct traces_packets **out, struct traces_packets *from,
	const struct traces_regroup_options *options, struct traces_regroup_report *report)
{
	if (options->held_max == 0 || options->held_max > TRACES_REGROUP_HELD_MAX)
		return -EINVAL;
	struct regroup *regroup = calloc(1, sizeof(*regroup));
	memset(report, 0, sizeof(*report));
	if (regroup == NULL)
		return -ENOMEM;
	regroup->packets.ops = &regroup_ops;
	regroup->from = from;
	regroup->options = *options;
	regroup->report = report;
	regroup->oldest = regroup->newest = regroup->slots_free = regroup->leaving = NONE;
	int error = regroup_setup(regroup);
	if (error) {
		regroup_free(regroup);
		return error;
	}
	*out = &regroup->packets;
	return 0;
}
