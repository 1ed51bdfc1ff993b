/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/sharing.h"

#include "base/cycles.h"
#include "pipeline/infer.h"
#include "pipeline/sharing_lock.h"
#include "pipeline/worker.h"

#include <rte_pause.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ENTRIES_LIMIT = 1 << 28, POLLS_PER_YIELD = 64 };

/* One worker's place. */
struct seat {
	/* Its worker -> who runs timers: release in tell, acquire in least_horizon. */
	atomic_uint_least64_t horizon_ns BASE_ALIGNED(64);
	struct worker *worker;
	uint64_t end_ns; /* for whoever finishes; `left` orders it */
};

struct sharing {
	const struct pipeline_config *config;
	bool made; /* or tried in vain: */
	int error;
	char message[PIPELINE_MESSAGE_SIZE];
	struct base_arena *arena;
	struct sharing_lock lock BASE_ALIGNED(64);
	struct state state; /* the lock's */
	/* Every worker -> the last one, which finishes: acquire and release in sharing_finish. */
	atomic_uint_least32_t left BASE_ALIGNED(64);
	struct seat seats[PIPELINE_WORKERS_MAX];
};

const char *sharing_name(enum pipeline_sharing_kind kind)
{
	static const char *const names[PIPELINE_SHARING_KINDS_COUNT] = {
		[PIPELINE_SHARING_SHARD] = "shard",
		[PIPELINE_SHARING_MUTEX] = "mutex",
		[PIPELINE_SHARING_SPINLOCK] = "spinlock",
	};
	return (unsigned int)kind < PIPELINE_SHARING_KINDS_COUNT ? names[kind] : "?";
}

int sharing_create(struct sharing **out, const struct pipeline_config *config, bool huge)
{
	*out = NULL;
	if (config->sharing == PIPELINE_SHARING_SHARD)
		return 0;
	struct sharing *sharing = aligned_alloc(BASE_CACHE_LINE, sizeof(*sharing));
	if (sharing == NULL)
		return -ENOMEM;
	memset(sharing, 0, sizeof(*sharing));
	sharing->config = config;
	atomic_init(&sharing->left, 0);
	for (unsigned int i = 0; i < PIPELINE_WORKERS_MAX; i++)
		atomic_init(&sharing->seats[i].horizon_ns, 0);
	int error = sharing_lock_init(&sharing->lock, config->sharing == PIPELINE_SHARING_SPINLOCK);
	if (error == 0)
		error = base_arena_create(&sharing->arena, huge);
	if (error != 0) {
		sharing_lock_free(&sharing->lock);
		free(sharing);
		return error;
	}
	*out = sharing;
	return 0;
}

void sharing_destroy(struct sharing *sharing)
{
	if (sharing == NULL)
		return;
	state_release(&sharing->state);
	base_arena_destroy(sharing->arena);
	sharing_lock_free(&sharing->lock);
	free(sharing);
}

/* A worker that made room, or ran timers, may remove another one's connection. */
static void on_remove(void *context, uint32_t conn, void *user)
{
	struct sharing *sharing = context;
	if (sharing->config->infer.enabled) {
		const struct gpu_offload_flow *flow =
			(const void *)((uint8_t *)user + sharing->state.infer_offset);
		gpu_offload_stage_on_remove(sharing->seats[flow->owner].worker->infer, conn, user);
	}
	if (sharing->state.chain != NULL)
		chain_on_remove(sharing->state.chain, conn, user);
}

static void fill_state(struct sharing *sharing)
{
	const struct pipeline_config *config = sharing->config;
	uint64_t entries = (uint64_t)config->conntrack.entries_max * config->workers;
	const struct state_config state = {
		.config = config,
		.arena = sharing->arena,
		.entries_max = entries < ENTRIES_LIMIT ? (uint32_t)entries : ENTRIES_LIMIT,
		.nat_share = 0,
		.nat_shares = (uint16_t)config->workers,
		.nat_shares_all = (uint16_t)config->workers,
		.on_remove = on_remove,
		.on_remove_context = sharing,
	};
	int error = state_create_chain(&sharing->state, &state, sharing->message);
	if (error == 0)
		error = state_create_tracker(&sharing->state, &state, sharing->message);
	sharing->error = error;
	sharing->made = true;
}

int sharing_join(struct sharing *sharing, struct worker *worker)
{
	if (!sharing->made)
		fill_state(sharing);
	int error = sharing->error;
	if (error != 0)
		memcpy(worker->message, sharing->message, sizeof(worker->message));
	worker->sharing = sharing;
	worker->chain = sharing->state.chain;
	worker->tracker = sharing->state.tracker;
	sharing->seats[worker->index].worker = worker;
	if (error == 0 && sharing->config->infer.enabled) {
		error = infer_setup(worker);
		if (error == 0)
			gpu_offload_stage_attach(
				worker->infer, sharing->state.tracker, sharing->state.infer_offset);
	}
	worker->error = error;
	return error;
}

void sharing_enter(struct worker *worker)
{
	struct sharing *sharing = worker->sharing;
	sharing_lock_take(&sharing->lock, &worker->lock_waits);
	if (worker->translates)
		chain_use_share(sharing->state.chain, worker->index);
}

