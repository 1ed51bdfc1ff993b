/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any worker finds, inserts and removes at any time, without a lock. The protocol, which
 * tests/model/conntrack/shared_lockfree.pml is a model of:
 *
 *   insert   claim a slot (its word goes from 0 to ours); search the bucket as of a header;
 *            publish by a compare-and-swap of that very header. It fails when anything was
 *            inserted or removed since, and then the search is made anew. Found meanwhile: the
 *            claim is undone. update   move the time stamp by compare-and-swap; a dead one means
 *            that the connection has ended. Counts are added behind and belong to it until this
 *            burst is over. remove   claim the entry: its time stamp, if still due, becomes
 *            SHARED_DEAD. Then clear the valid bit, then free the slot, then retire the entry.
 *            Who meets a dead one that is still valid clears the bit for the remover and need
 *            not wait for it. reuse    a retired entry is stamped with an epoch behind its
 *            removal; when every worker has been between bursts since, nobody can know it, its
 *            counts are final, and it is free.
 */
#include "conntrack/shared/core.h"

enum { RETIRED_ENOUGH = 64 }; /* before other workers' epochs are asked for */

enum outcome { GONE, DONE };

/* ---- removal --------------------------------------------------------------------------------- */

static void retire(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint32_t conn, uint64_t seen_ns)
{
	struct shared_cold *cold = &shared->cold[conn];
	cold->seen_ns = seen_ns;
	cold->next = SHARED_NONE;
	if (worker->retired_head == SHARED_NONE)
		worker->retired_head = conn;
	else
		shared->cold[worker->retired_tail].next = conn;
	worker->retired_tail = conn;
	if (worker->unstamped == SHARED_NONE)
		worker->unstamped = conn;
	worker->retired_count++;
}

/* Clear the valid bit of the slot with this word, whoever removes it. While this burst lasts the
 * entry is not used again, so the word means one connection. */
static void unpublish(const struct conntrack_shared *shared, uint64_t mixed, uint64_t word)
{
	const struct shared_table *table = &shared->tables[0];
	uint32_t bucket = shared_bucket_at(shared, mixed);
	atomic_uint_least64_t *at = &table->buckets[bucket].header;
	for (;;) {
		uint64_t header = atomic_load_explicit(at, memory_order_acquire);
		uint64_t bits = header & SHARED_VALID;
		while (bits != 0 &&
			atomic_load_explicit(
				shared_slot(table, bucket, (unsigned int)__builtin_ctzll(bits)),
				memory_order_acquire) != word)
			bits &= bits - 1;
		if (bits == 0)
			return; /* someone has */
		/* release: behind what was done to the entry. Should the slot have changed, so has
		 * the header. */
		if (atomic_compare_exchange_weak_explicit(at, &header,
			    (header & ~(bits & -bits)) + SHARED_VERSION, memory_order_acq_rel,
			    memory_order_relaxed))
			return;
	}
}

/* By whoever has made its time stamp SHARED_DEAD. */
static void remove_claimed(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint32_t conn, uint64_t seen_ns)
{
	const struct shared_table *table = &shared->tables[0];
	uint64_t mixed = shared_mix(shared, shared->cold[conn].hash);
	uint64_t word = shared_word(mixed, conn);
	uint32_t bucket = shared_bucket_at(shared, mixed);
	/* Only this worker frees the slot, so it stays where it is. */
	unsigned int slot = shared_slot_of(table, bucket, word);
	unpublish(shared, mixed, word);
	/* release: pairs with the claim of whoever takes the slot next */
	atomic_store_explicit(shared_slot(table, bucket, slot), 0, memory_order_release);
	worker->stats.expired++;
	retire(shared, worker, conn, seen_ns);
}

/* ---- update ---------------------------------------------------------------------------------- */

