/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/heads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool head_before(const struct traces_head *a, const struct traces_head *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

static void heap_sift_down(struct traces_heads *heads, size_t index)
{
	struct traces_head *heap = heads->heap;
	struct traces_head moving = heap[index];
	for (;;) {
		size_t child = 2 * index + 1;
		if (child >= heads->heap_count)
			break;
		if (child + 1 < heads->heap_count && head_before(&heap[child + 1], &heap[child]))
			child++;
		if (!head_before(&heap[child], &moving))
			break;
		heap[index] = heap[child];
		index = child;
	}
	heap[index] = moving;
}

/* To the packet at head->next, wherever that is: 1, 0 at the end, or an error. */
static int head_settle(struct traces_heads *heads, struct traces_head *head)
{
	if (head->next >= head->batch.count) {
		int error = traces_packets_pull(heads->owner, head->from, &head->batch);
		if (error || head->batch.count == 0)
			return error;
		head->next = 0;
	}
	head->time_ns = head->batch.records[head->next].time_ns;
	if (heads->place != NULL)
		head->time_ns = heads->place(heads->owner, head->number, head->time_ns);
	return 1;
}

static int start(struct traces_heads *heads)
{
	heads->started = true;
	for (size_t i = 0; i < heads->streams_count; i++) {
		struct traces_head *head = &heads->heap[heads->heap_count];
		*head = (struct traces_head){ .from = heads->streams[i], .number = (uint16_t)i };
		int found = head_settle(heads, head);
		if (found < 0)
			return found;
		heads->heap_count += (size_t)found;
	}
	for (size_t i = heads->heap_count / 2; i-- > 0;)
		heap_sift_down(heads, i);
	return 0;
}

int traces_heads_take(struct traces_heads *heads, struct traces_trace *batch)
{
	if (!heads->started) {
		int error = start(heads);
		if (error)
			return error;
	}
	while (heads->heap_count > 0 && !traces_trace_is_batch(batch)) {
		struct traces_head *head = &heads->heap[0];
		struct traces_record record = head->batch.records[head->next];
		const uint8_t *frame = head->batch.bytes + record.offset;
		record.time_ns = head->time_ns;
		record.file = head->number;
		int error = traces_trace_append(batch, &record, frame);
		if (error)
			return error;
		head->next++;
		int found = head_settle(heads, head);
		if (found < 0)
			return found;
		if (found == 0)
			*head = heads->heap[--heads->heap_count];
		if (heads->heap_count > 1)
			heap_sift_down(heads, 0);
	}
	return 0;
}

int traces_heads_init(
	struct traces_heads *heads, struct traces_packets *const *streams, size_t streams_count)
{
	heads->heap = calloc(streams_count, sizeof(*heads->heap));
	heads->streams = calloc(streams_count, sizeof(struct traces_packets *));
	if (heads->heap == NULL || heads->streams == NULL) {
		traces_heads_free(heads);
		return -ENOMEM;
	}
	memcpy(heads->streams, streams, streams_count * sizeof(struct traces_packets *));
	heads->streams_count = streams_count;
	return 0;
}

void traces_heads_free(struct traces_heads *heads)
{
	free(heads->heap);
	free(heads->streams);
}

void traces_heads_destroy(struct traces_heads *heads)
{
	for (size_t i = 0; i < heads->streams_count; i++)
		traces_packets_destroy(heads->streams[i]);
	traces_heads_free(heads);
}
