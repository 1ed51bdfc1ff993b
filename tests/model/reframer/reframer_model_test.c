/* SPDX-License-Identifier: BSD-2-Clause */
/* Random configurations, random traffic, packet by packet against the naive reframer. */
#include "base/rng.h"
#include "tests/model/reframer/comparison.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 400, STEPS = 60 };

struct traffic {
	struct base_rng rng;
	uint64_t time_ns;
	uint32_t flows;
	uint32_t last_flow;
	uint32_t hash_mask;   /* few bits: many flows share a hash */
	uint32_t repeat_of_8; /* how often the last flow comes again */
	uint32_t special_of_64;
	uint64_t gap_ns;
};

static uint64_t pick(struct base_rng *rng, const uint64_t *values, unsigned int count)
{
	return values[base_rng_below(rng, count)];
}

static enum reframer_class by_payload(const struct base_packet *packet, const void *classify_arg)
{
	const uint16_t *boundary = classify_arg;
	if (packet->payload_len % 4 == 0)
		return REFRAMER_CLASS_SHORT;
	return packet->payload_len > *boundary ? REFRAMER_CLASS_BULK : REFRAMER_CLASS_NORMAL;
}

static struct reframer_config random_config(struct base_rng *rng)
{
	static const uint16_t boundary = 700;
	static const uint64_t delays_ns[] = { 0, 1, 50, 1000, 16000, 64000, 256000, UINT64_MAX };
	static const uint64_t bounds[] = { 1, 2, 3, 4, 7, 16, 64, 500, 3000 };
	static const uint64_t runs[] = { 1, 2, 3, 8, 32, 128, 256 };
	static const uint64_t seen[] = { 1, 4, 5, 64, 4096 };
	struct reframer_config config;
	reframer_config_defaults(&config);
	for (unsigned int i = 0; i < REFRAMER_CLASSES_COUNT; i++)
		config.delay_ns[i] = pick(rng, delays_ns, BASE_ARRAY_COUNT(delays_ns));
	config.run_packets_max = (uint32_t)pick(rng, runs, BASE_ARRAY_COUNT(runs));
	config.held_packets_max = (uint32_t)pick(rng, bounds, BASE_ARRAY_COUNT(bounds));
	config.held_flows_max = (uint32_t)pick(rng, bounds, BASE_ARRAY_COUNT(bounds));
	if (config.held_flows_max > config.held_packets_max)
		config.held_flows_max = config.held_packets_max;
	config.seen_flows = (uint32_t)pick(rng, seen, BASE_ARRAY_COUNT(seen));
	uint64_t bits = base_rng_u64(rng);
	config.bypass_syn = bits & 1;
	config.bypass_rst = bits & 2;
	config.bypass_first = bits & 4;
	config.short_acks = bits & 8;
	config.prefetch = bits & 16;
	config.operator_bulk = bits & 128;
	config.salt = base_rng_u64(rng);
	if ((bits & 0x60) == 0) {
		config.classify = by_payload;
		config.classify_arg = &boundary;
	}
	return config;
}

static struct traffic random_traffic(struct base_rng *rng)
{
	static const uint64_t flows[] = { 1, 2, 5, 20, 200 };
	static const uint64_t gaps_ns[] = { 0, 1, 10, 300, 5000 };
	struct traffic traffic = {
		.rng = *rng,
		.time_ns = base_rng_below(rng, 4) == 0 ? UINT64_MAX - 2000000 : 1000,
		.flows = (uint32_t)pick(rng, flows, BASE_ARRAY_COUNT(flows)),
		.repeat_of_8 = (uint32_t)base_rng_below(rng, 8),
		.special_of_64 = (uint32_t)base_rng_below(rng, 12),
		.gap_ns = pick(rng, gaps_ns, BASE_ARRAY_COUNT(gaps_ns)),
	};
	/* At most 32 flows with one hash, below the bound on probes. */
	traffic.hash_mask = base_rng_below(rng, 3) == 0 && traffic.flows <= 20 ? 1 : UINT32_MAX;
	traffic.last_flow = 1;
	return traffic;
}

static uint64_t next_time(struct traffic *traffic)
{
	struct base_rng *rng = &traffic->rng;
	uint64_t gap_ns = base_rng_below(rng, 2 * traffic->gap_ns + 1);
	if (base_rng_below(rng, 100) == 0)
		gap_ns = base_rng_below(rng, 300000);
	if (traffic->time_ns + gap_ns >= traffic->time_ns)
		traffic->time_ns += gap_ns;
	if (base_rng_below(rng, 200) == 0)
		return traffic->time_ns - base_rng_below(rng, 1000);
	return traffic->time_ns;
}

