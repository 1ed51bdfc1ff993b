/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: what a stream of packets is made of. A kind of stream is a struct that begins
 * with struct traces_packets and has an ops table; its constructor takes ownership of the streams
 * it pulls from only when it succeeds.
 *
 *	struct slice { struct traces_packets packets; struct traces_packets *from; ... };
 *	static const struct traces_packets_ops slice_ops = { slice_next, slice_destroy };
 *
 * A transform that passes frames on unchanged hands out its input's bytes with an array of records
 * of its own; one that changes them builds batches in a struct traces_trace that it empties with
 * traces_trace_clear and fills with traces_trace_append.
 */
#pragma once

#include "traces/trace.h"

#include <stdarg.h>

/* What a stream aims to put into one batch. */
enum { TRACES_BATCH_BYTES = 256 << 10, TRACES_BATCH_PACKETS = 4096 };

struct traces_packets_ops {
	/* As traces_packets_next; batch is empty on entry. */
	int (*next)(struct traces_packets *packets, struct traces_batch *batch);
	void (*destroy)(struct traces_packets *packets);
};

struct traces_packets {
	const struct traces_packets_ops *ops;
	bool ended;
	bool peeked; /* waiting is what next gives */
	struct traces_batch waiting;
	char message[TRACES_MESSAGE_SIZE];
};

/* Whether somebody asked for the end; stop may be NULL. Nothing is read behind the flag. */
static inline bool traces_is_stopped(const atomic_bool *stop)
{
	return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed);
}

/* Write the message; returns error. */
int traces_packets_fail(struct traces_packets *packets, int error, const char *format, ...)
	BASE_PRINTF(3, 4);
/* Next batch of `from` for a stream that pulls from it; its message becomes this one's. */
int traces_packets_pull(
	struct traces_packets *packets, struct traces_packets *from, struct traces_batch *batch);

/* traces_packets_open for the file-th of several: records and damages carry its number. */
int traces_packets_open_nth(struct traces_packets **out, const char *path, uint16_t file,
	const struct traces_load_options *options, struct traces_load_report *report);

/* Empty a trace and keep its memory, for batches built one after the other. */
static inline void traces_trace_clear(struct traces_trace *trace)
{
	trace->bytes.used = 0;
	trace->records.used = 0;
}

/* Whether a batch that is being built holds enough. */
static inline bool traces_trace_is_batch(const struct traces_trace *trace)
{
	return trace->bytes.used >= TRACES_BATCH_BYTES ||
	       traces_trace_count(trace) >= TRACES_BATCH_PACKETS;
}

/* All of a trace as a batch. */
static inline struct traces_batch traces_trace_batch(const struct traces_trace *trace)
{
	struct traces_batch batch = { .bytes = traces_trace_bytes(trace) };
	batch.records = traces_trace_records(trace, &batch.count);
	return batch;
}
