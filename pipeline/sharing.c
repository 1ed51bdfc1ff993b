/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/sharing.h"

#include "base/cycles.h"
#include "pipeline/collect.h"
#include "pipeline/infer.h"
#include "pipeline/schedule.h"
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

/* Connections that are locked together. */
struct part {
	struct sharing_lock lock BASE_ALIGNED(64);
	struct state state;
	struct sharing *sharing;
	/* handover: what this group's next owner gets, and who had it; else NULL, unused */
	struct order_check *order;
	uint32_t owner;
};

struct sharing {
	const struct pipeline_config *config;
	bool made; /* or tried in vain: */
	int error;
	char message[PIPELINE_MESSAGE_SIZE];
	struct base_arena *arena;
	const struct chain_nat_config *nat; /* NULL: the chain has none */
	bool moves;                         /* handover */
	struct handover handover;
	uint32_t parts_count;
	struct part parts[SHARING_GROUPS];
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
		[PIPELINE_SHARING_BUCKET_LOCK] = "bucket_lock",
		[PIPELINE_SHARING_HANDOVER] = "handover",
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
	sharing->moves = config->sharing == PIPELINE_SHARING_HANDOVER;
	handover_init(&sharing->handover, config->workers);
	bool groups = sharing->moves || config->sharing == PIPELINE_SHARING_BUCKET_LOCK;
	sharing->parts_count = groups ? SHARING_GROUPS : 1;
	for (uint32_t i = 0; i < config->chain.functions_count; i++) {
		if (config->chain.functions[i].kind == CHAIN_NAT)
			sharing->nat = &config->chain.functions[i].nat;
	}
	for (uint32_t i = 0; i < sharing->parts_count; i++) {
		sharing->parts[i].sharing = sharing;
		sharing->parts[i].owner = handover_owner(i, 0, config->workers);
		/* Those of glibc cannot fail with default attributes. */
		(void)sharing_lock_init(
			&sharing->parts[i].lock, config->sharing != PIPELINE_SHARING_MUTEX);
	}
	int error = base_arena_create(&sharing->arena, huge);
	if (error != 0) {
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
	for (uint32_t i = sharing->parts_count; i-- > 0;) { /* the first lends its tables */
		state_release(&sharing->parts[i].state);
		if (sharing->parts[i].order != NULL)
			base_arena_free(sharing->arena, sharing->parts[i].order,
				sizeof(*sharing->parts[i].order));
		sharing_lock_free(&sharing->parts[i].lock);
	}
	base_arena_destroy(sharing->arena);
	free(sharing);
}

/* A worker that made room, or ran timers, may remove another one's connection. */
static void on_remove(void *context, uint32_t conn, void *user)
{
	struct part *part = context;
	struct sharing *sharing = part->sharing;
	if (sharing->config->infer.enabled) {
		const struct gpu_offload_flow *flow =
			(const void *)((uint8_t *)user + part->state.infer_offset);
		gpu_offload_stage_on_remove(sharing->seats[flow->owner].worker->infer, conn, user);
	}
	if (part->state.chain != NULL)
		chain_on_remove(part->state.chain, conn, user);
}

/* Room in each part: hashes do not spread connections evenly. */
static uint32_t entries(const struct sharing *sharing)
{
	const struct pipeline_config *config = sharing->config;
	uint64_t all = (uint64_t)config->conntrack.entries_max * config->workers;
	uint64_t each = all / sharing->parts_count;
	if (sharing->parts_count > 1)
		each += each / 4 + 64;
	return each < ENTRIES_LIMIT ? (uint32_t)each : ENTRIES_LIMIT;
}

static int create_order(struct sharing *sharing, struct part *part)
{
	part->order = base_arena_alloc(sharing->arena, sizeof(*part->order), BASE_CACHE_LINE);
	return part->order != NULL ? 0 : -ENOMEM;
}

static int fill_part(struct sharing *sharing, uint32_t index)
{
	const struct pipeline_config *config = sharing->config;
	struct part *part = &sharing->parts[index];
	if (sharing->moves && create_order(sharing, part) != 0) {
		snprintf(sharing->message, sizeof(sharing->message), "order check: out of memory");
		return -ENOMEM;
	}
	/* By group, and in it by worker: so a port still tells the worker. */
	uint32_t shares = sharing->moves ? 1 : config->workers;
	const struct state_config state = {
		.config = config,
		.arena = sharing->arena,
		.instance = index,
		.entries_max = entries(sharing),
		.tables = index == 0 ? NULL : sharing->parts[0].state.chain,
		.nat_share = (uint16_t)(index * shares),
		.nat_shares = (uint16_t)shares,
		.nat_shares_all = (uint16_t)(sharing->parts_count * shares),
		.on_remove = on_remove,
		.on_remove_context = part,
	};
	int error = state_create_chain(&part->state, &state, sharing->message);
	if (error == 0)
		error = state_create_tracker(&part->state, &state, sharing->message);
	if (error == 0 && sharing->moves) {
		part->order->tracker = part->state.tracker;
		part->order->user_offset = part->state.order_offset;
	}
	return error;
}

static void fill_parts(struct sharing *sharing)
{
	for (uint32_t i = 0; i < sharing->parts_count && sharing->error == 0; i++)
		sharing->error = fill_part(sharing, i);
	sharing->made = true;
}

int sharing_join(struct sharing *sharing, struct worker *worker)
{
	if (!sharing->made)
		fill_parts(sharing);
	int error = sharing->error;
	if (error != 0)
		memcpy(worker->message, sharing->message, sizeof(worker->message));
	worker->sharing = sharing;
	worker->chain = sharing->parts[0].state.chain;
	worker->tracker = sharing->parts[0].state.tracker;
	sharing->seats[worker->index].worker = worker;
	if (error == 0 && sharing->config->infer.enabled) {
		error = infer_setup(worker);
		if (error == 0)
			gpu_offload_stage_attach(worker->infer, worker->tracker,
				sharing->parts[0].state.infer_offset);
	}
	worker->error = error;
	return error;
}

uint32_t sharing_states(const struct sharing *sharing)
{
	return sharing->parts_count;
}

uint32_t sharing_state_of(const struct sharing *sharing, const struct base_packet *packet)
{
	if (sharing->moves) /* as planned, whatever this worker's parser has made of it */
		return (uint32_t)(packet->seq >> HANDOVER_STAMP_BITS);
	if (sharing->parts_count == 1 || (packet->flags & BASE_PACKET_FLOW) == 0)
		return 0;
	return handover_group(packet->hash);
}

uint32_t sharing_state_of_reply(const struct sharing *sharing, const struct base_packet *packet)
{
	uint32_t workers = sharing->config->workers;
	uint16_t share;
	if (sharing->moves)
		return (uint32_t)(packet->seq >> HANDOVER_STAMP_BITS);
	if (sharing->parts_count == 1 || sharing->nat == NULL ||
		chain_nat_worker(sharing->nat, packet, (uint16_t)(workers * sharing->parts_count),
			&share) != 0)
		return 0;
	return share / workers;
}

void sharing_enter(struct worker *worker, uint32_t state)
{
	bool moves = worker->sharing->moves;
	struct part *part = &worker->sharing->parts[state];
	if (moves)
		worker->order = part->order;
	else
		sharing_lock_take(&part->lock, &worker->lock_waits);
	worker->tracker = part->state.tracker;
	worker->order->tracker = part->state.tracker;
	worker->chain = part->state.chain;
	if (worker->translates)
		chain_use_share(worker->chain, moves ? 0 : worker->index);
}

void sharing_leave(struct worker *worker, uint32_t state)
{
	if (!worker->sharing->moves)
		sharing_lock_release(&worker->sharing->parts[state].lock);
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

static unsigned int run_timers(struct worker *worker, struct part *part, uint64_t least_ns)
{
	sharing_lock_take(&part->lock, &worker->lock_waits);
	unsigned int removed = conntrack_advance(part->state.tracker, least_ns, worker->looks);
	worker->crowded |= conntrack_is_crowded(part->state.tracker);
	sharing_lock_release(&part->lock);
	return removed;
}

static bool has_part(const struct worker *worker, uint32_t part)
{
	return handover_owner(part, worker->turn, worker->sharing->config->workers) ==
	       worker->index;
}

static unsigned int run_own_timers(struct worker *worker, uint64_t horizon_ns, unsigned int looks)
{
	struct sharing *sharing = worker->sharing;
	unsigned int removed = 0;
	worker->looks += looks;
	if (horizon_ns - worker->timers_ns < sharing->config->conntrack.tick_ns)
		return 0;
	for (uint32_t i = 0; i < sharing->parts_count; i++) {
		if (has_part(worker, i))
			removed += conntrack_advance(
				sharing->parts[i].state.tracker, horizon_ns, worker->looks);
	}
	worker->timers_ns = horizon_ns;
	worker->looks = 0;
	return removed;
}

/* The later fragments may be this worker's. */
static void learn_fragments(struct worker *worker, uint64_t until_ns)
{
	const struct worker_shared *shared = worker->shared;
	const struct schedule *schedule = shared->schedule;
	size_t count;
	const struct traces_record *records = traces_trace_records(shared->trace, &count);
	while (worker->fragments_at < schedule->fragments_count) {
		const struct schedule_fragment *fragment =
			&schedule->fragments[worker->fragments_at];
		const struct traces_record *record = &records[fragment->record];
		struct base_packet packet;
		if (fragment->time_ns >= until_ns)
			break;
		worker->fragments_at++;
		if (fragment->worker == worker->index)
			continue;
		base_packet_reset(&packet);
		packet.data = (uint8_t *)traces_trace_bytes(shared->trace) + record->offset;
		packet.time_ns = fragment->time_ns;
		packet.wire_len = record->wire_len;
		packet.cap_len = record->cap_len;
		packet.link = record->link;
		base_parser_learn(worker->parser, &packet); /* only reads */
	}
}

bool sharing_take_turn(struct worker *worker, uint64_t next_ns)
{
	struct sharing *sharing = worker->sharing;
	struct sharing_waits *waits = &worker->lock_waits;
	uint64_t every_ns = sharing->config->handover_ns, turn = next_ns / every_ns;
	handover_reach(&sharing->handover, worker->index, turn);
	if (!handover_wait(&sharing->handover, worker->index, turn, worker->shared->stop,
		    &waits->waited_cycles))
		return false;
	worker->turn = turn;
	if (__builtin_mul_overflow(turn + 1, every_ns, &worker->turn_end_ns))
		worker->turn_end_ns = UINT64_MAX;
	learn_fragments(worker, turn * every_ns);
	waits->turns++;
	for (uint32_t i = 0; i < sharing->parts_count; i++) {
		if (!has_part(worker, i))
			continue;
		waits->groups += sharing->parts[i].owner != worker->index;
		sharing->parts[i].owner = worker->index;
	}
	return true;
}

unsigned int sharing_advance(struct worker *worker, uint64_t horizon_ns, unsigned int looks)
{
	struct sharing *sharing = worker->sharing;
	uint64_t tick_ns = sharing->config->conntrack.tick_ns;
	if (sharing->moves)
		return run_own_timers(worker, horizon_ns, looks);
	tell(worker, horizon_ns);
	worker->looks += looks;
	/* The others may tell theirs meanwhile: no harm, timers run a little later then. */
	uint64_t least_ns = least_horizon(sharing);
	unsigned int removed = 0;
	if (least_ns - worker->timers_ns >= tick_ns || horizon_ns - worker->asked_ns >= tick_ns) {
		worker->crowded = false;
		for (uint32_t i = 0; i < sharing->parts_count; i++)
			removed += run_timers(worker, &sharing->parts[i], least_ns);
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
	worker->order = worker->own_order;
	handover_reach(&worker->sharing->handover, worker->index, UINT64_MAX);
}

static void finish_part(struct sharing *sharing, struct part *part, uint64_t end_ns)
{
	char message[256];
	struct worker *worker = sharing->seats[0].worker;
	struct conntrack *tracker = part->state.tracker;
	struct conntrack_stats stats;
	conntrack_finish(tracker, end_ns);
	conntrack_stats(tracker, &stats);
	collect_add_conntrack(&worker->conntrack_stats, &stats);
	if (conntrack_check(tracker, message, sizeof(message)) != 0) {
		snprintf(worker->message, sizeof(worker->message), "connection table: %s", message);
		worker->error = -EUCLEAN;
	}
	for (uint32_t i = 0; i < worker->chain_count; i++) {
		struct chain_function_stats function;
		chain_function_stats(part->state.chain, i, &function);
		collect_add_function(&worker->chain_stats[i], &function);
	}
	worker->books.balanced &= worker_connections_balance(&stats);
	if (part->order != NULL)
		worker->books.reorder_violations += part->order->violations;
	/* The digest counts removed connections: remove them all now. */
	(void)conntrack_purge(tracker, NULL, NULL);
}

/* By the last worker, all others have finished; worker 0 speaks for all. */
static void finish_parts(struct sharing *sharing)
{
	/* Where an interrupted run has been seen by all; groups that moved, by their owners. */
	uint64_t end_ns = sharing->seats[0].end_ns;
	for (uint32_t i = 1; i < sharing->config->workers; i++) {
		uint64_t other_ns = sharing->seats[i].end_ns;
		if (sharing->moves ? other_ns > end_ns : other_ns < end_ns)
			end_ns = other_ns;
	}
	for (uint32_t i = 0; i < sharing->parts_count; i++) {
		const struct chain *chain = sharing->parts[i].state.chain;
		finish_part(sharing, &sharing->parts[i], end_ns);
		if (chain != NULL)
			sharing->seats[0].worker->flow_digest += chain_flow_digest(chain);
	}
	for (uint32_t i = 0; i < sharing->config->workers; i++)
		sharing->seats[i].worker->books.balanced &= infer_settle(sharing->seats[i].worker);
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
		finish_parts(sharing);
}
