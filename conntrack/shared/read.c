/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking on while workers write. Nothing here writes memory that is shared. */
#include "conntrack/shared/core.h"

#include <errno.h>
#include <sched.h>

enum { TRIES_PER_YIELD = 64 };

/* A view of one instant as far as the model gives one. False: no connection is there. */
static bool view_entry(const struct shared_entry *entry, struct conntrack_shared_conn *conn)
{
	for (unsigned int tries = 1;; tries++) {
		/* acquire: pairs with the release in shared_write_end */
		uint32_t before = atomic_load_explicit(&entry->version, memory_order_acquire);
		if ((before & 1) == 0) {
			shared_entry_read(entry, conn);
			/* relaxed: behind acquire loads of all that may have been written */
			if (atomic_load_explicit(&entry->version, memory_order_relaxed) == before)
				break;
		}
		if (tries % TRIES_PER_YIELD == 0)
			sched_yield(); /* the writer may need this CPU to finish */
	}
	bool live = (conn->flags & SHARED_LIVE) != 0 && conn->last_seen_ns != SHARED_DEAD;
	conn->flags &= CONNTRACK_SHARED_SEEN;
	return live;
}

static bool read_table(const struct conntrack_shared *shared, const struct shared_table *table,
	uint64_t mixed, const struct base_flow_key *key, struct conntrack_shared_conn *conn)
{
	uint64_t header, retries = 0;
	for (;;) {
		uint32_t found = shared_find(shared, table, mixed, key, &header, &retries);
		if (found == SHARED_NONE)
			return false;
		/* One that has gone since is looked for again: it may have come back elsewhere. A
		 * dead one that is still in the bucket has ended. */
		bool live = view_entry(&shared->entries[found], conn);
		if (live && base_flow_key_equal(&conn->key, key))
			return true;
		if (conn->last_seen_ns == SHARED_DEAD && base_flow_key_equal(&conn->key, key))
			return false;
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
		if (view_entry(&shared->entries[i], &conn))
			visit(context, &conn);
	}
	return 0;
}
