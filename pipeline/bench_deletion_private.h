/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to bench_deletion*.c. */
#pragma once

#include "base/arena.h"
#include "base/cycles.h"
#include "conntrack/oracle.h"
#include "pipeline/bench_deletion.h"
#include "pipeline/bench_packets.h"

/* Entries looked at per packet, as the worker loop has it. */
enum { BENCH_DELETION_LOOKS = 4 };

/* Costs of one strategy over the repeats. */
struct bench_deletion_meter {
	double packets[BENCH_DELETION_REPEATS_MAX], maintenance[BENCH_DELETION_REPEATS_MAX];
	uint32_t count;
	uint32_t *calls; /* least cycles of each call of maintenance; UINT32_MAX: none yet */
	uint64_t calls_count;
	uint32_t *bursts; /* the same of each burst with its call; NULL: not wanted */
};

struct bench_deletion {
	const struct bench_deletion_options *options;
	struct bench_deletion_result *result;
	struct bench_packets packets;
	struct base_packet *copies; /* of a burst */
	struct conntrack_lab_stats lab;
	uint32_t conns;
	uint32_t *live; /* of the oracle, at the moments of samples */
	uint64_t samples, live_max, counted_packets;
	struct bench_deletion_meter *meters; /* of rows */
	uint64_t *arrivals_ns;               /* of packets, not decreasing */
	uint64_t counted_from;               /* the first burst that counts */
	struct counters counters;
	struct counters_sum
		*counted; /* a pass counts into it, and is not timed; NULL: it is timed */
	const atomic_bool *stop;
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
	void *context;
};

void bench_deletion_config(const struct bench_deletion *bench, struct conntrack_config *config,
	const struct conntrack_table_ops *table, const struct conntrack_deletion_ops *deletion);
void bench_deletion_copy(const struct bench_deletion *bench, struct base_burst *burst,
	struct base_packet *copies, uint64_t at);
void bench_deletion_knob_set(
	struct conntrack_deletion_knobs *knobs, enum bench_deletion_knob knob, uint64_t value);
int bench_deletion_count_live(struct bench_deletion *bench); /* -EINTR */
bool bench_deletion_stopped(const struct bench_deletion *bench);
void bench_deletion_tell(
	const struct bench_deletion *bench, const char *what, uint64_t done, uint64_t total);

int bench_deletion_meter_init(
	struct bench_deletion_meter *meter, uint64_t calls, bool bursts); /* -ENOMEM */
void bench_deletion_meter_release(struct bench_deletion_meter *meter);
void bench_deletion_meter_call(struct bench_deletion_meter *meter, uint64_t call, uint64_t cycles);
void bench_deletion_meter_burst(
	struct bench_deletion_meter *meter, uint64_t burst, uint64_t cycles);
void bench_deletion_meter_add(
	struct bench_deletion_meter *meter, double packets_cycles, double maintenance_cycles);
/* Medians and extremes into cost. */
void bench_deletion_meter_read(
	const struct bench_deletion_meter *meter, struct bench_deletion_cost *cost);
/* The most over calls. */
double bench_deletion_meter_longest(const struct bench_deletion_meter *meter);
double bench_deletion_median(double *values, uint32_t count);

int bench_deletion_pass(struct bench_deletion *bench, const struct conntrack_config *template,
	struct bench_deletion_meter *meter, struct bench_deletion_cost *cost);
int bench_deletion_burst(struct bench_deletion *bench, struct bench_deletion_row *row);
int bench_deletion_judge(struct bench_deletion *bench, struct bench_deletion_row *row);
