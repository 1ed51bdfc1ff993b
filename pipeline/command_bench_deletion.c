/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf bench deletion: print and write what bench_deletion*.c found. */
#include "pipeline/bench_deletion.h"
#include "pipeline/command.h"
#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { TIME_SIZE = 32 };

static const char *short_time(uint64_t time_ns, char *text)
{
	units_format_time_short(time_ns, text, TIME_SIZE);
	return text;
}

static double microseconds(double cycles, double tsc_hz)
{
	return tsc_hz > 0 ? cycles / tsc_hz * 1e6 : 0;
}

static const char *judged(const struct bench_deletion_row *row, char *text)
{
	if (row->verdict.packets == 0)
		return "-";
	if (row->verdict.failures_sum == 0)
		return "right";
	snprintf(text, TIME_SIZE, "%" PRIu64 " FAILED", row->verdict.failures_sum);
	return text;
}

static void print_row(FILE *stream, const struct bench_deletion_row *row,
	const struct bench_deletion_row *none, double tsc_hz)
{
	char p50[TIME_SIZE], p99[TIME_SIZE], most[TIME_SIZE], verdict[TIME_SIZE], over[TIME_SIZE];
	const struct bench_deletion_cost *cost = &row->cost;
	bool late = cost->removed != 0 && row->cost.late_max_ns != 0;
	snprintf(over, sizeof(over), "-");
	/* One that ran full is no baseline: refusing is cheaper than tracking. */
	if (none != NULL && none->works && none != row && none->cost.total > 0 &&
		none->cost.refused == 0)
		snprintf(
			over, sizeof(over), "%+.1f %%", 100 * (cost->total / none->cost.total - 1));
	fprintf(stream,
		"%-18s %7.1f %7.1f %8s %6.0f %% %8.2f %6.2f %6.2f %8s %8s %8s %8.1f %8" PRIu64
		" %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %6.1f  %s\n",
		row->deletion->name, cost->total, cost->maintenance, over,
		cost->total > 0 ? 100 * (cost->total_max - cost->total_min) / cost->total : 0,
		cost->zero_loss_packets_per_s / 1e6, cost->resident_per_live,
		cost->resident_max_per_live, late ? short_time(cost->late_p50_ns, p50) : "-",
		late ? short_time(cost->late_p99_ns, p99) : "-",
		late ? short_time(cost->late_max_ns, most) : "-",
		microseconds(cost->longest_cycles, tsc_hz), cost->longest_looked, cost->refused,
		cost->evicted_live, row->verdict.stale_hits, cost->bytes_per_entry,
		judged(row, verdict));
}

static const struct bench_deletion_row *find_none(const struct bench_deletion_result *result)
{
	for (uint32_t i = 0; i < result->rows_count; i++) {
		if (strcmp(result->rows[i].deletion->name, "none") == 0)
			return &result->rows[i];
	}
	return NULL;
}

static void print_costs(FILE *stream, const struct bench_deletion_result *result)
{
	const struct bench_deletion_row *none = find_none(result);
	fprintf(stream,
		"%-18s %7s %7s %8s %8s %8s %6s %6s %8s %8s %8s %8s %8s %9s %8s %8s %6s  %s\n"
		"%-18s %7s %7s %8s %8s %8s %6s %6s %8s %8s %8s %8s %8s %9s %8s %8s %6s  %s\n",
		"", "cycles", "mainte-", "over", "", "Mpps, no", "kept /", "", "late by", "", "",
		"longest", "entries", "", "evicted", "stale", "bytes/", "", "strategy", "/packet",
		"nance", "none", "spread", "loss", "live", "most", "p50", "p99", "most", "call us",
		"in it", "refused", "live", "hits", "entry", "answers");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_deletion_row *row = &result->rows[i];
		if (row->works)
			print_row(stream, row, none, result->tsc_hz);
		else
			fprintf(stream, "%-18s not with table %s\n", row->deletion->name,
				row->table->name);
	}
}

static void print_bursts(FILE *stream, const struct bench_deletion_options *options,
	const struct bench_deletion_result *result)
{
	char due[32], stay[32];
	units_format_grouped(options->due, due, sizeof(due));
	units_format_grouped(3 * (uint64_t)options->due, stay, sizeof(stay));
	fprintf(stream,
		"\n%s connections due at one instant, among %s that stay; cycles\n\n"
		"%-18s %8s %8s %8s %8s %9s %9s %9s %9s\n%-18s %8s %8s %8s %8s %9s %9s %9s %9s\n",
		due, stay, "", "per", "per", "per", "per new", "longest", "entries", "calls until",
		"left", "strategy", "insert", "removal", "packet", "insert", "call us", "in it",
		"gone", "behind");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_deletion_row *row = &result->rows[i];
		const struct bench_deletion_burst *burst = &row->burst;
		if (!row->works)
			continue;
		fprintf(stream,
			"%-18s %8.1f %8.1f %8.1f %8.1f %9.1f %9" PRIu64 " %11" PRIu64 " %9" PRIu64
			"\n",
			row->deletion->name, burst->insert_cycles, burst->expire_cycles,
			burst->hit_cycles, burst->reinsert_cycles,
			microseconds(burst->longest_cycles, result->tsc_hz), burst->longest_looked,
			burst->calls, burst->left);
	}
}

