/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: what a format has to bring to be written.
 *
 * writer.c       the writer: options, the first packet, what was lost, how it ends
 * write_*.c      one per format: records in, bytes out
 * output.c       bytes into a file
 */
#pragma once

#include "traces/output.h"

struct traces_writer;

struct traces_write_ops {
	/* Before the first packet, or at the end when there was none. */
	int (*start)(struct traces_writer *writer, enum base_link link);
	int (*packets)(struct traces_writer *writer, const struct traces_batch *batch);
	/* Behind the last packet; NULL: nothing to do. */
	int (*finish)(struct traces_writer *writer);
	/* Frees what start made, if it came to that. */
	void (*destroy)(struct traces_writer *writer);
};

struct traces_writer {
	struct traces_output *output;
	const struct traces_write_ops *ops;
	void *state; /* of ops */
	struct traces_writer_options options;
	bool started;
	int error;
	struct traces_writer_losses losses;
	uint64_t packets; /* taken, for messages */
	char message[TRACES_MESSAGE_SIZE];
};

extern const struct traces_write_ops traces_pcap_write_ops;
extern const struct traces_write_ops traces_pcapng_write_ops;
extern const struct traces_write_ops traces_ipsum_write_ops;
extern const struct traces_write_ops traces_tuples_write_ops;

/* Write the message; returns error. */
int traces_writer_fail(struct traces_writer *writer, int error, const char *format, ...)
	BASE_PRINTF(3, 4);

/* Captured bytes to write of a record. */
static inline uint32_t traces_writer_cap_len(
	const struct traces_writer *writer, const struct traces_record *record)
{
	return record->cap_len < writer->options.snaplen ? record->cap_len
							 : writer->options.snaplen;
}

static inline uint32_t traces_writer_wire_len(const struct traces_record *record)
{
	return record->wire_len < record->cap_len ? record->cap_len : record->wire_len;
}
