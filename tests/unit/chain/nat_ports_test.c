/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/nat_ports.h"

#include "tests/unit/chain/test.h"

#include <errno.h>

struct world {
	struct base_arena *arena;
	struct chain_nat_ports *ports;
};

static const struct chain_nat_ports_config defaults = {
	.address = 0xc0000201,
	.addresses_count = 1,
	.port_first = 1000,
	.port_last = 1009,
	.worker = 0,
	.workers = 1,
	.salt = 77,
};

static void world_open(struct world *world, struct chain_nat_ports_config config)
{
	assert_int_equal(base_arena_create(&world->arena, false), 0);
	config.arena = world->arena;
	assert_int_equal(chain_nat_ports_create(&world->ports, &config), 0);
}

static void world_close(struct world *world)
{
	assert_true(chain_nat_ports_check(world->ports));
	chain_nat_ports_destroy(world->ports);
	base_arena_destroy(world->arena);
}

static struct chain_nat_inside inside_of(uint32_t address, uint16_t port)
{
	return (struct chain_nat_inside){ .address = address, .port = port };
}

static struct chain_nat_outside outside_of(const struct world *world, uint32_t mapping)
{
	struct chain_nat_outside outside;
	chain_nat_ports_outside(world->ports, mapping, &outside);
	return outside;
}

static void one_inside_endpoint_has_one_external_endpoint(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, defaults);
	struct chain_nat_inside a = inside_of(1, 5), b = inside_of(2, 5);
	uint32_t first = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
	assert_int_not_equal(first, CHAIN_NAT_NONE);
	assert_int_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a), first);
	assert_int_not_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &b), first);
	assert_int_not_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_UDP, &a), first);
	assert_int_equal(chain_nat_ports_free_count(world.ports, CHAIN_NAT_TCP), 8);
	world_close(&world);
}

static void zones_and_protocols_are_worlds_of_their_own(void **state)
{
	struct chain_nat_ports_config config = defaults;
	struct world world;
	(void)state;
	config.port_last = 1999;
	world_open(&world, config);
	for (unsigned int i = 0; i < 3000; i++) {
		enum chain_nat_class class = (enum chain_nat_class)(i % 3);
		struct chain_nat_inside a = { 1, 5, (uint16_t)(i / 3) }, found;
		uint32_t mapping = chain_nat_ports_hold(world.ports, class, &a);
		struct chain_nat_outside outside = outside_of(&world, mapping);
		assert_true(chain_nat_ports_find(world.ports, class, &outside, &found));
		assert_int_equal(found.zone, i / 3);
	}
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(
			chain_nat_ports_free_count(world.ports, (enum chain_nat_class)i), 0);
	world_close(&world);
}

static void mapping_lives_until_its_last_holder_lets_go(void **state)
{
	struct world world;
	struct chain_nat_inside found;
	(void)state;
	world_open(&world, defaults);
	struct chain_nat_inside a = inside_of(0x0a000001, 1003);
	uint32_t mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_UDP, &a);
	chain_nat_ports_hold(world.ports, CHAIN_NAT_UDP, &a);
	struct chain_nat_outside outside = outside_of(&world, mapping);
	chain_nat_ports_release(world.ports, mapping);
	assert_true(chain_nat_ports_find(world.ports, CHAIN_NAT_UDP, &outside, &found));
	assert_int_equal(found.address, a.address);
	assert_int_equal(found.port, a.port);
	assert_false(chain_nat_ports_find(world.ports, CHAIN_NAT_TCP, &outside, &found));
	chain_nat_ports_release(world.ports, mapping);
	assert_false(chain_nat_ports_find(world.ports, CHAIN_NAT_UDP, &outside, &found));
	assert_int_equal(chain_nat_ports_free_count(world.ports, CHAIN_NAT_UDP), 10);
	world_close(&world);
}

static void inside_port_is_kept_when_it_is_free(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, defaults);
	struct chain_nat_inside a = inside_of(1, 1007), b = inside_of(2, 1007);
	uint32_t first = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
	uint32_t second = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &b);
	assert_int_equal(outside_of(&world, first).port, 1007);
	assert_int_not_equal(outside_of(&world, second).port, 1007);
	world_close(&world);
}

static void port_that_was_given_back_rests_longest(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, defaults);
	struct chain_nat_inside a = inside_of(1, 1);
	uint32_t mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
	uint16_t port = outside_of(&world, mapping).port;
	chain_nat_ports_release(world.ports, mapping);
	for (uint32_t i = 0; i < 9; i++) {
		a = inside_of(2 + i, 1);
		mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
		assert_int_not_equal(outside_of(&world, mapping).port, port);
	}
	a = inside_of(100, 1);
	mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
	assert_int_equal(outside_of(&world, mapping).port, port);
	world_close(&world);
}

static void empty_pool_refuses_until_a_port_comes_back(void **state)
{
	struct world world;
	uint32_t mapping = CHAIN_NAT_NONE;
	(void)state;
	world_open(&world, defaults);
	for (uint32_t i = 0; i < 10; i++) {
		struct chain_nat_inside a = inside_of(i, 1);
		mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
		assert_int_not_equal(mapping, CHAIN_NAT_NONE);
	}
	struct chain_nat_inside late = inside_of(50, 1005), known = inside_of(9, 1);
	assert_int_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &late), CHAIN_NAT_NONE);
	assert_int_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &known), mapping);
	assert_int_not_equal(
		chain_nat_ports_hold(world.ports, CHAIN_NAT_ICMP, &late), CHAIN_NAT_NONE);
	chain_nat_ports_release(world.ports, mapping);
	chain_nat_ports_release(world.ports, mapping);
	assert_int_equal(chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &late), mapping);
	world_close(&world);
}

