/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tracker promises, and the faults of published trackers that must not reappear. */
#include "tests/unit/conntrack/harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct packets_spec udp_spec(uint32_t client)
{
	return packets_ip4(BASE_PROTOCOL_UDP, 0x0a000000 + client, 5353, 0x0a020002, 53);
}

static const struct base_packet *udp(struct harness *h, uint32_t client, bool reply, uint64_t now)
{
	struct packets_spec spec = udp_spec(client);
	if (reply)
		spec = packets_reverse(&spec);
	return harness_send(h, &spec, now);
}

/* Published: bucket entry 0, flow id 0 and position 0 meant "none". */
static void the_connection_with_index_zero_is_like_any_other(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 1;
	harness_start(&h);
	for (uint64_t round = 0; round < 5; round++) {
		uint64_t now = round * 100 * S;
		assert_int_equal(udp(&h, 1, false, now)->conn, 0);
		assert_int_equal(udp(&h, 1, true, now)->conn_flags, BASE_CONN_REPLY);
		conntrack_advance(h.tracker, now + 120 * S, UINT32_MAX);
		if (round == 0)
			assert_int_equal(harness_stats(&h).live, 0);
	}
	harness_stop(&h);
}

/* Published: 16-bit ages, compared in int, never expired after the counter wrapped (65.5 s at
 * 1 kHz); int milliseconds wrapped at 24.8 days. */
static void entries_expire_at_any_age_and_date(void **unused)
{
	(void)unused;
	static const uint64_t starts_ns[] = { 0, 65535 * MS, 65536 * MS,
		UINT64_C(2147483648) * MS - 15 * S, UINT64_C(4294967296) * MS - 15 * S,
		UINT64_C(1700000000) * S, UINT64_MAX - 1000 * S };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(starts_ns); i++) {
		struct harness h;
		uint64_t now = starts_ns[i];
		harness_init(&h);
		harness_start(&h);
		udp(&h, 1, false, now);
		conntrack_advance(h.tracker, now + 30 * S - 1, UINT32_MAX);
		assert_int_equal(harness_stats(&h).live, 1);
		conntrack_advance(h.tracker, now + 30 * S + MS, UINT32_MAX);
		assert_int_equal(harness_stats(&h).live, 0);
		assert_true(harness_stats(&h).expiry_late_max_ns <= MS);
		harness_stop(&h);
	}
}

/* Published: lookups did not check expiry, so a flow's fate hung on when the wheel came by. */
static void an_expired_connections_next_packet_begins_a_new_one(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	udp(&h, 1, false, 5);
	assert_int_equal(udp(&h, 1, false, 5 + 30 * S - 1)->conn_flags, 0);
	assert_int_equal(udp(&h, 1, true, 5 + 60 * S - 1)->conn_flags, BASE_CONN_NEW);
	assert_int_equal(harness_stats(&h).expired, 1);
	harness_stop(&h);
}

/* Published: recycled inserts lost themselves and a neighbour. */
static void reused_entries_are_found_and_lose_no_other(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 600;
	harness_start(&h);
	uint64_t now = 0;
	for (uint32_t i = 0; i < 600; i++)
		udp(&h, i, false, i % 2 ? 20 * S : 0);
	now = 30 * S;
	conntrack_advance(h.tracker, now, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 300);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(udp(&h, 10000 + i, false, now)->conn_flags, BASE_CONN_NEW);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(udp(&h, 10000 + i, false, now)->conn_flags, 0);
	for (uint32_t i = 1; i < 600; i += 2)
		assert_int_equal(udp(&h, i, false, now)->conn_flags, 0);
	assert_int_equal(harness_stats(&h).insert_failures, 0);
	harness_stop(&h);
}

