/* SPDX-License-Identifier: BSD-2-Clause */
/* What all sharing models have in common: memory, time, books. */
#include "conntrack/shared.h"

#include "conntrack/shared/core.h"

#include <errno.h>
#include <string.h>

/* Entries per bucket of 23 slots when entries_max are in: one bucket in 10^9 is then too small. */
enum { PER_BUCKET = 5 };

/* ---- names ----------------------------------------------------------------------------------- */

const struct conntrack_sharing_ops *conntrack_sharing_at(size_t index)
{
	static const struct conntrack_sharing_ops *const all[] = { &shared_shard_ops,
		&shared_readers_ops, &shared_handover_ops, &shared_lockfree_ops,
		&shared_bucket_lock_ops, &shared_rwlock_ops, &shared_mutex_ops,
		&shared_spinlock_ops };
	return index < BASE_ARRAY_COUNT(all) ? all[index] : NULL;
}

const struct conntrack_sharing_ops *conntrack_sharing_by_name(const char *name)
{
	const struct conntrack_sharing_ops *ops;
	for (size_t i = 0; (ops = conntrack_sharing_at(i)) != NULL; i++) {
		if (strcmp(ops->name, name) == 0)
			return ops;
	}
	return NULL;
}

/* ---- creation -------------------------------------------------------------------------------- */

void conntrack_shared_config_defaults(struct conntrack_shared_config *config)
{
	*config = (struct conntrack_shared_config){
		.sharing = conntrack_sharing_at(0),
		.workers = 1,
		.entries_max = 65536,
		.timeout_ns = { UINT64_C(30000000000), UINT64_C(120000000000),
			UINT64_C(10000000000) },
	};
}

static uint64_t timeout_of(const struct conntrack_shared_config *config, uint32_t flags)
{
	const uint32_t both = CONNTRACK_SHARED_SEEN_0 | CONNTRACK_SHARED_SEEN_1;
	const uint32_t fins = CONNTRACK_SHARED_FIN_0 | CONNTRACK_SHARED_FIN_1;
	enum conntrack_shared_timeout which = CONNTRACK_SHARED_UNREPLIED;
	if ((flags & CONNTRACK_SHARED_RST) != 0 || (flags & fins) == fins)
		which = CONNTRACK_SHARED_CLOSED;
	else if ((flags & both) == both)
		which = CONNTRACK_SHARED_REPLIED;
	uint64_t timeout_ns = config->timeout_ns[which];
	return timeout_ns == 0 || timeout_ns > SHARED_NEVER ? SHARED_NEVER : timeout_ns;
}

static uint32_t square_root(uint32_t value)
{
	uint32_t root = 0;
	for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1)
		root += (uint64_t)(root + bit) * (root + bit) <= value ? bit : 0;
	return root;
}

/* A pool's share of entries_max, and six times what chance adds to it. */
static uint32_t pool_size(const struct conntrack_shared *shared)
{
	uint32_t mean = shared->config.entries_max / shared->pools_count + 1;
	return shared->pools_count == 1 ? shared->config.entries_max
					: mean + 6 * square_root(mean) + 16;
}

static void *allocate(
	const struct conntrack_shared_config *config, uint64_t *sum, uint64_t count, size_t size)
{
	*sum += count * size;
	return base_arena_alloc(config->arena, (size_t)count * size, BASE_CACHE_LINE);
}

static void pool_init(struct conntrack_shared *shared, uint32_t index, uint32_t size)
{
	struct shared_pool *pool = &shared->pools[index];
	pool->first = index * size;
	pool->count = size;
	pool->free_head = SHARED_NONE;
	atomic_init(&pool->returned, SHARED_NONE);
}

static void worker_init(struct conntrack_shared *shared, uint32_t index)
{
	struct conntrack_shared_worker *worker = &shared->workers[index];
	worker->index = index;
	worker->pool = &shared->pools[index];
	worker->retired_head = worker->retired_tail = worker->unstamped = SHARED_NONE;
	atomic_init(&worker->clock_ns, 0);
	atomic_init(&worker->quiet_epoch, 0);
}

