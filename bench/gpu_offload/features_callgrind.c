/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fixed number of packets for scripts/callgrind_budgets.py.
 *
 *	features_callgrind take FEATURES DEPTH RUN_LENGTH    operations are packets
 *	features_callgrind row FEATURES DEPTH                operations are rows
 *
 * Every flow is taken to its depth, run by run.
 */
#include "base/rng.h"
#include "gpu_offload/flow_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOWS = 256, ROUNDS = 8, FRAME = 512 };

static struct base_packet packets[GPU_OFFLOAD_DEPTH_MAX];
static struct base_packet *list[GPU_OFFLOAD_DEPTH_MAX];
static uint8_t frame[FRAME];
static union {
	struct gpu_offload_flow flow;
	uint8_t bytes[2048];
} flows[FLOWS];
static float row[GPU_OFFLOAD_IMG_INPUTS];

static void fill(struct base_packet *packet, struct base_rng *rng)
{
	base_packet_reset(packet);
	packet->data = frame;
	packet->cap_len = packet->wire_len = FRAME;
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	packet->l3_offset = 14;
	packet->l4_offset = 34;
	packet->payload_offset = 54;
	packet->payload_len = (uint16_t)base_rng_below(rng, 1461);
	packet->tcp_flags = BASE_TCP_ACK;
	packet->conn_flags = base_rng_below(rng, 2) ? BASE_CONN_REPLY : 0;
}

int main(int argc, char **argv)
{
	enum gpu_offload_features features;
	const struct gpu_offload_identity identity = { .key = { .family = 4 } };
	struct base_rng rng;
	uint64_t time_ns = 0, taken = 0, rows = 0;
	if (argc < 4 || gpu_offload_features_from_name(argv[2], &features) != 0)
		return 1;
	bool wants_rows = strcmp(argv[1], "row") == 0;
	uint32_t depth = (uint32_t)strtoul(argv[3], NULL, 10);
	uint32_t run = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
	if (depth == 0 || depth > gpu_offload_features_depth_max(features) || run == 0)
		return 1;
	base_rng_seed(&rng, 1);
	for (uint32_t i = 0; i < GPU_OFFLOAD_DEPTH_MAX; i++) {
		fill(&packets[i], &rng);
		list[i] = &packets[i];
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		memset(flows, 0, sizeof(flows));
		for (uint32_t at = 0; at < depth; at += run) {
			uint32_t count = run < depth - at ? run : depth - at;
			for (unsigned int f = 0; f < FLOWS; f++) {
				for (uint32_t i = 0; i < count; i++)
					packets[at + i].time_ns = time_ns +=
						1000 + base_rng_below(&rng, 1 << 20);
				gpu_offload_flow_take(
					features, &flows[f].flow, &list[at], count, depth);
				taken += count;
			}
		}
		for (unsigned int f = 0; f < FLOWS && wants_rows; f++, rows++)
			gpu_offload_flow_row(features, &flows[f].flow, &identity, row);
	}
	printf("operations: %lu\n", (unsigned long)(wants_rows ? rows : taken));
	return 0;
}
