/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing models: how several workers keep connections at the same time. All models stand on one
 * table, one entry layout and one small notion of a connection, so that what differs between them
 * is the sharing alone.
 *
 * What is tracked, under every model: key, time of the latest packet, packets and bytes, which
 * directions have been seen, FIN and RST. A connection has one of three timeouts: unreplied,
 * replied, closed (RST, or FIN from both sides). A packet that comes when the timeout has passed
 * begins a new connection, whoever has come by. This is less than a tracker does (conntrack.h): no
 * TCP states, no related errors (ICMP errors pass untracked), no memory of the chain.
 *
 * Table: a bucket is a header word and 23 slots of (tag, index), 7 in the header's own cache line
 * and 16 in two more that are read only when they hold something. The header carries a bit for each
 * slot that is valid and a version that moves with every insertion and removal in the bucket. A
 * slot's word is owned by whoever set it until the header's bit says that it is valid. So a lookup
 * reads the header, slots and keys, and the header again; no counter is common to two buckets.
 * Entries never move. They come from pools, one per worker; who removes one that
 * came from another's pool gives it back through a stack that the owner empties as a whole.
 *
 * Time is an argument. Each worker says how far its packets have come; maintenance removes only
 * what was due before the time that no worker's packet to come is earlier than (single-writer
 * models: its own). So no model removes early, however far workers are apart.
 *
 * Books: inserted = live + expired, after conntrack_shared_finish live = 0; every entry is free,
 * live or retired. Refused insertions and lost races are counted.
 *
 * Models (conntrack_sharing_at), and what each guarantees:
 *   shard        a table per worker; the caller steers both directions of a connection to one
 *                worker. Nothing is shared. Wait-free.
 *   readers      the same, and any number of threads read while the worker writes (below). The
 *                writer never waits. It stores a version beside the entry before and after, which
 *                costs no atomic read-modify-write.
 *   handover     a table per bucket of the steering hash, 128 of them, each with one owner at a
 *                time. An owner hands a bucket over, with all its connections, by one store; its
 *                next owner keeps packets that came too early, in order, until then. No packet is
 *                lost or reordered, nothing is copied. A worker waits only when it holds
 *                CONNTRACK_SHARED_PARKED_MAX of them, or has nothing else left to do.
 *   lockfree     one table, any packet on any worker. Insertion claims a slot, then publishes it by
 *                one compare-and-swap of the header that it searched: two workers cannot insert the
 *                same key. Whoever removes first claims the entry's time stamp, so that no update
 *                is lost on one that goes. Entries are used again when every worker has
 *                finished the burst it was in (quiescent states). Some worker always gets on, but
 *                one that stops within a burst keeps retired entries from coming back.
 *   bucket_lock  one table; every operation, lookups too, locks its bucket.
 *   rwlock       one table; a burst's hits under a shared lock, insertions and removals under an
 *                exclusive one.
 *   mutex        one table; a burst under one pthread mutex.
 *   spinlock     one table; a burst under one spinning lock that yields its CPU after a while,
 *                since its holder may need it.
 * Locked models are blocking: a holder that is not running stops all others.
 *
 * Threads: worker i's functions are called by one thread at a time; conntrack_shared_read and
 * conntrack_shared_dump by any thread while workers run, where the model says `readable`. All else
 * before workers begin or after they have ended. The on_remove callback runs in the thread of the
 * worker that is named.
 *
 * Memory: all at create; per entry 64 bytes and 24 for the hash and lists, about 38 for its
 * share of a bucket.
 *
 *	conntrack_shared_create(&shared, &config);
 *	// in worker i's thread
 *	conntrack_shared_begin(shared, i);
 *	conntrack_shared_process(shared, i, packets, count);	// times do not decrease
 *	conntrack_shared_advance(shared, i, now_ns, budget);
 *	...
 *	conntrack_shared_end(shared, i);
 *	// when all have ended
 *	conntrack_shared_finish(shared, UINT64_MAX);
 */
#pragma once

#include "base/arena.h"
#include "base/packet.h"

enum {
	CONNTRACK_SHARED_WORKERS_MAX = 64,
	CONNTRACK_SHARED_ENTRIES_MAX = 1 << 28,
	CONNTRACK_SHARED_MESSAGE_SIZE = 160,
	CONNTRACK_SHARED_BUCKETS = 128, /* of a device's indirection table */
	CONNTRACK_SHARED_PARKED_MAX = 4096,
};

