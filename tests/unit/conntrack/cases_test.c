/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults that users of trackers, NATs and load balancers have reported, as frames. */
#include "tests/unit/conntrack/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* C01 */
static void a_syn_flood_is_capped_and_a_handshake_after_it_is_tracked(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 4096;
	h.config.half_open_max = 1000;
	h.config.timeout_ns[CONNTRACK_STATE_TCP_SYN_SENT] = 5 * S;
	harness_start(&h);
	uint64_t now = 0;
	for (uint32_t i = 0; i < 10000; i++) {
		struct packets_spec syn =
			packets_ip4(BASE_PROTOCOL_TCP, 0x0b000000 + i, 1024, 0x0a020002, 80);
		syn.tcp_flags = SYN;
		harness_send(&h, &syn, now += MS / 10);
	}
	struct conntrack_stats stats = harness_stats(&h);
	assert_int_equal(stats.half_open, 1000);
	assert_int_equal(stats.peak_half_open, 1000);
	assert_int_equal(stats.insert_failures, 9000);
	assert_int_equal(stats.untracked_packets, 9000);

	/* The flood's entries have timed out: the cap makes room. */
	now += 6 * S;
	conntrack_advance(h.tracker, now, UINT32_MAX);
	harness_client(&h, 5000, SYN, 1000, now);
	harness_server(&h, 5000, SYN_ACK, 9, now);
	assert_int_equal(harness_state(&h, harness_client(&h, 5000, ACK, 1001, now)),
		CONNTRACK_STATE_TCP_ESTABLISHED);
	assert_int_equal(harness_stats(&h).half_open, 0);
	harness_stop(&h);
}

static void a_syn_flood_evicts_the_oldest_half_open_never_an_established_one(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.half_open_max = 100;
	h.config.full_policy = CONNTRACK_FULL_EVICT_TRANSIENT;
	harness_start(&h);
	harness_client(&h, 5000, SYN, 1000, 0);
	harness_server(&h, 5000, SYN_ACK, 9, 0);
	uint32_t conn = harness_client(&h, 5000, ACK, 1001, 0)->conn;
	struct packets_spec udp = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	harness_send(&h, &udp, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		struct packets_spec syn =
			packets_ip4(BASE_PROTOCOL_TCP, 0x0b000000 + i, 1024, 0x0a020002, 80);
		syn.tcp_flags = SYN;
		assert_true(harness_send(&h, &syn, i * 100)->conn_flags & BASE_CONN_NEW);
	}
	struct conntrack_stats stats = harness_stats(&h);
	assert_int_equal(stats.half_open, 100);
	assert_int_equal(stats.evicted, 4900);
	assert_int_equal(stats.live, 102); /* the UDP one would not have lowered the count */
	assert_int_equal(harness_client(&h, 5000, ACK, 1002, S)->conn, conn);
	/* The youngest have stayed. */
	struct packets_spec last =
		packets_ip4(BASE_PROTOCOL_TCP, 0x0b000000 + 4999, 1024, 0x0a020002, 80);
	last.tcp_flags = SYN;
	assert_false(harness_send(&h, &last, S)->conn_flags & BASE_CONN_NEW);
	harness_stop(&h);
}

