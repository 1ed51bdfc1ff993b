/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/port.h"

#include "base/mbuf.h"

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include <errno.h>
#include <stdio.h>

enum { PORT_DESCRIPTORS = 1024, PORT_POOL_CACHE = 256, PORT_DATA_ROOM = 2048 };

static int fail(char *message, const char *device, const char *what, int error)
{
	snprintf(message, PIPELINE_MESSAGE_SIZE, "port %.200s: %s: %s", device, what,
		strerror(error < 0 ? -error : error));
	return error < 0 ? error : -error;
}

static int find(struct port *port, const char *device, char *message)
{
	char name[64];
	uint16_t id;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ","), device);
	if (rte_eth_dev_get_port_by_name(name, &id) != 0) {
		/* Our own message says it in one line. */
		uint32_t level = rte_log_get_global_level();
		rte_log_set_global_level(RTE_LOG_CRIT);
		int error = rte_dev_probe(device);
		rte_log_set_global_level(level);
		if (error != 0)
			return fail(message, device, "no such device", -ENODEV);
		port->probed = true;
		if (rte_eth_dev_get_port_by_name(name, &id) != 0)
			return fail(message, device, "no such device", -ENODEV);
	}
	port->id = id;
	return 0;
}

static int configure(struct port *port, const char *device, uint16_t queues, char *message)
{
	/* This key gives both directions of a connection one hash (repeated 0x6d5a). */
	static const uint8_t symmetric_key[40] = { 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
		0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
		0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a, 0x6d, 0x5a,
		0x6d, 0x5a, 0x6d, 0x5a };
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = { 0 };
	int error = rte_eth_dev_info_get(port->id, &info);
	if (error != 0)
		return fail(message, device, "device information", error);
	if (queues > info.max_rx_queues || queues > info.max_tx_queues) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"port %.200s: got %u workers, expected at most %u (its queues)", device,
			queues, RTE_MIN(info.max_rx_queues, info.max_tx_queues));
		return -EINVAL;
	}
	if (queues > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_key = (uint8_t *)symmetric_key;
		conf.rx_adv_conf.rss_conf.rss_key_len = sizeof(symmetric_key);
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) &
			info.flow_type_rss_offloads;
	}
	error = rte_eth_dev_configure(port->id, queues, queues, &conf);
	return error == 0 ? 0 : fail(message, device, "configure", error);
}

static int start_queues(struct port *port, const char *device, uint16_t queues, char *message)
{
	uint16_t rx_count = PORT_DESCRIPTORS, tx_count = PORT_DESCRIPTORS;
	char name[32];
	rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx_count, &tx_count);
	snprintf(name, sizeof(name), "port%u", port->id);
	uint32_t buffers = queues * (PORT_DESCRIPTORS * 2u + 8192u);
	int error =
		base_mbuf_pool_create(&port->pool, name, buffers, PORT_DATA_ROOM, PORT_POOL_CACHE);
	if (error != 0)
		return fail(message, device, "packet buffers", error);
	for (uint16_t queue = 0; queue < queues && error == 0; queue++) {
		error = rte_eth_rx_queue_setup(
			port->id, queue, rx_count, SOCKET_ID_ANY, NULL, port->pool);
		if (error == 0)
			error = rte_eth_tx_queue_setup(
				port->id, queue, tx_count, SOCKET_ID_ANY, NULL);
	}
	if (error == 0)
		error = rte_eth_dev_start(port->id);
	if (error != 0)
		return fail(message, device, "start", error);
	port->started = true;
	(void)rte_eth_promiscuous_enable(port->id); /* not every driver has it */
	return 0;
}

int port_start(struct port *port, const char *device, uint16_t queues, char *message)
{
	memset(port, 0, sizeof(*port));
	int error = find(port, device, message);
	if (error == 0)
		error = configure(port, device, queues, message);
	if (error == 0)
		error = start_queues(port, device, queues, message);
	if (error != 0)
		port_stop(port);
	return error;
}

void port_stop(struct port *port)
{
	struct rte_eth_dev_info info;
	if (port->started)
		(void)rte_eth_dev_stop(port->id);
	if (port->probed && rte_eth_dev_info_get(port->id, &info) == 0) {
		(void)rte_eth_dev_close(port->id);
		(void)rte_dev_remove(info.device);
	}
	rte_mempool_free(port->pool);
	memset(port, 0, sizeof(*port));
}
