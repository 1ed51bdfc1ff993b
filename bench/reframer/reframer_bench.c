/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the reframer costs alone: cycles (TSC) per packet for push and pop together, over numbers of
 * flows, run lengths of the input and delay bounds. Virtual time at a fixed rate.
 *
 * The packets of a burst are written just before they are pushed, outside the timed part, as a
 * source and a parser would leave them: in cache. Packets that left are used again, last out first.
 *
 *	reframer_bench [packets per repeat] [repeats]
 */
#include "base/arena.h"
#include "base/cycles.h"
#include "base/rng.h"
#include "reframer/reframer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	POOL = 16384,
	REPEATS_MAX = 1000,
	GAP_NS = 100, /* 10 Mpps */
};

struct load {
	unsigned int burst;
	uint32_t flows;
	uint32_t run_length;
	uint64_t delay_ns;
	bool prefetch;
};

struct input {
	struct base_flow_key *keys;
	uint32_t *hashes;
	uint32_t flows, run_length;
	uint32_t flow, in_run;
	uint64_t time_ns;
};

struct pool {
	struct base_packet *packets;
	struct base_packet *unused[POOL];
	unsigned int unused_count;
};

struct result {
	double cycles[REPEATS_MAX];
	double slf_out;
	uint64_t peak_held_packets;
};

static void *must_alloc(size_t count, size_t size)
{
	void *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);
	if (memory == NULL) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	memset(memory, 0, count * size);
	return memory;
}

static void make_flows(struct input *input, uint32_t flows)
{
	uint64_t seed = 7;
	input->keys = must_alloc(flows, sizeof(*input->keys));
	input->hashes = must_alloc(flows, sizeof(*input->hashes));
	for (uint32_t i = 0; i < flows; i++) {
		struct base_flow_key *key = &input->keys[i];
		*key = (struct base_flow_key){ .protocol = BASE_PROTOCOL_TCP, .family = 4 };
		memcpy(key->address[0], &i, sizeof(i));
		input->hashes[i] = (uint32_t)base_rng_splitmix64(&seed);
	}
	input->flows = flows;
}

/* Round robin over the flows, run_length packets from each. */
static void next_packet(struct input *input, struct base_packet *packet)
{
	if (input->in_run == input->run_length) {
		input->in_run = 0;
		input->flow = input->flow + 1 == input->flows ? 0 : input->flow + 1;
	}
	input->in_run++;
	base_packet_reset(packet);
	packet->time_ns = input->time_ns += GAP_NS;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->tcp_flags = BASE_TCP_ACK;
	packet->payload_len = 60;
	packet->hash = input->hashes[input->flow];
	packet->key = input->keys[input->flow];
}

static void take_back(struct pool *pool, const struct base_burst *burst)
{
	memcpy(&pool->unused[pool->unused_count], burst->packets,
		burst->count * sizeof(burst->packets[0]));
	pool->unused_count += burst->count;
}

/* One burst in, whatever is due out. Returns the cycles of that. */
static uint64_t step(
	struct reframer *reframer, struct input *input, struct pool *pool, unsigned int burst_size)
{
	static struct base_burst out[64];
	struct base_packet *packets[BASE_BURST_MAX];
	unsigned int out_count = 0;
	for (unsigned int i = 0; i < burst_size; i++) {
		packets[i] = pool->unused[--pool->unused_count];
		next_packet(input, packets[i]);
	}
	uint64_t start = base_cycles();
	reframer_push_burst(reframer, packets, burst_size);
	reframer_advance(reframer, input->time_ns);
	while (reframer_pop_burst(reframer, &out[out_count], burst_size) != 0)
		out_count++;
	uint64_t cycles = base_cycles() - start;
	for (unsigned int i = 0; i < out_count; i++)
		take_back(pool, &out[i]);
	return cycles;
}

static void drain(struct reframer *reframer, struct pool *pool)
{
	struct base_burst burst;
	reframer_flush(reframer);
	while (reframer_pop_burst(reframer, &burst, BASE_BURST_MAX) != 0)
		take_back(pool, &burst);
}

static struct reframer *make_reframer(const struct load *load, struct base_arena *arena)
{
	struct reframer_config config;
	reframer_config_defaults(&config);
	config.arena = arena;
	config.prefetch = load->prefetch;
	config.delay_ns[REFRAMER_CLASS_NORMAL] = load->delay_ns;
	config.seen_flows =
		4 * load->flows > config.seen_flows ? 4 * load->flows : config.seen_flows;
	struct reframer *reframer;
	int rc = reframer_create(&reframer, &config);
	if (rc != 0) {
		fprintf(stderr, "reframer: %s\n", strerror(-rc));
		exit(1);
	}
	return reframer;
}

