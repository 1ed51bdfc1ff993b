/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conntrack: per-connection state of one shard.
 *
 * One tracker = one shard = one writer. Packets choose the shard by symmetric hash, so nothing is
 * shared and no lock exists. A burst is processed together: hash all, prefetch buckets, compare
 * tags, prefetch entries, compare keys, step states. A flow run is looked up once, and so are equal
 * keys that stand apart in the burst.
 *
 * Entries are index-stable: an index, once given, names the same connection until it is removed,
 * so timers, chain functions and a GPU may keep it. generation tells reuse.
 *
 * Time is an argument: each packet's arrival time drives its connection (states, timeouts),
 * whatever the order across connections. A connection whose timeout has passed when its next
 * packet comes is expired and a new one begins, whether or not the timer wheel has come by; the
 * wheel never removes one early. Results of a flow thus depend on that flow's packets
 * alone, unless the table is full.
 *
 * Books: inserted = live + expired + closed + evicted + purged.
 *   expired  removed by its idle timeout in a state that was open or half open
 *   closed   removed (by timeout or by a SYN that reuses the tuple) after FIN/FIN or RST
 *   evicted  removed by the full-table policy
 *   purged   removed by conntrack_purge
 *
 * Cost: two cache lines per lookup (bucket, entry), both prefetched; a packet that leaves its
 * connection's state as it is takes about 180 instructions. Insertion and failed insertion are
 * O(1); an insertion is refused while there is room only when 136 keys share one bucket, which keys
 * chosen to collide can do and random ones do not (conntrack/table.h). Memory: 64 bytes per entry,
 * 64 per bucket of 8 and 8 for overflow lines, 4 for the hash, 9 for timers, and user_bytes, all
 * allocated at create. Buckets are filled to 80 % when entries_max are in: 95 bytes per entry then,
 * and about 185 KB that do not depend on their number.
 *
 * Threads: one owner.
 *
 *	conntrack_advance(tracker, horizon_ns, budget);
 *	conntrack_process_burst(tracker, &burst);  // packets get conn, conn_flags, maybe a drop
 *	...
 *	conntrack_finish(tracker, end_ns);         // timers run out to the end of the trace
 */
#pragma once

#include "base/arena.h"
#include "base/burst.h"

enum conntrack_state {
	CONNTRACK_STATE_NONE,
	CONNTRACK_STATE_TCP_SYN_SENT,
	CONNTRACK_STATE_TCP_SYN_SENT2, /* both sides have sent SYN: simultaneous open */
	CONNTRACK_STATE_TCP_SYN_RECV,
	CONNTRACK_STATE_TCP_ESTABLISHED,
	CONNTRACK_STATE_TCP_FIN_WAIT,   /* one side has sent FIN */
	CONNTRACK_STATE_TCP_CLOSE_WAIT, /* ... and it was acknowledged: half closed */
	CONNTRACK_STATE_TCP_LAST_ACK,   /* both have sent FIN */
	CONNTRACK_STATE_TCP_TIME_WAIT,
	CONNTRACK_STATE_TCP_CLOSE, /* RST */
	CONNTRACK_STATE_UDP_UNREPLIED,
	CONNTRACK_STATE_UDP_REPLIED,
	CONNTRACK_STATE_UDP_STREAM, /* replied, and still active two seconds after it began */
	CONNTRACK_STATE_ICMP,
	CONNTRACK_STATE_GRE_UNREPLIED,
	CONNTRACK_STATE_GRE_REPLIED,
	CONNTRACK_STATE_SCTP_CLOSED, /* INIT, ABORT or SHUTDOWN COMPLETE */
	CONNTRACK_STATE_SCTP_COOKIE_WAIT,
	CONNTRACK_STATE_SCTP_COOKIE_ECHOED,
	CONNTRACK_STATE_SCTP_ESTABLISHED,
	CONNTRACK_STATE_SCTP_SHUTDOWN_SENT, /* by the opener */
	CONNTRACK_STATE_SCTP_SHUTDOWN_RECD, /* by its peer */
	CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT,
	CONNTRACK_STATE_SCTP_HEARTBEAT_SENT, /* the first packet was a HEARTBEAT */
	CONNTRACK_STATE_GENERIC,
	CONNTRACK_STATES_COUNT
};

/* "tcp_established", ...; never NULL. */
const char *conntrack_state_name(enum conntrack_state state);

