/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mbuf edge: the only header of base/ that includes DPDK. A struct base_packet is the private
 * area of an mbuf, so that both find each other by arithmetic and stages never see an mbuf.
 */
#pragma once

#include "base/packet.h"

#include <rte_mbuf.h>

static inline struct base_packet *base_packet_from_mbuf(struct rte_mbuf *mbuf)
{
	return (struct base_packet *)(mbuf + 1);
}

static inline struct rte_mbuf *base_mbuf_from_packet(struct base_packet *packet)
{
	return (struct rte_mbuf *)packet - 1;
}

static_assert(sizeof(struct rte_mbuf) == 128, "private area follows at 128 bytes");

/* Pool whose private area holds a base_packet. data_room excludes the headroom. -ENOMEM, -EINVAL
 * (data room does not fit 16 bits). */
int base_mbuf_pool_create(struct rte_mempool **out, const char *name, uint32_t count,
	uint32_t data_room, uint32_t cache_size);
