/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP connection states as one complete table and a pure step function.
 *
 * The table is indexed by side, flag class and state. While a connection opens and is open, side 0
 * is the opener; once a FIN has been seen, side 0 is the side whose FIN came last. That is how an
 * ACK that acknowledges a FIN is told from data that the FIN overtook, without sequence numbers.
 *
 * The table is liberal: whatever a connection may legally see in another order is accepted or
 * ignored, not refused. What sequence numbers say is conntrack/tcp_window.h's. Where it differs
 * from Linux's, docs/conntrack-semantics.md says why.
 */
#pragma once

#include "conntrack/conntrack.h"

enum {
	CONNTRACK_TCP_STATES_COUNT = CONNTRACK_STATE_TCP_CLOSE + 1,
	/* Rows and columns as the table has them, so that an index is shifts and ors. Columns of
	 * states without TCP hold the state itself, whatever the class: accept and stay, so that
	 * the packet path need not ask; or NEVER_STAYS, where each packet must be looked at. */
	CONNTRACK_TCP_ROWS = 8,
	CONNTRACK_TCP_COLUMNS = 32,
	CONNTRACK_TCP_NEVER_STAYS = 0xff,
};

enum conntrack_tcp_class {
	CONNTRACK_TCP_CLASS_SYN,
	CONNTRACK_TCP_CLASS_SYN_ACK,
	CONNTRACK_TCP_CLASS_ACK,
	CONNTRACK_TCP_CLASS_FIN,
	CONNTRACK_TCP_CLASS_RST,
	CONNTRACK_TCP_CLASS_BAD, /* a combination that no TCP sends */
	CONNTRACK_TCP_CLASSES_COUNT
};

enum conntrack_tcp_verdict {
	CONNTRACK_TCP_ACCEPT,  /* takes the connection to the new state and refreshes it */
	CONNTRACK_TCP_IGNORE,  /* passes; neither moves nor refreshes the connection */
	CONNTRACK_TCP_INVALID, /* does not belong here */
	CONNTRACK_TCP_REOPEN,  /* a new connection on the tuple of a closed one */
	CONNTRACK_TCP_RESYNC,  /* accept: the connection begins anew where it stands */
	CONNTRACK_TCP_VERDICTS_COUNT
};

/* What the step needs to know beyond state and direction. The first three are kept in the entry, at
 * these places. */
enum conntrack_tcp_bit {
	CONNTRACK_TCP_CLOSER_REPLY = 1 << 0, /* the last FIN came from the reply side */
	CONNTRACK_TCP_SIMULTANEOUS = 1 << 2, /* both sides opened */
	CONNTRACK_TCP_PICKED_UP = 1 << 3,    /* its opening was not seen */
	CONNTRACK_TCP_CHALLENGED = 1 << 4,   /* a SYN was ignored, and its answer may come */
	CONNTRACK_TCP_ANSWERS_SYN = 1 << 5,  /* this SYN|ACK is the answer to an ignored SYN */
	CONNTRACK_TCP_PICKUP = 1 << 6,       /* picking up is allowed */
	CONNTRACK_TCP_SAME_SYN = 1 << 7,     /* this SYN is the one that opened the connection */
};

struct conntrack_tcp_step {
	uint8_t state;   /* enum conntrack_state; where IGNORE and INVALID: unchanged */
	uint8_t verdict; /* enum conntrack_tcp_verdict */
};

/* Cells hold the new state in the low four bits and a rule in the high four. */
enum conntrack_tcp_rule {
	CONNTRACK_TCP_RULE_ACCEPT = 0x00,
	CONNTRACK_TCP_RULE_IGNORE = 0x10,
	CONNTRACK_TCP_RULE_INVALID = 0x20,
	CONNTRACK_TCP_RULE_REOPEN = 0x30,  /* ignore when SAME_SYN */
	CONNTRACK_TCP_RULE_PICKUP = 0x40,  /* accept when PICKUP, else invalid */
	CONNTRACK_TCP_RULE_CONFIRM = 0x50, /* to the new state when SIMULTANEOUS or PICKED_UP, else
					      accept and stay */
	CONNTRACK_TCP_RULE_OPEN = 0x60,    /* accept; the SYN's sequence number is wanted */
	CONNTRACK_TCP_RULE_OFFER = 0x70,   /* ignore from the opener, else invalid */
	CONNTRACK_TCP_RULE_RESYNC = 0x80,  /* to the new state when ANSWERS_SYN, else ignore */
	CONNTRACK_TCP_RULE_LAST = 0x90,    /* ignore from the opener's peer when CHALLENGED, else to
					      the new state */
	CONNTRACK_TCP_RULE_MASK = 0xf0,
};

extern const uint8_t conntrack_tcp_classes[64];
extern const uint8_t conntrack_tcp_table[2][CONNTRACK_TCP_ROWS][CONNTRACK_TCP_COLUMNS];

static inline uint8_t conntrack_tcp_class(uint8_t tcp_flags)
{
	return conntrack_tcp_classes[tcp_flags & 63];
}

/* CLOSER_REPLY is set only from FIN_WAIT on, so until then side 1 is the reply side. */
static inline unsigned int conntrack_tcp_side(unsigned int reply, unsigned int bits)
{
	return (reply ^ bits) & CONNTRACK_TCP_CLOSER_REPLY;
}

static inline uint8_t conntrack_tcp_cell(unsigned int state, unsigned int side, uint8_t tcp_flags)
{
	return conntrack_tcp_table[side][conntrack_tcp_class(tcp_flags)][state];
}

/* state: NONE or a TCP state. With NONE the packet would create a connection, and reply is 0. */
struct conntrack_tcp_step conntrack_tcp_step(
	enum conntrack_state state, bool reply, uint8_t tcp_flags, unsigned int bits);
