/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf bench deletion: what is measured, in which order. */
#include "pipeline/bench_clock.h"
#include "pipeline/bench_deletion_private.h"
#include "pipeline/bench_queue.h"
#include "pipeline/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Packets per second that are generated. Flows under way at time 0 grow with them, to 170 MB. */
enum { RATE_MIN = 100, RATE_MAX = 10000000 };
enum { TIMEOUTS_PLAYED = 6, CONNS_MIN = 1024, SWEEP_REPEATS = 2 };
#define FILL 0.8 /* of the entries, by live connections at most */

/* ---- meters -------------------------------------------------------------------------------- */

int bench_deletion_meter_init(struct bench_deletion_meter *meter, uint64_t calls, bool bursts)
{
	size_t bytes = (calls + 1) * sizeof(*meter->calls);
	memset(meter, 0, sizeof(*meter));
	meter->calls = malloc(bytes);
	meter->bursts = bursts ? malloc(bytes) : NULL;
	if (meter->calls == NULL || (bursts && meter->bursts == NULL)) {
		bench_deletion_meter_release(meter);
		return -ENOMEM;
	}
	meter->calls_count = calls;
	memset(meter->calls, 0xff, bytes);
	if (bursts)
		memset(meter->bursts, 0xff, bytes);
	return 0;
}

void bench_deletion_meter_release(struct bench_deletion_meter *meter)
{
	free(meter->calls);
	free(meter->bursts);
	meter->calls = NULL;
	meter->bursts = NULL;
}

void bench_deletion_meter_call(struct bench_deletion_meter *meter, uint64_t call, uint64_t cycles)
{
	if (call < meter->calls_count && cycles < meter->calls[call])
		meter->calls[call] = (uint32_t)cycles;
}

void bench_deletion_meter_burst(struct bench_deletion_meter *meter, uint64_t burst, uint64_t cycles)
{
	if (meter->bursts != NULL && burst < meter->calls_count && cycles < meter->bursts[burst])
		meter->bursts[burst] = (uint32_t)cycles;
}

