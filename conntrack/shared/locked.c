/* SPDX-License-Identifier: BSD-2-Clause */
/* One table under one lock: mutex, spinlock, rwlock; and a lock per bucket. */
#include "conntrack/shared/core.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum { SPINS_PER_YIELD = 128 };

struct shared_locks {
	pthread_mutex_t mutex BASE_ALIGNED(64);
	pthread_rwlock_t rwlock BASE_ALIGNED(64);
	/* Taken: acquire exchange; let go: release store. */
	atomic_uint_least32_t spin BASE_ALIGNED(64);
} BASE_ALIGNED(64);

int shared_locks_create(struct conntrack_shared *shared)
{
	struct shared_locks *locks =
		base_arena_alloc(shared->config.arena, sizeof(*locks), BASE_CACHE_LINE);
	if (locks == NULL)
		return -ENOMEM;
	atomic_init(&locks->spin, 0);
	int error = pthread_mutex_init(&locks->mutex, NULL);
	if (error == 0 && (error = pthread_rwlock_init(&locks->rwlock, NULL)) != 0)
		pthread_mutex_destroy(&locks->mutex);
	if (error != 0) {
		base_arena_free(shared->config.arena, locks, sizeof(*locks));
		return -error;
	}
	shared->locks = locks;
	return 0;
}

void shared_locks_destroy(struct conntrack_shared *shared)
{
	struct shared_locks *locks = shared->locks;
	if (locks == NULL)
		return;
	pthread_rwlock_destroy(&locks->rwlock);
	pthread_mutex_destroy(&locks->mutex);
	base_arena_free(shared->config.arena, locks, sizeof(*locks));
}

static inline void pause_or_yield(unsigned int *spins)
{
	if (++*spins % SPINS_PER_YIELD == 0)
		sched_yield();
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* ---- taking and letting go ------------------------------------------------------------------- */

static void lock_mutex(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	if (pthread_mutex_trylock(&shared->locks->mutex) == 0)
		return;
	worker->stats.contended++;
	pthread_mutex_lock(&shared->locks->mutex);
}

static void unlock_mutex(struct conntrack_shared *shared)
{
	pthread_mutex_unlock(&shared->locks->mutex);
}

static void lock_spin(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	atomic_uint_least32_t *spin = &shared->locks->spin;
	unsigned int spins = 0;
	if (atomic_exchange_explicit(spin, 1, memory_order_acquire) == 0)
		return;
	worker->stats.contended++;
	do {
		/* relaxed: only to see when it is worth trying */
		while (atomic_load_explicit(spin, memory_order_relaxed) != 0)
			pause_or_yield(&spins);
	} while (atomic_exchange_explicit(spin, 1, memory_order_acquire) != 0);
}

static void unlock_spin(struct conntrack_shared *shared)
{
	atomic_store_explicit(&shared->locks->spin, 0, memory_order_release);
}

static void lock_shared(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	if (pthread_rwlock_tryrdlock(&shared->locks->rwlock) == 0)
		return;
	worker->stats.contended++;
	pthread_rwlock_rdlock(&shared->locks->rwlock);
}

static void lock_exclusive(struct conntrack_shared *shared, struct conntrack_shared_worker *worker)
{
	if (pthread_rwlock_trywrlock(&shared->locks->rwlock) == 0)
		return;
	worker->stats.contended++;
	pthread_rwlock_wrlock(&shared->locks->rwlock);
}

static void unlock_rw(struct conntrack_shared *shared)
{
	pthread_rwlock_unlock(&shared->locks->rwlock);
}

/* The bucket's header is the lock's word: who holds it changes the header with plain stores. */
static atomic_uint_least64_t *lock_bucket(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker, uint64_t mixed)
{
	atomic_uint_least64_t *header =
		&shared->tables[0].buckets[shared_bucket_at(shared, mixed)].header;
	unsigned int spins = 0;
	for (;;) {
		uint64_t seen = atomic_load_explicit(header, memory_order_relaxed);
		/* acquire: pairs with unlock_bucket's release */
		if ((seen & SHARED_LOCKED) == 0 &&
			atomic_compare_exchange_weak_explicit(header, &seen, seen | SHARED_LOCKED,
				memory_order_acquire, memory_order_relaxed))
			break;
		pause_or_yield(&spins);
	}
	worker->stats.contended += spins != 0;
	return header;
}

static void unlock_bucket(atomic_uint_least64_t *header)
{
	atomic_store_explicit(header,
		atomic_load_explicit(header, memory_order_relaxed) & ~SHARED_LOCKED,
		memory_order_release);
}

/* ---- under the lock -------------------------------------------------------------------------- */

static void step_all(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, const uint64_t *mixed, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		shared_step_alone(shared, worker, &shared->tables[0], mixed[i], packets[i], false);
}

/* Still there and still due? What the scan saw may have changed before the lock was taken. */
static unsigned int drop_if_due(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, uint32_t conn, uint64_t horizon_ns)
{
	const struct shared_entry *entry = &shared->entries[conn];
	uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
	uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed);
	if ((flags & SHARED_LIVE) == 0 || !shared_is_due(shared, seen_ns, flags, horizon_ns))
		return 0;
	shared_drop_alone(shared, worker, &shared->tables[0], conn, false);
	return 1;
}

static unsigned int drop_all(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	uint64_t horizon_ns)
{
	unsigned int removed = 0;
	for (unsigned int i = 0; i < count; i++)
		removed += drop_if_due(shared, worker, conns[i], horizon_ns);
	return removed;
}

/* ---- mutex and spinlock ---------------------------------------------------------------------- */