static enum outcome touch(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint64_t mixed, uint32_t conn, const struct base_packet *packet, uint32_t new_flags)
{
	struct shared_entry *entry = &shared->entries[conn];
	uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_acquire);
	uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
	for (;;) {
		if (BASE_UNLIKELY(seen_ns == SHARED_DEAD)) {
			unpublish(shared, mixed, shared_word(mixed, conn));
			return GONE;
		}
		bool due = shared_is_due(shared, seen_ns, flags, packet->time_ns);
		if (!due && packet->time_ns <= seen_ns)
			break;
		/* acq_rel: the chain of time stamps orders removers behind updaters */
		if (atomic_compare_exchange_weak_explicit(&entry->last_seen_ns, &seen_ns,
			    due ? SHARED_DEAD : packet->time_ns, memory_order_acq_rel,
			    memory_order_acquire)) {
			if (BASE_LIKELY(!due))
				break;
			remove_claimed(shared, worker, conn, seen_ns);
			return GONE;
		}
	}
	/* relaxed: quiet_epoch orders them before the entry's last reading */
	worker->stats.overflowed += shared_traffic_full(atomic_fetch_add_explicit(
		&entry->traffic, shared_packet_traffic(packet), memory_order_relaxed));
	if ((flags | new_flags) != flags)
		atomic_fetch_or_explicit(&entry->flags, new_flags, memory_order_relaxed);
	return DONE;
}

/* ---- insertion ------------------------------------------------------------------------------- */

/* An unclaimed slot becomes ours. SHARED_SLOTS: there is none. */
static unsigned int claim(const struct shared_table *table, uint32_t bucket, uint64_t word)
{
	for (unsigned int i = 0; i < SHARED_SLOTS; i++) {
		atomic_uint_least64_t *slot = shared_slot(table, bucket, i);
		uint64_t empty = 0;
		/* acq_rel: who reads this word early sees that the header has moved on */
		if (atomic_load_explicit(slot, memory_order_relaxed) == 0 &&
			atomic_compare_exchange_strong_explicit(
				slot, &empty, word, memory_order_acq_rel, memory_order_relaxed))
			return i;
	}
	return SHARED_SLOTS;
}

/* Another connection with this key that was published first; SHARED_NONE: ours is published. */
static uint32_t publish(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint64_t mixed, const struct base_flow_key *key, unsigned int slot)
{
	const struct shared_table *table = &shared->tables[0];
	atomic_uint_least64_t *at = &table->buckets[shared_bucket_at(shared, mixed)].header;
	for (;;) {
		uint64_t header;
		uint32_t other =
			shared_find(shared, table, mixed, key, &header, &worker->stats.retries);
		if (other != SHARED_NONE)
			return other;
		/* release: pairs with the acquire load of searches */
		if (BASE_LIKELY(atomic_compare_exchange_strong_explicit(at, &header,
			    (header | UINT64_C(1) << slot) + SHARED_VERSION, memory_order_acq_rel,
			    memory_order_relaxed)))
			return SHARED_NONE;
		worker->stats.retries++;
	}
}

/* An entry that nobody else knows goes back. */
static void give_up(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker, uint32_t conn)
{
	struct shared_entry *entry = &shared->entries[conn];
	shared_write_begin(entry, true);
	atomic_store_explicit(&entry->flags, 0, memory_order_release);
	shared_write_end(entry, true);
	shared_pool_give(shared, worker, conn);
}

/* SHARED_NONE: inserted, or refused; else the connection that is there. */
static uint32_t insert(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint64_t mixed, struct base_packet *packet, uint32_t flags)
{
	const struct shared_table *table = &shared->tables[0];
	uint32_t bucket = shared_bucket_at(shared, mixed);
	uint32_t conn = shared_pool_take(shared, worker->pool);
	if (BASE_UNLIKELY(conn == SHARED_NONE)) {
		worker->stats.refused_pool++;
		worker->stats.untracked++;
		return SHARED_NONE;
	}
	shared_write_begin(&shared->entries[conn], true);
	shared_entry_fill(shared, conn, packet, flags);
	shared_write_end(&shared->entries[conn], true);
	unsigned int slot = claim(table, bucket, shared_word(mixed, conn));
	if (BASE_UNLIKELY(slot == SHARED_SLOTS)) {
		give_up(shared, worker, conn);
		worker->stats.refused_bucket++;
		worker->stats.untracked++;
		return SHARED_NONE;
	}
	uint32_t other = publish(shared, worker, mixed, &packet->key, slot);
	if (BASE_UNLIKELY(other != SHARED_NONE)) {
		atomic_store_explicit(shared_slot(table, bucket, slot), 0, memory_order_release);
		give_up(shared, worker, conn);
		worker->stats.lost_races++;
		return other;
	}
	/* Only now, or a dump would show one that is undone. While this burst lasts the entry is
	 * nobody else's. relaxed: a hint of when it came */
	atomic_fetch_or_explicit(&shared->entries[conn].flags, SHARED_LIVE, memory_order_relaxed);
	packet->conn = conn;
	packet->conn_flags = BASE_CONN_NEW;
	worker->stats.inserted++;
	return SHARED_NONE;
}

