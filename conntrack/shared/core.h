/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to conntrack/shared: the table, the entries and the pools that all sharing models use.
 *
 * Everything that two threads may touch is atomic. Where a model needs no order, the accesses are
 * relaxed and cost what plain ones do.
 */
#pragma once

#include "base/burst.h"
#include "base/compiler.h"
#include "conntrack/shared.h"

#include <stdatomic.h>

#define SHARED_NONE UINT32_MAX
/* Time stamp of an entry that somebody removes. Real ones are below. */
#define SHARED_DEAD  UINT64_MAX
#define SHARED_NEVER (UINT64_C(1) << 62)

enum {
	SHARED_NEAR = 7, /* slots beside the header */
	SHARED_FAR = 16, /* in two further lines */
	SHARED_SLOTS = SHARED_NEAR + SHARED_FAR,
	SHARED_BYTES_BITS = 38, /* of an entry's traffic word; packets stand above */
	SHARED_SCAN = 64,
	SHARED_LIVE = 1 << 5, /* flag of an entry that a dump may show */
};

/* Header: valid bits, a lock bit (bucket_lock), a version. */
#define SHARED_VALID   ((UINT64_C(1) << SHARED_SLOTS) - 1)
#define SHARED_LOCKED  (UINT64_C(1) << SHARED_SLOTS)
#define SHARED_VERSION (UINT64_C(1) << (SHARED_SLOTS + 1))

struct shared_bucket {
	atomic_uint_least64_t header;
	atomic_uint_least64_t slot[SHARED_NEAR]; /* tag << 32 | index + 1; 0: unclaimed */
} BASE_ALIGNED(64);
static_assert(sizeof(struct shared_bucket) == 64, "one cache line");

struct shared_further {
	atomic_uint_least64_t slot[SHARED_FAR];
} BASE_ALIGNED(64);

struct shared_entry {
	atomic_uint_least64_t key[5];
	atomic_uint_least64_t last_seen_ns;
	atomic_uint_least64_t traffic; /* packets << SHARED_BYTES_BITS | bytes */
	atomic_uint_least32_t flags;
	atomic_uint_least32_t version; /* `readers`: odd while it is written */
} BASE_ALIGNED(64);
static_assert(sizeof(struct shared_entry) == 64, "one cache line per connection");

/* Touched by insertion and removal only, by whoever owns the entry then. */
struct shared_cold {
	uint32_t hash;
	uint32_t next;
	/* lock-free: what the time stamp was, and when it was retired */
	uint64_t seen_ns, epoch;
};

struct shared_table {
	struct shared_bucket *buckets;
	struct shared_further *further;
};

/* Entries [first, first + count). Owned by one worker but for `returned`. */
struct shared_pool {
	uint32_t first, count;
	uint32_t fresh; /* of count; from this one on they have never been used */
	uint32_t free_head;
	uint32_t scan_at;
	/* Top of the stack of entries that others gave back. Push: release; taking all: acquire. */
	atomic_uint_least32_t returned BASE_ALIGNED(64);
} BASE_ALIGNED(64);

struct conntrack_shared_worker {
	struct shared_pool *pool; /* it takes entries from */
	uint32_t index;
	/* lock-free: removed, in order, and not yet out of every worker's sight; those from
	 * unstamped on have no epoch yet */
	uint32_t retired_head, retired_tail, unstamped, retired_count;
	struct shared_handover *handover; /* NULL with other models */
	struct conntrack_shared_stats stats;
	/* Said by this worker, asked by others: no packet to come is earlier. Store release; load
	 * acquire in shared_horizon. */
	atomic_uint_least64_t clock_ns BASE_ALIGNED(64);
	/* Lock-free: the epoch at its latest moment without a reference; UINT64_MAX: takes no part.
	 * Store release; load acquire where retired entries are freed. */
	atomic_uint_least64_t quiet_epoch;
} BASE_ALIGNED(64);

struct shared_locks;
struct shared_handover;

struct conntrack_shared {
	struct conntrack_shared_config config;
	uint64_t timeout_ns[CONNTRACK_SHARED_SEEN + 1]; /* by flags */
	uint32_t pools_count;   /* one per worker, or per bucket of handover */
	uint32_t tables_count;  /* one, or one per worker */
	uint32_t buckets_count; /* of each */
	uint32_t places;
	struct shared_table *tables;
	struct shared_entry *entries;
	struct shared_cold *cold;
	struct shared_pool *pools;
	struct conntrack_shared_worker *workers;
	atomic_uint_least32_t *owners; /* of handover's buckets; see handover.c */
	uint64_t *given_cycles;        /* the same: when; published with the owner */
	struct shared_locks *locks;    /* of the locked models */
	/* Lock-free: counts retirements. fetch_add acq_rel; load acquire in lockfree_quiet. */
	atomic_uint_least64_t epoch BASE_ALIGNED(64);
};

