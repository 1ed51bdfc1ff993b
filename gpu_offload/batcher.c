/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/batcher.h"

#include "base/compiler.h"
#include "gpu_offload/batcher_private.h"

#include <errno.h>
#include <string.h>

/* Why a batch leaves. */
enum cause { CAUSE_NONE, CAUSE_FULL, CAUSE_DELAY, CAUSE_DEADLINE, CAUSE_IDLE, CAUSE_FINAL };

static bool is_virtual(const struct gpu_offload_batcher *batcher)
{
	return batcher->config.service_ns != GPU_OFFLOAD_SERVICE_REAL;
}

static uint64_t add_time(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void answer(struct gpu_offload_batcher *batcher, const struct gpu_offload_waiting *row,
	enum gpu_offload_outcome outcome, uint32_t label)
{
	struct gpu_offload_batcher_stats *stats = &batcher->stats;
	const struct gpu_offload_answer given = {
		.ticket = row->ticket,
		.outcome = outcome,
		.label = label,
		.asked_ns = row->asked_ns,
		.answered_ns = batcher->now_ns,
	};
	uint64_t *const counters[] = {
		[GPU_OFFLOAD_ANSWERED] = &stats->answered,
		[GPU_OFFLOAD_REJECTED] = &stats->rejected,
		[GPU_OFFLOAD_EXPIRED] = &stats->expired,
		[GPU_OFFLOAD_FAILED] = &stats->failed,
	};
	++*counters[outcome];
	if (outcome == GPU_OFFLOAD_ANSWERED) {
		base_histogram_add(&stats->delay_ns, batcher->now_ns - row->asked_ns);
		stats->late += batcher->now_ns > row->deadline_ns;
	}
	batcher->config.answer(batcher->config.answer_context, &given);
}

/* Additive increase, multiplicative decrease, on the age of a batch's oldest row. */
static void adapt(struct gpu_offload_batcher *batcher, uint64_t latency_ns)
{
	const struct gpu_offload_batcher_config *config = &batcher->config;
	if (config->objective_ns == 0)
		return;
	if (latency_ns > config->objective_ns) {
		uint32_t cut = batcher->limit / 10;
		batcher->limit -= cut > 0 ? cut : batcher->limit > 1;
		return;
	}
	batcher->limit += config->limit_step;
	if (batcher->limit > config->batch_max)
		batcher->limit = config->batch_max;
}

static void answer_batch(struct gpu_offload_batcher *batcher, struct gpu_offload_flight *flight)
{
	bool failed = flight->batch.status != 0;
	uint64_t oldest_ns = UINT64_MAX;
	for (uint32_t i = 0; i < flight->batch.count; i++) {
		const struct gpu_offload_waiting *row = &flight->rows[i];
		oldest_ns = row->asked_ns < oldest_ns ? row->asked_ns : oldest_ns;
		answer(batcher, row, failed ? GPU_OFFLOAD_FAILED : GPU_OFFLOAD_ANSWERED,
			flight->batch.labels[i]);
	}
	uint64_t service_ns = batcher->now_ns - flight->left_ns;
	batcher->service_ns = is_virtual(batcher) ? batcher->config.service_ns
						  : batcher->service_ns - batcher->service_ns / 8 +
							    service_ns / 8;
	flight->phase = GPU_OFFLOAD_FLIGHT_FREE;
	batcher->in_flight--;
	adapt(batcher, batcher->now_ns - oldest_ns);
}

/* ---- what the back end does ----------------------------------------------------------------- */

static uint32_t poll_server(struct gpu_offload_batcher *batcher)
{
	struct gpu_offload_batch *done[16];
	uint32_t count = batcher->config.poll(batcher->config.server, done, BASE_ARRAY_COUNT(done));
	for (uint32_t i = 0; i < count; i++) {
		struct gpu_offload_flight *flight = done[i]->user;
		BASE_ASSERT(flight->phase == GPU_OFFLOAD_FLIGHT_OUT);
		flight->phase = GPU_OFFLOAD_FLIGHT_DONE;
	}
	return count;
}

/* Nothing can be done before the back end has a batch done. */
static void wait_for_server(struct gpu_offload_batcher *batcher)
{
	if (poll_server(batcher) == 0 && batcher->config.wait != NULL)
		batcher->config.wait(batcher->config.server);
}

/* The batch that left first of those in flight; NULL: none. */
static struct gpu_offload_flight *first_flight(const struct gpu_offload_batcher *batcher)
{
	struct gpu_offload_flight *first = NULL;
	for (uint32_t i = 0; i < batcher->config.batches_max; i++) {
		struct gpu_offload_flight *flight = &batcher->flights[i];
		if (flight->phase != GPU_OFFLOAD_FLIGHT_FREE &&
			(first == NULL || flight->number < first->number))
			first = flight;
	}
	return first;
}

/* Batches whose answers are due. In virtual time they come in the order they left. */
static bool complete(struct gpu_offload_batcher *batcher)
{
	bool any = false;
	if (batcher->in_flight == 0)
		return false;
	(void)poll_server(batcher);
	if (is_virtual(batcher)) {
		struct gpu_offload_flight *flight = first_flight(batcher);
		if (flight->due_ns > batcher->now_ns)
			return false;
		while (flight->phase == GPU_OFFLOAD_FLIGHT_OUT)
			wait_for_server(batcher);
		answer_batch(batcher, flight);
		return true;
	}
	for (uint32_t i = 0; i < batcher->config.batches_max; i++) {
		if (batcher->flights[i].phase == GPU_OFFLOAD_FLIGHT_DONE) {
			answer_batch(batcher, &batcher->flights[i]);
			any = true;
		}
	}
	return any;
}

/* ---- leaving -------------------------------------------------------------------------------- */

/* Rows of the next batch if it leaves now. */
static uint32_t batch_size(const struct gpu_offload_batcher *batcher)
{
	const struct gpu_offload_batcher_config *config = &batcher->config;
	uint32_t most =
		batcher->queue.count < batcher->limit ? batcher->queue.count : batcher->limit;
	for (uint32_t i = config->preferred_count; i > 0; i--) {
		if (config->preferred[i - 1] <= most)
			return config->preferred[i - 1];
	}
	return most;
}

static bool is_full(const struct gpu_offload_batcher *batcher)
{
	const struct gpu_offload_batcher_config *config = &batcher->config;
	uint32_t count = batcher->queue.count;
	return count >= batcher->limit ||
	       (config->preferred_count > 0 && count >= config->preferred[0]);
}

/* When the next batch would leave by itself, and why; UINT64_MAX: not before something changes. */
static uint64_t leaves_at(const struct gpu_offload_batcher *batcher, enum cause *cause)
{
	const struct gpu_offload_queue *queue = &batcher->queue;
	*cause = CAUSE_NONE;
	if (queue->count == 0 || batcher->in_flight == batcher->config.batches_max)
		return UINT64_MAX;
	*cause = CAUSE_FULL;
	if (is_full(batcher))
		return batcher->now_ns;
	*cause = CAUSE_IDLE;
	if (batcher->config.idle_flush && batcher->in_flight == 0)
		return batcher->now_ns;
	*cause = CAUSE_DELAY;
	uint64_t at_ns =
		add_time(gpu_offload_queue_oldest(queue)->asked_ns, batcher->config.delay_ns);
	uint64_t deadline_ns = gpu_offload_queue_first(queue)->deadline_ns;
	if (deadline_ns == GPU_OFFLOAD_NO_DEADLINE)
		return at_ns;
	uint64_t last_ns =
		deadline_ns > batcher->service_ns ? deadline_ns - batcher->service_ns : 0;
	if (last_ns >= at_ns)
		return at_ns;
	*cause = CAUSE_DEADLINE;
	return last_ns;
}

static void count_cause(struct gpu_offload_batcher *batcher, enum cause cause)
{
	struct gpu_offload_batcher_stats *stats = &batcher->stats;
	stats->batches++;
	stats->full += cause == CAUSE_FULL;
	stats->delay += cause == CAUSE_DELAY;
	stats->deadline += cause == CAUSE_DEADLINE;
	stats->idle += cause == CAUSE_IDLE;
	stats->final += cause == CAUSE_FINAL;
}

static struct gpu_offload_flight *free_flight(struct gpu_offload_batcher *batcher)
{
	for (uint32_t i = 0; i < batcher->config.batches_max; i++) {
		if (batcher->flights[i].phase == GPU_OFFLOAD_FLIGHT_FREE)
			return &batcher->flights[i];
	}
	return NULL;
}

/* Move rows from the queue into a flight. */
static void load_flight(
	struct gpu_offload_batcher *batcher, struct gpu_offload_flight *flight, uint32_t count)
{
	size_t inputs = batcher->config.inputs;
	for (uint32_t i = 0; i < count; i++) {
		const struct gpu_offload_waiting *row = gpu_offload_queue_first(&batcher->queue);
		uint64_t waited_ns = batcher->now_ns - row->asked_ns;
		if (waited_ns > batcher->stats.waited_max_ns)
			batcher->stats.waited_max_ns = waited_ns;
		flight->rows[i] = *row;
		memcpy(flight->inputs + i * inputs, gpu_offload_queue_row(&batcher->queue, row),
			inputs * sizeof(float));
		gpu_offload_queue_remove(&batcher->queue, row);
	}
	flight->batch = (struct gpu_offload_batch){
		.count = count,
		.inputs = flight->inputs,
		.labels = flight->labels,
		.user = flight,
	};
	flight->left_ns = batcher->now_ns;
	flight->due_ns = add_time(batcher->now_ns, batcher->config.service_ns);
	flight->number = batcher->next_number++;
}

/* Hand a loaded flight over. The back end may be busy with batches of others. */
static void submit(struct gpu_offload_batcher *batcher, struct gpu_offload_flight *flight)
{
	int error;
	flight->phase = GPU_OFFLOAD_FLIGHT_OUT;
	batcher->in_flight++;
	while ((error = batcher->config.submit(batcher->config.server, &flight->batch)) ==
		-EAGAIN) {
		batcher->stats.busy++;
		wait_for_server(batcher);
	}
	if (error != 0) { /* refused: nobody will give it back */
		flight->batch.status = error;
		flight->phase = GPU_OFFLOAD_FLIGHT_DONE;
	}
}

static bool send(struct gpu_offload_batcher *batcher)
{
	enum cause cause;
	if (leaves_at(batcher, &cause) > batcher->now_ns)
		return false;
	struct gpu_offload_flight *flight = free_flight(batcher);
	load_flight(batcher, flight, batch_size(batcher));
	count_cause(batcher, cause);
	submit(batcher, flight);
	return true;
}

/* Rows that are too late already. */
static bool expire(struct gpu_offload_batcher *batcher)
{
	bool any = false;
	while (batcher->queue.count > 0) {
		const struct gpu_offload_waiting *row = gpu_offload_queue_first(&batcher->queue);
		if (row->deadline_ns >= batcher->now_ns)
			break;
		answer(batcher, row, GPU_OFFLOAD_EXPIRED, 0);
		gpu_offload_queue_remove(&batcher->queue, row);
		any = true;
	}
	return any;
}

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When something happens next in virtual time. */
static uint64_t next_event(const struct gpu_offload_batcher *batcher)
{
	enum cause cause;
	uint64_t at_ns = leaves_at(batcher, &cause);
	if (batcher->in_flight > 0)
		at_ns = earlier(at_ns, first_flight(batcher)->due_ns);
	if (batcher->queue.count > 0)
		at_ns = earlier(
			at_ns, add_time(gpu_offload_queue_first(&batcher->queue)->deadline_ns, 1));
	return at_ns;
}

void gpu_offload_batcher_advance(struct gpu_offload_batcher *batcher, uint64_t now_ns)
{
	bool any = true;
	if (now_ns < batcher->now_ns)
		now_ns = batcher->now_ns;
	while (any) {
		uint64_t at_ns = is_virtual(batcher) ? next_event(batcher) : now_ns;
		if (at_ns > now_ns)
			break;
		if (at_ns > batcher->now_ns)
			batcher->now_ns = at_ns;
		any = complete(batcher);
		any |= expire(batcher);
		any |= send(batcher);
	}
	batcher->now_ns = now_ns;
}

static bool make_room(struct gpu_offload_batcher *batcher, const struct gpu_offload_waiting *row,
	const float *values)
{
	uint32_t label = 0;
	if (batcher->config.full == GPU_OFFLOAD_FULL_DROP_OLDEST) {
		const struct gpu_offload_waiting *oldest =
			gpu_offload_queue_oldest(&batcher->queue);
		answer(batcher, oldest, GPU_OFFLOAD_REJECTED, 0);
		gpu_offload_queue_remove(&batcher->queue, oldest);
		return true;
	}
	if (batcher->config.full == GPU_OFFLOAD_FULL_DROP_NEWEST) {
		answer(batcher, row, GPU_OFFLOAD_REJECTED, 0);
		return false;
	}
	bool failed = batcher->config.classify(batcher->config.server, values, &label) != 0;
	batcher->stats.on_cpu += !failed;
	answer(batcher, row, failed ? GPU_OFFLOAD_FAILED : GPU_OFFLOAD_ANSWERED, label);
	return false;
}

void gpu_offload_batcher_push(struct gpu_offload_batcher *batcher,
	const struct gpu_offload_ticket *ticket, const float *row, uint64_t deadline_ns,
	uint64_t now_ns)
{
	gpu_offload_batcher_advance(batcher, now_ns);
	const struct gpu_offload_waiting waiting = {
		.ticket = *ticket,
		.asked_ns = batcher->now_ns,
		.deadline_ns = deadline_ns,
	};
	batcher->stats.in++;
	if (batcher->queue.count == batcher->config.queue_max && !make_room(batcher, &waiting, row))
		return;
	gpu_offload_queue_add(&batcher->queue, &waiting, row);
	gpu_offload_batcher_advance(batcher, batcher->now_ns);
}

void gpu_offload_batcher_finish(struct gpu_offload_batcher *batcher, uint64_t now_ns)
{
	gpu_offload_batcher_advance(batcher, now_ns);
	while (batcher->queue.count > 0 || batcher->in_flight > 0) {
		if (expire(batcher))
			continue;
		if (batcher->queue.count > 0 && batcher->in_flight < batcher->config.batches_max) {
			struct gpu_offload_flight *flight = free_flight(batcher);
			load_flight(batcher, flight, batch_size(batcher));
			count_cause(batcher, CAUSE_FINAL);
			submit(batcher, flight);
			continue;
		}
		if (is_virtual(batcher))
			batcher->now_ns = first_flight(batcher)->due_ns;
		if (!complete(batcher) && !is_virtual(batcher))
			wait_for_server(batcher);
	}
}

void gpu_offload_batcher_stats(
	const struct gpu_offload_batcher *batcher, struct gpu_offload_batcher_stats *stats)
{
	*stats = batcher->stats;
	stats->limit = batcher->limit;
	stats->waiting =
		stats->in - stats->answered - stats->rejected - stats->expired - stats->failed;
}
