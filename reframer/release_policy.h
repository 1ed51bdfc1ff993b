/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What may be held, in which class and until when: decisions only, values in, values out.
 *
 * Order of the bypass reasons (the first that applies is the one counted): no flow, operator, SYN,
 * RST, first packet, option (a class with delay 0).
 */
#pragma once

#include "base/packet.h"
#include "reframer/reframer.h"

struct release_policy {
	uint64_t delay_ns[REFRAMER_CLASSES_COUNT];
	reframer_classify_fn *classify;
	const void *classify_arg;
	uint8_t bypass_tcp_flags;
	bool short_acks, operator_bulk;
};

/* "May be held": no release reason applies. */
enum { RELEASE_POLICY_HOLD = REFRAMER_RELEASES_COUNT };

void reframer_release_policy_init(
	struct release_policy *policy, const struct reframer_config *config);

/* A pure ACK carries nothing; a FIN ends the data of its direction. SYN and RST are neither. */
static inline bool release_policy_is_short(const struct base_packet *packet)
{
	if (packet->protocol != BASE_PROTOCOL_TCP ||
		(packet->tcp_flags & (BASE_TCP_SYN | BASE_TCP_RST)) != 0)
		return false;
	if ((packet->tcp_flags & BASE_TCP_FIN) != 0)
		return true;
	return (packet->tcp_flags & BASE_TCP_ACK) != 0 && packet->payload_len == 0;
}

static inline enum reframer_class release_policy_class(
	const struct release_policy *policy, const struct base_packet *packet)
{
	if (policy->classify != NULL)
		return policy->classify(packet, policy->classify_arg);
	if (policy->operator_bulk && (packet->flags & BASE_PACKET_OPERATOR_BULK) != 0)
		return REFRAMER_CLASS_BULK;
	if (policy->short_acks && release_policy_is_short(packet))
		return REFRAMER_CLASS_SHORT;
	return REFRAMER_CLASS_NORMAL;
}

/* Whether anything but the class or the filter could keep the packet from being held. It may say so
 * of packets that may be held, never the other way round. */
static inline bool release_policy_is_special(
	const struct release_policy *policy, const struct base_packet *packet)
{
	const uint16_t flags = BASE_PACKET_FLOW | BASE_PACKET_OPERATOR_BYPASS;
	return (packet->flags & flags) != BASE_PACKET_FLOW ||
	       (packet->tcp_flags & policy->bypass_tcp_flags) != 0;
}

/*
 * Why the packet may not be held, or RELEASE_POLICY_HOLD. `first`: it is its flow's first packet
 * and that matters. `class` is only asked for packets with a flow.
 */
static inline unsigned int release_policy_bypass(const struct release_policy *policy,
	const struct base_packet *packet, bool first, enum reframer_class class)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return REFRAMER_RELEASE_BYPASS_NO_FLOW;
	if ((packet->flags & BASE_PACKET_OPERATOR_BYPASS) != 0)
		return REFRAMER_RELEASE_BYPASS_OPERATOR;
	if ((packet->tcp_flags & policy->bypass_tcp_flags) != 0 &&
		packet->protocol == BASE_PROTOCOL_TCP) {
		bool syn = (packet->tcp_flags & policy->bypass_tcp_flags & BASE_TCP_SYN) != 0;
		return syn ? REFRAMER_RELEASE_BYPASS_SYN : REFRAMER_RELEASE_BYPASS_RST;
	}
	if (first)
		return REFRAMER_RELEASE_BYPASS_FIRST;
	if (policy->delay_ns[class] == 0)
		return REFRAMER_RELEASE_BYPASS_OPTION;
	return RELEASE_POLICY_HOLD;
}

/* The last moment a packet of the class that came at now_ns may leave. */
static inline uint64_t release_policy_deadline_ns(
	const struct release_policy *policy, enum reframer_class class, uint64_t now_ns)
{
	uint64_t deadline_ns = now_ns + policy->delay_ns[class];
	return deadline_ns >= now_ns ? deadline_ns : UINT64_MAX;
}
