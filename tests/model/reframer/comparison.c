/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/reframer/comparison.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool differ(const char *what, uint64_t real, uint64_t expected)
{
	if (real == expected)
		return false;
	fprintf(stderr, "%s: %" PRIu64 ", expected %" PRIu64 "\n", what, real, expected);
	return true;
}

void comparison_init(struct comparison *comparison, const struct reframer_config *config)
{
	BASE_ASSERT(config->held_packets_max + BASE_BURST_MAX <= COMPARISON_PACKETS_MAX);
	*comparison = (struct comparison){ .unused_count = COMPARISON_PACKETS_MAX };
	struct reframer_config own = *config;
	BASE_ASSERT(base_arena_create(&comparison->arena, false) == 0);
	own.arena = comparison->arena;
	BASE_ASSERT(reframer_create(&comparison->real, &own) == 0);
	BASE_ASSERT(reframer_seen_filter_create(&comparison->seen, own.arena, own.seen_flows) == 0);
	naive_reframer_init(&comparison->naive, &own, &comparison->seen, COMPARISON_PACKETS_MAX);
	comparison->packets =
		aligned_alloc(64, COMPARISON_PACKETS_MAX * sizeof(*comparison->packets));
	comparison->unused = calloc(COMPARISON_PACKETS_MAX, sizeof(struct base_packet *));
	BASE_ASSERT(comparison->packets != NULL && comparison->unused != NULL);
	for (unsigned int i = 0; i < COMPARISON_PACKETS_MAX; i++)
		comparison->unused[i] = &comparison->packets[i];
}

void comparison_release(struct comparison *comparison)
{
	reframer_destroy(comparison->real);
	reframer_seen_filter_destroy(&comparison->seen, comparison->arena);
	naive_reframer_release(&comparison->naive);
	base_arena_destroy(comparison->arena);
	free(comparison->packets);
	free(comparison->unused);
}

static void fill_packet(struct comparison *comparison, struct base_packet *packet,
	const struct comparison_packet *from)
{
	/* Whatever an earlier life left in the links must not matter. */
	memset(packet, 0xee, sizeof(*packet));
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->time_ns = from->time_ns;
	packet->seq = comparison->seq_next++;
	packet->flags = from->flags & (uint16_t)~BASE_PACKET_FLOW;
	packet->payload_len = from->payload_len;
	packet->protocol = from->protocol;
	packet->tcp_flags = from->tcp_flags;
	if (from->flow == 0)
		return;
	packet->flags |= BASE_PACKET_FLOW;
	packet->hash = from->hash;
	packet->key.family = 4;
	packet->key.protocol = from->protocol;
	memcpy(packet->key.address[0], &from->flow, sizeof(from->flow));
}

static bool begins_run(const struct base_flow_key *last, const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_FLOW) == 0 || last->family == 0 ||
	       memcmp(last, &packet->key, sizeof(*last)) != 0;
}

void comparison_push(
	struct comparison *comparison, const struct comparison_packet *packets, unsigned int count)
{
	struct base_packet *burst[BASE_BURST_MAX] = { NULL };
	for (unsigned int i = 0; i < count; i++) {
		burst[i] = comparison->unused[--comparison->unused_count];
		fill_packet(comparison, burst[i], &packets[i]);
		comparison->runs_in += begins_run(&comparison->key_in, burst[i]);
		comparison->key_in = burst[i]->key;
	}
	comparison->packets_in += count;
	reframer_push_burst(comparison->real, burst, count);
	for (unsigned int i = 0; i < count; i++)
		naive_reframer_push(&comparison->naive, burst[i]);
}

void comparison_advance(struct comparison *comparison, uint64_t now_ns)
{
	reframer_advance(comparison->real, now_ns);
	naive_reframer_advance(&comparison->naive, now_ns);
}

void comparison_flush(struct comparison *comparison)
{
	reframer_flush(comparison->real);
	naive_reframer_flush(&comparison->naive);
}

