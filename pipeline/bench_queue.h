/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Throughput at zero loss, computed: how many packets per second may come at most, in the pattern
 * of a trace, so that a receive ring never runs over while one core serves bursts whose times were
 * measured. A mean of cycles does not tell: a strategy that stops the world for a millisecond loses
 * what the ring cannot hold meanwhile, at any rate above ring / pause.
 *
 * The model: the trace's arrival times, divided by a speed; bursts are served one behind the
 * other, each once its last packet has come, in the time that was measured for it; a packet leaves
 * the ring when its burst begins. The rate sought is the highest at which the ring holds, found by
 * bisection on the speed. It bounds the part that was measured: no source, parser, chain is in it.
 *
 * Pure. Cost: one pass over packets per step, QUEUE_STEPS steps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bench_queue {
	const uint64_t *arrivals_ns; /* of packets, not decreasing */
	uint64_t packets_count;
	uint32_t burst_pkts; /* of every burst but the last, >= 1 */
	uint32_t ring_pkts;  /* >= burst_pkts */
	const uint32_t *burst_cycles;
	double cycles_per_s; /* > 0 */
};

/* Whether nothing is lost when time goes `speed` times as fast. */
bool bench_queue_holds(const struct bench_queue *queue, double speed);

/* Packets per second on average; 0: no time passes between the packets, or none are there. */
double bench_queue_zero_loss(const struct bench_queue *queue);