enum conntrack_shared_timeout {
	CONNTRACK_SHARED_UNREPLIED,
	CONNTRACK_SHARED_REPLIED,
	CONNTRACK_SHARED_CLOSED,
	CONNTRACK_SHARED_TIMEOUTS_COUNT
};

/* What has been seen of a connection; bits only come, so their order does not matter. */
enum conntrack_shared_flag {
	CONNTRACK_SHARED_SEEN_0 = 1 << 0, /* a packet whose source is endpoint 0 of the key */
	CONNTRACK_SHARED_SEEN_1 = 1 << 1,
	CONNTRACK_SHARED_FIN_0 = 1 << 2,
	CONNTRACK_SHARED_FIN_1 = 1 << 3,
	CONNTRACK_SHARED_RST = 1 << 4,
	CONNTRACK_SHARED_SEEN = (1 << 5) - 1, /* all of the above */
};

struct conntrack_shared;
struct conntrack_shared_worker;

struct conntrack_sharing_ops {
	const char *name;      /* "lockfree" */
	const char *summary;   /* one line */
	const char *guarantee; /* one line */
	bool any_worker; /* a connection's packets may come to any worker; else to one, by hash */
	bool readable;   /* other threads may read while workers write */
	bool moves;      /* buckets of connections can be handed to another worker */
	bool waits;      /* a worker can wait for another one that holds a lock */
	/* Private: packets with a flow, at most BASE_BURST_MAX. */
	void (*process)(struct conntrack_shared *shared, struct conntrack_shared_worker *worker,
		struct base_packet *const *packets, unsigned int count);
	/* Remove those that are still due; at most CONNTRACK_SHARED_SCAN. Returns how many. */
	unsigned int (*expire)(struct conntrack_shared *shared,
		struct conntrack_shared_worker *worker, const uint32_t *conns, unsigned int count,
		uint64_t horizon_ns);
	/* Point the worker at what it maintains next; false: it owns nothing. NULL: it has one
	 * part. */
	bool (*turn)(struct conntrack_shared *shared, struct conntrack_shared_worker *worker);
	/* Before the worker ends; NULL: nothing to do. */
	void (*leave)(struct conntrack_shared *shared, struct conntrack_shared_worker *worker);
	/* Between bursts; NULL: nothing to do. */
	void (*quiet)(struct conntrack_shared *shared, struct conntrack_shared_worker *worker);
};

/* The order of documents: the default first. NULL behind the last. */
const struct conntrack_sharing_ops *conntrack_sharing_at(size_t index);
/* NULL when there is none of that name. */
const struct conntrack_sharing_ops *conntrack_sharing_by_name(const char *name);

/* What is known of one connection at one time. */
struct conntrack_shared_conn {
	struct base_flow_key key;
	uint32_t hash;  /* of on_remove only, else 0 */
	uint32_t flags; /* enum conntrack_shared_flag */
	uint64_t last_seen_ns;
	uint64_t packets, bytes; /* on the wire */
};

struct conntrack_shared_config {
	const struct conntrack_sharing_ops *sharing;
	uint32_t workers; /* 1 to CONNTRACK_SHARED_WORKERS_MAX */
	/* Split evenly between workers, each part larger by what chance may need. */
	uint32_t entries_max;
	uint64_t timeout_ns[CONNTRACK_SHARED_TIMEOUTS_COUNT]; /* 0: never */
	uint64_t salt;
	bool no_prefetch; /* ablation */
	/* A connection has been removed; its counts are final. May be NULL. */
	void (*on_remove)(
		void *context, unsigned int worker, const struct conntrack_shared_conn *conn);
	void *on_remove_context;
	struct base_arena *arena; /* outlives it */
};

/* Sums over workers, or one worker's. */
struct conntrack_shared_stats {
	uint64_t packets;   /* with a flow */
	uint64_t untracked; /* without one, or refused */
	uint64_t hits, inserted, expired;
	uint64_t refused_pool;   /* the worker's pool was empty */
	uint64_t refused_bucket; /* the bucket's 23 slots were taken: keys that collide */
	uint64_t overflowed;     /* updates of a connection past 2^25 packets or 2^37 bytes: its
				    counts are not to be trusted */
	uint64_t looked_at;      /* by maintenance */
	uint64_t retries;        /* lock-free: searches that a change by another worker undid */
	uint64_t lost_races;     /* lock-free: insertions that another worker had just made */
	uint64_t contended;      /* locks that were not free at once */
	uint64_t backwards; /* single writers: packets older than their connection's latest one */
	/* handover: buckets taken over, packets that came before their bucket, the most at a time,
	 * and how long buckets with waiting packets took to come */
	uint64_t handovers, parked, parked_most, pauses, pause_cycles, pause_most_cycles;
	uint64_t transfer_cycles, transfer_most_cycles; /* of that, after it had been given */
	uint64_t live;                                  /* exact when nobody writes */
	uint64_t memory_bytes;
};

