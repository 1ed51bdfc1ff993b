/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: how a trace is stored. Two growing buffers: the bytes (frames, for pcap with
 * the file's own record headers between them) and the array of records.
 *
 * One writer while a trace is built; immutable and readable by any thread afterwards.
 */
#pragma once

#include "traces/traces.h"

/* Memory that grows without copying (mremap) and asks for huge pages when it is large. */
struct traces_buffer {
	uint8_t *data; /* NULL while capacity is 0 */
	size_t used;
	size_t capacity;
};

struct traces_trace {
	struct traces_buffer bytes;
	struct traces_buffer records; /* of struct traces_record */
};

/* Make room for `capacity` bytes in all, exactly (page granularity). -ENOMEM. */
int traces_buffer_reserve_exact(struct traces_buffer *buffer, size_t capacity);
/* The same, but at least doubling, for repeated growth. -ENOMEM. */
int traces_buffer_reserve(struct traces_buffer *buffer, size_t capacity);
/* A new buffer of `size` zero bytes, all in use. -ENOMEM. */
int traces_buffer_create_zeroed(struct traces_buffer *buffer, size_t size);
/* Give back what lies behind `used`. */
void traces_buffer_trim(struct traces_buffer *buffer);
void traces_buffer_destroy(struct traces_buffer *buffer);

static inline struct traces_record *traces_trace_mutable_records(struct traces_trace *trace)
{
	return (struct traces_record *)(void *)trace->records.data;
}

static inline size_t traces_trace_count(const struct traces_trace *trace)
{
	return trace->records.used / sizeof(struct traces_record);
}

/* Append a record whose bytes are already in place. -ENOMEM. */
static inline int traces_trace_push(struct traces_trace *trace, const struct traces_record *record)
{
	struct traces_buffer *records = &trace->records;
	if (BASE_UNLIKELY(records->capacity - records->used < sizeof(*record))) {
		int error = traces_buffer_reserve(records, records->used + sizeof(*record));
		if (error)
			return error;
	}
	__builtin_memcpy(records->data + records->used, record, sizeof(*record));
	records->used += sizeof(*record);
	return 0;
}

/* Append a record with room for its cap_len bytes, not written yet, at *frame; valid until the next
 * call. -ENOMEM. */
int traces_trace_extend(
	struct traces_trace *trace, const struct traces_record *record, uint8_t **frame);

void traces_trace_trim(struct traces_trace *trace);

/*
 * Order the records of several files by time: stable, and the order within a file never changes
 * (a record earlier than its predecessor follows it at once). -ENOMEM.
 */
int traces_trace_merge(struct traces_trace *trace, size_t files_count);

/* enum base_link of a LINKTYPE_ number; -1 when it is not supported. */
int traces_link_from_number(uint32_t linktype);
