/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tcp_state.h"

#include "base/packet.h"

/* Classes by the low six flag bits; PSH (8) changes nothing, URG (32) only goes with SYN, ACK or
 * FIN|ACK. A FIN needs an ACK beside it (RFC 9293 3.10.7.4 drops segments without one). */
enum {
	SYN = CONNTRACK_TCP_CLASS_SYN,
	SYN_ACK = CONNTRACK_TCP_CLASS_SYN_ACK,
	ACK = CONNTRACK_TCP_CLASS_ACK,
	FIN = CONNTRACK_TCP_CLASS_FIN,
	RST = CONNTRACK_TCP_CLASS_RST,
	BAD = CONNTRACK_TCP_CLASS_BAD,
};

const uint8_t conntrack_tcp_classes[64] = {
	/* column: FIN 1, SYN 2, RST 4;  row: PSH 8, ACK 16, URG 32
	 none  F    S    SF   R    RF   RS   RSF */
	BAD, BAD, SYN, BAD, RST, BAD, BAD, BAD,     /* */
	BAD, BAD, SYN, BAD, RST, BAD, BAD, BAD,     /* PSH */
	ACK, FIN, SYN_ACK, BAD, RST, BAD, BAD, BAD, /* ACK */
	ACK, FIN, SYN_ACK, BAD, RST, BAD, BAD, BAD, /* ACK PSH */
	BAD, BAD, SYN, BAD, BAD, BAD, BAD, BAD,     /* URG */
	BAD, BAD, SYN, BAD, BAD, BAD, BAD, BAD,     /* URG PSH */
	ACK, FIN, BAD, BAD, BAD, BAD, BAD, BAD,     /* URG ACK */
	ACK, FIN, BAD, BAD, BAD, BAD, BAD, BAD,     /* URG ACK PSH */
};

/* Accept and go to: */
enum {
	SS = CONNTRACK_STATE_TCP_SYN_SENT,
	S2 = CONNTRACK_STATE_TCP_SYN_SENT2,
	SR = CONNTRACK_STATE_TCP_SYN_RECV,
	ES = CONNTRACK_STATE_TCP_ESTABLISHED,
	FW = CONNTRACK_STATE_TCP_FIN_WAIT,
	CW = CONNTRACK_STATE_TCP_CLOSE_WAIT,
	LA = CONNTRACK_STATE_TCP_LAST_ACK,
	TW = CONNTRACK_STATE_TCP_TIME_WAIT,
	CL = CONNTRACK_STATE_TCP_CLOSE,
};

/* Or else: */
enum {
	IG = CONNTRACK_TCP_RULE_IGNORE,
	XX = CONNTRACK_TCP_RULE_INVALID,
	RE = CONNTRACK_TCP_RULE_REOPEN | SS,
	P_SR = CONNTRACK_TCP_RULE_PICKUP | SR,
	P_ES = CONNTRACK_TCP_RULE_PICKUP | ES,
	P_FW = CONNTRACK_TCP_RULE_PICKUP | FW,
	C_ES = CONNTRACK_TCP_RULE_CONFIRM | ES,
	O_SS = CONNTRACK_TCP_RULE_OPEN | SS,
	O_S2 = CONNTRACK_TCP_RULE_OPEN | S2,
	/* and the columns without TCP: */
	UU = CONNTRACK_STATE_UDP_UNREPLIED,
	UR = CONNTRACK_STATE_UDP_REPLIED,
	IC = CONNTRACK_STATE_ICMP,
	GE = CONNTRACK_STATE_GENERIC,
};