/* C01b */
static void repeated_syn_and_syn_ack_never_establish_nor_keep_alive(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint64_t now = 0;
	for (int i = 0; i < 4; i++) {
		harness_client(&h, 1, SYN, 1000, now += 100 * MS);
		assert_int_equal(
			harness_state(&h, harness_server(&h, 1, SYN_ACK, 9, now += 100 * MS)),
			CONNTRACK_STATE_TCP_SYN_RECV);
	}
	/* 60 s after the first SYN|ACK, at 200 ms. */
	conntrack_advance(h.tracker, 200 * MS + 60 * S - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	conntrack_advance(h.tracker, 200 * MS + 60 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);
	assert_int_equal(harness_stats(&h).expired, 1);
	harness_stop(&h);
}

static uint64_t whole_connection(struct harness *h, uint16_t port, uint32_t seq, uint64_t now)
{
	harness_client(h, port, SYN, seq, now);
	harness_server(h, port, SYN_ACK, 5000, now += MS);
	harness_client(h, port, ACK, seq + 1, now += MS);
	harness_client(h, port, FIN, seq + 1, now += MS);
	harness_server(h, port, FIN, 5001, now += MS);
	assert_int_equal(harness_state(h, harness_client(h, port, ACK, seq + 2, now += MS)),
		CONNTRACK_STATE_TCP_TIME_WAIT);
	return now;
}

/* C02 */
static void a_syn_after_fin_is_a_new_connection(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint64_t now = whole_connection(&h, 4444, 1000, 0);
	uint32_t conn;
	struct base_flow_key key = h.pool.packets[0].key;
	assert_int_equal(conntrack_find(h.tracker, &key, h.pool.packets[0].hash, &conn), 0);
	uint32_t generation = conntrack_generation(h.tracker, conn);
	memset(conntrack_user(h.tracker, conn), 0xee, 16);

	const struct base_packet *syn = harness_client(&h, 4444, SYN, 900000, now += 100 * MS);
	assert_int_equal(syn->conn_flags, BASE_CONN_NEW);
	/* Packets of the burst may name the old connection: its memory is still there. */
	assert_int_not_equal(syn->conn, conn);
	assert_int_equal(h.removed, 0);
	assert_int_equal(*(uint8_t *)conntrack_user(h.tracker, conn), 0xee);
	conntrack_advance(h.tracker, 0, 0);
	assert_int_equal(h.removed, 1);
	assert_int_equal(h.removed_conn, conn);
	assert_int_equal(harness_state(&h, syn), CONNTRACK_STATE_TCP_SYN_SENT);
	assert_int_equal(*(uint8_t *)conntrack_user(h.tracker, syn->conn), 0);
	assert_int_not_equal(conntrack_generation(h.tracker, conn), generation);
	conntrack_advance(h.tracker, now + 119 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1); /* a timeout of its own */

	now = whole_connection(&h, 4444, 50, now);
	assert_int_equal(harness_stats(&h).inserted, 3 - 1);
	whole_connection(&h, 4444, 77, now);
	assert_int_equal(harness_stats(&h).inserted, 3);
	assert_int_equal(harness_stats(&h).closed, 2);
	harness_stop(&h);
}

/* C02b */
static void a_syn_after_rst_is_a_new_connection(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	harness_client(&h, 4445, SYN, 1000, 0);
	harness_server(&h, 4445, SYN_ACK, 5000, MS);
	harness_client(&h, 4445, ACK, 1001, 2 * MS);
	const struct base_packet *rst = harness_client(&h, 4445, RST, 1001, 10 * MS);
	assert_int_equal(rst->conn_flags, BASE_CONN_CLOSING);
	assert_int_equal(harness_client(&h, 4445, SYN, 70000, 50 * MS)->conn_flags, BASE_CONN_NEW);
	harness_server(&h, 4445, SYN_ACK, 5000, 51 * MS);
	harness_client(&h, 4445, ACK, 70001, 52 * MS);
	assert_int_equal(harness_state(&h, harness_client(&h, 4445, PSH, 70001, 60 * MS)),
		CONNTRACK_STATE_TCP_ESTABLISHED);
	assert_int_equal(harness_stats(&h).closed, 1);
	assert_int_equal(harness_stats(&h).inserted, 2);
	harness_stop(&h);
}

/* A reordered or repeated SYN of the same connection is no port reuse. */
static void the_connections_own_syn_arriving_late_reopens_nothing(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint64_t now = whole_connection(&h, 4446, 1000, 0);
	const struct base_packet *late = harness_client(&h, 4446, SYN, 1000, now + MS);
	assert_int_equal(late->conn_flags, BASE_CONN_CLOSING);
	assert_int_equal(harness_state(&h, late), CONNTRACK_STATE_TCP_TIME_WAIT);
	assert_int_equal(harness_stats(&h).inserted, 1);

	/* Picked up, and its SYN came late: remembered then. */
	harness_client(&h, 4447, ACK, 2001, now);
	harness_client(&h, 4447, SYN, 2000, now);
	harness_client(&h, 4447, RST, 2001, now);
	assert_false(harness_client(&h, 4447, SYN, 2000, now + MS)->conn_flags & BASE_CONN_NEW);
	assert_true(harness_client(&h, 4447, SYN, 9999, now + MS)->conn_flags & BASE_CONN_NEW);
	harness_stop(&h);
}

/* C04 */
static void data_overtaken_by_the_fin_stays_in_the_connection(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint32_t conn = harness_client(&h, 4447, SYN, 1000, 0)->conn;
	harness_server(&h, 4447, SYN_ACK, 5000, MS);
	harness_client(&h, 4447, ACK, 1001, 2 * MS);
	harness_client(&h, 4447, PSH, 1001, 10 * MS);
	harness_client(&h, 4447, FIN, 1301, 11 * MS);
	assert_int_equal(harness_client(&h, 4447, PSH, 1101, 12 * MS)->conn, conn);
	assert_int_equal(harness_client(&h, 4447, PSH, 1201, 13 * MS)->conn, conn);
	harness_server(&h, 4447, FIN, 5001, 14 * MS);
	const struct base_packet *last = harness_client(&h, 4447, ACK, 1302, 15 * MS);
	assert_int_equal(last->conn, conn);
	struct conntrack_conn seen;
	assert_int_equal(conntrack_conn_get(h.tracker, conn, &seen), 0);
	assert_int_equal(seen.packets, 9);
	assert_int_equal(seen.state, CONNTRACK_STATE_TCP_TIME_WAIT);
	assert_int_equal(harness_stats(&h).inserted, 1);
	harness_stop(&h);
}

/* C07 */
static void the_receiver_of_a_first_syn_ack_is_the_client(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	const struct base_packet *packet = harness_server(&h, 4450, SYN_ACK, 5000, 0);
	assert_int_equal(packet->conn_flags, BASE_CONN_NEW | BASE_CONN_REPLY);
	assert_int_equal(harness_state(&h, packet), CONNTRACK_STATE_TCP_SYN_RECV);
	packet = harness_client(&h, 4450, ACK, 1001, MS);
	assert_int_equal(packet->conn_flags, 0);
	struct conntrack_conn seen;
	assert_int_equal(conntrack_conn_get(h.tracker, packet->conn, &seen), 0);
	assert_int_equal(seen.state, CONNTRACK_STATE_TCP_ESTABLISHED);
	assert_true(seen.assured);
	assert_false(seen.origin_reversed != ((packet->flags & BASE_PACKET_REVERSED) != 0));
	harness_stop(&h);
}

/* C09 */
static void timers_run_without_packets(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	for (uint16_t i = 0; i < 10; i++) {
		struct packets_spec udp =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0a010001, 1000 + i, 0x0a020002, 53);
		harness_send(&h, &udp, i * MS);
	}
	conntrack_finish(h.tracker, 30 * S + 4 * MS);
	assert_int_equal(harness_stats(&h).expired, 5);
	assert_int_equal(harness_stats(&h).live, 5);
	conntrack_finish(h.tracker, 40 * S);
	assert_int_equal(harness_stats(&h).expired, 10);
	assert_int_equal(harness_stats(&h).live, 0);
	harness_stop(&h);
}

