/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mbuf.h"

#include <errno.h>
#include <rte_errno.h>

int base_mbuf_pool_create(struct rte_mempool **out, const char *name, uint32_t count,
	uint32_t data_room, uint32_t cache_size)
{
	if (count == 0 || data_room > UINT16_MAX - RTE_PKTMBUF_HEADROOM)
		return -EINVAL;
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create(name, count, cache_size, sizeof(struct base_packet),
			(uint16_t)(data_room + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
	if (pool == NULL)
		return -rte_errno;
	*out = pool;
	return 0;
}
