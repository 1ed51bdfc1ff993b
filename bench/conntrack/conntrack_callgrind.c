/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fixed amount of traffic for scripts/callgrind_budgets.py, at 10 Mpps.
 *
 *	conntrack_callgrind hit RUN_LENGTH    packets of known TCP connections
 *	conntrack_callgrind churn             every packet opens a connection, one expires for each
 *	conntrack_callgrind windows HOW       data of both sides in turn; HOW: off, liberal, strict
 *	conntrack_callgrind flood POLICY      every other packet is a stranger's SYN, and half-open
 *	                                      ones have all their share; drop, pass, evict
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

enum mode { MODE_HIT, MODE_CHURN, MODE_WINDOWS, MODE_FLOOD };

struct plan {
	enum mode mode;
	uint32_t run_length;
	struct conntrack_config config;
};

static int index_of(const char *text, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0)
			return (int)i;
	return -1;
}

/* False: the arguments mean nothing. */
static bool read_plan(struct plan *plan, int argc, char **argv)
{
	static const char *const modes[] = { "hit", "churn", "windows", "flood" };
	static const char *const windows[] = { "off", "liberal", "strict" };
	static const char *const policies[] = { "drop", "pass", "evict" };
	const char *word = argc > 2 ? argv[2] : "";
	int mode = argc > 1 ? index_of(argv[1], modes, BASE_ARRAY_COUNT(modes)) : -1, which = 0;
	struct conntrack_config *config = &plan->config;
	conntrack_config_defaults(config);
	config->tick_ns = 100000;
	plan->mode = (enum mode)mode;
	plan->run_length = 1;
	switch (mode) {
	case MODE_HIT:
		plan->run_length = (uint32_t)strtoul(word, NULL, 10);
		return plan->run_length != 0;
	case MODE_CHURN:
		config->timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = LIVE * GAP_NS;
		return true;
	case MODE_WINDOWS:
		which = index_of(word, windows, BASE_ARRAY_COUNT(windows));
		config->tcp_windows = (enum conntrack_tcp_windows)which;
		return which >= 0;
	case MODE_FLOOD:
		which = index_of(word, policies, BASE_ARRAY_COUNT(policies));
		config->full_policy = (enum conntrack_full_policy)which;
		config->half_open_max = LIVE;
		return which >= 0;
	default:
		return false;
	}
}

static void fill_as_planned(const struct plan *plan, struct base_packet *packet, uint32_t number)
{
	switch (plan->mode) {
	case MODE_HIT:
		fill(packet, number, number / plan->run_length % FLOWS, BASE_PROTOCOL_TCP);
		break;
	case MODE_CHURN:
		fill(packet, number, number, BASE_PROTOCOL_UDP);
		break;
	case MODE_WINDOWS:
		fill_segment(packet, number);
		break;
	case MODE_FLOOD: /* known connections' packets first, then as many SYNs of strangers */
		if (number >= FLOWS && number % 2 != 0) {
			fill(packet, number, FLOWS + number, BASE_PROTOCOL_TCP);
			packet->tcp_flags = BASE_TCP_SYN;
		} else {
			fill(packet, number, (number < FLOWS ? number : number / 2) % FLOWS,
				BASE_PROTOCOL_TCP);
		}
		break;
	}
}

/* The tracker has seen what was meant. */
static bool is_right(const struct plan *plan, const struct conntrack_stats *stats, uint32_t number)
{
	uint64_t strangers = (number - FLOWS) / 2;
	if (stats->out_of_window_packets != 0 || stats->invalid_packets != 0)
		return false;
	if (plan->mode != MODE_FLOOD)
		return stats->insert_failures == 0 &&
		       stats->inserted == (plan->mode == MODE_CHURN ? number : FLOWS);
	return stats->insert_failures + stats->inserted == FLOWS + strangers &&
	       stats->insert_failures + stats->evicted == strangers - LIVE;
}

int main(int argc, char **argv)
{
	struct plan plan = { 0 };
	struct conntrack *tracker;
	uint32_t number = 0;
	if (!read_plan(&plan, argc, argv) || base_arena_create(&plan.config.arena, false) != 0 ||
		conntrack_create(&tracker, &plan.config) != 0)
		return 1;
	for (unsigned int i = 0; i < BURSTS; i++) {
		struct base_burst burst = { .count = BURST };
		for (unsigned int j = 0; j < BURST; j++, number++) {
			fill_as_planned(&plan, &packets[j], number);
			burst.packets[j] = &packets[j];
		}
		base_burst_mark_runs(&burst, false);
		conntrack_process_burst(tracker, &burst);
		conntrack_advance(tracker, (uint64_t)number * GAP_NS, 4 * BURST);
	}
	struct conntrack_stats stats;
	conntrack_stats(tracker, &stats);
	printf("operations: %u\n", number);
	conntrack_destroy(tracker);
	base_arena_destroy(plan.config.arena);
	return is_right(&plan, &stats, number) ? 0 : 1;
}
