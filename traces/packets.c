/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of packets: what all have in common, traces as streams, streams into files. */
#include "traces/packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int traces_packets_fail(struct traces_packets *packets, int error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(packets->message, sizeof(packets->message), format, arguments);
	va_end(arguments);
	return error;
}

int traces_packets_next(struct traces_packets *packets, struct traces_batch *batch)
{
	/* Places are added to these even when there are no packets, which NULL does not allow. */
	static const struct traces_record no_record;
	static const uint8_t no_byte;
	*batch = (struct traces_batch){ .records = &no_record, .bytes = &no_byte };
	if (packets->peeked) {
		packets->peeked = false;
		*batch = packets->waiting;
		return 0;
	}
	if (packets->ended)
		return 0;
	int error = packets->ops->next(packets, batch);
	if (batch->records == NULL)
		batch->records = &no_record;
	packets->ended = error != 0 || batch->count == 0;
	return error;
}

int traces_packets_peek(struct traces_packets *packets, struct traces_batch *batch)
{
	if (!packets->peeked) {
		int error = traces_packets_next(packets, &packets->waiting);
		if (error)
			return error;
		packets->peeked = true;
	}
	*batch = packets->waiting;
	return 0;
}

int traces_packets_pull(
	struct traces_packets *packets, struct traces_packets *from, struct traces_batch *batch)
{
	int error = traces_packets_next(from, batch);
	if (error)
		memcpy(packets->message, from->message, sizeof(packets->message));
	return error;
}

const char *traces_packets_message(const struct traces_packets *packets)
{
	return packets->message;
}

void traces_packets_destroy(struct traces_packets *packets)
{
	if (packets != NULL)
		packets->ops->destroy(packets);
}

/* ---- a trace as a stream ---- */

struct trace_packets {
	struct traces_packets packets;
	struct traces_batch rest;
	size_t batch_packets;
};

static int trace_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct trace_packets *of = (struct trace_packets *)packets;
	*batch = of->rest;
	if (batch->count > of->batch_packets)
		batch->count = of->batch_packets;
	if (batch->count == 0)
		return 0;
	of->rest.records += batch->count;
	of->rest.count -= batch->count;
	return 0;
}

static void trace_destroy(struct traces_packets *packets)
{
	free(packets);
}

static const struct traces_packets_ops trace_ops = { trace_next, trace_destroy };

int traces_packets_of_trace(
	struct traces_packets **out, const struct traces_trace *trace, size_t batch_packets)
{
	struct trace_packets *of = calloc(1, sizeof(*of));
	if (of == NULL)
		return -ENOMEM;
	of->packets.ops = &trace_ops;
	of->rest = traces_trace_batch(trace);
	of->batch_packets = batch_packets == 0 ? SIZE_MAX : batch_packets;
	*out = &of->packets;
	return 0;
}

/* ---- a stream into a file ---- */

int traces_writer_pump(struct traces_writer *writer, struct traces_packets *packets,
	const atomic_bool *stop, bool *failed_read)
{
	struct traces_batch batch;
	for (;;) {
		int error = traces_packets_next(packets, &batch);
		if (failed_read != NULL)
			*failed_read = error != 0;
		if (error == 0 && batch.count == 0)
			return 0;
		if (error == 0)
			error = traces_writer_write_batch(writer, &batch);
		if (error == 0 && stop != NULL &&
			atomic_load_explicit(stop, memory_order_relaxed)) /* no partner: a hint */
			error = -EINTR;
		if (error)
			return error;
	}
}
