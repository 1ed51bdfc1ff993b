/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/reader.h"

#include <rte_pause.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum {
	SPINS = 64,       /* looks at a full ring before the first sleep */
	PAUSE_NS = 50000, /* a full ring holds ten times as much work */
	AHEAD_WAIT_NS = 200000,
	AHEAD_WAITS_MAX = 5000, /* a second */
};

/* One copy of the capture being read. */
struct cursor {
	uint64_t time_ns; /* of the packet under it, on the run's time line */
	uint32_t copy;
	bool ended;
	uint64_t pass;
	uint64_t offset_ns; /* pass * period + copy * shift */
	struct reader *reader;
	struct traces_packets *packets; /* NULL between passes */
	struct planner *planner;
	struct traces_batch batch;
	size_t batch_next; /* first packet of the batch that is not planned */
	/* what is planned and not yet handed on */
	const struct traces_record *records;
	unsigned int at, planned;
	struct planner_step steps[PLANNER_BATCH];
	struct plan plan;                 /* of the first pass */
	struct traces_load_report report; /* of the pass at hand */
};

struct reader {
	const struct pipeline_config *config;
	const atomic_bool *stop; /* the user's; partner: the signal handler's store */
	atomic_bool cancelled;   /* by reader_stop, relaxed: nothing is read behind it */
	pthread_t thread;
	bool running;

	/* the reader's own */
	struct cursor **heap; /* by (time, copy); those that have ended are behind heap_count */
	uint32_t heap_count;
	struct cursor *cursors; /* one per copy */
	struct chunk *open[PIPELINE_WORKERS_MAX];
	struct traces_load_report report; /* of the first pass of copy 0 */
	uint64_t packets_read;            /* of copy 0, all passes */
	enum pipeline_exit exit;
	char message[PIPELINE_MESSAGE_SIZE];

	/* written before the rings end, read behind chunk_ring_is_over */
	bool failed;
	uint64_t end_ns;

	/* relaxed, no partner: figures that may lag */
	atomic_uint_least64_t pauses;
	atomic_uint_least64_t done, total;
	/* reader -> workers: release in tell_ahead, acquire in reader_wait_until_ahead */
	atomic_bool ahead;

	struct chunk_ring rings[PIPELINE_WORKERS_MAX];
};

static bool must_end(const struct reader *reader)
{
	/* relaxed: hints, nothing is read behind them */
	return atomic_load_explicit(reader->stop, memory_order_relaxed) ||
	       atomic_load_explicit(&reader->cancelled, memory_order_relaxed);
}

/* Remember what ended the reader; returns error. */
static int fail(struct reader *reader, enum pipeline_exit exit, int error, const char *message)
{
	reader->exit = error == -EINTR ? PIPELINE_EXIT_INTERRUPTED : exit;
	snprintf(reader->message, sizeof(reader->message), "%s",
		message[0] != '\0' ? message : strerror(-error));
	return error;
}

/* ---- cursors ---- */

static void show_read(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct cursor *cursor = context;
	struct reader *reader = cursor->reader;
	uint64_t total = total_bytes * reader->config->loops;
	uint64_t done = total == 0 ? reader->packets_read : cursor->pass * total_bytes + done_bytes;
	atomic_store_explicit(&reader->total, total, memory_order_relaxed);
	atomic_store_explicit(&reader->done, done, memory_order_relaxed);
}