static int create_tables(struct conntrack_shared *shared, uint64_t *bytes)
{
	const struct conntrack_shared_config *config = &shared->config;
	uint32_t entries = shared->places / shared->tables_count;
	shared->buckets_count = entries / PER_BUCKET + 1;
	shared->tables = allocate(config, bytes, shared->tables_count, sizeof(*shared->tables));
	if (shared->tables == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < shared->tables_count; i++) {
		struct shared_table *table = &shared->tables[i];
		table->buckets =
			allocate(config, bytes, shared->buckets_count, sizeof(*table->buckets));
		table->further =
			allocate(config, bytes, shared->buckets_count, sizeof(*table->further));
		if (table->buckets == NULL || table->further == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int create_all(struct conntrack_shared *shared)
{
	const struct conntrack_shared_config *config = &shared->config;
	uint64_t bytes = sizeof(*shared);
	shared->pools_count = config->sharing->moves ? CONNTRACK_SHARED_BUCKETS : config->workers;
	shared->tables_count = config->sharing->any_worker ? 1 : shared->pools_count;
	uint32_t pool = pool_size(shared);
	shared->places = pool * shared->pools_count;
	for (uint32_t flags = 0; flags <= CONNTRACK_SHARED_SEEN; flags++)
		shared->timeout_ns[flags] = timeout_of(config, flags);
	atomic_init(&shared->epoch, 0);
	shared->entries = allocate(config, &bytes, shared->places, sizeof(*shared->entries));
	shared->cold = allocate(config, &bytes, shared->places, sizeof(*shared->cold));
	shared->pools = allocate(config, &bytes, shared->pools_count, sizeof(*shared->pools));
	shared->workers = allocate(config, &bytes, config->workers, sizeof(*shared->workers));
	if (shared->entries == NULL || shared->cold == NULL || shared->pools == NULL ||
		shared->workers == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < shared->pools_count; i++)
		pool_init(shared, i, pool);
	for (uint32_t i = 0; i < config->workers; i++)
		worker_init(shared, i);
	int error = create_tables(shared, &bytes);
	if (error == 0)
		error = shared_locks_create(shared);
	if (error == 0 && config->sharing->moves)
		error = shared_handover_create(shared);
	shared->workers[0].stats.memory_bytes = bytes;
	return error;
}

int conntrack_shared_create(
	struct conntrack_shared **out, const struct conntrack_shared_config *config)
{
	if (config->sharing == NULL || config->arena == NULL || config->workers == 0 ||
		config->workers > CONNTRACK_SHARED_WORKERS_MAX || config->entries_max == 0 ||
		config->entries_max > CONNTRACK_SHARED_ENTRIES_MAX)
		return -EINVAL;
	struct conntrack_shared *shared =
		base_arena_alloc(config->arena, sizeof(*shared), BASE_CACHE_LINE);
	if (shared == NULL)
		return -ENOMEM;
	shared->config = *config;
	int error = create_all(shared);
	if (error != 0) {
		conntrack_shared_destroy(shared);
		return error;
	}
	*out = shared;
	return 0;
}

void conntrack_shared_destroy(struct conntrack_shared *shared)
{
	if (shared == NULL)
		return;
	struct base_arena *arena = shared->config.arena;
	uint32_t workers = shared->config.workers;
	shared_locks_destroy(shared);
	shared_handover_destroy(shared);
	for (uint32_t i = 0; shared->tables != NULL && i < shared->tables_count; i++) {
		struct shared_table *table = &shared->tables[i];
		base_arena_free(arena, table->buckets,
			(size_t)shared->buckets_count * sizeof(*table->buckets));
		base_arena_free(arena, table->further,
			(size_t)shared->buckets_count * sizeof(*table->further));
	}
	base_arena_free(arena, shared->tables, shared->tables_count * sizeof(*shared->tables));
	base_arena_free(arena, shared->entries, (size_t)shared->places * sizeof(*shared->entries));
	base_arena_free(arena, shared->cold, (size_t)shared->places * sizeof(*shared->cold));
	base_arena_free(arena, shared->pools, shared->pools_count * sizeof(*shared->pools));
	base_arena_free(arena, shared->workers, workers * sizeof(*shared->workers));
	base_arena_free(arena, shared, sizeof(*shared));
}

/* ---- packets and time ------------------------------------------------------------------------ */

/* What no packet to come is earlier than. */
static uint64_t horizon_of(
	const struct conntrack_shared *shared, const struct conntrack_shared_worker *worker)
{
	uint64_t horizon_ns = atomic_load_explicit(&worker->clock_ns, memory_order_relaxed);
	for (uint32_t i = 0; shared->tables_count == 1 && i < shared->config.workers; i++) {
		/* acquire: pairs with the release stores of clock_ns */
		uint64_t clock_ns =
			atomic_load_explicit(&shared->workers[i].clock_ns, memory_order_acquire);
		horizon_ns = clock_ns < horizon_ns ? clock_ns : horizon_ns;
	}
	return horizon_ns;
}

void conntrack_shared_begin(struct conntrack_shared *shared, unsigned int worker)
{
	struct conntrack_shared_worker *own = &shared->workers[worker];
	/* acquire, release: as between bursts */
	atomic_store_explicit(&own->quiet_epoch,
		atomic_load_explicit(&shared->epoch, memory_order_acquire), memory_order_release);
}

void conntrack_shared_process(struct conntrack_shared *shared, unsigned int worker,
	struct base_packet *const *packets, unsigned int count)
{
	struct conntrack_shared_worker *own = &shared->workers[worker];
	const struct conntrack_sharing_ops *ops = shared->config.sharing;
	struct base_packet *tracked[BASE_BURST_MAX];
	unsigned int tracked_count = 0;
	BASE_ASSERT(count <= BASE_BURST_MAX);
	for (unsigned int i = 0; i < count; i++) {
		struct base_packet *packet = packets[i];
		packet->conn = BASE_CONN_NONE;
		packet->conn_flags = 0;
		if ((packet->flags & (BASE_PACKET_FLOW | BASE_PACKET_ICMP_ERROR)) ==
			BASE_PACKET_FLOW)
			tracked[tracked_count++] = packet;
		else
			own->stats.untracked++;
	}
	if (tracked_count == 0)
		return;
	if (tracked[0]->time_ns > atomic_load_explicit(&own->clock_ns, memory_order_relaxed))
		atomic_store_explicit(&own->clock_ns, tracked[0]->time_ns, memory_order_release);
	own->stats.packets += tracked_count;
	ops->process(shared, own, tracked, tracked_count);
	if (ops->quiet != NULL)
		ops->quiet(shared, own);
}

/* Entries of the worker's pool that look due; who removes them looks again. */
static unsigned int scan(const struct conntrack_shared *shared, struct shared_pool *pool,
	uint64_t horizon_ns, unsigned int budget, uint32_t *conns)
{
	unsigned int count = 0;
	for (unsigned int i = 0; i < budget; i++) {
		if (pool->scan_at >= pool->fresh)
			pool->scan_at = 0;
		uint32_t conn = pool->first + pool->scan_at++;
		const struct shared_entry *entry = &shared->entries[conn];
		/* relaxed: a guess */
		uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
		uint64_t seen_ns = atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed);
		if ((flags & SHARED_LIVE) != 0 && seen_ns != SHARED_DEAD &&
			shared_is_due(shared, seen_ns, flags, horizon_ns))
			conns[count++] = conn;
	}
	return count;
}

static unsigned int expire(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	uint64_t horizon_ns, unsigned int budget)
{
	unsigned int removed = 0;
	while (budget != 0) {
		uint32_t conns[SHARED_SCAN];
		unsigned int looks = budget < SHARED_SCAN ? budget : SHARED_SCAN;
		unsigned int count = scan(shared, worker->pool, horizon_ns, looks, conns);
		worker->stats.looked_at += looks;
		budget -= looks;
		if (count != 0)
			removed += shared->config.sharing->expire(
				shared, worker, conns, count, horizon_ns);
	}
	return removed;
}

unsigned int conntrack_shared_advance(
	struct conntrack_shared *shared, unsigned int worker, uint64_t now_ns, unsigned int budget)
{
	struct conntrack_shared_worker *own = &shared->workers[worker];
	if (now_ns > atomic_load_explicit(&own->clock_ns, memory_order_relaxed))
		atomic_store_explicit(&own->clock_ns, now_ns, memory_order_release);
	const struct conntrack_sharing_ops *ops = shared->config.sharing;
	uint64_t horizon_ns = horizon_of(shared, own);
	unsigned int removed = 0;
	for (uint32_t parts = 0; parts < (ops->turn != NULL ? shared->pools_count : 1) &&
				 budget != 0 && (ops->turn == NULL || ops->turn(shared, own));
		parts++) {
		unsigned int looks = budget < own->pool->fresh ? budget : own->pool->fresh;
		removed += expire(shared, own, horizon_ns, looks);
		budget -= looks;
	}
	if (ops->quiet != NULL)
		ops->quiet(shared, own);
	return removed;
}

void conntrack_shared_end(struct conntrack_shared *shared, unsigned int worker)
{
	struct conntrack_shared_worker *own = &shared->workers[worker];
	if (shared->config.sharing->leave != NULL)
		shared->config.sharing->leave(shared, own);
	if (shared->config.sharing->quiet != NULL)
		shared->config.sharing->quiet(shared, own);
	atomic_store_explicit(&own->clock_ns, UINT64_MAX, memory_order_release);
	atomic_store_explicit(&own->quiet_epoch, UINT64_MAX, memory_order_release);
}

void conntrack_shared_finish(struct conntrack_shared *shared, uint64_t end_ns)
{
	const struct conntrack_sharing_ops *ops = shared->config.sharing;
	uint64_t horizon_ns = end_ns == UINT64_MAX ? UINT64_MAX - 1 : end_ns;
	for (uint32_t i = 0; i < shared->pools_count; i++) {
		struct conntrack_shared_worker *worker = &shared->workers[ops->moves ? 0 : i];
		worker->pool = &shared->pools[i];
		expire(shared, worker, horizon_ns, worker->pool->fresh);
	}
	/* All are away: whoever has retired something gets it back now. */
	for (uint32_t i = 0; i < shared->config.workers; i++)
		atomic_store_explicit(
			&shared->workers[i].quiet_epoch, UINT64_MAX, memory_order_release);
	for (uint32_t i = 0; ops->quiet != NULL && i < shared->config.workers; i++)
		ops->quiet(shared, &shared->workers[i]);
}

/* ---- books ----------------------------------------------------------------------------------- */

static void add_stats(struct conntrack_shared_stats *to, const struct conntrack_shared_stats *from)
{
	to->packets += from->packets;
	to->untracked += from->untracked;
	to->hits += from->hits;
	to->inserted += from->inserted;
	to->expired += from->expired;
	to->refused_pool += from->refused_pool;
	to->refused_bucket += from->refused_bucket;
	to->overflowed += from->overflowed;
	to->looked_at += from->looked_at;
	to->retries += from->retries;
	to->lost_races += from->lost_races;
	to->contended += from->contended;
	to->backwards += from->backwards;
	to->handovers += from->handovers;
	to->parked += from->parked;
	to->parked_most = from->parked_most > to->parked_most ? from->parked_most : to->parked_most;
	to->pauses += from->pauses;
	to->pause_cycles += from->pause_cycles;
	to->transfer_cycles += from->transfer_cycles;
	to->transfer_most_cycles = from->transfer_most_cycles > to->transfer_most_cycles
					   ? from->transfer_most_cycles
					   : to->transfer_most_cycles;
	to->pause_most_cycles = from->pause_most_cycles > to->pause_most_cycles
					? from->pause_most_cycles
					: to->pause_most_cycles;
	to->memory_bytes += from->memory_bytes;
	to->live += from->inserted - from->expired;
}

void conntrack_shared_worker_stats(const struct conntrack_shared *shared, unsigned int worker,
	struct conntrack_shared_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	add_stats(stats, &shared->workers[worker].stats);
}

void conntrack_shared_stats(
	const struct conntrack_shared *shared, struct conntrack_shared_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	for (uint32_t i = 0; i < shared->config.workers; i++)
		add_stats(stats, &shared->workers[i].stats);
}