/* C10 */
static void a_keepalive_just_under_the_timeout_keeps_one_connection(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	struct packets_spec udp = packets_ip4(BASE_PROTOCOL_UDP, 1, 1000, 2, 53);
	uint64_t now = 12345;
	for (int i = 0; i < 10; i++) {
		harness_send(&h, &udp, now);
		now += 30 * S - 1;
		conntrack_advance(h.tracker, now, UINT32_MAX);
	}
	assert_int_equal(harness_stats(&h).inserted, 1);
	/* ... and at the timeout it is another one, whether or not timers ran. */
	now += 1;
	assert_int_equal(harness_send(&h, &udp, now)->conn_flags, BASE_CONN_NEW);
	assert_int_equal(harness_stats(&h).expired, 1);
	assert_int_equal(harness_send(&h, &udp, now + 30 * S)->conn_flags, BASE_CONN_NEW);
	harness_stop(&h);
}

/* C12 */
static void more_flows_than_entries_follow_the_stated_policy(void **unused)
{
	(void)unused;
	for (int policy = 0; policy <= CONNTRACK_FULL_EVICT_TRANSIENT; policy++) {
		struct harness h;
		unsigned int passed = 0, dropped = 0, fresh = 0;
		harness_init(&h);
		h.config.entries_max = 65536 / 16;
		h.config.full_policy = (enum conntrack_full_policy)policy;
		harness_start(&h);
		for (uint32_t i = 0; i < 70000 / 16; i++) {
			struct packets_spec udp =
				packets_ip4(BASE_PROTOCOL_UDP, 0x0a000000 + i, 7, 0x0a020002, 53);
			const struct base_packet *packet = harness_send(&h, &udp, i * 1000);
			passed += packet->drop_reason == BASE_DROP_NONE;
			dropped += packet->drop_reason == BASE_DROP_CONN_TABLE_FULL;
			fresh += (packet->conn_flags & BASE_CONN_NEW) != 0;
		}
		struct conntrack_stats stats = harness_stats(&h);
		assert_int_equal(stats.live, 65536 / 16);
		assert_int_equal(passed + dropped, 70000 / 16);
		if (policy == CONNTRACK_FULL_EVICT_TRANSIENT) {
			assert_int_equal(fresh, 70000 / 16);
			assert_int_equal(stats.evicted, 70000 / 16 - 65536 / 16);
			assert_int_equal(stats.insert_failures, 0);
		} else {
			assert_int_equal(fresh, 65536 / 16);
			assert_int_equal(stats.insert_failures, 70000 / 16 - 65536 / 16);
			assert_int_equal(dropped,
				policy == CONNTRACK_FULL_DROP_NEW ? stats.insert_failures : 0);
		}
		harness_stop(&h);
	}
}