/* Open the files for the cursor's next pass. */
static int cursor_open(struct cursor *cursor)
{
	struct reader *reader = cursor->reader;
	const struct pipeline_config *config = reader->config;
	struct traces_load_options options;
	char message[PIPELINE_MESSAGE_SIZE] = "";
	traces_load_options_defaults(&options);
	options.merge = !config->concatenate;
	options.packets_max = config->packets_max;
	options.stop = reader->stop;
	if (cursor->copy == 0) {
		options.progress = show_read;
		options.progress_context = cursor;
	}
	int error = traces_packets_open_files(
		&cursor->packets, config->paths, config->paths_count, &options, &cursor->report);
	if (error != 0)
		return fail(reader, PIPELINE_EXIT_INPUT, error, cursor->report.message);
	uint64_t flows_max = cursor->copy == 0 && cursor->pass == 0 ? READER_FLOWS_MAX : 0;
	error = planner_create(&cursor->planner, config, flows_max, message);
	if (error != 0)
		return fail(reader, error == -EINVAL ? PIPELINE_EXIT_USAGE : PIPELINE_EXIT_RUN,
			error, message);
	cursor->offset_ns =
		cursor->pass * cursor->plan.period_ns + cursor->copy * config->overlay_shift_ns;
	return 0;
}

static void cursor_close(struct cursor *cursor)
{
	traces_packets_destroy(cursor->packets);
	planner_destroy(cursor->planner);
	cursor->packets = NULL;
	cursor->planner = NULL;
}

/* What a pass was, once it is over or the reader stops in it. */
static int cursor_sum_up(struct cursor *cursor)
{
	struct reader *reader = cursor->reader;
	struct plan plan;
	char message[PIPELINE_MESSAGE_SIZE];
	planner_summary(cursor->planner, &plan);
	if (cursor->pass == 0) {
		cursor->plan = plan;
		if (cursor->copy == 0)
			reader->report = cursor->report;
		return 0;
	}
	if (plan.packets == cursor->plan.packets && plan.duration_ns == cursor->plan.duration_ns &&
		plan.captured_bytes == cursor->plan.captured_bytes)
		return 0;
	snprintf(message, sizeof(message),
		"%.300s: changed while it was replayed: %" PRIu64 " packets in pass %" PRIu64
		", %" PRIu64 " in the first",
		reader->config->paths_count == 1 ? reader->config->paths[0] : "captures",
		plan.packets, cursor->pass + 1, cursor->plan.packets);
	return fail(reader, PIPELINE_EXIT_INPUT, -EIO, message);
}

static void feed_the_hungry(struct reader *reader);

/* Plan the next few packets; `planned` stays 0 at the end of the pass. */
static int cursor_plan(struct cursor *cursor)
{
	struct reader *reader = cursor->reader;
	cursor->at = cursor->planned = 0;
	if (cursor->batch_next == cursor->batch.count) {
		feed_the_hungry(reader); /* reading on may take long */
		cursor->batch_next = 0;
		int error = traces_packets_next(cursor->packets, &cursor->batch);
		if (error != 0)
			return fail(reader, PIPELINE_EXIT_INPUT, error,
				traces_packets_message(cursor->packets));
		if (cursor->copy == 0)
			reader->packets_read += cursor->batch.count;
	}
	size_t rest = cursor->batch.count - cursor->batch_next;
	unsigned int count = rest < PLANNER_BATCH ? (unsigned int)rest : PLANNER_BATCH;
	cursor->records = cursor->batch.records + cursor->batch_next;
	int error = planner_plan(
		cursor->planner, cursor->records, cursor->batch.bytes, count, cursor->steps);
	if (error != 0)
		return fail(reader, PIPELINE_EXIT_RUN, error, "planning");
	cursor->planned = count;
	cursor->batch_next += count;
	return 0;
}

/* Make a packet stand under the cursor, if need be of the next pass. */
static int cursor_refill(struct cursor *cursor)
{
	const struct pipeline_config *config = cursor->reader->config;
	for (;;) {
		int error = cursor_plan(cursor);
		if (error != 0 || cursor->planned > 0)
			return error;
		error = cursor_sum_up(cursor);
		cursor_close(cursor);
		cursor->pass++;
		cursor->ended = cursor->pass == config->loops || cursor->plan.packets == 0;
		if (error == 0 && !cursor->ended)
			error = cursor_open(cursor);
		if (error != 0 || cursor->ended)
			return error;
	}
}

/* ---- the heap of cursors ---- */

static bool cursor_before(const struct cursor *a, const struct cursor *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->copy < b->copy);
}

