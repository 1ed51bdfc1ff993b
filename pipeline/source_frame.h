/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the sources that play captures: how a frame gets into a packet buffer. */
#pragma once

#include "pipeline/packet_ring.h"

#include "base/mbuf.h"

/* A frame in a buffer without headroom in front would not fit 16 bits of length. */
enum { SOURCE_FRAME_ROOM_MAX = UINT16_MAX - RTE_PKTMBUF_HEADROOM, SOURCE_BUFFERS_AHEAD = 4 };

/* The private area ends where the buffer starts: no need to touch the mbuf. */
static inline uint8_t *source_frame_data(struct base_packet *packet)
{
	return (uint8_t *)(packet + 1) + RTE_PKTMBUF_HEADROOM;
}

/* Own the lines of a buffer that will be written soon; they rest in a farther cache level, as
 * they would after a NIC's write. */
static inline void source_frame_prefetch(struct base_packet *packet)
{
	uint8_t *data = source_frame_data(packet);
	BASE_PREFETCH_W(packet);
	BASE_PREFETCH_W(&packet->key);
	BASE_PREFETCH_W(data);
	BASE_PREFETCH_W(data + 64);
}

/* Fill what the capture cut with zeros, as far as the buffer goes. */
static inline void source_frame_pad(struct base_packet *packet, uint32_t room)
{
	uint32_t length = packet->wire_len < room ? packet->wire_len : room;
	if (length > packet->cap_len) {
		memset(packet->data + packet->cap_len, 0, length - packet->cap_len);
		packet->cap_len = length;
	}
}

/* Room for frames of up to so many bytes, a whole number of cache lines, not below a usual
 * buffer's. */
static inline uint32_t source_frame_room(uint32_t frame_len_max)
{
	uint32_t room = frame_len_max > SOURCE_FRAME_ROOM_MAX ? SOURCE_FRAME_ROOM_MAX
							      : (frame_len_max + 63) / 64 * 64;
	if (room < 2048 - RTE_PKTMBUF_HEADROOM)
		room = 2048 - RTE_PKTMBUF_HEADROOM;
	return room < SOURCE_FRAME_ROOM_MAX ? room : SOURCE_FRAME_ROOM_MAX;
}
