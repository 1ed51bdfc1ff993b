/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of any bytes through parser, tracker, nat and lb, in the burst implementation and in the
 * reference: no access beyond the captured bytes, and both leave the same bytes and drop reasons.
 *
 * Input: frames one after another. A frame is two bytes that say how many bytes were captured (low
 * 11 bits) and whether the wire carried more (bit 11), then link type and the bytes.
 */
#include "chain/chain.h"

#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAMES_MAX = 64, BURST = 8 };

struct world {
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker;
	struct chain *chain;
	struct base_packet *packets;
	uint32_t count;
};

static void world_open(struct world *world, bool scalar)
{
	struct base_parse_config parse;
	struct conntrack_config track;
	struct chain_config config = { .functions_count = 2, .scalar = scalar };
	char message[CHAIN_MESSAGE_SIZE];
	chain_function_config_defaults(&config.functions[0], CHAIN_NAT);
	config.functions[0].nat.port_last = 1024 + 7;
	chain_function_config_defaults(&config.functions[1], CHAIN_LB);
	config.functions[1].lb.backends_count = 2;
	config.functions[1].lb.table_size = 211;
	BASE_ASSERT(base_arena_create(&world->arena, false) == 0);
	base_parse_config_defaults(&parse);
	parse.fragments_max = 16;
	parse.zone_source = BASE_ZONE_VLAN;
	BASE_ASSERT(base_parser_create(&world->parser, &parse) == 0);
	config.arena = world->arena;
	config.hash = parse.hash;
	BASE_ASSERT(chain_create(&world->chain, &config, message) == 0);
	conntrack_config_defaults(&track);
	track.entries_max = 32;
	track.user_bytes = chain_user_bytes(world->chain);
	track.arena = world->arena;
	track.on_remove = chain_on_remove;
	track.on_remove_context = world->chain;
	BASE_ASSERT(conntrack_create(&world->tracker, &track) == 0);
	chain_attach(world->chain, world->tracker);
}

static void world_close(struct world *world)
{
	for (uint32_t i = 0; i < world->count; i++)
		free(world->packets[i].data);
	free(world->packets);
	conntrack_purge(world->tracker, NULL, NULL);
	conntrack_destroy(world->tracker);
	chain_destroy(world->chain);
	base_parser_destroy(world->parser);
	base_arena_destroy(world->arena);
}

static void make_packets(struct world *world, const uint8_t *data, size_t size)
{
	world->count = 0;
	world->packets = aligned_alloc(64, FRAMES_MAX * sizeof(*world->packets));
	BASE_ASSERT(world->packets != NULL);
	memset(world->packets, 0, FRAMES_MAX * sizeof(*world->packets));
	while (size > 3 && world->count < FRAMES_MAX) {
		struct base_packet *packet = &world->packets[world->count];
		uint32_t head = (uint32_t)data[0] << 8 | data[1];
		uint32_t cap_len = head & 0x7ff;
		if (cap_len > size - 3)
			cap_len = (uint32_t)size - 3;
		base_packet_reset(packet);
		packet->data = malloc(cap_len + (cap_len == 0));
		BASE_ASSERT(packet->data != NULL);
		memcpy(packet->data, data + 3, cap_len);
		packet->cap_len = cap_len;
		packet->wire_len = cap_len + ((head & 0x800) ? 1500 : 0);
		packet->link = data[2] % BASE_LINKS_COUNT;
		packet->time_ns = (uint64_t)(world->count + 1) * 1000000;
		data += 3 + cap_len;
		size -= 3 + cap_len;
		world->count++;
	}
}

static void compact(struct base_burst *burst)
{
	struct base_packet *dropped[BASE_BURST_MAX];
	if (burst->drop_count > 0)
		base_burst_compact(burst, dropped);
}

static void run(struct world *world)
{
	for (uint32_t at = 0; at < world->count; at += BURST) {
		struct base_burst burst = { 0 };
		while (burst.count < BURST && at + burst.count < world->count) {
			burst.packets[burst.count] = &world->packets[at + burst.count];
			burst.count++;
		}
		base_parse_burst(world->parser, &burst, false);
		compact(&burst);
		chain_translate_burst(world->chain, &burst, world->parser);
		compact(&burst);
		conntrack_process_burst(world->tracker, &burst);
		compact(&burst);
		for (uint32_t i = 0; i < 2; i++) {
			chain_function_process(world->chain, i, &burst, 0);
			compact(&burst);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world worlds[2];
	for (int scalar = 0; scalar < 2; scalar++) {
		world_open(&worlds[scalar], scalar);
		make_packets(&worlds[scalar], data, size);
		run(&worlds[scalar]);
	}
	for (uint32_t i = 0; i < worlds[0].count; i++) {
		const struct base_packet *a = &worlds[0].packets[i], *b = &worlds[1].packets[i];
		BASE_ASSERT(a->drop_reason == b->drop_reason);
		BASE_ASSERT(memcmp(a->data, b->data, a->cap_len) == 0);
	}
	world_close(&worlds[0]);
	world_close(&worlds[1]);
	return 0;
}
