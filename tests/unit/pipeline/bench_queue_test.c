/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate at which a ring never runs over: against sums that can be done by hand, and against a
 * slow simulation packet by packet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "pipeline/bench_queue.h"

#include <stdlib.h>

enum { PACKETS = 64000, BURST = 64, BURSTS = PACKETS / BURST, RING = 1024 };

#define HZ 1e9 /* a cycle is a nanosecond */

struct fixture {
	uint64_t arrivals_ns[PACKETS];
	uint32_t cycles[BURSTS];
	struct bench_queue queue;
};

/* Packets every microsecond, bursts that take a fifth of what they need to come. */
static struct fixture *steady(void)
{
	struct fixture *f = malloc(sizeof(*f));
	assert_non_null(f);
	for (uint64_t i = 0; i < PACKETS; i++)
		f->arrivals_ns[i] = 5000 + 1000 * i;
	for (int i = 0; i < BURSTS; i++)
		f->cycles[i] = 200 * BURST;
	f->queue = (struct bench_queue){
		.arrivals_ns = f->arrivals_ns,
		.packets_count = PACKETS,
		.burst_pkts = BURST,
		.ring_pkts = RING,
		.burst_cycles = f->cycles,
		.cycles_per_s = HZ,
	};
	return f;
}

static void assert_near(double value, double expected, double share)
{
	if (value < expected * (1 - share) || value > expected * (1 + share))
		fail_msg("got %f, expected %f +- %.1f %%", value, expected, 100 * share);
}

static void steady_work_is_served_at_its_own_rate(void **state)
{
	struct fixture *f = steady();
	(void)state;
	assert_near(bench_queue_zero_loss(&f->queue), 5e6, 0.001);
	assert_true(bench_queue_holds(&f->queue, 4.9));
	free(f);
}

/* While the core is away for 10 ms, no more may come than the ring holds. */
static void a_pause_bounds_the_rate_by_the_ring(void **state)
{
	struct fixture *f = steady();
	(void)state;
	f->cycles[BURSTS / 2] = 10000000;
	assert_near(bench_queue_zero_loss(&f->queue), (RING - BURST) / 10e-3, 0.1);
	f->queue.ring_pkts = 4 * RING;
	assert_near(bench_queue_zero_loss(&f->queue), (4 * RING - BURST) / 10e-3, 0.1);
	free(f);
}

static void arrivals_in_clumps_need_the_ring(void **state)
{
	struct fixture *f = steady();
	(void)state;
	for (uint64_t i = 0; i < PACKETS; i++) /* 2 * RING at one instant */
		f->arrivals_ns[i] = i / (2 * RING) * (2 * RING) * 1000;
	assert_near(bench_queue_zero_loss(&f->queue), 0, 0);
	f->queue.ring_pkts = 2 * RING;
	assert_true(bench_queue_zero_loss(&f->queue) > 1e6);
	free(f);
}

static void no_time_and_no_packets_have_no_rate(void **state)
{
	struct fixture *f = steady();
	(void)state;
	f->queue.packets_count = 0;
	assert_true(bench_queue_zero_loss(&f->queue) == 0);
	f->queue.packets_count = 1;
	assert_true(bench_queue_zero_loss(&f->queue) == 0);
	f->queue.packets_count = PACKETS;
	for (uint64_t i = 0; i < PACKETS; i++)
		f->arrivals_ns[i] = 7;
	assert_true(bench_queue_zero_loss(&f->queue) == 0);
	free(f);
}

/* A ring that holds the whole trace does not make the core faster. */
static void a_large_ring_does_not_serve(void **state)
{
	struct fixture *f = steady();
	(void)state;
	f->queue.ring_pkts = 1 << 20;
	assert_near(bench_queue_zero_loss(&f->queue), 5e6, 0.001);
	free(f);
}

/* Event by event: packets enter, and at each entry what waits is counted anew. */
static bool slow_holds(const struct bench_queue *queue, double speed)
{
	double *starts_s = malloc(BURSTS * sizeof(*starts_s)), free_s = 0;
	assert_non_null(starts_s);
	for (uint64_t burst = 0; burst < BURSTS; burst++) {
		uint64_t last = (burst + 1) * BURST - 1;
		double whole_s =
			(double)(queue->arrivals_ns[last] - queue->arrivals_ns[0]) * 1e-9 / speed;
		starts_s[burst] = free_s > whole_s ? free_s : whole_s;
		free_s = starts_s[burst] + queue->burst_cycles[burst] / HZ;
	}
	uint64_t gone = 0; /* bursts that have left before this packet comes */
	bool holds = true;
	for (uint64_t i = 0; i < PACKETS && holds; i++) {
		double now_s =
			(double)(queue->arrivals_ns[i] - queue->arrivals_ns[0]) * 1e-9 / speed;
		while (gone < BURSTS && starts_s[gone] <= now_s && (gone + 1) * BURST <= i)
			gone++;
		holds = i + 1 - gone * BURST <= queue->ring_pkts;
	}
	free(starts_s);
	return holds;
}

static void random_queues_agree_with_a_slow_one(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct fixture *f = steady();
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		for (uint64_t i = 1; i < PACKETS; i++)
			f->arrivals_ns[i] = f->arrivals_ns[i - 1] + base_rng_below(&rng, 20) * 100;
		for (int i = 0; i < BURSTS; i++)
			f->cycles[i] =
				(uint32_t)base_rng_below(&rng, i % 50 == 0 ? 2000000 : 40000);
		double speed = 0.05 + (double)base_rng_below(&rng, 100) / 40;
		if (bench_queue_holds(&f->queue, speed) != slow_holds(&f->queue, speed))
			fail_msg("seed %lu, speed %f", (unsigned long)seed, speed);
		free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steady_work_is_served_at_its_own_rate),
		cmocka_unit_test(a_pause_bounds_the_rate_by_the_ring),
		cmocka_unit_test(arrivals_in_clumps_need_the_ring),
		cmocka_unit_test(no_time_and_no_packets_have_no_rate),
		cmocka_unit_test(a_large_ring_does_not_serve),
		cmocka_unit_test(random_queues_agree_with_a_slow_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
