/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nat and lb on hostile traffic: fragments, VLAN tags, IPv4 options, cut captures, spoiled bytes,
 * ICMP errors, packets to the external address. Every mode leaves the bytes, drop reasons, counters
 * and digests of the plain reference, and no packet's checksums get better or worse.
 */
#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { PACKETS_COUNT = 5000, FLOWS_COUNT = 200, ROUNDS_COUNT = 8 };

struct mode {
	const char *name;
	bool scalar, no_runs, no_prefetch;
	unsigned int burst;
};

static const struct mode modes[] = {
	{ "reference", true, true, true, 1 },
	{ "scalar", true, false, false, 32 },
	{ "burst 1", false, false, false, 1 },
	{ "burst 32", false, false, false, 32 },
	{ "burst 256", false, false, false, 256 },
	{ "no runs", false, true, false, 64 },
	{ "no prefetch", false, false, true, 64 },
};

struct outcome {
	struct packets_pool pool;
	struct chain_function_stats stats[CHAIN_FUNCTIONS_MAX];
	uint64_t digest;
};

static uint64_t seed_of_run(void)
{
	const char *text = getenv("SHEAF_TEST_SEED");
	return text != NULL ? strtoull(text, NULL, 0) : 1;
}

static void make_config(struct chain_config *config, uint64_t round)
{
	static const enum chain_kind orders[4][3] = {
		{ CHAIN_NAT, CHAIN_LB, CHAIN_STATS },
		{ CHAIN_LB, CHAIN_NAT, CHAIN_LB },
		{ CHAIN_STATS, CHAIN_LB, CHAIN_STATS },
		{ CHAIN_STATS, CHAIN_STATS, CHAIN_NAT },
	};
	memset(config, 0, sizeof(*config));
	config->functions_count = 3;
	for (unsigned int i = 0; i < 3; i++) {
		struct chain_function_config *function = &config->functions[i];
		chain_function_config_defaults(function, orders[round % 4][i]);
		if (function->kind == CHAIN_LB) {
			function->lb.table_size = 1609;
			function->lb.seed = round;
		} else if (function->kind == CHAIN_NAT && round >= 4) {
			/* Far too few. */
			function->nat.port_first = 5000;
			function->nat.port_last = 5019;
			function->nat.addresses_count = 2;
		}
	}
}

static void tag(uint8_t *frame, size_t *len)
{
	memmove(frame + 16, frame + 12, *len - 12);
	frame[12] = 0x81;
	frame[13] = 0;
	frame[14] = 0;
	frame[15] = 7;
	*len += 4;
}

static size_t build_odd(uint8_t *frame, size_t size, struct base_rng *rng, bool live)
{
	bool ip6 = base_rng_below(rng, 3) == 0;
	uint8_t protocol = base_rng_below(rng, 2) ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP;
	uint32_t host = (uint32_t)base_rng_below(rng, 8);
	uint16_t port = (uint16_t)(5000 + base_rng_below(rng, 8));
	struct packets_spec spec =
		ip6 ? packets_ip6(protocol, host, port, 100, 80)
		    : packets_ip4(protocol, 0x0a000000 + host, port, 0x08080808, 80);
	spec.ip_id = (uint16_t)base_rng_below(rng, 4);
	spec.payload_len = 64;
	spec.udp_no_checksum = base_rng_below(rng, 3) == 0;
	switch (base_rng_below(rng, 4)) {
	case 0:
		spec.ip_options_len = ip6 ? 0 : 8;
		return packets_build(frame, size, &spec);
	case 1: { /* perhaps to the external address */
		static const uint8_t outside[4] = { 192, 0, 2, 1 };
		struct packets_spec back = packets_reverse(&spec);
		if (!ip6 && live)
			memcpy(back.destination, outside, 4);
		return packets_build(frame, size, &back);
	}
	default:
		return packets_build_fragment(
			frame, size, &spec, (uint16_t)(24 * base_rng_below(rng, 2)), 24);
	}
}

/* Turn some of a pool's packets into harder ones. */
static void harden(struct packets_pool *pool, uint64_t seed, bool live)
{
	struct base_rng rng;
	uint8_t frame[4096];
	base_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < pool->count; i++) {
		const struct base_packet *packet = &pool->packets[i];
		size_t len = packet->cap_len;
		uint64_t time_ns = packet->time_ns;
		memcpy(frame, packet->data, len);
		uint64_t draw = base_rng_below(&rng, 16);
		if (draw < 2)
			len = build_odd(frame, sizeof(frame), &rng, live);
		if (draw == 2 || draw == 0)
			tag(frame, &len);
		if (draw == 3)
			frame[14 + base_rng_below(&rng, len - 14)] ^=
				(uint8_t)(1 << base_rng_below(&rng, 8));
		size_t cap_len = draw == 4 ? 14 + base_rng_below(&rng, len - 14) : len;
		packets_pool_set(pool, i, BASE_LINK_ETHERNET, frame, cap_len, len, time_ns);
	}
}

static void make_traffic(struct packets_pool *pool, uint64_t seed, bool reopen)
{
	const struct chain_traffic_config traffic = {
		.seed = seed,
		.packets_count = PACKETS_COUNT,
		.flows_count = FLOWS_COUNT,
		.icmp_errors = true,
		.close_reopen = reopen,
	};
	chain_traffic_make(pool, &traffic);
	harden(pool, ~seed, reopen);
}