/* clang-format off */
const uint8_t conntrack_tcp_table[2][CONNTRACK_TCP_ROWS][CONNTRACK_TCP_COLUMNS] = {
	/* Side 0: the opener; from FIN_WAIT on, the sender of the last FIN.
	 *
	 * SYN       again in SYN_SENT is a retransmission. In an open connection it is a late or
	 *           spoofed one: the peer answers it with a challenge ACK (RFC 5961 4), so it
	 *           changes nothing. After FIN from both sides or RST it reuses the tuple
	 *           (RFC 9293 3.6.1), unless it is the connection's own, overtaken by the rest.
	 * SYN_ACK   without a connection: its sender is the server. Otherwise half of a
	 *           simultaneous open, or late.
	 * ACK       of an opener whose SYN|ACK was not captured: as good as a pickup.
	 * FIN       repeated, or data that the FIN overtook, moves nothing.
	 * RST       without a connection creates none. */
	{
		/*            NO    SS    S2    SR    ES    FW    CW    LA    TW    CL */
		[SYN]     = { O_SS, O_SS, O_S2,  IG,   IG,   IG,   IG,   RE,   RE,   RE,
			      UU,   UR,   IC,   GE },
		[SYN_ACK] = { P_SR, XX,   SR,   IG,   IG,   IG,   IG,   IG,   IG,   IG,
			      UU,   UR,   IC,   GE },
		[ACK]     = { P_ES, P_ES, P_ES, ES,   ES,   FW,   CW,   LA,   TW,   CL,
			      UU,   UR,   IC,   GE },
		[FIN]     = { P_FW, P_FW, P_FW, FW,   FW,   FW,   CW,   LA,   TW,   CL,
			      UU,   UR,   IC,   GE },
		[RST]     = { XX,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,
			      UU,   UR,   IC,   GE },
		[BAD]     = { XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,
			      UU,   UR,   IC,   GE },
	},
	/* Side 1: its peer.
	 *
	 * SYN       in SYN_SENT crosses the opener's: simultaneous open (RFC 9293 3.5).
	 * SYN_ACK   repeated does not refresh: a half-open connection must not live on them.
	 * ACK       in SYN_SENT is a challenge to a SYN that hit an old connection (RFC 5961 4).
	 *           In SYN_RECV only the opener's ACK establishes, save where both sides opened
	 *           or the opening was not seen. In FIN_WAIT and LAST_ACK it acknowledges the
	 *           FIN.
	 * FIN       the second one. */
	{
		/*            NO    SS    S2    SR    ES    FW    CW    LA    TW    CL */
		[SYN]     = { O_SS, S2,   O_S2,  IG,   IG,   IG,   IG,   RE,   RE,   RE,
			      UU,   UR,   IC,   GE },
		[SYN_ACK] = { P_SR, SR,   SR,   IG,   IG,   IG,   IG,   IG,   IG,   IG,
			      UU,   UR,   IC,   GE },
		[ACK]     = { P_ES, IG,   P_ES, C_ES, ES,   CW,   CW,   TW,   TW,   CL,
			      UU,   UR,   IC,   GE },
		[FIN]     = { P_FW, P_FW, P_FW, FW,   FW,   LA,   LA,   LA,   TW,   CL,
			      UU,   UR,   IC,   GE },
		[RST]     = { XX,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,
			      UU,   UR,   IC,   GE },
		[BAD]     = { XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,
			      UU,   UR,   IC,   GE },
	},
};
/* clang-format on */

static_assert((int)CONNTRACK_STATES_COUNT <= (int)CONNTRACK_TCP_COLUMNS, "states fit four bits");
static_assert((int)CONNTRACK_TCP_CLASSES_COUNT <= (int)CONNTRACK_TCP_ROWS, "classes fit the rows");

struct conntrack_tcp_step conntrack_tcp_step(
	enum conntrack_state state, bool reply, uint8_t tcp_flags, unsigned int bits)
{
	uint8_t cell = conntrack_tcp_cell(state, conntrack_tcp_side(reply, bits), tcp_flags);
	uint8_t next = cell & (uint8_t)~CONNTRACK_TCP_RULE_MASK;
	struct conntrack_tcp_step stay = { .state = (uint8_t)state };

	switch ((enum conntrack_tcp_rule)(cell & CONNTRACK_TCP_RULE_MASK)) {
	case CONNTRACK_TCP_RULE_ACCEPT:
	case CONNTRACK_TCP_RULE_OPEN:
		return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_ACCEPT };
	case CONNTRACK_TCP_RULE_REOPEN:
		if ((bits & CONNTRACK_TCP_SAME_SYN) == 0)
			return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_REOPEN };
		stay.verdict = CONNTRACK_TCP_IGNORE;
		return stay;
	case CONNTRACK_TCP_RULE_PICKUP:
		if ((bits & CONNTRACK_TCP_PICKUP) != 0)
			return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_ACCEPT };
		stay.verdict = CONNTRACK_TCP_INVALID;
		return stay;
	case CONNTRACK_TCP_RULE_CONFIRM:
		if ((bits & (CONNTRACK_TCP_SIMULTANEOUS | CONNTRACK_TCP_PICKED_UP)) != 0)
			return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_ACCEPT };
		stay.verdict = CONNTRACK_TCP_ACCEPT;
		return stay;
	case CONNTRACK_TCP_RULE_IGNORE:
		stay.verdict = CONNTRACK_TCP_IGNORE;
		return stay;
	case CONNTRACK_TCP_RULE_INVALID:
	case CONNTRACK_TCP_RULE_MASK:
		break;
	}
	stay.verdict = CONNTRACK_TCP_INVALID;
	return stay;
}
