/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP with its sequence numbers. The sequences that Linux keeps as packetdrill tests
 * (tools/testing/selftests/net/netfilter/packetdrill) are here in this project's words. */
#include "tests/support/conn_script.h"

/* Windows as large as these matter to no script but those about windows. */
#define OPEN                                                                                       \
	"> S 1000 : SS new 120s\n"                                                                 \
	"< SA 5000 1001 : SR 60s\n"                                                                \
	"> A 1001 5001 : ES+ 432000s\n"

static const struct conn_script scripts[] = {
	{ .item = "tcp-window",
		.name = "data is acknowledged",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> AP 1001 5001 +100 : ES+ 300s\n"
			     "< A 5001 1101 : ES+ 432000s\n"
			     "< AP 5001 1101 +50 : ES+ 300s\n"
			     "> A 1101 5051 : ES+ 432000s\n"
			     "> FA 1101 5051 : FW+ 120s\n"
			     "< FA 5051 1102 : LA+ 30s\n"
			     "> A 1102 5052 : TW+ 120s\n" },
	{ .item = "tcp-window",
		.name = "bound I: data beyond the window",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"> A 1001 5001 +1000 win 1000 : ES+ 300s\n"
			"> A 4002 5001 +100 win 1000 : ES+ invalid\n"
			"< A 5001 4102 win 1000 : ES+ invalid\n"
			"< A 5001 2001 win 1000 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "bound I: a little more than the window",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"> A 1001 5001 +1000 win 1000 : ES+ 300s\n"
			"> A 2001 5001 +500 win 1000 : ES+ 300s\n"
			"> A 2501 5001 +100 win 1000 : ES+ 300s\n"
			"< A 5001 2601 win 1000 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "bound II: old data",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"> A 1001 5001 +1000 win 1000 : ES+ 300s\n"
			"< A 5001 2001 win 1000 : ES+ 432000s\n"
			"> A 2001 5001 +1000 win 1000 : ES+ 300s\n"
			"< A 5001 3001 win 1000 : ES+ 432000s\n"
			"wait 2500ms\n"
			"> A 1001 5001 +100 win 1000 : ES+ 431997s\n"
			"> A 1900 5001 +100 win 1000 : ES+ 431997s\n"
			"> A 1901 5001 +100 win 1000 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "bound III: acknowledges what was not sent",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> A 1001 5002 : ES+ invalid 432000s\n"
			     "< A 5001 1002 : ES+ invalid 432000s\n"
			     "< A 5001 1001 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "bound IV: acknowledges what was sent long ago",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 ws 7 : SS new\n"
			"< SA 5000 1001 ws 7 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"> A 1001 5001 +1400 win 100 : ES+\n"
			"< A 5001 2401 win 4000 : ES+\n"
			"> A 62401 5001 +1400 win 100 : ES+\n"
			"< A 5001 63801 win 1 : ES+ 432000s\n"
			"> A 123801 5001 +1400 win 100 : ES+ 300s\n"
			"wait 2500ms\n"
			"< A 5001 1001 win 4000 : ES+ 300s\n" },
	{ .item = "tcp-window",
		.name = "misfits are tolerated",
		.windows = CONNTRACK_TCP_WINDOWS_LIBERAL,
		.text = "> S 1000 win 1000 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"> A 50000 5001 +100 win 1000 : ES+ 432000s\n"
			"< A 5001 70000 win 1000 : ES+ 432000s\n"
			"> FA 99999 5001 win 1000 : FW+ 120s\n" },
	{ .item = "tcp-scale",
		.name = "windows are scaled when both SYNs offer it",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 ws 3 : SS new\n"
			"< SA 5000 1001 win 1000 ws 2 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"< A 5001 1001 win 1000 : ES+\n"
			"> A 5000 5001 +100 win 1000 : ES+ 300s\n"
			"< A 5001 5100 win 1000 : ES+ 432000s\n"
			"< A 13000 5100 +100 win 1000 : ES+ 300s\n" },
	{ .item = "tcp-scale",
		.name = "one SYN alone scales nothing",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 ws 3 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"< A 5001 1001 win 1000 : ES+\n"
			"< A 13000 1001 +100 win 1000 : ES+ invalid\n" },
	{ .item = "tcp-scale",
		.name = "a scale above 14 is 14",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1 ws 200 : SS new\n"
			"< SA 5000 1001 win 1 ws 0 : SR\n"
			"> A 1001 5001 win 1 : ES+\n"
			"< A 21384 1001 +1 win 1 : ES+ 300s\n"
			"< A 37769 1001 +1 win 1 : ES+ invalid\n" },
	{ .item = "tcp-sack",
		.name = "SACK edges count as acknowledgements",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 sackok : SS new\n"
			"< SA 5000 1001 sackok : SR\n"
			"> A 1001 5001 : ES+\n"
			"> A 1001 5001 +100 : ES+ 300s\n"
			"> A 1101 5001 +100 : ES+ 300s\n"
			"< A 5001 1001 sack 1101-1201 : ES+ 300s\n"
			"< A 5001 1001 sack 1101-1202 : ES+ invalid\n"
			"< A 5001 1201 : ES+ 432000s\n" },
	{ .item = "tcp-sack",
		.name = "SACK that was not permitted is not read",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 sackok : SR\n"
			"> A 1001 5001 : ES+\n"
			"> A 1001 5001 +100 : ES+ 300s\n"
			"< A 5001 1001 sack 1101-9201 : ES+ 300s\n" },
	{ .item = "tcp-wrap",
		.name = "numbers that wrap",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 4294967290 : SS new\n"
			"< SA 4294967293 4294967291 : SR\n"
			"> A 4294967291 4294967294 : ES+\n"
			"> A 4294967291 4294967294 +100 : ES+ 300s\n"
			"< A 4294967294 95 : ES+ 432000s\n"
			"< A 4294967294 95 +10 : ES+ 300s\n"
			"> A 95 8 : ES+ 432000s\n"
			"> A 95 9 : ES+ invalid\n"
			"> R 95 : CL+ 10s\n" },
	{ .item = "tcp-retrans",
		.name = "three repeats without an answer",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 : ES+ 432000s\n"
			     "< A 5001 1001 : ES+ 432000s\n"
			     "< A 5001 1001 : ES+ 432000s\n"
			     "< A 5001 1001 : ES+ 300s\n"
			     "> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-retrans",
		.name = "window shut",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 win 0 : ES+ 300s\n"
			     "> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "keep-alive and its answer",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> A 1000 5001 : ES+ 432000s\n"
			     "< A 5001 1001 : ES+ 432000s\n"
			     "> A 1000 5001 +1 : ES+ 432000s\n" },
	{ .item = "tcp-rst",
		.name = "RST of the number that is expected",
		.windows = CONNTRACK_TCP_WINDOWS_LIBERAL,
		.text = OPEN "< A 5001 1001 : ES+\n"
			     "> R 1001 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST inside the window, but not where expected",
		.windows = CONNTRACK_TCP_WINDOWS_LIBERAL,
		.text = OPEN "< A 5001 1001 : ES+ 432000s\n"
			     "> R 1011 : ES+ 10s\n"
			     "< A 5001 1001 : ES+ 300s\n"
			     "> R 1001 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST older than the last acknowledgement",
		.windows = CONNTRACK_TCP_WINDOWS_LIBERAL,
		.text = OPEN "> A 1001 5001 +100 : ES+ 300s\n"
			     "< A 5001 1101 : ES+ 432000s\n"
			     "> R 1100 : ES+ invalid 432000s\n"
			     "> R 1 : ES+ invalid 432000s\n" },
	{ .item = "tcp-rst",
		.name = "RST behind its sender's data",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 : ES+\n"
			     "> AP 1001 5001 +19 : ES+ 300s\n"
			     "> R 1020 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST inside the window of a closing connection",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< FA 5001 1001 : FW+ 120s\n"
			     "> A 1001 5002 : CW+ 60s\n"
			     "> R 7777 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST to a SYN, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"< RA 0 1003 : SS invalid 120s\n"
			"< RA 0 1001 : -\n" },
	{ .item = "tcp-rst",
		.name = "forged RSTs of both sides tell nothing",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 : ES+ 432000s\n"
			     "> RA 1 5001 : ES+ invalid 432000s\n"
			     "< RA 1 1001 : ES+ invalid 432000s\n"
			     "> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "FINs of both sides that do not fit",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 : ES+ 432000s\n"
			     "> FA 900000 5001 : ES+ invalid 432000s\n"
			     "< FA 900000 1001 : ES+ invalid 300s\n"
			     "> A 1001 5001 : ES+ 432000s\n" },
	/* ---- as the packetdrill tests of Linux ---- */
	{ .item = "packetdrill",
		.name = "ack_loss_stall: what was acknowledged comes again",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1400 : SS new\n"
			"< SA 5000 1001 win 1400 : SR\n"
			"> A 1001 5001 win 1400 : ES+\n"
			"> AP 1001 5001 +1400 win 1400 : ES+ 300s\n"
			"< A 5001 2401 win 1400 : ES+ 432000s\n"
			"> AP 2401 5001 +1400 win 1400 : ES+ 300s\n"
			"< A 5001 3801 win 1400 : ES+ 432000s\n"
			"> AP 1001 5001 +1200 win 1400 : ES+\n"
			"< A 5001 3801 win 1400 : ES+ 432000s\n" },
	{ .item = "packetdrill",
		.name = "inexact_rst: closes only what is closing",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> AP 1001 5001 +10 : ES+ 300s\n"
			     "< A 5001 1011 : ES+ 432000s\n"
			     "> R 1021 : ES+ 10s\n"
			     "< A 5001 1011 : ES+ 300s\n"
			     "< FA 5001 1011 : FW+ 120s\n"
			     "> A 1011 5002 : CW+ 60s\n"
			     "> R 1021 : CL+ 10s\n" },
	{ .item = "packetdrill",
		.name = "rst_invalid: resets outside the window",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> AP 1001 5001 +1000 : ES+ 300s\n"
			     "< A 5001 2001 : ES+ 432000s\n"
			     "> R 900 : ES+ invalid 432000s\n"
			     "> R 200000 : ES+ invalid 432000s\n"
			     "> RA 1500 5001 : ES+ invalid 432000s\n"
			     "> R 2001 : CL+ 10s\n" },
	{ .item = "packetdrill",
		.name = "syn_challenge_ack: the server knows an older connection",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> R 700 : CL 10s\n"
			"> S 2000 : SS new 120s\n"
			"< SA 5000 2001 : SR 60s\n"
			"> A 2001 5001 : ES+ 432000s\n" },
	{ .item = "packetdrill",
		.name = "syn_challenge_ack: half-open recovery with the same number",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 ws 7 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> R 700 : CL 10s\n"
			"> S 1000 ws 7 : SS new 120s\n"
			"< SA 5000 1001 ws 7 : SR 60s\n"
			"> A 1001 5001 : ES+ 432000s\n"
			"> AP 1001 5001 +10 : ES+ 300s\n" },
	{ .item = "packetdrill",
		.name = "synack_old: a SYN-ACK of a connection before",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"< SA 145824453 643160523 : SS invalid 120s\n"
			"> S 1000 : SS 120s\n"
			"< SA 162602410 1001 : SR 60s\n"
			"> A 1001 162602411 : ES+ 432000s\n" },
	{ .item = "packetdrill",
		.name = "synack_reuse: another SYN, challenged, reset, sent again",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> S 900000 : ES+ 432000s\n"
			     "< A 5001 1001 : ES+ 432000s\n"
			     "> R 1001 : CL+ 10s\n"
			     "> S 900000 : SS new 120s\n"
			     "< SA 70000 900001 : SR 60s\n" },
	/* ---- windows of connections that begin elsewhere ---- */
	{ .item = "tcp-resync",
		.name = "resync, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 ws 7 : SS new\n"
			"< SA 5000 1001 ws 7 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> S 900000 win 1000 : ES+ 432000s\n"
			"< SA 70000 900001 win 1000 : SR+ 60s\n"
			"> A 900001 70001 win 1000 : ES+ 432000s\n"
			"< A 72002 900001 +10 win 1000 : ES+ invalid\n"
			"< A 71001 900001 +10 win 1000 : ES+ 300s\n" },
	{ .item = "tcp-midstream",
		.name = "picked up: bounds are not known",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> A 1001 5001 win 100 : ES new 300s\n"
			"< A 5001 1001 win 100 : ES+ 432000s | ES 300s\n"
			"> A 1001 5001 win 100 : ES+ 432000s\n"
			"< A 3000000 1001 +100 win 100 : ES+ 300s | ES+ 432000s\n",
		.differs =
			"the answer itself assures, in Linux the packet after it; and windows are "
			"taken to be scaled, so this is data that waits for its acknowledgement" },
	{ .item = "tcp-midstream",
		.name = "one direction only, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 : SS new 120s\n"
			"> A 1001 5001 win 1000 : ES 300s | SS invalid 120s\n"
			"> A 1001 5001 +1000 win 1000 : ES 300s | SS invalid\n"
			"> A 2001 6001 +1000 win 1000 : ES 300s | SS invalid\n"
			"> A 30001 900001 +1000 win 1000 : ES 300s | SS invalid\n",
		.differs = "backbone captures show one direction only: as good as a pickup" },
	{ .item = "tcp-simultaneous",
		.name = "simultaneous open, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"< S 5000 : S2 120s\n"
			"> SA 1000 5001 : SR 60s\n"
			"< SA 5000 1001 : SR 60s\n"
			"< A 5001 1001 : ES+ 432000s\n"
			"> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-open",
		.name = "SYN that begins afresh, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"> S 900000 ws 7 : SS 120s\n"
			"< SA 5000 1001 : SS 120s\n"
			"< SA 5000 900001 ws 7 : SR 60s\n"
			"> A 900001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-rst",
		.name = "RST of the client, ahead of its SYN",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"> R 1002 : SS invalid 120s\n"
			"> R 90000 : SS invalid 120s\n"
			"> R 1001 : -\n" },
	/* ---- whole lives, with windows ---- */
	{ .item = "tcp-window",
		.name = "TCP over IPv6, closed by both",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.family = 6,
		.text = OPEN "> AP 1001 5001 +100 : ES+ 300s\n"
			     "< A 5001 1101 : ES+ 432000s\n"
			     "< FA 5001 1101 : FW+ 120s\n"
			     "> A 1101 5002 : CW+ 60s\n"
			     "> FA 1101 5002 : LA+ 30s\n"
			     "< A 5002 1102 : TW+ 120s\n" },
	{ .item = "tcp-window",
		.name = "data in the SYN (Fast Open)",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 +100 : SS new 120s\n"
			"< SA 5000 1101 : SR 60s\n"
			"> A 1101 5001 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "data in the SYN that the server does not take",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 +100 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> A 1001 5001 +100 : ES+ 432000s\n"
			"< A 5001 1101 : ES+ 432000s\n" },
	{ .item = "tcp-half-close",
		.name = "half-closed: data goes on, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> FA 1001 5001 : FW+ 120s\n"
			     "< A 5001 1002 : CW+ 60s\n"
			     "< AP 5001 1002 +100 : CW+ 60s\n"
			     "> A 1002 5101 : CW+ 60s\n"
			     "< A 999999 1002 +100 : CW+ invalid\n"
			     "< FA 5101 1002 : LA+ 30s\n"
			     "> A 1002 5102 : TW+ 120s\n" },
	{ .item = "tcp-reopen",
		.name = "SYN in TIME_WAIT, with windows",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> FA 1001 5001 : FW+\n"
			     "< FA 5001 1002 : LA+\n"
			     "> A 1002 5002 : TW+\n"
			     "> S 900000 win 1000 : SS new 120s\n"
			     "< SA 70000 900001 win 1000 : SR 60s\n"
			     "> A 900001 70001 win 1000 : ES+ 432000s\n"
			     "< A 5002 1002 : ES+ 432000s\n" },
	{ .item = "tcp-reorder",
		.name = "segments in another order",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> A 1201 5001 +100 : ES+ 300s\n"
			     "> A 1001 5001 +100 : ES+ 300s\n"
			     "> A 1101 5001 +100 : ES+ 300s\n"
			     "< A 5001 1301 : ES+ 432000s\n"
			     "< A 5001 1101 : ES+ 432000s\n" },
	{ .item = "tcp-window",
		.name = "a window that shrinks",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 win 1000 : SS new\n"
			"< SA 5000 1001 win 1000 : SR\n"
			"> A 1001 5001 win 1000 : ES+\n"
			"< A 5001 1001 win 100 : ES+\n"
			"> A 1001 5001 +500 win 1000 : ES+ 300s\n"
			"< A 5001 1501 win 100 : ES+ 432000s\n" },
	{ .item = "tcp-rst",
		.name = "RST with data, where it is expected",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "< A 5001 1001 : ES+\n"
			     "> RA 1001 5001 +20 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST in TIME_WAIT",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = OPEN "> FA 1001 5001 : FW+\n"
			     "< FA 5001 1002 : LA+\n"
			     "> A 1002 5002 : TW+ 120s\n"
			     "< R 5002 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST of a handshake that is not over",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> R 1001 : CL 10s\n" },
	{ .item = "tcp-midstream",
		.name = "picked up, then reset",
		.windows = CONNTRACK_TCP_WINDOWS_STRICT,
		.text = "> A 1001 5001 +10 : ES new 300s\n"
			"< A 5001 1011 : ES+ 432000s | ES 300s\n"
			"> A 1011 5001 : ES+ 432000s\n"
			"> R 1 : ES+ invalid\n"
			"> R 1011 : CL+ 10s\n",
		.differs = "the answer itself assures, in Linux the packet after it" },
};

const struct conn_script_list conn_scripts_window = { scripts, sizeof(scripts) / sizeof(*scripts) };
