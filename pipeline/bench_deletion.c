/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_deletion.h"

#include "pipeline/bench_clock.h"
#include "pipeline/bench_deletion_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

enum {
	SAMPLE_BURSTS = 4, /* between moments at which residents are counted */
};

void bench_deletion_options_defaults(struct bench_deletion_options *options)
{
	*options = (struct bench_deletion_options){
		.preset = TRACES_PRESET_CAMPUS,
		.packets = 2000000,
		.timeout_ns = 5 * SECOND_NS,
		.due = 65536,
		.warm = 0.5,
		.burst = 64,
		.repeats = 5,
		.ring = 4096,
		.seed = 1,
	};
}

static uint64_t knob_of(const struct conntrack_deletion_knobs *knobs, enum bench_deletion_knob knob)
{
	switch (knob) {
	case BENCH_DELETION_INTERVAL:
		return knobs->interval_ns;
	case BENCH_DELETION_BUDGET:
		return knobs->budget;
	case BENCH_DELETION_SLOTS:
		return knobs->slots;
	case BENCH_DELETION_KNOBS_COUNT:
		break;
	}
	return 0;
}

void bench_deletion_knob_set(
	struct conntrack_deletion_knobs *knobs, enum bench_deletion_knob knob, uint64_t value)
{
	if (knob == BENCH_DELETION_INTERVAL)
		knobs->interval_ns = value;
	else if (knob == BENCH_DELETION_BUDGET)
		knobs->budget = (uint32_t)value;
	else
		knobs->slots = (uint32_t)value;
}

uint64_t bench_deletion_knob_default(
	const struct conntrack_deletion_ops *deletion, enum bench_deletion_knob knob)
{
	return knob_of(&deletion->defaults, knob);
}

const char *bench_deletion_knob_name(enum bench_deletion_knob knob)
{
	static const char *const names[BENCH_DELETION_KNOBS_COUNT] = { "interval", "budget",
		"slots" };
	return names[knob];
}

/* ---- a tracker ------------------------------------------------------------------------------- */

void bench_deletion_config(const struct bench_deletion *bench, struct conntrack_config *config,
	const struct conntrack_table_ops *table, const struct conntrack_deletion_ops *deletion)
{
	const struct bench_deletion_options *options = bench->options;
	conntrack_config_defaults(config);
	config->entries_max = bench->conns;
	config->half_open_max = bench->conns;
	config->salt = options->seed;
	config->table = table;
	config->deletion = deletion;
	config->knobs = options->knobs;
	config->no_close_hints = options->no_close_hints;
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT && options->timeout_ns != 0; i++)
		config->timeout_ns[i] = options->timeout_ns;
}

/* Records as the parser left them, in the cache as they would be. */
void bench_deletion_copy(const struct bench_deletion *bench, struct base_burst *burst,
	struct base_packet *copies, uint64_t at)
{
	uint64_t left = bench->packets.count - at;
	burst->count = (uint16_t)(left < bench->options->burst ? left : bench->options->burst);
	burst->drop_count = 0;
	memcpy(copies, &bench->packets.packets[at], burst->count * sizeof(*copies));
	for (unsigned int i = 0; i < burst->count; i++)
		burst->packets[i] = &copies[i];
	base_burst_mark_runs(burst, false);
}

bool bench_deletion_stopped(const struct bench_deletion *bench)
{
	/* no partner: a hint */
	return bench->stop != NULL && atomic_load_explicit(bench->stop, memory_order_relaxed);
}

void bench_deletion_tell(
	const struct bench_deletion *bench, const char *what, uint64_t done, uint64_t total)
{
	if (bench->progress != NULL)
		bench->progress(bench->context, what, done, total);
}

/* ---- the oracle: how many are live, at the moments of samples ------------------------------ */

int bench_deletion_count_live(struct bench_deletion *bench)
{
	struct conntrack_config config;
	struct conntrack_oracle oracle;
	uint64_t bursts = 0;
	bench_deletion_config(bench, &config, NULL, NULL);
	conntrack_oracle_init(&oracle, &config);
	for (uint64_t at = 0; at < bench->packets.count; bursts++) {
		uint64_t end = at + bench->options->burst;
		for (; at < end && at < bench->packets.count; at++)
			conntrack_oracle_packet(&oracle, &bench->packets.packets[at], false);
		conntrack_oracle_advance(&oracle, bench->packets.packets[at - 1].time_ns);
		if (oracle.count > bench->live_max)
			bench->live_max = oracle.count;
		if (bursts % SAMPLE_BURSTS == 0)
			bench->live[bench->samples++] = (uint32_t)oracle.count;
		if (bursts % 4096 == 0) {
			bench_deletion_tell(bench, "oracle", at, bench->packets.count);
			if (bench_deletion_stopped(bench))
				break;
		}
	}
	conntrack_oracle_release(&oracle);
	return bench_deletion_stopped(bench) ? -EINTR : 0;
}

/* ---- a timed pass -------------------------------------------------------------------------- */

/* From here on packets are counted. */
static bool is_warm(const struct bench_deletion *bench, uint64_t time_ns)
{
	return (double)time_ns >= bench->options->warm * (double)bench->packets.duration_ns;
}

struct pass {
	struct bench_deletion *bench;
	struct conntrack *tracker;
	struct bench_deletion_meter *meter;
	struct conntrack_stats warm; /* when counting began */
	struct conntrack_lab_stats *lab;
	uint64_t process_cycles, advance_cycles, counted;
	uint64_t bursts, samples;
	double resident_sum, live_sum, resident_max;
	bool counting;
};