static void step(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint64_t mixed, struct base_packet *packet)
{
	uint32_t flags = shared_packet_flags(packet);
	for (;;) {
		uint64_t header;
		uint32_t conn = shared_find(shared, &shared->tables[0], mixed, &packet->key,
			&header, &worker->stats.retries);
		if (conn == SHARED_NONE)
			conn = insert(shared, worker, mixed, packet, flags);
		if (conn == SHARED_NONE)
			return;
		if (BASE_LIKELY(touch(shared, worker, mixed, conn, packet, flags) == DONE)) {
			packet->conn = conn;
			worker->stats.hits++;
			return;
		}
	}
}

static void process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	uint64_t mixed[BASE_BURST_MAX];
	shared_prepare(shared, &shared->tables[0], packets, count, mixed);
	for (unsigned int i = 0; i < count; i++)
		step(shared, worker, mixed[i], packets[i]);
}

static unsigned int expire(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	const uint32_t *conns, unsigned int count, uint64_t horizon_ns)
{
	unsigned int removed = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct shared_entry *entry = &shared->entries[conns[i]];
		uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
		uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_acquire);
		/* One that changes meanwhile is not due, or another's to remove. */
		if (seen_ns == SHARED_DEAD || !shared_is_due(shared, seen_ns, flags, horizon_ns) ||
			!atomic_compare_exchange_strong_explicit(&entry->last_seen_ns, &seen_ns,
				SHARED_DEAD, memory_order_acq_rel, memory_order_relaxed))
			continue;
		remove_claimed(shared, worker, conns[i], seen_ns);
		removed++;
	}
	return removed;
}

/* ---- reuse ----------------------------------------------------------------------------------- */

static void stamp(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	/* Who reads a later epoch (acquire, in quiet) reads it behind the removals. */
	uint64_t epoch = atomic_fetch_add_explicit(&shared->epoch, 1, memory_order_acq_rel);
	for (uint32_t conn = worker->unstamped; conn != SHARED_NONE; conn = shared->cold[conn].next)
		shared->cold[conn].epoch = epoch;
	worker->unstamped = SHARED_NONE;
}

static void free_retired(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < shared->config.workers; i++) {
		/* acquire: what that worker did before is done */
		uint64_t epoch =
			atomic_load_explicit(&shared->workers[i].quiet_epoch, memory_order_acquire);
		least = epoch < least ? epoch : least;
	}
	while (worker->retired_head != SHARED_NONE &&
		shared->cold[worker->retired_head].epoch < least) {
		uint32_t conn = worker->retired_head;
		struct shared_entry *entry = &shared->entries[conn];
		worker->retired_head = shared->cold[conn].next;
		worker->retired_count--;
		shared_report(shared, worker, conn, shared->cold[conn].seen_ns);
		shared_write_begin(entry, true);
		atomic_store_explicit(&entry->flags, 0, memory_order_release);
		shared_write_end(entry, true);
		shared_pool_give(shared, worker, conn);
	}
}

/* The worker holds no reference now. */
static void quiet(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	const struct shared_pool *pool = worker->pool;
	if (worker->unstamped != SHARED_NONE)
		stamp(shared, worker);
	bool away = atomic_load_explicit(&worker->quiet_epoch, memory_order_relaxed) == UINT64_MAX;
	if (!away)
		atomic_store_explicit(&worker->quiet_epoch,
			atomic_load_explicit(&shared->epoch, memory_order_acquire),
			memory_order_release);
	bool empty = pool->free_head == SHARED_NONE && pool->fresh == pool->count;
	if (worker->retired_count >= RETIRED_ENOUGH ||
		(worker->retired_count != 0 && (away || empty)))
		free_retired(shared, worker);
}

const struct conntrack_sharing_ops shared_lockfree_ops = {
	.name = "lockfree",
	.summary = "one table that every worker searches and changes without a lock",
	.guarantee = "some worker always gets on; one insertion per connection, no update lost",
	.any_worker = true,
	.readable = true,
	.process = process,
	.expire = expire,
	.quiet = quiet,
};
