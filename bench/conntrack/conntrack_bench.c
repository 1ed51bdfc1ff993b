/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles per packet of the connection tracker, its timers included, beside rte_hash lookups alone.
 *
 *	conntrack_bench [FLOWS...]      (default 65536 1048576 4194304)
 *
 * hit     every packet belongs to a known connection, in random order (locality factor 1). Time
 *         goes by at 100 ns per packet and idle timeouts are 5 s, so that the wheel has work.
 *         TCP packets step the state machine; UDP ones have a reply.
 * runs    the same with runs of 16 packets.
 * churn   every packet opens a connection, and one expires for each (timeout: live flows * 100 ns)
 *
 * Bursts that took longer than PREEMPTED cycles were interrupted and are left out (and counted).
 *
 * Packet records are filled outside the measured part, as a parser would leave them: in the cache.
 * rte_hash: 75 % load, the packet's hash given (no hashing in the measured part), 40-byte and
 * 16-byte keys. The tracker is created for the same number of entries.
 */
#include "base/arena.h"
#include "base/cycles.h"
#include "base/rng.h"
#include "conntrack/conntrack.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS    UINT64_C(100)
#define TIMEOUT_NS UINT64_C(5000000000)

enum { REPEATS = 7, PACKETS = 1 << 21, BURST_MAX = 64, PREEMPTED = 60000 };

/* Sum of measured bursts. */
struct meter {
	uint64_t cycles;
	uint64_t units; /* packets or lookups */
	uint64_t interrupted;
};

static void meter_add(struct meter *meter, uint64_t start, unsigned int units)
{
	uint64_t cycles = base_cycles() - start;
	if (cycles > PREEMPTED) {
		meter->interrupted++;
		return;
	}
	meter->cycles += cycles;
	meter->units += units;
}

static double meter_mean(const struct meter *meter)
{
	return (double)meter->cycles / (double)(meter->units + (meter->units == 0));
}

struct flow {
	struct base_flow_key key;
	uint32_t hash;
	uint32_t spare;
};

struct bench {
	struct flow *flows;
	uint32_t *order; /* flow numbers, random */
	uint32_t flows_count;
	uint32_t order_count;
	bool tcp;
	struct base_packet *packets; /* BURST_MAX of them */
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t now_ns;
	uint8_t frame[64];
};

static void die(const char *what)
{
	fprintf(stderr, "conntrack_bench: %s\n", what);
	exit(1);
}

static void *allocate(size_t count, size_t size)
{
	void *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);
	if (memory == NULL)
		die("out of memory");
	memset(memory, 0, count * size);
	return memory;
}

static void make_flows(struct bench *bench, uint32_t flows_count)
{
	struct base_hash_config hash = { .kind = BASE_HASH_CRC32C, .salt = { 42, 0 } };
	struct base_rng rng;
	base_rng_seed(&rng, flows_count);
	bench->flows_count = flows_count;
	bench->flows = allocate(flows_count, sizeof(*bench->flows));
	for (uint32_t i = 0; i < flows_count; i++) {
		struct base_flow_key *key = &bench->flows[i].key;
		uint64_t random = base_rng_u64(&rng);
		memcpy(key->address[0], &random, 4);
		memcpy(key->address[1], &i, 4);
		key->port[0] = (uint16_t)(random >> 32);
		key->port[1] = 80;
		key->protocol = bench->tcp ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
		key->family = 4;
		bench->flows[i].hash = base_flow_key_hash(key, &hash);
	}
	bench->order_count = flows_count < (1u << 20) ? 1u << 20 : flows_count;
	bench->order = allocate(bench->order_count, sizeof(*bench->order));
	for (uint32_t i = 0; i < bench->order_count; i++)
		bench->order[i] = (uint32_t)base_rng_below(&rng, flows_count);
}

static void fill_packet(
	struct bench *bench, struct base_packet *packet, const struct flow *flow, bool reply)
{
	base_packet_reset(packet);
	packet->key = flow->key;
	packet->hash = flow->hash;
	packet->time_ns = bench->now_ns += STEP_NS;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	if (reply)
		packet->flags |= BASE_PACKET_REVERSED;
	packet->data = bench->frame;
	packet->cap_len = packet->wire_len = sizeof(bench->frame);
	packet->l4_offset = 34;
	packet->protocol = flow->key.protocol;
	packet->tcp_flags = bench->tcp ? BASE_TCP_ACK : 0;
}