static void print_curves(FILE *stream, const struct bench_deletion_result *result)
{
	char value[TIME_SIZE], late[TIME_SIZE];
	fprintf(stream, "\n%-18s %-10s %10s %8s %8s %6s %9s %9s\n", "strategy", "knob", "value",
		"cycles", "mainten.", "kept", "late p99", "call us");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_deletion_row *row = &result->rows[i];
		for (unsigned int k = 0; k < BENCH_DELETION_KNOBS_COUNT; k++) {
			const struct bench_deletion_curve *curve = &row->curves[k];
			for (uint32_t j = 0; j < curve->points_count; j++) {
				const struct bench_deletion_point *point = &curve->points[j];
				if (k == BENCH_DELETION_INTERVAL)
					short_time(point->value, value);
				else
					snprintf(value, sizeof(value), "%" PRIu64, point->value);
				fprintf(stream, "%-18s %-10s %10s %8.1f %8.1f %6.2f %9s %9.1f\n",
					row->deletion->name, bench_deletion_knob_name(k), value,
					point->cost.total, point->cost.maintenance,
					point->cost.resident_per_live,
					short_time(point->cost.late_p99_ns, late),
					microseconds(point->cost.longest_cycles, result->tsc_hz));
			}
		}
	}
}

static void print_table(FILE *stream, const struct bench_deletion_options *options,
	const struct bench_deletion_result *result)
{
	char packets[32], entries[32], live[32], time[TIME_SIZE], timeout[TIME_SIZE];
	units_format_grouped(result->packets, packets, sizeof(packets));
	units_format_grouped(result->conns, entries, sizeof(entries));
	units_format_grouped((uint64_t)result->live_mean, live, sizeof(live));
	fprintf(stream,
		"traffic    %s packets in %s, %s; the first %.0f %% of the time not counted\n",
		packets, short_time(result->duration_ns, time),
		options->trace != NULL ? options->trace : traces_preset_name(options->preset),
		100 * options->warm);
	fprintf(stream,
		"tracker    %s entries, %s live on average, timeouts %s, close hints %s\n\n",
		entries, live,
		options->timeout_ns != 0 ? short_time(options->timeout_ns, timeout) : "Linux's",
		options->no_close_hints ? "off" : "on");
	print_costs(stream, result);
	if (options->due != 0)
		print_bursts(stream, options, result);
	if (options->sweep)
		print_curves(stream, result);
	results_counters_head(stream, &result->counted, "packet");
	for (uint32_t i = 0; i < result->rows_count; i++)
		results_counters_row(
			stream, result->rows[i].deletion->name, &result->rows[i].counted);
	fprintf(stream, "\n");
	results_counters_print_why(stream, &result->counted);
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct conntrack_verdict *verdict = &result->rows[i].verdict;
		if (verdict->failures_sum != 0)
			fprintf(stream, "\n%s: %s\n", result->rows[i].deletion->name,
				verdict->first_failure);
	}
}

/* ---- the document -------------------------------------------------------------------------- */

static json_t *cost_document(
	struct results_builder *builder, const struct bench_deletion_cost *cost)
{
	json_t *object = json_object();
	results_put_real(builder, object, "cycles_per_packet", cost->total);
	results_put_real(builder, object, "cycles_min", cost->total_min);
	results_put_real(builder, object, "cycles_max", cost->total_max);
	results_put_real(builder, object, "packets_cycles", cost->packets);
	results_put_real(builder, object, "maintenance_cycles", cost->maintenance);
	results_put_real(builder, object, "maintenance_cycles_per_removal", cost->per_removal);
	results_put_real(builder, object, "longest_call_cycles", cost->longest_cycles);
	results_put_count(builder, object, "longest_call_entries", cost->longest_looked);
	results_put_count(builder, object, "inserted", cost->inserted);
	results_put_count(builder, object, "removed", cost->removed);
	results_put_count(builder, object, "refused", cost->refused);
	results_put_count(builder, object, "evicted_live", cost->evicted_live);
	results_put_count(builder, object, "looked_at", cost->looked_at);
	results_put_count(builder, object, "late_p50_ns", cost->late_p50_ns);
	results_put_count(builder, object, "late_p99_ns", cost->late_p99_ns);
	results_put_count(builder, object, "late_max_ns", cost->late_max_ns);
	results_put_real(builder, object, "resident_per_live", cost->resident_per_live);
	results_put_real(builder, object, "resident_max_per_live", cost->resident_max_per_live);
	results_put_real(builder, object, "bytes_per_entry", cost->bytes_per_entry);
	results_put_real(builder, object, "zero_loss_packets_per_s", cost->zero_loss_packets_per_s);
	return object;
}

