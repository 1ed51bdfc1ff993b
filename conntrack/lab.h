/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The laboratory: other tables and other deletion strategies under the same tracker, so that they
 * can be compared with everything else equal: keys, hash, entries, bursts, state machine, chain.
 *
 * A tracker whose config names neither takes its own table (conntrack/table.h) and timer wheel
 * (conntrack/expiry.h), compiled into its packet path. A tracker whose config names one or both
 * reaches both through the two ops tables below; the defaults are there as "bucket" and "wheel",
 * so that a comparison pays the same calls on either side.
 *
 * Tables hold (mixed hash, index) pairs; keys stay in the entries, which never move. Where a
 * library insists on its own copy of keys, its ops say so in `differs`.
 *
 * Deletion strategies decide when an idle connection leaves. They are told what happens and ask
 * conntrack_lab_expire to remove, which refuses what is not due: so no strategy can remove early
 * but through the call that says so (conntrack_lab_evict). Close hints are the calls of `changed`:
 * without them a strategy learns of a FIN or RST only when it comes by.
 *
 * Threads, memory and life cycle as conntrack.h: one owner, everything allocated at create. Cost:
 * an indirect call per chunk of 32 lookups, per insertion and per removal.
 *
 *	config.table = conntrack_table_by_name("robin_hood");
 *	config.deletion = conntrack_deletion_by_name("clock");
 *	conntrack_create(&tracker, &config);
 */
#pragma once

#include "base/histogram.h"
#include "conntrack/conntrack.h"

/* ---- tables ------------------------------------------------------------------------------- */

struct conntrack_table_config {
	uint32_t entries_max; /* pairs that must fit, >= 1 */
	uint32_t conns_max;   /* indices are below this; > entries_max in a tracker */
	double load; /* pairs per place when entries_max are in; 0: the table's own default */
	uint64_t salt;
	/* Key of index i: a struct base_flow_key at keys + i * key_stride, valid while inserted. */
	const uint8_t *keys;
	size_t key_stride;
	/* The packet's hash of index i, which conntrack_lab_mix makes `mixed` of, valid while
	 * inserted (not yet during insert). For tables that place pairs anew. */
	const uint32_t *hashes;
	bool no_prefetch;
	struct base_arena *arena; /* outlives the table */
};

struct conntrack_table_ops {
	const char *name;    /* "robin_hood" */
	const char *summary; /* one line */
	const char *library; /* NULL: own */
	const char *differs; /* what it cannot have in common with the others; NULL: nothing */
	/* -ENOMEM; -EINVAL: an impossible size; -ENOTSUP: cannot be had here. */
	int (*create)(void **table, const struct conntrack_table_config *config);
	void (*destroy)(void *table);
	uint64_t (*bytes)(const void *table);
	/* conns[i]: index whose key equals *keys[i], or BASE_CONN_NONE. Looks all up as one burst;
	 * writes no memory that is shared. count <= BASE_BURST_MAX. */
	void (*find_burst)(const void *table, const uint64_t *mixed,
		const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns);
	/* The key must not be there yet. -ENOSPC when entries_max are in or there is no place for
	 * it; in constant time then too. */
	int (*insert)(void *table, uint64_t mixed, uint32_t conn);
	/* The pair must be there. */
	void (*remove)(void *table, uint64_t mixed, uint32_t conn);
	/* Indices that a lookup of `mixed` passes anyway (its bucket or probe), at most max. NULL:
	 * the library does not tell. */
	unsigned int (*neighbours)(
		const void *table, uint64_t mixed, uint32_t *conns, unsigned int max);
	/* Ask for the memory that a removal of `mixed` begins with. NULL: nothing to ask for. */
	void (*prefetch)(const void *table, uint64_t mixed);
	/* NULL, or what is wrong inside; visit (may be NULL) is called for every pair. */
	const char *(*check)(
		const void *table, void (*visit)(void *context, uint32_t conn), void *context);
};

/* The order of documents: the default first. NULL behind the last. */
const struct conntrack_table_ops *conntrack_table_at(size_t index);
/* NULL when there is none of that name. */
const struct conntrack_table_ops *conntrack_table_by_name(const char *name);

static inline const struct base_flow_key *conntrack_table_key(
	const struct conntrack_table_config *config, uint32_t conn)
{
	return (const struct base_flow_key *)(const void *)(config->keys +
							    (size_t)conn * config->key_stride);
}

/* What all tables are given: two rounds of multiply and fold over the packet's hash, which may be
 * linear (CRC32C) and whose low bits are the same for a whole worker. */
static inline uint64_t conntrack_lab_mix(uint64_t salt, uint32_t hash)
{
	uint64_t z = (hash ^ salt) * UINT64_C(0x9fb21c651e98df25);
	z ^= z >> 32;
	return z * UINT64_C(0xd6e8feb86659fd93);
}

/* ---- deletion strategies ------------------------------------------------------------------- */

struct conntrack_deletion_config {
	struct conntrack *tracker; /* being created: not to be asked anything yet */
	const struct conntrack_config *config;
	/* For the strategy that is one with its table; others ask through the tracker. */
	const struct conntrack_table_ops *table_ops;
	void *table;
	uint32_t conns_max;                    /* indices are below this */
	struct conntrack_deletion_knobs knobs; /* defaults filled in */
	struct base_arena *arena;
};