static void process(struct bench *bench, struct base_burst *burst, bool advance)
{
	conntrack_process_burst(bench->tracker, burst);
	if (advance)
		conntrack_advance(bench->tracker, bench->now_ns, 128);
}

static void start_tracker(struct bench *bench, uint64_t timeout_ns, uint64_t tick_ns)
{
	struct conntrack_config config;
	conntrack_config_defaults(&config);
	if (base_arena_create(&bench->arena, true) != 0)
		die("no arena");
	config.arena = bench->arena;
	config.entries_max = (uint32_t)(bench->flows_count / 0.75);
	config.half_open_max = config.entries_max;
	config.salt = 7;
	config.tick_ns = tick_ns;
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		config.timeout_ns[i] = timeout_ns;
	if (conntrack_create(&bench->tracker, &config) != 0)
		die("no tracker");
	bench->now_ns = UINT64_C(1700000000000000000);
}

static void stop_tracker(struct bench *bench)
{
	char message[256] = "";
	if (conntrack_check(bench->tracker, message, sizeof(message)) != 0)
		die(message);
	conntrack_destroy(bench->tracker);
	base_arena_destroy(bench->arena);
}

/* Both directions of every flow, so that connections are assured. */
static void open_flows(struct bench *bench)
{
	struct base_burst burst = { .count = 2 };
	for (uint32_t i = 0; i < bench->flows_count; i++) {
		for (unsigned int k = 0; k < 2; k++) {
			fill_packet(bench, &bench->packets[k], &bench->flows[i], k != 0);
			bench->now_ns -= STEP_NS - 1;
			burst.packets[k] = &bench->packets[k];
		}
		base_burst_mark_runs(&burst, false);
		process(bench, &burst, false);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, REPEATS, sizeof(*values), compare);
	return values[REPEATS / 2];
}

/* One pass; cycles per packet. */
static double hit_pass(struct bench *bench, unsigned int size, unsigned int run, uint32_t packets)
{
	struct base_burst burst = { .count = (uint16_t)size };
	struct meter meter = { 0 };
	uint32_t at = 0;
	for (uint32_t done = 0; done < packets; done += size) {
		for (unsigned int i = 0; i < size; i++) {
			if (i % run == 0)
				at = at + 1 < bench->order_count ? at + 1 : 0;
			fill_packet(bench, &bench->packets[i], &bench->flows[bench->order[at]],
				(done + i) & 1);
			burst.packets[i] = &bench->packets[i];
		}
		base_burst_mark_runs(&burst, false);
		uint64_t start = base_cycles();
		process(bench, &burst, true);
		meter_add(&meter, start, burst.count);
	}
	return meter_mean(&meter);
}

static void report_hits(struct bench *bench, const char *name, unsigned int size, unsigned int run,
	uint32_t packets)
{
	double values[REPEATS];
	struct conntrack_stats before, after;
	hit_pass(bench, size, run, packets);
	conntrack_stats(bench->tracker, &before);
	for (unsigned int i = 0; i < REPEATS; i++)
		values[i] = hit_pass(bench, size, run, packets);
	conntrack_stats(bench->tracker, &after);
	double middle = median(values);
	double total = (double)packets * REPEATS;
	printf("%-10s %8u  burst %2u run %2u  %7.1f cycles/packet (%.1f..%.1f)  "
	       "timers fired %.3f/packet, misses %.4f/packet\n",
		name, bench->flows_count, size, run, middle, values[0], values[REPEATS - 1],
		(double)(after.timers_fired - before.timers_fired) / total,
		(double)(after.misses - before.misses) / total);
}

