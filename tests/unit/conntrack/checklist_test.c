/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of the checklist in docs/conntrack-semantics.md that a script cannot say. */
#include "tests/unit/conntrack/harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CLIENT = 0x0a010001, SERVER = 0x0a020002 };

static const struct base_packet *udp(
	struct harness *h, uint32_t from, uint16_t from_port, uint32_t to, uint16_t to_port)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, from, from_port, to, to_port);
	return harness_send(h, &spec, S);
}

/* ---- keys and direction ---- */

static void equal_addresses_are_told_apart_by_port(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	for (int swapped = 0; swapped < 2; swapped++) {
		uint16_t opener = swapped ? 9 : 5, peer = swapped ? 5 : 9;
		uint32_t host = CLIENT + (uint32_t)swapped;
		uint32_t conn = udp(&h, host, opener, host, peer)->conn;
		const struct base_packet *reply = udp(&h, host, peer, host, opener);
		assert_int_equal(reply->conn, conn);
		assert_int_equal(reply->conn_flags, BASE_CONN_REPLY);
		assert_int_equal(udp(&h, host, opener, host, peer)->conn_flags, 0);
	}
	harness_stop(&h);
}

/* A socket that is connected to itself: all packets look alike, so all are the opener's. */
static void a_connection_to_itself_has_one_direction(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint32_t conn = udp(&h, CLIENT, 7, CLIENT, 7)->conn;
	for (int i = 0; i < 3; i++) {
		const struct base_packet *packet = udp(&h, CLIENT, 7, CLIENT, 7);
		assert_int_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags, 0);
		assert_int_equal(harness_state(&h, packet), CONNTRACK_STATE_UDP_UNREPLIED);
	}
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 7, CLIENT, 7);
	spec.tcp_flags = SYN;
	conn = harness_send(&h, &spec, S)->conn;
	spec.tcp_flags = SYN_ACK;
	const struct base_packet *packet = harness_send(&h, &spec, S);
	assert_int_equal(packet->conn, conn);
	assert_int_equal(packet->conn_flags, BASE_CONN_INVALID);
	harness_stop(&h);
}

static void an_all_zero_key_is_a_key(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint32_t conn = udp(&h, 0, 0, 0, 0)->conn;
	assert_int_not_equal(conn, BASE_CONN_NONE);
	assert_int_equal(udp(&h, 0, 0, 0, 0)->conn, conn);
	assert_int_equal(harness_stats(&h).inserted, 1);
	harness_stop(&h);
}

static const struct base_packet *tagged(
	struct harness *h, uint16_t outer, uint16_t inner, bool reversed)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1000, SERVER, 53);
	if (reversed)
		spec = packets_reverse(&spec);
	spec.tags[0] = (struct packets_tag){ 0x88a8, outer };
	spec.tags[1] = (struct packets_tag){ 0x8100, inner };
	spec.tags_count = 2;
	return harness_send(h, &spec, S);
}

static void vlans_are_zones_when_asked_for(void **unused)
{
	(void)unused;
	for (int zones = 0; zones < 2; zones++) {
		struct harness h;
		harness_init(&h);
		h.parse.zone_source = zones ? BASE_ZONE_VLAN : BASE_ZONE_NONE;
		harness_start(&h);
		uint32_t conn = tagged(&h, 10, 1, false)->conn;
		assert_int_equal(tagged(&h, 10, 1, true)->conn, conn);
		assert_int_equal(tagged(&h, 20, 1, false)->conn == conn, !zones);
		assert_int_equal(harness_stats(&h).inserted, zones ? 2 : 1);
		harness_stop(&h);
	}
}

/* Two tenants, each with a parser of its own. */
static void equal_tuples_in_two_zones_are_two_connections(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.parse.zone = 1;
	harness_start(&h);
	uint32_t first = udp(&h, CLIENT, 1, SERVER, 2)->conn;
	base_parser_destroy(h.parser);
	h.parse.zone = 2;
	assert_int_equal(base_parser_create(&h.parser, &h.parse), 0);
	const struct base_packet *other = udp(&h, SERVER, 2, CLIENT, 1);
	assert_int_not_equal(other->conn, first);
	assert_int_equal(other->conn_flags, BASE_CONN_NEW);
	harness_stop(&h);
}

