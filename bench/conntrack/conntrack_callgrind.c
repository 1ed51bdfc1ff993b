/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fixed amount of traffic for scripts/callgrind_budgets.py, at 10 Mpps.
 *
 *	conntrack_callgrind hit RUN_LENGTH    packets of known TCP connections
 *	conntrack_callgrind churn             every packet opens a connection, one expires for each
 *	conntrack_callgrind windows HOW       data of both sides in turn; HOW: off, liberal, strict
 *
 * The connections of "hit" and "windows" are opened by the first bursts, which the counts include;
 * they are few.
 */
#include "base/rng.h"
#include "conntrack/conntrack.h"

#include <stdio.h>
#include <string.h>

enum { BURST = 32, BURSTS = 4000, FLOWS = 1024, GAP_NS = 100, LIVE = 4096, DATA = 100 };

static struct base_packet packets[BURST];
static uint8_t headers[BURST][20];

static void fill(struct base_packet *packet, uint32_t number, uint32_t flow, uint8_t protocol)
{
	uint64_t seed = flow;
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->time_ns = (uint64_t)number * GAP_NS;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4;
	if (number % 2 != 0)
		packet->flags |= BASE_PACKET_REVERSED;
	packet->data = headers[number % BURST];
	packet->cap_len = sizeof(headers[0]);
	packet->tcp_flags = BASE_TCP_ACK;
	packet->hash = (uint32_t)base_rng_splitmix64(&seed);
	packet->key.family = 4;
	packet->key.protocol = packet->protocol = protocol;
	memcpy(packet->key.address[0], &flow, sizeof(flow));
}

static void store32(uint8_t *at, uint32_t value)
{
	for (unsigned int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* A handshake, then data: each round is one packet of every connection. */
static void fill_segment(struct base_packet *packet, uint32_t number)
{
	uint32_t round = number / FLOWS, sent = round > 2 ? (round - 2) / 2 * DATA : 0;
	uint32_t before = round > 2 ? (round - 1) / 2 * DATA : 0;
	uint8_t *header = headers[number % BURST];
	static const uint8_t opening[] = { BASE_TCP_SYN, BASE_TCP_SYN | BASE_TCP_ACK };
	fill(packet, number, number % FLOWS, BASE_PROTOCOL_TCP);
	packet->flags &= (uint16_t)~BASE_PACKET_REVERSED;
	packet->flags |= round % 2 != 0 ? BASE_PACKET_REVERSED : 0;
	packet->tcp_flags = round < 2 ? opening[round] : BASE_TCP_ACK;
	packet->payload_len = round < 2 ? 0 : DATA;
	memset(header, 0, sizeof(headers[0]));
	store32(header + 4, round < 2 ? 1000 : 1001 + sent);
	store32(header + 8, round < 1 ? 0 : 1001 + before);
	header[12] = 5 << 4;
	header[14] = 0x40;
}

static bool read_windows(const char *text, enum conntrack_tcp_windows *windows)
{
	static const char *const names[] = { "off", "liberal", "strict" };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*windows = (enum conntrack_tcp_windows)i;
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	bool churn = argc > 1 && strcmp(argv[1], "churn") == 0;
	bool windows = argc > 2 && strcmp(argv[1], "windows") == 0;
	uint32_t run_length = argc > 2 && !windows ? (uint32_t)strtoul(argv[2], NULL, 10) : 1,
		 number = 0;
	struct conntrack_config config;
	struct conntrack *tracker;
	conntrack_config_defaults(&config);
	config.tick_ns = 100000;
	if (churn)
		config.timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = LIVE * GAP_NS;
	if (windows && !read_windows(argv[2], &config.tcp_windows))
		return 1;
	if (run_length == 0 || base_arena_create(&config.arena, false) != 0 ||
		conntrack_create(&tracker, &config) != 0)
		return 1;
	for (unsigned int i = 0; i < BURSTS; i++) {
		struct base_burst burst = { .count = BURST };
		for (unsigned int j = 0; j < BURST; j++, number++) {
			if (windows)
				fill_segment(&packets[j], number);
			else
				fill(&packets[j], number,
					churn ? number : number / run_length % FLOWS,
					churn ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP);
			burst.packets[j] = &packets[j];
		}
		base_burst_mark_runs(&burst, false);
		conntrack_process_burst(tracker, &burst);
		conntrack_advance(tracker, (uint64_t)number * GAP_NS, 4 * BURST);
	}
	struct conntrack_stats stats;
	conntrack_stats(tracker, &stats);
	bool right = stats.insert_failures == 0 && stats.out_of_window_packets == 0 &&
		     stats.invalid_packets == 0 && stats.inserted == (churn ? number : FLOWS);
	printf("operations: %u\n", number);
	conntrack_destroy(tracker);
	base_arena_destroy(config.arena);
	return right ? 0 : 1;
}