enum { CONNTRACK_LAB_BURST = 32, CONNTRACK_LAB_CLASSES = 128 };

/* What an insertion lacks. */
enum conntrack_lack {
	CONNTRACK_LACK_NOTHING,
	CONNTRACK_LACK_ROOM,     /* entries_max are in */
	CONNTRACK_LACK_HALF_OPEN /* half_open_max are half open */
};

/* All hooks but create, destroy, bytes may be NULL: nothing to do. now_ns is the time that no
 * packet to come is earlier than; it never decreases. */
struct conntrack_deletion_ops {
	const char *name;    /* "class_fifo" */
	const char *summary; /* one line, with what its knobs are */
	/* Of the knobs that it has; 0: it has no such knob. */
	struct conntrack_deletion_knobs defaults;
	/* Nothing that was due by now_ns - slack is still there. UINT64_MAX, as no hook: the
	 * strategy cannot say. While advance is called often and with budget enough, this stays
	 * below what its file promises. */
	uint64_t (*slack_ns)(const void *deletion, uint64_t now_ns);
	/* An expired connection can be met by a packet and is then taken for live: the tracker does
	 * not compare times on lookup. */
	bool stale_hits;
	bool evicts; /* removes live connections when it must */
	/* -ENOMEM; -EINVAL: impossible knobs; -ENOTSUP: not with this table. */
	int (*create)(void **deletion, const struct conntrack_deletion_config *config);
	void (*destroy)(void *deletion);
	uint64_t (*bytes)(const void *deletion);
	void (*inserted)(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns);
	void (*removed)(void *deletion, uint32_t conn);
	/* Packets have refreshed them; behind the burst, all at once. An index may stand more than
	 * once. count <= BASE_BURST_MAX. */
	void (*touched)(void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns);
	/* Its state has changed and with it the timeout; not called when close hints are off. */
	void (*changed)(
		void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier);
	/* Before the lookups of a burst. count <= BASE_BURST_MAX. */
	void (*lookup)(void *deletion, const uint64_t *mixed, unsigned int count, uint64_t now_ns);
	/* Before an insertion; may remove up to CONNTRACK_LAB_BURST. */
	void (*make_room)(
		void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack);
	/* Maintenance after a burst, told to look at no more than budget entries; returns how many
	 * it looked at. */
	unsigned int (*advance)(void *deletion, uint64_t now_ns, unsigned int budget);
	/* NULL or what is wrong inside. */
	const char *(*check)(const void *deletion);
};

const struct conntrack_deletion_ops *conntrack_deletion_at(size_t index);
const struct conntrack_deletion_ops *conntrack_deletion_by_name(const char *name);

/* ---- what a strategy may ask of its tracker ------------------------------------------------- */

/* UINT64_MAX: never. */
uint64_t conntrack_lab_due_ns(const struct conntrack *tracker, uint32_t conn);
/* Class of its timeout, below CONNTRACK_LAB_CLASSES; all of a class have the timeout that
 * conntrack_lab_class_timeout_ns tells, 0 for never. */
unsigned int conntrack_lab_class(const struct conntrack *tracker, uint32_t conn);
uint64_t conntrack_lab_class_timeout_ns(const struct conntrack_config *config, unsigned int class);

/* The following work from every hook but inserted, removed, touched and changed. `removed` is
 * called for what goes. */

/* Remove it if it is due by now_ns: true. */
bool conntrack_lab_expire(struct conntrack *tracker, uint32_t conn, uint64_t now_ns);
/* The same for up to CONNTRACK_LAB_BURST different ones, with their memory asked for ahead. Those
 * that stay come to the front of conns; returns how many. */
unsigned int conntrack_lab_expire_burst(
	struct conntrack *tracker, uint32_t *conns, unsigned int count, uint64_t now_ns);
/* The same for all indices from first on, live or not. stays (may be NULL) is called with the due
 * time of each that stays. */
void conntrack_lab_sweep(struct conntrack *tracker, uint32_t first, uint32_t count, uint64_t now_ns,
	void (*stays)(void *context, uint64_t due_ns), void *context);
/* Remove it whether or not it is due, counted as evicted when it is not. From make_room only. False
 * when the removals of this burst have run out of room. */
bool conntrack_lab_evict(struct conntrack *tracker, uint32_t conn, uint64_t now_ns);

/* Up to max indices beside `mixed` in the table; 0 when the table does not tell. */
unsigned int conntrack_lab_neighbours(
	const struct conntrack *tracker, uint64_t mixed, uint32_t *conns, unsigned int max);

/* ---- what the laboratory measures ------------------------------------------------------------ */

struct conntrack_lab_stats {
	struct base_histogram late; /* removal - due, nanoseconds */
	uint64_t looked_at;         /* by maintenance */
	uint64_t longest_advance;   /* most entries looked at by one call of advance */
	uint64_t evicted_live;      /* evictions of connections that were not due */
	uint64_t table_bytes, deletion_bytes;
};

/* Nothing that was due that long before the latest conntrack_advance is still there. UINT64_MAX: no
 * such bound. */
uint64_t conntrack_slack_ns(const struct conntrack *tracker);

/* -ENOENT when the tracker is not in laboratory mode. */
int conntrack_lab_stats(const struct conntrack *tracker, struct conntrack_lab_stats *stats);
/* Begin to measure anew. */
void conntrack_lab_stats_reset(struct conntrack *tracker);
