/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf bench lb: print and write what bench_lb.c found. */
#include "pipeline/bench_lb.h"
#include "pipeline/command.h"
#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static void print_case(FILE *stream, const char *name, const struct bench_lb_case *c, double tsc_hz)
{
	fprintf(stream,
		"%-18s %8.1f %7.2f %10" PRIu64 " %10" PRIu64 " %9.2f %11" PRIu64 " %8" PRIu64
		" %9" PRIu64 " %9.2f\n",
		name, c->cycles, c->cycles > 0 ? tsc_hz / c->cycles / 1e6 : 0, c->connections,
		c->peak_live, (double)c->state_bytes / 1e6, c->moved_packets, c->broken_connections,
		c->orphaned_connections, c->imbalance);
}

static void print_counted(FILE *stream, const struct bench_lb_result *result)
{
	char name[64];
	results_counters_head(stream, &result->counted, "packet");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_lb_row *row = &result->rows[i];
		const char *policy = chain_lb_policy_name(row->policy);
		results_counters_row(stream, policy, &row->calm.counted);
		snprintf(name, sizeof(name), "%s with a flood", policy);
		results_counters_row(stream, name, &row->flood.counted);
	}
	fprintf(stream, "\n");
	results_counters_print_why(stream, &result->counted);
}

static void print_table(
	FILE *stream, const struct bench_lb_options *options, const struct bench_lb_result *result)
{
	char packets[32], time[32];
	units_format_grouped(result->packets, packets, sizeof(packets));
	units_format_time_short(result->duration_ns, time, sizeof(time));
	fprintf(stream, "traffic    %s packets from clients in %s, %s\n", packets, time,
		options->trace != NULL ? options->trace : "made");
	fprintf(stream, "backends   %u per family", options->backends);
	for (uint32_t i = 0; i < result->changes_count; i++) {
		static const char *const actions[] = { "comes", "drains", "goes" };
		units_format_time_short(result->changes[i].at_ns, time, sizeof(time));
		fprintf(stream, "%s %s %s at %s", i == 0 ? ":" : ",", result->changes[i].backend,
			actions[result->changes[i].action], time);
	}
	fprintf(stream,
		"\n\n%-18s %8s %7s %10s %10s %9s %11s %8s %9s %9s\n"
		"%-18s %8s %7s %10s %10s %9s %11s %8s %9s %9s\n",
		"", "cycles", "", "connec-", "kept at", "state", "violations", "broken", "backend",
		"most over", "policy", "/packet", "Mpps", "tions", "most", "MB", "packets", "conns",
		"gone", "mean");
	for (uint32_t i = 0; i < result->rows_count; i++) {
		char name[40];
		const struct bench_lb_row *row = &result->rows[i];
		print_case(stream, chain_lb_policy_name(row->policy), &row->calm, result->tsc_hz);
		snprintf(name, sizeof(name), "  with a flood");
		if (options->flood > 0)
			print_case(stream, name, &row->flood, result->tsc_hz);
	}
	if (options->flood > 0)
		fprintf(stream,
			"\nflood      %" PRIu64 " SYNs of nobody, %.3g per packet; cycles are "
			"per packet, theirs included\n",
			result->flood_packets, options->flood);
	print_counted(stream, result);
}

static json_t *case_document(struct results_builder *builder, const struct bench_lb_case *c)
{
	json_t *object = json_object();
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "packets", c->packets },
		{ "connections", c->connections },
		{ "moved_packets", c->moved_packets },
		{ "broken_connections", c->broken_connections },
		{ "orphaned_connections", c->orphaned_connections },
		{ "dropped_packets", c->dropped_packets },
		{ "passed_packets", c->passed_packets },
		{ "untracked_packets", c->untracked_packets },
		{ "inserted", c->inserted },
		{ "peak_live", c->peak_live },
		{ "insert_failures", c->insert_failures },
		{ "not_admitted", c->not_admitted },
		{ "state_bytes", c->state_bytes },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(counts); i++)
		results_put_count(builder, object, counts[i].name, counts[i].value);
	results_put_real(builder, object, "imbalance", c->imbalance);
	results_put_real(builder, object, "cycles_per_packet", c->cycles);
	results_put_real(builder, object, "cycles_min", c->cycles_min);
	results_put_real(builder, object, "cycles_max", c->cycles_max);
	results_put_counters(builder, object, &c->counted);
	return object;
}

static json_t *changes_document(
	struct results_builder *builder, const struct bench_lb_result *result)
{
	static const char *const actions[] = { "add", "drain", "remove" };
	json_t *array = json_array();
	for (uint32_t i = 0; i < result->changes_count; i++) {
		json_t *object = json_object();
		results_put_count(builder, object, "at_ns", result->changes[i].at_ns);
		results_put_text(builder, object, "action", actions[result->changes[i].action]);
		results_put_text(builder, object, "backend", result->changes[i].backend);
		results_append(builder, array, object);
	}
	return array;
}

static json_t *document(const struct command *command, const struct bench_lb_options *options,
	const struct bench_lb_result *result)
{
	struct results_builder builder = { .failed = false };
	json_t *object = command_document_begin(command, &builder, "sheaf-bench-lb-1");
	json_t *rows = json_array();
	results_put_text(&builder, object, "trace", options->trace);
	results_put_count(&builder, object, "packets", result->packets);
	results_put_count(&builder, object, "flood_packets", result->flood_packets);
	results_put_count(&builder, object, "left_out_packets", result->left_out_packets);
	results_put_count(&builder, object, "duration_ns", result->duration_ns);
	results_put_count(&builder, object, "backends", options->backends);
	results_put_count(&builder, object, "conns", options->conns);
	results_put_count(&builder, object, "burst", options->burst);
	results_put_count(&builder, object, "repeats", options->repeats);
	results_put_count(&builder, object, "seed", options->seed);
	results_put_real(&builder, object, "tsc_hz", result->tsc_hz);
	results_put(&builder, object, "changes", changes_document(&builder, result));
	for (uint32_t i = 0; i < result->rows_count; i++) {
		const struct bench_lb_row *row = &result->rows[i];
		json_t *entry = json_object();
		results_put_text(&builder, entry, "policy", chain_lb_policy_name(row->policy));
		results_put(&builder, entry, "calm", case_document(&builder, &row->calm));
		results_put(&builder, entry, "flood",
			options->flood > 0 ? case_document(&builder, &row->flood) : json_null());
		results_append(&builder, rows, entry);
	}
	results_put(&builder, object, "policies", rows);
	results_put_uncounted(&builder, object, &result->counted);
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}

enum pipeline_exit command_bench_lb(struct command *command, struct options *options)
{
	const struct bench_lb_options *bench = &options->bench_lb;
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"bench lb: got %s, expected options; a capture is --trace FILE",
			options->files[0]);
	struct bench_lb_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	enum pipeline_exit code = PIPELINE_EXIT_OK;
	int error = bench_lb_run(bench, result, command->stop);
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
	if (code == PIPELINE_EXIT_OK && result->message[0] != '\0')
		code = command_error(command, PIPELINE_EXIT_DAMAGED, "%s", result->message);
	free(result);
	return code;
}
