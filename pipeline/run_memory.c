/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/run_memory.h"

#include "conntrack/foreign.h"
#include "pipeline/infer.h"
#include "pipeline/order_check.h"
#include "pipeline/sharing.h"

enum {
	OFFSET_BYTES = 32, /* what aligning a connection's parts may cost */
	TCP_WINDOW_BYTES = 64,
};

uint64_t run_memory_dpdk_bytes(
	const struct pipeline_config *config, uint64_t frame_max, uint64_t page_bytes)
{
	uint64_t buffers = config->rx == PIPELINE_RX_COLD ? 1u << 17 : config->rx_ring;
	buffers += 2048;
	if (config->reframer_enabled)
		buffers += config->reframer.held_packets_max;
	if (config->infer.enabled && config->infer.stage.hold_ns > 0)
		buffers += config->infer.stage.hold_packets;
	if (config->sink == PIPELINE_SINK_PORT)
		buffers += 8192;
	uint64_t room = frame_max;
	room = room < 2048 ? 2048 : room > UINT16_MAX ? UINT16_MAX : room;
	uint64_t element = room + 512;
	if (page_bytes < (1u << 20)) /* a buffer starts on a page of its own when few fit one */
		element = (element + page_bytes - 1) / page_bytes * page_bytes;
	uint64_t bytes = buffers * element;
	for (uint32_t i = 0; i < config->chain.functions_count; i++) {
		if (config->chain.functions[i].kind == CHAIN_ROUTER)
			bytes += UINT64_C(160) << 20;
		else if (config->chain.functions[i].kind == CHAIN_FIREWALL)
			bytes += UINT64_C(256) << 20;
	}
	if (config->source == PIPELINE_SOURCE_PORT || config->sink == PIPELINE_SINK_PORT)
		bytes += UINT64_C(64) << 20;
	bytes += conntrack_foreign_dpdk_bytes(
		config->conntrack.table, 2 * (uint64_t)config->conntrack.entries_max);
	return bytes * config->workers;
}

static uint64_t conn_bytes(const struct pipeline_config *config)
{
	bool lab = config->conntrack.table != NULL || config->conntrack.deletion != NULL;
	uint64_t bytes = lab ? PIPELINE_MEMORY_LAB_BYTES : PIPELINE_MEMORY_CONN_BYTES;
	bytes += ORDER_CHECK_USER_BYTES;
	if (config->conntrack.tcp_windows != CONNTRACK_TCP_WINDOWS_OFF)
		bytes += TCP_WINDOW_BYTES;
	for (uint32_t i = 0; i < config->chain.functions_count; i++)
		bytes += chain_kind_user_bytes(config->chain.functions[i].kind);
	return bytes + bytes / 4; /* an arena's size classes lie as far apart */
}

/* Of all workers; groups of buckets have a quarter more room (sharing.c). */
static uint64_t conns_of(const struct pipeline_config *config)
{
	uint64_t conns = config->conntrack.entries_max * (uint64_t)config->workers;
	if (config->sharing == PIPELINE_SHARING_BUCKET_LOCK)
		conns += conns / 4 + 64 * SHARING_GROUPS;
	return conns;
}

/* What inference adds. */
static size_t infer_parts(
	struct pipeline_memory_part parts[], const struct pipeline_config *config, uint64_t packets)
{
	const struct gpu_offload_stage_config *stage = &config->infer.stage;
	const uint64_t workers = config->workers;
	struct gpu_offload_stage_memory memory;
	uint32_t depth = stage->depth != 0 ? stage->depth
					   : gpu_offload_features_depth_default(stage->features);
	uint64_t flow_bytes = gpu_offload_flow_bytes(stage->features, depth) + OFFSET_BYTES;
	gpu_offload_stage_memory(stage, &memory);
	parts[0] = (struct pipeline_memory_part){ "packets of flows",
		config->conntrack.entries_max * workers * flow_bytes,
		{ "--conns", "--workers", "--infer depth=" } };
	parts[1] = (struct pipeline_memory_part){ "flows that wait", memory.queue_bytes * workers,
		{ "--workers", "--infer queue=" } };
	parts[2] = (struct pipeline_memory_part){ "batches", memory.batches_bytes * workers,
		{ "--workers", "--infer batch=", "--infer inflight=" } };
	parts[3] = (struct pipeline_memory_part){ "held packets", memory.hold_bytes * workers,
		{ "--workers", "--infer held=" } };
	/* A flow has one, and a packet at least; they are put together when they are written. */
	uint64_t verdicts = INFER_VERDICTS_MAX * workers;
	verdicts = packets < verdicts ? packets : verdicts;
	parts[4] = (struct pipeline_memory_part){ "verdicts",
		config->infer.verdicts == NULL ? 0 : 2 * verdicts * GPU_OFFLOAD_VERDICT_BYTES,
		{ "--workers" } };
	return 5;
}

size_t run_memory_parts(struct pipeline_memory_part parts[], const struct pipeline_config *config,
	uint64_t frame_max, uint64_t page_bytes, uint64_t packets)
{
	size_t count = 0;
	parts[count++] = (struct pipeline_memory_part){ "connections",
		conns_of(config) * conn_bytes(config), { "--conns", "--workers" } };
	parts[count++] = (struct pipeline_memory_part){ "packet buffers",
		run_memory_dpdk_bytes(config, frame_max, page_bytes),
		{ "--workers", config->infer.enabled && config->infer.stage.hold_ns > 0
				       ? "--infer held="
			       : config->reframer_enabled ? "--reframer held="
							  : NULL } };
	if (config->infer.enabled)
		count += infer_parts(parts + count, config, packets);
	return count;
}
