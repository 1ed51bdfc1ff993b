/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections due at one instant, among others that live on. UDP without an answer falls due
 * after a second, answered UDP after an hour.
 */
#include "pipeline/bench_deletion_private.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define GAP_NS    UINT64_C(100) /* between packets while connections fall due */
#define STAY_NS   (3600 * SECOND_NS)
#define ROOM      0.8 /* of the entries, all connections together */

enum {
	STAY_PER_DUE = 3,
	PATIENCE = 16, /* calls that are waited for, as many times as those that would do */
	BURST = 64,
};

struct scene {
	struct bench_deletion *bench;
	const struct bench_deletion_row *row;
	struct conntrack *tracker;
	struct bench_deletion_meter *meter; /* calls while connections fall due */
	struct base_packet packets[BURST];
	uint64_t now_ns;
	uint32_t due, stay;
	uint64_t opened; /* flows so far: their numbers */
	uint64_t cycles; /* of what is measured now */
	uint64_t counted;
};

static void write_packet(struct base_packet *packet, uint64_t flow, uint64_t time_ns, bool reply)
{
	uint64_t seed = flow;
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	packet->key.family = 4;
	packet->key.protocol = packet->protocol = BASE_PROTOCOL_UDP;
	memcpy(packet->key.address[0], &flow, sizeof(flow));
	packet->key.port[0] = 53;
	packet->hash = (uint32_t)base_rng_splitmix64(&seed);
	packet->time_ns = time_ns;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	if (reply)
		packet->flags |= BASE_PACKET_REVERSED;
}

static void play(struct scene *scene, struct base_burst *burst)
{
	for (unsigned int i = 0; i < burst->count; i++)
		burst->packets[i] = &scene->packets[i];
	base_burst_mark_runs(burst, false);
	uint64_t start = base_cycles();
	conntrack_process_burst(scene->tracker, burst);
	scene->cycles += base_cycles() - start;
	scene->counted += burst->count;
}

/* New connections, all at one instant. */
static void open_flows(struct scene *scene, uint32_t count)
{
	scene->cycles = scene->counted = 0;
	for (uint32_t done = 0; done < count;) {
		struct base_burst burst = { .count = (uint16_t)(count - done < BURST ? count - done
										     : BURST) };
		for (unsigned int i = 0; i < burst.count; i++)
			write_packet(&scene->packets[i], scene->opened++, scene->now_ns, false);
		play(scene, &burst);
		done += burst.count;
	}
}

/* The first `count` flows are answered. */
static void answer_flows(struct scene *scene, uint32_t count)
{
	for (uint32_t done = 0; done < count;) {
		struct base_burst burst = { .count = (uint16_t)(count - done < BURST ? count - done
										     : BURST) };
		for (unsigned int i = 0; i < burst.count; i++)
			write_packet(&scene->packets[i], done + i, scene->now_ns, true);
		play(scene, &burst);
		done += burst.count;
	}
}

static uint64_t still_due(const struct scene *scene)
{
	struct conntrack_stats stats;
	conntrack_stats(scene->tracker, &stats);
	return stats.live > scene->stay ? stats.live - scene->stay : 0;
}

/* Traffic to those that stay, until those that are due are gone. */
static void let_fall_due(struct scene *scene, struct bench_deletion_burst *out,
	struct base_rng *rng, uint64_t *advance)
{
	uint64_t enough = scene->due / (BENCH_DELETION_LOOKS * BURST) + 1;
	uint64_t calls = 0, due = still_due(scene);
	scene->cycles = scene->counted = *advance = 0;
	for (; calls < PATIENCE * enough && due != 0; calls++) {
		struct base_burst burst = { .count = BURST };
		for (unsigned int i = 0; i < BURST; i++) {
			scene->now_ns += GAP_NS;
			write_packet(&scene->packets[i], base_rng_below(rng, scene->stay),
				scene->now_ns, i % 2 != 0);
		}
		play(scene, &burst);
		uint64_t start = base_cycles();
		conntrack_advance(scene->tracker, scene->now_ns, BENCH_DELETION_LOOKS * BURST);
		uint64_t cycles = base_cycles() - start;
		bench_deletion_meter_call(scene->meter, calls, cycles);
		*advance += cycles;
		due = still_due(scene);
	}
	out->calls = calls;
	out->left = due;
}

