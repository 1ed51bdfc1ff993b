/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/chain_world.h"
#include "tests/support/eal.h"
#include "tests/unit/chain/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char rules_text[] = "deny tcp 10.0.0.0/8 any any 22\n"
				 "allow tcp 10.0.0.0/8 any any any\n"
				 "deny udp any any 8.8.8.8 53\n"
				 "deny icmp6 2001:db8::1 any any any\n"
				 "deny icmp 10.0.0.0/8 any any 9\n";

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
	strcpy(fixture->path, "/tmp/sheaf-rules-XXXXXX");
	int fd = mkstemp(fixture->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, rules_text, sizeof(rules_text) - 1), sizeof(rules_text) - 1);
	close(fd);
	fixture->config.functions_count = 1;
	chain_function_config_defaults(&fixture->config.functions[0], CHAIN_FIREWALL);
	fixture->config.functions[0].firewall.rules_file = fixture->path;
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

static void open_world(struct fixture *fixture, uint32_t entries_max)
{
	if (chain_world_open(&fixture->world, &fixture->config, entries_max) != 0)
		fail_msg("%s", fixture->world.message);
}

static int send(struct fixture *fixture, const struct packets_spec *spec)
{
	struct base_packet *packet = packets_pool_build(&fixture->pool, 0, spec, 1000);
	chain_world_run(&fixture->world, packet, 1, 1);
	return packet->drop_reason;
}

static int send_error(struct fixture *fixture, const struct packets_spec *quoted)
{
	uint8_t frame[256];
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 0xc0000201, 0, 0x0a000001, 0);
	error.icmp_type = 3;
	size_t size = packets_build_icmp_error(frame, sizeof(frame), &error, quoted, 64);
	struct base_packet *packet =
		packets_pool_set(&fixture->pool, 0, BASE_LINK_ETHERNET, frame, size, 0, 1000);
	chain_world_run(&fixture->world, packet, 1, 1);
	assert_true(packet->flags & BASE_PACKET_ICMP_ERROR);
	return packet->drop_reason;
}

static void both_directions_share_the_openers_verdict(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 64);
	struct packets_spec allowed =
		packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 22, 0x08080808, 80);
	struct packets_spec denied = packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 80, 0x08080808, 22);
	allowed.tcp_flags = BASE_TCP_SYN;
	denied.tcp_flags = BASE_TCP_SYN;
	assert_int_equal(send(fixture, &allowed), BASE_DROP_NONE);
	assert_int_equal(send(fixture, &denied), BASE_DROP_FIREWALL_DENY);
	struct packets_spec reply = packets_reverse(&allowed);
	reply.tcp_flags = BASE_TCP_SYN | BASE_TCP_ACK;
	assert_int_equal(send(fixture, &reply), BASE_DROP_NONE);
	reply = packets_reverse(&denied);
	reply.tcp_flags = BASE_TCP_SYN | BASE_TCP_ACK;
	assert_int_equal(send(fixture, &reply), BASE_DROP_FIREWALL_DENY);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "allowed_connections"), 1);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "denied_connections"), 1);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "denied_packets"), 2);
}

static void per_packet_mode_judges_each_direction_by_itself(void **state)
{
	struct fixture *fixture = *state;
	fixture->config.functions[0].firewall.per_packet = true;
	open_world(fixture, 64);
	struct packets_spec denied = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 53, 0x08080808, 53);
	struct packets_spec reply = packets_reverse(&denied);
	packets_pool_build(&fixture->pool, 0, &denied, 1000);
	packets_pool_build(&fixture->pool, 1, &reply, 1000);
	packets_pool_build(&fixture->pool, 2, &denied, 1000);
	chain_world_run(&fixture->world, fixture->pool.packets, 3, 3);
	assert_int_equal(fixture->pool.packets[0].drop_reason, BASE_DROP_FIREWALL_DENY);
	assert_int_equal(fixture->pool.packets[1].drop_reason, BASE_DROP_NONE);
	assert_int_equal(fixture->pool.packets[2].drop_reason, BASE_DROP_FIREWALL_DENY);
}

static void what_no_rule_matches_follows_the_default(void **state)
{
	struct fixture *fixture = *state;
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0b000001, 1, 0x08080808, 22);
	open_world(fixture, 64);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
	chain_world_close(&fixture->world);
	fixture->config.functions[0].firewall.default_deny = true;
	open_world(fixture, 64);
	assert_int_equal(send(fixture, &spec), BASE_DROP_FIREWALL_DENY);
	spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 1, 0x08080808, 23);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
}

