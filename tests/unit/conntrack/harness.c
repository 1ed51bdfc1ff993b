/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/conntrack/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct harness *harness = context;
	(void)user;
	harness->removed++;
	harness->removed_conn = conn;
}

void harness_init(struct harness *harness)
{
	memset(harness, 0, sizeof(*harness));
	assert_int_equal(base_arena_create(&harness->arena, false), 0);
	conntrack_config_defaults(&harness->config);
	base_parse_config_defaults(&harness->parse);
	harness->config.entries_max = 1024;
	harness->config.user_bytes = 16;
	harness->config.tick_ns = MS;
	harness->config.arena = harness->arena;
	harness->config.on_remove = on_remove;
	harness->config.on_remove_context = harness;
}

void harness_start(struct harness *harness)
{
	assert_int_equal(base_parser_create(&harness->parser, &harness->parse), 0);
	assert_int_equal(conntrack_create(&harness->tracker, &harness->config), 0);
	packets_pool_init(&harness->pool, 1);
}

void harness_stop(struct harness *harness)
{
	harness_check(harness);
	packets_pool_release(&harness->pool);
	conntrack_destroy(harness->tracker);
	base_parser_destroy(harness->parser);
	base_arena_destroy(harness->arena);
}

const struct base_packet *harness_process(struct harness *harness, struct base_packet *packet)
{
	struct base_burst burst = { .count = 1, .packets = { packet } };
	base_parse_burst(harness->parser, &burst, false);
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	conntrack_process_burst(harness->tracker, &burst);
	return packet;
}

const struct base_packet *harness_frame(struct harness *harness, const uint8_t *frame,
	size_t cap_len, size_t wire_len, uint64_t time_ns)
{
	return harness_process(harness, packets_pool_set(&harness->pool, 0, BASE_LINK_ETHERNET,
						frame, cap_len, wire_len, time_ns));
}

const struct base_packet *harness_send(
	struct harness *harness, const struct packets_spec *spec, uint64_t time_ns)
{
	return harness_process(harness, packets_pool_build(&harness->pool, 0, spec, time_ns));
}

static struct packets_spec tcp_spec(uint16_t port, uint8_t flags, uint32_t seq)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0a010001, port, 0x0a020002, 80);
	spec.tcp_flags = flags;
	spec.seq = seq;
	return spec;
}

const struct base_packet *harness_client(
	struct harness *harness, uint16_t port, uint8_t flags, uint32_t seq, uint64_t time_ns)
{
	struct packets_spec spec = tcp_spec(port, flags, seq);
	return harness_send(harness, &spec, time_ns);
}

const struct base_packet *harness_server(
	struct harness *harness, uint16_t port, uint8_t flags, uint32_t seq, uint64_t time_ns)
{
	struct packets_spec forward = tcp_spec(port, flags, seq);
	struct packets_spec spec = packets_reverse(&forward);
	return harness_send(harness, &spec, time_ns);
}

struct conntrack_stats harness_stats(const struct harness *harness)
{
	struct conntrack_stats stats;
	conntrack_stats(harness->tracker, &stats);
	return stats;
}

enum conntrack_state harness_state(const struct harness *harness, const struct base_packet *packet)
{
	struct conntrack_conn conn;
	if (packet->conn == BASE_CONN_NONE ||
		conntrack_conn_get(harness->tracker, packet->conn, &conn) != 0)
		return CONNTRACK_STATE_NONE;
	return conn.state;
}

void harness_check(const struct harness *harness)
{
	char message[256] = "";
	/* What the last burst removed is told by the next call. */
	conntrack_advance(harness->tracker, 0, 0);
	if (conntrack_check(harness->tracker, message, sizeof(message)) != 0)
		fail_msg("%s", message);
	struct conntrack_stats stats = harness_stats(harness);
	assert_int_equal(stats.inserted,
		stats.live + stats.expired + stats.closed + stats.evicted + stats.purged);
	assert_int_equal(stats.inserted - stats.live, harness->removed);
}
