/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracker's own parts, shared by its files:
 *
 *   tracker.c     create, destroy, timers        connection.c  insert, remove, change state
 *   process.c     the packet path, in bursts     packet.c      a packet closely; packet_tcp.c
 *   inspect.c     stats, reading, purge, check   lab.c         other tables and strategies
 *
 * One array per who needs it: entries (every packet), hashes and timer positions (insertion,
 * removal), links (only when evicting), user memory (the chain).
 */
#pragma once

#include "conntrack/entry.h"
#include "conntrack/expiry.h"
#include "conntrack/lab.h"
#include "conntrack/state.h"
#include "conntrack/table.h"
#include "conntrack/tcp_window.h"

/* Transient connections in the order in which they became so; only when the policy evicts. */
enum conntrack_queue_kind {
	CONNTRACK_QUEUE_HALF_OPEN,
	CONNTRACK_QUEUE_OTHER,
	CONNTRACK_QUEUES_COUNT,
	CONNTRACK_QUEUE_NONE = CONNTRACK_QUEUES_COUNT
};

enum {
	CONNTRACK_SCOUTS = 16,      /* evictions that are prepared */
	CONNTRACK_SCOUTS_LAST = 64, /* evictions for which hints are good */
};

/* The oldest connections of a queue are the coldest. Which ones evictions take next is known, so
 * the memory that each will need is asked for some evictions ahead, a step at each eviction. These
 * are hints: what has left the queue since only costs a prefetch, and now and then they begin anew
 * from the oldest. */
struct conntrack_scouts {
	uint32_t conn[CONNTRACK_SCOUTS]; /* ring: the last ones that were asked for */
	uint32_t steps;
};

struct conntrack_queue {
	uint32_t oldest;
	uint32_t newest;
	struct conntrack_scouts scouts;
};

struct conntrack_links {
	uint32_t older;
	uint32_t newer;
};

enum {
	CONNTRACK_DEDUP_SLOTS = 512,
	CONNTRACK_STATES_PADDED = 32,
	CONNTRACK_TIMEOUTS_COUNT = CONNTRACK_STATES_PADDED * CONNTRACK_KEEPS_COUNT,
	CONNTRACK_SETTLE_MAX = 32,   /* entries taken from the wheel at a time */
	CONNTRACK_EVICT_LOOKS = 8,   /* candidates looked at */
	CONNTRACK_RECLAIM_LOOKS = 8, /* timers looked at to make room */
	/* A packet removes at most three connections: its own, and to make room one that was due
	 * and one that is evicted. */
	CONNTRACK_RETIRED_MAX = 3 * BASE_BURST_MAX,
};

/* A connection that was removed while a burst was worked on. Packets of that burst may still name
 * its index, and the chain has yet to see them: so its memory is kept, and its owner told, when
 * the next burst begins. */
struct conntrack_retired {
	struct conntrack_entry entry; /* as it was */
	uint32_t conn;
};

/* Set when the config names a table or a strategy: then both are reached through these. */
struct conntrack_lab {
	const struct conntrack_table_ops *table_ops;
	const struct conntrack_deletion_ops *deletion_ops;
	void *table;
	void *deletion;
	uint64_t now_ns; /* that the strategy knows; never decreases */
	struct conntrack_lab_stats stats;
	bool in_burst; /* removals are retired: packets of the burst may name them */
};

struct conntrack {
	/* read by every packet */
	struct conntrack_lab *lab; /* NULL: the tracker's own table and wheel */
	struct conntrack_entry *entries;
	struct conntrack_tcp_window *windows; /* by index; NULL: windows are off */
	uint8_t *user;
	uint32_t user_stride; /* 0: no user memory */
	/* By state | KEEP: a connection is expired when it is idle for longer than this. One less
	 * than the timeout, so that "never" (0) becomes the largest value. */
	uint64_t idle_max_ns[CONNTRACK_TIMEOUTS_COUNT];
	/* The same as packets compare it: "never" throughout where a strategy allows stale hits. */
	uint64_t lookup_idle_max_ns[CONNTRACK_TIMEOUTS_COUNT];
	struct conntrack_table table;
	uint32_t dedup_serial;                 /* number of the burst * BASE_BURST_MAX, wraps */
	uint32_t dedup[CONNTRACK_DEDUP_SLOTS]; /* serial + run head last seen with this hash */

	/* insertion and removal */
	uint32_t *hashes;
	uint32_t free_newest; /* freed last; a list through the entries. BASE_CONN_NONE: none */
	uint32_t free_count;  /* in the list */
	uint32_t fresh;       /* from here on, indices that no connection has had */
	uint32_t slots_count; /* entries_max, and room for those that wait to be told */
	uint32_t retired_count, retired_max;
	struct conntrack_retired *retired;
	uint32_t half_open_max;
	struct conntrack_links *links;
	struct conntrack_queue queues[CONNTRACK_QUEUES_COUNT];
	uint64_t horizon_ns; /* latest that conntrack_advance was told */
	struct conntrack_expiry expiry;

	struct conntrack_stats stats; /* counters; derived fields are filled on reading */
	struct conntrack_config config;
};

