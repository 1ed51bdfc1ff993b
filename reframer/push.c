/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way in: packets are held, or leave at once, and take with them whoever is due.
 *
 * Two paths. push_any decides everything, in every configuration. push_plain is the short way for
 * the common case (one class with a delay, nothing unusual about the packet, no bound in sight); it
 * only holds packets, and hands over whatever else comes.
 */
#include "reframer/reframer_private.h"

enum { AHEAD = 16 /* packets whose lines are on their way while one is worked on */ };

/* What can be known of a packet before its turn. */
struct outlook {
	uint64_t mixed; /* hash */
	uint64_t *set;  /* its flow's, in the filter */
	bool seen;      /* its flow was, before this packet */
};

static inline void count_release(
	struct reframer *reframer, enum reframer_release release, uint64_t packets_count)
{
	reframer->stats.releases[release]++;
	reframer->stats.release_packets[release] += packets_count;
}

/* A held flow with all its packets; its slot is free afterwards. */
static inline void release_flow(struct reframer *reframer, uint32_t index, uint64_t release_ns,
	enum reframer_release release, bool many)
{
	struct held_slot *slot = &reframer->held.slots[index];
	uint32_t count = slot->count;
	run_queue_append(
		&reframer->released, slot->head, release_ns, slot->hash | RUN_QUEUE_FLOW, count);
	count_release(reframer, release, count);
	reframer->held_packets -= count;
	reframer->held_flows--;
	if (reframer->recent_slot == index)
		reframer->recent_slot = HELD_NONE;
	flush_list_unlink(&reframer->flush, reframer->held.slots, index, many);
	held_flows_remove(&reframer->held, index);
}

/* The flows whose bound ends at or before now_ns, soonest first, each at its own time. */
static inline void release_due(struct reframer *reframer, uint64_t now_ns, bool many)
{
	const struct held_slot *slots = reframer->held.slots;
	while (reframer->flush.due_ns <= now_ns) {
		uint32_t slot = flush_list_soonest(&reframer->flush, slots, many);
		/* At the end of time even an empty list is due. */
		if (BASE_UNLIKELY(slot < HELD_SLOT_FIRST))
			return;
		release_flow(reframer, slot, reframer->flush.due_ns, REFRAMER_RELEASE_DELAY, many);
	}
}

/* Let the longest-waiting flow go to make room. */
static __attribute__((noinline)) void release_oldest(
	struct reframer *reframer, enum reframer_release release)
{
	bool many = reframer->many_classes;
	uint32_t slot = flush_list_oldest(reframer->held.slots, many);
	BASE_DEBUG_ASSERT(slot != HELD_NONE);
	release_flow(reframer, slot, reframer->now_ns, release, many);
}

/* The packet leaves at once, behind what its flow holds. */
static __attribute__((noinline)) void release_now(struct reframer *reframer,
	struct base_packet *packet, uint32_t index, enum reframer_release release)
{
	reframer->recent_slot = HELD_NONE;
	if (index == HELD_NONE) {
		run_queue_append(&reframer->released, packet, reframer->now_ns,
			run_queue_flow_hash(packet), 1);
		count_release(reframer, release, 1);
		return;
	}
	struct held_slot *slot = &reframer->held.slots[index];
	slot->tail->next = packet;
	slot->count++;
	reframer->held_packets++; /* and release_flow takes it off again */
	release_flow(reframer, index, reframer->now_ns, release, reframer->many_classes);
}

static inline void count_held(struct reframer *reframer)
{
	reframer->held_packets++;
	if (reframer->held_packets > reframer->stats.peak_held_packets)
		reframer->stats.peak_held_packets = reframer->held_packets;
}

/* Behind its flow's last packet; the flow moves to the packet's class if that is due earlier. */
static inline void append_packet(struct reframer *reframer, uint32_t index,
	struct base_packet *packet, enum reframer_class class, bool many)
{
	struct held_slot *slot = &reframer->held.slots[index];
	slot->tail->next = packet;
	slot->tail = packet;
	slot->count++;
	if (many) {
		uint64_t deadline_ns =
			release_policy_deadline_ns(&reframer->policy, class, reframer->now_ns);
		if (deadline_ns < slot->deadline_ns)
			flush_list_move(
				&reframer->flush, reframer->held.slots, index, class, deadline_ns);
	}
	count_held(reframer);
	reframer->recent_slot = index;
}

