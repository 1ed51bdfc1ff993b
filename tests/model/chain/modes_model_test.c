/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One input, every mode: whatever the switches and the burst size, the chain leaves the same bytes,
 * next hops, drop reasons, counters and flow digests as its plain reference, packet by packet.
 */
#include "tests/support/chain_world.h"
#include "tests/support/eal.h"
#include "tests/unit/chain/test.h"

#include <stdio.h>
#include <stdlib.h>

#define LB_START_NS UINT64_C(1000000000)

enum {
	PACKETS_COUNT = 6000,
	FLOWS_COUNT = 150,
	ROUNDS_COUNT = 6,
	ORDERS_COUNT = 3,
	FUNCTIONS_COUNT = 5,
	EXPIRY_ROUND = 4, /* connections run into their timeouts */
};

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

/* Every policy but least connections, whose counts fall when a burst is over; backends that go,
 * drain and come back on the way. */
static void make_lb(struct chain_lb_config *lb, uint64_t round)
{
	static const enum chain_lb_policy policies[] = { CHAIN_LB_MAGLEV, CHAIN_LB_JET,
		CHAIN_LB_STATELESS, CHAIN_LB_ROUND_ROBIN };
	static const struct chain_lb_change changes[] = {
		{ LB_START_NS + 300000, CHAIN_LB_REMOVE, "ip4_0001" },
		{ LB_START_NS + 300000, CHAIN_LB_DRAIN, "ip4_0002" },
		{ LB_START_NS + 600000, CHAIN_LB_REMOVE, "ip6_0003" },
		{ LB_START_NS + 900000, CHAIN_LB_ADD, "ip4_0001" },
		{ LB_START_NS + 1200000, CHAIN_LB_ADD, "ip6_0003" },
	};
	lb->policy = policies[round % BASE_ARRAY_COUNT(policies)];
	lb->changes = changes;
	lb->changes_count = round == 0 ? 0 : BASE_ARRAY_COUNT(changes);
}

static void make_config(struct chain_config *config, uint64_t round)
{
	static const enum chain_kind orders[ORDERS_COUNT][FUNCTIONS_COUNT] = {
		{ CHAIN_STATS, CHAIN_ROUTER, CHAIN_FIREWALL, CHAIN_NAT, CHAIN_LB },
		{ CHAIN_FIREWALL, CHAIN_STATS, CHAIN_LB, CHAIN_ROUTER, CHAIN_NAT },
		{ CHAIN_LB, CHAIN_NAT, CHAIN_ROUTER, CHAIN_FIREWALL, CHAIN_STATS },
	};
	memset(config, 0, sizeof(*config));
	config->functions_count = FUNCTIONS_COUNT;
	/* An expired connection gives its port back when its burst is over: which ports are free
	 * depends on where bursts end. That order has nat last. */
	if (round == EXPIRY_ROUND)
		config->functions_count--;
	for (unsigned int i = 0; i < config->functions_count; i++) {
		struct chain_function_config *function = &config->functions[i];
		chain_function_config_defaults(function, orders[round % ORDERS_COUNT][i]);
		if (function->kind == CHAIN_ROUTER) {
			function->router.routes_file = CHAIN_TEST_ROUTES;
			function->router.default_route = round % 2 == 0;
		} else if (function->kind == CHAIN_FIREWALL) {
			function->firewall.rules_file = CHAIN_TEST_RULES;
			function->firewall.per_packet = round >= 3;
		} else if (function->kind == CHAIN_LB) {
			make_lb(&function->lb, round);
		}
	}
}

static void run_mode(struct outcome *outcome, const struct mode *mode, uint64_t seed,
	uint64_t round, uint16_t instance)
{
	struct chain_config config;
	struct chain_world world;
	const struct chain_traffic_config traffic = {
		.seed = seed + round,
		.packets_count = PACKETS_COUNT,
		.flows_count = FLOWS_COUNT,
		.ttl_ends = true,
		.icmp_errors = true,
		.close_reopen = true,
		.gap_ns = round == EXPIRY_ROUND ? 1000000000 : 1000,
	};
	make_config(&config, round);
	config.scalar = mode->scalar;
	config.no_runs = mode->no_runs;
	config.no_prefetch = mode->no_prefetch;
	config.instance = instance;
	if (chain_world_open(&world, &config, round == 5 ? 100 : 4096) != 0)
		fail_msg("%s", world.message);
	chain_traffic_make(&outcome->pool, &traffic);
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
		if (a->next_hop != b->next_hop || a->cap_len != b->cap_len ||
			memcmp(a->data, b->data, a->cap_len) != 0)
			fail_msg("%s: packet %u: bytes or next hop differ", mode, i);
	}
	for (uint32_t i = 0; i < CHAIN_FUNCTIONS_MAX && expected->stats[i].name != NULL; i++)
		compare_stats(&expected->stats[i], &got->stats[i], mode);
	if (expected->digest != got->digest)
		fail_msg("%s: flow digests differ", mode);
}

static void all_modes_give_the_results_of_the_plain_reference(void **state)
{
	uint64_t seed = seed_of_run();
	uint16_t instance = 0;
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (uint64_t round = 0; round < ROUNDS_COUNT; round++) {
		struct outcome expected = { 0 };
		run_mode(&expected, &modes[0], seed, round, instance++);
		assert_true(expected.digest != 0);
		for (unsigned int m = 1; m < BASE_ARRAY_COUNT(modes); m++) {
			struct outcome got = { 0 };
			run_mode(&got, &modes[m], seed, round, instance++);
			compare(&expected, &got, modes[m].name);
			packets_pool_release(&got.pool);
		}
		packets_pool_release(&expected.pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_modes_give_the_results_of_the_plain_reference),
	};
	support_eal_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