static void heap_sift_down(struct reader *reader)
{
	struct cursor **heap = reader->heap;
	struct cursor *moving = heap[0];
	uint32_t hole = 0;
	for (;;) {
		uint32_t child = 2 * hole + 1;
		if (child >= reader->heap_count)
			break;
		if (child + 1 < reader->heap_count && cursor_before(heap[child + 1], heap[child]))
			child++;
		if (!cursor_before(heap[child], moving))
			break;
		heap[hole] = heap[child];
		hole = child;
	}
	heap[hole] = moving;
}

/* Who comes behind the first; NULL when it is alone. */
static const struct cursor *heap_second(const struct reader *reader)
{
	struct cursor *const *heap = reader->heap;
	if (reader->heap_count < 2)
		return NULL;
	return reader->heap_count > 2 && cursor_before(heap[2], heap[1]) ? heap[2] : heap[1];
}

/* ---- handing on ---- */

/* A worker that has emptied its ring gets the chunk that is being filled for it; and one for which
 * there is nothing learns how far time has come, lest it keeps waiting for earlier packets. */
static void feed_the_hungry(struct reader *reader)
{
	for (uint32_t i = 0; i < reader->config->workers; i++) {
		struct chunk_ring *ring = &reader->rings[i];
		if (reader->open[i] != NULL && chunk_ring_is_hungry(ring)) {
			chunk_ring_publish(ring);
			reader->open[i] = NULL;
		}
		if (reader->open[i] == NULL && reader->heap_count > 0)
			chunk_ring_reach(ring, reader->heap[0]->time_ns);
	}
}

static void tell_ahead(struct reader *reader)
{
	/* release: pairs with the acquire load in reader_wait_until_ahead */
	atomic_store_explicit(&reader->ahead, true, memory_order_release);
}

/* Wait until the worker has made room. A full ring is work to do, so that it will; the others are
 * looked after meanwhile. NULL when the reader is to end. */
static struct chunk *wait_for_room(struct reader *reader, unsigned int worker)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t pauses = atomic_load_explicit(&reader->pauses, memory_order_relaxed);
	atomic_store_explicit(&reader->pauses, pauses + 1, memory_order_relaxed);
	tell_ahead(reader);
	for (unsigned int spins = 0; !must_end(reader); spins++) {
		struct chunk *chunk = chunk_ring_open(&reader->rings[worker]);
		if (chunk != NULL)
			return chunk;
		feed_the_hungry(reader);
		if (spins < SPINS)
			rte_pause();
		else
			nanosleep(&pause, NULL);
	}
	return NULL;
}

/* A chunk of the worker's with room for the frame; NULL when the reader is to end. */
static struct chunk *find_room(struct reader *reader, unsigned int worker, uint32_t cap_len)
{
	struct chunk *chunk = reader->open[worker];
	if (BASE_LIKELY(chunk != NULL && chunk_has_room(chunk, cap_len)))
		return chunk;
	if (chunk != NULL)
		chunk_ring_publish(&reader->rings[worker]);
	chunk = chunk_ring_open(&reader->rings[worker]);
	if (chunk == NULL) {
		reader->open[worker] = NULL;
		chunk = wait_for_room(reader, worker);
	}
	reader->open[worker] = chunk;
	return chunk;
}

/* Hand on what is planned of the first cursor while no other is due. */
static int hand_on(struct reader *reader, struct cursor *cursor)
{
	const struct pipeline_config *config = reader->config;
	const struct cursor *second = heap_second(reader);
	uint64_t number =
		config->loop_shift ? cursor->pass * config->overlay + cursor->copy : cursor->copy;
	do {
		const struct planner_step *step = &cursor->steps[cursor->at];
		const struct traces_record *record = &cursor->records[cursor->at];
		struct chunk_packet packet = {
			.time_ns = cursor->time_ns,
			.cap_len = record->cap_len,
			.wire_len = record->wire_len,
			.number = (uint32_t)number,
			.flags = step->flags,
			.link = record->link,
			.interface = record->interface,
		};
		struct chunk *chunk = find_room(reader, step->worker, record->cap_len);
		if (chunk == NULL)
			return -EINTR;
		chunk_add(chunk, &packet, cursor->batch.bytes + record->offset);
		if (++cursor->at == cursor->planned)
			return 0;
		cursor->time_ns = cursor->steps[cursor->at].time_ns + cursor->offset_ns;
	} while (second == NULL || cursor_before(cursor, second));
	return 0;
}

