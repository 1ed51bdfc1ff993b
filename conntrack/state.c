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
	[CONNTRACK_STATE_UDP_STREAM] = "udp_stream",
	[CONNTRACK_STATE_ICMP] = "icmp",
	[CONNTRACK_STATE_GRE_UNREPLIED] = "gre_unreplied",
	[CONNTRACK_STATE_GRE_REPLIED] = "gre_replied",
	[CONNTRACK_STATE_SCTP_CLOSED] = "sctp_closed",
	[CONNTRACK_STATE_SCTP_COOKIE_WAIT] = "sctp_cookie_wait",
	[CONNTRACK_STATE_SCTP_COOKIE_ECHOED] = "sctp_cookie_echoed",
	[CONNTRACK_STATE_SCTP_ESTABLISHED] = "sctp_established",
	[CONNTRACK_STATE_SCTP_SHUTDOWN_SENT] = "sctp_shutdown_sent",
	[CONNTRACK_STATE_SCTP_SHUTDOWN_RECD] = "sctp_shutdown_recd",
	[CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT] = "sctp_shutdown_ack_sent",
	[CONNTRACK_STATE_SCTP_HEARTBEAT_SENT] = "sctp_heartbeat_sent",
	[CONNTRACK_STATE_GENERIC] = "generic",
};

/* Linux's defaults (nf_conntrack-sysctl, 6.18), in seconds. NONE names no connection. */
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
	[CONNTRACK_STATE_UDP_REPLIED] = 30,
	[CONNTRACK_STATE_UDP_STREAM] = 120,
	[CONNTRACK_STATE_ICMP] = 30,
	[CONNTRACK_STATE_GRE_UNREPLIED] = 30,
	[CONNTRACK_STATE_GRE_REPLIED] = 180,
	[CONNTRACK_STATE_SCTP_CLOSED] = 10,
	[CONNTRACK_STATE_SCTP_COOKIE_WAIT] = 3,
	[CONNTRACK_STATE_SCTP_COOKIE_ECHOED] = 3,
	[CONNTRACK_STATE_SCTP_ESTABLISHED] = 210,
	[CONNTRACK_STATE_SCTP_SHUTDOWN_SENT] = 3,
	[CONNTRACK_STATE_SCTP_SHUTDOWN_RECD] = 3,
	[CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT] = 3,
	[CONNTRACK_STATE_SCTP_HEARTBEAT_SENT] = 30,
	[CONNTRACK_STATE_GENERIC] = 600,
};

static uint64_t sooner(uint64_t timeout_ns, uint64_t bound_ns)
{
	return bound_ns != 0 && bound_ns < timeout_ns ? bound_ns : timeout_ns;
}

uint64_t conntrack_state_timeout_ns(
	const struct conntrack_config *config, unsigned int state, enum conntrack_keep keep)
{
	uint64_t timeout_ns = config->timeout_ns[state];
	if (!conntrack_state_is_tcp(state))
		return timeout_ns;
	switch (keep) {
	case CONNTRACK_KEEP_UNANSWERED:
		if (state != CONNTRACK_STATE_TCP_ESTABLISHED)
			return timeout_ns;
		return sooner(timeout_ns, config->tcp_unacknowledged_ns);
	case CONNTRACK_KEEP_UNACKED:
		return sooner(timeout_ns, config->tcp_unacknowledged_ns);
	case CONNTRACK_KEEP_RESET:
		return config->timeout_ns[CONNTRACK_STATE_TCP_CLOSE];
	case CONNTRACK_KEEP_ASSURED:
	case CONNTRACK_KEEPS_COUNT:
		break;
	}
	return timeout_ns;
}

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
		.tcp_unacknowledged_ns = 300 * CONNTRACK_SECOND_NS,
		.tcp_pickup = true,
	};
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		config->timeout_ns[i] = timeout_defaults_s[i] * CONNTRACK_SECOND_NS;
}