static struct comparison_packet random_packet(struct traffic *traffic)
{
	struct base_rng *rng = &traffic->rng;
	if (base_rng_below(rng, 8) >= traffic->repeat_of_8)
		traffic->last_flow = 1 + (uint32_t)base_rng_below(rng, traffic->flows);
	uint64_t seed = traffic->last_flow;
	struct comparison_packet packet = {
		.time_ns = next_time(traffic),
		.flow = traffic->last_flow,
		.hash = (uint32_t)base_rng_splitmix64(&seed) & traffic->hash_mask,
		.payload_len =
			base_rng_below(rng, 3) == 0 ? 0 : (uint16_t)base_rng_below(rng, 1400),
		.protocol = traffic->last_flow % 5 == 0 ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP,
		.tcp_flags = BASE_TCP_ACK,
	};
	if (base_rng_below(rng, 64) >= traffic->special_of_64)
		return packet;
	switch (base_rng_below(rng, 6)) {
	case 0:
		packet.flow = 0;
		break;
	case 1:
		packet.flags = base_rng_below(rng, 2) == 0 ? BASE_PACKET_OPERATOR_BYPASS
							   : BASE_PACKET_OPERATOR_BULK;
		break;
	default:
		packet.tcp_flags = (uint8_t)base_rng_u64(rng);
	}
	return packet;
}

static bool random_step(struct comparison *comparison, struct traffic *traffic)
{
	static const uint64_t sizes[] = { 1, 2, 31, 32, 100, 256 };
	struct comparison_packet packets[BASE_BURST_MAX] = { 0 };
	unsigned int count = (unsigned int)pick(&traffic->rng, sizes, BASE_ARRAY_COUNT(sizes));
	uint64_t choice = base_rng_below(&traffic->rng, 8);
	if (choice == 0) {
		comparison_advance(comparison, next_time(traffic));
	} else if (choice == 1 && base_rng_below(&traffic->rng, 4) == 0) {
		comparison_flush(comparison);
	} else {
		for (unsigned int i = 0; i < count; i++)
			packets[i] = random_packet(traffic);
		comparison_push(comparison, packets, count);
		if (choice == 2)
			comparison_advance(comparison, traffic->time_ns);
	}
	unsigned int packets_max = 1 + (unsigned int)base_rng_below(&traffic->rng, BASE_BURST_MAX);
	return comparison_pop(comparison, packets_max);
}

static bool run_round(uint64_t seed)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	struct reframer_config config = random_config(&rng);
	struct traffic traffic = random_traffic(&rng);
	struct comparison *comparison = malloc(sizeof(*comparison));
	BASE_ASSERT(comparison != NULL);
	comparison_init(comparison, &config);
	bool same = true;
	for (unsigned int i = 0; same && i < STEPS; i++)
		same = random_step(comparison, &traffic);
	if (same) {
		comparison_flush(comparison);
		same = comparison_pop(comparison, 32) &&
		       comparison->packets_in == comparison->packets_out;
	}
	if (same)
		comparison_release(comparison);
	free(comparison);
	return same;
}

static void random_traffic_leaves_like_in_the_naive_reframer(void **state)
{
	(void)state;
	const char *text = getenv("SHEAF_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (!run_round(seed + i))
			fail_msg("seed %" PRIu64, seed + i);
	}
}

/* Four places per set, written as a list of the flows added last. */
struct naive_set {
	uint64_t hashes[4];
	unsigned int count;
};

static bool naive_touch(struct naive_set *set, uint64_t hash)
{
	for (unsigned int i = 0; i < set->count; i++) {
		if (set->hashes[i] == hash)
			return true;
	}
	memmove(&set->hashes[1], &set->hashes[0], 3 * sizeof(set->hashes[0]));
	set->hashes[0] = hash;
	if (set->count < 4)
		set->count++;
	return false;
}

static void seen_filter_remembers_the_four_flows_added_last_to_a_set(void **state)
{
	(void)state;
	enum { SETS = 8, HASHES = 64 };
	struct base_arena *arena;
	assert_int_equal(base_arena_create(&arena, false), 0);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct seen_filter filter;
		struct naive_set sets[SETS] = { 0 };
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		assert_int_equal(reframer_seen_filter_create(&filter, arena, 4 * SETS), 0);
		for (unsigned int i = 0; i < 20000; i++) {
			uint64_t number = base_rng_below(&rng, HASHES);
			uint64_t hash = base_rng_splitmix64(&number);
			uint64_t set = (uint64_t)(seen_filter_set(&filter, hash) - filter.sets);
			assert_true(set < SETS);
			if (seen_filter_touch(seen_filter_set(&filter, hash), hash) !=
				naive_touch(&sets[set], hash))
				fail_msg("seed %" PRIu64 ", step %u", seed, i);
		}
		reframer_seen_filter_destroy(&filter, arena);
	}
	base_arena_destroy(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seen_filter_remembers_the_four_flows_added_last_to_a_set),
		cmocka_unit_test(random_traffic_leaves_like_in_the_naive_reframer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