extern const struct conntrack_sharing_ops shared_shard_ops, shared_readers_ops, shared_lockfree_ops,
	shared_handover_ops, shared_bucket_lock_ops, shared_rwlock_ops, shared_mutex_ops,
	shared_spinlock_ops;

/* handover.c */
int shared_handover_create(struct conntrack_shared *shared);
void shared_handover_destroy(struct conntrack_shared *shared);

/* locked.c */
int shared_locks_create(struct conntrack_shared *shared);
void shared_locks_destroy(struct conntrack_shared *shared);

/* ---- hash and slots -------------------------------------------------------------------------- */

/* As conntrack_lab_mix: the packet's hash may be linear and its low bits are a worker's own. */
static inline uint64_t shared_mix(const struct conntrack_shared *shared, uint32_t hash)
{
	uint64_t z = (hash ^ shared->config.salt) * UINT64_C(0x9fb21c651e98df25);
	z ^= z >> 32;
	return z * UINT64_C(0xd6e8feb86659fd93);
}

static inline uint32_t shared_bucket_at(const struct conntrack_shared *shared, uint64_t mixed)
{
	return (uint32_t)(((mixed >> 32) * shared->buckets_count) >> 32);
}

static inline uint64_t shared_word(uint64_t mixed, uint32_t conn)
{
	return mixed << 32 | (uint64_t)(conn + 1);
}

static inline struct shared_table *shared_table_of(
	const struct conntrack_shared *shared, const struct conntrack_shared_worker *worker)
{
	return &shared->tables[shared->tables_count == 1 ? 0 : worker->index];
}

static inline atomic_uint_least64_t *shared_slot(
	const struct shared_table *table, uint32_t bucket, unsigned int slot)
{
	return slot < SHARED_NEAR ? &table->buckets[bucket].slot[slot]
				  : &table->further[bucket].slot[slot - SHARED_NEAR];
}

/* Which of `count` slots have this tag, whoever owns them. */
static inline uint32_t shared_match(
	const atomic_uint_least64_t *slots, unsigned int count, uint32_t tag)
{
	uint32_t mask = 0;
	/* acquire, here and at keys: the header is read again behind them */
	for (unsigned int i = 0; i < count; i++)
		mask |= (uint32_t)((atomic_load_explicit(&slots[i], memory_order_acquire) >> 32) ==
				   tag)
			<< i;
	return mask;
}

static inline bool shared_key_equal(
	const struct shared_entry *entry, const struct base_flow_key *key)
{
	uint64_t words[5], differ = 0;
	memcpy(words, key, sizeof(words));
	for (unsigned int i = 0; i < 5; i++)
		differ |= words[i] ^ atomic_load_explicit(&entry->key[i], memory_order_acquire);
	return differ == 0;
}

static inline uint32_t shared_pick(const struct conntrack_shared *shared,
	const atomic_uint_least64_t *slots, uint32_t mask, const struct base_flow_key *key)
{
	for (; mask != 0; mask &= mask - 1) {
		uint64_t word =
			atomic_load_explicit(&slots[__builtin_ctz(mask)], memory_order_acquire);
		uint32_t conn = (uint32_t)word - 1;
		/* the word may have gone meanwhile */
		if (BASE_LIKELY(word != 0) && shared_key_equal(&shared->entries[conn], key))
			return conn;
	}
	return SHARED_NONE;
}

/* The connection with this key, or SHARED_NONE, as of the header that is returned in *header.
 * Nothing is checked behind: for those who exclude writers, or check themselves. */
static inline uint32_t shared_search(const struct conntrack_shared *shared,
	const struct shared_table *table, uint64_t mixed, const struct base_flow_key *key,
	uint64_t *header)
{
	uint32_t bucket = shared_bucket_at(shared, mixed), tag = (uint32_t)mixed;
	const struct shared_bucket *near = &table->buckets[bucket];
	/* pairs with the release of whoever published a slot */
	*header = atomic_load_explicit(&near->header, memory_order_acquire);
	uint32_t valid = (uint32_t)(*header & SHARED_VALID);
	uint32_t conn = shared_pick(
		shared, near->slot, shared_match(near->slot, SHARED_NEAR, tag) & valid, key);
	if (BASE_LIKELY(conn != SHARED_NONE || valid >> SHARED_NEAR == 0))
		return conn;
	const atomic_uint_least64_t *far = table->further[bucket].slot;
	return shared_pick(
		shared, far, shared_match(far, SHARED_FAR, tag) & valid >> SHARED_NEAR, key);
}

