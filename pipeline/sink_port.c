/* SPDX-License-Identifier: BSD-2-Clause */
/* Port sink: one transmit queue. What the queue does not take is dropped by name, never waited for:
 * a run to completion must not block on a device. */
#include "pipeline/sink.h"

#include "base/mbuf.h"

#include <rte_ethdev.h>

#include <errno.h>
#include <stdlib.h>

struct sink_port {
	struct sink sink;
	uint16_t port, queue;
};

static struct rte_mbuf *prepare(struct base_packet *packet)
{
	struct rte_mbuf *mbuf = base_mbuf_from_packet(packet);
	mbuf->data_off = (uint16_t)(packet->data - (uint8_t *)mbuf->buf_addr);
	mbuf->data_len = (uint16_t)packet->cap_len;
	mbuf->pkt_len = packet->cap_len;
	mbuf->nb_segs = 1;
	mbuf->next = NULL;
	mbuf->ol_flags = 0;
	return mbuf;
}

static void port_send(struct sink *base, struct base_burst *burst, unsigned int *kept)
{
	struct sink_port *sink = (struct sink_port *)base;
	struct rte_mbuf *mbufs[BASE_BURST_MAX];
	uint16_t index[BASE_BURST_MAX];
	uint16_t count = 0;
	for (unsigned int i = 0; i < burst->count; i++) {
		if (burst->packets[i]->link != BASE_LINK_ETHERNET) {
			base_burst_drop(burst, i, BASE_DROP_SINK_LINK);
			continue;
		}
		index[count] = (uint16_t)i;
		mbufs[count++] = prepare(burst->packets[i]);
	}
	uint16_t sent = rte_eth_tx_burst(sink->port, sink->queue, mbufs, count);
	for (uint16_t i = 0; i < count; i++) {
		if (i < sent)
			burst->packets[index[i]] = NULL;
		else
			base_burst_drop(burst, index[i], BASE_DROP_SINK_FULL);
	}
	*kept += sent;
}

static int port_finish(struct sink *, char *)
{
	return 0;
}

static void port_destroy(struct sink *sink)
{
	free(sink);
}

static const struct sink_ops port_ops = { port_send, port_finish, port_destroy };

int sink_port_create(struct sink **out, uint16_t port, uint16_t queue)
{
	struct sink_port *sink = calloc(1, sizeof(*sink));
	if (sink == NULL)
		return -ENOMEM;
	sink->sink.ops = &port_ops;
	sink->port = port;
	sink->queue = queue;
	*out = &sink->sink;
	return 0;
}