static double per(uint64_t cycles, uint64_t count)
{
	return count != 0 ? (double)cycles / (double)count : 0;
}

static int play_scene(struct scene *scene, struct bench_deletion_burst *out)
{
	struct bench_deletion *bench = scene->bench;
	struct conntrack_config config;
	struct conntrack_lab_stats *lab = &bench->lab;
	struct base_rng rng;
	uint64_t advance;
	base_rng_seed(&rng, bench->options->seed);
	bench_deletion_config(bench, &config, scene->row->table, scene->row->deletion);
	config.entries_max = (uint32_t)((double)(scene->due + scene->stay) / ROOM) + 1;
	config.half_open_max = config.entries_max;
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		config.timeout_ns[i] = STAY_NS;
	config.timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = SECOND_NS;
	int error = base_arena_create(&config.arena, true);
	if (error != 0)
		return error;
	error = conntrack_create(&scene->tracker, &config);
	if (error == 0) {
		scene->now_ns = SECOND_NS;
		scene->opened = 0;
		conntrack_advance(scene->tracker, scene->now_ns, 0);
		open_flows(scene, scene->stay);
		answer_flows(scene, scene->stay);
		open_flows(scene, scene->due);
		out->insert_cycles = per(scene->cycles, scene->counted);
		conntrack_lab_stats_reset(scene->tracker);
		scene->now_ns += SECOND_NS;
		let_fall_due(scene, out, &rng, &advance);
		out->hit_cycles = per(scene->cycles, scene->counted);
		out->expire_cycles = per(advance, scene->due - out->left);
		conntrack_lab_stats(scene->tracker, lab);
		out->longest_looked = lab->longest_advance;
		open_flows(scene, scene->due);
		out->reinsert_cycles = per(scene->cycles, scene->counted);
		conntrack_destroy(scene->tracker);
	}
	base_arena_destroy(config.arena);
	return error;
}

int bench_deletion_burst(struct bench_deletion *bench, struct bench_deletion_row *row)
{
	const struct bench_deletion_options *options = bench->options;
	struct bench_deletion_meter meter;
	struct bench_deletion_burst one[BENCH_DELETION_REPEATS_MAX];
	double values[4][BENCH_DELETION_REPEATS_MAX];
	struct scene *scene = aligned_alloc(BASE_CACHE_LINE, (sizeof(*scene) + 63) / 64 * 64);
	uint64_t calls = PATIENCE * (options->due / (BENCH_DELETION_LOOKS * BURST) + 1);
	if (scene == NULL)
		return -ENOMEM;
	int error = bench_deletion_meter_init(&meter, calls, false);
	uint32_t count = 0;
	for (; count < options->repeats && error == 0; count++) {
		memset(scene, 0, sizeof(*scene));
		scene->bench = bench;
		scene->row = row;
		scene->meter = &meter;
		scene->due = options->due;
		scene->stay = STAY_PER_DUE * options->due;
		error = play_scene(scene, &one[count]);
		if (error == 0 && bench_deletion_stopped(bench))
			error = -EINTR;
	}
	if (error == 0) {
		for (uint32_t i = 0; i < count; i++) {
			values[0][i] = one[i].insert_cycles;
			values[1][i] = one[i].expire_cycles;
			values[2][i] = one[i].hit_cycles;
			values[3][i] = one[i].reinsert_cycles;
		}
		row->burst = one[0];
		row->burst.insert_cycles = bench_deletion_median(values[0], count);
		row->burst.expire_cycles = bench_deletion_median(values[1], count);
		row->burst.hit_cycles = bench_deletion_median(values[2], count);
		row->burst.reinsert_cycles = bench_deletion_median(values[3], count);
		row->burst.longest_cycles = bench_deletion_meter_longest(&meter);
	}
	if (meter.calls != NULL)
		bench_deletion_meter_release(&meter);
	free(scene);
	return error;
}