/* The same while others write: what it says was so at one instant. */
static inline uint32_t shared_find(const struct conntrack_shared *shared,
	const struct shared_table *table, uint64_t mixed, const struct base_flow_key *key,
	uint64_t *header, uint64_t *retries)
{
	atomic_uint_least64_t *at = &table->buckets[shared_bucket_at(shared, mixed)].header;
	for (;;) {
		uint32_t conn = shared_search(shared, table, mixed, key, header);
		/* relaxed: stands behind acquire loads */
		if (BASE_LIKELY(atomic_load_explicit(at, memory_order_relaxed) == *header))
			return conn;
		(*retries)++;
	}
}

/* ---- entries --------------------------------------------------------------------------------- */

static inline uint32_t shared_packet_flags(const struct base_packet *packet)
{
	uint32_t side = (packet->flags & BASE_PACKET_REVERSED) != 0;
	uint32_t flags = CONNTRACK_SHARED_SEEN_0 << side;
	if (packet->protocol == BASE_PROTOCOL_TCP) {
		flags |= (packet->tcp_flags & BASE_TCP_FIN) != 0 ? CONNTRACK_SHARED_FIN_0 << side
								 : 0;
		flags |= (packet->tcp_flags & BASE_TCP_RST) != 0 ? CONNTRACK_SHARED_RST : 0;
	}
	return flags;
}

static inline uint64_t shared_packet_traffic(const struct base_packet *packet)
{
	return (UINT64_C(1) << SHARED_BYTES_BITS) + packet->wire_len;
}

/* Whether a traffic word is about to leave its fields. */
static inline bool shared_traffic_full(uint64_t traffic)
{
	return (traffic & (UINT64_C(1) << 63 | UINT64_C(1) << (SHARED_BYTES_BITS - 1))) != 0;
}

static inline bool shared_is_due(
	const struct conntrack_shared *shared, uint64_t seen_ns, uint32_t flags, uint64_t now_ns)
{
	return now_ns >= seen_ns + shared->timeout_ns[flags & CONNTRACK_SHARED_SEEN];
}

static inline void shared_entry_fill(struct conntrack_shared *shared, uint32_t conn,
	const struct base_packet *packet, uint32_t flags)
{
	struct shared_entry *entry = &shared->entries[conn];
	uint64_t words[5];
	memcpy(words, &packet->key, sizeof(words));
	/* Release: behind the odd version of `readers`; plain moves on x86. */
	for (unsigned int i = 0; i < 5; i++)
		atomic_store_explicit(&entry->key[i], words[i], memory_order_release);
	atomic_store_explicit(&entry->last_seen_ns, packet->time_ns, memory_order_release);
	atomic_store_explicit(&entry->traffic, shared_packet_traffic(packet), memory_order_release);
	atomic_store_explicit(&entry->flags, flags, memory_order_release);
	shared->cold[conn].hash = packet->hash;
}

static inline void shared_entry_read(
	const struct shared_entry *entry, struct conntrack_shared_conn *conn)
{
	uint64_t words[5];
	/* Acquire: before the second look at the version of `readers`. */
	for (unsigned int i = 0; i < 5; i++)
		words[i] = atomic_load_explicit(&entry->key[i], memory_order_acquire);
	memcpy(&conn->key, words, sizeof(words));
	conn->last_seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_acquire);
	uint64_t traffic = atomic_load_explicit(&entry->traffic, memory_order_acquire);
	conn->packets = traffic >> SHARED_BYTES_BITS;
	conn->bytes = traffic & ((UINT64_C(1) << SHARED_BYTES_BITS) - 1);
	conn->flags = atomic_load_explicit(&entry->flags, memory_order_acquire);
	conn->hash = 0;
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* SHARED_NONE when it is empty. */
static inline uint32_t shared_pool_take(
	const struct conntrack_shared *shared, struct shared_pool *pool)
{
	if (BASE_UNLIKELY(pool->free_head == SHARED_NONE)) {
		if (pool->fresh != pool->count)
			return pool->first + pool->fresh++;
		/* acquire: pairs with shared_pool_give's release; all that was pushed is ours */
		pool->free_head = atomic_exchange_explicit(
			&pool->returned, SHARED_NONE, memory_order_acquire);
		if (pool->free_head == SHARED_NONE)
			return SHARED_NONE;
	}
	uint32_t conn = pool->free_head;
	pool->free_head = shared->cold[conn].next;
	return conn;
}