static json_t *burst_document(
	struct results_builder *builder, const struct bench_deletion_burst *burst)
{
	json_t *object = json_object();
	results_put_real(builder, object, "insert_cycles", burst->insert_cycles);
	results_put_real(builder, object, "removal_cycles", burst->expire_cycles);
	results_put_real(builder, object, "packet_cycles", burst->hit_cycles);
	results_put_real(builder, object, "reinsert_cycles", burst->reinsert_cycles);
	results_put_real(builder, object, "longest_call_cycles", burst->longest_cycles);
	results_put_count(builder, object, "longest_call_entries", burst->longest_looked);
	results_put_count(builder, object, "calls", burst->calls);
	results_put_count(builder, object, "left", burst->left);
	return object;
}

/* Points of the distribution: [[ns, share], ...]. */
static json_t *late_document(struct results_builder *builder, const struct base_histogram *late)
{
	json_t *array = json_array();
	uint64_t seen = 0;
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS && late->count != 0; i++) {
		if (late->buckets[i] == 0)
			continue;
		seen += late->buckets[i];
		json_t *pair = json_array();
		uint64_t high = base_histogram_bucket_high(i);
		results_append(builder, pair,
			json_integer((json_int_t)(high < late->max ? high : late->max)));
		results_append(builder, pair, json_real((double)seen / (double)late->count));
		results_append(builder, array, pair);
	}
	return array;
}

static json_t *verdict_document(
	struct results_builder *builder, const struct conntrack_verdict *verdict)
{
	json_t *object = json_object(), *failures = json_object();
	results_put_count(builder, object, "packets", verdict->packets);
	results_put_count(builder, object, "hits", verdict->hits);
	results_put_count(builder, object, "misses", verdict->misses);
	results_put_count(builder, object, "untracked", verdict->untracked);
	results_put_count(builder, object, "stale_hits", verdict->stale_hits);
	results_put_count(builder, object, "stale_age_max_ns", verdict->stale_age_max_ns);
	results_put_count(builder, object, "refused", verdict->refused);
	results_put_count(builder, object, "refused_by_dead", verdict->refused_by_dead);
	results_put_count(builder, object, "evicted_live", verdict->evicted_live);
	results_put_count(builder, object, "found_dead", verdict->found_dead);
	results_put_flag(builder, object, "drained", verdict->drained);
	results_put_count(builder, object, "drained_ns", verdict->drained_ns);
	results_put(builder, object, "late_cdf", late_document(builder, &verdict->late));
	for (unsigned int i = 0; i < CONNTRACK_FAILURES_COUNT; i++)
		results_put_count(
			builder, failures, conntrack_failure_name(i), verdict->failures[i]);
	results_put(builder, object, "failures", failures);
	results_put_text(builder, object, "first_failure",
		verdict->failures_sum != 0 ? verdict->first_failure : NULL);
	return object;
}

static json_t *curves_document(
	struct results_builder *builder, const struct bench_deletion_row *row)
{
	json_t *object = json_object();
	for (unsigned int k = 0; k < BENCH_DELETION_KNOBS_COUNT; k++) {
		const struct bench_deletion_curve *curve = &row->curves[k];
		json_t *points = json_array();
		for (uint32_t i = 0; i < curve->points_count; i++) {
			json_t *point = cost_document(builder, &curve->points[i].cost);
			results_put_count(builder, point, "value", curve->points[i].value);
			results_append(builder, points, point);
		}
		if (curve->points_count != 0)
			results_put(builder, object, bench_deletion_knob_name(k), points);
		else
			json_decref(points);
	}
	return object;
}