static void bench_hits(uint32_t flows_count, bool tcp, uint32_t packets)
{
	struct bench bench = { .tcp = tcp };
	bench.packets = allocate(BURST_MAX, sizeof(*bench.packets));
	make_flows(&bench, flows_count);
	start_tracker(&bench, TIMEOUT_NS, 1000000);
	open_flows(&bench);
	report_hits(&bench, tcp ? "hit tcp" : "hit udp", 32, 1, packets);
	report_hits(&bench, tcp ? "hit tcp" : "hit udp", 64, 1, packets);
	report_hits(&bench, tcp ? "runs tcp" : "runs udp", 64, 16, packets);
	struct conntrack_stats stats;
	struct base_arena_stats memory;
	conntrack_stats(bench.tracker, &stats);
	base_arena_stats(bench.arena, &memory);
	printf("%-10s %8u  %.1f bytes/entry, %.0f %% of memory on huge pages\n", "memory",
		flows_count, stats.bytes_per_entry,
		100.0 * (double)memory.huge_bytes / (double)(memory.mapped_bytes + 1));
	stop_tracker(&bench);
	free(bench.packets);
	free(bench.flows);
	free(bench.order);
}

static double churn_pass(struct bench *bench, uint32_t *serial, uint32_t packets)
{
	struct base_hash_config hash = { .kind = BASE_HASH_CRC32C, .salt = { 42, 0 } };
	struct base_burst burst = { .count = 32 };
	struct flow flow = { .key = bench->flows[0].key };
	struct meter meter = { 0 };
	for (uint32_t done = 0; done < packets; done += burst.count) {
		for (unsigned int i = 0; i < burst.count; i++) {
			uint32_t number = ++*serial;
			memcpy(flow.key.address[0], &number, 4);
			flow.hash = base_flow_key_hash(&flow.key, &hash);
			fill_packet(bench, &bench->packets[i], &flow, false);
			burst.packets[i] = &bench->packets[i];
		}
		base_burst_mark_runs(&burst, false);
		uint64_t start = base_cycles();
		process(bench, &burst, true);
		meter_add(&meter, start, burst.count);
	}
	return meter_mean(&meter);
}

static void bench_churn(uint32_t live, uint32_t packets)
{
	struct bench bench = { .tcp = false };
	uint32_t serial = 0;
	double values[REPEATS];
	bench.packets = allocate(BURST_MAX, sizeof(*bench.packets));
	make_flows(&bench, live);
	start_tracker(&bench, live * STEP_NS, 100000);
	churn_pass(&bench, &serial, live * 2);
	for (unsigned int i = 0; i < REPEATS; i++)
		values[i] = churn_pass(&bench, &serial, packets);
	struct conntrack_stats stats;
	conntrack_stats(bench.tracker, &stats);
	double middle = median(values);
	printf("%-10s %8u  burst 32         %7.1f cycles/packet (%.1f..%.1f)  live %llu, "
	       "refused %llu, late by %.1f ms, timers fired %.2f per connection\n",
		"churn", live, middle, values[0], values[REPEATS - 1],
		(unsigned long long)stats.live, (unsigned long long)stats.insert_failures,
		(double)stats.expiry_late_max_ns / 1e6,
		(double)stats.timers_fired / (double)stats.inserted);
	stop_tracker(&bench);
	free(bench.packets);
	free(bench.flows);
	free(bench.order);
}

/* rte_hash: the same keys in the same order, given their hashes. */
static void hash_pass(struct rte_hash *table, const struct bench *bench, uint32_t key_len,
	bool bulk, uint32_t lookups, double *cycles_per_lookup)
{
	enum { BULK = 32 };
	uint8_t keys[BULK][40];
	const void *pointers[BULK];
	hash_sig_t hashes[BULK];
	int32_t positions[BULK];
	struct meter meter = { 0 };
	uint32_t at = 0, found = 0;
	for (uint32_t done = 0; done < lookups; done += BULK) {
		for (unsigned int i = 0; i < BULK; i++) {
			at = at + 1 < bench->order_count ? at + 1 : 0;
			const struct flow *flow = &bench->flows[bench->order[at]];
			memcpy(keys[i], &flow->key, 40);
			if (key_len == 16)
				memcpy(keys[i] + 4, flow->key.address[1], 12);
			pointers[i] = keys[i];
			hashes[i] = flow->hash;
		}
		uint64_t start = base_cycles();
		if (bulk)
			rte_hash_lookup_with_hash_bulk(table, pointers, hashes, BULK, positions);
		else
			for (unsigned int i = 0; i < BULK; i++)
				positions[i] =
					rte_hash_lookup_with_hash(table, pointers[i], hashes[i]);
		meter_add(&meter, start, BULK);
		for (unsigned int i = 0; i < BULK; i++)
			found += positions[i] >= 0;
	}
	if (found != lookups)
		die("rte_hash lost keys");
	*cycles_per_lookup = meter_mean(&meter);
}

