/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which flow is next: a heap for what is due within the current slot of a wheel, two wheels of
 * slots in front of it (65 us and 67 ms wide), and a list for what is later than 69 s. Far events
 * lie in chunks in the order in which they came, so that a flow's memory is touched when it is due
 * and not before.
 *
 * Cost: a heap of the few hundred flows due within 65 us, and two moves per far event.
 * Memory: 16 bytes per event, in chunks of 512 bytes, at most one of them part full per slot.
 */
#include "traces/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_SHIFT = 16, SLOTS_SHIFT = 10, SLOTS = TRACES_GEN_SLOTS };
static_assert(SLOTS == 1 << SLOTS_SHIFT, "slots of a turn");

#define NONE UINT32_MAX

static int heap_push(struct traces_gen_queue *queue, struct traces_gen_event event)
{
	if (queue->heap_count == queue->heap_capacity) {
		uint32_t capacity = queue->heap_capacity == 0 ? 1024 : queue->heap_capacity * 2;
		struct traces_gen_event *heap =
			realloc(queue->heap, capacity * sizeof(*queue->heap));
		if (heap == NULL)
			return -ENOMEM;
		queue->heap = heap;
		queue->heap_capacity = capacity;
	}
	uint32_t at = queue->heap_count++;
	while (at > 0) {
		uint32_t parent = (at - 1) / 2;
		if (queue->heap[parent].time_ns <= event.time_ns)
			break;
		queue->heap[at] = queue->heap[parent];
		at = parent;
	}
	queue->heap[at] = event;
	return 0;
}

/* Put event where the top was. */
static void heap_sift(struct traces_gen_queue *queue, struct traces_gen_event event)
{
	struct traces_gen_event *heap = queue->heap;
	uint32_t at = 0, count = queue->heap_count;
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= count)
			break;
		child += child + 1 < count && heap[child + 1].time_ns < heap[child].time_ns;
		if (event.time_ns <= heap[child].time_ns)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = event;
}

/* A chunk for a list; NONE when out of memory. */
static uint32_t chunk_take(struct traces_gen_queue *queue)
{
	if (queue->chunk_free == NONE) {
		uint32_t count = queue->chunks_count;
		uint32_t capacity = count == 0 ? 256 : count * 2;
		struct traces_gen_chunk *chunks =
			realloc(queue->chunks, capacity * sizeof(*queue->chunks));
		if (chunks == NULL)
			return NONE;
		for (uint32_t i = count; i < capacity; i++)
			chunks[i].next = i + 1 < capacity ? i + 1 : NONE;
		queue->chunks = chunks;
		queue->chunks_count = capacity;
		queue->chunk_free = count;
	}
	uint32_t chunk = queue->chunk_free;
	queue->chunk_free = queue->chunks[chunk].next;
	return chunk;
}

static int list_append(
	struct traces_gen_queue *queue, uint32_t *list, struct traces_gen_event event)
{
	if (*list == NONE || queue->chunks[*list].count == TRACES_GEN_CHUNK_EVENTS) {
		uint32_t fresh = chunk_take(queue);
		if (fresh == NONE)
			return -ENOMEM;
		queue->chunks[fresh].next = *list;
		queue->chunks[fresh].count = 0;
		*list = fresh;
	}
	struct traces_gen_chunk *chunk = &queue->chunks[*list];
	chunk->events[chunk->count++] = event;
	return 0;
}

static void mark(uint64_t *bits, uint64_t slot)
{
	bits[slot % SLOTS / 64] |= UINT64_C(1) << (slot % 64);
}

static void unmark(uint64_t *bits, uint64_t slot)
{
	bits[slot % SLOTS / 64] &= ~(UINT64_C(1) << (slot % 64));
}

/* First marked slot in [slot, end), end when there is none. The span is below one turn. */
static uint64_t next_marked(const uint64_t *bits, uint64_t slot, uint64_t end)
{
	while (slot < end) {
		uint64_t word = bits[slot % SLOTS / 64] >> (slot % 64);
		if (word != 0) {
			uint64_t found = slot + (unsigned int)__builtin_ctzll(word);
			return found < end ? found : end;
		}
		slot = (slot | 63) + 1;
	}
	return end;
}

