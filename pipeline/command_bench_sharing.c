/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf bench sharing: print and write what bench_sharing*.c found. */
#include "pipeline/bench_sharing.h"
#include "pipeline/command.h"
#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { TEXT_SIZE = 32 };

static const char *grouped(uint64_t value, char *text)
{
	units_format_grouped(value, text, TEXT_SIZE);
	return text;
}

static const char *judged(const struct bench_sharing_row *row, char *text)
{
	if (row->stats.refused_pool + row->stats.refused_bucket + row->judged_refused != 0)
		return "ran full";
	if (row->verdict.flows == 0)
		return "-";
	if (row->verdict.failures_sum == 0)
		return "right";
	snprintf(text, TEXT_SIZE, "%" PRIu64 " FAILED", row->verdict.failures_sum);
	return text;
}

/* Events per thousand packets. */
static double per_mille(const struct bench_sharing_row *row, uint64_t events)
{
	return row->stats.packets == 0 ? 0 : 1000.0 * (double)events / (double)row->stats.packets;
}

static void print_row(FILE *stream, const struct bench_sharing_row *row)
{
	char text[TEXT_SIZE];
	fprintf(stream, "%-12s %7" PRIu32, row->sharing->name, row->workers);
	if (!row->works) {
		fprintf(stream, "  one worker has to get all packets of a connection\n");
		return;
	}
	fprintf(stream, " %8.2f %8.2f %8.1f %6.0f %% %6.2f %9.3f %9.3f %9.3f %7.1f  %s\n",
		row->packets_per_s * 1e-6, row->scaling, row->cycles,
		100 * (row->cycles_max / row->cycles - 1), row->fairness,
		per_mille(row, row->stats.contended), per_mille(row, row->stats.retries),
		per_mille(row, row->stats.lost_races), row->bytes_per_entry, judged(row, text));
}

static void print_dumps(FILE *stream, const struct bench_sharing_result *result)
{
	char places[TEXT_SIZE], views[TEXT_SIZE], time[TEXT_SIZE];
	bool any = false;
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_sharing_row *row = &result->rows[i];
		const struct bench_sharing_dump *dump = &row->dump;
		if (!dump->measured)
			continue;
		if (!any)
			fprintf(stream,
				"\n%-12s %7s %12s %12s %9s %8s %8s %8s %8s\n%-12s %7s %12s %12s "
				"%9s "
				"%8s %8s %8s %8s\n",
				"dumped while", "", "", "", "", "cycles", "without", "costs",
				"cycles", "they write", "workers", "places", "seen", "in",
				"/packet", "it", "them", "/place");
		any = true;
		units_format_time_short((uint64_t)(dump->seconds * 1e9), time, sizeof(time));
		fprintf(stream, "%-12s %7" PRIu32 " %12s %12s %9s %8.1f %8.1f %+6.1f %% %8.1f%s\n",
			row->sharing->name, row->workers, grouped(dump->places, places),
			grouped(dump->views, views), time, dump->cycles, dump->cycles_without,
			100 * (dump->cycles / dump->cycles_without - 1), dump->cycles_per_place,
			dump->whole ? "" : "  (packets ended first)");
	}
}

static const char *cycles_time(double cycles, double tsc_hz, char *text)
{
	units_format_time_short((uint64_t)(cycles / tsc_hz * 1e9), text, TEXT_SIZE);
	return text;
}

static void print_move(FILE *stream, const struct bench_sharing_row *row, bool first, double tsc_hz)
{
	char text[6][TEXT_SIZE];
	const struct conntrack_shared_stats *stats = &row->stats;
	double pauses = stats->pauses == 0 ? 1 : (double)stats->pauses;
	if (first)
		fprintf(stream,
			"\n%-12s %7s %9s %7s %9s %9s %9s %9s %9s %9s\n"
			"%-12s %7s %9s %7s %9s %9s %9s %9s %9s %9s\n",
			"handed over", "", "", "with", "mean", "longest", "of it", "", "packets",
			"at a", "", "workers", "buckets", "pause", "pause", "", "given", "longest",
			"kept", "time");
	fprintf(stream, "%-12s %7" PRIu32 " %9s %7" PRIu64 " %9s %9s %9s %9s %9s %9" PRIu64 "\n",
		row->sharing->name, row->workers, grouped(stats->handovers, text[0]), stats->pauses,
		cycles_time((double)stats->pause_cycles / pauses, tsc_hz, text[1]),
		cycles_time((double)stats->pause_most_cycles, tsc_hz, text[2]),
		cycles_time((double)stats->transfer_cycles / pauses, tsc_hz, text[3]),
		cycles_time((double)stats->transfer_most_cycles, tsc_hz, text[4]),
		grouped(stats->parked, text[5]), stats->parked_most);
}

static void print_moves(FILE *stream, const struct bench_sharing_result *result)
{
	bool any = false;
	for (uint32_t i = 0; i < result->rows_count; i++) {
		if (result->rows[i].stats.handovers == 0)
			continue;
		print_move(stream, &result->rows[i], !any, result->tsc_hz);
		any = true;
	}
}