/* Published: intervals that do not divide a second leaked entries, shorter ones underflowed. */
static void awkward_ticks_and_timeouts_leak_nothing(void **unused)
{
	(void)unused;
	static const uint64_t ticks_ns[] = { 1000, 300 * MS, 333333333, 2 * S, 1000 * S };
	static const uint64_t timeouts_ns[] = { 1, 999, 1000, 299 * MS, 301 * MS, 7 * S };
	for (unsigned int t = 0; t < BASE_ARRAY_COUNT(ticks_ns); t++) {
		for (unsigned int o = 0; o < BASE_ARRAY_COUNT(timeouts_ns); o++) {
			struct harness h;
			harness_init(&h);
			h.config.tick_ns = ticks_ns[t];
			h.config.timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = timeouts_ns[o];
			harness_start(&h);
			for (uint32_t i = 0; i < 200; i++) {
				udp(&h, i, false, i * 5 * MS);
				conntrack_advance(h.tracker, i * 5 * MS, 64);
			}
			conntrack_finish(h.tracker, 199 * 5 * MS + timeouts_ns[o] - 1);
			assert_int_equal(harness_stats(&h).live, 1);
			conntrack_finish(h.tracker, 199 * 5 * MS + timeouts_ns[o]);
			assert_int_equal(harness_stats(&h).live, 0);
			harness_stop(&h);
		}
	}
}

static void a_timeout_of_zero_never_expires(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = 0;
	harness_start(&h);
	const uint64_t far_ns = UINT64_MAX / 2;
	uint32_t conn = udp(&h, 1, false, 0)->conn;
	conntrack_finish(h.tracker, far_ns);
	assert_int_equal(udp(&h, 1, false, far_ns)->conn, conn);
	struct conntrack_conn seen;
	assert_int_equal(conntrack_conn_get(h.tracker, conn, &seen), 0);
	assert_true(seen.due_ns == UINT64_MAX);
	/* A reply gives it a finite timeout, and with it a timer. */
	udp(&h, 2, false, far_ns);
	udp(&h, 2, true, far_ns);
	conntrack_finish(h.tracker, far_ns + 120 * S);
	assert_int_equal(harness_stats(&h).live, 1);
	harness_stop(&h);
}