static json_t *row_document(struct results_builder *builder,
	const struct bench_deletion_options *options, const struct bench_deletion_row *row)
{
	json_t *object = json_object(), *knobs = json_object();
	results_put_text(builder, object, "deletion", row->deletion->name);
	results_put_text(builder, object, "summary", row->deletion->summary);
	results_put_text(builder, object, "table", row->table->name);
	results_put_flag(builder, object, "works", row->works);
	const uint64_t asked[BENCH_DELETION_KNOBS_COUNT] = { options->knobs.interval_ns,
		options->knobs.budget, options->knobs.slots };
	for (unsigned int k = 0; k < BENCH_DELETION_KNOBS_COUNT; k++) {
		uint64_t usual = bench_deletion_knob_default(row->deletion, k);
		if (usual != 0)
			results_put_count(builder, knobs, bench_deletion_knob_name(k),
				asked[k] != 0 ? asked[k] : usual);
	}
	results_put(builder, object, "knobs", knobs);
	results_put(builder, object, "cost",
		row->works ? cost_document(builder, &row->cost) : json_null());
	results_put_counters(builder, object, &row->counted);
	results_put(builder, object, "burst",
		row->works && options->due != 0 ? burst_document(builder, &row->burst)
						: json_null());
	results_put(builder, object, "judge",
		row->verdict.packets != 0 ? verdict_document(builder, &row->verdict) : json_null());
	results_put(builder, object, "curves", curves_document(builder, row));
	return object;
}

static json_t *document(const struct command *command, const struct bench_deletion_options *options,
	const struct bench_deletion_result *result)
{
	struct results_builder builder = { .failed = false };
	json_t *object = command_document_begin(command, &builder, "sheaf-bench-deletion-1");
	json_t *rows = json_array();
	results_put_text(&builder, object, "trace", options->trace);
	results_put_text(&builder, object, "preset",
		options->trace != NULL ? NULL : traces_preset_name(options->preset));
	results_put_count(&builder, object, "packets", result->packets);
	results_put_count(&builder, object, "flow_packets", result->flow_packets);
	results_put_count(&builder, object, "left_out_packets", result->left_out);
	results_put_count(&builder, object, "duration_ns", result->duration_ns);
	results_put_real(&builder, object, "warm", options->warm);
	results_put_count(&builder, object, "counted_packets", result->counted_packets);
	results_put_count(&builder, object, "timeout_ns", options->timeout_ns);
	results_put_flag(&builder, object, "close_hints", !options->no_close_hints);
	results_put_count(&builder, object, "conns", result->conns);
	results_put_count(&builder, object, "live_max", result->live_max);
	results_put_real(&builder, object, "live_mean", result->live_mean);
	results_put_count(&builder, object, "due", options->due);
	results_put_count(&builder, object, "packets_per_burst", options->burst);
	results_put_count(&builder, object, "ring", options->ring);
	results_put_count(&builder, object, "repeats", options->repeats);
	results_put_count(&builder, object, "seed", options->seed);
	results_put_real(&builder, object, "tsc_hz", result->tsc_hz);
	for (uint32_t i = 0; i < result->rows_count; i++)
		results_append(&builder, rows, row_document(&builder, options, &result->rows[i]));
	results_put(&builder, object, "strategies", rows);
	results_put_uncounted(&builder, object, &result->counted);
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}

static bool any_failure(const struct bench_deletion_result *result)
{
	uint64_t failures = 0;
	for (uint32_t i = 0; i < result->rows_count; i++)
		failures += result->rows[i].verdict.failures_sum;
	return failures != 0;
}

enum pipeline_exit command_bench_deletion(struct command *command, struct options *options)
{
	const struct bench_deletion_options *bench = &options->bench_deletion;
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"bench deletion: got %s, expected options; a capture is --trace FILE",
			options->files[0]);
	if (bench->warm >= 1)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--warm: got 1, expected less: nothing would be counted");
	struct bench_deletion_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	enum pipeline_exit code = PIPELINE_EXIT_OK;
	int error = bench_deletion_run(bench, result, command->stop, NULL, NULL);
	FILE *stream = command_table_stream(command, options);
	if (error == -EINTR)
		code = command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	else if (error != 0)
		code = command_error(command,
			error == -ENOMEM ? PIPELINE_EXIT_RUN : PIPELINE_EXIT_INPUT, "%s",
			result->message[0] != '\0' ? result->message : strerror(-error));
	else if (stream != NULL)
		print_table(stream, bench, result);
	if (code == PIPELINE_EXIT_OK)
		code = command_json_write(command, options,
			options->json != NULL ? document(command, bench, result) : NULL);
	if (code == PIPELINE_EXIT_OK && any_failure(result))
		code = command_error(command, PIPELINE_EXIT_BOOKS, "the judge found failures");
	if (code == PIPELINE_EXIT_OK && result->message[0] != '\0')
		code = command_error(command, PIPELINE_EXIT_DAMAGED, "%s", result->message);
	free(result);
	return code;
}
