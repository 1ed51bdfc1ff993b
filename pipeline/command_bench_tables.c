/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf bench tables: print and write what bench_tables.c found. */
#include "pipeline/bench_tables.h"
#include "pipeline/command.h"
#include "pipeline/table_names.h"
#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { COLUMN = 9 };

/* ---- for people ----------------------------------------------------------------------------- */

static void print_cost(FILE *stream, const struct bench_tables_cost *cost)
{
	if (cost->count == 0)
		fprintf(stream, " %*s", COLUMN, "-");
	else
		fprintf(stream, " %*.1f", COLUMN, bench_tables_summarise(cost).median);
}

/* (highest - lowest) / median. */
static double spread_of(const struct bench_tables_cost *cost)
{
	struct bench_tables_summary summary = bench_tables_summarise(cost);
	return summary.median > 0 ? (summary.high - summary.low) / summary.median : 0;
}

static void print_head(FILE *stream, const struct bench_tables_options *options)
{
	fprintf(stream, "%-12s", "table");
	for (uint32_t i = 0; i < options->hit_ratios_count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "hits %.3g%%", 100 * options->hit_ratios[i]);
		fprintf(stream, " %*s", COLUMN, name);
	}
	fprintf(stream, " %*s %*s %*s %*s %*s %*s %*s\n", COLUMN, "insert", COLUMN, "open", COLUMN,
		"remove", COLUMN, "fill", COLUMN, "spread", COLUMN, "B/pair", COLUMN, "refused");
}

static void print_cell(FILE *stream, const struct bench_tables_options *options, const char *name,
	const struct bench_tables_cell *cell)
{
	fprintf(stream, "%-12s", name);
	for (uint32_t i = 0; i < options->hit_ratios_count; i++)
		print_cost(stream, &cell->lookup[i]);
	print_cost(stream, &cell->insert);
	print_cost(stream, &cell->open);
	print_cost(stream, &cell->remove);
	print_cost(stream, &cell->fill);
	fprintf(stream, " %*.0f%% %*.1f %*" PRIu64 "\n", COLUMN - 1,
		100 * spread_of(&cell->lookup[0]), COLUMN,
		cell->pairs == 0 ? 0 : (double)cell->bytes / (double)cell->pairs, COLUMN,
		cell->refused);
}

static void print_full(FILE *stream, const struct bench_tables_result *result, uint32_t size)
{
	const struct bench_tables_options *options = &result->options;
	char places[32];
	units_format_grouped(options->entries[size], places, sizeof(places));
	fprintf(stream, "\n%s places, full: cycles per refused insertion\n", places);
	fprintf(stream, "%-12s %*s %*s %*s\n", "table", COLUMN, "no place", COLUMN, "at bound",
		2 * COLUMN, "first refused at");
	for (uint32_t t = 0; t < options->tables_count; t++) {
		const struct bench_tables_full *full = bench_tables_full_at(result, size, t);
		if (result->missing[t] != NULL)
			continue;
		fprintf(stream, "%-12s", options->tables[t]->name);
		print_cost(stream, &full->no_place);
		print_cost(stream, &full->at_bound);
		fprintf(stream, " %*.1f%%\n", 2 * COLUMN - 1,
			100 * (double)full->first_refused / (double)options->entries[size]);
	}
}

static void print_size(FILE *stream, const struct bench_tables_result *result, uint32_t size)
{
	const struct bench_tables_options *options = &result->options;
	char places[32];
	units_format_grouped(options->entries[size], places, sizeof(places));
	for (uint32_t load = 0; load < options->loads_count; load++) {
		fprintf(stream, "\n%s places, load %g: cycles per operation\n", places,
			options->loads[load]);
		print_head(stream, options);
		for (uint32_t t = 0; t < options->tables_count; t++) {
			if (result->missing[t] == NULL)
				print_cell(stream, options, options->tables[t]->name,
					bench_tables_cell_at(result, size, load, t));
		}
	}
	print_full(stream, result, size);
}

static void print_counted_cell(FILE *stream, const struct bench_tables_options *options,
	const char *table, const struct bench_tables_cell *cell)
{
	char name[64];
	for (uint32_t i = 0; i < options->hit_ratios_count; i++) {
		snprintf(name, sizeof(name), "%s hits %.3g%%", table, 100 * options->hit_ratios[i]);
		results_counters_row(stream, name, &cell->lookup[i].counted);
	}
	const struct {
		const char *name;
		const struct bench_tables_cost *cost;
	} changes[] = { { "insert", &cell->insert }, { "open", &cell->open },
		{ "remove", &cell->remove } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(changes); i++) {
		snprintf(name, sizeof(name), "%s %s", table, changes[i].name);
		results_counters_row(stream, name, &changes[i].cost->counted);
	}
}

