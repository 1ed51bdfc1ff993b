/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/idle_queue.h"

#include <errno.h>
#include <string.h>

void traces_idle_init(struct traces_idle_queue *queue, uint64_t timeout_ns)
{
	memset(queue, 0, sizeof(*queue));
	queue->tick_ns = timeout_ns / TRACES_IDLE_TICKS + 1;
}

void traces_idle_destroy(struct traces_idle_queue *queue)
{
	traces_buffer_destroy(&queue->heap);
	traces_buffer_destroy(&queue->chunks);
}

uint64_t traces_idle_memory_bytes(const struct traces_idle_queue *queue)
{
	return queue->heap.capacity + queue->chunks.capacity;
}

static struct traces_idle_item *heap_items(const struct traces_idle_queue *queue)
{
	return (struct traces_idle_item *)(void *)queue->heap.data;
}

static size_t heap_count(const struct traces_idle_queue *queue)
{
	return queue->heap.used / sizeof(struct traces_idle_item);
}

static int heap_push(struct traces_idle_queue *queue, uint32_t index, uint64_t last_ns)
{
	struct traces_buffer *heap = &queue->heap;
	if (traces_buffer_reserve(heap, heap->used + sizeof(struct traces_idle_item)) != 0)
		return -ENOMEM;
	struct traces_idle_item *items = heap_items(queue);
	size_t place = heap_count(queue);
	heap->used += sizeof(struct traces_idle_item);
	for (; place > 0 && items[(place - 1) / 2].last_ns > last_ns; place = (place - 1) / 2)
		items[place] = items[(place - 1) / 2];
	items[place] = (struct traces_idle_item){ .last_ns = last_ns, .index = index };
	return 0;
}

static struct traces_idle_item heap_pop(struct traces_idle_queue *queue)
{
	struct traces_idle_item *items = heap_items(queue), top = items[0];
	queue->heap.used -= sizeof(struct traces_idle_item);
	size_t count = heap_count(queue), place = 0;
	struct traces_idle_item last = items[count];
	for (size_t child = 1; child < count; child = 2 * place + 1) {
		child += child + 1 < count && items[child + 1].last_ns < items[child].last_ns;
		if (items[child].last_ns >= last.last_ns)
			break;
		items[place] = items[child];
		place = child;
	}
	items[place] = last;
	return top;
}

static struct traces_idle_chunk *chunk_at(const struct traces_idle_queue *queue, uint32_t plus_one)
{
	return (struct traces_idle_chunk *)(void *)queue->chunks.data + (plus_one - 1);
}

/* Room for more in front of a list. -ENOMEM. */
static int list_extend(struct traces_idle_queue *queue, struct traces_idle_list *list)
{
	struct traces_buffer *chunks = &queue->chunks;
	uint32_t plus_one = queue->free_plus_one;
	if (plus_one != 0) {
		queue->free_plus_one = chunk_at(queue, plus_one)->next_plus_one;
	} else {
		size_t used = chunks->used + sizeof(struct traces_idle_chunk);
		if (traces_buffer_reserve(chunks, used) != 0)
			return -ENOMEM;
		chunks->used = used;
		plus_one = (uint32_t)(used / sizeof(struct traces_idle_chunk));
	}
	chunk_at(queue, plus_one)->next_plus_one = list->first_plus_one;
	list->first_plus_one = plus_one;
	return 0;
}

/* To the heap when its tick has begun its turn, else to the list of its tick. -ENOMEM. */
int traces_idle_add(struct traces_idle_queue *queue, uint32_t index, uint64_t last_ns)
{
	uint64_t tick = last_ns / queue->tick_ns;
	if (tick <= queue->tick) {
		if (last_ns < queue->next_ns)
			queue->next_ns = last_ns;
		return heap_push(queue, index, last_ns);
	}
	uint32_t number = tick % TRACES_IDLE_LISTS;
	struct traces_idle_list *list = &queue->lists[number];
	uint32_t place = list->count % TRACES_IDLE_CHUNK_FLOWS;
	if (place == 0 && list_extend(queue, list) != 0)
		return -ENOMEM;
	chunk_at(queue, list->first_plus_one)->indices[place] = index;
	list->count++;
	queue->filled[number / 64] |= UINT64_C(1) << number % 64;
	return 0;
}

/* It is the turn of the current tick's list: its flows go to the heap, or on to the tick in which
 * they were busy last. */
static int take_turn(struct traces_idle_queue *queue, const struct traces_flow_table *table)
{
	uint32_t number = queue->tick % TRACES_IDLE_LISTS;
	struct traces_idle_list list = queue->lists[number];
	queue->lists[number] = (struct traces_idle_list){ 0, 0 };
	queue->filled[number / 64] &= ~(UINT64_C(1) << number % 64);
	while (list.count > 0) {
		/* A copy: flows that go on may make the chunks move. */
		struct traces_idle_chunk chunk = *chunk_at(queue, list.first_plus_one);
		uint32_t size = (list.count - 1) % TRACES_IDLE_CHUNK_FLOWS + 1;
		for (uint32_t i = 0; i < size; i++)
			BASE_PREFETCH(&traces_flow_at(table, chunk.indices[i])->last_ns);
		chunk_at(queue, list.first_plus_one)->next_plus_one = queue->free_plus_one;
		queue->free_plus_one = list.first_plus_one;
		list.first_plus_one = chunk.next_plus_one;
		list.count -= size;
		for (uint32_t i = 0; i < size; i++) {
			const struct traces_flow *flow = traces_flow_at(table, chunk.indices[i]);
			traces_flow_prefetch_slot(table, flow->hash); /* most leave the table */
			int error = traces_idle_add(queue, chunk.indices[i], flow->last_ns);
			if (error)
				return error;
		}
	}
	return 0;
}

/* The next tick that has flows, or limit_tick when none has until then. */
static uint64_t next_tick(const struct traces_idle_queue *queue, uint64_t limit_tick)
{
	uint64_t tick = queue->tick + 1, end = queue->tick + TRACES_IDLE_LISTS;
	while (tick <= limit_tick && tick <= end) {
		uint64_t rest = queue->filled[tick % TRACES_IDLE_LISTS / 64] >> tick % 64;
		if (rest != 0) {
			tick += (uint64_t)__builtin_ctzll(rest);
			return tick < limit_tick ? tick : limit_tick;
		}
		tick += 64 - tick % 64;
	}
	return limit_tick;
}

int traces_idle_take(struct traces_idle_queue *queue, const struct traces_flow_table *table,
	uint64_t limit_ns, uint32_t *index)
{
	*index = TRACES_FLOW_NONE;
	uint64_t limit_tick = limit_ns / queue->tick_ns;
	for (;;) {
		while (heap_count(queue) > 0) {
			const struct traces_idle_item *top = heap_items(queue);
			queue->next_ns = top->last_ns;
			if (top->last_ns >= limit_ns)
				return 0;
			struct traces_idle_item item = heap_pop(queue);
			uint64_t last_ns = traces_flow_at(table, item.index)->last_ns;
			if (last_ns == item.last_ns) {
				*index = item.index;
				return 0;
			}
			int error = traces_idle_add(queue, item.index, last_ns);
			if (error)
				return error;
		}
		if (queue->tick >= limit_tick)
			break;
		queue->tick = next_tick(queue, limit_tick);
		int error = take_turn(queue, table);
		if (error)
			return error;
	}
	queue->next_ns = (queue->tick + 1) * queue->tick_ns;
	return 0;
}