static const struct base_packet *in_vxlan(struct harness *h, uint16_t inner_port)
{
	uint8_t payload[256] = { 0x08 }, frame[512];
	struct packets_spec inner = packets_ip4(BASE_PROTOCOL_UDP, 1, inner_port, 2, 53);
	struct packets_spec outer = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 50000, SERVER, 4789);
	outer.payload_len = (uint16_t)(8 + packets_build(payload + 8, 248, &inner));
	outer.payload = payload;
	size_t size = packets_build(frame, sizeof(frame), &outer);
	return harness_frame(h, frame, size, size, S);
}

static void tunnels_are_keyed_outside_or_inside(void **unused)
{
	(void)unused;
	for (int inner = 0; inner < 2; inner++) {
		struct harness h;
		harness_init(&h);
		h.parse.inner = inner != 0;
		harness_start(&h);
		uint32_t conn = in_vxlan(&h, 1)->conn;
		assert_int_equal(in_vxlan(&h, 2)->conn == conn, !inner);
		harness_stop(&h);
	}
}

/* ---- what begins nothing ---- */

/* Through the parser, which refuses it: no entry. */
static void refused(struct harness *h, const uint8_t *frame, size_t cap_len, size_t wire_len)
{
	struct base_packet *packet =
		packets_pool_set(&h->pool, 0, BASE_LINK_ETHERNET, frame, cap_len, wire_len, S);
	struct base_burst burst = { .count = 1, .packets = { packet } };
	base_parse_burst(h->parser, &burst, false);
	assert_int_not_equal(packet->drop_reason, BASE_DROP_NONE);
	conntrack_process_burst(h->tracker, &burst);
	assert_int_equal(packet->conn, BASE_CONN_NONE);
	assert_int_equal(harness_stats(h).inserted, 0);
}

static void malformed_packets_begin_no_connection(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t frame[256];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 1, SERVER, 2);
	spec.tcp_flags = SYN;
	harness_init(&h);
	harness_start(&h);
	size_t size = packets_build(frame, sizeof(frame), &spec);
	frame[14] = 0x44; /* a header of 16 bytes */
	refused(&h, frame, size, size);
	packets_build(frame, sizeof(frame), &spec);
	frame[16] = 0;
	frame[17] = 19; /* total length below the header's */
	refused(&h, frame, size, size);
	packets_build(frame, sizeof(frame), &spec);
	refused(&h, frame, 14 + 20 + 3, 14 + 20 + 3); /* TCP cut on the wire */
	packets_build(frame, sizeof(frame), &spec);
	frame[14 + 20 + 12] = 0x40; /* data offset of 4 words */
	refused(&h, frame, size, size);
	harness_stop(&h);
}

static void ip_options_change_nothing(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 2);
	uint32_t conn = harness_send(&h, &spec, S)->conn;
	spec.ip_options_len = 40;
	assert_int_equal(harness_send(&h, &spec, S)->conn, conn);
	harness_stop(&h);
}

/* Ethernet pads a bare ACK by six bytes, which are no data. */
static void padding_is_no_payload(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.tcp_windows = CONNTRACK_TCP_WINDOWS_STRICT;
	harness_start(&h);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 1, SERVER, 80);
	spec.tcp_flags = SYN;
	spec.seq = 1000;
	harness_send(&h, &spec, S);
	struct packets_spec back = packets_reverse(&spec);
	back.tcp_flags = SYN_ACK;
	back.seq = 5000;
	back.ack = 1001;
	harness_send(&h, &back, S);
	spec.tcp_flags = ACK;
	spec.seq = 1001;
	spec.ack = 5001;
	spec.frame_min = 60;
	harness_send(&h, &spec, S);
	back.tcp_flags = ACK;
	back.seq = 5001;
	back.ack = 1002; /* nothing was sent */
	assert_int_equal(
		harness_send(&h, &back, S)->conn_flags, BASE_CONN_INVALID | BASE_CONN_REPLY);
	assert_int_equal(harness_stats(&h).out_of_window_packets, 1);
	harness_stop(&h);
}

