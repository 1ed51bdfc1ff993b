/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: bytes into a file, compressed or not, in large writes.
 *
 * A regular file is written beside its final name and renamed when it is whole, so that nobody ever
 * sees a part of it; devices and pipes are written to directly. "-" is standard output.
 *
 *	traces_output_create(&output, path, TRACES_COMPRESSION_GZIP);
 *	uint8_t *room = traces_output_reserve(output, size, &error);
 *	... fill it ...
 *	traces_output_commit(output, size);
 *	traces_output_close(output);	// or traces_output_abandon
 */
#pragma once

#include "base/compiler.h"
#include "traces/traces.h"

enum {
	TRACES_OUTPUT_BYTES = 1 << 20,
	TRACES_OUTPUT_FLUSH_BYTES = 1 << 18,
	TRACES_OUTPUT_ROOM_MAX = TRACES_OUTPUT_BYTES - TRACES_OUTPUT_FLUSH_BYTES,
};

struct traces_output_target; /* where the bytes go: file and compressor */

struct traces_output {
	struct traces_output_target *target;
	size_t fill;
	uint8_t bytes[TRACES_OUTPUT_BYTES];
};

/* -ENOENT, -EACCES, -EISDIR, ... from the system; -ENOMEM. */
int traces_output_create(
	struct traces_output **out, const char *path, enum traces_compression compression);
/* Give up with -EINTR once stop is set (by a signal handler), where writing has to wait for a pipe
 * to be emptied. NULL: never. Partner: a relaxed store, the handler's. */
void traces_output_watch(struct traces_output *output, const atomic_bool *stop);
/* Hand on what is held. -ENOSPC, -EPIPE, -EFBIG, -EIO. */
int traces_output_flush(struct traces_output *output);
/* Everything to the file, the file to its final name; frees. What was written before disappears
 * when that fails. */
int traces_output_close(struct traces_output *output);
/* Free without a file. NULL is allowed. */
void traces_output_abandon(struct traces_output *output);

/* Room for size <= TRACES_OUTPUT_ROOM_MAX bytes, valid until the next call; NULL with *error. */
static inline uint8_t *traces_output_reserve(struct traces_output *output, size_t size, int *error)
{
	BASE_DEBUG_ASSERT(size <= TRACES_OUTPUT_ROOM_MAX);
	if (BASE_UNLIKELY(output->fill > TRACES_OUTPUT_FLUSH_BYTES)) {
		*error = traces_output_flush(output);
		if (*error)
			return NULL;
	}
	return output->bytes + output->fill;
}

static inline void traces_output_commit(struct traces_output *output, size_t size)
{
	output->fill += size;
}

static inline int traces_output_put(struct traces_output *output, const void *bytes, size_t size)
{
	int error = 0;
	uint8_t *room = traces_output_reserve(output, size, &error);
	if (room == NULL)
		return error;
	__builtin_memcpy(room, bytes, size);
	traces_output_commit(output, size);
	return 0;
}