/* Lazy re-arm alone would keep a reset connection for five days. */
static void a_close_shortens_the_timeout_at_once(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	harness_client(&h, 1, SYN, 1, 0);
	harness_server(&h, 1, SYN_ACK, 1, 0);
	harness_client(&h, 1, ACK, 2, 0);
	/* The opening's timer fires and goes to the far end of the wheel. */
	conntrack_advance(h.tracker, 200 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	uint64_t moved = harness_stats(&h).timers_moved_earlier;
	harness_server(&h, 1, RST, 2, 200 * S);
	assert_int_equal(harness_stats(&h).timers_moved_earlier, moved + 1);
	conntrack_advance(h.tracker, 210 * S - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	conntrack_advance(h.tracker, 210 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);
	assert_int_equal(harness_stats(&h).closed, 1);
	harness_stop(&h);
}

static void every_state_has_its_own_timeout(void **unused)
{
	(void)unused;
	struct conntrack_config config;
	conntrack_config_defaults(&config);
	for (int i = 1; i < CONNTRACK_STATES_COUNT; i++)
		assert_true(config.timeout_ns[i] > 0);
	assert_int_equal(config.timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED], 432000 * S);
	assert_int_equal(config.timeout_ns[CONNTRACK_STATE_TCP_CLOSE], 10 * S);
	assert_int_equal(config.timeout_ns[CONNTRACK_STATE_UDP_REPLIED], 30 * S);
	assert_int_equal(config.timeout_ns[CONNTRACK_STATE_UDP_STREAM], 120 * S);
	for (int i = 0; i < CONNTRACK_STATES_COUNT + 2; i++)
		assert_non_null(conntrack_state_name((enum conntrack_state)i));
}

static void an_unanswered_pickup_is_kept_300_s_and_an_answered_one_five_days(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	harness_client(&h, 1, ACK, 1, 0);
	harness_client(&h, 2, ACK, 1, 0);
	harness_server(&h, 2, ACK, 1, 0);
	conntrack_advance(h.tracker, 300 * S - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 2);
	conntrack_advance(h.tracker, 300 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	conntrack_advance(h.tracker, 432000 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);
	harness_stop(&h);
}

static void udp_that_goes_both_ways_for_two_seconds_lives_longer(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	udp(&h, 1, false, 0);
	const struct base_packet *reply = udp(&h, 1, true, S);
	assert_int_equal(reply->conn_flags, BASE_CONN_REPLY);
	assert_int_equal(harness_state(&h, reply), CONNTRACK_STATE_UDP_REPLIED);
	/* Two seconds, and not a whole millisecond more. */
	reply = udp(&h, 1, true, 2 * S + MS - 1);
	assert_int_equal(harness_state(&h, reply), CONNTRACK_STATE_UDP_REPLIED);
	reply = udp(&h, 1, true, 2 * S + MS);
	assert_int_equal(harness_state(&h, reply), CONNTRACK_STATE_UDP_STREAM);
	conntrack_advance(h.tracker, 122 * S + MS - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	conntrack_advance(h.tracker, 122 * S + MS, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);

	/* A packet older than the connection makes no stream. */
	udp(&h, 2, false, 200 * S);
	udp(&h, 2, true, 200 * S);
	reply = udp(&h, 2, true, 198 * S);
	assert_int_equal(harness_state(&h, reply), CONNTRACK_STATE_UDP_REPLIED);
	harness_stop(&h);
}

static void icmp_echo_and_its_reply_are_one_connection(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	struct packets_spec echo = packets_ip4(BASE_PROTOCOL_ICMP, 1, 77, 2, 1);
	echo.icmp_type = 8;
	const struct base_packet *packet = harness_send(&h, &echo, 0);
	assert_int_equal(packet->conn_flags, BASE_CONN_NEW);
	assert_int_equal(harness_state(&h, packet), CONNTRACK_STATE_ICMP);
	struct packets_spec reply = packets_reverse(&echo);
	assert_int_equal(harness_send(&h, &reply, MS)->conn_flags, BASE_CONN_REPLY);
	harness_stop(&h);
}

static void an_icmp_error_is_related_and_neither_refreshes_nor_creates(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t frame[512];
	harness_init(&h);
	harness_start(&h);
	struct packets_spec quoted = udp_spec(1);
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 0x01020304, 0, 0x0a000001, 0);
	error.icmp_type = 3;
	error.icmp_code = 3;
	size_t size = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 28);

	const struct base_packet *packet = harness_frame(&h, frame, size, size, 0);
	assert_int_equal(packet->conn, BASE_CONN_NONE);
	assert_int_equal(packet->conn_flags, 0);
	assert_int_equal(harness_stats(&h).inserted, 0);

	uint32_t conn = udp(&h, 1, false, S)->conn;
	packet = harness_frame(&h, frame, size, size, 20 * S);
	assert_int_equal(packet->conn, conn);
	assert_int_equal(packet->conn_flags, BASE_CONN_RELATED | BASE_CONN_REPLY);
	struct conntrack_conn seen;
	assert_int_equal(conntrack_conn_get(h.tracker, conn, &seen), 0);
	assert_int_equal(seen.last_seen_ns, S);
	assert_int_equal(seen.state, CONNTRACK_STATE_UDP_UNREPLIED);
	assert_int_equal(seen.packets, 1);
	/* The connection has expired: no error about it is related. */
	assert_int_equal(harness_frame(&h, frame, size, size, 31 * S)->conn, BASE_CONN_NONE);
	assert_int_equal(harness_stats(&h).related_packets, 1);
	harness_stop(&h);
}

static void later_fragments_follow_their_first_without_a_state_step(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t frame[512];
	harness_init(&h);
	harness_start(&h);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 1000, 2, 80);
	spec.tcp_flags = SYN;
	spec.payload_len = 44;
	spec.ip_id = 9;
	size_t size = packets_build_fragment(frame, sizeof(frame), &spec, 0, 32);
	uint32_t conn = harness_frame(&h, frame, size, size, 0)->conn;
	assert_int_not_equal(conn, BASE_CONN_NONE);
	size = packets_build_fragment(frame, sizeof(frame), &spec, 32, 32);
	const struct base_packet *later = harness_frame(&h, frame, size, size, S);
	assert_int_equal(later->conn, conn);
	assert_int_equal(harness_state(&h, later), CONNTRACK_STATE_TCP_SYN_SENT);

	/* Its first was never seen. */
	spec.ip_id = 10;
	size = packets_build_fragment(frame, sizeof(frame), &spec, 32, 32);
	const struct base_packet *orphan = harness_frame(&h, frame, size, size, S);
	assert_int_equal(harness_state(&h, orphan), CONNTRACK_STATE_GENERIC);
	harness_stop(&h);
}

