/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/reframer/kit.h"

#include "base/rng.h"

int kit_setup(void **state)
{
	struct kit *kit = aligned_alloc(64, sizeof(*kit));
	if (kit == NULL)
		return -1;
	memset(kit, 0, sizeof(*kit));
	if (base_arena_create(&kit->arena, false) != 0)
		return -1;
	reframer_config_defaults(&kit->config);
	kit->config.delay_ns[REFRAMER_CLASS_NORMAL] = 1000;
	kit->config.delay_ns[REFRAMER_CLASS_SHORT] = 100;
	kit->config.delay_ns[REFRAMER_CLASS_BULK] = 5000;
	kit->config.bypass_first = false;
	kit->config.seen_flows = 4096;
	kit->config.arena = kit->arena;
	*state = kit;
	return 0;
}

int kit_teardown(void **state)
{
	struct kit *kit = *state;
	if (kit->reframer != NULL) {
		reframer_flush(kit->reframer);
		kit_pop(kit, BASE_BURST_MAX);
		reframer_destroy(kit->reframer);
	}
	base_arena_destroy(kit->arena);
	free(kit);
	return 0;
}

void kit_start(struct kit *kit)
{
	assert_int_equal(reframer_create(&kit->reframer, &kit->config), 0);
}

struct base_packet *kit_packet(struct kit *kit, uint32_t flow, uint64_t time_ns)
{
	assert_true(kit->packets_count < KIT_PACKETS_MAX);
	struct base_packet *packet = &kit->packets[kit->packets_count];
	memset(packet, 0, sizeof(*packet));
	base_packet_reset(packet);
	packet->seq = kit->packets_count++;
	packet->time_ns = time_ns;
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->tcp_flags = BASE_TCP_ACK;
	packet->payload_len = 100;
	if (flow == 0)
		return packet;
	uint64_t seed = flow;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	packet->hash = (uint32_t)base_rng_splitmix64(&seed);
	packet->key.family = 4;
	packet->key.protocol = BASE_PROTOCOL_TCP;
	memcpy(packet->key.address[0], &flow, sizeof(flow));
	return packet;
}

void kit_push(struct kit *kit, struct base_packet *packet)
{
	reframer_push_burst(kit->reframer, &packet, 1);
}

struct base_packet *kit_feed(struct kit *kit, uint32_t flow, uint64_t time_ns)
{
	struct base_packet *packet = kit_packet(kit, flow, time_ns);
	kit_push(kit, packet);
	return packet;
}

void kit_pop(struct kit *kit, unsigned int packets_max)
{
	struct base_burst burst;
	while (reframer_pop_burst(kit->reframer, &burst, packets_max) != 0) {
		unsigned int covered = 0;
		assert_true(burst.count <= packets_max);
		for (unsigned int i = 0; i < burst.run_count; i++) {
			assert_int_equal(burst.runs[i].first, covered);
			covered += burst.runs[i].count;
			kit->run_sizes[kit->runs_count++] = burst.runs[i].count;
		}
		assert_int_equal(covered, burst.count);
		memcpy(&kit->out[kit->out_count], burst.packets,
			burst.count * sizeof(burst.packets[0]));
		kit->out_count += burst.count;
		kit->bursts_count++;
	}
}

void kit_expect_out(struct kit *kit, unsigned int count, const unsigned int *seqs)
{
	kit_pop(kit, BASE_BURST_MAX);
	assert_int_equal(kit->out_count, count);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(kit->out[i]->seq, seqs[i]);
	kit->out_count = 0;
}

struct reframer_stats kit_stats(const struct kit *kit)
{
	struct reframer_stats stats;
	reframer_stats(kit->reframer, &stats);
	return stats;
}
