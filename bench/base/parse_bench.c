/* SPDX-License-Identifier: BSD-2-Clause */
/* Cycles per packet of base_parse_burst and base_remap_packet, and cycles per key of the hashes,
 * all from cache: one burst over and over, best of many rounds (the rest is interruptions). */
#include "base/base.h"
#include "tests/support/packets.h"

#include <stdio.h>

enum { BURST = 64, ROUNDS = 20000 };

static bool is_tcp(const char *kind)
{
	return strcmp(kind, "tcp") == 0 || strcmp(kind, "cut") == 0 || strcmp(kind, "rawcut") == 0;
}

static void fill(struct packets_pool *pool, struct base_burst *burst, const char *kind)
{
	packets_pool_init(pool, BURST);
	burst->count = BURST;
	for (uint32_t i = 0; i < BURST; i++) {
		uint8_t protocol = is_tcp(kind) ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
		struct packets_spec spec = packets_ip4(
			protocol, 0x0a000000 + i * 77, (uint16_t)(1000 + i), 0x0b000001, 80);
		if (strcmp(kind, "ip6") == 0)
			spec = packets_ip6(protocol, i * 77, (uint16_t)(1000 + i), 1, 80);
		if (strcmp(kind, "vlan") == 0) {
			spec.tags_count = 1;
			spec.tags[0] = (struct packets_tag){ 0x8100, 5 };
		}
		spec.payload_len = 128 - 42;
		if (strncmp(kind, "raw", 3) == 0)
			spec.link = BASE_LINK_RAW;
		burst->packets[i] = packets_pool_build(pool, i, &spec, 0);
		if (strcmp(kind, "cut") == 0 || strcmp(kind, "rawcut") == 0)
			burst->packets[i]->cap_len = 64;
	}
}

static void bench_parse(const char *kind, enum base_hash_kind hash)
{
	static struct base_burst burst;
	struct packets_pool pool;
	struct base_parser *parser;
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.hash.kind = hash;
	config.hash.salt[0] = 42;
	BASE_ASSERT(base_parser_create(&parser, &config) == 0);
	fill(&pool, &burst, kind);
	uint64_t best = UINT64_MAX;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = base_cycles();
		base_parse_burst(parser, &burst, false);
		uint64_t cycles = base_cycles() - start;
		best = cycles < best ? cycles : best;
	}
	printf("parse %-6s %-8s %6.1f cycles/packet\n", kind,
		hash == BASE_HASH_CRC32C ? "crc32c" : "siphash", (double)best / BURST);
	packets_pool_release(&pool);
	base_parser_destroy(parser);
}

/* Protocols and directions in no order that a predictor could learn: many bursts in turn. */
static void bench_parse_mixed(void)
{
	enum { BURSTS = 64 };
	static struct base_burst bursts[BURSTS];
	struct packets_pool pool;
	struct base_parser *parser;
	struct base_parse_config config;
	struct base_rng rng;
	uint64_t best[BURSTS], sum = 0;
	base_parse_config_defaults(&config);
	BASE_ASSERT(base_parser_create(&parser, &config) == 0);
	packets_pool_init(&pool, BURSTS * BURST);
	base_rng_seed(&rng, 1);
	for (uint32_t i = 0; i < BURSTS * BURST; i++) {
		uint64_t random = base_rng_u64(&rng);
		struct packets_spec spec =
			packets_ip4((random & 1) != 0 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP,
				(uint32_t)(random >> 32), 1000, 0x80000000, 80);
		spec.payload_len = 22;
		bursts[i / BURST].packets[i % BURST] = packets_pool_build(&pool, i, &spec, 0);
		bursts[i / BURST].count = BURST;
		best[i / BURST] = UINT64_MAX;
	}
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = base_cycles();
		base_parse_burst(parser, &bursts[round % BURSTS], false);
		uint64_t cycles = base_cycles() - start;
		best[round % BURSTS] =
			cycles < best[round % BURSTS] ? cycles : best[round % BURSTS];
	}
	for (int i = 0; i < BURSTS; i++)
		sum += best[i];
	printf("parse mixed  crc32c   %6.1f cycles/packet\n", (double)sum / (BURST * BURSTS));
	packets_pool_release(&pool);
	base_parser_destroy(parser);
}

static void bench_hash(enum base_hash_kind kind)
{
	static struct base_flow_key keys[BURST];
	struct base_hash_config config = { .kind = kind, .salt = { 1, 2 } };
	struct base_rng rng;
	base_rng_seed(&rng, 1);
	for (int i = 0; i < BURST; i++)
		for (int w = 0; w < 5; w++)
			memcpy((uint8_t *)&keys[i] + w * 8, &(uint64_t){ base_rng_u64(&rng) }, 8);
	uint64_t best = UINT64_MAX;
	uint32_t sum = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = base_cycles();
		for (int i = 0; i < BURST; i++)
			sum += base_flow_key_hash(&keys[i], &config);
		uint64_t cycles = base_cycles() - start;
		best = cycles < best ? cycles : best;
	}
	printf("hash  %-14s %6.1f cycles/key (%08x)\n",
		kind == BASE_HASH_CRC32C ? "crc32c" : "siphash", (double)best / BURST, sum);
}

static void bench_remap(void)
{
	static struct base_burst burst;
	struct packets_pool pool;
	struct base_parser *parser;
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	BASE_ASSERT(base_parser_create(&parser, &config) == 0);
	fill(&pool, &burst, "udp");
	base_parse_burst(parser, &burst, false);
	uint64_t best = UINT64_MAX;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t start = base_cycles();
		for (unsigned int i = 0; i < BURST; i++)
			base_remap_packet(burst.packets[i], round + 1);
		uint64_t cycles = base_cycles() - start;
		best = cycles < best ? cycles : best;
	}
	printf("remap udp            %6.1f cycles/packet\n", (double)best / BURST);
	packets_pool_release(&pool);
	base_parser_destroy(parser);
}

int main(void)
{
	bench_parse("udp", BASE_HASH_CRC32C);
	bench_parse("tcp", BASE_HASH_CRC32C);
	bench_parse("vlan", BASE_HASH_CRC32C);
	bench_parse("ip6", BASE_HASH_CRC32C);
	bench_parse("cut", BASE_HASH_CRC32C);
	bench_parse("raw", BASE_HASH_CRC32C);
	bench_parse("rawcut", BASE_HASH_CRC32C);
	bench_parse_mixed();
	bench_parse("udp", BASE_HASH_SIPHASH);
	bench_remap();
	bench_hash(BASE_HASH_CRC32C);
	bench_hash(BASE_HASH_SIPHASH);
	return 0;
}
