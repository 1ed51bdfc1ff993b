/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/chain_world.h"
#include "tests/support/eal.h"
#include "tests/unit/chain/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char routes_text[] = "10.0.0.0/8 3\n10.1.0.0/16 4\n10.1.1.1/32 5\n"
				  "2001:db8::/64 6\n2001:db8::7/128 7\n";

struct fixture {
	char path[64];
	struct chain_config config;
	struct chain_world world;
	struct packets_pool pool;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	strcpy(fixture->path, "/tmp/sheaf-routes-XXXXXX");
	int fd = mkstemp(fixture->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, routes_text, sizeof(routes_text) - 1), sizeof(routes_text) - 1);
	close(fd);
	fixture->config.functions_count = 1;
	chain_function_config_defaults(&fixture->config.functions[0], CHAIN_ROUTER);
	fixture->config.functions[0].router.routes_file = fixture->path;
	packets_pool_init(&fixture->pool, 8);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	unlink(fixture->path);
	packets_pool_release(&fixture->pool);
	if (fixture->world.arena != NULL)
		chain_world_close(&fixture->world);
	free(fixture);
	return 0;
}

static void open_world(struct fixture *fixture)
{
	if (chain_world_open(&fixture->world, &fixture->config, 64) != 0)
		fail_msg("%s", fixture->world.message);
}

static struct base_packet *send(struct fixture *fixture, const struct packets_spec *spec)
{
	struct base_packet *packet = packets_pool_build(&fixture->pool, 0, spec, 1000);
	chain_world_run(&fixture->world, packet, 1, 1);
	return packet;
}

static void packets_take_the_longest_route_to_their_destination(void **state)
{
	static const struct {
		uint32_t destination;
		uint16_t next_hop;
	} cases4[] = {
		{ 0x0a020304, 3 },
		{ 0x0a010204, 4 },
		{ 0x0a010101, 5 },
		{ 0x0b000001, 0 },
	};
	struct fixture *fixture = *state;
	open_world(fixture);
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(cases4); i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0xc0000201, 7, cases4[i].destination, 53);
		assert_int_equal(send(fixture, &spec)->next_hop, cases4[i].next_hop);
	}
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 7, 7, 53);
	assert_int_equal(send(fixture, &spec)->next_hop, 7);
	spec = packets_ip6(BASE_PROTOCOL_UDP, 7, 7, 8, 53);
	assert_int_equal(send(fixture, &spec)->next_hop, 6);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "ip4_packets"), 4);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "ip6_packets"), 2);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "default_route_packets"), 1);
}

static void a_hop_is_taken_off_and_checksums_stay_right(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture);
	for (unsigned int ttl = 2; ttl <= 255; ttl++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_TCP, 0xc0000201, 7, 0x0a010101, 80);
		spec.ttl = (uint8_t)ttl;
		spec.ip_id = (uint16_t)(ttl * 4099);
		struct base_packet *packet = send(fixture, &spec);
		assert_int_equal(packet->data[packet->l3_offset + 8], ttl - 1);
		assert_true(packets_checksums_valid(
			packet->data + packet->l3_offset, packet->cap_len - packet->l3_offset));
	}
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	struct base_packet *packet = send(fixture, &spec);
	assert_int_equal(packet->data[packet->l3_offset + 7], 63);
}

static void packets_without_hops_left_are_dropped_untouched(void **state)
{
	struct fixture *fixture = *state;
	struct chain_function_stats stats;
	open_world(fixture);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0xc0000201, 7, 0x0a010101, 80);
	spec.ttl = 1;
	struct base_packet *packet = send(fixture, &spec);
	assert_int_equal(packet->drop_reason, BASE_DROP_ROUTER_TTL);
	assert_int_equal(packet->data[packet->l3_offset + 8], 1);
	packet = packets_pool_build(&fixture->pool, 1, &spec, 1000);
	packet->data[14 + 8] = 0;
	chain_world_run(&fixture->world, packet, 1, 1);
	assert_int_equal(packet->drop_reason, BASE_DROP_ROUTER_TTL);
	spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	spec.ttl = 1;
	assert_int_equal(send(fixture, &spec)->drop_reason, BASE_DROP_ROUTER_TTL);
	chain_function_stats(fixture->world.chain, 0, &stats);
	assert_int_equal(stats.in, 3);
	assert_int_equal(stats.out, 0);
	assert_int_equal(stats.drops[BASE_DROP_ROUTER_TTL], 3);
}

static void without_a_default_route_strangers_are_dropped(void **state)
{
	struct fixture *fixture = *state;
	fixture->config.functions[0].router.default_route = false;
	open_world(fixture);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0xc0000201, 7, 0x0b010101, 80);
	struct base_packet *packet = send(fixture, &spec);
	assert_int_equal(packet->drop_reason, BASE_DROP_ROUTER_NO_ROUTE);
	assert_int_equal(packet->data[packet->l3_offset + 8], 64);
	spec = packets_ip4(BASE_PROTOCOL_TCP, 0xc0000201, 7, 0x0a010101, 80);
	assert_int_equal(send(fixture, &spec)->drop_reason, BASE_DROP_NONE);
}

