/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/mark.h"

bool gpu_offload_mark(struct base_packet *packet, uint32_t dscp)
{
	uint8_t *ip = packet->data + packet->l3_offset;
	/* The UDP checksum of a tunnel covers an IPv6 header without one of its own. */
	if ((packet->flags & (BASE_PACKET_IP6 | BASE_PACKET_TUNNEL)) ==
		(BASE_PACKET_IP6 | BASE_PACKET_TUNNEL))
		return false;
	if ((packet->flags & (BASE_PACKET_IP4 | BASE_PACKET_IP6)) == 0 ||
		packet->l3_offset + 20u > packet->cap_len)
		return false;
	if ((packet->flags & BASE_PACKET_IP6) != 0) {
		uint32_t class = dscp << 2 | (ip[1] >> 4 & 3);
		ip[0] = (uint8_t)((ip[0] & 0xf0) | class >> 4);
		ip[1] = (uint8_t)((ip[1] & 0x0f) | class << 4);
		return true;
	}
	/* RFC 1624, equation 3, over the word that version, length and DSCP stand in. */
	uint32_t old_word = (uint32_t)ip[0] << 8 | ip[1];
	uint32_t sum = (uint32_t)ip[10] << 8 | ip[11];
	ip[1] = (uint8_t)(dscp << 2 | (ip[1] & 3));
	uint32_t new_word = (uint32_t)ip[0] << 8 | ip[1];
	sum = (~sum & 0xffff) + (~old_word & 0xffff) + new_word;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	return true;
}
