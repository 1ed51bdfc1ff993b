/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fixed amount of traffic for scripts/callgrind_budgets.py: flows in turn, run_length packets
 * from each, at 10 Mpps and the default delay bound.
 *
 *	reframer_callgrind run_length
 */
#include "base/rng.h"
#include "reframer/reframer.h"

#include <stdio.h>
#include <string.h>

enum { BURST = 32, BURSTS = 2000, FLOWS = 4096, POOL = 2048, GAP_NS = 100 };

static struct base_packet packets[POOL];
static struct base_packet *unused[POOL];
static unsigned int unused_count;

static void fill(struct base_packet *packet, uint32_t number, uint32_t run_length)
{
	uint32_t flow = number / run_length % FLOWS;
	uint64_t seed = flow;
	memset(packet, 0, sizeof(*packet));
	packet->time_ns = (uint64_t)number * GAP_NS;
	packet->flags = BASE_PACKET_FLOW;
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->tcp_flags = BASE_TCP_ACK;
	packet->hash = (uint32_t)base_rng_splitmix64(&seed);
	packet->key.family = 4;
	memcpy(packet->key.address[0], &flow, sizeof(flow));
}

static void pop_all(struct reframer *reframer)
{
	struct base_burst out;
	while (reframer_pop_burst(reframer, &out, BURST) != 0) {
		for (unsigned int i = 0; i < out.count; i++)
			unused[unused_count++] = out.packets[i];
	}
}

int main(int argc, char **argv)
{
	uint32_t run_length = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1, number = 0;
	struct reframer_config config;
	struct reframer *reframer;
	reframer_config_defaults(&config);
	if (run_length == 0 || base_arena_create(&config.arena, false) != 0 ||
		reframer_create(&reframer, &config) != 0)
		return 1;
	while (unused_count < POOL) {
		unused[unused_count] = &packets[unused_count];
		unused_count++;
	}
	for (unsigned int i = 0; i < BURSTS; i++) {
		struct base_packet *burst[BURST];
		for (unsigned int j = 0; j < BURST; j++) {
			burst[j] = unused[--unused_count];
			fill(burst[j], number++, run_length);
		}
		reframer_push_burst(reframer, burst, BURST);
		pop_all(reframer);
	}
	reframer_flush(reframer);
	pop_all(reframer);
	reframer_destroy(reframer);
	base_arena_destroy(config.arena);
	printf("operations: %u\n", number);
	return 0;
}
