/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DPDK port as source or sink: any poll-mode driver (net_af_packet, net_af_xdp, net_tap,
 * net_pcap, physical NICs). One receive and one transmit queue per worker; several workers need a
 * device with that many queues and symmetric RSS over IP and ports.
 */
#pragma once

#include "pipeline/pipeline.h"

#include <rte_mempool.h>

struct port {
	uint16_t id;
	bool probed; /* by us: to be removed again */
	bool started;
	struct rte_mempool *pool; /* receive buffers */
};

/* device: DPDK device arguments. -ENODEV, -EINVAL (too few queues), -EIO with message. */
int port_start(struct port *port, const char *device, uint16_t queues, char *message);
void port_stop(struct port *port);