static inline void hold_new_flow(struct reframer *reframer, uint32_t at, struct base_packet *packet,
	enum reframer_class class, bool many)
{
	struct held_slot *slots = reframer->held.slots;
	uint32_t index = held_flows_add(&reframer->held, at, packet->hash);
	slots[index].head = packet;
	slots[index].tail = packet;
	slots[index].count = 1;
	slots[index].deadline_ns =
		release_policy_deadline_ns(&reframer->policy, class, reframer->now_ns);
	flush_list_append(&reframer->flush, slots, index, class, many);
	count_held(reframer);
	reframer->held_flows++;
	if (reframer->held_flows > reframer->stats.peak_held_flows)
		reframer->stats.peak_held_flows = reframer->held_flows;
	reframer->recent_slot = index;
}

/* A bound is hit: room is made, then the packet is held if it can be. */
static __attribute__((noinline)) void hold_under_pressure(struct reframer *reframer,
	struct base_packet *packet, uint64_t mixed, enum reframer_class class)
{
	if (reframer->held_packets == reframer->held_packets_max)
		release_oldest(reframer, REFRAMER_RELEASE_PRESSURE_PACKETS);
	struct held_place place = held_flows_find(&reframer->held, packet, mixed);
	if (place.slot != HELD_NONE) {
		append_packet(reframer, place.slot, packet, class, reframer->many_classes);
		return;
	}
	if (reframer->held_flows == reframer->held_flows_max) {
		release_oldest(reframer, REFRAMER_RELEASE_PRESSURE_FLOWS);
		place = held_flows_find(&reframer->held, packet, mixed);
	}
	if (place.at == HELD_NO_PLACE)
		release_now(reframer, packet, HELD_NONE, REFRAMER_RELEASE_PRESSURE_FLOWS);
	else
		hold_new_flow(reframer, place.at, packet, class, reframer->many_classes);
}

static __attribute__((noinline)) void push_any(
	struct reframer *reframer, struct base_packet *packet, const struct outlook *outlook)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0) {
		release_now(reframer, packet, HELD_NONE, REFRAMER_RELEASE_BYPASS_NO_FLOW);
		return;
	}
	const struct release_policy *policy = &reframer->policy;
	bool many = reframer->many_classes;
	enum reframer_class class = release_policy_class(policy, packet);
	BASE_DEBUG_ASSERT((unsigned int)class < REFRAMER_CLASSES_COUNT);
	struct held_place place = held_flows_find(&reframer->held, packet, outlook->mixed);
	bool first = !outlook->seen && place.slot == HELD_NONE;
	unsigned int release = release_policy_bypass(policy, packet, first, class);
	uint32_t before = place.slot != HELD_NONE ? reframer->held.slots[place.slot].count : 0;
	if (release == RELEASE_POLICY_HOLD && before + 1 >= reframer->run_packets_max)
		release = REFRAMER_RELEASE_RUN_FULL;
	if (release != RELEASE_POLICY_HOLD)
		release_now(reframer, packet, place.slot, (enum reframer_release)release);
	else if (reframer->held_packets == reframer->held_packets_max)
		hold_under_pressure(reframer, packet, outlook->mixed, class);
	else if (place.slot != HELD_NONE)
		append_packet(reframer, place.slot, packet, class, many);
	else if (reframer->held_flows == reframer->held_flows_max || place.at == HELD_NO_PLACE)
		hold_under_pressure(reframer, packet, outlook->mixed, class);
	else
		hold_new_flow(reframer, place.at, packet, class, many);
}

/* `continues`: same flow as the packet before, so where that one went is where this flow is. */
static inline __attribute__((always_inline)) void push_plain(struct reframer *reframer,
	struct base_packet *packet, const struct outlook *outlook, bool continues)
{
	bool full = reframer->held_packets == reframer->held_packets_max;
	if (BASE_UNLIKELY(full || release_policy_is_special(&reframer->policy, packet))) {
		push_any(reframer, packet, outlook);
		return;
	}
	struct held_place place = { .slot = reframer->recent_slot, .at = HELD_NO_PLACE };
	if (!continues || place.slot == HELD_NONE)
		place = held_flows_find(&reframer->held, packet, outlook->mixed);
	if (place.slot != HELD_NONE) {
		uint32_t count = reframer->held.slots[place.slot].count;
		if (BASE_LIKELY(count + 1 < reframer->run_packets_max))
			append_packet(reframer, place.slot, packet, REFRAMER_CLASS_NORMAL, false);
		else
			release_now(reframer, packet, place.slot, REFRAMER_RELEASE_RUN_FULL);
		return;
	}
	if (BASE_UNLIKELY(!outlook->seen || place.at == HELD_NO_PLACE ||
			  reframer->held_flows == reframer->held_flows_max))
		push_any(reframer, packet, outlook);
	else
		hold_new_flow(reframer, place.at, packet, REFRAMER_CLASS_NORMAL, false);
}