static int read_all(struct reader *reader)
{
	while (reader->heap_count > 0) {
		struct cursor *cursor = reader->heap[0];
		int error = must_end(reader) ? -EINTR : hand_on(reader, cursor);
		if (error == 0 && cursor->at == cursor->planned)
			error = cursor_refill(cursor);
		if (error != 0)
			return error;
		if (cursor->ended)
			reader->heap[0] = reader->heap[--reader->heap_count];
		else
			cursor->time_ns = cursor->steps[cursor->at].time_ns + cursor->offset_ns;
		if (reader->heap_count > 1)
			heap_sift_down(reader);
	}
	return 0;
}

static void finish_rings(struct reader *reader)
{
	for (uint32_t i = 0; i < reader->config->workers; i++)
		chunk_ring_finish(&reader->rings[i], reader->open[i] != NULL);
}

static void *reader_thread(void *context)
{
	struct reader *reader = context;
	int error = read_all(reader);
	if (error == -EINTR) {
		/* The workers have been told to end as well, or have ended. */
		reader->exit = PIPELINE_EXIT_INTERRUPTED;
	} else {
		reader->failed = error != 0;
		reader->end_ns = plan_end_ns(&reader->cursors[0].plan, reader->config);
		finish_rings(reader);
	}
	tell_ahead(reader);
	return NULL;
}

/* ---- life cycle ---- */

/* Files that are read one after the other: a missing one is better known before the first. With a
 * limit they may never be reached. */
static int probe_files(struct reader *reader)
{
	const struct pipeline_config *config = reader->config;
	struct traces_load_report report;
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.stop = reader->stop;
	if (!config->concatenate || config->packets_max != 0)
		return 0;
	for (size_t i = 1; i < config->paths_count; i++) {
		struct traces_packets *packets;
		struct stat status;
		if (stat(config->paths[i], &status) == 0 && !S_ISREG(status.st_mode))
			continue;
		int error = traces_packets_open(&packets, config->paths[i], &options, &report);
		if (error != 0)
			return fail(reader, PIPELINE_EXIT_INPUT, error, report.message);
		traces_packets_destroy(packets);
	}
	return 0;
}

static int start_cursors(struct reader *reader)
{
	uint32_t count = reader->config->overlay;
	for (uint32_t copy = 0; copy < count; copy++) {
		struct cursor *cursor = &reader->cursors[copy];
		cursor->reader = reader;
		cursor->copy = copy;
		int error = cursor_open(cursor);
		if (error == 0 && copy == 0)
			error = probe_files(reader);
		if (error == 0)
			error = cursor_refill(cursor);
		if (error != 0)
			return error;
		if (cursor->ended)
			continue;
		/* Copies start in order of time and number: already a heap. */
		cursor->time_ns = cursor->steps[0].time_ns + cursor->offset_ns;
		reader->heap[reader->heap_count++] = cursor;
	}
	return 0;
}

static int allocate(struct reader *reader)
{
	const struct pipeline_config *config = reader->config;
	reader->cursors = calloc(config->overlay, sizeof(struct cursor));
	reader->heap = calloc(config->overlay, sizeof(struct cursor *));
	int error = reader->cursors == NULL || reader->heap == NULL ? -ENOMEM : 0;
	for (uint32_t i = 0; i < config->workers && error == 0; i++)
		error = chunk_ring_create(&reader->rings[i]);
	return error == 0 ? 0 : fail(reader, PIPELINE_EXIT_RUN, error, "out of memory");
}