static void measure(const struct load *load, struct base_arena *arena, struct pool *pool,
	uint64_t packets_count, unsigned int repeats, struct result *result)
{
	struct input input = { .run_length = load->run_length };
	make_flows(&input, load->flows);
	struct reframer *reframer = make_reframer(load, arena);
	uint64_t bursts = packets_count / load->burst;
	uint64_t first_pass = (uint64_t)load->flows * load->run_length / load->burst;
	for (uint64_t i = 0; i < first_pass + 1000; i++)
		step(reframer, &input, pool, load->burst);
	struct reframer_stats before, after;
	reframer_stats(reframer, &before);
	for (unsigned int r = 0; r < repeats; r++) {
		uint64_t cycles = 0;
		for (uint64_t i = 0; i < bursts; i++)
			cycles += step(reframer, &input, pool, load->burst);
		result->cycles[r] = (double)cycles / (double)(bursts * load->burst);
	}
	reframer_stats(reframer, &after);
	result->slf_out = (double)(after.packets_out - before.packets_out) /
			  (double)(after.runs_out - before.runs_out);
	result->peak_held_packets = after.peak_held_packets;
	drain(reframer, pool);
	reframer_destroy(reframer);
	free(input.keys);
	free(input.hashes);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const struct load *load, struct result *result, unsigned int repeats)
{
	qsort(result->cycles, repeats, sizeof(result->cycles[0]), compare_doubles);
	printf("%-9s %5u %8" PRIu32 " %4" PRIu32 " %8.0f %8.1f %8.1f %8.1f %8.2f %8" PRIu64 "\n",
		load->prefetch ? "reframer" : "no_prefet", load->burst, load->flows,
		load->run_length, (double)load->delay_ns / 1000, result->cycles[0],
		result->cycles[repeats / 2], result->cycles[repeats - 1], result->slf_out,
		result->peak_held_packets);
	fflush(stdout);
}

static void run_load(
	const struct load *load, struct pool *pool, uint64_t packets_count, unsigned int repeats)
{
	struct base_arena *arena;
	struct result result;
	if (base_arena_create(&arena, true) != 0) {
		fprintf(stderr, "no arena\n");
		exit(1);
	}
	measure(load, arena, pool, packets_count, repeats, &result);
	report(load, &result, repeats);
	base_arena_destroy(arena);
}

static void print_head(void)
{
	printf("%-9s %5s %8s %4s %8s %8s %8s %8s %8s %8s\n", "what", "burst", "flows", "run",
		"delay_us", "min_cyc", "med_cyc", "max_cyc", "slf_out", "peak");
}

int main(int argc, char **argv)
{
	static const uint32_t flows[] = { 1024, 65536, 1048576 }, run_lengths[] = { 1, 4, 16 };
	static const uint64_t delays_ns[] = { 16000, 64000, 256000 };
	uint64_t packets_count = argc > 1 ? strtoull(argv[1], NULL, 0) : 400000;
	unsigned int repeats = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 11;
	if (packets_count < BASE_BURST_MAX || repeats < 1 || repeats > REPEATS_MAX)
		return 2;
	static struct pool pool;
	pool.packets = must_alloc(POOL, sizeof(*pool.packets));
	while (pool.unused_count < POOL) {
		pool.unused[pool.unused_count] = &pool.packets[pool.unused_count];
		pool.unused_count++;
	}
	print_head();
	if (argc > 5) {
		struct load load = { .burst = 32,
			.flows = (uint32_t)strtoul(argv[3], NULL, 0),
			.run_length = (uint32_t)strtoul(argv[4], NULL, 0),
			.delay_ns = 1000 * strtoull(argv[5], NULL, 0),
			.prefetch = argc < 8 };
		if (argc > 6)
			load.burst = (unsigned int)strtoul(argv[6], NULL, 0);
		if (load.flows == 0 || load.run_length == 0 || load.burst == 0 ||
			load.burst > BASE_BURST_MAX)
			return 2;
		run_load(&load, &pool, packets_count, repeats);
		free(pool.packets);
		return 0;
	}
	for (unsigned int f = 0; f < 3; f++) {
		for (unsigned int i = 0; i < 3 * 3 * 2; i++) {
			struct load load = { .burst = 32,
				.flows = flows[f],
				.run_length = run_lengths[i / 6],
				.delay_ns = delays_ns[i / 2 % 3],
				.prefetch = i % 2 == 0 };
			run_load(&load, &pool, packets_count, repeats);
		}
	}
	free(pool.packets);
	return 0;
}