/* ---- ICMP ---- */

static void many_hosts_may_use_one_identifier(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	for (uint32_t i = 0; i < 300; i++) {
		struct packets_spec echo =
			packets_ip4(BASE_PROTOCOL_ICMP, CLIENT + i, 1, SERVER, 1);
		struct packets_spec reply = packets_reverse(&echo);
		uint32_t conn = harness_send(&h, &echo, S)->conn;
		const struct base_packet *packet = harness_send(&h, &reply, S);
		assert_int_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags, BASE_CONN_REPLY);
	}
	assert_int_equal(harness_stats(&h).inserted, 300);
	harness_stop(&h);
}

struct error {
	uint8_t family, type, code;
};

static const struct base_packet *send_error(struct harness *h, const struct error *error,
	const struct packets_spec *quoted, uint32_t to, size_t quoted_len)
{
	uint8_t frame[512];
	struct packets_spec spec = error->family == 6
					   ? packets_ip6(BASE_PROTOCOL_ICMP6, 0x99, 0, to, 0)
					   : packets_ip4(BASE_PROTOCOL_ICMP, 0x09090909, 0, to, 0);
	spec.icmp_type = error->type;
	spec.icmp_code = error->code;
	size_t size = packets_build_icmp_error(frame, sizeof(frame), &spec, quoted, quoted_len);
	return harness_frame(h, frame, size, size, 2 * S);
}

static void every_kind_of_icmp_error_is_related(void **unused)
{
	(void)unused;
	static const struct error errors[] = { { 4, 3, 1 }, { 4, 3, 4 }, { 4, 4, 0 }, { 4, 5, 0 },
		{ 4, 11, 0 }, { 4, 12, 0 }, { 6, 1, 0 }, { 6, 2, 0 }, { 6, 3, 0 }, { 6, 4, 0 } };
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(errors); i++) {
		bool ip6 = errors[i].family == 6;
		struct packets_spec spec =
			ip6 ? packets_ip6(BASE_PROTOCOL_UDP, CLIENT, (uint16_t)i, SERVER, 53)
			    : packets_ip4(BASE_PROTOCOL_UDP, CLIENT, (uint16_t)i, SERVER, 53);
		uint32_t conn = harness_send(&h, &spec, S)->conn;
		size_t least = ip6 ? 48 : 28;
		const struct base_packet *packet = send_error(&h, &errors[i], &spec, CLIENT, least);
		assert_int_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags, BASE_CONN_RELATED | BASE_CONN_REPLY);
		/* One byte less, and nobody can tell what it is about. */
		packet = send_error(&h, &errors[i], &spec, CLIENT, least - 1);
		assert_int_not_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags & BASE_CONN_RELATED, 0);
	}
	assert_int_equal(harness_stats(&h).related_packets, BASE_ARRAY_COUNT(errors));
	harness_stop(&h);
}

static void an_icmp_error_on_its_way_to_somebody_else_is_invalid(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct error error = { family, family == 6 ? 1 : 3, 0 };
		struct packets_spec spec =
			family == 6 ? packets_ip6(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 53)
				    : packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 53);
		uint32_t conn = harness_send(&h, &spec, S)->conn;
		const struct base_packet *packet = send_error(&h, &error, &spec, CLIENT + 1, 48);
		assert_int_equal(packet->conn, conn);
		assert_int_equal(packet->conn_flags, BASE_CONN_INVALID | BASE_CONN_REPLY);
	}
	assert_int_equal(harness_stats(&h).related_packets, 0);
	assert_int_equal(harness_stats(&h).invalid_packets, 2);
	harness_stop(&h);
}

