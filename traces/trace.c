/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	PAGE_BYTES = 4096,
	HUGE_PAGE_BYTES = 2 << 20,
	HUGE_FROM_BYTES = 2 * HUGE_PAGE_BYTES, /* below this, plain pages waste less */
	CAPACITY_MIN = 16 * PAGE_BYTES,
};

static size_t round_up(size_t value, size_t step)
{
	return (value + step - 1) / step * step;
}

#ifdef BASE_SANITIZED

/* The sanitizer only watches the edges of memory that it handed out itself. */
static uint8_t *buffer_remap(uint8_t *data, size_t capacity, size_t new_capacity)
{
	(void)capacity;
	return realloc(data, new_capacity);
}

static void buffer_unmap(uint8_t *data, size_t capacity)
{
	(void)capacity;
	free(data);
}

#else

/* Address space, not memory, of which the start is a huge page's. MAP_FAILED on failure. */
static uint8_t *address_space_take(size_t size)
{
	size_t taken = size + HUGE_PAGE_BYTES;
	uint8_t *space = mmap(NULL, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (space == MAP_FAILED)
		return space;
	size_t head = round_up((uintptr_t)space, HUGE_PAGE_BYTES) - (uintptr_t)space;
	if (head > 0)
		munmap(space, head);
	if (head < HUGE_PAGE_BYTES)
		munmap(space + head + size, HUGE_PAGE_BYTES - head);
	return space + head;
}

/* Aligned at both ends of a move, huge pages stay whole: page tables move, bytes do not. */
static uint8_t *buffer_remap_huge(uint8_t *data, size_t capacity, size_t new_capacity)
{
	uint8_t *space = address_space_take(new_capacity);
	if (space == MAP_FAILED)
		return NULL;
	uint8_t *moved;
	if (data == NULL)
		moved = mmap(space, new_capacity, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		moved = mremap(data, capacity, new_capacity, MREMAP_MAYMOVE | MREMAP_FIXED, space);
	if (moved == MAP_FAILED) {
		munmap(space, new_capacity);
		return NULL;
	}
	madvise(moved, new_capacity, MADV_HUGEPAGE); /* a wish: failure costs speed only */
	return moved;
}

static uint8_t *buffer_remap(uint8_t *data, size_t capacity, size_t new_capacity)
{
	if (new_capacity >= HUGE_FROM_BYTES && new_capacity > capacity)
		return buffer_remap_huge(data, capacity, new_capacity);
	uint8_t *moved;
	if (data == NULL)
		moved = mmap(NULL, new_capacity, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		moved = mremap(data, capacity, new_capacity, MREMAP_MAYMOVE);
	return moved == MAP_FAILED ? NULL : moved;
}

static void buffer_unmap(uint8_t *data, size_t capacity)
{
	munmap(data, capacity);
}

#endif

int traces_buffer_reserve_exact(struct traces_buffer *buffer, size_t capacity)
{
	if (capacity <= buffer->capacity)
		return 0;
	if (capacity > SIZE_MAX / 4)
		return -ENOMEM;
	capacity = round_up(capacity, PAGE_BYTES);
	uint8_t *data = buffer_remap(buffer->data, buffer->capacity, capacity);
	if (data == NULL)
		return -ENOMEM;
	buffer->data = data;
	buffer->capacity = capacity;
	return 0;
}

int traces_buffer_reserve(struct traces_buffer *buffer, size_t capacity)
{
	if (capacity <= buffer->capacity)
		return 0;
	if (capacity < CAPACITY_MIN)
		capacity = CAPACITY_MIN;
	if (buffer->capacity < SIZE_MAX / 8 && capacity < 2 * buffer->capacity &&
		traces_buffer_reserve_exact(buffer, 2 * buffer->capacity) == 0)
		return 0;
	return traces_buffer_reserve_exact(buffer, capacity);
}

int traces_buffer_create_zeroed(struct traces_buffer *buffer, size_t size)
{
	memset(buffer, 0, sizeof(*buffer));
	int error = traces_buffer_reserve_exact(buffer, size);
	if (error)
		return error;
#ifdef BASE_SANITIZED
	memset(buffer->data, 0, size); /* not fresh from the system */
#endif
	buffer->used = size;
	return 0;
}

void traces_buffer_trim(struct traces_buffer *buffer)
{
	if (buffer->data == NULL)
		return;
	if (buffer->used == 0) {
		traces_buffer_destroy(buffer);
		return;
	}
#ifdef BASE_SANITIZED
	size_t capacity = buffer->used;
#else
	size_t capacity = round_up(buffer->used, PAGE_BYTES);
#endif
	if (capacity >= buffer->capacity)
		return;
	uint8_t *data = buffer_remap(buffer->data, buffer->capacity, capacity);
	if (data == NULL)
		return; /* still valid, only larger than needed */
	buffer->data = data;
	buffer->capacity = capacity;
}

void traces_buffer_destroy(struct traces_buffer *buffer)
{
	if (buffer->data != NULL)
		buffer_unmap(buffer->data, buffer->capacity);
	memset(buffer, 0, sizeof(*buffer));
}

int traces_trace_create(struct traces_trace **out)
{
	struct traces_trace *trace = calloc(1, sizeof(*trace));
	if (trace == NULL)
		return -ENOMEM;
	*out = trace;
	return 0;
}

void traces_trace_destroy(struct traces_trace *trace)
{
	if (trace == NULL)
		return;
	traces_buffer_destroy(&trace->bytes);
	traces_buffer_destroy(&trace->records);
	free(trace);
}

int traces_trace_extend(
	struct traces_trace *trace, const struct traces_record *record, uint8_t **frame)
{
	struct traces_buffer *bytes = &trace->bytes;
	/* A frame has a place even when it is empty and the first. */
	if (bytes->capacity - bytes->used < record->cap_len || bytes->data == NULL) {
		int error = traces_buffer_reserve(bytes, bytes->used + record->cap_len + 1);
		if (error)
			return error;
	}
	struct traces_record placed = *record;
	placed.offset = bytes->used;
	if (placed.wire_len < placed.cap_len)
		placed.wire_len = placed.cap_len;
	int error = traces_trace_push(trace, &placed);
	if (error)
		return error;
	*frame = bytes->data + bytes->used;
	bytes->used += record->cap_len;
	return 0;
}

int traces_trace_append(
	struct traces_trace *trace, const struct traces_record *record, const uint8_t *frame)
{
	uint8_t *place;
	int error = traces_trace_extend(trace, record, &place);
	if (error == 0 && record->cap_len > 0)
		memcpy(place, frame, record->cap_len);
	return error;
}

void traces_trace_trim(struct traces_trace *trace)
{
	traces_buffer_trim(&trace->bytes);
	traces_buffer_trim(&trace->records);
}

const struct traces_record *traces_trace_records(const struct traces_trace *trace, size_t *count)
{
	*count = traces_trace_count(trace);
	return (const struct traces_record *)(const void *)trace->records.data;
}

const uint8_t *traces_trace_bytes(const struct traces_trace *trace)
{
	/* Packets may all be empty; offsets are added to this, which NULL does not allow. */
	static const uint8_t none[1];
	return trace->bytes.data != NULL ? trace->bytes.data : none;
}

uint64_t traces_trace_memory_bytes(const struct traces_trace *trace)
{
	return sizeof(*trace) + trace->bytes.capacity + trace->records.capacity;
}
