/* SPDX-License-Identifier: BSD-2-Clause */
/* Random nested routes, random destinations near them: the tables answer as a linear scan does. */
#include "chain/routes.h"
#include "tests/support/chain_world.h"
#include "tests/support/eal.h"
#include "tests/unit/chain/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS_COUNT = 8, PACKETS_COUNT = 4000, ROUTES_COUNT = 300 };

/* Few distinct bytes, so that prefixes nest and repeat. */
static void random_address(uint8_t *address, uint8_t family, struct base_rng *rng)
{
	static const uint8_t bytes[4] = { 0, 1, 128, 255 };
	unsigned int size = family == 4 ? 4 : 16;
	memset(address, 0, 16);
	for (unsigned int i = 1; i < size; i++)
		address[i] = bytes[base_rng_below(rng, 4)];
	address[0] = family == 4 ? 10 : 0x20;
}

static void random_route(struct chain_route *route, struct base_rng *rng)
{
	struct chain_prefix *prefix = &route->prefix;
	memset(route, 0, sizeof(*route));
	prefix->family = base_rng_below(rng, 2) ? 4 : 6;
	random_address(prefix->address, prefix->family, rng);
	/* Short ones more often: long ones hardly ever match. */
	uint64_t bits = base_rng_below(rng, prefix->family == 4 ? 33 : 129);
	if (base_rng_below(rng, 2))
		bits = base_rng_below(rng, bits + 1);
	prefix->length = (uint8_t)bits;
	chain_prefix_mask(prefix);
	route->next_hop = (uint16_t)base_rng_below(rng, UINT16_MAX + 1);
}

static void write_routes(const struct chain_routes *routes, char *path)
{
	strcpy(path, "/tmp/sheaf-routes-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	FILE *file = fdopen(fd, "w");
	assert_non_null(file);
	assert_int_equal(chain_routes_write(routes, file), 0);
	fclose(file);
}

static void fill_packets(
	struct packets_pool *pool, const struct chain_routes *routes, struct base_rng *rng)
{
	struct packets_spec spec = { 0 };
	packets_pool_init(pool, PACKETS_COUNT);
	for (uint32_t i = 0; i < PACKETS_COUNT; i++) {
		if (i == 0 || base_rng_below(rng, 3) != 0) {
			spec = base_rng_below(rng, 2) ? packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4)
						      : packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
			random_address(spec.destination, spec.family, rng);
			const struct chain_prefix *prefix =
				&routes->list[base_rng_below(rng, routes->count)].prefix;
			if (prefix->family == spec.family)
				memcpy(spec.destination, prefix->address, prefix->length / 8);
			spec.source_port = (uint16_t)base_rng_below(rng, 1000);
		}
		packets_pool_build(pool, i, &spec, 1000 + i);
	}
}

static void check(const struct packets_pool *pool, const struct chain_routes *routes,
	bool default_route, uint64_t seed)
{
	unsigned int found_count = 0;
	for (uint32_t i = 0; i < PACKETS_COUNT; i++) {
		const struct base_packet *packet = &pool->packets[i];
		bool ip4 = packet->flags & BASE_PACKET_IP4;
		int found = chain_routes_find(
			routes, ip4 ? 4 : 6, packet->data + packet->l3_offset + (ip4 ? 16 : 24));
		unsigned int reason = BASE_DROP_NONE;
		unsigned int next_hop = 0;
		if (found >= 0)
			next_hop = routes->list[found].next_hop;
		else if (!default_route)
			reason = BASE_DROP_ROUTER_NO_ROUTE;
		found_count += found >= 0;
		if (packet->drop_reason != reason || packet->next_hop != next_hop)
			fail_msg("seed %llu packet %u: next hop %u (%s), expected %u (%s)",
				(unsigned long long)seed, i, packet->next_hop,
				base_drop_name(packet->drop_reason), next_hop,
				base_drop_name(reason));
	}
	assert_in_range(found_count, PACKETS_COUNT / 10, PACKETS_COUNT);
}

static void run_round(uint64_t seed)
{
	struct base_rng rng;
	struct chain_routes routes = { .count = ROUTES_COUNT };
	struct chain_config config = { .functions_count = 1 };
	struct chain_world world;
	struct packets_pool pool;
	char path[64];
	base_rng_seed(&rng, seed);
	routes.list = calloc(ROUTES_COUNT, sizeof(*routes.list));
	assert_non_null(routes.list);
	for (uint32_t i = 0; i < ROUTES_COUNT; i++)
		random_route(&routes.list[i], &rng);
	if (base_rng_below(&rng, 2)) /* without listed default routes */
		for (uint32_t i = 0; i < ROUTES_COUNT; i++)
			routes.list[i].prefix.length += routes.list[i].prefix.length == 0;
	for (uint32_t i = 0; i < ROUTES_COUNT; i++)
		chain_prefix_mask(&routes.list[i].prefix);
	write_routes(&routes, path);

	chain_function_config_defaults(&config.functions[0], CHAIN_ROUTER);
	config.functions[0].router.routes_file = path;
	config.functions[0].router.default_route = base_rng_below(&rng, 2);
	config.scalar = base_rng_below(&rng, 4) == 0;
	if (chain_world_open(&world, &config, 8192) != 0)
		fail_msg("%s", world.message);
	fill_packets(&pool, &routes, &rng);
	chain_world_run(&world, pool.packets, PACKETS_COUNT,
		(unsigned int)(1 + base_rng_below(&rng, BASE_BURST_MAX)));
	check(&pool, &routes, config.functions[0].router.default_route, seed);
	packets_pool_release(&pool);
	chain_world_close(&world);
	chain_routes_free(&routes);
	unlink(path);
}

static void tables_route_as_a_linear_scan_does(void **state)
{
	const char *text = getenv("SHEAF_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
	(void)state;
	for (uint64_t round = 0; round < ROUNDS_COUNT; round++)
		run_round(seed + round);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_route_as_a_linear_scan_does),
	};
	support_eal_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