static inline bool conntrack_entry_is_assured(const struct conntrack_entry *entry)
{
	return (entry->flags & CONNTRACK_ENTRY_ASSURED) != 0;
}

static inline uint64_t conntrack_idle_max_ns(
	const struct conntrack *tracker, const struct conntrack_entry *entry)
{
	return tracker->idle_max_ns[(entry->flags & CONNTRACK_ENTRY_KEEP) | entry->state];
}

/* A packet may be older than the entry's latest: another worker or a reorderer can do that. */
static inline bool conntrack_is_expired(
	const struct conntrack *tracker, const struct conntrack_entry *entry, uint64_t time_ns)
{
	uint64_t idle_ns = time_ns - entry->last_seen_ns;
	return time_ns > entry->last_seen_ns &&
	       idle_ns > tracker->lookup_idle_max_ns[(entry->flags & CONNTRACK_ENTRY_KEEP) |
						     entry->state];
}

/* UINT64_MAX: never. */
static inline uint64_t conntrack_due_ns(
	const struct conntrack *tracker, const struct conntrack_entry *entry)
{
	uint64_t idle_max_ns = conntrack_idle_max_ns(tracker, entry);
	uint64_t due_ns;
	if (idle_max_ns == UINT64_MAX ||
		__builtin_add_overflow(entry->last_seen_ns, idle_max_ns + 1, &due_ns))
		return CONNTRACK_EXPIRY_NEVER;
	return due_ns;
}

static inline void *conntrack_user_at(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->user + (size_t)conn * tracker->user_stride;
}

enum conntrack_queue_kind conntrack_queue_of(unsigned int state, bool assured);

/* connection.c */

struct conntrack_opening {
	const struct base_flow_key *key;
	uint64_t mixed;
	uint64_t time_ns;
	uint32_t hash;
	uint32_t syn_seq; /* or opened_ms */
	uint16_t flags;   /* enum conntrack_entry_flag */
	uint8_t state;
};

/* The new connection's index, or BASE_CONN_NONE with the reason. */
uint32_t conntrack_open(struct conntrack *tracker, const struct conntrack_opening *opening,
	enum base_drop_reason *reason);

/* counter: the member of stats that this removal belongs to. */
void conntrack_remove(struct conntrack *tracker, uint32_t conn, uint64_t *counter);

/* The same from the packet path: the owner is told and the index freed by the next call of
 * conntrack_release_retired, which every entry point that may follow a burst begins with. */
void conntrack_retire(struct conntrack *tracker, uint32_t conn, uint64_t *counter);
void conntrack_release_retired_slow(struct conntrack *tracker);

static inline void conntrack_release_retired(struct conntrack *tracker)
{
	if (BASE_UNLIKELY(tracker->retired_count != 0))
		conntrack_release_retired_slow(tracker);
}

/* expired or closed, by its state. */
uint64_t *conntrack_idle_counter(struct conntrack *tracker, uint32_t conn);

/* Change state and flags; last_seen_ns must be up to date. Moves the timer earlier if need be. */
void conntrack_transition(
	struct conntrack *tracker, uint32_t conn, unsigned int state, unsigned int flags);

/* tracker.c: take up to `max` entries that fire by horizon_ns; remove those that are due by end_ns,
 * re-arm the others. Returns how many were looked at. */
unsigned int conntrack_settle(struct conntrack *tracker, uint64_t horizon_ns, uint64_t end_ns,
	unsigned int max, unsigned int *removed);

/* The same from the packet path, up to the first one that is due: it is retired. */
void conntrack_reclaim(struct conntrack *tracker);

/* ---- lab.c: what changes in laboratory mode -------------------------------------------------- */

/* Part of conntrack_create and conntrack_destroy. */
int conntrack_lab_create(struct conntrack *tracker);
void conntrack_lab_destroy(struct conntrack *tracker);
uint64_t conntrack_lab_bytes(const struct conntrack *tracker);

uint32_t conntrack_lab_find(
	const struct conntrack *tracker, uint64_t mixed, const struct base_flow_key *key);
int conntrack_lab_insert(struct conntrack *tracker, uint64_t mixed, uint32_t conn);
void conntrack_lab_inserted(struct conntrack *tracker, uint32_t conn); /* its entry is filled */
void conntrack_lab_unlink(struct conntrack *tracker, uint64_t mixed, uint32_t conn);
/* Before an insertion. */
void conntrack_lab_make_room(struct conntrack *tracker, uint64_t mixed, enum conntrack_lack lack);
void conntrack_lab_changed(struct conntrack *tracker, uint32_t conn, bool earlier);
/* Before a burst's lookups and after its last packet. */
void conntrack_lab_before(struct conntrack *tracker, const struct base_burst *burst);
void conntrack_lab_after(struct conntrack *tracker, const struct base_burst *burst);
unsigned int conntrack_lab_advance(
	struct conntrack *tracker, uint64_t horizon_ns, unsigned int budget);
void conntrack_lab_finish(struct conntrack *tracker, uint64_t end_ns);
/* NULL or what is wrong. */
const char *conntrack_lab_check(const struct conntrack *tracker,
	void (*visit)(void *context, uint32_t conn), void *context);