static void print_counted(FILE *stream, const struct bench_tables_result *result)
{
	const struct bench_tables_options *options = &result->options;
	char places[32], operation[96];
	uint32_t loads = options->entries_count * options->loads_count;
	for (uint32_t i = 0; i < loads && counters_any(&result->counted); i++) {
		uint32_t size = i / options->loads_count, load = i % options->loads_count;
		units_format_grouped(options->entries[size], places, sizeof(places));
		snprintf(operation, sizeof(operation), "operation, %s places, load %g", places,
			options->loads[load]);
		results_counters_head(stream, &result->counted, operation);
		for (uint32_t t = 0; t < options->tables_count; t++)
			print_counted_cell(stream, options, options->tables[t]->name,
				bench_tables_cell_at(result, size, load, t));
	}
}

static void print_result(FILE *stream, const struct bench_tables_result *result)
{
	const struct bench_tables_options *options = &result->options;
	const struct conntrack_foreign_absence *absence;
	fprintf(stream, "bursts of %u, hits %s, %u rounds, %s, %.2f GHz\n", options->burst,
		options->order == BENCH_TABLES_ZIPF ? "by Zipf's law" : "uniform", options->repeats,
		result->memory, result->tsc_hz / 1e9);
	for (uint32_t size = 0; size < options->entries_count; size++)
		print_size(stream, result, size);
	print_counted(stream, result);
	fprintf(stream, "\n");
	for (uint32_t t = 0; t < options->tables_count; t++) {
		if (result->missing[t] != NULL)
			fprintf(stream, "%-12s not measured: %s\n", options->tables[t]->name,
				result->missing[t]);
		else if (options->tables[t]->differs != NULL)
			fprintf(stream, "%-12s %s\n", options->tables[t]->name,
				options->tables[t]->differs);
	}
	for (size_t i = 0; (absence = conntrack_foreign_absence_at(i)) != NULL; i++)
		fprintf(stream, "%-12s not measured: %s\n", absence->name, absence->reason);
	results_counters_print_why(stream, &result->counted);
}

/* ---- the document --------------------------------------------------------------------------- */

static void put_cost(struct results_builder *builder, json_t *object, const char *key,
	const struct bench_tables_cost *cost)
{
	struct bench_tables_summary summary = bench_tables_summarise(cost);
	if (cost->count == 0) {
		results_put(builder, object, key, json_null());
		return;
	}
	json_t *value = json_object(), *each = json_array();
	results_put_real(builder, value, "median", summary.median);
	results_put_real(builder, value, "min", summary.low);
	results_put_real(builder, value, "max", summary.high);
	for (uint32_t i = 0; i < cost->count; i++)
		results_append(builder, each, json_real(cost->each[i]));
	results_put(builder, value, "each", each);
	results_put_counters(builder, value, &cost->counted);
	results_put(builder, object, key, value);
}

static json_t *tables_section(
	struct results_builder *builder, const struct bench_tables_result *result)
{
	const struct conntrack_foreign_absence *absence;
	json_t *array = json_array();
	for (uint32_t t = 0; t < result->options.tables_count; t++) {
		const struct conntrack_table_ops *ops = result->options.tables[t];
		json_t *object = json_object();
		results_put_text(builder, object, "name", ops->name);
		results_put_text(builder, object, "summary", ops->summary);
		results_put_text(builder, object, "library", ops->library);
		results_put_text(builder, object, "differs", ops->differs);
		results_put_text(builder, object, "not_measured", result->missing[t]);
		results_append(builder, array, object);
	}
	for (size_t i = 0; (absence = conntrack_foreign_absence_at(i)) != NULL; i++) {
		json_t *object = json_object();
		results_put_text(builder, object, "name", absence->name);
		results_put_text(builder, object, "not_measured", absence->reason);
		results_append(builder, array, object);
	}
	return array;
}

static json_t *cell_document(struct results_builder *builder,
	const struct bench_tables_result *result, uint32_t size, uint32_t load, uint32_t table)
{
	const struct bench_tables_options *options = &result->options;
	const struct bench_tables_cell *cell = bench_tables_cell_at(result, size, load, table);
	json_t *object = json_object(), *lookups = json_array();
	results_put_text(builder, object, "table", options->tables[table]->name);
	results_put_count(builder, object, "places", options->entries[size]);
	results_put_real(builder, object, "load", options->loads[load]);
	results_put_count(builder, object, "pairs", cell->pairs);
	results_put_count(builder, object, "refused", cell->refused);
	results_put_count(builder, object, "bytes", cell->bytes);
	results_put_real(
		builder, object, "bytes_per_pair", results_ratio(cell->bytes, cell->pairs));
	for (uint32_t i = 0; i < options->hit_ratios_count; i++) {
		json_t *lookup = json_object();
		results_put_real(builder, lookup, "hit_ratio", options->hit_ratios[i]);
		put_cost(builder, lookup, "cycles", &cell->lookup[i]);
		results_append(builder, lookups, lookup);
	}
	results_put(builder, object, "lookup", lookups);
	put_cost(builder, object, "insert_cycles", &cell->insert);
	put_cost(builder, object, "open_cycles", &cell->open);
	put_cost(builder, object, "remove_cycles", &cell->remove);
	put_cost(builder, object, "fill_cycles", &cell->fill);
	results_put_count(builder, object, "bursts_interrupted", cell->interrupted);
	return object;
}

