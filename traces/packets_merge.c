/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/heads.h"

#include <errno.h>
#include <stdlib.h>

struct merge {
	struct traces_packets packets;
	struct traces_heads heads;
	struct traces_trace *batch;
};

static int merge_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct merge *merge = (struct merge *)packets;
	traces_trace_clear(merge->batch);
	int error = traces_heads_take(&merge->heads, merge->batch);
	if (error)
		return error;
	*batch = traces_trace_batch(merge->batch);
	return 0;
}

static void merge_destroy(struct traces_packets *packets)
{
	struct merge *merge = (struct merge *)packets;
	traces_heads_destroy(&merge->heads);
	traces_trace_destroy(merge->batch);
	free(merge);
}

static const struct traces_packets_ops merge_ops = { merge_next, merge_destroy };

int traces_packets_merge(
	struct traces_packets **out, struct traces_packets *const *inputs, size_t inputs_count)
{
	if (inputs_count == 0 || inputs_count > TRACES_MERGE_MAX)
		return -EINVAL;
	struct merge *merge = calloc(1, sizeof(*merge));
	if (merge == NULL || traces_trace_create(&merge->batch) != 0) {
		free(merge);
		return -ENOMEM;
	}
	merge->packets.ops = &merge_ops;
	merge->heads.owner = &merge->packets;
	int error = traces_heads_init(&merge->heads, inputs, inputs_count);
	if (error) {
		traces_trace_destroy(merge->batch);
		free(merge);
		return error;
	}
	*out = &merge->packets;
	return 0;
}