static void print_counted(FILE *stream, const struct bench_sharing_result *result)
{
	char name[2 * TEXT_SIZE];
	results_counters_head(stream, &result->counted, "packet");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_sharing_row *row = &result->rows[i];
		snprintf(name, sizeof(name), "%s, workers %" PRIu32, row->sharing->name,
			row->workers);
		results_counters_row(stream, name, &row->counted);
	}
	fprintf(stream, "\n");
	results_counters_print_why(stream, &result->counted);
}

static void print_table(FILE *stream, const struct bench_sharing_options *options,
	const struct bench_sharing_result *result)
{
	char packets[TEXT_SIZE], flows[TEXT_SIZE], conns[TEXT_SIZE], timeout[TEXT_SIZE];
	bool crowded = options->workers[options->workers_count - 1] > result->cpus;
	units_format_time_short(options->timeout_ns, timeout, sizeof(timeout));
	fprintf(stream,
		"traffic    %s packets of %s flows, %s; %s\n"
		"tracker    %s entries, timeout %s; counts, times and flags of a connection, no "
		"TCP "
		"states\n"
		"workers    on %" PRIu32 " CPUs%s\n\n",
		grouped(result->packets, packets), grouped(result->flows, flows),
		options->trace != NULL ? options->trace : "made",
		options->spread ? "bursts go to workers in turn" : "steered by hash",
		grouped(result->conns, conns), options->timeout_ns == 0 ? "never" : timeout,
		result->cpus,
		crowded ? ": rows with more workers share them, and do not show scaling" : "");
	fprintf(stream,
		"%-12s %7s %8s %8s %8s %8s %6s %9s %9s %9s %7s\n"
		"%-12s %7s %8s %8s %8s %8s %6s %9s %9s %9s %7s  %s\n",
		"", "", "", "", "cycles", "", "", "contended", "retries", "lost", "bytes/", "model",
		"workers", "Mpps", "scaling", "/packet", "spread", "fair", "/k packet", "", "races",
		"entry", "answers");
	for (uint32_t i = 0; i < result->rows_count; i++)
		print_row(stream, &result->rows[i]);
	print_dumps(stream, result);
	print_moves(stream, result);
	print_counted(stream, result);
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_sharing_row *row = &result->rows[i];
		if (row->verdict.failures_sum != 0 && row->judged_refused == 0)
			fprintf(stream, "\n%s with %" PRIu32 " workers: %s\n", row->sharing->name,
				row->workers, row->verdict.first_failure);
	}
}

/* ---- the document -------------------------------------------------------------------------- */

static json_t *judge_document(struct results_builder *builder, const struct bench_sharing_row *row)
{
	const struct conntrack_shared_verdict *verdict = &row->verdict;
	json_t *object = json_object();
	results_put_count(builder, object, "refused", row->judged_refused);
	results_put_count(builder, object, "flows", verdict->flows);
	results_put_count(builder, object, "connections", verdict->connections);
	results_put_count(builder, object, "compared_flows", verdict->compared_flows);
	results_put_count(builder, object, "missing", verdict->missing);
	results_put_count(builder, object, "surplus", verdict->surplus);
	results_put_count(builder, object, "wrong", verdict->wrong);
	results_put_count(builder, object, "failures", verdict->failures_sum);
	results_put_text(builder, object, "first_failure",
		verdict->failures_sum != 0 ? verdict->first_failure : NULL);
	return object;
}

static json_t *dump_document(struct results_builder *builder, const struct bench_sharing_dump *dump)
{
	json_t *object = json_object();
	results_put_count(builder, object, "places", dump->places);
	results_put_count(builder, object, "views", dump->views);
	results_put_flag(builder, object, "whole", dump->whole);
	results_put_real(builder, object, "seconds", dump->seconds);
	results_put_real(builder, object, "cycles_per_packet", dump->cycles);
	results_put_real(builder, object, "cycles_without", dump->cycles_without);
	results_put_real(builder, object, "cycles_per_place", dump->cycles_per_place);
	return object;
}

static json_t *moves_document(
	struct results_builder *builder, const struct conntrack_shared_stats *stats, double tsc_hz)
{
	json_t *object = json_object();
	double pauses = stats->pauses == 0 ? 1 : (double)stats->pauses;
	results_put_count(builder, object, "buckets", stats->handovers);
	results_put_count(builder, object, "pauses", stats->pauses);
	results_put_real(builder, object, "pause_mean_ns",
		(double)stats->pause_cycles / pauses / tsc_hz * 1e9);
	results_put_real(
		builder, object, "pause_max_ns", (double)stats->pause_most_cycles / tsc_hz * 1e9);
	results_put_real(builder, object, "given_mean_ns",
		(double)stats->transfer_cycles / pauses / tsc_hz * 1e9);
	results_put_real(builder, object, "given_max_ns",
		(double)stats->transfer_most_cycles / tsc_hz * 1e9);
	results_put_count(builder, object, "kept_packets", stats->parked);
	results_put_count(builder, object, "kept_packets_max", stats->parked_most);
	results_put_count(builder, object, "reordered_packets", stats->backwards);
	return object;
}

