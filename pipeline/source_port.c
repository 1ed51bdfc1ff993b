/* SPDX-License-Identifier: BSD-2-Clause */
/* Port source: one receive queue. Packets get the time of the poll that brought them. */
#include "pipeline/source.h"

#include "base/mbuf.h"
#include "pipeline/filter.h"

#include <rte_ethdev.h>

#include <errno.h>
#include <stdlib.h>

struct source_port {
	struct source source;
	uint16_t port, queue;
	uint64_t seq;
	struct filter *filter;
};

static void fill(struct source_port *source, struct rte_mbuf *mbuf, uint64_t now_ns)
{
	struct base_packet *packet = base_packet_from_mbuf(mbuf);
	base_packet_reset(packet);
	packet->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
	packet->time_ns = now_ns;
	packet->seq = source->seq++;
	packet->wire_len = mbuf->pkt_len;
	packet->cap_len = mbuf->data_len; /* no scatter: the first segment is the frame */
	packet->link = BASE_LINK_ETHERNET;
	packet->interface = (uint8_t)source->port;
	packet->flags = filter_flags(source->filter, packet);
}

static unsigned int port_poll(
	struct source *base, uint64_t limit_ns, struct base_packet **packets, unsigned int count)
{
	struct source_port *source = (struct source_port *)base;
	struct rte_mbuf *mbufs[BASE_BURST_MAX];
	uint16_t received = rte_eth_rx_burst(source->port, source->queue, mbufs, (uint16_t)count);
	for (uint16_t i = 0; i < received; i++) {
		fill(source, mbufs[i], limit_ns);
		packets[i] = base_packet_from_mbuf(mbufs[i]);
	}
	return received;
}

static void port_give_back(struct source *, struct base_packet *const *packets, unsigned int count)
{
	struct rte_mbuf *mbufs[BASE_BURST_MAX];
	for (unsigned int i = 0; i < count; i++)
		mbufs[i] = base_mbuf_from_packet(packets[i]);
	rte_pktmbuf_free_bulk(mbufs, count);
}

static void port_destroy(struct source *base)
{
	filter_destroy(((struct source_port *)base)->filter);
	free(base);
}

static const struct source_ops port_ops = { port_poll, port_give_back, port_destroy };

int source_port_create(struct source **out, uint16_t port, uint16_t queue,
	const struct pipeline_config *config, char *message)
{
	struct source_port *source = calloc(1, sizeof(*source));
	if (source == NULL)
		return -ENOMEM;
	int error =
		filter_create(&source->filter, config->bypass_filter, config->bulk_filter, message);
	if (error != 0) {
		free(source);
		return error;
	}
	source->source.ops = &port_ops;
	source->port = port;
	source->queue = queue;
	*out = &source->source;
	return 0;
}
