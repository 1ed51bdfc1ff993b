/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/order_check.h"

static uint64_t *untracked_next_seq(struct order_check *check, const struct base_packet *packet)
{
	if (!(packet->flags & BASE_PACKET_FLOW))
		return &check->no_flow_next_seq;
	struct order_check_slot *slot = &check->slots[(packet->hash >> 7) % ORDER_CHECK_SLOTS];
	if (!base_flow_key_equal(&slot->key, &packet->key)) {
		slot->key = packet->key;
		slot->next_seq = 0;
	}
	return &slot->next_seq;
}

static inline uint64_t *next_seq_of(struct order_check *check, const struct base_packet *packet)
{
	if (BASE_UNLIKELY(packet->conn == BASE_CONN_NONE))
		return untracked_next_seq(check, packet);
	uint8_t *user = conntrack_user(check->tracker, packet->conn);
	return (uint64_t *)(user + check->user_offset);
}

void order_check_burst(struct order_check *check, const struct base_burst *burst)
{
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		uint64_t *next_seq = next_seq_of(check, packet);
		if (BASE_UNLIKELY(packet->seq < *next_seq))
			check->violations++;
		else
			*next_seq = packet->seq + 1;
	}
}