static void an_icmpv6_error_may_quote_extension_headers(void **unused)
{
	(void)unused;
	/* hop-by-hop, destination options, atomic fragment */
	static const uint8_t headers[] = { 60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0,
		BASE_PROTOCOL_UDP, 0, 0, 0, 0, 0, 0, 1 };
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 53);
	spec.ip6_headers = headers;
	spec.ip6_headers_len = sizeof(headers);
	spec.ip6_first_header = 0;
	uint32_t conn = harness_send(&h, &spec, S)->conn;
	struct error too_big = { 6, 2, 0 };
	const struct base_packet *packet = send_error(&h, &too_big, &spec, CLIENT, 40 + 24 + 8);
	assert_int_equal(packet->conn, conn);
	assert_int_equal(packet->conn_flags, BASE_CONN_RELATED | BASE_CONN_REPLY);
	packet = send_error(&h, &too_big, &spec, CLIENT, 40 + 24 + 7);
	assert_int_not_equal(packet->conn, conn);
	harness_stop(&h);
}

/* ---- fragments ---- */

static void a_fragment_before_its_first_is_nobodys(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t frame[512];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 1, SERVER, 53);
	spec.payload_len = 64;
	spec.ip_id = 7;
	harness_init(&h);
	harness_start(&h);
	size_t size = packets_build_fragment(frame, sizeof(frame), &spec, 48, 24);
	const struct base_packet *early = harness_frame(&h, frame, size, size, S);
	uint32_t orphan = early->conn;
	assert_int_equal(harness_state(&h, early), CONNTRACK_STATE_GENERIC);
	size = packets_build_fragment(frame, sizeof(frame), &spec, 0, 24);
	const struct base_packet *first = harness_frame(&h, frame, size, size, S);
	uint32_t conn = first->conn;
	assert_int_not_equal(conn, orphan);
	assert_int_equal(harness_state(&h, first), CONNTRACK_STATE_UDP_UNREPLIED);
	size = packets_build_fragment(frame, sizeof(frame), &spec, 24, 24);
	assert_int_equal(harness_frame(&h, frame, size, size, S)->conn, conn);
	/* An hour later the identification may be another datagram's. */
	size = packets_build_fragment(frame, sizeof(frame), &spec, 24, 24);
	assert_int_not_equal(harness_frame(&h, frame, size, size, 3600 * S)->conn, conn);
	harness_stop(&h);
}

/* ---- asymmetric by nature ---- */

/* The offer comes from the server's address to the broadcast address; an mDNS answer is unicast. */
static void broadcast_and_multicast_answers_are_connections_of_their_own(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint32_t discover = udp(&h, 0, 68, 0xffffffff, 67)->conn;
	const struct base_packet *offer = udp(&h, SERVER, 67, 0xffffffff, 68);
	assert_int_not_equal(offer->conn, discover);
	assert_int_equal(offer->conn_flags, BASE_CONN_NEW);
	uint32_t question = udp(&h, CLIENT, 5353, 0xe00000fb, 5353)->conn;
	assert_int_not_equal(udp(&h, SERVER, 5353, CLIENT, 5353)->conn, question);
	harness_stop(&h);
}

/* ---- timeouts ---- */

static void timeouts_change_while_it_runs(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	harness_start(&h);
	uint64_t timeout_ns[CONNTRACK_STATES_COUNT];
	memcpy(timeout_ns, h.config.timeout_ns, sizeof(timeout_ns));
	udp(&h, CLIENT, 1, SERVER, 2); /* at 1 s */
	timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = 5 * S;
	assert_int_equal(conntrack_set_timeouts(h.tracker, timeout_ns, 0), 0);
	harness_check(&h);
	conntrack_advance(h.tracker, 6 * S - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	conntrack_advance(h.tracker, 6 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);

	/* Longer, and without end. */
	harness_client(&h, 1, ACK, 1, 10 * S);
	timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED] = 1000 * S;
	assert_int_equal(conntrack_set_timeouts(h.tracker, timeout_ns, 0), 0);
	conntrack_advance(h.tracker, 1010 * S - 1, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED] = 0;
	assert_int_equal(conntrack_set_timeouts(h.tracker, timeout_ns, 0), 0);
	conntrack_advance(h.tracker, 900000 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 1);
	timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED] = 1;
	assert_int_equal(conntrack_set_timeouts(h.tracker, timeout_ns, 0), 0);
	harness_check(&h);
	conntrack_advance(h.tracker, 900001 * S, UINT32_MAX);
	assert_int_equal(harness_stats(&h).live, 0);
	harness_stop(&h);
}