/* By whoever owns the entry. Only whole stacks are taken, so a compare-and-swap cannot be fooled by
 * a top that went and came back. */
static inline void shared_pool_give(
	struct conntrack_shared *shared, struct conntrack_shared_worker *worker, uint32_t conn)
{
	struct shared_pool *own = worker->pool;
	if (BASE_LIKELY(conn - own->first < own->count)) {
		shared->cold[conn].next = own->free_head;
		own->free_head = conn;
		return;
	}
	struct shared_pool *home = &shared->pools[conn / own->count];
	uint32_t top = atomic_load_explicit(&home->returned, memory_order_relaxed);
	do {
		shared->cold[conn].next = top;
	} while (!atomic_compare_exchange_weak_explicit(
		&home->returned, &top, conn, memory_order_release, memory_order_relaxed));
}

static inline void shared_report(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, uint32_t conn, uint64_t seen_ns)
{
	struct conntrack_shared_conn view;
	if (shared->config.on_remove == NULL)
		return;
	shared_entry_read(&shared->entries[conn], &view);
	view.hash = shared->cold[conn].hash;
	view.flags &= CONNTRACK_SHARED_SEEN;
	view.last_seen_ns = seen_ns;
	shared->config.on_remove(shared->config.on_remove_context, worker->index, &view);
}

/* ---- insertion and removal by whoever excludes other writers of the bucket ------------------- */

static inline bool shared_insert_alone(struct conntrack_shared *shared,
	const struct shared_table *table, uint64_t mixed, uint32_t conn)
{
	uint32_t bucket = shared_bucket_at(shared, mixed);
	atomic_uint_least64_t *at = &table->buckets[bucket].header;
	uint64_t header = atomic_load_explicit(at, memory_order_relaxed);
	uint64_t room = ~header & SHARED_VALID;
	if (BASE_UNLIKELY(room == 0))
		return false;
	unsigned int slot = (unsigned int)__builtin_ctzll(room);
	atomic_store_explicit(
		shared_slot(table, bucket, slot), shared_word(mixed, conn), memory_order_release);
	/* release: pairs with the acquire load of searches */
	atomic_store_explicit(
		at, (header | UINT64_C(1) << slot) + SHARED_VERSION, memory_order_release);
	return true;
}

static inline unsigned int shared_slot_of(
	const struct shared_table *table, uint32_t bucket, uint64_t word)
{
	unsigned int slot = 0;
	while (slot < SHARED_SLOTS && atomic_load_explicit(shared_slot(table, bucket, slot),
					      memory_order_relaxed) != word)
		slot++;
	BASE_ASSERT(slot < SHARED_SLOTS);
	return slot;
}

static inline void shared_remove_alone(
	struct conntrack_shared *shared, const struct shared_table *table, uint32_t conn)
{
	uint64_t mixed = shared_mix(shared, shared->cold[conn].hash);
	uint32_t bucket = shared_bucket_at(shared, mixed);
	atomic_uint_least64_t *at = &table->buckets[bucket].header;
	unsigned int slot = shared_slot_of(table, bucket, shared_word(mixed, conn));
	uint64_t header = atomic_load_explicit(at, memory_order_relaxed);
	/* the header first: from here on searches begin anew */
	atomic_store_explicit(
		at, (header & ~(UINT64_C(1) << slot)) + SHARED_VERSION, memory_order_release);
	atomic_store_explicit(shared_slot(table, bucket, slot), 0, memory_order_release);
}

/* ---- a single writer of entries -------------------------------------------------------------- */

/* `readers`: the version is odd from here to the end. The stores between are release stores, so who
 * sees one of them sees the odd version. */
static inline void shared_write_begin(struct shared_entry *entry, bool versions)
{
	if (versions)
		atomic_store_explicit(&entry->version,
			atomic_load_explicit(&entry->version, memory_order_relaxed) + 1,
			memory_order_relaxed);
}

static inline void shared_write_end(struct shared_entry *entry, bool versions)
{
	if (versions)
		atomic_store_explicit(&entry->version,
			atomic_load_explicit(&entry->version, memory_order_relaxed) + 1,
			memory_order_release);
}

static inline void shared_drop_alone(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const struct shared_table *table, uint32_t conn,
	bool versions)
{
	struct shared_entry *entry = &shared->entries[conn];
	shared_remove_alone(shared, table, conn);
	worker->stats.expired++;
	shared_report(shared, worker, conn,
		atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed));
	shared_write_begin(entry, versions);
	atomic_store_explicit(&entry->flags, 0, memory_order_release);
	shared_write_end(entry, versions);
	shared_pool_give(shared, worker, conn);
}