static void a_header_cut_by_the_snapshot_refreshes_and_steps_nothing(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t frame[512];
	harness_init(&h);
	harness_start(&h);
	uint32_t conn = harness_client(&h, 1, SYN, 1, 0)->conn;
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0a010001, 1, 0x0a020002, 80);
	spec.tcp_flags = RST;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	const struct base_packet *cut = harness_frame(&h, frame, 14 + 20 + 8, size, 100 * S);
	assert_int_equal(cut->conn, conn);
	assert_int_equal(cut->conn_flags, 0);
	assert_int_equal(harness_state(&h, cut), CONNTRACK_STATE_TCP_SYN_SENT);
	/* 219 s after the SYN, 119 after the cut one. */
	assert_int_equal(harness_client(&h, 1, SYN, 1, 219 * S)->conn_flags, 0);
	/* Without a connection it is a pickup. */
	spec.source_port = 2;
	size = packets_build(frame, sizeof(frame), &spec);
	cut = harness_frame(&h, frame, 14 + 20 + 8, size, 219 * S);
	assert_int_equal(harness_state(&h, cut), CONNTRACK_STATE_TCP_ESTABLISHED);
	harness_stop(&h);
}

static void invalid_packets_are_flagged_and_dropped_only_when_asked(void **unused)
{
	(void)unused;
	for (int drop = 0; drop < 2; drop++) {
		struct harness h;
		harness_init(&h);
		h.config.drop_invalid = drop != 0;
		harness_start(&h);
		/* A stray RST makes no entry. */
		const struct base_packet *packet = harness_client(&h, 1, RST, 1, 0);
		assert_int_equal(packet->conn, BASE_CONN_NONE);
		assert_int_equal(packet->conn_flags, BASE_CONN_INVALID);
		assert_int_equal(
			packet->drop_reason, drop ? BASE_DROP_CONN_INVALID : BASE_DROP_NONE);
		uint32_t conn = harness_client(&h, 1, SYN, 1, 0)->conn;
		packet = harness_client(&h, 1, BASE_TCP_SYN | BASE_TCP_FIN, 1, 100 * S);
		assert_int_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags, BASE_CONN_INVALID);
		assert_int_equal(
			packet->drop_reason, drop ? BASE_DROP_CONN_INVALID : BASE_DROP_NONE);
		assert_int_equal(harness_stats(&h).invalid_packets, 2);
		/* It did not refresh. */
		conntrack_advance(h.tracker, 120 * S, UINT32_MAX);
		assert_int_equal(harness_stats(&h).live, 0);
		harness_stop(&h);
	}
}

static void a_packet_older_than_the_last_one_neither_expires_nor_ages_it(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint32_t conn = udp(&h, 1, false, 100 * S)->conn;
	assert_int_equal(udp(&h, 1, false, 10 * S)->conn, conn);
	assert_int_equal(udp(&h, 1, false, 130 * S - 1)->conn, conn);
	assert_int_equal(harness_stats(&h).inserted, 1);
	harness_stop(&h);
}

static void a_full_table_refuses_in_constant_time_and_reclaims_what_is_due(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 100;
	harness_start(&h);
	for (uint32_t i = 0; i < 100; i++)
		udp(&h, i, false, 0);
	assert_int_equal(udp(&h, 100, false, 0)->conn, BASE_CONN_NONE);
	/* The worker's budget was too small to remove more than one. */
	conntrack_advance(h.tracker, 31 * S, 1);
	assert_int_equal(harness_stats(&h).live, 99);
	assert_int_equal(udp(&h, 101, false, 31 * S)->conn_flags, BASE_CONN_NEW);
	assert_int_equal(udp(&h, 102, false, 31 * S)->conn_flags, BASE_CONN_NEW);
	assert_int_equal(harness_stats(&h).insert_failures, 1);
	harness_stop(&h);
}

static bool match_some(void *context, const struct conntrack_conn *conn, void *user)
{
	(void)user;
	return memcmp(conn->key.address[0], context, 4) == 0;
}

static void purge_removes_what_matches(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t address[4] = { 10, 0, 0, 7 };
	harness_init(&h);
	harness_start(&h);
	for (uint32_t i = 0; i < 20; i++)
		udp(&h, i, false, 0);
	assert_int_equal(conntrack_purge(h.tracker, match_some, address), 1);
	harness_check(&h);
	assert_int_equal(conntrack_purge(h.tracker, NULL, NULL), 19);
	assert_int_equal(harness_stats(&h).purged, 20);
	struct conntrack_conn seen;
	assert_int_equal(conntrack_conn_get(h.tracker, 0, &seen), -ENOENT);
	assert_int_equal(conntrack_conn_get(h.tracker, 1u << 30, &seen), -ENOENT);
	harness_stop(&h);
}

