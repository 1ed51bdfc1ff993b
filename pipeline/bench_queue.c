/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_queue.h"

#include "base/compiler.h"

enum { QUEUE_STEPS = 32 }; /* of bisection, and of doubling before it */

static double arrival_s(const struct bench_queue *queue, uint64_t packet, double speed)
{
	return (double)(queue->arrivals_ns[packet] - queue->arrivals_ns[0]) * 1e-9 / speed;
}

bool bench_queue_holds(const struct bench_queue *queue, double speed)
{
	double free_s = 0; /* when the core is free */
	uint64_t next = 0; /* the first packet that has not come when a burst begins */
	uint64_t bursts = (queue->packets_count + queue->burst_pkts - 1) / queue->burst_pkts;
	for (uint64_t burst = 0; burst < bursts; burst++) {
		uint64_t first = burst * queue->burst_pkts, end = first + queue->burst_pkts;
		if (end > queue->packets_count)
			end = queue->packets_count;
		double whole_s = arrival_s(queue, end - 1, speed);
		double start_s = free_s > whole_s ? free_s : whole_s;
		if (next < end)
			next = end;
		while (next < queue->packets_count && arrival_s(queue, next, speed) < start_s) {
			next++;
			/* Here, for the ring was fullest just before the burst left it. */
			if (next - first > queue->ring_pkts)
				return false;
		}
		free_s = start_s + (double)queue->burst_cycles[burst] / queue->cycles_per_s;
	}
	return true;
}

static double service_s(const struct bench_queue *queue)
{
	uint64_t bursts = (queue->packets_count + queue->burst_pkts - 1) / queue->burst_pkts;
	double cycles = 1; /* nothing takes no time */
	for (uint64_t burst = 0; burst < bursts; burst++)
		cycles += (double)queue->burst_cycles[burst];
	return cycles / queue->cycles_per_s;
}

double bench_queue_zero_loss(const struct bench_queue *queue)
{
	BASE_ASSERT(queue->burst_pkts >= 1 && queue->ring_pkts >= queue->burst_pkts);
	if (queue->packets_count < 2)
		return 0;
	double span_s = arrival_s(queue, queue->packets_count - 1, 1);
	if (span_s <= 0)
		return 0;
	double rate = (double)(queue->packets_count - 1) / span_s;
	/* One packet per second is slow enough for everything that a core does. */
	double low = 0, high = 1 / rate;
	for (int step = 0; step < 2 * QUEUE_STEPS && bench_queue_holds(queue, high); step++) {
		low = high;
		high *= 2;
	}
	for (int step = 0; step < QUEUE_STEPS; step++) {
		double middle = (low + high) / 2;
		if (bench_queue_holds(queue, middle))
			low = middle;
		else
			high = middle;
	}
	/* What the ring holds at the end has still to be served. */
	double capacity = (double)queue->packets_count / service_s(queue);
	return low * rate < capacity ? low * rate : capacity;
}
