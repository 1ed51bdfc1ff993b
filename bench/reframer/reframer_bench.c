/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the reframer and the baselines cost alone: cycles (TSC) per packet from push to pop, over
 * numbers of flows, run lengths and delay bounds. Virtual time at 10 Mpps.
 *
 * The packets of a burst are written just before they are pushed, outside the timed part, as a
 * source and a parser would leave them: in cache. Packets that left are used again, last out first.
 * `order` is round robin over the flows (each returns as late as can be) or skewed (rank = n u^4).
 *
 *	reframer_bench [packets per repeat [repeats [what order burst flows run_length delay_us]]]
 */
#include "base/arena.h"
#include "base/cycles.h"
#include "base/rng.h"
#include "reframer/baseline_buckets.h"
#include "reframer/baseline_partition.h"
#include "reframer/reframer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POOL = 16384, OUT_MAX = 128, REPEATS_MAX = 1000, GAP_NS = 100 };

enum what { WHAT_REFRAMER, WHAT_NO_PREFETCH, WHAT_PARTITION, WHAT_BUCKETS, WHATS_COUNT };
static const char *const what_names[] = { "reframer", "no_prefetch", "partition", "buckets" };

struct load {
	enum what what;
	bool skewed;
	unsigned int burst;
	uint32_t flows, run_length;
	uint64_t delay_ns; /* buckets: the backlog is what comes in this time */
};

struct input {
	struct base_flow_key *keys;
	uint32_t *hashes;
	uint32_t flow, in_run;
	uint64_t time_ns;
	struct base_rng rng;
};

struct pool {
	struct base_packet *packets;
	struct base_packet *unused[POOL];
	unsigned int unused_count;
};

/* One measurement under way. */
struct subject {
	const struct load *load;
	struct input input;
	struct pool *pool;
	struct base_arena *arena;
	struct reframer *reframer;
	struct reframer_buckets *buckets;
	struct base_flow_key last_key;
	uint64_t packets_out, runs_out, held_max;
	struct base_burst out[OUT_MAX];
};

static void fail(const char *why)
{
	fprintf(stderr, "reframer_bench: %s\n", why);
	exit(1);
}

static void *must_alloc(size_t count, size_t size)
{
	void *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);
	if (memory == NULL)
		fail("out of memory");
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
	base_rng_seed(&input->rng, 11);
}

static uint32_t next_flow(struct input *input, const struct load *load)
{
	if (!load->skewed)
		return input->flow + 1 == load->flows ? 0 : input->flow + 1;
	double u = base_rng_unit(&input->rng);
	return (uint32_t)(u * u * u * u * load->flows);
}