enum pipeline_exit reader_create(struct reader **out, const struct pipeline_config *config,
	const atomic_bool *stop, char *message)
{
	struct reader *reader = aligned_alloc(BASE_CACHE_LINE, sizeof(*reader));
	if (reader == NULL) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "out of memory");
		return PIPELINE_EXIT_RUN;
	}
	memset(reader, 0, sizeof(*reader));
	reader->config = config;
	reader->stop = stop;
	reader->exit = PIPELINE_EXIT_OK;
	int error = allocate(reader);
	if (error == 0)
		error = start_cursors(reader);
	if (error == 0) {
		/* What is known of the start; the rest comes with the end of the first pass. */
		if (reader->heap_count > 0)
			planner_summary(reader->cursors[0].planner, &reader->cursors[0].plan);
		*out = reader;
		return PIPELINE_EXIT_OK;
	}
	enum pipeline_exit exit = reader->exit;
	snprintf(message, PIPELINE_MESSAGE_SIZE, "%s", reader->message);
	reader_destroy(reader);
	return exit;
}

void reader_destroy(struct reader *reader)
{
	if (reader == NULL)
		return;
	BASE_ASSERT(!reader->running);
	for (uint32_t i = 0; i < reader->config->overlay && reader->cursors != NULL; i++)
		cursor_close(&reader->cursors[i]);
	for (uint32_t i = 0; i < PIPELINE_WORKERS_MAX; i++)
		chunk_ring_destroy(&reader->rings[i]);
	free(reader->cursors);
	free(reader->heap);
	free(reader);
}

int reader_start(struct reader *reader)
{
	int error = pthread_create(&reader->thread, NULL, reader_thread, reader);
	reader->running = error == 0;
	if (error == 0)
		(void)pthread_setname_np(reader->thread, "sheaf-reader");
	return -error;
}

void reader_wait_until_ahead(const struct reader *reader)
{
	const struct timespec pause = { .tv_nsec = AHEAD_WAIT_NS };
	/* acquire: pairs with the release store in tell_ahead */
	for (unsigned int waits = 0; waits < AHEAD_WAITS_MAX && !must_end(reader) &&
				     !atomic_load_explicit(&reader->ahead, memory_order_acquire);
		waits++)
		nanosleep(&pause, NULL);
}

enum pipeline_exit reader_stop(struct reader *reader, char *message)
{
	struct cursor *first = &reader->cursors[0];
	atomic_store_explicit(&reader->cancelled, true, memory_order_relaxed);
	if (reader->running)
		pthread_join(reader->thread, NULL);
	reader->running = false;
	if (first->pass == 0 && first->planner != NULL) { /* it was stopped in there */
		planner_summary(first->planner, &first->plan);
		reader->report = first->report;
	}
	if (reader->exit != PIPELINE_EXIT_OK && reader->message[0] != '\0')
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s", reader->message);
	return reader->exit;
}

const struct plan *reader_plan(const struct reader *reader)
{
	return &reader->cursors[0].plan;
}

const struct traces_load_report *reader_report(const struct reader *reader)
{
	return &reader->report;
}

void reader_progress(const struct reader *reader, uint64_t *done, uint64_t *total)
{
	*done = atomic_load_explicit(&reader->done, memory_order_relaxed);
	*total = atomic_load_explicit(&reader->total, memory_order_relaxed);
}

struct chunk_ring *reader_ring(struct reader *reader, unsigned int worker)
{
	return &reader->rings[worker];
}

uint64_t reader_pauses(const struct reader *reader)
{
	return atomic_load_explicit(&reader->pauses, memory_order_relaxed);
}

bool reader_failed(const struct reader *reader)
{
	return reader->failed;
}

uint64_t reader_end_ns(const struct reader *reader)
{
	return reader->end_ns;
}

uint64_t reader_memory_bytes(const struct reader *reader)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < reader->config->workers; i++)
		bytes += reader->rings[i].memory_bytes;
	return bytes;
}