int traces_gen_queue_push(struct traces_gen_queue *queue, uint64_t time_ns, uint32_t flow)
{
	struct traces_gen_event event = { .time_ns = time_ns, .flow = flow };
	uint64_t slot = time_ns >> SLOT_SHIFT, turn = slot >> SLOTS_SHIFT;
	queue->count++;
	if (slot < queue->slot)
		return heap_push(queue, event);
	if (turn == queue->turn) {
		mark(queue->near_marks, slot);
		return list_append(queue, &queue->near[slot % SLOTS], event);
	}
	if (turn - queue->turn < SLOTS) {
		mark(queue->far_marks, turn);
		return list_append(queue, &queue->far[turn % SLOTS], event);
	}
	if (turn < queue->later_turn)
		queue->later_turn = turn;
	return list_append(queue, &queue->later, event);
}

/* Take a list apart and push its events anew. */
static int list_spread(struct traces_gen_queue *queue, uint32_t *list)
{
	uint32_t at = *list;
	*list = NONE;
	while (at != NONE) {
		/* The chunk is copied: pushing may move the chunks. */
		struct traces_gen_chunk chunk = queue->chunks[at];
		queue->chunks[at].next = queue->chunk_free;
		queue->chunk_free = at;
		at = chunk.next;
		queue->count -= chunk.count;
		for (uint32_t i = 0; i < chunk.count; i++) {
			struct traces_gen_event event = chunk.events[i];
			BASE_PREFETCH_W((const uint8_t *)queue->flows +
					(size_t)event.flow * BASE_CACHE_LINE);
			int error = traces_gen_queue_push(queue, event.time_ns, event.flow);
			if (error)
				return error;
		}
	}
	return 0;
}

/* The near wheel is empty: the next turn with events becomes its. */
static int turn_begin(struct traces_gen_queue *queue)
{
	uint64_t end = queue->turn + SLOTS;
	uint64_t next = next_marked(queue->far_marks, queue->turn + 1, end);
	if (next == end || queue->later_turn < next)
		next = queue->later_turn;
	queue->turn = next;
	queue->slot = next << SLOTS_SHIFT;
	if (queue->later_turn - next < SLOTS / 2) {
		queue->later_turn = UINT64_MAX;
		int error = list_spread(queue, &queue->later);
		if (error)
			return error;
	}
	unmark(queue->far_marks, next);
	return list_spread(queue, &queue->far[next % SLOTS]);
}

/* Move on to the next slot that holds events; there are some. */
static int advance(struct traces_gen_queue *queue)
{
	while (queue->heap_count == 0) {
		uint64_t end = (queue->turn + 1) << SLOTS_SHIFT;
		uint64_t slot = next_marked(queue->near_marks, queue->slot, end);
		int error;
		if (slot == end) {
			error = turn_begin(queue);
		} else {
			unmark(queue->near_marks, slot);
			queue->slot = slot + 1; /* so that its events go to the heap */
			error = list_spread(queue, &queue->near[slot % SLOTS]);
		}
		if (error)
			return error;
	}
	return 0;
}

int traces_gen_queue_top(struct traces_gen_queue *queue, struct traces_gen_event *event)
{
	event->time_ns = UINT64_MAX;
	if (queue->count == 0)
		return 0;
	int error = queue->heap_count == 0 ? advance(queue) : 0;
	if (error == 0)
		*event = queue->heap[0];
	return error;
}

void traces_gen_queue_pop(struct traces_gen_queue *queue)
{
	queue->count--;
	queue->heap_count--;
	if (queue->heap_count > 0)
		heap_sift(queue, queue->heap[queue->heap_count]);
}

int traces_gen_queue_move(struct traces_gen_queue *queue, uint64_t time_ns)
{
	struct traces_gen_event event = queue->heap[0];
	event.time_ns = time_ns;
	if (time_ns >> SLOT_SHIFT < queue->slot) {
		heap_sift(queue, event);
		return 0;
	}
	traces_gen_queue_pop(queue);
	return traces_gen_queue_push(queue, time_ns, event.flow);
}

int traces_gen_queue_create(struct traces_gen_queue **out)
{
	struct traces_gen_queue *queue = calloc(1, sizeof(*queue));
	if (queue == NULL)
		return -ENOMEM;
	queue->chunk_free = queue->later = NONE;
	queue->later_turn = UINT64_MAX;
	for (unsigned int i = 0; i < SLOTS; i++)
		queue->near[i] = queue->far[i] = NONE;
	*out = queue;
	return 0;
}

void traces_gen_queue_destroy(struct traces_gen_queue *queue)
{
	if (queue == NULL)
		return;
	free(queue->heap);
	free(queue->chunks);
	free(queue);
}