static void next_packet(struct input *input, const struct load *load, struct base_packet *packet)
{
	if (input->in_run == load->run_length) {
		input->in_run = 0;
		input->flow = next_flow(input, load);
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

/* Count flow runs and take the packets back; not timed. */
static void take_back(struct subject *subject, const struct base_burst *burst)
{
	struct pool *pool = subject->pool;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_flow_key *key = &burst->packets[i]->key;
		subject->runs_out += !base_flow_key_equal(key, &subject->last_key);
		subject->last_key = *key;
		pool->unused[pool->unused_count++] = burst->packets[i];
	}
	subject->packets_out += burst->count;
}

/* The part that is timed: a burst goes in, whatever may leave comes out. Returns bursts out. */
static unsigned int pass_burst(
	struct subject *subject, struct base_packet **packets, unsigned int count)
{
	struct base_burst *out = subject->out;
	uint64_t now_ns = subject->input.time_ns;
	unsigned int out_count = 0;
	switch (subject->load->what) {
	case WHAT_REFRAMER:
	case WHAT_NO_PREFETCH:
		reframer_push_burst(subject->reframer, packets, count);
		reframer_advance(subject->reframer, now_ns);
		while (reframer_pop_burst(subject->reframer, &out[out_count], count) != 0)
			out_count++;
		return out_count;
	case WHAT_BUCKETS:
		reframer_buckets_push_burst(subject->buckets, packets, count);
		while (reframer_buckets_count(subject->buckets) * GAP_NS >=
			subject->load->delay_ns + (uint64_t)count * GAP_NS)
			reframer_buckets_pop_burst(
				subject->buckets, &out[out_count++], count, now_ns);
		return out_count;
	default:
		memcpy(out[0].packets, packets, count * sizeof(packets[0]));
		out[0].count = (uint16_t)count;
		reframer_partition_burst(&out[0]);
		return 1;
	}
}

/* Returns cycles. */
static uint64_t step(struct subject *subject)
{
	struct base_packet *packets[BASE_BURST_MAX] = { NULL };
	struct pool *pool = subject->pool;
	unsigned int count = subject->load->burst;
	for (unsigned int i = 0; i < count; i++) {
		packets[i] = pool->unused[--pool->unused_count];
		next_packet(&subject->input, subject->load, packets[i]);
	}
	uint64_t start = base_cycles();
	unsigned int out_count = pass_burst(subject, packets, count);
	uint64_t cycles = base_cycles() - start;
	for (unsigned int i = 0; i < out_count; i++)
		take_back(subject, &subject->out[i]);
	if (POOL - pool->unused_count > subject->held_max)
		subject->held_max = POOL - pool->unused_count;
	return cycles;
}

static void drain(struct subject *subject)
{
	struct base_burst *out = &subject->out[0];
	if (subject->reframer != NULL) {
		reframer_flush(subject->reframer);
		while (reframer_pop_burst(subject->reframer, out, BASE_BURST_MAX) != 0)
			take_back(subject, out);
	}
	if (subject->buckets != NULL) {
		while (reframer_buckets_pop_burst(subject->buckets, out, BASE_BURST_MAX, 0) != 0)
			take_back(subject, out);
	}
	reframer_destroy(subject->reframer);
	reframer_buckets_destroy(subject->buckets);
}

static void make_subject(struct subject *subject)
{
	const struct load *load = subject->load;
	struct reframer_config config;
	struct reframer_buckets_config buckets_config;
	int rc = 0;
	reframer_config_defaults(&config);
	config.arena = subject->arena;
	config.prefetch = load->what != WHAT_NO_PREFETCH;
	config.delay_ns[REFRAMER_CLASS_NORMAL] = load->delay_ns;
	if (4 * load->flows > config.seen_flows)
		config.seen_flows = 4 * load->flows;
	reframer_buckets_config_defaults(&buckets_config);
	buckets_config.arena = subject->arena;
	if (load->what == WHAT_REFRAMER || load->what == WHAT_NO_PREFETCH)
		rc = reframer_create(&subject->reframer, &config);
	else if (load->what == WHAT_BUCKETS)
		rc = reframer_buckets_create(&subject->buckets, &buckets_config);
	if (rc != 0)
		fail(strerror(-rc));
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const struct subject *subject, double *cycles, unsigned int repeats)
{
	const struct load *load = subject->load;
	qsort(cycles, repeats, sizeof(cycles[0]), compare_doubles);
	printf("%-11s %-6s %5u %8" PRIu32 " %4" PRIu32 " %6" PRIu64
	       " %8.1f %8.1f %8.1f %8.2f %6" PRIu64 "\n",
		what_names[load->what], load->skewed ? "skewed" : "robin", load->burst, load->flows,
		load->run_length, load->delay_ns / 1000, cycles[0], cycles[repeats / 2],
		cycles[repeats - 1], (double)subject->packets_out / (double)subject->runs_out,
		subject->held_max);
	fflush(stdout);
}

static void measure(
	const struct load *load, struct pool *pool, uint64_t packets_count, unsigned int repeats)
{
	static double cycles[REPEATS_MAX];
	struct subject *subject = must_alloc(1, sizeof(*subject));
	subject->load = load;
	subject->pool = pool;
	if (base_arena_create(&subject->arena, true) != 0)
		fail("no arena");
	make_flows(&subject->input, load->flows);
	make_subject(subject);
	uint64_t bursts = packets_count / load->burst;
	/* Every flow is seen once, then as much again as fills what can be held. */
	uint64_t warm_up = ((uint64_t)load->flows * load->run_length + POOL) / load->burst;
	for (uint64_t i = 0; i < warm_up; i++)
		step(subject);
	subject->packets_out = subject->runs_out = subject->held_max = 0;
	for (unsigned int r = 0; r < repeats; r++) {
		uint64_t sum = 0;
		for (uint64_t i = 0; i < bursts; i++)
			sum += step(subject);
		cycles[r] = (double)sum / (double)(bursts * load->burst);
	}
	report(subject, cycles, repeats);
	drain(subject);
	base_arena_destroy(subject->arena);
	free(subject->input.keys);
	free(subject->input.hashes);
	free(subject);
}

static void sweep(struct pool *pool, uint64_t packets_count, unsigned int repeats)
{
	static const uint32_t flows[] = { 1024, 65536, 1048576 }, run_lengths[] = { 1, 4, 16 };
	static const uint64_t delays_ns[] = { 16000, 64000, 256000 };
	for (unsigned int i = 0; i < 9; i++) {
		struct load load = {
			.burst = 32, .flows = flows[i / 3], .run_length = run_lengths[i % 3]
		};
		for (unsigned int d = 0; d < 3; d++) {
			load.delay_ns = delays_ns[d];
			measure(&load, pool, packets_count, repeats);
		}
		load.delay_ns = 64000;
		load.skewed = true;
		measure(&load, pool, packets_count, repeats);
		load.skewed = false;
		load.burst = 256;
		measure(&load, pool, packets_count, repeats);
		load.burst = 32;
		for (enum what what = WHAT_NO_PREFETCH; what < WHATS_COUNT; what++) {
			load.what = what;
			load.delay_ns = what == WHAT_PARTITION ? 0 : 64000;
			measure(&load, pool, packets_count, repeats);
		}
		load.what = WHAT_PARTITION;
		load.delay_ns = 0;
		load.burst = 256;
		measure(&load, pool, packets_count, repeats);
	}
}

static struct load parse_load(char **argv)
{
	struct load load = {
		.what = WHATS_COUNT,
		.skewed = strcmp(argv[1], "skewed") == 0,
		.burst = (unsigned int)strtoul(argv[2], NULL, 0),
		.flows = (uint32_t)strtoul(argv[3], NULL, 0),
		.run_length = (uint32_t)strtoul(argv[4], NULL, 0),
		.delay_ns = 1000 * strtoull(argv[5], NULL, 0),
	};
	for (enum what what = 0; what < WHATS_COUNT; what++) {
		if (strcmp(argv[0], what_names[what]) == 0)
			load.what = what;
	}
	if (load.what == WHATS_COUNT || load.burst < 1 || load.burst > BASE_BURST_MAX ||
		load.flows == 0 || load.run_length == 0)
		fail("bad load");
	return load;
}

int main(int argc, char **argv)
{
	uint64_t packets_count = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;
	unsigned int repeats = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 21;
	if (packets_count < BASE_BURST_MAX || repeats < 1 || repeats > REPEATS_MAX)
		fail("bad number of packets or repeats");
	struct pool *pool = must_alloc(1, sizeof(*pool));
	pool->packets = must_alloc(POOL, sizeof(*pool->packets));
	for (unsigned int i = 0; i < POOL; i++)
		pool->unused[pool->unused_count++] = &pool->packets[i];
	printf("%-11s %-6s %5s %8s %4s %6s %8s %8s %8s %8s %6s\n", "what", "order", "burst",
		"flows", "run", "delay", "min_cyc", "med_cyc", "max_cyc", "slf_out", "held");
	if (argc > 8) {
		struct load load = parse_load(argv + 3);
		measure(&load, pool, packets_count, repeats);
	} else {
		sweep(pool, packets_count, repeats);
	}
	free(pool->packets);
	free(pool);
	return 0;
}
