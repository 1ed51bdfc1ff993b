/* SPDX-License-Identifier: BSD-2-Clause */
/* What holds within one burst, with packets made by hand. */
#include "tests/unit/conntrack/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void run_burst(struct conntrack *tracker, struct base_packet *packets, uint16_t count)
{
	struct base_burst burst = { .count = count };
	for (uint16_t i = 0; i < count; i++)
		burst.packets[i] = &packets[i];
	base_burst_mark_runs(&burst, false);
	conntrack_process_burst(tracker, &burst);
}

static void make_packet(struct base_packet *packet, uint16_t flow, uint8_t protocol,
	uint8_t tcp_flags, uint8_t *header, uint64_t now)
{
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4;
	packet->key.family = 4;
	packet->key.protocol = protocol;
	packet->key.port[0] = flow;
	packet->hash = flow;
	packet->tcp_flags = tcp_flags;
	packet->data = header;
	packet->cap_len = 20;
	packet->time_ns = now;
}

static void the_all_zero_key_works(void **unused)
{
	(void)unused;
	struct harness h;
	struct base_packet packet;
	harness_init(&h);
	harness_start(&h);
	base_packet_reset(&packet);
	memset(&packet.key, 0, sizeof(packet.key));
	packet.flags = BASE_PACKET_FLOW;
	run_burst(h.tracker, &packet, 1);
	assert_int_equal(packet.conn_flags, BASE_CONN_NEW);
	run_burst(h.tracker, &packet, 1);
	assert_int_equal(packet.conn_flags, 0);
	conntrack_finish(h.tracker, 600 * S);
	assert_int_equal(harness_stats(&h).live, 0);
	run_burst(h.tracker, &packet, 1);
	assert_int_equal(packet.conn_flags, BASE_CONN_NEW);
	harness_stop(&h);
}

static void equal_keys_in_a_burst_share_one_lookup(void **unused)
{
	(void)unused;
	for (int off = 0; off < 2; off++) {
		struct harness h;
		struct base_packet packets[8];
		harness_init(&h);
		h.config.no_dedup = off != 0;
		h.config.no_runs = off != 0;
		harness_start(&h);
		for (unsigned int i = 0; i < 8; i++) {
			base_packet_reset(&packets[i]);
			packets[i].flags = BASE_PACKET_FLOW;
			memset(&packets[i].key, 0, sizeof(packets[i].key));
			packets[i].key.family = 4;
			packets[i].key.protocol = BASE_PROTOCOL_UDP;
			/* a a b b a a b b */
			packets[i].key.port[0] = packets[i].hash = 1 + (i / 2) % 2;
		}
		run_burst(h.tracker, packets, 8);
		struct conntrack_stats stats = harness_stats(&h);
		assert_int_equal(stats.inserted, 2);
		assert_int_equal(stats.lookups, off ? 8 : 2);
		assert_int_equal(stats.lookups_saved, off ? 0 : 6);
		assert_int_equal(stats.hits, 6);
		assert_int_equal(stats.misses, 2);
		harness_stop(&h);
	}
}

/* ARP and the like have no flow, all one hash, and are not looked up. */
static void packets_without_flow_are_not_counted_as_lookups(void **unused)
{
	(void)unused;
	struct harness h;
	struct base_packet packets[8];
	harness_init(&h);
	harness_start(&h);
	for (unsigned int i = 0; i < 8; i++) {
		base_packet_reset(&packets[i]);
		memset(&packets[i].key, 0, sizeof(packets[i].key));
		packets[i].hash = 0;
		packets[i].flags = i == 4 ? BASE_PACKET_FLOW : 0;
	}
	run_burst(h.tracker, packets, 8);
	struct conntrack_stats stats = harness_stats(&h);
	assert_int_equal(stats.lookups + stats.lookups_saved, 1);
	assert_int_equal(stats.inserted, 1);
	harness_stop(&h);
}

/* The chain sees a burst after the tracker: an index that an early packet was given must not name
 * another connection because of a later packet. */
static void indices_and_memory_last_until_the_burst_is_through(void **unused)
{
	(void)unused;
	struct harness h;
	struct base_packet p[4];
	uint8_t first[20] = { 0 }, second[20] = { [7] = 9 };
	harness_init(&h);
	h.config.entries_max = 2;
	h.config.half_open_max = 2;
	h.config.full_policy = CONNTRACK_FULL_EVICT_TRANSIENT;
	harness_start(&h);
	/* Opened, reset, reopened, and evicted for another flow, all in one burst. */
	make_packet(&p[0], 1, BASE_PROTOCOL_TCP, SYN, first, 0);
	make_packet(&p[1], 1, BASE_PROTOCOL_TCP, RST, first, 1);
	make_packet(&p[2], 1, BASE_PROTOCOL_TCP, SYN, second, 2);
	make_packet(&p[3], 2, BASE_PROTOCOL_UDP, 0, first, 3);
	run_burst(h.tracker, p, 4);
	assert_int_equal(p[0].conn, p[1].conn);
	assert_int_not_equal(p[1].conn, p[2].conn);
	assert_int_not_equal(p[2].conn, p[3].conn);
	assert_int_not_equal(p[1].conn, p[3].conn);
	assert_int_equal(h.removed, 0);
	assert_int_equal(harness_stats(&h).closed, 1);

	/* Due, and reclaimed because the table is full; its last packet did not refresh it. */
	make_packet(&p[0], 3, BASE_PROTOCOL_UDP, 0, first, 4);
	run_burst(h.tracker, p, 1);
	uint32_t evicted = h.removed_conn;
	assert_int_equal(h.removed, 1); /* the one that was reset */
	conntrack_advance(h.tracker, 200 * S, 0);
	assert_int_equal(h.removed, 2);
	assert_int_not_equal(h.removed_conn, evicted);
	make_packet(&p[0], 3, BASE_PROTOCOL_UDP, 0, first, 5);
	p[0].flags |= BASE_PACKET_ICMP_ERROR;
	make_packet(&p[1], 4, BASE_PROTOCOL_UDP, 0, first, 200 * S);
	make_packet(&p[2], 5, BASE_PROTOCOL_UDP, 0, first, 200 * S);
	run_burst(h.tracker, p, 3);
	assert_int_equal(p[0].conn_flags, BASE_CONN_RELATED);
	assert_int_not_equal(p[0].conn, p[1].conn);
	assert_int_not_equal(p[0].conn, p[2].conn);
	assert_int_equal(h.removed, 2);
	assert_int_equal(harness_stats(&h).expired, 2);
	harness_stop(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_all_zero_key_works),
		cmocka_unit_test(equal_keys_in_a_burst_share_one_lookup),
		cmocka_unit_test(packets_without_flow_are_not_counted_as_lookups),
		cmocka_unit_test(indices_and_memory_last_until_the_burst_is_through),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