/* ---- removal inside a burst ---- */

/* SYN, RST of the server, SYN again, SYN-ACK: in one burst. */
static void a_refused_connection_is_gone_within_its_burst(void **unused)
{
	(void)unused;
	static const struct {
		uint8_t flags;
		bool reply;
		uint32_t seq;
	} packets[] = { { SYN, false, 1000 }, { RST, true, 0 }, { SYN, false, 1000 },
		{ SYN_ACK, true, 5000 } };
	for (int separately = 0; separately < 2; separately++) {
		struct harness h;
		struct packets_pool pool;
		struct base_burst burst = { .count = BASE_ARRAY_COUNT(packets) };
		harness_init(&h);
		h.config.no_runs = separately != 0;
		harness_start(&h);
		packets_pool_init(&pool, BASE_ARRAY_COUNT(packets));
		for (unsigned int i = 0; i < BASE_ARRAY_COUNT(packets); i++) {
			struct packets_spec spec =
				packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 1, SERVER, 80);
			spec.tcp_flags = packets[i].flags;
			spec.seq = packets[i].seq;
			if (packets[i].reply)
				spec = packets_reverse(&spec);
			burst.packets[i] = packets_pool_build(&pool, i, &spec, S);
		}
		base_parse_burst(h.parser, &burst, false);
		conntrack_process_burst(h.tracker, &burst);
		assert_int_equal(pool.packets[0].conn_flags, BASE_CONN_NEW);
		assert_int_equal(pool.packets[1].conn, pool.packets[0].conn);
		assert_int_equal(pool.packets[1].conn_flags, BASE_CONN_REPLY | BASE_CONN_CLOSING);
		assert_int_equal(pool.packets[2].conn_flags, BASE_CONN_NEW);
		assert_int_not_equal(pool.packets[2].conn, pool.packets[0].conn);
		assert_int_equal(pool.packets[3].conn, pool.packets[2].conn);
		assert_int_equal(h.removed, 0); /* the chain has yet to see the burst */
		harness_check(&h);
		assert_int_equal(h.removed, 1);
		assert_int_equal(harness_stats(&h).closed, 1);
		packets_pool_release(&pool);
		harness_stop(&h);
	}
}

/* ---- pressure ---- */

static bool of_backend(void *context, const struct conntrack_conn *conn, void *user)
{
	(void)conn;
	return memcmp(user, context, 1) == 0;
}

/* A backend goes: its connections leave a few at a time, while packets of the others pass. */
static void a_backend_is_purged_in_steps(void **unused)
{
	(void)unused;
	struct harness h;
	uint8_t gone = 3;
	harness_init(&h);
	harness_start(&h);
	for (uint32_t i = 0; i < 800; i++) {
		uint8_t *user = conntrack_user(h.tracker, udp(&h, CLIENT + i, 1, SERVER, 2)->conn);
		*user = (uint8_t)(i % 8);
	}
	uint32_t from = 0, steps = 0;
	do {
		uint64_t before = harness_stats(&h).purged;
		from = conntrack_purge_step(h.tracker, from, 50, of_backend, &gone);
		assert_true(harness_stats(&h).purged - before <= 50);
		udp(&h, CLIENT + steps % 3, 1, SERVER, 2);
		steps++;
	} while (from != 0);
	assert_int_equal(harness_stats(&h).purged, 100);
	assert_int_equal(harness_stats(&h).live, 700);
	assert_true(steps >= 1024 / 50);
	harness_stop(&h);
}

