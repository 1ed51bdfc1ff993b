/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/release_policy.h"

void reframer_release_policy_init(
	struct release_policy *policy, const struct reframer_config *config)
{
	*policy = (struct release_policy){
		.classify = config->classify,
		.classify_arg = config->classify_arg,
		.short_acks = config->short_acks,
		.operator_bulk = config->operator_bulk,
	};
	for (unsigned int i = 0; i < REFRAMER_CLASSES_COUNT; i++)
		policy->delay_ns[i] = config->delay_ns[i];
	if (config->bypass_syn)
		policy->bypass_tcp_flags |= BASE_TCP_SYN;
	if (config->bypass_rst)
		policy->bypass_tcp_flags |= BASE_TCP_RST;
}

const char *reframer_release_name(enum reframer_release release)
{
	static const char *const names[REFRAMER_RELEASES_COUNT] = {
		[REFRAMER_RELEASE_DELAY] = "delay",
		[REFRAMER_RELEASE_RUN_FULL] = "run_full",
		[REFRAMER_RELEASE_BYPASS_SYN] = "bypass_syn",
		[REFRAMER_RELEASE_BYPASS_RST] = "bypass_rst",
		[REFRAMER_RELEASE_BYPASS_FIRST] = "bypass_first",
		[REFRAMER_RELEASE_BYPASS_NO_FLOW] = "bypass_no_flow",
		[REFRAMER_RELEASE_BYPASS_OPERATOR] = "bypass_operator",
		[REFRAMER_RELEASE_BYPASS_OPTION] = "bypass_option",
		[REFRAMER_RELEASE_PRESSURE_PACKETS] = "pressure_packets",
		[REFRAMER_RELEASE_PRESSURE_FLOWS] = "pressure_flows",
		[REFRAMER_RELEASE_FLUSH] = "flush",
	};
	return (unsigned int)release < REFRAMER_RELEASES_COUNT ? names[release] : "unknown";
}