void bench_deletion_meter_add(
	struct bench_deletion_meter *meter, double packets_cycles, double maintenance_cycles)
{
	if (meter->count == BENCH_DELETION_REPEATS_MAX)
		return;
	meter->packets[meter->count] = packets_cycles;
	meter->maintenance[meter->count++] = maintenance_cycles;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double bench_deletion_median(double *values, uint32_t count)
{
	if (count == 0)
		return 0;
	qsort(values, count, sizeof(*values), compare);
	return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_deletion_meter_longest(const struct bench_deletion_meter *meter)
{
	uint32_t longest = 0;
	for (uint64_t i = 0; i < meter->calls_count; i++) {
		if (meter->calls[i] != UINT32_MAX && meter->calls[i] > longest)
			longest = meter->calls[i];
	}
	return longest;
}

void bench_deletion_meter_read(
	const struct bench_deletion_meter *meter, struct bench_deletion_cost *cost)
{
	double total[BENCH_DELETION_REPEATS_MAX], part[BENCH_DELETION_REPEATS_MAX];
	for (uint32_t i = 0; i < meter->count; i++)
		total[i] = meter->packets[i] + meter->maintenance[i];
	cost->total = bench_deletion_median(total, meter->count);
	cost->total_min = total[0];
	cost->total_max = total[meter->count - 1];
	memcpy(part, meter->packets, sizeof(part));
	cost->packets = bench_deletion_median(part, meter->count);
	memcpy(part, meter->maintenance, sizeof(part));
	cost->maintenance = bench_deletion_median(part, meter->count);
	cost->longest_cycles = bench_deletion_meter_longest(meter);
}

/* ---- packets ------------------------------------------------------------------------------- */

static int open_stream(struct bench_deletion *bench, struct traces_packets **out,
	struct traces_load_report *report)
{
	const struct bench_deletion_options *options = bench->options;
	char *message = bench->result->message;
	if (options->trace != NULL) {
		struct traces_load_options load;
		traces_load_options_defaults(&load);
		int error = traces_packets_open(out, options->trace, &load, report);
		if (error != 0)
			snprintf(message, BENCH_DELETION_MESSAGE_SIZE, "%s",
				report->message[0] != '\0' ? report->message : strerror(-error));
		return error;
	}
	struct traces_generate_options generate;
	char reason[TRACES_MESSAGE_SIZE] = "";
	traces_generate_options_defaults(&generate);
	generate.preset = options->preset;
	generate.packets = options->packets;
	generate.seed = options->seed;
	generate.packets_per_s = options->packets_per_s;
	if (generate.packets_per_s == 0) {
		double timeout_s = (double)(options->timeout_ns != 0 ? options->timeout_ns
								     : UINT64_C(60000000000)) /
				   1e9;
		double rate = (double)options->packets / (TIMEOUTS_PLAYED * timeout_s) + 1;
		rate = rate < RATE_MIN ? RATE_MIN : rate > RATE_MAX ? RATE_MAX : rate;
		generate.packets_per_s = (uint64_t)rate;
	}
	int error = traces_packets_generate(out, &generate, reason);
	if (error != 0)
		snprintf(message, BENCH_DELETION_MESSAGE_SIZE, "%s", reason);
	return error;
}

static int load_packets(struct bench_deletion *bench)
{
	struct traces_packets *stream;
	struct traces_load_report *report = calloc(1, sizeof(*report));
	if (report == NULL)
		return -ENOMEM;
	int error = open_stream(bench, &stream, report);
	if (error != 0) {
		free(report);
		return error;
	}
	bench_deletion_tell(bench, "loading", 0, 0);
	error = bench_packets_load(&bench->packets, stream, bench->options->packets, bench->stop);
	if (error != 0 && error != -EINTR)
		snprintf(bench->result->message, BENCH_DELETION_MESSAGE_SIZE, "%s",
			traces_packets_message(stream));
	if (error == 0 && bench->options->trace != NULL)
		bench_packets_tell_damage(report, bench->options->trace, bench->result->message,
			BENCH_DELETION_MESSAGE_SIZE);
	traces_packets_destroy(stream);
	free(report);
	if (error == 0 && bench->packets.flow_packets == 0) {
		snprintf(bench->result->message, BENCH_DELETION_MESSAGE_SIZE,
			"%s: no packet of a flow", bench->options->trace);
		return -EINVAL;
	}
	return error;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void make_rows(struct bench_deletion *bench)
{
	struct bench_deletion_result *result = bench->result;
	const struct bench_deletion_options *options = bench->options;
	const struct conntrack_deletion_ops *deletion;
	for (size_t i = 0; (deletion = conntrack_deletion_at(i)) != NULL; i++) {
		if (options->strategies != 0 && (options->strategies >> i & 1) == 0)
			continue;
		if (result->rows_count == BENCH_DELETION_STRATEGIES_MAX)
			break;
		struct bench_deletion_row *row = &result->rows[result->rows_count++];
		row->deletion = deletion;
		row->works = true;
		/* One that is one with its table takes that. */
		row->table = conntrack_table_by_name(deletion->name);
		if (row->table == NULL)
			row->table =
				options->table != NULL ? options->table : conntrack_table_at(0);
	}
}

static int measure_row(struct bench_deletion *bench, struct bench_deletion_row *row,
	struct bench_deletion_meter *meter)
{
	struct conntrack_config config;
	if (!row->works)
		return 0;
	bench_deletion_config(bench, &config, row->table, row->deletion);
	int error = bench_deletion_pass(bench, &config, meter, &row->cost);
	if (error == -ENOTSUP) {
		row->works = false;
		return 0;
	}
	if (error == -EINVAL)
		snprintf(bench->result->message, BENCH_DELETION_MESSAGE_SIZE,
			"%s: a knob is out of its range", row->deletion->name);
	return error;
}

static double zero_loss(
	const struct bench_deletion *bench, const struct bench_deletion_meter *meter)
{
	uint64_t from = bench->counted_from * bench->options->burst;
	if (from >= bench->packets.count)
		return 0;
	struct bench_queue queue = {
		.arrivals_ns = bench->arrivals_ns + from,
		.packets_count = bench->packets.count - from,
		.burst_pkts = bench->options->burst,
		.ring_pkts = bench->options->ring,
		.burst_cycles = meter->bursts + bench->counted_from,
		.cycles_per_s = bench_clock_tsc_hz(),
	};
	return queue.cycles_per_s > 0 ? bench_queue_zero_loss(&queue) : 0;
}

/* One pass of each that is not counted, then they take turns. */
static int measure_rows(struct bench_deletion *bench)
{
	struct bench_deletion_result *result = bench->result;
	uint32_t repeats = bench->options->repeats;
	int error = 0;
	for (uint32_t turn = 0; turn <= repeats && error == 0; turn++) {
		for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
			bench_deletion_tell(bench, "timing", turn * result->rows_count + i,
				(repeats + 1) * result->rows_count);
			if (turn == 1)
				bench->meters[i].count = 0;
			error = measure_row(bench, &result->rows[i], &bench->meters[i]);
		}
	}
	for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
		struct bench_deletion_cost *cost = &result->rows[i].cost;
		if (!result->rows[i].works)
			continue;
		bench_deletion_meter_read(&bench->meters[i], cost);
		cost->zero_loss_packets_per_s = zero_loss(bench, &bench->meters[i]);
	}
	return error;
}

/* What the processor counts in one more pass. */
static int count_row(struct bench_deletion *bench, struct bench_deletion_row *row)
{
	struct conntrack_config config;
	bench_deletion_config(bench, &config, row->table, row->deletion);
	bench->counted = &row->counted;
	int error = counters_work(&bench->counters)
			    ? bench_deletion_pass(bench, &config, NULL, NULL)
			    : 0;
	bench->counted = NULL;
	counters_add(&bench->result->counted, &row->counted);
	return error;
}

/* A sixteenth, a quarter, once, four and sixteen times the default. */
static uint64_t point_value(uint64_t usual, uint32_t point)
{
	static const unsigned int shifts[BENCH_DELETION_POINTS] = { 0, 2, 4, 6, 8 };
	uint64_t value = (usual << shifts[point]) >> 4;
	return value != 0 ? value : 1;
}

static int sweep_knob(
	struct bench_deletion *bench, struct bench_deletion_row *row, enum bench_deletion_knob knob)
{
	struct bench_deletion_curve *curve = &row->curves[knob];
	uint64_t usual = bench_deletion_knob_default(row->deletion, knob);
	int error = 0;
	for (uint32_t i = 0; usual != 0 && i < BENCH_DELETION_POINTS && error == 0; i++) {
		struct bench_deletion_meter meter;
		struct conntrack_config config;
		struct bench_deletion_point point = { .value = point_value(usual, i) };
		if (curve->points_count != 0 &&
			point.value == curve->points[curve->points_count - 1].value)
			continue;
		bench_deletion_config(bench, &config, row->table, row->deletion);
		bench_deletion_knob_set(&config.knobs, knob, point.value);
		error = bench_deletion_meter_init(
			&meter, bench->packets.count / bench->options->burst + 1, true);
		for (uint32_t k = 0; k < SWEEP_REPEATS && error == 0; k++)
			error = bench_deletion_pass(bench, &config, &meter, &point.cost);
		if (error == 0) {
			bench_deletion_meter_read(&meter, &point.cost);
			point.cost.zero_loss_packets_per_s = zero_loss(bench, &meter);
			curve->points[curve->points_count++] = point;
		} else if (error == -EINVAL) {
			error = 0; /* not a value that it takes */
		}
		bench_deletion_meter_release(&meter);
	}
	return error;
}

static int sweep_row(struct bench_deletion *bench, struct bench_deletion_row *row)
{
	int error = 0;
	for (enum bench_deletion_knob knob = 0; knob < BENCH_DELETION_KNOBS_COUNT && error == 0;
		knob++)
		error = sweep_knob(bench, row, knob);
	return error;
}

static int further(struct bench_deletion *bench)
{
	const struct bench_deletion_options *options = bench->options;
	struct bench_deletion_result *result = bench->result;
	int error = 0;
	for (uint32_t i = 0; i < result->rows_count && error == 0; i++) {
		struct bench_deletion_row *row = &result->rows[i];
		bench_deletion_tell(bench, "bursts and judge", i, result->rows_count);
		if (row->works)
			error = count_row(bench, row);
		if (row->works && error == 0 && options->due != 0)
			error = bench_deletion_burst(bench, row);
		if (row->works && error == 0 && !options->no_judge)
			error = bench_deletion_judge(bench, row);
		if (row->works && error == 0 && options->sweep)
			error = sweep_row(bench, row);
	}
	return error;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int prepare(struct bench_deletion *bench)
{
	const struct bench_deletion_options *options = bench->options;
	uint64_t bursts = bench->packets.count / options->burst + 1;
	bench->copies = aligned_alloc(BASE_CACHE_LINE, BASE_BURST_MAX * sizeof(*bench->copies));
	bench->live = malloc((bursts + 1) * sizeof(*bench->live));
	bench->meters = calloc(bench->result->rows_count, sizeof(*bench->meters));
	bench->arrivals_ns = malloc(bench->packets.count * sizeof(*bench->arrivals_ns));
	if (bench->copies == NULL || bench->live == NULL || bench->meters == NULL ||
		bench->arrivals_ns == NULL)
		return -ENOMEM;
	for (uint64_t i = 0, time_ns = 0; i < bench->packets.count; i++) {
		if (bench->packets.packets[i].time_ns > time_ns)
			time_ns = bench->packets.packets[i].time_ns;
		bench->arrivals_ns[i] = time_ns;
	}
	int error = bench_deletion_count_live(bench);
	for (uint32_t i = 0; i < bench->result->rows_count && error == 0; i++)
		error = bench_deletion_meter_init(&bench->meters[i], bursts, true);
	bench->conns = options->conns;
	if (bench->conns == 0)
		bench->conns = (uint32_t)((double)bench->live_max / FILL) + 1;
	if (options->conns == 0 && bench->conns < CONNS_MIN)
		bench->conns = CONNS_MIN;
	return error != 0
		       ? error
		       : pipeline_memory_check_conns(bench->conns, PIPELINE_MEMORY_LAB_BYTES,
				 "--conns", bench->result->message, sizeof(bench->result->message));
}

static void describe(struct bench_deletion *bench)
{
	struct bench_deletion_result *result = bench->result;
	double sum = 0;
	uint64_t from = (uint64_t)((double)bench->samples * bench->options->warm);
	for (uint64_t i = from; i < bench->samples; i++)
		sum += bench->live[i];
	result->packets = bench->packets.count;
	result->flow_packets = bench->packets.flow_packets;
	result->left_out = bench->packets.left_out;
	result->duration_ns = bench->packets.duration_ns;
	result->counted_packets = bench->counted_packets;
	result->conns = bench->conns;
	result->live_max = bench->live_max;
	result->live_mean = bench->samples > from ? sum / (double)(bench->samples - from) : 0;
	result->tsc_hz = bench_clock_tsc_hz();
}

static void release(struct bench_deletion *bench)
{
	for (uint32_t i = 0; bench->meters != NULL && i < bench->result->rows_count; i++)
		bench_deletion_meter_release(&bench->meters[i]);
	free(bench->meters);
	free(bench->live);
	free(bench->arrivals_ns);
	free(bench->copies);
	bench_packets_destroy(&bench->packets);
}

int bench_deletion_run(const struct bench_deletion_options *options,
	struct bench_deletion_result *result, const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *context)
{
	struct bench_deletion *bench = calloc(1, sizeof(*bench));
	if (bench == NULL)
		return -ENOMEM;
	memset(result, 0, sizeof(*result));
	*bench = (struct bench_deletion){
		.options = options,
		.result = result,
		.stop = stop,
		.progress = progress,
		.context = context,
	};
	make_rows(bench);
	counters_open(&bench->counters, options->counters);
	if (!counters_work(&bench->counters)) /* why */
		counters_end(&bench->counters, &result->counted, 0);
	int error = load_packets(bench);
	if (error == 0)
		error = prepare(bench);
	if (error == 0)
		error = measure_rows(bench);
	if (error == 0)
		error = further(bench);
	if (error == 0)
		describe(bench);
	release(bench);
	counters_close(&bench->counters);
	free(bench);
	return error;
}