static void mutex_process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	uint64_t mixed[BASE_BURST_MAX];
	lock_mutex(shared, worker);
	shared_prepare(shared, &shared->tables[0], packets, count, mixed);
	step_all(shared, worker, packets, mixed, count);
	unlock_mutex(shared);
}

static unsigned int mutex_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	uint64_t horizon_ns)
{
	lock_mutex(shared, worker);
	unsigned int removed = drop_all(shared, worker, conns, count, horizon_ns);
	unlock_mutex(shared);
	return removed;
}

static void spinlock_process(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, struct base_packet *const *packets,
	unsigned int count)
{
	uint64_t mixed[BASE_BURST_MAX];
	lock_spin(shared, worker);
	shared_prepare(shared, &shared->tables[0], packets, count, mixed);
	step_all(shared, worker, packets, mixed, count);
	unlock_spin(shared);
}

static unsigned int spinlock_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	uint64_t horizon_ns)
{
	lock_spin(shared, worker);
	unsigned int removed = drop_all(shared, worker, conns, count, horizon_ns);
	unlock_spin(shared);
	return removed;
}

/* ---- rwlock ---------------------------------------------------------------------------------- */

/* Under the shared lock: others may update the same entry, nobody removes it. */
static bool touch_together(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct shared_entry *entry, const struct base_packet *packet)
{
	uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed);
	uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
	uint32_t new_flags = shared_packet_flags(packet);
	/* relaxed, all: the lock orders them for whoever removes */
	do {
		if (shared_is_due(shared, seen_ns, flags, packet->time_ns))
			return false;
	} while (packet->time_ns > seen_ns &&
		 !atomic_compare_exchange_weak_explicit(&entry->last_seen_ns, &seen_ns,
			 packet->time_ns, memory_order_relaxed, memory_order_relaxed));
	worker->stats.overflowed += shared_traffic_full(atomic_fetch_add_explicit(
		&entry->traffic, shared_packet_traffic(packet), memory_order_relaxed));
	if ((flags | new_flags) != flags)
		atomic_fetch_or_explicit(&entry->flags, new_flags, memory_order_relaxed);
	return true;
}

static void rwlock_process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	uint64_t mixed[BASE_BURST_MAX], missed_mixed[BASE_BURST_MAX];
	struct base_packet *missed[BASE_BURST_MAX];
	unsigned int misses = 0;
	lock_shared(shared, worker);
	shared_prepare(shared, &shared->tables[0], packets, count, mixed);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t header;
		uint32_t conn = shared_search(
			shared, &shared->tables[0], mixed[i], &packets[i]->key, &header);
		if (conn != SHARED_NONE &&
			touch_together(shared, worker, &shared->entries[conn], packets[i])) {
			packets[i]->conn = conn;
			worker->stats.hits++;
		} else {
			missed_mixed[misses] = mixed[i];
			missed[misses++] = packets[i];
		}
	}
	unlock_rw(shared);
	/* In order: of one connection's packets, none after a missed one was found in time. */
	if (misses != 0) {
		lock_exclusive(shared, worker);
		step_all(shared, worker, missed, missed_mixed, misses);
		unlock_rw(shared);
	}
}

static unsigned int rwlock_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	uint64_t horizon_ns)
{
	lock_exclusive(shared, worker);
	unsigned int removed = drop_all(shared, worker, conns, count, horizon_ns);
	unlock_rw(shared);
	return removed;
}

/* ---- a lock per bucket ----------------------------------------------------------------------- */

static void bucket_process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	uint64_t mixed[BASE_BURST_MAX];
	shared_prepare(shared, &shared->tables[0], packets, count, mixed);
	for (unsigned int i = 0; i < count; i++) {
		atomic_uint_least64_t *header = lock_bucket(shared, worker, mixed[i]);
		shared_step_alone(shared, worker, &shared->tables[0], mixed[i], packets[i], false);
		unlock_bucket(header);
	}
}

/* Entries of the worker's own pool: only it gives them a hash. */
static unsigned int bucket_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	uint64_t horizon_ns)
{
	unsigned int removed = 0;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t mixed = shared_mix(shared, shared->cold[conns[i]].hash);
		atomic_uint_least64_t *header = lock_bucket(shared, worker, mixed);
		removed += drop_if_due(shared, worker, conns[i], horizon_ns);
		unlock_bucket(header);
	}
	return removed;
}

const struct conntrack_sharing_ops shared_bucket_lock_ops = {
	.name = "bucket_lock",
	.summary = "one table, a spinning lock in each bucket's header, for lookups too",
	.guarantee = "exclusive within a bucket; its holder can stop those who meet it there",
	.any_worker = true,
	.waits = true,
	.process = bucket_process,
	.expire = bucket_expire,
};

const struct conntrack_sharing_ops shared_rwlock_ops = {
	.name = "rwlock",
	.summary = "one table; hits of a burst under a shared lock, changes under an exclusive one",
	.guarantee = "hits go together, insertions and removals stop everybody",
	.any_worker = true,
	.waits = true,
	.process = rwlock_process,
	.expire = rwlock_expire,
};

const struct conntrack_sharing_ops shared_mutex_ops = {
	.name = "mutex",
	.summary = "one table, each burst under one pthread mutex",
	.guarantee = "one worker at a time",
	.any_worker = true,
	.waits = true,
	.process = mutex_process,
	.expire = mutex_expire,
};

const struct conntrack_sharing_ops shared_spinlock_ops = {
	.name = "spinlock",
	.summary = "one table, each burst under one spinning lock",
	.guarantee = "one worker at a time",
	.any_worker = true,
	.waits = true,
	.process = spinlock_process,
	.expire = spinlock_expire,
};