static void run_mode(struct outcome *outcome, const struct mode *mode, uint64_t seed,
	uint64_t round, bool reopen)
{
	struct chain_config config;
	struct chain_world world;
	make_config(&config, round);
	config.scalar = mode->scalar;
	config.no_runs = mode->no_runs;
	config.no_prefetch = mode->no_prefetch;
	if (chain_world_open(&world, &config, round == 7 ? 100 : 4096) != 0)
		fail_msg("%s", world.message);
	make_traffic(&outcome->pool, seed + round, reopen);
	chain_world_run(&world, outcome->pool.packets, PACKETS_COUNT, mode->burst);
	chain_world_finish(&world);
	outcome->digest = chain_flow_digest(world.chain);
	for (uint32_t i = 0; i < config.functions_count; i++)
		chain_function_stats(world.chain, i, &outcome->stats[i]);
	chain_world_close(&world);
}

static void compare_stats(const struct chain_function_stats *a,
	const struct chain_function_stats *b, const char *mode)
{
	if (a->in != b->in || a->out != b->out || memcmp(a->drops, b->drops, sizeof(a->drops)) != 0)
		fail_msg("%s: %s: in, out or drops differ", mode, a->name);
	assert_int_equal(a->counters_count, b->counters_count);
	for (uint32_t i = 0; i < a->counters_count; i++) {
		if (a->counters[i].value != b->counters[i].value)
			fail_msg("%s: %s: %s is %llu, expected %llu", mode, a->name,
				a->counters[i].name, (unsigned long long)b->counters[i].value,
				(unsigned long long)a->counters[i].value);
	}
}

static void compare(const struct outcome *expected, const struct outcome *got, const char *mode)
{
	for (uint32_t i = 0; i < PACKETS_COUNT; i++) {
		const struct base_packet *a = &expected->pool.packets[i];
		const struct base_packet *b = &got->pool.packets[i];
		if (a->drop_reason != b->drop_reason)
			fail_msg("%s: packet %u: %s, expected %s", mode, i,
				base_drop_name(b->drop_reason), base_drop_name(a->drop_reason));
		if (a->cap_len != b->cap_len || memcmp(a->data, b->data, a->cap_len) != 0)
			fail_msg("%s: packet %u: bytes differ", mode, i);
	}
	for (uint32_t i = 0; i < 3; i++)
		compare_stats(&expected->stats[i], &got->stats[i], mode);
	if (expected->digest != got->digest)
		fail_msg("%s: flow digests differ", mode);
}

static bool is_whole_datagram(const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_FLOW) != 0 &&
	       (packet->flags & BASE_PACKET_FRAGMENT) == 0 && packet->cap_len == packet->wire_len;
}

static bool valid(const uint8_t *frame, const struct base_packet *packet)
{
	return packets_checksums_valid(
		frame + packet->l3_offset, packet->cap_len - packet->l3_offset);
}

/* Returns how many packets were changed and had right checksums to lose. */
static unsigned int check_checksums(const struct outcome *outcome, uint64_t seed, bool reopen)
{
	struct packets_pool before;
	unsigned int changed = 0;
	make_traffic(&before, seed, reopen);
	for (uint32_t i = 0; i < PACKETS_COUNT; i++) {
		const struct base_packet *packet = &outcome->pool.packets[i];
		const uint8_t *frame = before.packets[i].data;
		if (!is_whole_datagram(packet))
			continue;
		bool right = valid(frame, packet);
		if (valid(packet->data, packet) != right)
			fail_msg("packet %u: checksums were %s and are not any more", i,
				right ? "right" : "wrong");
		changed += right && memcmp(frame, packet->data, packet->cap_len) != 0;
	}
	packets_pool_release(&before);
	return changed;
}

static void all_modes_give_the_results_of_the_plain_reference(void **state)
{
	uint64_t seed = seed_of_run();
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (uint64_t round = 0; round < ROUNDS_COUNT; round++) {
		struct outcome expected = { 0 };
		run_mode(&expected, &modes[0], seed, round, false);
		assert_true(expected.digest != 0);
		/* A full pool or table leaves few. */
		assert_true(check_checksums(&expected, seed + round, false) > PACKETS_COUNT / 50);
		for (unsigned int m = 1; m < BASE_ARRAY_COUNT(modes); m++) {
			struct outcome got = { 0 };
			run_mode(&got, &modes[m], seed, round, false);
			compare(&expected, &got, modes[m].name);
			packets_pool_release(&got.pool);
		}
		packets_pool_release(&expected.pool);
	}
}

/* Tuples are used again and answers come to the external address, so a burst's size may tell (an
 * answer is let in from the next burst on): bursts are alike here. */
static void reopened_connections_are_alike_in_both_implementations(void **state)
{
	static const struct mode pair[2] = {
		{ "scalar", true, false, false, 32 },
		{ "burst", false, false, false, 32 },
	};
	uint64_t seed = seed_of_run() + 1000;
	(void)state;
	for (uint64_t round = 0; round < ROUNDS_COUNT; round++) {
		struct outcome outcomes[2] = { 0 };
		for (unsigned int m = 0; m < 2; m++)
			run_mode(&outcomes[m], &pair[m], seed, round, true);
		compare(&outcomes[0], &outcomes[1], pair[1].name);
		check_checksums(&outcomes[0], seed + round, true);
		for (unsigned int m = 0; m < 2; m++)
			packets_pool_release(&outcomes[m].pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_modes_give_the_results_of_the_plain_reference),
		cmocka_unit_test(reopened_connections_are_alike_in_both_implementations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