static void impossible_configurations_are_refused(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	struct conntrack *tracker = NULL;
	struct conntrack_config config = h.config;
	config.entries_max = 0;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	config.entries_max = (1u << 28) + 1;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	config = h.config;
	config.tick_ns = 0;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	config = h.config;
	config.full_policy = (enum conntrack_full_policy)9;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	config = h.config;
	config.tcp_windows = (enum conntrack_tcp_windows)3;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	config = h.config;
	config.arena = NULL;
	assert_int_equal(conntrack_create(&tracker, &config), -EINVAL);
	assert_null(tracker);
	conntrack_destroy(NULL);
	harness_start(&h);
	harness_stop(&h);
}

static void user_memory_is_aligned_and_reported(void **unused)
{
	(void)unused;
	static const uint32_t sizes[] = { 0, 1, 16, 17, 48, 64, 65, 200 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
		struct harness h;
		harness_init(&h);
		h.config.user_bytes = sizes[i];
		h.config.entries_max = 1 << 16;
		harness_start(&h);
		udp(&h, 1, false, 0);
		uint32_t conn = udp(&h, 2, false, 0)->conn;
		uintptr_t at = (uintptr_t)conntrack_user(h.tracker, conn);
		assert_int_equal(at % (sizes[i] >= 64 ? 64 : 16), 0);
		assert_int_equal(at != 0, sizes[i] != 0);
		struct conntrack_stats stats = harness_stats(&h);
		assert_true(stats.bytes_per_entry > 64 + sizes[i]);
		assert_true(stats.bytes_per_entry < 190 + sizes[i] + 64);
		harness_stop(&h);
	}
}

/* The table is filled to 80 % whatever their number is; 185 KB are for none in particular. */
static void a_connection_takes_96_bytes_at_most(void **unused)
{
	(void)unused;
	static const uint32_t sizes[] = { 200000, 209715, 209716, 262144, 262145, 333333 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
		struct harness h;
		harness_init(&h);
		h.config.user_bytes = 0;
		h.config.entries_max = sizes[i];
		harness_start(&h);
		double bytes = harness_stats(&h).bytes_per_entry;
		if (bytes > 96)
			fail_msg("%u entries: %.2f bytes for each", sizes[i], bytes);
		harness_stop(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_connection_with_index_zero_is_like_any_other),
		cmocka_unit_test(entries_expire_at_any_age_and_date),
		cmocka_unit_test(an_expired_connections_next_packet_begins_a_new_one),
		cmocka_unit_test(reused_entries_are_found_and_lose_no_other),
		cmocka_unit_test(awkward_ticks_and_timeouts_leak_nothing),
		cmocka_unit_test(a_timeout_of_zero_never_expires),
		cmocka_unit_test(a_close_shortens_the_timeout_at_once),
		cmocka_unit_test(every_state_has_its_own_timeout),
		cmocka_unit_test(an_unanswered_pickup_is_kept_300_s_and_an_answered_one_five_days),
		cmocka_unit_test(udp_that_goes_both_ways_for_two_seconds_lives_longer),
		cmocka_unit_test(icmp_echo_and_its_reply_are_one_connection),
		cmocka_unit_test(an_icmp_error_is_related_and_neither_refreshes_nor_creates),
		cmocka_unit_test(later_fragments_follow_their_first_without_a_state_step),
		cmocka_unit_test(a_header_cut_by_the_snapshot_refreshes_and_steps_nothing),
		cmocka_unit_test(invalid_packets_are_flagged_and_dropped_only_when_asked),
		cmocka_unit_test(a_packet_older_than_the_last_one_neither_expires_nor_ages_it),
		cmocka_unit_test(a_full_table_refuses_in_constant_time_and_reclaims_what_is_due),
		cmocka_unit_test(purge_removes_what_matches),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(user_memory_is_aligned_and_reported),
		cmocka_unit_test(a_connection_takes_96_bytes_at_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
