/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/idle_queue.h"

#include <errno.h>
#include <string.h>

void traces_idle_init(struct traces_idle_queue *queue, uint64_t timeout_ns)
{
	memset(queue, 0, sizeof(*queue));
	queue->tick_ns = timeout_ns / TRACES_IDLE_TICKS + 1;
	for (int i = 0; i < TRACES_IDLE_LISTS; i++)
		queue->lists[i] = TRACES_FLOW_NONE;
}

void traces_idle_destroy(struct traces_idle_queue *queue)
{
	traces_buffer_destroy(&queue->heap);
}

static struct traces_idle_item *heap_items(const struct traces_idle_queue *queue)
{
	return (struct traces_idle_item *)(void *)queue->heap.data;
}

static size_t heap_count(const struct traces_idle_queue *queue)
{
	return queue->heap.used / sizeof(struct traces_idle_item);
}

static int heap_push(struct traces_idle_queue *queue, uint32_t index, uint64_t since_ns)
{
	struct traces_buffer *heap = &queue->heap;
	if (traces_buffer_reserve(heap, heap->used + sizeof(struct traces_idle_item)) != 0)
		return -ENOMEM;
	struct traces_idle_item *items = heap_items(queue);
	size_t place = heap_count(queue);
	heap->used += sizeof(struct traces_idle_item);
	for (; place > 0 && items[(place - 1) / 2].since_ns > since_ns; place = (place - 1) / 2)
		items[place] = items[(place - 1) / 2];
	items[place] = (struct traces_idle_item){ .since_ns = since_ns, .index = index };
	return 0;
}

static struct traces_idle_item heap_pop(struct traces_idle_queue *queue)
{
	struct traces_idle_item *items = heap_items(queue), top = items[0];
	queue->heap.used -= sizeof(struct traces_idle_item);
	size_t count = heap_count(queue), place = 0;
	struct traces_idle_item last = items[count];
	for (size_t child = 1; child < count; child = 2 * place + 1) {
		child += child + 1 < count && items[child + 1].since_ns < items[child].since_ns;
		if (items[child].since_ns >= last.since_ns)
			break;
		items[place] = items[child];
		place = child;
	}
	items[place] = last;
	return top;
}

static uint32_t *list_of(struct traces_idle_queue *queue, uint64_t tick)
{
	return &queue->lists[tick % TRACES_IDLE_LISTS];
}

/* To the heap when its tick has begun its turn, else to the list of its tick. */
static int place_flow(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint32_t index, uint64_t since_ns)
{
	uint64_t tick = since_ns / queue->tick_ns;
	if (tick <= queue->tick) {
		if (since_ns < queue->next_ns)
			queue->next_ns = since_ns;
		return heap_push(queue, index, since_ns);
	}
	uint32_t *list = list_of(queue, tick);
	*traces_flow_link(table, index) = *list;
	*list = index;
	return 0;
}

int traces_idle_add(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint32_t index, uint64_t since_ns)
{
	int error = place_flow(queue, table, index, since_ns);
	queue->count += error == 0;
	return error;
}

/* It is the next tick's turn: its flows go to the heap, or on to the tick in which they were busy
 * last. A flow that was put here without a packet waits since the tick began. */
static int next_turn(struct traces_idle_queue *queue, const struct traces_flow_table *table)
{
	uint64_t tick = ++queue->tick, start_ns = tick * queue->tick_ns;
	uint32_t index = *list_of(queue, tick);
	*list_of(queue, tick) = TRACES_FLOW_NONE;
	while (index != TRACES_FLOW_NONE) {
		uint32_t following = *traces_flow_link(table, index);
		if (following != TRACES_FLOW_NONE)
			BASE_PREFETCH(traces_flow_at(table, following));
		uint64_t last_ns = traces_flow_at(table, index)->last_ns;
		int error =
			place_flow(queue, table, index, last_ns < start_ns ? start_ns : last_ns);
		if (error)
			return error;
		index = following;
	}
	return 0;
}

int traces_idle_take(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint64_t limit_ns, uint32_t *index)
{
	*index = TRACES_FLOW_NONE;
	uint64_t limit_tick = limit_ns / queue->tick_ns;
	for (;;) {
		while (heap_count(queue) > 0) {
			const struct traces_idle_item *top = heap_items(queue);
			queue->next_ns = top->since_ns;
			if (top->since_ns >= limit_ns)
				return 0;
			struct traces_idle_item item = heap_pop(queue);
			uint64_t last_ns = traces_flow_at(table, item.index)->last_ns;
			if (last_ns <= item.since_ns) {
				queue->count--;
				*index = item.index;
				return 0;
			}
			int error = place_flow(queue, table, item.index, last_ns);
			if (error)
				return error;
		}
		if (queue->tick >= limit_tick)
			break;
		if (queue->count == 0) {
			queue->tick = limit_tick;
			break;
		}
		int error = next_turn(queue, table);
		if (error)
			return error;
	}
	queue->next_ns = (queue->tick + 1) * queue->tick_ns;
	return 0;
}