static void sample(struct pass *pass)
{
	struct conntrack_stats stats;
	uint64_t live = pass->bench->live[pass->samples++];
	if (!pass->counting || live == 0)
		return;
	conntrack_stats(pass->tracker, &stats);
	pass->resident_sum += (double)stats.live;
	pass->live_sum += (double)live;
	if ((double)stats.live > pass->resident_max * (double)live)
		pass->resident_max = (double)stats.live / (double)live;
}

static void begin_counting(struct pass *pass)
{
	pass->counting = true;
	pass->bench->counted_from = pass->bursts;
	conntrack_stats(pass->tracker, &pass->warm);
	conntrack_lab_stats_reset(pass->tracker);
}

static void one_burst(struct pass *pass, struct base_burst *burst)
{
	uint64_t now_ns = burst->packets[burst->count - 1]->time_ns;
	struct bench_deletion *bench = pass->bench;
	bool counters = pass->counting && bench->counted != NULL;
	if (counters)
		counters_begin(&bench->counters);
	uint64_t start = base_cycles();
	conntrack_process_burst(pass->tracker, burst);
	uint64_t middle = base_cycles();
	conntrack_advance(pass->tracker, now_ns, BENCH_DELETION_LOOKS * burst->count);
	uint64_t end = base_cycles();
	if (counters) {
		counters_end(&bench->counters, bench->counted, burst->count);
	} else if (pass->counting) {
		pass->process_cycles += middle - start;
		pass->advance_cycles += end - middle;
		pass->counted += burst->count;
		bench_deletion_meter_call(pass->meter, pass->bursts, end - middle);
		bench_deletion_meter_burst(pass->meter, pass->bursts, end - start);
	}
	if (pass->bursts++ % SAMPLE_BURSTS == 0)
		sample(pass);
}

static void fill_cost(const struct pass *pass, struct bench_deletion_cost *cost)
{
	struct conntrack_stats stats;
	struct conntrack_lab_stats *lab = pass->lab;
	const struct conntrack_stats *warm = &pass->warm;
	conntrack_stats(pass->tracker, &stats);
	conntrack_lab_stats(pass->tracker, lab);
	cost->inserted = stats.inserted - warm->inserted;
	cost->removed = stats.expired + stats.closed + stats.evicted -
			(warm->expired + warm->closed + warm->evicted);
	cost->refused = stats.insert_failures - warm->insert_failures;
	cost->evicted_live = lab->evicted_live;
	cost->looked_at = lab->looked_at;
	cost->longest_looked = lab->longest_advance;
	cost->late_p50_ns = base_histogram_quantile(&lab->late, 0.5);
	cost->late_p99_ns = base_histogram_quantile(&lab->late, 0.99);
	cost->late_max_ns = lab->late.count != 0 ? lab->late.max : 0;
	if (pass->live_sum > 0)
		cost->resident_per_live = pass->resident_sum / pass->live_sum;
	cost->resident_max_per_live = pass->resident_max;
	cost->bytes_per_entry = (double)lab->deletion_bytes / (double)pass->bench->conns;
	if (lab->late.count != 0 && pass->advance_cycles != 0)
		cost->per_removal = (double)pass->advance_cycles / (double)lab->late.count;
}

int bench_deletion_pass(struct bench_deletion *bench, const struct conntrack_config *template,
	struct bench_deletion_meter *meter, struct bench_deletion_cost *cost)
{
	static const uint64_t look = 1024; /* bursts between looks at the stop flag */
	struct conntrack_config config = *template;
	struct base_burst burst;
	struct pass pass = { .bench = bench, .meter = meter, .lab = &bench->lab };
	int error = base_arena_create(&config.arena, true);
	if (error != 0)
		return error;
	error = conntrack_create(&pass.tracker, &config);
	for (uint64_t at = 0; error == 0 && at < bench->packets.count; at += burst.count) {
		bench_deletion_copy(bench, &burst, bench->copies, at);
		if (!pass.counting && is_warm(bench, burst.packets[0]->time_ns))
			begin_counting(&pass);
		one_burst(&pass, &burst);
		if (pass.bursts % look == 0 && bench_deletion_stopped(bench))
			error = -EINTR;
	}
	if (error == 0 && bench->counted == NULL) {
		fill_cost(&pass, cost);
		bench->counted_packets = pass.counted;
		bench_deletion_meter_add(meter, (double)pass.process_cycles / (double)pass.counted,
			(double)pass.advance_cycles / (double)pass.counted);
	}
	if (pass.tracker != NULL)
		conntrack_destroy(pass.tracker);
	base_arena_destroy(config.arena);
	return error;
}

/* ---- the judge ----------------------------------------------------------------------------- */

int bench_deletion_judge(struct bench_deletion *bench, struct bench_deletion_row *row)
{
	struct conntrack_config config;
	struct conntrack_judge *judge = NULL;
	struct base_burst burst;
	uint64_t bursts = 0;
	bench_deletion_config(bench, &config, row->table, row->deletion);
	int error = base_arena_create(&config.arena, true);
	if (error != 0)
		return error;
	error = conntrack_judge_create(&judge, &config);
	for (uint64_t at = 0; error == 0 && at < bench->packets.count; at += burst.count) {
		bench_deletion_copy(bench, &burst, bench->copies, at);
		uint64_t now_ns = burst.packets[burst.count - 1]->time_ns;
		conntrack_judge_process(judge, &burst);
		conntrack_judge_advance(judge, now_ns, BENCH_DELETION_LOOKS * burst.count);
		if (bursts++ % 1024 == 0) {
			bench_deletion_tell(bench, row->deletion->name, at, bench->packets.count);
			if (bench_deletion_stopped(bench))
				error = -EINTR;
		}
	}
	if (error == 0) {
		conntrack_judge_drain(judge);
		row->verdict = *conntrack_judge_verdict(judge);
	}
	conntrack_judge_destroy(judge);
	base_arena_destroy(config.arena);
	return error;
}