/* 30 s, 120 s, 10 s; 64 Ki entries, shard, one worker. */
void conntrack_shared_config_defaults(struct conntrack_shared_config *config);

/* -EINVAL, -ENOMEM. */
int conntrack_shared_create(
	struct conntrack_shared **out, const struct conntrack_shared_config *config);
void conntrack_shared_destroy(struct conntrack_shared *shared);

/* The worker takes part from here on; until all of them do, shared tables expire nothing. Each
 * begins and ends once. */
void conntrack_shared_begin(struct conntrack_shared *shared, unsigned int worker);

/* At most BASE_BURST_MAX packets, parsed, times not decreasing from call to call. Sets conn (that
 * may be another connection's as soon as this worker's next call begins) and BASE_CONN_NEW. */
void conntrack_shared_process(struct conntrack_shared *shared, unsigned int worker,
	struct base_packet *const *packets, unsigned int count);

/* Looks at `budget` entries of the worker's pool. now_ns: none of its packets to come is earlier.
 * Returns entries removed. */
unsigned int conntrack_shared_advance(
	struct conntrack_shared *shared, unsigned int worker, uint64_t now_ns, unsigned int budget);

/* The worker takes no part any more: it keeps nobody's time or memory back. */
void conntrack_shared_end(struct conntrack_shared *shared, unsigned int worker);

/* When all workers have ended: remove what is due at end_ns (UINT64_MAX: all), hand everything
 * retired to on_remove. Called for worker 0's callback context. */
void conntrack_shared_finish(struct conntrack_shared *shared, uint64_t end_ns);

/* ---- handover -------------------------------------------------------------------------------- */

/* Bucket of a packet's hash. */
static inline uint32_t conntrack_shared_bucket(uint32_t hash)
{
	/* the multiplier's upper bits: a linear hash has even lower ones for some traffic */
	return (hash * UINT32_C(0x9e3779b1)) >> 25;
}

/* Who owns a bucket at first; to steer by, with every model. */
static inline uint32_t conntrack_shared_first_owner(uint32_t bucket, uint32_t workers)
{
	return bucket * workers / CONNTRACK_SHARED_BUCKETS;
}

/*
 * Hand a bucket over. The worker owns it or will get it by an earlier hand-over, and has processed
 * every packet of the bucket that it will be given. The next owner may be given packets of it at
 * any time, before too: they wait, in order, and must stay valid until its
 * conntrack_shared_process or conntrack_shared_end has worked on them (conn and conn_flags are
 * set then). When several hand-overs are on their way, all workers meet them in one order, as
 * they do when a device's table is changed: then nobody waits for ever.
 */
void conntrack_shared_give(
	struct conntrack_shared *shared, unsigned int worker, uint32_t bucket, unsigned int to);

/* ---- readers: any thread, while workers write; they write no shared memory ------------------- */

/* A consistent view of one connection. -ENOENT; -ENOTSUP: not with this model. */
int conntrack_shared_read(const struct conntrack_shared *shared, const struct base_flow_key *key,
	uint32_t hash, struct conntrack_shared_conn *conn);

/* Indices that a dump walks through. */
uint32_t conntrack_shared_places(const struct conntrack_shared *shared);
/* Hand each connection at places [first, first + count) to visit. One that lives through the whole
 * of a dump is seen once; one that comes or goes meanwhile may or may not be. With `readers` each
 * view is of one instant; with `lockfree` its fields may be a packet apart. -ENOTSUP. */
int conntrack_shared_dump(const struct conntrack_shared *shared, uint32_t first, uint32_t count,
	void (*visit)(void *context, const struct conntrack_shared_conn *conn), void *context);

/* ---- when nobody writes ---------------------------------------------------------------------- */

void conntrack_shared_stats(
	const struct conntrack_shared *shared, struct conntrack_shared_stats *stats);
void conntrack_shared_worker_stats(const struct conntrack_shared *shared, unsigned int worker,
	struct conntrack_shared_stats *stats);

/* Walk everything: one valid slot per live entry and key, pools and books add up. 0 or -EUCLEAN
 * with a reason. message: CONNTRACK_SHARED_MESSAGE_SIZE. */
int conntrack_shared_check(const struct conntrack_shared *shared, char *message);