static void bench_rte_hash(uint32_t flows_count, uint32_t key_len, uint32_t lookups)
{
	struct bench bench = { .tcp = true };
	struct rte_hash_parameters parameters = {
		.name = "bench",
		.entries = (uint32_t)(flows_count / 0.75),
		.key_len = key_len,
	};
	make_flows(&bench, flows_count);
	struct rte_hash *table = rte_hash_create(&parameters);
	if (table == NULL) {
		printf("rte_hash   %8u  not measured: %s\n", flows_count, rte_strerror(rte_errno));
		free(bench.flows);
		free(bench.order);
		return;
	}
	uint64_t start = base_cycles();
	for (uint32_t i = 0; i < flows_count; i++) {
		uint8_t key[40];
		memcpy(key, &bench.flows[i].key, 40);
		if (key_len == 16)
			memcpy(key + 4, bench.flows[i].key.address[1], 12);
		if (rte_hash_add_key_with_hash(table, key, bench.flows[i].hash) < 0)
			die("rte_hash refused a key");
	}
	double insert = (double)(base_cycles() - start) / flows_count;
	for (int bulk = 1; bulk >= 0; bulk--) {
		double values[REPEATS];
		for (unsigned int i = 0; i < REPEATS; i++)
			hash_pass(table, &bench, key_len, bulk != 0, lookups, &values[i]);
		double middle = median(values);
		printf("rte_hash   %8u  %u-byte keys, %-6s %7.1f cycles/lookup (%.1f..%.1f)  "
		       "insert %.0f\n",
			flows_count, key_len, bulk ? "bulk32" : "single", middle, values[0],
			values[REPEATS - 1], insert);
	}
	rte_hash_free(table);
	free(bench.flows);
	free(bench.order);
}

/* Huge pages where there are any, else ordinary memory; says which. */
static bool start_eal(char *program)
{
	static char in_memory[] = "--in-memory", no_pci[] = "--no-pci", lcores[] = "--lcores=0";
	static char no_huge[] = "--no-huge", no_shconf[] = "--no-shconf", size[] = "-m2048";
	static char no_telemetry[] = "--no-telemetry", quiet[] = "--log-level=error";
	char *huge_argv[] = { program, in_memory, no_pci, lcores, no_telemetry, quiet };
	char *plain_argv[] = { program, no_huge, no_shconf, no_pci, lcores, size, no_telemetry,
		quiet };
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r");
	unsigned int pages = 0;
	if (file != NULL) {
		if (fscanf(file, "%u", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	bool huge = pages >= 512;
	int result = huge ? rte_eal_init(RTE_DIM(huge_argv), huge_argv)
			  : rte_eal_init(RTE_DIM(plain_argv), plain_argv);
	printf("rte_hash memory: %s\n", result < 0 ? "none, not measured"
					: huge     ? "huge pages"
						   : "ordinary pages");
	return result >= 0;
}

static void bench_size(uint32_t flows_count, uint32_t packets)
{
	bench_hits(flows_count, true, packets);
	bench_hits(flows_count, false, packets);
	bench_churn(flows_count, packets);
}

int main(int argc, char **argv)
{
	static const uint32_t usual[] = { 1u << 16, 1u << 20, 1u << 22 };
	uint32_t sizes[8];
	unsigned int sizes_count = 0;
	for (int i = 1; i < argc && sizes_count < RTE_DIM(sizes); i++)
		sizes[sizes_count++] = (uint32_t)strtoul(argv[i], NULL, 0);
	if (sizes_count == 0) {
		memcpy(sizes, usual, sizeof(usual));
		sizes_count = RTE_DIM(usual);
	}
	for (unsigned int i = 0; i < sizes_count; i++)
		bench_size(sizes[i], PACKETS);
	if (!start_eal(argv[0]))
		return 0;
	for (unsigned int i = 0; i < sizes_count; i++) {
		bench_rte_hash(sizes[i], 16, PACKETS);
		bench_rte_hash(sizes[i], 40, PACKETS);
	}
	rte_eal_cleanup();
	return 0;
}