static void icmp_errors_follow_their_connection(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 64);
	struct packets_spec denied = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 5, 0x08080808, 53);
	struct packets_spec allowed = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 5, 0x08080808, 54);
	assert_int_equal(send(fixture, &denied), BASE_DROP_FIREWALL_DENY);
	assert_int_equal(send_error(fixture, &denied), BASE_DROP_FIREWALL_DENY);
	assert_int_equal(send(fixture, &allowed), BASE_DROP_NONE);
	assert_int_equal(send_error(fixture, &allowed), BASE_DROP_NONE);
}

/* With no connection to ask, the error gets what the packet it quotes would get. */
static void stray_icmp_errors_follow_what_they_quote(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 64);
	struct packets_spec denied = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 5, 0x08080808, 53);
	struct packets_spec allowed = packets_reverse(&denied);
	assert_int_equal(send_error(fixture, &denied), BASE_DROP_FIREWALL_DENY);
	assert_int_equal(send_error(fixture, &allowed), BASE_DROP_NONE);
}

static void untracked_packets_are_judged_one_by_one(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 1);
	struct packets_spec first = packets_ip4(BASE_PROTOCOL_UDP, 1, 1, 2, 2);
	struct packets_spec denied = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 5, 0x08080808, 53);
	struct packets_spec reply = packets_reverse(&denied);
	assert_int_equal(send(fixture, &first), BASE_DROP_NONE);
	assert_int_equal(send(fixture, &denied), BASE_DROP_FIREWALL_DENY);
	assert_int_equal(fixture->pool.packets[0].conn, BASE_CONN_NONE);
	assert_int_equal(send(fixture, &reply), BASE_DROP_NONE);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "denied_connections"), 0);
}

/* An ICMP identifier is no port. */
static void ports_are_those_of_tcp_udp_and_sctp_only(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 64);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_ICMP, 0x0a000001, 9, 0x08080808, 9);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
}

static void ipv6_rules_match_ipv6_only(void **state)
{
	struct fixture *fixture = *state;
	open_world(fixture, 64);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_ICMP6, 1, 9, 2, 9);
	assert_int_equal(send(fixture, &spec), BASE_DROP_FIREWALL_DENY);
	spec = packets_ip6(BASE_PROTOCOL_ICMP6, 3, 9, 2, 9);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
	spec = packets_ip6(BASE_PROTOCOL_UDP, 3, 9, 2, 53);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
}

static void frames_that_are_not_ip_pass(void **state)
{
	struct fixture *fixture = *state;
	uint8_t frame[60] = { [12] = 0x08, [13] = 0x06 };
	fixture->config.functions[0].firewall.default_deny = true;
	open_world(fixture, 64);
	struct base_packet *packet = packets_pool_set(
		&fixture->pool, 0, BASE_LINK_ETHERNET, frame, sizeof(frame), 0, 1000);
	chain_world_run(&fixture->world, packet, 1, 1);
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_int_equal(chain_world_counter(&fixture->world, 0, "bridged_packets"), 1);
}

static void an_empty_rule_file_leaves_the_default(void **state)
{
	struct fixture *fixture = *state;
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	assert_int_equal(truncate(fixture->path, 0), 0);
	open_world(fixture, 64);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
	spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 7, 2, 80);
	assert_int_equal(send(fixture, &spec), BASE_DROP_NONE);
}

static void a_bad_rules_file_refuses_the_chain_with_its_line(void **state)
{
	struct fixture *fixture = *state;
	FILE *file = fopen(fixture->path, "a");
	assert_non_null(file);
	fputs("permit tcp any any any any\n", file);
	fclose(file);
	assert_int_equal(chain_world_open(&fixture->world, &fixture->config, 64), -EBADMSG);
	assert_non_null(strstr(fixture->world.message, ":6: \"permit\", expected"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			both_directions_share_the_openers_verdict, setup, teardown),
		cmocka_unit_test_setup_teardown(
			per_packet_mode_judges_each_direction_by_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_no_rule_matches_follows_the_default, setup, teardown),
		cmocka_unit_test_setup_teardown(
			icmp_errors_follow_their_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(
			stray_icmp_errors_follow_what_they_quote, setup, teardown),
		cmocka_unit_test_setup_teardown(
			untracked_packets_are_judged_one_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(
			ports_are_those_of_tcp_udp_and_sctp_only, setup, teardown),
		cmocka_unit_test_setup_teardown(ipv6_rules_match_ipv6_only, setup, teardown),
		cmocka_unit_test_setup_teardown(frames_that_are_not_ip_pass, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_empty_rule_file_leaves_the_default, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_bad_rules_file_refuses_the_chain_with_its_line, setup, teardown),
	};
	support_eal_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