enum conntrack_full_policy {
	CONNTRACK_FULL_DROP_NEW,       /* BASE_DROP_CONN_TABLE_FULL */
	CONNTRACK_FULL_PASS_UNTRACKED, /* default: forwarded with conn = BASE_CONN_NONE */
	CONNTRACK_FULL_EVICT_TRANSIENT /* oldest of a few half-open, closing or unreplied ones,
					  else untracked; never an established one */
};

/* What sequence numbers say of TCP (conntrack/tcp_window.h). */
enum conntrack_tcp_windows {
	CONNTRACK_TCP_WINDOWS_OFF,     /* default: nothing is kept, nothing is asked */
	CONNTRACK_TCP_WINDOWS_LIBERAL, /* only RSTs must fit; other segments are counted */
	CONNTRACK_TCP_WINDOWS_STRICT   /* what does not fit is ignored, or invalid */
};

struct conntrack_table_ops;
struct conntrack_deletion_ops;

/* Of a deletion strategy; 0 takes its default, which its summary names. */
struct conntrack_deletion_knobs {
	uint64_t interval_ns; /* between passes, ticks, rotations */
	uint32_t budget;      /* entries looked at per packet, or per step */
	uint32_t slots;       /* of a wheel */
};

struct conntrack_config {
	uint32_t entries_max;                        /* >= 1, <= 2^28 */
	uint64_t timeout_ns[CONNTRACK_STATES_COUNT]; /* 0: never expires; defaults: Linux's */
	/* An open TCP connection lives no longer than this while it is picked up and not answered;
	 * with windows, while data is not acknowledged, a window is shut or a segment has come four
	 * times in a row. Default 300 s; 0: no such bound. */
	uint64_t tcp_unacknowledged_ns;
	enum conntrack_tcp_windows tcp_windows;
	uint64_t tick_ns; /* wheel resolution, >= 1 us, default 4 ms */
	enum conntrack_full_policy full_policy;
	uint32_t half_open_max; /* SYN_SENT + SYN_RECV entries; 0: half of entries_max */
	bool tcp_pickup; /* track connections that began before the trace, default on: TCP's without
			    a SYN, SCTP's without an INIT, ICMP replies without a request */
	bool drop_invalid;        /* default off: invalid packets pass, flagged, without refresh */
	uint32_t user_bytes;      /* zeroed bytes per connection for the chain */
	uint64_t salt;            /* mixed into the packet's hash before buckets are chosen */
	struct base_arena *arena; /* outlives the tracker */

	/* Laboratory (conntrack/lab.h); NULL, NULL: the tracker's own. */
	const struct conntrack_table_ops *table;
	const struct conntrack_deletion_ops *deletion;
	double table_load; /* 0: the table's default */
	struct conntrack_deletion_knobs knobs;
	bool no_close_hints; /* a strategy does not learn of state changes */

	/* Ablation switches: turn an optimisation off, never change a result. */
	bool no_prefetch;
	bool no_dedup; /* equal keys in a burst are looked up each time */
	bool no_runs;  /* every packet of a run is looked up */
	bool no_bulk;  /* packets one by one through all phases */

	/* Whether a packet without a connection may open one; NULL: all may. What is not admitted
	 * passes untracked, counted. Pure, or results depend on the order of lookups. */
	bool (*admit)(void *context, const struct base_packet *packet);
	void *admit_context;

	/* A connection is about to be removed; user is its chain memory. Must not call back. What
	 * a packet of a burst removes is reported when the next call on the tracker begins, so
	 * that indices and chain memory stay valid while the burst passes through the chain. */
	void (*on_remove)(void *context, uint32_t conn, void *user);
	void *on_remove_context;
};

struct conntrack_stats {
	uint64_t inserted, live, expired, closed, evicted, purged;
	uint64_t peak_live;
	uint64_t insert_failures; /* table full or half-open cap, any policy */
	uint64_t not_admitted;    /* packets that might have opened a connection; config.admit */
	uint64_t lookups;         /* table probes made */
	uint64_t lookups_saved;   /* packets that shared a probe (run or burst) */
	uint64_t hits, misses;    /* packets with and without a connection when they came */
	uint64_t invalid_packets, related_packets;
	uint64_t resyncs;               /* connections that began anew where they stood */
	uint64_t out_of_window_packets; /* tolerated, ignored or invalid */
	uint64_t untracked_packets;     /* left without a connection; dropped ones among them */
	uint64_t half_open, peak_half_open;
	uint64_t state_live[CONNTRACK_STATES_COUNT];
	uint64_t timers_fired, timers_rearmed, timers_moved_earlier;
	uint64_t expiry_late_max_ns; /* worst removal time minus due time by the wheel */
	uint64_t memory_bytes;       /* all of the tracker's memory */
	double bytes_per_entry;      /* memory_bytes / entries_max */
};

