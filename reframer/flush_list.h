/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Order in which held flows leave: per class a FIFO of flows, soonest deadline first, and one list
 * of all held flows by first arrival, longest waiting first (who leaves under pressure). While only
 * the first class is in use (`many_classes` false) the two orders are the same and the second list
 * is not kept.
 *
 * Doubly linked by slot index and closed through an end slot (slot `class` for that class, slot 0
 * for the list by age), so that taking a flow out of the middle, at the head or at the tail is the
 * same two writes. An end's deadline is UINT64_MAX: an empty list is due only at the end of time.
 *
 * A class's list stays sorted without searching: delay bounds are constant within a class and time
 * does not go back, so whoever comes last has the latest deadline.
 *
 * many_classes is an argument so that callers which know it get code without the other half.
 */
#pragma once

#include "reframer/held_flows.h"

struct flush_list {
	uint64_t due_ns;    /* soonest deadline of all held flows */
	uint32_t due_class; /* its class; the lowest-numbered one among equals */
};

static inline void flush_list_init(struct flush_list *list)
{
	*list = (struct flush_list){ .due_ns = UINT64_MAX };
}

/* HELD_NONE when no flow is held. */
static inline uint32_t flush_list_oldest(const struct held_slot *slots, bool many_classes)
{
	/* Slot 0 is the end of either list, and HELD_NONE. */
	return many_classes ? slots[0].age.next : slots[0].due.next;
}

/* The flow that is due first. Below HELD_SLOT_FIRST: no flow is held. */
static inline uint32_t flush_list_soonest(
	const struct flush_list *list, const struct held_slot *slots, bool many_classes)
{
	return slots[many_classes ? list->due_class : 0].due.next;
}

/* Who is due first, after heads of lists changed. */
static inline void flush_list_update(
	struct flush_list *list, const struct held_slot *slots, bool many_classes)
{
	list->due_ns = slots[slots[0].due.next].deadline_ns;
	if (!many_classes)
		return;
	list->due_class = 0;
	for (uint32_t class = 1; class < REFRAMER_CLASSES_COUNT; class ++) {
		uint32_t head = slots[class].due.next;
		bool best_is_empty = slots[list->due_class].due.next == list->due_class;
		if (slots[head].deadline_ns < list->due_ns || (best_is_empty && head != class)) {
			list->due_ns = slots[head].deadline_ns;
			list->due_class = class;
		}
	}
}

static inline void flush_list_class_append(struct flush_list *list, struct held_slot *slots,
	uint32_t slot, uint32_t class, bool many_classes)
{
	uint32_t last = slots[class].due.prev;
	slots[slot].due.prev = last;
	slots[slot].due.next = class;
	slots[last].due.next = slot;
	slots[class].due.prev = slot;
	if (last == class) /* it was empty */
		flush_list_update(list, slots, many_classes);
}

static inline void flush_list_class_unlink(
	struct flush_list *list, struct held_slot *slots, uint32_t slot, bool many_classes)
{
	uint32_t prev = slots[slot].due.prev, next = slots[slot].due.next;
	slots[prev].due.next = next;
	slots[next].due.prev = prev;
	flush_list_update(list, slots, many_classes);
}

/* A flow begins to wait. Its deadline is set. */
static inline void flush_list_append(struct flush_list *list, struct held_slot *slots,
	uint32_t slot, uint32_t class, bool many_classes)
{
	flush_list_class_append(list, slots, slot, class, many_classes);
	if (many_classes) {
		uint32_t last = slots[0].age.prev;
		slots[slot].age.prev = last;
		slots[slot].age.next = 0;
		slots[last].age.next = slot;
		slots[0].age.prev = slot;
	}
}

static inline void flush_list_unlink(
	struct flush_list *list, struct held_slot *slots, uint32_t slot, bool many_classes)
{
	flush_list_class_unlink(list, slots, slot, many_classes);
	if (many_classes) {
		uint32_t prev = slots[slot].age.prev, next = slots[slot].age.next;
		slots[prev].age.next = next;
		slots[next].age.prev = prev;
	}
}

/* An earlier deadline, in another class's list; the time it has waited stays. */
static inline void flush_list_move(struct flush_list *list, struct held_slot *slots, uint32_t slot,
	uint32_t class, uint64_t deadline_ns)
{
	flush_list_class_unlink(list, slots, slot, true);
	slots[slot].deadline_ns = deadline_ns;
	flush_list_class_append(list, slots, slot, class, true);
}