/* False: its timeout had passed. */
static inline bool shared_touch_alone(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, struct shared_entry *entry,
	const struct base_packet *packet, uint32_t new_flags, bool versions)
{
	uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed);
	uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
	if (BASE_UNLIKELY(shared_is_due(shared, seen_ns, flags, packet->time_ns)))
		return false;
	uint64_t traffic = atomic_load_explicit(&entry->traffic, memory_order_relaxed);
	worker->stats.overflowed += shared_traffic_full(traffic);
	worker->stats.backwards += packet->time_ns < seen_ns;
	shared_write_begin(entry, versions);
	if (packet->time_ns > seen_ns)
		atomic_store_explicit(&entry->last_seen_ns, packet->time_ns, memory_order_release);
	atomic_store_explicit(
		&entry->traffic, traffic + shared_packet_traffic(packet), memory_order_release);
	if ((flags | new_flags) != flags)
		atomic_store_explicit(&entry->flags, flags | new_flags, memory_order_release);
	shared_write_end(entry, versions);
	return true;
}

static inline void shared_open_alone(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const struct shared_table *table, uint64_t mixed,
	struct base_packet *packet, uint32_t flags, bool versions)
{
	uint32_t conn = shared_pool_take(shared, worker->pool);
	if (BASE_UNLIKELY(conn == SHARED_NONE)) {
		worker->stats.refused_pool++;
		worker->stats.untracked++;
		return;
	}
	struct shared_entry *entry = &shared->entries[conn];
	shared_write_begin(entry, versions);
	shared_entry_fill(shared, conn, packet, flags | SHARED_LIVE);
	shared_write_end(entry, versions);
	if (BASE_UNLIKELY(!shared_insert_alone(shared, table, mixed, conn))) {
		shared_write_begin(entry, versions);
		atomic_store_explicit(&entry->flags, 0, memory_order_release);
		shared_write_end(entry, versions);
		shared_pool_give(shared, worker, conn);
		worker->stats.refused_bucket++;
		worker->stats.untracked++;
		return;
	}
	packet->conn = conn;
	packet->conn_flags = BASE_CONN_NEW;
	worker->stats.inserted++;
}

/* One packet, by a worker that excludes all others from the bucket and the entry. */
static inline void shared_step_alone(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const struct shared_table *table, uint64_t mixed,
	struct base_packet *packet, bool versions)
{
	uint64_t header;
	uint32_t flags = shared_packet_flags(packet);
	uint32_t conn = shared_search(shared, table, mixed, &packet->key, &header);
	if (BASE_LIKELY(conn != SHARED_NONE)) {
		if (BASE_LIKELY(shared_touch_alone(
			    shared, worker, &shared->entries[conn], packet, flags, versions))) {
			packet->conn = conn;
			worker->stats.hits++;
			return;
		}
		shared_drop_alone(shared, worker, table, conn, versions);
	}
	shared_open_alone(shared, worker, table, mixed, packet, flags, versions);
}

/* Ask for the entry that a lookup will find, as far as the bucket's first line tells. */
static inline void shared_prefetch_entry(
	const struct conntrack_shared *shared, const struct shared_table *table, uint64_t mixed)
{
	uint32_t bucket = shared_bucket_at(shared, mixed);
	for (unsigned int i = 0; i < SHARED_NEAR; i++) {
		/* relaxed: a guess */
		uint64_t word =
			atomic_load_explicit(&table->buckets[bucket].slot[i], memory_order_relaxed);
		if (word >> 32 == (uint32_t)mixed && word != 0) {
			BASE_PREFETCH_W(&shared->entries[(uint32_t)word - 1]);
			return;
		}
	}
}

/* Ask for the memory of a whole burst: buckets, then the entries that they point to. */
static inline void shared_prepare(const struct conntrack_shared *shared,
	const struct shared_table *table, struct base_packet *const *packets, unsigned int count,
	uint64_t *mixed)
{
	for (unsigned int i = 0; i < count; i++) {
		mixed[i] = shared_mix(shared, packets[i]->hash);
		if (!shared->config.no_prefetch)
			BASE_PREFETCH(&table->buckets[shared_bucket_at(shared, mixed[i])]);
	}
	for (unsigned int i = 0; i < count && !shared->config.no_prefetch; i++)
		shared_prefetch_entry(shared, table, mixed[i]);
}
