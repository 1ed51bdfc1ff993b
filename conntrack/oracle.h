/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The oracle: what a connection tracker of unlimited size must say about each packet. Connections
 * stand in an ordered map (the C library's tsearch) and, by due time, in a binary heap; timeouts
 * are compared in nanoseconds on every packet. No table, no wheel, no bursts: slow, obviously
 * right, and the measure of everything in conntrack/tables and conntrack/deletion. It shares with
 * the tracker the step functions of TCP and SCTP (whose states have a judge of their own in
 * tests/support/conn_script.h and in Linux) and the list of timeouts. Windows it judges by itself.
 *
 * A judge that follows a tracker which has refused, evicted or kept a connection too long tells the
 * oracle so (conntrack_oracle_forget, and `kept` of conntrack_oracle_packet).
 *
 * Cost: some microseconds per packet, 200 bytes per connection from malloc; out of memory aborts.
 * Threads: one owner.
 *
 *	conntrack_oracle_init(&oracle, &config);
 *	answer = conntrack_oracle_packet(&oracle, packet, false);
 *	...
 *	conntrack_oracle_release(&oracle);
 */
#pragma once

#include "conntrack/conntrack.h"

/* Whose sequence number syn_seq is. */
enum conntrack_oracle_syn {
	CONNTRACK_ORACLE_SYN_NONE,
	CONNTRACK_ORACLE_SYN_GUESSED, /* of the SYN that the first packet seen must have had */
	CONNTRACK_ORACLE_SYN_OWN,
	CONNTRACK_ORACLE_SYN_OFFERED /* of one that the open connection ignored */
};

/* What TCP's numbers tell of one side. */
struct conntrack_oracle_side {
	bool seen;
	bool inferred;    /* not seen, but its peer acknowledges: */
	uint32_t sent;    /* up to here */
	uint32_t allowed; /* up to here, by its peer */
	uint32_t room;    /* the largest window that it has offered */
	bool acks;
	uint32_t acked; /* of its peer's numbers, up to here */
	bool owed;      /* what it has sent is not acknowledged */
	bool scales, sacks;
	unsigned int scale;
};

struct conntrack_oracle_tcp {
	struct conntrack_oracle_side side[2]; /* the opener, its peer */
	bool blind;                           /* something of it was not seen whole */
	/* The latest segment: what it was, whose, and its numbers. */
	char last_kind; /* 'S'YN, syn-ac'K', 'A'CK, 'F'IN, 'R'ST */
	bool last_reply;
	uint32_t last_seq, last_ack, last_end, last_window;
	unsigned int again;
	/* A SYN that was ignored. */
	bool offers_scale, offers_sack;
	unsigned int offered_scale, offered_window;
};

struct conntrack_oracle_conn {
	struct base_flow_key key;
	uint64_t id; /* counts up from 1 */
	uint64_t opened_ns, last_seen_ns;
	uint64_t packets;
	enum conntrack_state state;
	uint32_t syn_seq; /* one number is kept: a later SYN takes an earlier one's place */
	enum conntrack_oracle_syn syn;
	bool challenged; /* a SYN came in LAST_ACK: an ACK may answer it */
	bool recovering; /* its opener reset what its SYN was challenged for */
	bool reversed, origin_seen, reply_seen, assured;
	bool closer_reply, simultaneous, picked_up;
	struct conntrack_oracle_tcp tcp; /* where windows are on */
	bool stuck, doubted;             /* kept for less than its state says */
	uint64_t due_ns;                 /* UINT64_MAX: never */
	size_t place;                    /* in the heap */
	uint32_t conn;                   /* the caller's: where the tracker keeps it */
};

struct conntrack_oracle {
	struct conntrack_config config;
	void *by_key;                        /* tsearch */
	struct conntrack_oracle_conn **heap; /* earliest due time first */
	size_t count, capacity;
	uint64_t ids;
	uint64_t inserted, expired, closed, purged, forgotten;
	uint64_t hits, misses, invalid, related, untracked, resyncs, out_of_window;
};

struct conntrack_oracle_answer {
	uint64_t id; /* 0: no connection */
	uint8_t conn_flags;
	bool dropped;
};

void conntrack_oracle_init(struct conntrack_oracle *oracle, const struct conntrack_config *config);
void conntrack_oracle_release(struct conntrack_oracle *oracle);

/* kept: a connection of this key whose time is up is taken for live, as a tracker does that does
 * not compare times on lookup. */
struct conntrack_oracle_answer conntrack_oracle_packet(
	struct conntrack_oracle *oracle, const struct base_packet *packet, bool kept);

/* NULL when there is none. Those whose time is up are there until conntrack_oracle_advance, or the
 * next packet of their key. */
struct conntrack_oracle_conn *conntrack_oracle_find(
	const struct conntrack_oracle *oracle, const struct base_flow_key *key);

/* The one that is due first; NULL when there is none. */
struct conntrack_oracle_conn *conntrack_oracle_first(const struct conntrack_oracle *oracle);

/* Remove what is due by horizon_ns. Changes no later answer if no packet to come is earlier. */
void conntrack_oracle_advance(struct conntrack_oracle *oracle, uint64_t horizon_ns);

/* Remove one, counted as expired or closed by its state. */
void conntrack_oracle_expire(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);

/* Remove one that the tracker does not have, for a reason that the oracle does not know. */
void conntrack_oracle_forget(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);

/* Remove all of a protocol; 0: all. Returns how many. */
uint64_t conntrack_oracle_purge(struct conntrack_oracle *oracle, uint8_t protocol);