static void a_listed_default_route_serves_its_family_only(void **state)
{
	struct fixture *fixture = *state;
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fputs("0.0.0.0/0 9\n", file);
	fclose(file);
	fixture->config.functions[0].router.default_route = false;
	open_world(fixture);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0xc0000201, 7, 0x0b010101, 80);
	assert_int_equal(send(fixture, &spec)->next_hop, 9);
	spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	assert_int_equal(send(fixture, &spec)->drop_reason, BASE_DROP_ROUTER_NO_ROUTE);
}

static void replies_in_a_run_take_their_own_route(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture);
	struct packets_spec there = packets_ip4(BASE_PROTOCOL_UDP, 0x0a020304, 7, 0x0a010101, 80);
	struct packets_spec back = packets_reverse(&there);
	for (uint32_t i = 0; i < 8; i++)
		packets_pool_build(&fixture->pool, i, i % 3 == 0 ? &there : &back, 1000);
	chain_world_run(&fixture->world, fixture->pool.packets, 8, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(fixture->pool.packets[i].next_hop, i % 3 == 0 ? 5 : 3);
}

/* It shares the flow's key, but goes to whom it is addressed. */
static void an_icmp_error_is_routed_by_its_own_destination(void **state)
{
	struct fixture *fixture = *state;
	uint8_t frame[256];
	open_world(fixture);
	struct packets_spec there = packets_ip4(BASE_PROTOCOL_UDP, 0x0a020304, 7, 0x0a010101, 80);
	struct packets_spec back = packets_reverse(&there);
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 0xc0000201, 0, 0x0a010505, 0);
	error.icmp_type = 3;
	size_t size = packets_build_icmp_error(frame, sizeof(frame), &error, &there, 64);
	packets_pool_build(&fixture->pool, 0, &there, 1000);
	packets_pool_build(&fixture->pool, 1, &back, 1000);
	packets_pool_set(&fixture->pool, 2, BASE_LINK_ETHERNET, frame, size, 0, 1000);
	packets_pool_build(&fixture->pool, 3, &back, 1000);
	chain_world_run(&fixture->world, fixture->pool.packets, 4, 4);
	assert_int_equal(fixture->pool.packets[0].next_hop, 5);
	assert_int_equal(fixture->pool.packets[1].next_hop, 3);
	assert_int_equal(fixture->pool.packets[2].next_hop, 4);
	assert_int_equal(fixture->pool.packets[3].next_hop, 3);
}

static void frames_that_are_not_ip_are_bridged(void **state)
{
	struct fixture *fixture = *state;
	uint8_t frame[60] = { [12] = 0x08, [13] = 0x06 };
	open_world(fixture);
	struct base_packet *packet = packets_pool_set(
		&fixture->pool, 0, BASE_LINK_ETHERNET, frame, sizeof(frame), 0, 1000);
	chain_world_run(&fixture->world, packet, 1, 1);
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_memory_equal(packet->data, frame, sizeof(frame));
	assert_int_equal(chain_world_counter(&fixture->world, 0, "bridged_packets"), 1);
}

static void no_routes_at_all_is_a_valid_table(void **state)
{
	struct fixture *fixture = *state;
	fixture->config.functions[0].router.routes_file = NULL;
	fixture->config.functions[0].router.routes_count = 0;
	open_world(fixture);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	assert_int_equal(send(fixture, &spec)->drop_reason, BASE_DROP_NONE);
	spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	assert_int_equal(send(fixture, &spec)->drop_reason, BASE_DROP_NONE);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "default_route_packets"), 2);
}

static void a_bad_routes_file_refuses_the_chain_with_its_line(void **state)
{
	struct fixture *fixture = *state;
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fputs("10.0.0.0/8 1\n10.0.0.0/8 x\n", file);
	fclose(file);
	assert_int_equal(chain_world_open(&fixture->world, &fixture->config, 64), -EBADMSG);
	assert_non_null(strstr(fixture->world.message, ":2: next hop \"x\", expected 0 to 65535"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			packets_take_the_longest_route_to_their_destination, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_hop_is_taken_off_and_checksums_stay_right, setup, teardown),
		cmocka_unit_test_setup_teardown(
			packets_without_hops_left_are_dropped_untouched, setup, teardown),
		cmocka_unit_test_setup_teardown(
			without_a_default_route_strangers_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_listed_default_route_serves_its_family_only, setup, teardown),
		cmocka_unit_test_setup_teardown(
			replies_in_a_run_take_their_own_route, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_icmp_error_is_routed_by_its_own_destination, setup, teardown),
		cmocka_unit_test_setup_teardown(
			frames_that_are_not_ip_are_bridged, setup, teardown),
		cmocka_unit_test_setup_teardown(no_routes_at_all_is_a_valid_table, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_bad_routes_file_refuses_the_chain_with_its_line, setup, teardown),
	};
	support_eal_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
