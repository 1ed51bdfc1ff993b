/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/sctp_state.h"

/* Rows of the table. */
enum row {
	INIT,
	INIT_ACK,
	ABORT,
	SHUTDOWN,
	SHUTDOWN_ACK,
	ERROR,
	COOKIE_ECHO,
	COOKIE_ACK,
	SHUTDOWN_COMPLETE,
	HEARTBEAT,
	HEARTBEAT_ACK,
	OTHER, /* DATA, SACK, ... */
	ROWS_COUNT
};

enum {
	CL = CONNTRACK_STATE_SCTP_CLOSED,
	CW = CONNTRACK_STATE_SCTP_COOKIE_WAIT,
	CE = CONNTRACK_STATE_SCTP_COOKIE_ECHOED,
	ES = CONNTRACK_STATE_SCTP_ESTABLISHED,
	SS = CONNTRACK_STATE_SCTP_SHUTDOWN_SENT,
	SR = CONNTRACK_STATE_SCTP_SHUTDOWN_RECD,
	SA = CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT,
	HS = CONNTRACK_STATE_SCTP_HEARTBEAT_SENT,
	XX = CONNTRACK_STATE_NONE, /* invalid */
	STATES_COUNT = HS - CL + 1,
};

/* clang-format off */
static const uint8_t table[2][ROWS_COUNT][STATES_COUNT] = {
	/* The opener. */
	{
		/*                      CL  CW  CE  ES  SS  SR  SA  HS */
		[INIT]              = { CL, CW, CE, ES, CL, CL, SA, CW },
		[INIT_ACK]          = { CL, CW, CE, ES, SS, SR, SA, CL },
		[ABORT]             = { CL, CL, CL, CL, CL, CL, CL, CL },
		[SHUTDOWN]          = { CL, CW, CE, SS, SS, SR, SA, CL },
		[SHUTDOWN_ACK]      = { CL, CW, CE, ES, SA, SA, SA, SA },
		[ERROR]             = { CL, CW, CE, ES, SS, SR, SA, CL },
		[COOKIE_ECHO]       = { CL, CE, CE, ES, SS, SR, SA, CL },
		[COOKIE_ACK]        = { CL, CW, ES, ES, SS, SR, SA, CL },
		[SHUTDOWN_COMPLETE] = { CL, CW, CE, ES, SS, SR, CL, CL },
		[HEARTBEAT]         = { CL, CW, CE, ES, SS, SR, SA, HS },
		[HEARTBEAT_ACK]     = { CL, CW, CE, ES, SS, SR, SA, HS },
		[OTHER]             = { CL, CW, CE, ES, SS, SR, SA, HS },
	},
	/* Its peer. */
	{
		/*                      CL  CW  CE  ES  SS  SR  SA  HS */
		[INIT]              = { CL, CW, CE, ES, SS, SR, SA, XX },
		[INIT_ACK]          = { CW, CW, CE, ES, SS, SR, SA, XX },
		[ABORT]             = { CL, CL, CL, CL, CL, CL, CL, XX },
		[SHUTDOWN]          = { CL, CW, CE, SR, SS, SR, SA, XX },
		[SHUTDOWN_ACK]      = { CL, CW, CE, ES, SA, SA, SA, XX },
		[ERROR]             = { CL, CW, CL, ES, SS, SR, SA, XX },
		[COOKIE_ECHO]       = { CL, CE, CE, ES, SS, SR, SA, XX },
		[COOKIE_ACK]        = { CL, CW, ES, ES, SS, SR, SA, XX },
		[SHUTDOWN_COMPLETE] = { CL, CW, CE, ES, SS, SR, CL, XX },
		[HEARTBEAT]         = { CL, CW, CE, ES, SS, SR, SA, HS },
		[HEARTBEAT_ACK]     = { CL, CW, CE, ES, SS, SR, SA, ES },
		[OTHER]             = { CL, CW, CE, ES, SS, SR, SA, XX },
	},
};
/* clang-format on */

static unsigned int row_of(uint8_t type)
{
	static const uint8_t rows[] = { OTHER, INIT, INIT_ACK, OTHER, HEARTBEAT, HEARTBEAT_ACK,
		ABORT, SHUTDOWN, SHUTDOWN_ACK, ERROR, COOKIE_ECHO, COOKIE_ACK, OTHER, OTHER,
		SHUTDOWN_COMPLETE };
	return type < sizeof(rows) ? rows[type] : OTHER;
}

/* Must stand alone in its packet (RFC 9260 6.10). */
static bool stands_alone(unsigned int row)
{
	return row == INIT || row == INIT_ACK || row == SHUTDOWN_COMPLETE;
}

/* What a packet without an association begins; NONE: nothing. */
static uint8_t begun_by(unsigned int row, const struct conntrack_sctp_input *input)
{
	if (row == INIT)
		return CL;
	if (row == HEARTBEAT)
		return HS;
	if (row == SHUTDOWN_ACK)
		return SA;
	if (!input->pickup || row == ABORT || row == SHUTDOWN_COMPLETE)
		return XX;
	if (row == INIT_ACK)
		return CW;
	return row == COOKIE_ECHO ? CE : ES;
}

static struct conntrack_sctp_step invalid(const struct conntrack_sctp_input *input)
{
	return (struct conntrack_sctp_step){ .state = (uint8_t)input->state, .invalid = true };
}

/* One chunk. False: it does not belong here. */
static bool take(const struct conntrack_sctp_input *input, unsigned int row,
	struct conntrack_sctp_step *step)
{
	uint8_t next = step->state;
	if (step->state == CONNTRACK_STATE_NONE) {
		next = begun_by(row, input);
		step->from_server = row == INIT_ACK || row == COOKIE_ACK;
	} else {
		next = table[input->reply][row][step->state - CL];
	}
	step->state = next;
	return next != XX;
}

struct conntrack_sctp_step conntrack_sctp_step(const struct conntrack_sctp_input *input)
{
	struct conntrack_sctp_step step = { .state = (uint8_t)input->state };
	const uint8_t *bytes = input->bytes;
	bool tagged = (bytes[4] | bytes[5] | bytes[6] | bytes[7]) != 0;
	size_t at = CONNTRACK_SCTP_HEADER;
	unsigned int chunks = 0;
	for (; chunks < CONNTRACK_SCTP_CHUNKS_MAX && input->size - at >= 4; chunks++) {
		size_t len = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
		unsigned int row = row_of(bytes[at]);
		bool last = len + 3 >= input->size - at;
		if (len < 4 || tagged == (row == INIT) || (stands_alone(row) && chunks != 0) ||
			(stands_alone(row) && !last))
			return invalid(input);
		if (!take(input, row, &step))
			return invalid(input);
		if (last)
			break;
		at += (len + 3) & ~(size_t)3;
	}
	/* The snapshot left no chunk: all that is known is that the association is there. */
	if (step.state == CONNTRACK_STATE_NONE)
		step.state = input->pickup ? ES : XX;
	return step.state != XX ? step : invalid(input);
}
