/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any sequence of packets, times and timers through a small tracker: no crash, structures sound,
 * books balanced. Twelve bytes configure it; then eight bytes per packet: flow, two of packet
 * flags, TCP flags, sequence number, two of time step (mantissa, exponent), and what comes next
 * (bit 7: the burst ends; then bits 0..2: advance, finish, purge, check).
 */
#include "base/burst.h"
#include "conntrack/conntrack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONFIG_SIZE = 12, STEP_SIZE = 8, L4 = 40, HEADER = L4 + 40 };

struct world {
	struct conntrack *tracker;
	struct base_burst burst;
	struct base_packet packets[BASE_BURST_MAX];
	uint8_t headers[BASE_BURST_MAX][HEADER];
	uint64_t now_ns;
	uint64_t removed;
};

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct world *world = context;
	(void)conn;
	require(user == NULL || *(uint8_t *)user < 2, "user memory of another");
	world->removed++;
}

static void check(const struct world *world)
{
	char message[256] = "";
	struct conntrack_stats stats;
	/* What the last burst removed is told by the next call. */
	conntrack_advance(world->tracker, 0, 0);
	require(conntrack_check(world->tracker, message, sizeof(message)) == 0, message);
	conntrack_stats(world->tracker, &stats);
	require(stats.inserted - stats.live == world->removed, "removals are not told");
}

static void configure(
	struct conntrack_config *config, struct base_arena *arena, const uint8_t *bytes)
{
	conntrack_config_defaults(config);
	config->arena = arena;
	config->entries_max = 1 + bytes[0];
	config->half_open_max = bytes[1];
	config->tick_ns = UINT64_C(1000) << bytes[2] % 24;
	config->full_policy = (enum conntrack_full_policy)(bytes[3] % 3);
	config->tcp_windows = (enum conntrack_tcp_windows)(bytes[3] / 3 % 3);
	config->tcp_pickup = (bytes[4] & 1) != 0;
	config->drop_invalid = (bytes[4] & 2) != 0;
	config->no_prefetch = (bytes[4] & 4) != 0;
	config->no_dedup = (bytes[4] & 8) != 0;
	config->no_runs = (bytes[4] & 16) != 0;
	config->no_bulk = (bytes[4] & 32) != 0;
	config->user_bytes = bytes[5];
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT && (bytes[4] & 64) != 0; i++)
		config->timeout_ns[i] = ((uint64_t)bytes[6 + i % 6] << (i * 5 % 40)) + i % 2;
}

static void process(struct world *world)
{
	base_burst_mark_runs(&world->burst, false);
	conntrack_process_burst(world->tracker, &world->burst);
	for (unsigned int i = 0; i < world->burst.count; i++) {
		struct conntrack_conn conn;
		uint32_t index = world->packets[i].conn;
		if (index == BASE_CONN_NONE ||
			conntrack_conn_get(world->tracker, index, &conn) != 0)
			continue;
		uint8_t *user = conntrack_user(world->tracker, index);
		if (user != NULL)
			*user = 1;
	}
	world->burst.count = 0;
	world->burst.drop_count = 0;
}

/* Numbers near one another, so that windows are met and missed; lengths and options that are and
 * are not. */
static void fill_headers(uint8_t *header, const uint8_t *bytes)
{
	uint8_t *l4 = header + L4;
	memset(header, bytes[4], HEADER);
	memset(l4 + 4, 0, 8);
	l4[7] = bytes[4];
	l4[11] = bytes[5];
	l4[12] = bytes[6];
	l4[13] = bytes[3];
	l4[14] = 0;
	l4[15] = bytes[5] % 64;
	l4[20] = bytes[4] % 8;
	l4[21] = bytes[5] % 12;
}

static void add_packet(struct world *world, const uint8_t *bytes)
{
	unsigned int at = world->burst.count++;
	struct base_packet *packet = &world->packets[at];
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->key.family = 4;
	packet->key.port[0] = bytes[0];
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_TCP,
		BASE_PROTOCOL_UDP, BASE_PROTOCOL_ICMP, BASE_PROTOCOL_GRE, BASE_PROTOCOL_SCTP };
	packet->key.protocol = packet->protocol = protocols[bytes[0] % sizeof(protocols)];
	packet->hash = bytes[0] % 7u * UINT32_C(0x9e3779b1);
	packet->flags = (uint16_t)(bytes[1] | bytes[2] << 8);
	packet->tcp_flags = bytes[3];
	fill_headers(world->headers[at], bytes);
	packet->data = world->headers[at];
	packet->l4_offset = L4;
	packet->payload_len = bytes[5] % 32;
	packet->cap_len = packet->wire_len = HEADER - bytes[6] % 20;
	world->now_ns += (uint64_t)bytes[5] << bytes[6] % 56;
	packet->time_ns = world->now_ns;
	world->burst.packets[at] = packet;
}

static void between(struct world *world, uint8_t what)
{
	if (what & 1)
		conntrack_advance(world->tracker, world->now_ns, 1 + (what >> 3 & 15) * 8u);
	if (what & 2)
		conntrack_finish(world->tracker, world->now_ns);
	if ((what & 7) == 4)
		conntrack_purge(world->tracker, NULL, NULL);
	if (what & 4)
		check(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	struct conntrack_config config;
	struct base_arena *arena;
	if (size < CONFIG_SIZE || base_arena_create(&arena, false) != 0)
		return 0;
	memset(&world, 0, sizeof(world));
	configure(&config, arena, data);
	config.on_remove = on_remove;
	config.on_remove_context = &world;
	require(conntrack_create(&world.tracker, &config) == 0, "a valid configuration is refused");

	for (size_t at = CONFIG_SIZE; at + STEP_SIZE <= size; at += STEP_SIZE) {
		uint8_t what = data[at + STEP_SIZE - 1];
		add_packet(&world, data + at);
		if ((what & 0x80) == 0 && world.burst.count < BASE_BURST_MAX)
			continue;
		process(&world);
		between(&world, what);
	}
	process(&world);
	check(&world);
	conntrack_finish(world.tracker, UINT64_MAX);
	check(&world);
	conntrack_purge(world.tracker, NULL, NULL);
	check(&world);
	conntrack_destroy(world.tracker);
	base_arena_destroy(arena);
	return 0;
}