void sharing_leave(struct worker *worker)
{
	sharing_lock_release(&worker->sharing->lock);
}

static uint64_t least_horizon(const struct sharing *sharing)
{
	uint64_t least_ns = UINT64_MAX;
	for (uint32_t i = 0; i < sharing->config->workers; i++) {
		uint64_t horizon_ns =
			atomic_load_explicit(&sharing->seats[i].horizon_ns, memory_order_acquire);
		if (horizon_ns < least_ns)
			least_ns = horizon_ns;
	}
	return least_ns;
}

static void tell(struct worker *worker, uint64_t horizon_ns)
{
	atomic_store_explicit(&worker->sharing->seats[worker->index].horizon_ns, horizon_ns,
		memory_order_release);
}

/* Wait for those who are behind. The last of them never does. */
static void hold_back(struct worker *worker, uint64_t horizon_ns)
{
	const struct sharing *sharing = worker->sharing;
	uint64_t since = base_cycles(), slack_ns = sharing->config->conntrack.tick_ns;
	for (unsigned int polls = 1;; polls++) {
		uint64_t least_ns = least_horizon(sharing);
		if (least_ns >= horizon_ns || horizon_ns - least_ns <= slack_ns ||
			atomic_load_explicit(worker->shared->stop, memory_order_relaxed))
			break;
		if (polls % POLLS_PER_YIELD == 0)
			sched_yield();
		rte_pause();
	}
	worker->lock_waits.held_back_cycles += base_cycles() - since;
}

unsigned int sharing_advance(struct worker *worker, uint64_t horizon_ns, unsigned int looks)
{
	struct sharing *sharing = worker->sharing;
	uint64_t tick_ns = sharing->config->conntrack.tick_ns;
	tell(worker, horizon_ns);
	worker->looks += looks;
	/* The others may tell theirs meanwhile: no harm, timers run a little later then. */
	uint64_t least_ns = least_horizon(sharing);
	unsigned int removed = 0;
	if (least_ns - worker->timers_ns >= tick_ns || horizon_ns - worker->asked_ns >= tick_ns) {
		sharing_lock_take(&sharing->lock, &worker->lock_waits);
		removed = conntrack_advance(sharing->state.tracker, least_ns, worker->looks);
		worker->crowded = conntrack_is_crowded(sharing->state.tracker);
		sharing_lock_release(&sharing->lock);
		worker->timers_ns = least_ns;
		worker->asked_ns = horizon_ns;
		worker->looks = 0;
	}
	if (BASE_UNLIKELY(worker->crowded) && worker->shared->reader == NULL &&
		sharing->config->clock == PIPELINE_CLOCK_VIRTUAL)
		hold_back(worker, horizon_ns);
	return removed;
}

void sharing_leave_for_good(struct worker *worker)
{
	tell(worker, UINT64_MAX);
}

/* By the last worker, all others have finished; worker 0 speaks for all. */
static void finish_state(struct sharing *sharing)
{
	char message[256];
	struct worker *worker = sharing->seats[0].worker;
	struct conntrack *tracker = sharing->state.tracker;
	uint64_t end_ns = UINT64_MAX; /* where an interrupted run has been seen by all */
	for (uint32_t i = 0; i < sharing->config->workers; i++) {
		if (sharing->seats[i].end_ns < end_ns)
			end_ns = sharing->seats[i].end_ns;
	}
	conntrack_finish(tracker, end_ns);
	conntrack_stats(tracker, &worker->conntrack_stats);
	if (conntrack_check(tracker, message, sizeof(message)) != 0) {
		snprintf(worker->message, sizeof(worker->message), "connection table: %s", message);
		worker->error = -EUCLEAN;
	}
	for (uint32_t i = 0; i < worker->chain_count; i++)
		chain_function_stats(worker->chain, i, &worker->chain_stats[i]);
	worker->books.balanced &= worker_connections_balance(&worker->conntrack_stats);
	/* The digest counts removed connections: remove them all now. */
	(void)conntrack_purge(tracker, NULL, NULL);
	for (uint32_t i = 0; i < sharing->config->workers; i++)
		sharing->seats[i].worker->books.balanced &= infer_settle(sharing->seats[i].worker);
	if (worker->chain != NULL)
		worker->flow_digest = chain_flow_digest(worker->chain);
}

void sharing_finish(struct worker *worker)
{
	struct sharing *sharing = worker->sharing;
	/* Whoever stops a run does not want to wait for flows that are open still. */
	if (worker->infer != NULL && !worker->source->done &&
		sharing->config->source == PIPELINE_SOURCE_TRACE)
		gpu_offload_stage_hush(worker->infer);
	/* not done: interrupted, or a port */
	sharing->seats[worker->index].end_ns =
		worker->source->done ? worker->source->end_ns : worker->now_ns;
	if (atomic_fetch_add_explicit(&sharing->left, 1, memory_order_acq_rel) + 1 ==
		sharing->config->workers)
		finish_state(sharing);
}