static json_t *row_document(
	struct results_builder *builder, const struct bench_sharing_row *row, double tsc_hz)
{
	const struct conntrack_shared_stats *stats = &row->stats;
	json_t *object = json_object();
	results_put_text(builder, object, "sharing", row->sharing->name);
	results_put_text(builder, object, "summary", row->sharing->summary);
	results_put_text(builder, object, "guarantee", row->sharing->guarantee);
	results_put_count(builder, object, "workers", row->workers);
	results_put_flag(builder, object, "works", row->works);
	if (!row->works)
		return object;
	results_put_real(builder, object, "packets_per_s", row->packets_per_s);
	results_put_real(builder, object, "scaling", row->scaling);
	results_put_real(builder, object, "fairness", row->fairness);
	results_put_real(builder, object, "cycles_per_packet", row->cycles);
	results_put_real(builder, object, "cycles_max", row->cycles_max);
	results_put_count(builder, object, "inserted", stats->inserted);
	results_put_count(builder, object, "hits", stats->hits);
	results_put_count(builder, object, "expired", stats->expired);
	results_put_count(builder, object, "live", stats->live);
	results_put_count(builder, object, "untracked", stats->untracked);
	results_put_count(builder, object, "refused_pool", stats->refused_pool);
	results_put_count(builder, object, "refused_bucket", stats->refused_bucket);
	results_put_count(builder, object, "overflowed", stats->overflowed);
	results_put_count(builder, object, "contended", stats->contended);
	results_put_count(builder, object, "retries", stats->retries);
	results_put_count(builder, object, "lost_races", stats->lost_races);
	results_put_real(builder, object, "bytes_per_entry", row->bytes_per_entry);
	results_put_counters(builder, object, &row->counted);
	results_put(builder, object, "dump",
		row->dump.measured ? dump_document(builder, &row->dump) : json_null());
	results_put(builder, object, "handover",
		stats->handovers != 0 ? moves_document(builder, stats, tsc_hz) : json_null());
	results_put(builder, object, "judge",
		row->verdict.flows != 0 ? judge_document(builder, row) : json_null());
	return object;
}

static json_t *document(const struct command *command, const struct bench_sharing_options *options,
	const struct bench_sharing_result *result)
{
	struct results_builder builder = { .failed = false };
	json_t *object = command_document_begin(command, &builder, "sheaf-bench-sharing-1");
	json_t *rows = json_array();
	results_put_count(&builder, object, "cpus", result->cpus);
	results_put_text(&builder, object, "trace", options->trace);
	results_put_text(&builder, object, "tracked", "counts, times and flags");
	results_put_count(&builder, object, "packets", result->packets);
	results_put_count(&builder, object, "flow_packets", result->flow_packets);
	results_put_count(&builder, object, "left_out_packets", result->left_out);
	results_put_count(&builder, object, "flows", result->flows);
	results_put_count(&builder, object, "duration_ns", result->duration_ns);
	results_put_count(&builder, object, "timeout_ns", options->timeout_ns);
	results_put_count(&builder, object, "conns", result->conns);
	results_put_flag(&builder, object, "spread", options->spread);
	results_put_count(&builder, object, "moves", options->moves);
	results_put_count(&builder, object, "packets_per_burst", options->burst);
	results_put_count(&builder, object, "rounds", options->rounds);
	results_put_count(&builder, object, "seed", options->seed);
	results_put_real(&builder, object, "tsc_hz", result->tsc_hz);
	for (uint32_t i = 0; i < result->rows_count; i++)
		results_append(
			&builder, rows, row_document(&builder, &result->rows[i], result->tsc_hz));
	results_put(&builder, object, "models", rows);
	results_put_uncounted(&builder, object, &result->counted);
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}

static bool any_failure(const struct bench_sharing_result *result)
{
	uint64_t failures = 0;
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_sharing_row *row = &result->rows[i];
		/* What was refused, the judge could not see. */
		if (row->judged_refused == 0)
			failures += row->verdict.failures_sum;
		failures += row->stats.overflowed;
	}
	return failures != 0;
}

enum pipeline_exit command_bench_sharing(struct command *command, struct options *options)
{
	const struct bench_sharing_options *bench = &options->bench_sharing;
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"bench sharing: got %s, expected options; a capture is --trace FILE",
			options->files[0]);
	struct bench_sharing_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	enum pipeline_exit code = PIPELINE_EXIT_OK;
	int error = bench_sharing_run(bench, result, command->stop);
	FILE *stream = command_table_stream(command, options);
	if (error == -EINTR)
		code = command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	else if (error != 0)
		code = command_error(command,
			error == -EUCLEAN  ? PIPELINE_EXIT_BOOKS
			: error == -ENOMEM ? PIPELINE_EXIT_RUN
					   : PIPELINE_EXIT_INPUT,
			"%s", result->message[0] != '\0' ? result->message : strerror(-error));
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
