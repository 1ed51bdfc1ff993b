/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floods of ten times the table's capacity, all within one timeout, between the packets of open
 * connections. Whatever floods, whatever the policy and the windows: each packet of an open
 * connection finds that connection, and nothing of it changes.
 */
#include "base/arena.h"
#include "base/rng.h"
#include "conntrack/conntrack.h"
#include "tests/model/conntrack/random_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
	CAPACITY = 1024,
	OPEN = 300,
	FLOOD = 10 * CAPACITY,
	BURST = 64,
	CLIENT_SEQ = 1000,
	SERVER_SEQ = 5000,
	L4 = 40,
};

#define GAP_NS UINT64_C(1000000) /* all of it lasts about twenty seconds */

enum kind {
	KIND_SYN,
	KIND_SYN_ACK,
	KIND_ACK,
	KIND_UDP,
	KIND_SPOOFED_SYN, /* of open connections, with other numbers */
	KIND_SPOOFED_RST, /* the same; only where windows are asked */
	KINDS_COUNT
};

struct world {
	struct base_rng rng;
	struct base_arena *arena;
	struct conntrack *tracker;
	struct conntrack_config config;
	uint64_t time_ns;
	uint32_t strangers;
	uint32_t conns[OPEN]; /* of the open connections */
	uint64_t checked;
	struct base_packet packets[BURST];
	uint8_t headers[BURST][RANDOM_HEADER_SIZE];
	uint32_t owner[BURST]; /* which open connection the packet is of; OPEN: none */
	struct base_burst burst;
};

