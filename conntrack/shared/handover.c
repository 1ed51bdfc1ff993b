/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table and a pool per bucket of the steering hash; a bucket belongs to one worker at a time.
 *
 * owners[b] says to whom: stored (release) by the worker that hands it over, which has then done
 * its last write to the bucket, and loaded (acquire) by the one that waits for it, whose first
 * access comes behind. Nobody else looks. What a worker holds already it knows from `mine`, its
 * own, so packets of its buckets touch nothing that is shared.
 */
#include "base/cycles.h"
#include "conntrack/shared/core.h"

#include <errno.h>
#include <sched.h>

enum { SPINS_PER_YIELD = 64 };

struct shared_handover {
	bool mine[CONNTRACK_SHARED_BUCKETS];
	uint64_t since_cycles[CONNTRACK_SHARED_BUCKETS]; /* its first packet waits; 0: none does */
	uint32_t turn;
	uint32_t parked_count;
	struct base_packet *parked[CONNTRACK_SHARED_PARKED_MAX];
};

int shared_handover_create(struct conntrack_shared *shared)
{
	struct base_arena *arena = shared->config.arena;
	uint32_t workers = shared->config.workers;
	shared->owners = base_arena_alloc(
		arena, CONNTRACK_SHARED_BUCKETS * sizeof(*shared->owners), BASE_CACHE_LINE);
	shared->given_cycles = base_arena_alloc(
		arena, CONNTRACK_SHARED_BUCKETS * sizeof(*shared->given_cycles), BASE_CACHE_LINE);
	if (shared->owners == NULL || shared->given_cycles == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < workers; i++) {
		shared->workers[i].handover =
			base_arena_alloc(arena, sizeof(struct shared_handover), BASE_CACHE_LINE);
		if (shared->workers[i].handover == NULL)
			return -ENOMEM;
	}
	for (uint32_t b = 0; b < CONNTRACK_SHARED_BUCKETS; b++) {
		uint32_t owner = conntrack_shared_first_owner(b, workers);
		atomic_init(&shared->owners[b], owner);
		shared->workers[owner].handover->mine[b] = true;
	}
	return 0;
}

void shared_handover_destroy(struct conntrack_shared *shared)
{
	struct base_arena *arena = shared->config.arena;
	for (uint32_t i = 0; shared->workers != NULL && i < shared->config.workers; i++)
		base_arena_free(arena, shared->workers[i].handover, sizeof(struct shared_handover));
	base_arena_free(arena, shared->owners, CONNTRACK_SHARED_BUCKETS * sizeof(*shared->owners));
	base_arena_free(arena, shared->given_cycles,
		CONNTRACK_SHARED_BUCKETS * sizeof(*shared->given_cycles));
}

/* ---- packets --------------------------------------------------------------------------------- */

static void step(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint32_t bucket, struct base_packet *packet)
{
	worker->pool = &shared->pools[bucket];
	shared_step_alone(shared, worker, &shared->tables[bucket], shared_mix(shared, packet->hash),
		packet, false);
}

/* How long packets waited, and how long after the bucket was given. */
static void note_pause(
	struct conntrack_shared_worker *worker, uint64_t since_cycles, uint64_t given_cycles)
{
	struct conntrack_shared_stats *stats = &worker->stats;
	uint64_t now = base_cycles();
	uint64_t pause = now - since_cycles;
	/* counters of two CPUs may be a little apart */
	uint64_t transfer = now > given_cycles ? now - given_cycles : 0;
	transfer = transfer < pause ? transfer : pause;
	stats->pauses++;
	stats->pause_cycles += pause;
	stats->transfer_cycles += transfer;
	if (pause > stats->pause_most_cycles)
		stats->pause_most_cycles = pause;
	if (transfer > stats->transfer_most_cycles)
		stats->transfer_most_cycles = transfer;
}

/* The bucket has come: packets that have waited for it come first. */
static void take_over(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker, uint32_t bucket)
{
	struct shared_handover *own = worker->handover;
	uint32_t left = 0;
	own->mine[bucket] = true;
	worker->stats.handovers++;
	if (own->since_cycles[bucket] == 0)
		return;
	note_pause(worker, own->since_cycles[bucket], shared->given_cycles[bucket]);
	own->since_cycles[bucket] = 0;
	for (uint32_t i = 0; i < own->parked_count; i++) {
		struct base_packet *packet = own->parked[i];
		if (conntrack_shared_bucket(packet->hash) == bucket)
			step(shared, worker, bucket, packet);
		else
			own->parked[left++] = packet;
	}
	own->parked_count = left;
}

static bool has_come(const struct conntrack_shared *shared,
	const struct conntrack_shared_worker *worker, uint32_t bucket)
{
	/* acquire: pairs with the release in conntrack_shared_give */
	return atomic_load_explicit(&shared->owners[bucket], memory_order_acquire) == worker->index;
}

