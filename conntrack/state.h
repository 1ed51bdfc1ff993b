/* SPDX-License-Identifier: BSD-2-Clause */
/* What the states of a connection mean to the tracker: sets of states, default timeouts. Pure. */
#pragma once

#include "conntrack/conntrack.h"

#define CONNTRACK_SECOND_NS UINT64_C(1000000000)

/* A TCP connection that was picked up and not answered yet is kept no longer than this. */
#define CONNTRACK_UNANSWERED_MAX_NS (300 * CONNTRACK_SECOND_NS)

enum {
	CONNTRACK_STATES_HALF_OPEN = 1 << CONNTRACK_STATE_TCP_SYN_SENT |
				     1 << CONNTRACK_STATE_TCP_SYN_SENT2 |
				     1 << CONNTRACK_STATE_TCP_SYN_RECV,
	/* FIN from both sides, or RST: a SYN may reuse the tuple. */
	CONNTRACK_STATES_CLOSED = 1 << CONNTRACK_STATE_TCP_LAST_ACK |
				  1 << CONNTRACK_STATE_TCP_TIME_WAIT |
				  1 << CONNTRACK_STATE_TCP_CLOSE,
	/* FIN or RST seen: BASE_CONN_CLOSING. */
	CONNTRACK_STATES_CLOSING = CONNTRACK_STATES_CLOSED | 1 << CONNTRACK_STATE_TCP_FIN_WAIT |
				   1 << CONNTRACK_STATE_TCP_CLOSE_WAIT,
	/* The three-way handshake is over (or was never seen). */
	CONNTRACK_STATES_SYNCHRONISED =
		1 << CONNTRACK_STATE_TCP_ESTABLISHED | 1 << CONNTRACK_STATE_TCP_FIN_WAIT |
		1 << CONNTRACK_STATE_TCP_CLOSE_WAIT | 1 << CONNTRACK_STATE_TCP_LAST_ACK |
		1 << CONNTRACK_STATE_TCP_TIME_WAIT,
	/* Without a handshake: answered or not is all there is to know. */
	CONNTRACK_STATES_STATELESS = 1 << CONNTRACK_STATE_UDP_UNREPLIED |
				     1 << CONNTRACK_STATE_UDP_REPLIED | 1 << CONNTRACK_STATE_ICMP |
				     1 << CONNTRACK_STATE_GENERIC,
};

static inline bool conntrack_state_in(unsigned int state, unsigned int set)
{
	return (set >> state & 1u) != 0;
}

static inline bool conntrack_state_is_tcp(unsigned int state)
{
	return state >= CONNTRACK_STATE_TCP_SYN_SENT && state <= CONNTRACK_STATE_TCP_CLOSE;
}

/* May be evicted when the table is full: half open, closed, or never answered. FIN_WAIT and
 * CLOSE_WAIT are not: a half-closed connection may still carry data for hours. */
static inline bool conntrack_state_is_transient(unsigned int state, bool assured)
{
	if (conntrack_state_in(state, CONNTRACK_STATES_HALF_OPEN | CONNTRACK_STATES_CLOSED))
		return true;
	return !assured && conntrack_state_in(state, CONNTRACK_STATES_STATELESS);
}

/* How long a connection in this state lives after its last packet; 0 for ever. */
static inline uint64_t conntrack_state_timeout_ns(
	const uint64_t timeout_ns[CONNTRACK_STATES_COUNT], unsigned int state, bool assured)
{
	uint64_t timeout = timeout_ns[state];
	if (state == CONNTRACK_STATE_TCP_ESTABLISHED && !assured &&
		timeout > CONNTRACK_UNANSWERED_MAX_NS)
		return CONNTRACK_UNANSWERED_MAX_NS;
	return timeout;
}