static void store32(uint8_t *at, uint32_t value)
{
	for (unsigned int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Ever-new hosts and the open connections' are told apart by the first address byte. */
static struct base_packet *add(struct world *world, uint32_t host, bool stranger, uint8_t protocol)
{
	uint16_t at = world->burst.count++;
	struct base_packet *packet = &world->packets[at];
	static const struct base_hash_config hash = { .kind = BASE_HASH_CRC32C };
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->key.family = 4;
	packet->key.protocol = packet->protocol = protocol;
	memcpy(packet->key.address[0], &host, 4);
	packet->key.address[1][0] = stranger ? 9 : 8;
	packet->key.port[0] = 80;
	packet->hash = base_flow_key_hash(&packet->key, &hash);
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4 | BASE_PACKET_IP4;
	packet->data = world->headers[at];
	packet->l4_offset = L4;
	packet->cap_len = packet->wire_len = L4 + 20;
	packet->time_ns = world->time_ns;
	memset(world->headers[at], 0, RANDOM_HEADER_SIZE);
	world->owner[at] = OPEN;
	world->burst.packets[at] = packet;
	return packet;
}

static void set_tcp(
	struct base_packet *packet, bool reply, uint8_t flags, uint32_t seq, uint32_t ack)
{
	uint8_t *l4 = packet->data + L4;
	if (reply)
		packet->flags |= BASE_PACKET_REVERSED;
	packet->tcp_flags = flags;
	store32(l4 + 4, seq);
	store32(l4 + 8, ack);
	l4[12] = 5 << 4;
	l4[13] = flags;
	l4[14] = 0xff;
}

/* What was sent, and each packet of an open connection where it belongs. */
static void send(struct world *world)
{
	base_burst_mark_runs(&world->burst, false);
	conntrack_process_burst(world->tracker, &world->burst);
	for (uint16_t i = 0; i < world->burst.count; i++) {
		const struct base_packet *packet = world->burst.packets[i];
		if (world->owner[i] == OPEN)
			continue;
		assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
		assert_int_equal(packet->conn, world->conns[world->owner[i]]);
		assert_int_equal(packet->conn_flags & ~BASE_CONN_REPLY, 0);
		world->checked++;
	}
	conntrack_advance(world->tracker, world->time_ns, BURST);
	world->burst.count = 0;
	world->burst.drop_count = 0;
}

static void room(struct world *world)
{
	world->time_ns += GAP_NS;
	if (world->burst.count == BURST)
		send(world);
}

static void handshake(struct world *world, uint32_t host)
{
	set_tcp(add(world, host, false, BASE_PROTOCOL_TCP), false, BASE_TCP_SYN, CLIENT_SEQ, 0);
	set_tcp(add(world, host, false, BASE_PROTOCOL_TCP), true, BASE_TCP_SYN | BASE_TCP_ACK,
		SERVER_SEQ, CLIENT_SEQ + 1);
	set_tcp(add(world, host, false, BASE_PROTOCOL_TCP), false, BASE_TCP_ACK, CLIENT_SEQ + 1,
		SERVER_SEQ + 1);
	/* An RST is judged by what the other side has acknowledged. */
	set_tcp(add(world, host, false, BASE_PROTOCOL_TCP), true, BASE_TCP_ACK, SERVER_SEQ + 1,
		CLIENT_SEQ + 1);
	send(world);
	world->conns[host] = world->packets[0].conn;
	assert_int_not_equal(world->conns[host], BASE_CONN_NONE);
}

/* An ACK of one of the open connections. */
static void visit(struct world *world)
{
	uint32_t host = (uint32_t)base_rng_below(&world->rng, OPEN);
	bool reply = base_rng_below(&world->rng, 2) != 0;
	room(world);
	struct base_packet *packet = add(world, host, false, BASE_PROTOCOL_TCP);
	set_tcp(packet, reply, BASE_TCP_ACK, 1 + (reply ? SERVER_SEQ : CLIENT_SEQ),
		1 + (reply ? CLIENT_SEQ : SERVER_SEQ));
	world->owner[world->burst.count - 1] = host;
}

static void attack(struct world *world, enum kind kind)
{
	bool spoofed = kind >= KIND_SPOOFED_SYN;
	uint32_t host = spoofed ? (uint32_t)base_rng_below(&world->rng, OPEN) : world->strangers++;
	static const uint8_t flags[KINDS_COUNT] = { BASE_TCP_SYN, BASE_TCP_SYN | BASE_TCP_ACK,
		BASE_TCP_ACK, 0, BASE_TCP_SYN, BASE_TCP_RST };
	room(world);
	struct base_packet *packet = add(
		world, host, !spoofed, kind == KIND_UDP ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP);
	if (kind != KIND_UDP)
		set_tcp(packet, false, flags[kind], (uint32_t)base_rng_u64(&world->rng),
			(uint32_t)base_rng_u64(&world->rng));
}

static void open_world(struct world *world)
{
	assert_int_equal(base_arena_create(&world->arena, false), 0);
	world->config.arena = world->arena;
	assert_int_equal(conntrack_create(&world->tracker, &world->config), 0);
	world->time_ns = 1000 * GAP_NS;
	for (uint32_t host = 0; host < OPEN; host++)
		handshake(world, host);
}

static void close_world(struct world *world)
{
	conntrack_destroy(world->tracker);
	base_arena_destroy(world->arena);
}

static void check_sound(struct world *world)
{
	char message[160] = "";
	struct conntrack_stats stats;
	if (conntrack_check(world->tracker, message, sizeof(message)) != 0)
		fail_msg("%s", message);
	conntrack_stats(world->tracker, &stats);
	assert_true(stats.peak_live <= CAPACITY);
	assert_true(stats.peak_half_open <= CAPACITY / 2);
	assert_int_equal(stats.inserted,
		stats.live + stats.expired + stats.closed + stats.evicted + stats.purged);
	assert_int_equal(stats.expired, 0);
}

static void flood(
	enum kind kind, enum conntrack_full_policy policy, enum conntrack_tcp_windows windows)
{
	static struct world world;
	memset(&world, 0, sizeof(world));
	base_rng_seed(&world.rng, 100 * (uint64_t)kind + 10 * (uint64_t)policy + (uint64_t)windows);
	conntrack_config_defaults(&world.config);
	world.config.entries_max = CAPACITY;
	world.config.full_policy = policy;
	world.config.tcp_windows = windows;
	open_world(&world);
	for (unsigned int i = 0; i < FLOOD; i++) {
		attack(&world, kind);
		if (i % 2 == 0)
			visit(&world);
	}
	send(&world);
	assert_int_equal(world.checked, FLOOD / 2);
	check_sound(&world);
	struct conntrack_stats stats;
	conntrack_stats(world.tracker, &stats);
	assert_int_equal(stats.state_live[CONNTRACK_STATE_TCP_ESTABLISHED],
		kind == KIND_ACK ? CAPACITY : OPEN);
	close_world(&world);
}

static void open_connections_live_through_every_flood(void **unused)
{
	(void)unused;
	for (int kind = 0; kind < KINDS_COUNT; kind++)
		for (int policy = 0; policy <= CONNTRACK_FULL_EVICT_TRANSIENT; policy++)
			for (int windows = 0; windows <= CONNTRACK_TCP_WINDOWS_STRICT; windows++)
				/* Without windows nobody can tell a forged RST. */
				if (kind != KIND_SPOOFED_RST || windows != 0)
					flood((enum kind)kind, (enum conntrack_full_policy)policy,
						(enum conntrack_tcp_windows)windows);
}

/* A client comes in the middle of a SYN flood, and its packets have the flood between them. Where
 * the oldest half-open connection makes room it is tracked from its SYN on; otherwise from its ACK
 * on, by pickup, for it is no half-open one then. */
static void a_client_gets_through_a_syn_flood(void **unused)
{
	(void)unused;
	for (int policy = 0; policy <= CONNTRACK_FULL_EVICT_TRANSIENT; policy++) {
		static struct world world;
		bool evicts = policy == CONNTRACK_FULL_EVICT_TRANSIENT;
		static const uint8_t flags[] = { BASE_TCP_SYN, BASE_TCP_SYN | BASE_TCP_ACK,
			BASE_TCP_ACK, BASE_TCP_ACK };
		uint32_t conns[BASE_ARRAY_COUNT(flags)];
		memset(&world, 0, sizeof(world));
		conntrack_config_defaults(&world.config);
		world.config.entries_max = CAPACITY;
		world.config.full_policy = (enum conntrack_full_policy)policy;
		open_world(&world);
		for (unsigned int i = 0; i < FLOOD / 2; i++)
			attack(&world, KIND_SYN);
		for (unsigned int step = 0; step < BASE_ARRAY_COUNT(flags); step++) {
			for (unsigned int i = 0; i < CAPACITY / 8; i++)
				attack(&world, KIND_SYN);
			send(&world);
			struct base_packet *packet = add(&world, OPEN, false, BASE_PROTOCOL_TCP);
			set_tcp(packet, step % 2 != 0, flags[step],
				step % 2 != 0 ? SERVER_SEQ + (step > 1) : CLIENT_SEQ + (step > 0),
				step % 2 != 0 ? CLIENT_SEQ + 1 : SERVER_SEQ + 1);
			send(&world);
			conns[step] = packet->conn;
			assert_int_equal(packet->drop_reason != BASE_DROP_NONE,
				policy == CONNTRACK_FULL_DROP_NEW && step < 2);
		}
		for (unsigned int step = 0; step < 2; step++)
			assert_int_equal(conns[step] != BASE_CONN_NONE, evicts);
		struct conntrack_conn conn;
		assert_int_equal(conns[2], conns[3]);
		assert_int_equal(conntrack_conn_get(world.tracker, conns[3], &conn), 0);
		assert_int_equal(conn.state, CONNTRACK_STATE_TCP_ESTABLISHED);
		assert_true(conn.assured);
		assert_true(!evicts || conns[0] == conns[3]);
		check_sound(&world);
		close_world(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_connections_live_through_every_flood),
		cmocka_unit_test(a_client_gets_through_a_syn_flood),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