static inline __attribute__((always_inline)) void push_packet(struct reframer *reframer,
	struct base_packet *packet, const struct outlook *outlook, bool continues, bool plain)
{
	uint64_t now_ns = packet->time_ns;
	if (BASE_UNLIKELY(now_ns < reframer->now_ns)) {
		reframer->stats.time_backwards++;
		now_ns = reframer->now_ns;
	}
	reframer->now_ns = now_ns;
	packet->holder_word = now_ns; /* when it arrived */
	release_due(reframer, now_ns, plain ? false : reframer->many_classes);
	if (plain)
		push_plain(reframer, packet, outlook, continues);
	else
		push_any(reframer, packet, outlook);
}

/* Begin to fetch the lines that the packet will need. */
static inline void look_at(
	const struct reframer *reframer, struct base_packet *packet, struct outlook *outlook)
{
	uint64_t mixed = held_flows_mix(&reframer->held, packet->hash);
	outlook->mixed = mixed;
	outlook->set = seen_filter_set(&reframer->seen, mixed);
	if (!reframer->prefetch)
		return;
	/* NULL without a filter: prefetching does not fault. */
	BASE_PREFETCH(outlook->set);
	BASE_PREFETCH_W(&reframer->held.index[held_flows_home(&reframer->held, mixed)]);
	BASE_PREFETCH_W(&packet->key);
}

static inline __attribute__((always_inline)) void push_packets(struct reframer *reframer,
	struct base_packet *const *packets, unsigned int count, bool plain)
{
	struct outlook outlooks[AHEAD];
	struct base_packet *last = NULL;
	uint64_t runs = 0;
	bool filter = reframer->bypass_first;
	for (unsigned int i = 0; i < count && i < AHEAD; i++)
		look_at(reframer, packets[i], &outlooks[i]);
	for (unsigned int i = 0; i < count; i++) {
		struct base_packet *packet = packets[i];
		struct outlook outlook = outlooks[i % AHEAD];
		if (i + AHEAD < count)
			look_at(reframer, packets[i + AHEAD], &outlooks[i % AHEAD]);
		bool continues = last != NULL ? same_flow(last, packet)
					      : stream_end_continues(&reframer->last_in, packet);
		/* Whoever continues a run was just seen. */
		outlook.seen = true;
		if (filter && !continues && (packet->flags & BASE_PACKET_FLOW) != 0)
			outlook.seen = seen_filter_touch(outlook.set, outlook.mixed);
		runs += !continues;
		last = packet;
		push_packet(reframer, packet, &outlook, continues, plain);
	}
	reframer->stats.runs_in += runs;
	stream_end_set(&reframer->last_in, last);
}

static void keep_horizon(struct reframer *reframer)
{
	if (run_queue_count(&reframer->released) == 0)
		reframer->horizon_ns = reframer_held_since_ns(reframer);
}

void reframer_push_burst(
	struct reframer *reframer, struct base_packet *const *packets, unsigned int count)
{
	BASE_ASSERT(count <= BASE_BURST_MAX);
	keep_horizon(reframer);
	/* At worst every packet inside leaves as a run of its own. */
	run_queue_reserve(&reframer->released, (uint64_t)reframer->held_packets + count);
	reframer->stats.packets_in += count;
	if (count == 0)
		return;
	if (reframer->plain)
		push_packets(reframer, packets, count, true);
	else
		push_packets(reframer, packets, count, false);
}

void reframer_advance(struct reframer *reframer, uint64_t now_ns)
{
	keep_horizon(reframer);
	if (now_ns > reframer->now_ns)
		reframer->now_ns = now_ns;
	release_due(reframer, reframer->now_ns, reframer->many_classes);
}

void reframer_flush(struct reframer *reframer)
{
	keep_horizon(reframer);
	bool many = reframer->many_classes;
	while (reframer->held_flows != 0) {
		/* Whatever was due by now has left: what is still here is due later. */
		uint32_t slot = flush_list_soonest(&reframer->flush, reframer->held.slots, many);
		release_flow(reframer, slot, reframer->now_ns, REFRAMER_RELEASE_FLUSH, many);
	}
}