/* However often it fails: a bounded number of looks, and no walk through the table. */
static void a_refused_insertion_looks_at_little(void **unused)
{
	(void)unused;
	for (int policy = 0; policy <= CONNTRACK_FULL_EVICT_TRANSIENT; policy++) {
		struct harness h;
		harness_init(&h);
		h.config.full_policy = (enum conntrack_full_policy)policy;
		harness_start(&h);
		for (uint16_t i = 0; i < 1024; i++) {
			harness_client(&h, i, ACK, 1, S);
			harness_server(&h, i, ACK, 1, S);
		}
		conntrack_advance(h.tracker, 2 * S, UINT32_MAX);
		struct conntrack_stats before = harness_stats(&h);
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(udp(&h, CLIENT + i, 1, SERVER, 2)->conn, BASE_CONN_NONE);
		struct conntrack_stats after = harness_stats(&h);
		assert_int_equal(after.insert_failures - before.insert_failures, 1000);
		assert_true(after.timers_fired - before.timers_fired <= 8 * 1000);
		assert_int_equal(after.live, 1024);
		harness_stop(&h);
	}
}

/* Established connections are never evicted, half-open ones first, then those that never had an
 * answer. */
static void eviction_has_an_order(void **unused)
{
	(void)unused;
	struct harness h;
	harness_init(&h);
	h.config.entries_max = 3;
	h.config.full_policy = CONNTRACK_FULL_EVICT_TRANSIENT;
	harness_start(&h);
	harness_client(&h, 1, ACK, 1, S);
	uint32_t open = harness_server(&h, 1, ACK, 1, S)->conn;
	udp(&h, CLIENT, 9, SERVER, 9);
	harness_client(&h, 2, SYN, 1, S);
	/* The half-open one is as old as the other: it goes. */
	harness_client(&h, 3, SYN, 1, 2 * S);
	assert_int_equal(udp(&h, CLIENT, 9, SERVER, 9)->conn_flags, 0);
	/* Two transient ones are left; both go before the open one. */
	for (uint16_t port = 10; port < 20; port++)
		assert_true(harness_client(&h, port, SYN, 1, 3 * S)->conn_flags & BASE_CONN_NEW);
	assert_int_equal(harness_client(&h, 1, ACK, 1, 3 * S)->conn, open);
	assert_int_equal(harness_stats(&h).live, 3);
	harness_stop(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_addresses_are_told_apart_by_port),
		cmocka_unit_test(a_connection_to_itself_has_one_direction),
		cmocka_unit_test(an_all_zero_key_is_a_key),
		cmocka_unit_test(vlans_are_zones_when_asked_for),
		cmocka_unit_test(equal_tuples_in_two_zones_are_two_connections),
		cmocka_unit_test(tunnels_are_keyed_outside_or_inside),
		cmocka_unit_test(malformed_packets_begin_no_connection),
		cmocka_unit_test(ip_options_change_nothing),
		cmocka_unit_test(padding_is_no_payload),
		cmocka_unit_test(many_hosts_may_use_one_identifier),
		cmocka_unit_test(every_kind_of_icmp_error_is_related),
		cmocka_unit_test(an_icmp_error_on_its_way_to_somebody_else_is_invalid),
		cmocka_unit_test(an_icmpv6_error_may_quote_extension_headers),
		cmocka_unit_test(a_fragment_before_its_first_is_nobodys),
		cmocka_unit_test(broadcast_and_multicast_answers_are_connections_of_their_own),
		cmocka_unit_test(timeouts_change_while_it_runs),
		cmocka_unit_test(a_refused_connection_is_gone_within_its_burst),
		cmocka_unit_test(a_backend_is_purged_in_steps),
		cmocka_unit_test(a_refused_insertion_looks_at_little),
		cmocka_unit_test(eviction_has_an_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