static json_t *full_document(struct results_builder *builder,
	const struct bench_tables_result *result, uint32_t size, uint32_t table)
{
	const struct bench_tables_full *full = bench_tables_full_at(result, size, table);
	json_t *object = json_object();
	results_put_text(builder, object, "table", result->options.tables[table]->name);
	results_put_count(builder, object, "places", result->options.entries[size]);
	results_put_count(builder, object, "first_refused_pairs", full->first_refused);
	results_put_count(builder, object, "pairs", full->pairs);
	results_put_count(builder, object, "attempts", full->attempts);
	results_put_count(builder, object, "refused", full->refused);
	put_cost(builder, object, "no_place_cycles", &full->no_place);
	put_cost(builder, object, "at_bound_cycles", &full->at_bound);
	return object;
}

static void put_cells(
	struct results_builder *builder, json_t *object, const struct bench_tables_result *result)
{
	const struct bench_tables_options *options = &result->options;
	json_t *cells = json_array(), *full = json_array();
	for (uint32_t size = 0; size < options->entries_count; size++) {
		for (uint32_t t = 0; t < options->tables_count; t++) {
			if (result->missing[t] != NULL)
				continue;
			for (uint32_t load = 0; load < options->loads_count; load++)
				results_append(builder, cells,
					cell_document(builder, result, size, load, t));
			results_append(builder, full, full_document(builder, result, size, t));
		}
	}
	results_put(builder, object, "cells", cells);
	results_put(builder, object, "full", full);
}

static json_t *document(const struct command *command, const struct bench_tables_result *result)
{
	const struct bench_tables_options *options = &result->options;
	struct results_builder builder = { .failed = false };
	struct command_machine machine;
	json_t *object = json_object();
	command_machine_read(&machine);
	results_put_text(&builder, object, "schema", RESULTS_BENCH_TABLES_SCHEMA);
	results_put_text(&builder, object, "version", PIPELINE_VERSION);
	results_put_text(&builder, object, "command", command->typed);
	results_put_text(&builder, object, "date", command->date);
	results_put_text(&builder, object, "cpu", machine.cpu);
	results_put_text(&builder, object, "kernel", machine.kernel);
	results_put_text(&builder, object, "flags", PIPELINE_BUILD_FLAGS);
	results_put_text(&builder, object, "memory", result->memory);
	results_put_count(&builder, object, "burst", options->burst);
	results_put_text(&builder, object, "order",
		options->order == BENCH_TABLES_ZIPF ? "zipf" : "uniform");
	results_put_count(&builder, object, "repeats", options->repeats);
	results_put_count(&builder, object, "seed", options->seed);
	results_put_real(&builder, object, "tsc_hz", result->tsc_hz);
	results_put(&builder, object, "tables", tables_section(&builder, result));
	put_cells(&builder, object, result);
	results_put_uncounted(&builder, object, &result->counted);
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}

/* ---- the command ---------------------------------------------------------------------------- */

static enum pipeline_exit outcome(
	struct command *command, int error, const struct bench_tables_result *result)
{
	if (error == 0)
		return PIPELINE_EXIT_OK;
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	return command_error(command, error == -EBADMSG ? PIPELINE_EXIT_BOOKS : PIPELINE_EXIT_RUN,
		"%s", result->message[0] != '\0' ? result->message : strerror(-error));
}

enum pipeline_exit command_bench_tables(struct command *command, struct options *options)
{
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"bench tables: got %s, expected options only", options->files[0]);
	struct bench_tables_result *result = calloc(1, sizeof(*result));
	if (result == NULL)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	struct progress progress = {
		.stream = command->terminal && !options->quiet ? command->err : NULL,
	};
	int error = bench_tables_run(
		&options->bench_tables, result, command->stop, progress_show, &progress);
	progress_end(&progress);
	enum pipeline_exit code = outcome(command, error, result);
	FILE *stream = command_table_stream(command, options);
	if (code == PIPELINE_EXIT_OK && stream != NULL)
		print_result(stream, result);
	if (code == PIPELINE_EXIT_OK)
		code = command_json_write(
			command, options, options->json != NULL ? document(command, result) : NULL);
	bench_tables_release(result);
	free(result);
	return code;
}
