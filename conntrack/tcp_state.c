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
	OF = CONNTRACK_TCP_RULE_OFFER,
	R_SR = CONNTRACK_TCP_RULE_RESYNC | SR,
	L_TW = CONNTRACK_TCP_RULE_LAST | TW,
	/* and the columns without TCP: */
	UU = CONNTRACK_STATE_UDP_UNREPLIED,
	US = CONNTRACK_STATE_UDP_STREAM,
	IC = CONNTRACK_STATE_ICMP,
	GU = CONNTRACK_STATE_GRE_UNREPLIED,
	GR = CONNTRACK_STATE_GRE_REPLIED,
	GE = CONNTRACK_STATE_GENERIC,
	AL = CONNTRACK_TCP_NEVER_STAYS,
};

/* States without TCP stay as they are, save those that each packet may change. */
#define REST UU, AL, US, IC, GU, GR, AL, AL, AL, AL, AL, AL, AL, AL, GE
static_assert(CONNTRACK_STATE_GENERIC == CONNTRACK_STATE_UDP_UNREPLIED + 14, "REST names them all");

/* clang-format off */
const uint8_t conntrack_tcp_table[2][CONNTRACK_TCP_ROWS][CONNTRACK_TCP_COLUMNS] = {
	/* Side 0: the opener; from FIN_WAIT on, the sender of the last FIN.
	 *
	 * SYN       again in SYN_SENT is a retransmission, which must not keep a connection alive
	 *           that nobody answers. In an open connection it is a late or spoofed one: the
	 *           peer answers it with a challenge ACK (RFC 5961 4), so it changes nothing, but
	 *           is remembered: it may be right, and the tracker be the one that is not in
	 *           step. A server does not send it. After the last ACK or an RST it reuses the
	 *           tuple (RFC 9293 3.6.1), unless it is the connection's own, overtaken by the
	 *           rest.
	 * SYN_ACK   without a connection: its sender is the server. Otherwise half of a
	 *           simultaneous open, or late, or the answer to a SYN that was ignored: then
	 *           the hosts are in step and the tracker follows them.
	 * ACK       of an opener whose SYN|ACK was not captured: as good as a pickup.
	 * FIN       repeated, or data that the FIN overtook, moves nothing.
	 * RST       without a connection creates none. */
	{
		/*            NO    SS    S2    SR    ES    FW    CW    LA    TW    CL */
		[SYN]     = { O_SS, IG,   O_S2, OF,   OF,   OF,   OF,   OF,   RE,   RE, REST },
		[SYN_ACK] = { P_SR, XX,   SR,   R_SR, R_SR, R_SR, R_SR, R_SR, R_SR, R_SR, REST },
		[ACK]     = { P_ES, P_ES, P_ES, ES,   ES,   FW,   CW,   LA,   TW,   CL, REST },
		[FIN]     = { P_FW, P_FW, P_FW, FW,   FW,   FW,   CW,   LA,   TW,   CL, REST },
		[RST]     = { XX,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL, REST },
		[BAD]     = { XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX, REST },
	},
	/* Side 1: its peer.
	 *
	 * SYN       in SYN_SENT crosses the opener's: simultaneous open (RFC 9293 3.5).
	 * SYN_ACK   repeated does not refresh: a half-open connection must not live on them.
	 * ACK       in SYN_SENT is a challenge to a SYN that hit an old connection (RFC 5961 4).
	 *           In SYN_RECV only the opener's ACK establishes, save where both sides opened
	 *           or the opening was not seen. In FIN_WAIT and LAST_ACK it acknowledges the
	 *           FIN, unless it challenges a SYN.
	 * FIN       the second one. */
	{
		/*            NO    SS    S2    SR    ES    FW    CW    LA    TW    CL */
		[SYN]     = { O_SS, S2,   O_S2, OF,   OF,   OF,   OF,   OF,   RE,   RE, REST },
		[SYN_ACK] = { P_SR, SR,   SR,   R_SR, R_SR, R_SR, R_SR, R_SR, R_SR, R_SR, REST },
		[ACK]     = { P_ES, IG,   P_ES, C_ES, ES,   CW,   CW,   L_TW, TW,   CL, REST },
		[FIN]     = { P_FW, P_FW, P_FW, FW,   FW,   LA,   LA,   LA,   TW,   CL, REST },
		[RST]     = { XX,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL,   CL, REST },
		[BAD]     = { XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX,   XX, REST },
	},
};
/* clang-format on */

static_assert((int)CONNTRACK_STATES_COUNT <= (int)CONNTRACK_TCP_COLUMNS, "a column for each state");
static_assert(CONNTRACK_TCP_STATES_COUNT <= 16, "TCP's states fit four bits");
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
	case CONNTRACK_TCP_RULE_RESYNC:
		if ((bits & CONNTRACK_TCP_ANSWERS_SYN) != 0)
			return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_RESYNC };
		stay.verdict = CONNTRACK_TCP_IGNORE;
		return stay;
	case CONNTRACK_TCP_RULE_LAST:
		if (!reply || (bits & CONNTRACK_TCP_CHALLENGED) == 0)
			return (struct conntrack_tcp_step){ next, CONNTRACK_TCP_ACCEPT };
		stay.verdict = CONNTRACK_TCP_IGNORE;
		return stay;
	case CONNTRACK_TCP_RULE_OFFER:
		stay.verdict = reply ? CONNTRACK_TCP_INVALID : CONNTRACK_TCP_IGNORE;
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
