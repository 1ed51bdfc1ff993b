/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP's states, without windows: Linux is told to be liberal. */
#include "tests/support/conn_script.h"

/* Windows are not looked at, so nobody knows that data waits for its acknowledgement. */
#define UNACKED "with windows off, unacknowledged data does not shorten the timeout"

static const struct conn_script scripts[] = {
	{ .item = "tcp-open",
		.name = "handshake, data, close by the client",
		.text = "> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> A 1001 5001 : ES+ 432000s\n"
			"> AP 1001 5001 +100 : ES+ 432000s | ES+ 300s\n"
			"< A 5001 1101 : ES+ 432000s\n"
			"> FA 1101 5001 : FW+ 120s\n"
			"< A 5001 1102 : CW+ 60s\n"
			"< FA 5001 1102 : LA+ 30s\n"
			"> A 1102 5002 : TW+ 120s\n",
		.differs = UNACKED },
	{ .item = "tcp-close",
		.name = "close by the server",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"< FA 5001 1001 : FW+ 120s\n"
			"> A 1001 5002 : CW+ 60s\n"
			"> FA 1001 5002 : LA+ 30s\n"
			"< A 5002 1002 : TW+ 120s\n" },
	{ .item = "tcp-open",
		.name = "repeated SYN does not keep a connection alive",
		.text = "> S 1000 : SS new 120s\n"
			"wait 2500ms\n"
			"> S 1000 : SS 117s\n"
			"< SA 5000 1001 : SR 60s\n" },
	{ .item = "tcp-open",
		.name = "SYN that begins afresh",
		.text = "> S 1000 : SS new 120s\n"
			"> S 7000 : SS 120s\n"
			"< SA 5000 7001 : SR 60s\n"
			"> A 7001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-open",
		.name = "repeated SYN-ACK changes nothing",
		.text = "> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"wait 2500ms\n"
			"< SA 5000 1001 : SR 57s\n"
			"> A 1001 5001 : ES+ 432000s\n"
			"< SA 5000 1001 : ES+ 432000s\n" },
	{ .item = "tcp-open",
		.name = "server's ACK before the client's",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR 60s\n"
			"< A 5001 1001 : SR 60s\n"
			"> A 1001 5001 : ES+\n" },
	{ .item = "tcp-open",
		.name = "FIN completes the handshake",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> FA 1001 5001 : FW+ 120s | FW 120s\n"
			"< A 5001 1002 : CW+ 60s | CW 60s\n",
		.differs = "Linux assures a connection only when it passes through ESTABLISHED" },
	{ .item = "tcp-simultaneous",
		.name = "simultaneous open",
		.text = "> S 1000 : SS new 120s\n"
			"< S 5000 : S2 120s\n"
			"> SA 1000 5001 : SR 60s\n"
			"< SA 5000 1001 : SR 60s\n"
			"< A 5001 1001 : ES+ 432000s\n"
			"> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-simultaneous",
		.name = "simultaneous open, repeated SYNs",
		.text = "> S 1000 : SS new 120s\n"
			"< S 5000 : S2 120s\n"
			"< S 5000 : S2 120s\n"
			"> S 1000 : S2 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"< S 5000 : SR invalid 60s\n"
			"> A 1001 5001 : ES+\n" },
	{ .item = "tcp-midstream",
		.name = "SYN-ACK first",
		.text = "< SA 5000 1001 : SR new 60s | - invalid\n"
			"> A 1001 5001 : ES+ 432000s | ES new 300s\n"
			"< A 5001 1001 : ES+ 432000s | ES 300s\n"
			"> A 1001 5001 : ES+ 432000s\n",
		.differs = "a capture may show one direction only: its sender is taken for the "
			   "server" },
	{ .item = "tcp-midstream",
		.name = "SYN-ACK first, no pickup",
		.no_pickup = true,
		.text = "< SA 5000 1001 : - invalid\n"
			"> A 1001 5001 : - invalid\n" },
	{ .item = "tcp-midstream",
		.name = "ACK first",
		.text = "> A 1001 5001 : ES new 300s\n"
			"< A 5001 1001 : ES+ 432000s | ES 300s\n"
			"> A 1001 5001 : ES+ 432000s\n",
		.differs = "the answer itself assures; in Linux the packet after it" },
	{ .item = "tcp-midstream",
		.name = "ACK first, no pickup",
		.no_pickup = true,
		.text = "> A 1001 5001 : - invalid\n"
			"> S 1000 : SS new\n"
			"> A 1001 5001 : SS invalid\n" },
	{ .item = "tcp-midstream",
		.name = "FIN first",
		.text = "> FA 1001 5001 : FW new 120s | - invalid\n"
			"< A 5001 1002 : CW+ 60s | ES new 300s\n",
		.differs = "the end of a connection that began before is tracked as such" },
	{ .item = "tcp-midstream",
		.name = "RST first begins nothing",
		.text = "> R 1001 : - invalid\n"
			"< RA 5001 1001 : - invalid\n" },
	{ .item = "tcp-midstream",
		.name = "client's ACK whose SYN-ACK was not captured",
		.text = "> S 1000 : SS new 120s\n"
			"> A 1001 5001 : ES 300s | SS invalid 120s\n"
			"> AP 1001 5001 +10 : ES 300s | SS invalid 120s\n"
			"> FA 1011 5001 : FW 120s | SS invalid 120s\n",
		.differs = "backbone captures show one direction only: as good as a pickup" },
	{ .item = "tcp-challenge",
		.name = "challenge to a SYN, then RST",
		.text = "> S 1000 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> R 700 : CL 10s\n"
			"> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> A 1001 5001 : ES+ 432000s\n" },
	{ .item = "tcp-challenge",
		.name = "challenge to a SYN and to its repeat, then RST",
		.text = "> S 1000 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> S 1000 : SS 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> R 700 : CL 10s\n"
			"> R 700 : CL 10s\n"
			"> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n" },
	{ .item = "tcp-challenge",
		.name = "challenge to a SYN, then RST of the server",
		.text = "> S 1000 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"< RA 9000 1001 : CL 10s\n"
			"> S 1000 : CL 10s\n" },
	{ .item = "tcp-challenge",
		.name = "challenge to a SYN, then RST, then another SYN",
		.text = "> S 1000 : SS new 120s\n"
			"< A 9000 700 : SS 120s\n"
			"> R 700 : CL 10s\n"
			"> S 2000 : SS new 120s\n"
			"< SA 5000 2001 : SR 60s\n" },
	{ .item = "tcp-close",
		.name = "FINs cross",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+\n"
			"< FA 5001 1001 : LA+\n"
			"> A 1002 5002 : TW+ 120s\n" },
	{ .item = "tcp-close",
		.name = "FINs cross, the first one is acknowledged first",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+\n"
			"< FA 5001 1001 : LA+\n"
			"< A 5002 1002 : LA+ 30s | TW+ 120s\n"
			"> A 1002 5002 : TW+ 120s\n",
		.differs = "the ACK of who sent the last FIN acknowledges the first one only" },
	{ .item = "tcp-close",
		.name = "repeated FIN keeps the state",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+ 120s\n"
			"> FA 1001 5001 : FW+ 120s | LA+ 30s\n"
			"< A 5001 1002 : CW+ 60s | TW+ 120s\n"
			"< FA 5001 1002 : LA+ 30s | TW+ 120s\n"
			"< FA 5001 1002 : LA+ 30s | TW+ 120s\n"
			"> A 1002 5002 : TW+ 120s\n"
			"> A 1002 5002 : TW+ 120s\n",
		.differs = "Linux cannot tell a repeated FIN from the other side's" },
	{ .item = "tcp-half-close",
		.name = "half-closed: data goes on",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+\n"
			"< A 5001 1002 : CW+ 60s\n"
			"< AP 5001 1002 +100 : CW+ 60s\n"
			"> A 1002 5101 : CW+ 60s\n"
			"wait 2500ms\n"
			"< AP 5101 1002 +100 : CW+ 60s\n"
			"> A 1002 5201 : CW+ 60s\n" },
	{ .item = "tcp-reorder",
		.name = "data that its FIN overtook",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1101 5001 : FW+ 120s\n"
			"> AP 1001 5001 +100 : FW+ 120s | CW+ 60s\n"
			"< FA 5001 1102 : LA+ 30s\n"
			"> A 1102 5002 : TW+ 120s\n",
		.differs = "only the other side's ACK acknowledges a FIN" },
	{ .item = "tcp-rst",
		.name = "RST to a SYN removes the connection",
		.text = "> S 1000 : SS new 120s\n"
			"< RA 0 1001 : -\n"
			"> S 1000 : SS new 120s\n" },
	{ .item = "tcp-rst",
		.name = "RST of the client before any answer",
		.text = "> S 1000 : SS new 120s\n"
			"> R 1001 : -\n" },
	{ .item = "tcp-rst",
		.name = "RST in an open connection",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"< R 5001 : CL+ 10s\n"
			"> A 1001 5001 : CL+ 10s\n" },
	{ .item = "tcp-rst",
		.name = "RST of a connection that was picked up and not answered",
		.text = "> A 1001 5001 : ES new 300s\n"
			"> R 1001 : CL 10s | -\n",
		.differs = "packets that the RST overtook would begin another connection" },
	{ .item = "tcp-reopen",
		.name = "SYN in TIME_WAIT",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+\n"
			"< FA 5001 1002 : LA+\n"
			"> A 1002 5002 : TW+\n"
			"> S 900000 : SS new 120s\n"
			"< SA 70000 900001 : SR 60s\n" },
	{ .item = "tcp-reopen",
		.name = "SYN after the client's RST",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> R 1001 : CL+ 10s\n"
			"> S 900000 : SS new 120s\n" },
	{ .item = "tcp-reopen",
		.name = "SYN after the server's RST",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"< R 5001 : CL+ 10s\n"
			"> S 900000 : SS new 120s | CL+ 10s\n"
			"< SA 70000 900001 : SR 60s | SR+ 60s\n"
			"> A 900001 70001 : ES+\n",
		.differs = "another sequence number cannot be of the connection that was reset: it "
			   "is a "
			   "new one; Linux waits for the SYN-ACK and reuses the entry" },
	{ .item = "tcp-reopen",
		.name = "SYN of the server in TIME_WAIT",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> FA 1001 5001 : FW+\n"
			"< A 5001 1002 : CW+\n"
			"< FA 5001 1002 : LA+\n"
			"> A 1002 5002 : TW+\n"
			"< S 70000 : SS new 120s\n" },
	{ .item = "tcp-reorder",
		.name = "the connection's own SYN arrives last",
		.text = "> A 1001 5001 : ES new 300s\n"
			"> S 1000 : ES 300s\n"
			"< SA 5000 1001 : ES 300s | SR 60s\n"
			"> A 1001 5001 : ES 300s | ES+\n",
		.differs = "a SYN that fits the first packet seen is that connection's own, late" },
	{ .item = "tcp-reorder",
		.name = "own SYN after the end",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> R 1001 : CL+ 10s\n"
			"> S 1000 : CL+ 10s | SS new\n",
		.differs = "the same SYN again is taken for one that the RST overtook" },
	{ .item = "tcp-reorder",
		.name = "own SYN after the end, where only the end was seen",
		.text = "> A 1001 5001 : ES new\n"
			"< A 5001 1001 : ES+ | ES\n"
			"> R 1001 : CL+ 10s | CL 10s\n"
			"> S 1000 : CL+ 10s | SS new\n"
			"> S 3000 : SS new | SS\n",
		.differs = "a SYN that fits the first packet seen is that connection's own, late; "
			   "and the "
			   "answer itself assures" },
	{ .item = "tcp-resync",
		.name = "SYN in an open connection that the server takes",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> S 900000 : ES+ 432000s\n"
			"< SA 70000 900001 : SR+ 60s\n"
			"> A 900001 70001 : ES+ 432000s\n" },
	{ .item = "tcp-resync",
		.name = "SYN in an open connection that the server challenges",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> S 900000 : ES+\n"
			"< A 5001 1001 : ES+\n"
			"< SA 5000 1001 : ES+\n"
			"> AP 1001 5001 +10 : ES+\n"
			"< A 5001 1011 : ES+\n" },
	{ .item = "tcp-challenge",
		.name = "challenge in LAST_ACK is not the last ACK",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"< FA 5001 1001 : FW+\n"
			"> FA 1001 5002 : LA+ 30s\n"
			"> S 900000 : LA+ 30s\n"
			"< A 5002 1001 : LA+ 30s\n"
			"< A 5002 1002 : TW+ 120s\n" },
	{ .item = "tcp-resync",
		.name = "SYN in LAST_ACK that the server takes",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"< FA 5001 1001 : FW+\n"
			"> FA 1001 5002 : LA+ 30s\n"
			"> S 900000 : LA+ 30s\n"
			"< SA 70000 900001 : SR+ 60s\n"
			"> A 900001 70001 : ES+ 432000s\n" },
	{ .item = "tcp-flags",
		.name = "impossible flags begin nothing",
		.text = "> none 1000 : - invalid\n"
			"> SF 1000 : - invalid\n"
			"> SR 1000 : - invalid\n"
			"> F 1000 : - invalid\n"
			"> U 1000 : - invalid\n"
			"> FPU 1000 : - invalid\n"
			"> SAU 1000 5001 : - invalid\n"
			"> SU 1000 : SS new\n" },
	{ .item = "tcp-flags",
		.name = "impossible flags move nothing",
		.text = "> S 1000 : SS new\n"
			"< SA 5000 1001 : SR\n"
			"> A 1001 5001 : ES+\n"
			"> none 1001 : ES+ invalid\n"
			"> SFA 1001 5001 : ES+ invalid\n"
			"> SRA 1001 5001 : ES+ invalid\n"
			"> F 1001 : ES+ invalid\n"
			"< FRA 5001 1001 : ES+ invalid\n"
			"< AU 5001 1001 : ES+\n" },
	{ .item = "checksum",
		.name = "TCP with a bad checksum",
		.text = "> S 1000 bad : - invalid\n"
			"> S 1000 : SS new 120s\n"
			"< SA 5000 1001 bad : SS invalid 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> A 1001 5001 : ES+\n"
			"< RA 5001 1001 bad : ES+ invalid\n" },
};

const struct conn_script_list conn_scripts_tcp = { scripts, sizeof(scripts) / sizeof(*scripts) };