/* Order within the flow, release time and delay bound of one packet. */
static bool check_packet(struct comparison *comparison, struct base_packet *packet,
	const struct naive_released *expected)
{
	if (packet != expected->packet) {
		fprintf(stderr, "packet %" PRIu64 " left instead of %" PRIu64 "\n", packet->seq,
			expected->packet->seq);
		return false;
	}
	if (differ("release time", packet->release_ns, expected->release_ns))
		return false;
	if (packet->release_ns < comparison->last_release_ns ||
		packet->release_ns < expected->arrival_ns) {
		fprintf(stderr, "release time goes back\n");
		return false;
	}
	comparison->last_release_ns = packet->release_ns;
	uint64_t hold_ns = packet->release_ns - expected->arrival_ns;
	if (hold_ns > comparison->hold_max_ns)
		comparison->hold_max_ns = hold_ns;
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return true;
	uint32_t flow;
	memcpy(&flow, packet->key.address[0], sizeof(flow));
	if (packet->seq < comparison->seq_out[flow % 256]) {
		fprintf(stderr, "packet %" PRIu64 " was overtaken\n", packet->seq);
		return false;
	}
	comparison->seq_out[flow % 256] = packet->seq + 1;
	return true;
}

static bool check_runs(const struct base_burst *burst)
{
	struct base_burst marked = *burst;
	base_burst_mark_runs(&marked, false);
	return !differ("runs", burst->run_count, marked.run_count) &&
	       memcmp(marked.runs, burst->runs, burst->run_count * sizeof(burst->runs[0])) == 0;
}

static bool check_burst(struct comparison *comparison, const struct base_burst *burst)
{
	if (burst->count > comparison->naive.released_count) {
		fprintf(stderr, "more packets left than should\n");
		return false;
	}
	for (unsigned int i = 0; i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (!check_packet(comparison, packet, &comparison->naive.released[i]))
			return false;
		comparison->runs_out += begins_run(&comparison->key_out, packet);
		comparison->key_out = packet->key;
	}
	bool same = check_runs(burst) && burst->drop_count == 0;
	naive_reframer_take(&comparison->naive, burst->count);
	for (unsigned int i = 0; i < burst->count; i++) {
		memset(burst->packets[i], 0xdd, sizeof(struct base_packet));
		comparison->unused[comparison->unused_count++] = burst->packets[i];
	}
	comparison->packets_out += burst->count;
	return same;
}

static bool check_counters(struct comparison *comparison)
{
	struct reframer_stats real, *expected = &comparison->naive.stats;
	reframer_stats(comparison->real, &real);
	bool bad = differ("packets in", real.packets_in, comparison->packets_in);
	bad |= differ("packets out", real.packets_out, comparison->packets_out);
	bad |= differ("runs in", real.runs_in, comparison->runs_in);
	bad |= differ("runs out", real.runs_out, comparison->runs_out);
	bad |= differ("held packets", real.held_packets, comparison->naive.held_count);
	bad |= differ("held flows", real.held_flows, comparison->naive.flows_count);
	bad |= differ("released packets", real.released_packets, 0);
	bad |= differ("books", real.packets_in, real.packets_out + real.held_packets);
	bad |= differ("peak packets", real.peak_held_packets, expected->peak_held_packets);
	bad |= differ("peak flows", real.peak_held_flows, expected->peak_held_flows);
	bad |= differ("times backwards", real.time_backwards, expected->time_backwards);
	for (unsigned int i = 0; i < REFRAMER_RELEASES_COUNT; i++) {
		const char *name = reframer_release_name((enum reframer_release)i);
		bad |= differ(name, real.releases[i], expected->releases[i]);
		bad |= differ(name, real.release_packets[i], expected->release_packets[i]);
	}
	uint64_t horizon_ns = reframer_horizon_ns(comparison->real);
	bad |= differ("horizon", horizon_ns, naive_reframer_horizon_ns(&comparison->naive));
	bad |= differ("horizon goes back", horizon_ns < comparison->horizon_ns, 0);
	comparison->horizon_ns = horizon_ns;
	const struct base_histogram *hold = reframer_hold_histogram(comparison->real);
	bad |= differ("hold times", hold->count, comparison->packets_out);
	bad |= differ("longest hold", hold->max, comparison->hold_max_ns);
	return !bad;
}

bool comparison_pop(struct comparison *comparison, unsigned int packets_max)
{
	struct base_burst burst;
	while (reframer_pop_burst(comparison->real, &burst, packets_max) != 0) {
		if (burst.count > packets_max || !check_burst(comparison, &burst))
			return false;
		uint64_t horizon_ns = reframer_horizon_ns(comparison->real);
		if (differ("horizon goes back", horizon_ns < comparison->horizon_ns, 0))
			return false;
		comparison->horizon_ns = horizon_ns;
	}
	if (differ("packets that should have left", 0, comparison->naive.released_count))
		return false;
	return check_counters(comparison);
}
