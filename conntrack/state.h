/* SPDX-License-Identifier: BSD-2-Clause */
/* What the states of a connection mean to the tracker: sets of states, default timeouts. Pure. */
#pragma once

#include "conntrack/conntrack.h"

#define CONNTRACK_SECOND_NS UINT64_C(1000000000)

/* A UDP flow seen in both directions that is still active after this is a stream. */
#define CONNTRACK_STREAM_AFTER_MS 2000

/* How long a connection is kept, beside its state. */
enum conntrack_keep {
	CONNTRACK_KEEP_UNANSWERED, /* TCP that was picked up: no longer than tcp_unacknowledged */
	CONNTRACK_KEEP_ASSURED,    /* as long as its state says */
	CONNTRACK_KEEP_UNACKED,    /* TCP with data that nobody acknowledges: the same bound */
	CONNTRACK_KEEP_RESET,      /* TCP after an RST that may be forged: as if closed */
	CONNTRACK_KEEPS_COUNT
};

enum {
	CONNTRACK_STATES_HALF_OPEN = 1 << CONNTRACK_STATE_TCP_SYN_SENT |
				     1 << CONNTRACK_STATE_TCP_SYN_SENT2 |
				     1 << CONNTRACK_STATE_TCP_SYN_RECV,
	/* FIN from both sides, or RST: a SYN may reuse the tuple. */
	CONNTRACK_STATES_CLOSED = 1 << CONNTRACK_STATE_TCP_LAST_ACK |
				  1 << CONNTRACK_STATE_TCP_TIME_WAIT |
				  1 << CONNTRACK_STATE_TCP_CLOSE,
	/* FIN or RST seen, or SHUTDOWN: BASE_CONN_CLOSING. */
	CONNTRACK_STATES_CLOSING = CONNTRACK_STATES_CLOSED | 1 << CONNTRACK_STATE_TCP_FIN_WAIT |
				   1 << CONNTRACK_STATE_TCP_CLOSE_WAIT |
				   1 << CONNTRACK_STATE_SCTP_SHUTDOWN_SENT |
				   1 << CONNTRACK_STATE_SCTP_SHUTDOWN_RECD |
				   1 << CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT,
	/* The three-way handshake is over (or was never seen). */
	CONNTRACK_STATES_SYNCHRONISED =
		1 << CONNTRACK_STATE_TCP_ESTABLISHED | 1 << CONNTRACK_STATE_TCP_FIN_WAIT |
		1 << CONNTRACK_STATE_TCP_CLOSE_WAIT | 1 << CONNTRACK_STATE_TCP_LAST_ACK |
		1 << CONNTRACK_STATE_TCP_TIME_WAIT,
	/* Without a handshake: answered or not is all there is to know. */
	CONNTRACK_STATES_STATELESS =
		1 << CONNTRACK_STATE_UDP_UNREPLIED | 1 << CONNTRACK_STATE_UDP_REPLIED |
		1 << CONNTRACK_STATE_UDP_STREAM | 1 << CONNTRACK_STATE_ICMP |
		1 << CONNTRACK_STATE_GRE_UNREPLIED | 1 << CONNTRACK_STATE_GRE_REPLIED |
		1 << CONNTRACK_STATE_GENERIC,
	/* Where packets from both sides make a connection assured. A question and its answer over
	 * UDP do not: most are over with that. */
	CONNTRACK_STATES_ASSURED_BY_ANSWER =
		CONNTRACK_STATES_SYNCHRONISED | 1 << CONNTRACK_STATE_UDP_STREAM |
		1 << CONNTRACK_STATE_ICMP | 1 << CONNTRACK_STATE_GRE_REPLIED |
		1 << CONNTRACK_STATE_SCTP_ESTABLISHED | 1 << CONNTRACK_STATE_GENERIC,
	/* SCTP before its cookie is acknowledged, and after its end. */
	CONNTRACK_STATES_SCTP_TRANSIENT = 1 << CONNTRACK_STATE_SCTP_CLOSED |
					  1 << CONNTRACK_STATE_SCTP_COOKIE_WAIT |
					  1 << CONNTRACK_STATE_SCTP_COOKIE_ECHOED |
					  1 << CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT |
					  1 << CONNTRACK_STATE_SCTP_HEARTBEAT_SENT,
};
static_assert(CONNTRACK_STATES_COUNT <= 27, "sets of states, shifted to BASE_CONN_CLOSING, fit");

static inline bool conntrack_state_in(unsigned int state, unsigned int set)
{
	return (set >> state & 1u) != 0;
}

static inline bool conntrack_state_is_tcp(unsigned int state)
{
	return state >= CONNTRACK_STATE_TCP_SYN_SENT && state <= CONNTRACK_STATE_TCP_CLOSE;
}

static inline bool conntrack_state_is_sctp(unsigned int state)
{
	return state >= CONNTRACK_STATE_SCTP_CLOSED && state <= CONNTRACK_STATE_SCTP_HEARTBEAT_SENT;
}

/* May be evicted when the table is full: half open, closed, or never answered. FIN_WAIT and
 * CLOSE_WAIT are not: a half-closed connection may still carry data for hours. */
static inline bool conntrack_state_is_transient(unsigned int state, bool assured)
{
	if (conntrack_state_in(state, CONNTRACK_STATES_HALF_OPEN | CONNTRACK_STATES_CLOSED |
					      CONNTRACK_STATES_SCTP_TRANSIENT))
		return true;
	return !assured && conntrack_state_in(state, CONNTRACK_STATES_STATELESS);
}

/* How long a connection in this state lives after its last packet; 0 for ever. */
uint64_t conntrack_state_timeout_ns(
	const struct conntrack_config *config, unsigned int state, enum conntrack_keep keep);
