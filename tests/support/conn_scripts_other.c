/* SPDX-License-Identifier: BSD-2-Clause */
/* What is not TCP. */
#include "tests/support/conn_script.h"

static const struct conn_script scripts[] = {
	{ .item = "udp",
		.name = "UDP question and answer",
		.text = "> udp : UU new 30s\n"
			"wait 1200ms\n"
			"> udp : UU 30s\n"
			"< udp : UR 30s\n"
			"> udp : UR 30s\n" },
	{ .item = "udp",
		.name = "UDP stream after two seconds",
		.text = "> udp : UU new 30s\n"
			"< udp : UR 30s\n"
			"wait 2200ms\n"
			"> udp : US+ 120s\n"
			"< udp : US+ 120s\n" },
	{ .item = "udp",
		.name = "late UDP answer",
		.text = "> udp : UU new 30s\n"
			"wait 2200ms\n"
			"< udp : UR 30s\n"
			"< udp : US+ 120s\n" },
	{ .item = "udp",
		.name = "UDP over IPv6",
		.family = 6,
		.text = "> udp : UU new 30s\n"
			"< udp : UR 30s\n"
			"< unreach 48 : UR related\n" },
	{ .item = "checksum",
		.name = "UDP with a bad checksum",
		.text = "> udp bad : - invalid\n"
			"> udp : UU new 30s\n"
			"< udp bad : UU invalid 30s\n" },
	{ .item = "icmp",
		.name = "ICMP echo",
		.text = "> echo : IC new 30s\n"
			"< reply : IC+ 30s | IC 30s\n"
			"wait 1500ms\n"
			"> echo : IC+ 30s | IC 30s\n",
		.differs = "an answered one is assured: the full-table policy then spares it" },
	{ .item = "icmp",
		.name = "ICMP reply without a request",
		.text = "< reply : IC new 30s | - invalid\n"
			"> echo : IC+ 30s | IC new 30s\n",
		.differs = "as with TCP, a capture may show one direction only; and answered is "
			   "assured" },
	{ .item = "icmp",
		.name = "ICMP reply without a request, no pickup",
		.no_pickup = true,
		.text = "< reply : - invalid\n"
			"> echo : IC new 30s\n" },
	{ .item = "icmp",
		.name = "ICMPv6 echo",
		.family = 6,
		.text = "> echo : IC new 30s\n"
			"< reply : IC+ 30s | IC 30s\n",
		.differs = "an answered one is assured" },
	{ .item = "icmp",
		.name = "ICMPv6 reply without a request, no pickup",
		.no_pickup = true,
		.family = 6,
		.text = "< reply : - invalid\n"
			"> echo : IC new 30s\n" },
	{ .item = "icmp-error",
		.name = "error about UDP, 8 bytes of it quoted",
		.text = "> udp : UU new 30s\n"
			"wait 1500ms\n"
			"< unreach 28 : UU related 28s\n"
			"> udp : UU 30s\n" },
	{ .item = "icmp-error",
		.name = "error about TCP from a router beyond",
		.text = "> S 1000 : SS new 120s\n"
			"< unreach-from 28 : SS related 120s\n"
			"< SA 5000 1001 : SR 60s\n" },
	{ .item = "icmp-error",
		.name = "error about a reply",
		.text = "> S 1000 : SS new 120s\n"
			"< SA 5000 1001 : SR 60s\n"
			"> unreach-from 28 : SR related 60s\n" },
	{ .item = "icmp-error",
		.name = "error about nothing known, no pickup",
		.no_pickup = true,
		.text = "> A 1001 5001 : - invalid\n"
			"< unreach 28 : - invalid\n" },
	{ .item = "icmp-error",
		.name = "ICMPv6 error about TCP",
		.family = 6,
		.text = "> S 1000 : SS new 120s\n"
			"< unreach-from 48 : SS related 120s\n" },
	{ .item = "fragment",
		.name = "UDP in two fragments",
		.text = "> udp frag : UU new 30s\n"
			"< udp frag : UR 30s\n" },
	{ .item = "gre",
		.name = "GRE",
		.text = "> gre : GU new 30s\n"
			"< gre : GR+ 180s | GR 30s\n"
			"> gre : GR+ 180s\n",
		.differs = "the answer itself assures; in Linux the packet after it" },
	{ .item = "generic",
		.name = "ESP",
		.text = "> esp : GE new 600s\n"
			"< esp : GE+ 600s | GE 600s\n",
		.differs = "an answered one is assured: the full-table policy then spares it" },
	{ .item = "sctp",
		.name = "SCTP association",
		.text = "> sctp init : sCL new 10s\n"
			"< sctp init_ack : sCW 3s\n"
			"> sctp cookie_echo,data : sCE 3s\n"
			"< sctp cookie_ack,sack : sES+ 210s\n"
			"> sctp data : sES+ 210s\n"
			"> sctp shutdown : sSS+ 3s\n"
			"< sctp shutdown_ack : sSA+ 3s\n"
			"> sctp shutdown_complete : sCL+ 10s\n" },
	{ .item = "sctp",
		.name = "SCTP shut down by the server, and aborted",
		.text = "> sctp init : sCL new\n"
			"< sctp init_ack : sCW\n"
			"> sctp cookie_echo : sCE\n"
			"< sctp cookie_ack : sES+\n"
			"< sctp shutdown : sSR+ 3s\n"
			"< sctp abort : sCL+ 10s\n" },
	{ .item = "sctp",
		.name = "SCTP heartbeat of another path",
		.text = "> sctp heartbeat : sHS new 30s\n"
			"< sctp data : sHS invalid 30s\n"
			"< sctp heartbeat_ack : sES+ 210s\n" },
	{ .item = "sctp",
		.name = "SCTP data first",
		.text = "> sctp data : sES new 210s | - invalid\n"
			"< sctp init_ack : sES+ 210s | - invalid\n",
		.differs = "as with TCP, a capture may begin in the middle" },
	{ .item = "sctp",
		.name = "SCTP chunks that do not belong",
		.no_pickup = true,
		.text = "> sctp data : - invalid\n"
			"> sctp init,data : - invalid\n"
			"> sctp init tag 7 : - invalid\n"
			"> sctp abort : - invalid\n"
			"< sctp init_ack : - invalid\n" },
	{ .item = "fragment",
		.name = "UDP over IPv6 in two fragments",
		.family = 6,
		.text = "> udp frag : UU new 30s\n"
			"< udp frag : UR 30s\n" },
	{ .item = "fragment",
		.name = "ICMP echo in two fragments",
		.text = "> echo frag : IC new 30s\n"
			"< reply frag : IC+ 30s | IC 30s\n",
		.differs = "an answered one is assured" },
	{ .item = "icmp-error",
		.name = "error about an answered UDP question",
		.text = "> udp : UU new 30s\n"
			"< udp : UR 30s\n"
			"> unreach 28 : UR related 30s\n"
			"< udp : UR 30s\n" },
	{ .item = "icmp-error",
		.name = "error about an echo request",
		.text = "> echo : IC new 30s\n"
			"< unreach-from 28 : IC related 30s\n" },
	{ .item = "icmp-error",
		.name = "error about SCTP",
		.text = "> sctp init : sCL new 10s\n"
			"< unreach-from 28 : sCL related 10s\n" },
	{ .item = "gre",
		.name = "GRE over IPv6",
		.family = 6,
		.text = "> gre : GU new 30s\n"
			"< gre : GR+ 180s | GR 30s\n",
		.differs = "the answer itself assures; in Linux the packet after it" },
	{ .item = "generic",
		.name = "ESP over IPv6",
		.family = 6,
		.text = "> esp : GE new 600s\n"
			"< esp : GE+ 600s | GE 600s\n",
		.differs = "an answered one is assured: the full-table policy then spares it" },
	{ .item = "sctp",
		.name = "SCTP over IPv6, opening repeated",
		.family = 6,
		.text = "> sctp init : sCL new 10s\n"
			"> sctp init : sCL 10s\n"
			"< sctp init_ack : sCW 3s\n"
			"< sctp init_ack : sCW 3s\n"
			"> sctp cookie_echo : sCE 3s\n"
			"> sctp cookie_echo : sCE 3s\n"
			"< sctp cookie_ack : sES+ 210s\n" },
};

const struct conn_script_list conn_scripts_other = { scripts, sizeof(scripts) / sizeof(*scripts) };
