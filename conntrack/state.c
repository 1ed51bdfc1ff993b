/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/state.h"

static const char *const state_names[CONNTRACK_STATES_COUNT] = {
	[CONNTRACK_STATE_NONE] = "none",
	[CONNTRACK_STATE_TCP_SYN_SENT] = "tcp_syn_sent",
	[CONNTRACK_STATE_TCP_SYN_SENT2] = "tcp_syn_sent2",
	[CONNTRACK_STATE_TCP_SYN_RECV] = "tcp_syn_recv",
	[CONNTRACK_STATE_TCP_ESTABLISHED] = "tcp_established",
	[CONNTRACK_STATE_TCP_FIN_WAIT] = "tcp_fin_wait",
	[CONNTRACK_STATE_TCP_CLOSE_WAIT] = "tcp_close_wait",
	[CONNTRACK_STATE_TCP_LAST_ACK] = "tcp_last_ack",
	[CONNTRACK_STATE_TCP_TIME_WAIT] = "tcp_time_wait",
	[CONNTRACK_STATE_TCP_CLOSE] = "tcp_close",
	[CONNTRACK_STATE_UDP_UNREPLIED] = "udp_unreplied",
	[CONNTRACK_STATE_UDP_REPLIED] = "udp_replied",
	[CONNTRACK_STATE_ICMP] = "icmp",
	[CONNTRACK_STATE_GENERIC] = "generic",
};

/* nf_conntrack-sysctl's defaults, in seconds. NONE names no connection. */
static const uint32_t timeout_defaults_s[CONNTRACK_STATES_COUNT] = {
	[CONNTRACK_STATE_TCP_SYN_SENT] = 120,
	[CONNTRACK_STATE_TCP_SYN_SENT2] = 120,
	[CONNTRACK_STATE_TCP_SYN_RECV] = 60,
	[CONNTRACK_STATE_TCP_ESTABLISHED] = 432000,
	[CONNTRACK_STATE_TCP_FIN_WAIT] = 120,
	[CONNTRACK_STATE_TCP_CLOSE_WAIT] = 60,
	[CONNTRACK_STATE_TCP_LAST_ACK] = 30,
	[CONNTRACK_STATE_TCP_TIME_WAIT] = 120,
	[CONNTRACK_STATE_TCP_CLOSE] = 10,
	[CONNTRACK_STATE_UDP_UNREPLIED] = 30,
	[CONNTRACK_STATE_UDP_REPLIED] = 120,
	[CONNTRACK_STATE_ICMP] = 30,
	[CONNTRACK_STATE_GENERIC] = 600,
};

const char *conntrack_state_name(enum conntrack_state state)
{
	if ((unsigned int)state >= CONNTRACK_STATES_COUNT)
		return "unknown";
	return state_names[state];
}

void conntrack_config_defaults(struct conntrack_config *config)
{
	*config = (struct conntrack_config){
		.entries_max = 1u << 16,
		.tick_ns = 4 * UINT64_C(1000000),
		.full_policy = CONNTRACK_FULL_PASS_UNTRACKED,
		.tcp_pickup = true,
	};
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		config->timeout_ns[i] = timeout_defaults_s[i] * CONNTRACK_SECOND_NS;
}