/* What a reader sees of an entry. */
struct conntrack_conn {
	struct base_flow_key key;
	enum conntrack_state state;
	bool origin_reversed; /* the opener is endpoint 1 of the key */
	bool assured; /* seen in both directions (TCP: handshake completed; UDP: a stream) */
	uint32_t generation;
	uint64_t last_seen_ns;
	uint64_t due_ns;  /* when it expires if nothing more comes; UINT64_MAX for never */
	uint64_t packets; /* both directions, saturating at 2^32 - 1 */
};

struct conntrack;

/* Linux's defaults (nf_conntrack-sysctl), 64 Ki entries. */
void conntrack_config_defaults(struct conntrack_config *config);

/* Which bucket of the tracker's own table a packet's hash falls into, for traffic that is made to
 * collide. */
uint32_t conntrack_bucket_of(uint32_t entries_max, uint64_t salt, uint32_t hash);

/* -EINVAL, -ENOMEM. */
int conntrack_create(struct conntrack **out, const struct conntrack_config *config);
void conntrack_destroy(struct conntrack *tracker);

/* Sets conn and conn_flags in each packet with a flow; marks drops by policy. Needs burst->runs */
void conntrack_process_burst(struct conntrack *tracker, struct base_burst *burst);

/* Let timers run up to horizon_ns (no packet to come is earlier), at most budget entries looked at.
 * Returns entries removed. */
unsigned int conntrack_advance(struct conntrack *tracker, uint64_t horizon_ns, unsigned int budget);

/* End of input: everything due at or before end_ns is removed; the rest is live. */
void conntrack_finish(struct conntrack *tracker, uint64_t end_ns);

/* Remove connections for which `match` says so (NULL: all). O(entries_max). Returns the count. */
uint64_t conntrack_purge(struct conntrack *tracker,
	bool (*match)(void *context, const struct conntrack_conn *conn, void *user), void *context);

/* The same in steps, while packets go on: look at `budget` entries from index `from` (0 at first).
 * Returns where to go on from, 0 when all have been looked at. A connection that begins meanwhile
 * may be missed: whoever purges a backend gives it no new ones. */
uint32_t conntrack_purge_step(struct conntrack *tracker, uint32_t from, uint32_t budget,
	bool (*match)(void *context, const struct conntrack_conn *conn, void *user), void *context);

/* New timeouts, for connections that are there as well. O(entries_max). -ENOTSUP in the laboratory:
 * strategies sort by timeout when they are made. */
int conntrack_set_timeouts(struct conntrack *tracker,
	const uint64_t timeout_ns[CONNTRACK_STATES_COUNT], uint64_t tcp_unacknowledged_ns);

/* Chain memory of a connection: user_bytes, zeroed at insertion, 16-byte aligned (64 when
 * user_bytes >= 64). Prefetched by conntrack_process_burst. */
void *conntrack_user(const struct conntrack *tracker, uint32_t conn);

uint32_t conntrack_generation(const struct conntrack *tracker, uint32_t conn);

/* Connections that ended within the burst that was processed last, as its packets came by: indices
 * and memory last until the next call that may remove any, and only then on_remove is called. So
 * whoever holds packets of theirs learns of it in time to let them go ahead of the burst. */
uint32_t conntrack_ended_count(const struct conntrack *tracker);
uint32_t conntrack_ended(const struct conntrack *tracker, uint32_t index); /* below the count */

/* Look one up by key. -ENOENT. */
int conntrack_find(const struct conntrack *tracker, const struct base_flow_key *key, uint32_t hash,
	uint32_t *conn);
/* -ENOENT when the index names no live connection. */
int conntrack_conn_get(const struct conntrack *tracker, uint32_t conn, struct conntrack_conn *out);

void conntrack_stats(const struct conntrack *tracker, struct conntrack_stats *stats);

/* Half of the connections that may live are there, or half of those that may be half open. O(1). */
bool conntrack_is_crowded(const struct conntrack *tracker);

/* Walk all structures: ids unique, one timer per entry, lists and counts agree. 0 or -EUCLEAN with
 * a reason in message. For tests and the end of a run. */
int conntrack_check(const struct conntrack *tracker, char *message, size_t message_size);
