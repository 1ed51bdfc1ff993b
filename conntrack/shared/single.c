/* SPDX-License-Identifier: BSD-2-Clause */
/* One writer per table: shard, and readers, where versions let other threads look on. */
#include "conntrack/shared/core.h"

static inline void process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count, bool versions)
{
	const struct shared_table *table = shared_table_of(shared, worker);
	uint64_t mixed[BASE_BURST_MAX];
	shared_prepare(shared, table, packets, count, mixed);
	for (unsigned int i = 0; i < count; i++)
		shared_step_alone(shared, worker, table, mixed[i], packets[i], versions);
}

static inline unsigned int expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
	bool versions)
{
	const struct shared_table *table = shared_table_of(shared, worker);
	for (unsigned int i = 0; i < count; i++)
		shared_drop_alone(shared, worker, table, conns[i], versions);
	return count;
}

static void shard_process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	process(shared, worker, packets, count, false);
}

/* Nobody else writes: what the scan found due still is. */
static unsigned int shard_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count, uint64_t)
{
	return expire(shared, worker, conns, count, false);
}

static void readers_process(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
	struct base_packet *const *packets, unsigned int count)
{
	process(shared, worker, packets, count, true);
}

static unsigned int readers_expire(struct conntrack_shared *shared,
	struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count, uint64_t)
{
	return expire(shared, worker, conns, count, true);
}

const struct conntrack_sharing_ops shared_shard_ops = {
	.name = "shard",
	.summary = "a table per worker, packets steered by hash; the default",
	.guarantee = "nothing is shared; wait-free",
	.process = shard_process,
	.expire = shard_expire,
};

const struct conntrack_sharing_ops shared_readers_ops = {
	.name = "readers",
	.summary = "the same, and any thread reads and dumps while the worker writes",
	.guarantee = "the writer is wait-free; a view of a connection is of one instant",
	.readable = true,
	.process = readers_process,
	.expire = readers_expire,
};
