/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Batcher: rows of flows wait in a bounded queue until they make a batch that is worth a
 * submission, and every row is answered exactly once.
 *
 * A batch leaves when one of these holds, and fewer than batches_max are in flight:
 *
 *	full      as many rows wait as a batch may have (limit), or as a preferred size
 *	delay     the oldest row has waited delay_ns
 *	deadline  the row with the earliest deadline would miss it if it waited longer
 *	idle      idle_flush, and nothing is in flight
 *
 * Rows leave by earliest deadline, those without one behind the others; among equals the oldest
 * first. Of preferred sizes, the largest that can be filled is taken. limit is batch_max, or, with
 * a latency objective, moves between 1 and batch_max by additive increase and multiplicative
 * decrease (as in Clipper, Crankshaw et al., NSDI 2017): a batch whose oldest row was answered in
 * time raises it by limit_step, another cuts it by a tenth.
 *
 * When the queue is full a row is rejected (the newest or the oldest), or classified at once by a
 * back end on this CPU. A row whose deadline has passed before it left has expired.
 *
 * Time is an argument. Two ways to tell when a batch is done:
 *
 *	service_ns == GPU_OFFLOAD_SERVICE_REAL  when the back end says so
 *	any other                               that much after it left. The batcher waits for
 *	                                        the back end when that time has come, and events
 *	                                        happen in order at their own times: results do
 *	                                        not depend on this machine's speed or on how
 *	                                        often it is called.
 *
 * Books: in = answered + rejected + expired + failed + waiting.
 * A row is answered or given up within delay_ns and its service, unless batches_max are in flight.
 *
 * Threads: one owner. Memory: queue_max + batches_max * batch_max rows, all at create. Cost: a copy
 * of the row, a heap of queue_max entries, per row; a few compares per call.
 */
#pragma once

#include "base/arena.h"
#include "base/histogram.h"
#include "gpu_offload/backend.h"

#define GPU_OFFLOAD_SERVICE_REAL UINT64_MAX
#define GPU_OFFLOAD_NO_DEADLINE  UINT64_MAX

enum {
	GPU_OFFLOAD_PREFERRED_MAX = 8,
	GPU_OFFLOAD_QUEUE_MAX = 1 << 20,
};

/* When the queue is full. */
enum gpu_offload_full {
	GPU_OFFLOAD_FULL_DROP_NEWEST,
	GPU_OFFLOAD_FULL_DROP_OLDEST,
	GPU_OFFLOAD_FULL_CPU, /* the new row is classified at once, by config.classify */
	GPU_OFFLOAD_FULL_COUNT
};

/* Whose row it is. */
struct gpu_offload_ticket {
	uint32_t conn, generation;
	uint64_t flow_id;
	bool ended; /* the flow had ended when it was asked about: nobody waits */
};

enum gpu_offload_outcome {
	GPU_OFFLOAD_ANSWERED,
	GPU_OFFLOAD_REJECTED, /* for want of room */
	GPU_OFFLOAD_EXPIRED,  /* its deadline passed while it waited */
	GPU_OFFLOAD_FAILED,   /* the back end gave its batch up */
};

struct gpu_offload_answer {
	struct gpu_offload_ticket ticket;
	enum gpu_offload_outcome outcome;
	uint32_t label;                 /* of an answered one */
	uint64_t asked_ns, answered_ns; /* pushed; now known */
};

struct gpu_offload_batcher_config {
	uint32_t inputs; /* floats of a row */
	uint32_t batch_max, batches_max, queue_max;
	uint32_t preferred[GPU_OFFLOAD_PREFERRED_MAX]; /* rising, at most batch_max */
	uint32_t preferred_count;
	uint64_t delay_ns;
	uint64_t objective_ns; /* latency objective; 0: limit stays batch_max */
	uint32_t limit_step;   /* rows; 0: batch_max / 32, at least 1 */
	bool idle_flush;
	enum gpu_offload_full full;
	uint64_t service_ns;
	struct base_arena *arena;

	/* What runs batches, as gpu_offload_backend_submit and _poll. */
	int (*submit)(void *server, struct gpu_offload_batch *batch);
	uint32_t (*poll)(void *server, struct gpu_offload_batch *done[], uint32_t max);
	void *server;
	/* Called when nothing can be done before the back end has a batch done; NULL: polled. */
	void (*wait)(void *server);
	/* One row, now; GPU_OFFLOAD_FULL_CPU alone. 0 or -errno. */
	int (*classify)(void *server, const float *row, uint32_t *label);
	/* Every row comes back through this, once, from any call but create and destroy. Must not
	 * call back. */
	void (*answer)(void *context, const struct gpu_offload_answer *answer);
	void *answer_context;
};

/* All but the last two are counters. */
struct gpu_offload_batcher_stats {
	uint64_t in, answered, rejected, expired, failed;
	uint64_t on_cpu; /* of answered: at once, because the queue was full */
	uint64_t batches, full, delay, deadline, idle, final; /* why each left */
	uint64_t busy;          /* submissions that the back end put off */
	uint64_t late;          /* answered behind their deadline */
	uint64_t waited_max_ns; /* from push until the batch left */
	uint64_t waiting;       /* in the queue or in flight */
	uint32_t limit;
	struct base_histogram delay_ns; /* from push to answer */
};

struct gpu_offload_batcher;

/* server: the back end. Sets submit, poll, wait and server of a config. */
void gpu_offload_batcher_use(
	struct gpu_offload_batcher_config *config, struct gpu_offload_backend *backend);

/* -EINVAL: an impossible config; -ENOMEM. */
int gpu_offload_batcher_create(
	struct gpu_offload_batcher **out, const struct gpu_offload_batcher_config *config);
/* Rows that wait are forgotten: finish first. NULL is fine. */
void gpu_offload_batcher_destroy(struct gpu_offload_batcher *batcher);

/* Events up to now, then the row. deadline_ns: absolute, or GPU_OFFLOAD_NO_DEADLINE. */
void gpu_offload_batcher_push(struct gpu_offload_batcher *batcher,
	const struct gpu_offload_ticket *ticket, const float *row, uint64_t deadline_ns,
	uint64_t now_ns);

/* Everything that happens up to now_ns; time never runs backwards. */
void gpu_offload_batcher_advance(struct gpu_offload_batcher *batcher, uint64_t now_ns);

/* Send what waits and wait for all that is in flight. Afterwards waiting is 0. */
void gpu_offload_batcher_finish(struct gpu_offload_batcher *batcher, uint64_t now_ns);

/* Where inputs of all batches lie, for gpu_offload_backend_pin; a mapping of its own. */
void *gpu_offload_batcher_inputs(const struct gpu_offload_batcher *batcher, size_t *size);

void gpu_offload_batcher_stats(
	const struct gpu_offload_batcher *batcher, struct gpu_offload_batcher_stats *stats);