/* Every port of the range belongs to exactly one worker, whatever their number. */
static void shares_of_all_workers_make_up_the_range(void **state)
{
	(void)state;
	for (uint16_t workers = 1; workers <= 10; workers++) {
		unsigned int taken[10] = { 0 };
		for (uint16_t worker = 0; worker < workers; worker++) {
			struct chain_nat_ports_config config = defaults;
			struct world world;
			config.worker = worker;
			config.workers = workers;
			world_open(&world, config);
			for (uint32_t i = 0;; i++) {
				struct chain_nat_inside a = inside_of(i, 3);
				uint32_t mapping =
					chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
				if (mapping == CHAIN_NAT_NONE)
					break;
				uint16_t port = outside_of(&world, mapping).port;
				assert_in_range(port, 1000, 1009);
				assert_int_equal((port - 1000) % workers, worker);
				taken[port - 1000]++;
			}
			world_close(&world);
		}
		for (unsigned int i = 0; i < 10; i++)
			assert_int_equal(taken[i], 1);
	}
}

static void inside_address_keeps_its_external_address_while_ports_last(void **state)
{
	struct chain_nat_ports_config config = defaults;
	struct world world;
	unsigned int used[4] = { 0 };
	(void)state;
	config.addresses_count = 4;
	world_open(&world, config);
	uint32_t paired = 0;
	for (uint32_t i = 0; i < 10; i++) {
		struct chain_nat_inside a = inside_of(0x0a000001, (uint16_t)(1 + i));
		uint32_t mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_UDP, &a);
		paired = i == 0 ? outside_of(&world, mapping).address : paired;
		assert_int_equal(outside_of(&world, mapping).address, paired);
	}
	for (uint32_t i = 0; i < 30; i++) {
		struct chain_nat_inside a = inside_of(0x0a000001, (uint16_t)(100 + i));
		uint32_t mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_UDP, &a);
		assert_int_not_equal(mapping, CHAIN_NAT_NONE);
		assert_int_not_equal(outside_of(&world, mapping).address, paired);
		used[outside_of(&world, mapping).address - config.address]++;
	}
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(used[i], config.address + i == paired ? 0 : 10);
	assert_int_equal(chain_nat_ports_free_count(world.ports, CHAIN_NAT_UDP), 0);
	world_close(&world);
}

static void find_knows_its_own_addresses_and_ports_only(void **state)
{
	struct chain_nat_ports_config config = defaults;
	struct world world;
	struct chain_nat_inside found;
	(void)state;
	config.worker = 1;
	config.workers = 2;
	world_open(&world, config);
	struct chain_nat_inside a = inside_of(1, 1001);
	uint32_t mapping = chain_nat_ports_hold(world.ports, CHAIN_NAT_TCP, &a);
	const struct chain_nat_outside right = outside_of(&world, mapping);
	assert_true(chain_nat_ports_find(world.ports, CHAIN_NAT_TCP, &right, &found));
	static const struct chain_nat_outside wrong[] = {
		{ 0xc0000200, 1001 },
		{ 0xc0000202, 1001 },
		{ 0xc0000201, 999 },
		{ 0xc0000201, 1000 },
		{ 0xc0000201, 1002 },
		{ 0xc0000201, 1010 },
		{ 0xc0000201, 0 },
		{ 0, 65535 },
	};
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(chain_nat_ports_find(world.ports, CHAIN_NAT_TCP, &wrong[i], &found));
	world_close(&world);
}

static void impossible_shares_are_refused(void **state)
{
	struct base_arena *arena;
	struct chain_nat_ports *ports = NULL;
	(void)state;
	assert_int_equal(base_arena_create(&arena, false), 0);
	for (unsigned int i = 0; i < 6; i++) {
		struct chain_nat_ports_config config = defaults;
		config.arena = arena;
		switch (i) {
		case 0:
			config.addresses_count = 0;
			break;
		case 1:
			config.addresses_count = CHAIN_NAT_ADDRESSES_MAX + 1;
			break;
		case 2:
			config.port_last = 999;
			break;
		case 3:
			config.workers = 0;
			break;
		case 4:
			config.worker = 1;
			break;
		default:
			config.worker = 10;
			config.workers = 11;
			break;
		}
		assert_int_equal(chain_nat_ports_create(&ports, &config), -EINVAL);
		assert_null(ports);
	}
	base_arena_destroy(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_inside_endpoint_has_one_external_endpoint),
		cmocka_unit_test(zones_and_protocols_are_worlds_of_their_own),
		cmocka_unit_test(mapping_lives_until_its_last_holder_lets_go),
		cmocka_unit_test(inside_port_is_kept_when_it_is_free),
		cmocka_unit_test(port_that_was_given_back_rests_longest),
		cmocka_unit_test(empty_pool_refuses_until_a_port_comes_back),
		cmocka_unit_test(shares_of_all_workers_make_up_the_range),
		cmocka_unit_test(inside_address_keeps_its_external_address_while_ports_last),
		cmocka_unit_test(find_knows_its_own_addresses_and_ports_only),
		cmocka_unit_test(impossible_shares_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