/* C12b */
static void a_long_lived_connection_survives_a_flood_of_short_ones(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 256;
	h.config.full_policy = CONNTRACK_FULL_EVICT_TRANSIENT;
	harness_start(&h);
	harness_client(&h, 4000, SYN, 1, 0);
	harness_server(&h, 4000, SYN_ACK, 1, 0);
	uint32_t conn = harness_client(&h, 4000, ACK, 2, 0)->conn;
	uint32_t generation = conntrack_generation(h.tracker, conn);
	memset(conntrack_user(h.tracker, conn), 0x5a, 16); /* the balancer's decision */
	for (uint32_t i = 0; i < 10000; i++) {
		struct packets_spec udp =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0a000000 + i, 7, 0x0a020002, 53);
		harness_send(&h, &udp, i * MS);
		if (i % 1000 == 0)
			assert_int_equal(harness_client(&h, 4000, PSH, 2, i * MS)->conn, conn);
	}
	assert_int_equal(conntrack_generation(h.tracker, conn), generation);
	assert_int_equal(*(uint8_t *)conntrack_user(h.tracker, conn), 0x5a);
	harness_stop(&h);
}

/* C13 */
static void looped_incomplete_connections_do_not_grow_the_table(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint64_t live = 0, now = 0;
	for (unsigned int loop = 0; loop < 10; loop++) {
		for (uint16_t port = 1; port <= 20; port++) {
			harness_client(&h, port, SYN, 1000, now += MS);
			if (port % 2 == 0)
				harness_server(&h, port, SYN_ACK, 1, now += MS);
			if (port % 4 == 0)
				harness_client(&h, port, PSH, 1001, now += MS);
		}
		if (loop == 0)
			live = harness_stats(&h).live;
		assert_int_equal(harness_stats(&h).live, live);
		conntrack_advance(h.tracker, now, 64);
	}
	harness_stop(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_syn_flood_is_capped_and_a_handshake_after_it_is_tracked),
		cmocka_unit_test(a_syn_flood_evicts_the_oldest_half_open_never_an_established_one),
		cmocka_unit_test(repeated_syn_and_syn_ack_never_establish_nor_keep_alive),
		cmocka_unit_test(a_syn_after_fin_is_a_new_connection),
		cmocka_unit_test(a_syn_after_rst_is_a_new_connection),
		cmocka_unit_test(the_connections_own_syn_arriving_late_reopens_nothing),
		cmocka_unit_test(data_overtaken_by_the_fin_stays_in_the_connection),
		cmocka_unit_test(the_receiver_of_a_first_syn_ack_is_the_client),
		cmocka_unit_test(timers_run_without_packets),
		cmocka_unit_test(a_keepalive_just_under_the_timeout_keeps_one_connection),
		cmocka_unit_test(more_flows_than_entries_follow_the_stated_policy),
		cmocka_unit_test(a_long_lived_connection_survives_a_flood_of_short_ones),
		cmocka_unit_test(looped_incomplete_connections_do_not_grow_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