/* Whatever has come of the buckets that packets wait for. */
static void look_for_buckets(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	struct shared_handover *own = worker->handover;
	for (uint32_t b = 0; own->parked_count != 0 && b < CONNTRACK_SHARED_BUCKETS; b++) {
		if (own->since_cycles[b] != 0 && has_come(shared, worker, b))
			take_over(shared, worker, b);
	}
}

static void wait_for_a_bucket(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	const struct shared_handover *own = worker->handover;
	uint32_t before = own->parked_count;
	for (unsigned int spins = 1;; spins++) {
		look_for_buckets(shared, worker);
		if (own->parked_count < before)
			return;
		if (spins % SPINS_PER_YIELD == 0)
			sched_yield(); /* its owner may need this CPU */
	}
}

static void park(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint32_t bucket, struct base_packet *packet)
{
	struct shared_handover *own = worker->handover;
	while (own->parked_count == CONNTRACK_SHARED_PARKED_MAX && !own->mine[bucket])
		wait_for_a_bucket(shared, worker);
	if (own->mine[bucket]) {
		step(shared, worker, bucket, packet);
		return;
	}
	if (own->since_cycles[bucket] == 0)
		own->since_cycles[bucket] = base_cycles();
	own->parked[own->parked_count++] = packet;
	worker->stats.parked++;
	if (own->parked_count > worker->stats.parked_most)
		worker->stats.parked_most = own->parked_count;
}

/* Ask for the memory of a burst, each packet in its own table. */
static void prepare(const struct conntrack_shared *shared, struct base_packet *const *packets,
	unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		const struct shared_table *table =
			&shared->tables[conntrack_shared_bucket(packets[i]->hash)];
		uint64_t mixed = shared_mix(shared, packets[i]->hash);
		BASE_PREFETCH(&table->buckets[shared_bucket_at(shared, mixed)]);
	}
	for (unsigned int i = 0; i < count; i++) {
		const struct shared_table *table =
			&shared->tables[conntrack_shared_bucket(packets[i]->hash)];
		shared_prefetch_entry(shared, table, shared_mix(shared, packets[i]->hash));
	}
}

static void process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	struct shared_handover *own = worker->handover;
	if (!shared->config.no_prefetch)
		prepare(shared, packets, count);
	if (BASE_UNLIKELY(own->parked_count != 0))
		look_for_buckets(shared, worker);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t bucket = conntrack_shared_bucket(packets[i]->hash);
		if (BASE_UNLIKELY(!own->mine[bucket] && has_come(shared, worker, bucket)))
			take_over(shared, worker, bucket);
		if (BASE_LIKELY(own->mine[bucket]))
			step(shared, worker, bucket, packets[i]);
		else
			park(shared, worker, bucket, packets[i]);
	}
}

void conntrack_shared_give(
	struct conntrack_shared *shared, unsigned int worker, uint32_t bucket, unsigned int to)
{
	struct conntrack_shared_worker *self = &shared->workers[worker];
	struct shared_handover *own = self->handover;
	/* One that never had a packet of it while it was on its way. */
	for (unsigned int spins = 1; !own->mine[bucket]; spins++) {
		if (has_come(shared, self, bucket))
			take_over(shared, self, bucket);
		else if (spins % SPINS_PER_YIELD == 0)
			sched_yield();
	}
	if (to == worker)
		return;
	own->mine[bucket] = false;
	shared->given_cycles[bucket] = base_cycles();
	/* release: pairs with the acquire in has_come; all that was done to the bucket is behind */
	atomic_store_explicit(&shared->owners[bucket], to, memory_order_release);
}

/* ---- maintenance and end --------------------------------------------------------------------- */

static bool turn(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	struct shared_handover *own = worker->handover;
	for (uint32_t i = 0; i < CONNTRACK_SHARED_BUCKETS; i++) {
		own->turn = (own->turn + 1) % CONNTRACK_SHARED_BUCKETS;
		if (own->mine[own->turn]) {
			worker->pool = &shared->pools[own->turn];
			return true;
		}
	}
	return false;
}

static unsigned int expire(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	const uint32_t *conns, unsigned int count, uint64_t)
{
	const struct shared_table *table = &shared->tables[conns[0] / worker->pool->count];
	for (unsigned int i = 0; i < count; i++)
		shared_drop_alone(shared, worker, table, conns[i], false);
	return count;
}

static void leave(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	while (worker->handover->parked_count != 0)
		wait_for_a_bucket(shared, worker);
}

const struct conntrack_sharing_ops shared_handover_ops = {
	.name = "handover",
	.summary = "a table per steering bucket; a bucket can be handed to another worker",
	.guarantee = "one owner at a time; over to the next by one store, packets kept in order",
	.moves = true,
	.waits = true,
	.process = process,
	.expire = expire,
	.turn = turn,
	.leave = leave,
};
