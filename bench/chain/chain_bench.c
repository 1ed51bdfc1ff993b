/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What chain functions cost: cycles (TSC) per packet of chain_function_process alone, for one
 * function at a time and for all of them, with runs of 1 and 16 packets, burst and scalar.
 *
 * Frames of 128 bytes are written just before each burst, outside the timed part, as a source would
 * leave them: in cache. Parsing, translation and tracking are not timed. Every flow has been seen
 * before (what a first packet costs is in the bench of the whole path). Best and median of the
 * repeats.
 *
 *	chain_bench [flows] [repeats] [burst]
 *
 * DPDK's tables lie on ordinary pages here.
 */
#include "base/cycles.h"
#include "tests/support/chain_world.h"
#include "tests/support/eal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	FRAME_SIZE = 128,
	PACKETS_PER_REPEAT = 1 << 18,
	REPEATS_MAX = 101,
	IP_OFFSET = 14,
};

struct setup {
	uint32_t flows;
	unsigned int repeats, burst;
};

struct frames {
	uint8_t template[FRAME_SIZE];
	uint8_t bytes[BASE_BURST_MAX][FRAME_SIZE];
	struct base_packet packets[BASE_BURST_MAX];
	uint32_t flow, in_run, run_length, flows;
	uint64_t time_ns;
};

static void init_frames(struct frames *frames, uint32_t flows, uint32_t run_length)
{
	struct packets_spec spec =
		packets_ip4(BASE_PROTOCOL_UDP, 0x0a000000, 1024, 0x08080808, 443);
	memset(frames, 0, sizeof(*frames));
	spec.payload_len = FRAME_SIZE - 42;
	packets_build(frames->template, FRAME_SIZE, &spec);
	frames->flows = flows;
	frames->run_length = run_length;
	frames->time_ns = 1000000000;
}

/* Round robin over the flows, run_length packets from each. */
static void next_frame(struct frames *frames, unsigned int index)
{
	uint8_t *bytes = frames->bytes[index];
	struct base_packet *packet = &frames->packets[index];
	memcpy(bytes, frames->template, FRAME_SIZE);
	uint32_t source = 0x0a000000 + frames->flow;
	uint32_t destination = frames->flow * 2654435761u;
	uint32_t words[2] = { __builtin_bswap32(source),
		__builtin_bswap32((destination >> 1) | 0x20000000) };
	memcpy(bytes + IP_OFFSET + 12, words, sizeof(words));
	if (++frames->in_run == frames->run_length) {
		frames->in_run = 0;
		frames->flow = frames->flow + 1 == frames->flows ? 0 : frames->flow + 1;
	}
	base_packet_reset(packet);
	packet->data = bytes;
	packet->time_ns = frames->time_ns;
	packet->cap_len = FRAME_SIZE;
	packet->wire_len = FRAME_SIZE;
	packet->link = BASE_LINK_ETHERNET;
	frames->time_ns += 100;
}

static uint64_t run_burst(struct chain_world *world, struct frames *frames, unsigned int count)
{
	struct base_burst burst = { .count = (uint16_t)count };
	struct base_packet *dropped[BASE_BURST_MAX];
	for (unsigned int i = 0; i < count; i++) {
		next_frame(frames, i);
		burst.packets[i] = &frames->packets[i];
	}
	base_parse_burst(world->parser, &burst, world->no_runs);
	chain_translate_burst(world->chain, &burst, world->parser);
	conntrack_process_burst(world->tracker, &burst);
	if (burst.drop_count > 0)
		base_burst_compact(&burst, dropped);
	uint64_t begin = base_cycles();
	for (uint32_t i = 0; i < chain_functions_count(world->chain); i++) {
		chain_function_process(world->chain, i, &burst, frames->time_ns);
		if (burst.drop_count > 0)
			base_burst_compact(&burst, dropped);
	}
	return base_cycles() - begin;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const struct setup *setup, const struct chain_config *config, const char *name,
	uint32_t run_length)
{
	struct chain_world world;
	double cycles[REPEATS_MAX];
	struct frames *frames = aligned_alloc(64, sizeof(*frames));
	BASE_ASSERT(frames != NULL);
	if (chain_world_open(&world, config, setup->flows + setup->flows / 4) != 0) {
		printf("%-9s not measured: %s\n", name, world.message);
		free(frames);
		return;
	}
	init_frames(frames, setup->flows, run_length);
	for (uint64_t done = 0; done < (uint64_t)setup->flows * run_length; done += setup->burst)
		run_burst(&world, frames, setup->burst);
	for (unsigned int r = 0; r < setup->repeats; r++) {
		uint64_t sum = 0, packets = 0;
		for (; packets < PACKETS_PER_REPEAT; packets += setup->burst)
			sum += run_burst(&world, frames, setup->burst);
		cycles[r] = (double)sum / (double)packets;
	}
	qsort(cycles, setup->repeats, sizeof(*cycles), compare_doubles);
	printf("%-9s %-7s %10u %8.1f %8.1f\n", name, config->scalar ? "scalar" : "burst",
		run_length, cycles[0], cycles[setup->repeats / 2]);
	fflush(stdout);
	chain_world_close(&world);
	free(frames);
}

static void measure_modes(const struct setup *setup, const enum chain_kind *kinds,
	unsigned int count, const char *name)
{
	static const uint32_t run_lengths[] = { 1, 16 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(run_lengths); i++) {
		for (int scalar = 0; scalar < 2; scalar++) {
			struct chain_config config = { .functions_count = count, .scalar = scalar };
			for (unsigned int k = 0; k < count; k++)
				chain_function_config_defaults(&config.functions[k], kinds[k]);
			for (unsigned int k = 0; k < count; k++) {
				if (kinds[k] == CHAIN_NAT)
					config.functions[k].nat.addresses_count = 16;
			}
			measure(setup, &config, name, run_lengths[i]);
		}
	}
}

static uint32_t argument(int argc, char **argv, int index, uint32_t value, uint32_t max)
{
	unsigned long given = argc > index ? strtoul(argv[index], NULL, 10) : value;
	return given >= 1 && given <= max ? (uint32_t)given : value;
}

int main(int argc, char **argv)
{
	static const enum chain_kind all[] = { CHAIN_STATS, CHAIN_ROUTER, CHAIN_FIREWALL, CHAIN_NAT,
		CHAIN_LB };
	const struct setup setup = {
		.flows = argument(argc, argv, 1, 65536, 1 << 22),
		.repeats = argument(argc, argv, 2, 5, REPEATS_MAX),
		.burst = argument(argc, argv, 3, 32, BASE_BURST_MAX),
	};
	support_eal_init();
	printf("%u flows, bursts of %u, %u repeats of %d packets; cycles per packet\n", setup.flows,
		setup.burst, setup.repeats, PACKETS_PER_REPEAT);
	printf("%-9s %-7s %10s %8s %8s\n", "function", "mode", "run length", "best", "median");
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(all); i++)
		measure_modes(&setup, &all[i], 1, chain_kind_name(all[i]));
	measure_modes(&setup, all, BASE_ARRAY_COUNT(all), "all five");
	return 0;
}
