/* SPDX-License-Identifier: BSD-2-Clause */
/* One fixed job per kind, for scripts/callgrind_budgets.py: the instruction count of the named
 * function, divided by the number printed, is held against a budget.
 *
 * Usage: base_callgrind udp|tcp|vlan|ip6|rawcut|generic|hash|siphash|remap */
#include "base/base.h"
#include "tests/support/packets.h"

#include <stdio.h>

enum { PACKETS = 64, ROUNDS = 50 };

static struct packets_spec spec_of(const char *kind, uint32_t i)
{
	bool rawcut = strcmp(kind, "rawcut") == 0, tcp = rawcut || strcmp(kind, "tcp") == 0;
	uint8_t protocol = tcp ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
	uint16_t port = (uint16_t)(1000 + i * 13);
	struct packets_spec spec = packets_ip4(protocol, 0x0a000000 + i * 77, port, 0x0a000900, 80);
	if (strcmp(kind, "ip6") == 0)
		spec = packets_ip6(protocol, 0x0a000000 + i * 77, port, 0x0a000900, 80);
	if (strcmp(kind, "vlan") == 0) {
		spec.tags_count = 1;
		spec.tags[0] = (struct packets_tag){ 0x8100, 5 };
	}
	if (rawcut)
		spec.link = BASE_LINK_RAW;
	if (strcmp(kind, "generic") == 0)
		spec.ip_options_len = 4;
	spec.payload_len = 86;
	return spec;
}

static void parse_rounds(const struct base_parse_config *config, struct base_burst *burst)
{
	struct base_parser *parser;
	BASE_ASSERT(base_parser_create(&parser, config) == 0);
	for (int round = 0; round < ROUNDS; round++)
		base_parse_burst(parser, burst, false);
	base_parser_destroy(parser);
}

static void hash_rounds(const struct base_hash_config *config, const struct base_burst *burst)
{
	uint32_t sum = 0;
	for (int round = 0; round < ROUNDS; round++)
		for (unsigned int i = 0; i < burst->count; i++)
			sum += base_flow_key_hash(&burst->packets[i]->key, config);
	fprintf(stderr, "%08x\n", sum); /* keeps the hashes from being optimised away */
}

static void remap_rounds(struct base_burst *burst)
{
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (unsigned int i = 0; i < burst->count; i++)
			base_remap_packet(burst->packets[i], round + 1);
}

int main(int argc, char **argv)
{
	static struct base_burst burst;
	const char *kind = argc == 2 ? argv[1] : "udp";
	struct base_parse_config config;
	struct packets_pool pool;
	base_parse_config_defaults(&config);
	packets_pool_init(&pool, PACKETS);
	burst.count = PACKETS;
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct packets_spec spec = spec_of(kind, i);
		burst.packets[i] = packets_pool_build(&pool, i, &spec, 0);
		if (strcmp(kind, "rawcut") == 0)
			burst.packets[i]->cap_len = 64;
	}
	parse_rounds(&config, &burst);
	if (strcmp(kind, "siphash") == 0)
		config.hash.kind = BASE_HASH_SIPHASH;
	if (strcmp(kind, "hash") == 0 || strcmp(kind, "siphash") == 0)
		hash_rounds(&config.hash, &burst);
	else if (strcmp(kind, "remap") == 0)
		remap_rounds(&burst);
	packets_pool_release(&pool);
	printf("operations: %d\n", PACKETS * ROUNDS);
	return 0;
}
