/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reader: a thread that plays captures from their files, ahead of the workers, for captures that
 * memory does not hold. It pulls packets from a stream of the files (traces.h), plans them
 * (planner.h) and hands chunks of them to each worker (chunk_ring.h). With an overlay of K it plays
 * K streams at once, merged by time; each pass of a loop opens the files again.
 *
 * Threads: created, started, stopped and destroyed by the main thread. In between, the reader's
 * thread owns the streams, the planners and the producers' sides of the rings; each worker owns the
 * consumer's side of its ring. It sleeps while a ring is full, which means that this worker has
 * work; whoever starves meanwhile gets what was planned for it. It ends by itself when everything
 * was read, on an error, and within a tenth of a second when `stop` is set or reader_stop is
 * called.
 *
 * Memory: for each worker chunk_ring.h's 4 MiB; for each copy of an overlay a stream (0.7 MiB per
 * open file) and a planner (0.3 MiB); counting flows, 256 MiB for READER_FLOWS_MAX of them (half as
 * much again while the set grows). None of it depends on the captures' length.
 */
#pragma once

#include "pipeline/chunk_ring.h"
#include "pipeline/planner.h"

enum { READER_FLOWS_MAX = 2 << 20 };

struct reader;

/*
 * Open the captures and read their first packets, so that what is wrong from the start is known.
 * config must outlive the reader. PIPELINE_EXIT_OK; INPUT with load->message, USAGE (a filter), RUN
 * or INTERRUPTED, with message (PIPELINE_MESSAGE_SIZE).
 */
enum pipeline_exit reader_create(struct reader **out, const struct pipeline_config *config,
	const atomic_bool *stop, char *message);
void reader_destroy(struct reader *reader); /* not while its thread runs; NULL is allowed */

/* 0 or -errno. */
int reader_start(struct reader *reader);
/* Wait until the thread has read ahead as far as it may, or will not read on; for about a second at
 * most: what comes through a pipe may come slowly. For the threads of workers. */
void reader_wait_until_ahead(const struct reader *reader);
/* Tell the thread to end and wait for it. What became of it, as for reader_create. */
enum pipeline_exit reader_stop(struct reader *reader, char *message);

/* What the workers need before they start: where time starts and the first packet's link type. The
 * rest once the thread has ended. One pass over the capture. */
const struct plan *reader_plan(const struct reader *reader);
/* What reading met, in the first pass; once the thread has ended. */
const struct traces_load_report *reader_report(const struct reader *reader);

/* Of stored bytes, all passes; total 0: unknown, and done counts packets. From any thread. */
void reader_progress(const struct reader *reader, uint64_t *done, uint64_t *total);

/* ---- for the workers ---- */

struct chunk_ring *reader_ring(struct reader *reader, unsigned int worker);
/* How often the reader had to wait for a worker to make room, up to now. */
uint64_t reader_pauses(const struct reader *reader);
/* When a ring is over: whether that is because reading failed. */
bool reader_failed(const struct reader *reader);
/* When a ring is over and reading did not fail: time at which timers stop. */
uint64_t reader_end_ns(const struct reader *reader);

/* Bytes that the chunks take. */
uint64_t reader_memory_bytes(const struct reader *reader);
