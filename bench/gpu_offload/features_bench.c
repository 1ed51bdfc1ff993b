/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What features cost: cycles (TSC) per packet taken and per row made, lowest of the repeats, in
 * turns. 256 flows, whose memory stays in cache; packets lie in one frame.
 *
 *	features_bench [repeats]
 */
#include "base/compiler.h"
#include "base/cycles.h"
#include "base/rng.h"
#include "gpu_offload/flow_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOWS = 256, FRAME = 512 };

static const struct task {
	enum gpu_offload_features features;
	uint32_t depth, run;
} tasks[] = {
	{ GPU_OFFLOAD_SPI30, 30, 1 },
	{ GPU_OFFLOAD_SPI30, 30, 15 },
	{ GPU_OFFLOAD_STAT67, 10, 1 },
	{ GPU_OFFLOAD_STAT67, 30, 1 },
	{ GPU_OFFLOAD_STAT67, 30, 15 },
	{ GPU_OFFLOAD_N3IC20, 10, 1 },
	{ GPU_OFFLOAD_IMG1600, 5, 1 },
};

struct world {
	struct base_rng rng;
	uint64_t time_ns;
	uint8_t frame[FRAME];
	struct base_packet packets[GPU_OFFLOAD_DEPTH_MAX];
	struct base_packet *list[GPU_OFFLOAD_DEPTH_MAX];
	union {
		struct gpu_offload_flow flow;
		uint8_t bytes[2048];
	} flows[FLOWS];
	float row[GPU_OFFLOAD_IMG_INPUTS];
};

struct cost {
	double packet, row;
};

static void init(struct world *world)
{
	base_rng_seed(&world->rng, 1);
	for (uint32_t i = 0; i < GPU_OFFLOAD_DEPTH_MAX; i++) {
		struct base_packet *packet = world->list[i] = &world->packets[i];
		base_packet_reset(packet);
		packet->data = world->frame;
		packet->cap_len = packet->wire_len = FRAME;
		packet->protocol = BASE_PROTOCOL_TCP;
		packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
		packet->l3_offset = 14;
		packet->l4_offset = 34;
		packet->payload_offset = 54;
		packet->payload_len = (uint16_t)base_rng_below(&world->rng, 1461);
		packet->conn_flags = base_rng_below(&world->rng, 2) ? BASE_CONN_REPLY : 0;
	}
}

/* Every flow to its depth, run by run in turns, then its row. */
static struct cost measure(struct world *world, const struct task *task)
{
	const struct gpu_offload_identity identity = { .key = { .family = 4 } };
	uint64_t cycles = 0, since;
	memset(world->flows, 0, sizeof(world->flows));
	for (uint32_t at = 0; at < task->depth; at += task->run) {
		for (uint32_t i = 0; i < task->run; i++)
			world->packets[at + i].time_ns = world->time_ns +=
				1000 + base_rng_below(&world->rng, 1 << 20);
		since = base_cycles();
		for (unsigned int f = 0; f < FLOWS; f++)
			gpu_offload_flow_take(task->features, &world->flows[f].flow,
				&world->list[at], task->run, task->depth);
		cycles += base_cycles() - since;
	}
	since = base_cycles();
	for (unsigned int f = 0; f < FLOWS; f++)
		gpu_offload_flow_row(task->features, &world->flows[f].flow, &identity, world->row);
	uint64_t rows = base_cycles() - since;
	return (struct cost){ (double)cycles / (FLOWS * task->depth), (double)rows / FLOWS };
}

int main(int argc, char **argv)
{
	unsigned long repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 400;
	struct cost best[BASE_ARRAY_COUNT(tasks)];
	struct world *world = aligned_alloc(64, (sizeof(*world) + 63) / 64 * 64);
	BASE_ASSERT(world != NULL);
	memset(world, 0, sizeof(*world));
	init(world);
	for (unsigned long r = 0; r < repeats; r++) {
		for (size_t t = 0; t < BASE_ARRAY_COUNT(tasks); t++) {
			struct cost cost = measure(world, &tasks[t]);
			if (r == 0 || cost.packet < best[t].packet)
				best[t].packet = cost.packet;
			if (r == 0 || cost.row < best[t].row)
				best[t].row = cost.row;
		}
	}
	printf("%-8s %5s %4s %8s %8s %12s\n", "features", "depth", "run", "packet", "row",
		"with its row");
	for (size_t t = 0; t < BASE_ARRAY_COUNT(tasks) && repeats > 0; t++)
		printf("%-8s %5u %4u %8.1f %8.0f %12.1f\n",
			gpu_offload_features_name(tasks[t].features), tasks[t].depth, tasks[t].run,
			best[t].packet, best[t].row, best[t].packet + best[t].row / tasks[t].depth);
	free(world);
	return 0;
}
