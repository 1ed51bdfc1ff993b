/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking on while workers write. Nothing here writes memory that is shared. */
#include "conntrack/shared/core.h"

#include <errno.h>
#include <sched.h>

enum { TRIES_PER_YIELD = 64 };

/* A view of one instant, as far as the model gives one. */
static void view_entry(const struct shared_entry *entry, struct conntrack_shared_conn *conn)
{
	for (unsigned int tries = 1;; tries++) {
		/* acquire: pairs with the release in shared_write_end */
		uint32_t before = atomic_load_explicit(&entry->version, memory_order_acquire);
		if ((before & 1) == 0) {
			shared_entry_read(entry, conn);
			/* relaxed: behind acquire loads of all that may have been written */
			if (atomic_load_explicit(&entry->version, memory_order_relaxed) == before)
				return;
		}
		if (tries % TRIES_PER_YIELD == 0)
			sched_yield(); /* the writer may need this CPU to finish */
	}
}

static bool read_table(const struct conntrack_shared *shared, const struct shared_table *table,
	uint64_t mixed, const struct base_flow_key *key, struct conntrack_shared_conn *conn)
{
	const atomic_uint_least64_t *at = &table->buckets[shared_bucket_at(shared, mixed)].header;
	uint64_t header, retries = 0;
	for (;;) {
		uint32_t found = shared_find(shared, table, mixed, key, &header, &retries);
		if (found == SHARED_NONE)
			return false;
		view_entry(&shared->entries[found], conn);
		/* With the same header it was in its slot all the while. A dead one has ended. */
		if (atomic_load_explicit(at, memory_order_relaxed) == header) {
			conn->flags &= CONNTRACK_SHARED_SEEN;
			return conn->last_seen_ns != SHARED_DEAD;
		}
	}
}

int conntrack_shared_read(const struct conntrack_shared *shared, const struct base_flow_key *key,
	uint32_t hash, struct conntrack_shared_conn *conn)
{
	struct conntrack_shared_conn view;
	uint64_t mixed = shared_mix(shared, hash);
	if (!shared->config.sharing->readable)
		return -ENOTSUP;
	/* Which worker's table it is in is the caller's steering: try all. */
	for (uint32_t i = 0; i < shared->tables_count; i++) {
		if (read_table(shared, &shared->tables[i], mixed, key, &view)) {
			*conn = view;
			return 0;
		}
	}
	return -ENOENT;
}

uint32_t conntrack_shared_places(const struct conntrack_shared *shared)
{
	return shared->places;
}

int conntrack_shared_dump(const struct conntrack_shared *shared, uint32_t first, uint32_t count,
	void (*visit)(void *context, const struct conntrack_shared_conn *conn), void *context)
{
	struct conntrack_shared_conn conn;
	if (!shared->config.sharing->readable)
		return -ENOTSUP;
	for (uint32_t i = first; i < shared->places && i - first < count; i++) {
		view_entry(&shared->entries[i], &conn);
		if ((conn.flags & SHARED_LIVE) == 0 || conn.last_seen_ns == SHARED_DEAD)
			continue;
		conn.flags &= CONNTRACK_SHARED_SEEN;
		visit(context, &conn);
	}
	return 0;
}
