/* SPDX-License-Identifier: BSD-2-Clause */
/* k-way merge: a binary heap holds the next record of each file. */
#include "traces/trace.h"

#include <errno.h>
#include <stdlib.h>

struct merge_head {
	uint64_t time_ns;
	uint64_t next; /* index of the file's next record */
	uint64_t end;
	uint64_t file;
};

static bool head_before(const struct merge_head *a, const struct merge_head *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->file < b->file;
}

static void heap_sift_down(struct merge_head *heads, size_t count, size_t index)
{
	struct merge_head moving = heads[index];
	for (;;) {
		size_t child = 2 * index + 1;
		if (child >= count)
			break;
		if (child + 1 < count && head_before(&heads[child + 1], &heads[child]))
			child++;
		if (!head_before(&heads[child], &moving))
			break;
		heads[index] = heads[child];
		index = child;
	}
	heads[index] = moving;
}

/* Records of one file lie together, files in order: the loader appended them so. */
static size_t heads_collect(
	struct merge_head *heads, const struct traces_record *records, size_t count)
{
	size_t heads_count = 0;
	for (size_t i = 0; i < count;) {
		size_t end = i;
		while (end < count && records[end].file == records[i].file)
			end++;
		heads[heads_count++] =
			(struct merge_head){ records[i].time_ns, i, end, records[i].file };
		i = end;
	}
	return heads_count;
}

int traces_trace_merge(struct traces_trace *trace, size_t files_count)
{
	size_t count = traces_trace_count(trace);
	if (count == 0)
		return 0;
	struct traces_buffer merged = { 0 };
	struct merge_head *heads = calloc(files_count, sizeof(*heads));
	if (heads == NULL || traces_buffer_reserve_exact(&merged, trace->records.used) != 0) {
		free(heads);
		return -ENOMEM;
	}
	const struct traces_record *from = traces_trace_mutable_records(trace);
	struct traces_record *to = (struct traces_record *)(void *)merged.data;
	size_t heads_count = heads_collect(heads, from, count);
	for (size_t i = heads_count / 2; i-- > 0;)
		heap_sift_down(heads, heads_count, i);
	while (heads_count > 0) {
		struct merge_head *head = &heads[0];
		*to++ = from[head->next++];
		if (head->next == head->end)
			heads[0] = heads[--heads_count];
		else
			head->time_ns = from[head->next].time_ns;
		if (heads_count > 0)
			heap_sift_down(heads, heads_count, 0);
	}
	free(heads);
	merged.used = trace->records.used;
	traces_buffer_destroy(&trace->records);
	trace->records = merged;
	return 0;
}
