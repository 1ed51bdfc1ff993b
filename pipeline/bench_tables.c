/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_tables.h"

#include "conntrack/foreign.h"
#include "pipeline/bench_clock.h"
#include "pipeline/bench_tables_turn.h"
#include "pipeline/eal.h"
#include "pipeline/memory.h"
#include "pipeline/table_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes per place of the largest tables: those of this project, and those of others outside DPDK's
 * heap. Arrays double in one of them. */
enum { OWN_PLACE_BYTES = 40, FOREIGN_PLACE_BYTES = 140 };

struct run {
	struct bench_tables_result *result;
	struct bench_tables_world world;
	struct counters counters;
	bool huge;
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
	void *progress_context;
	uint64_t turns_done, turns_total;
};

void bench_tables_options_defaults(struct bench_tables_options *options)
{
	*options = (struct bench_tables_options){
		.entries = { 1 << 16, 1 << 20 },
		.entries_count = 2,
		.loads = { 0.5, 0.8, 0.95 },
		.loads_count = 3,
		.hit_ratios = { 1, 0.5, 0 },
		.hit_ratios_count = 3,
		.burst = 64,
		.repeats = 3,
		.seed = 1,
	};
}

static uint64_t places_of(uint64_t entries)
{
	uint64_t places = 1;
	while (places < entries)
		places *= 2;
	return places;
}

static uint64_t places_most(const struct bench_tables_options *options)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < options->entries_count; i++) {
		uint64_t places = places_of(options->entries[i]);
		most = places > most ? places : most;
	}
	return most;
}

static uint64_t dpdk_bytes(const struct bench_tables_options *options)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < options->tables_count; i++) {
		uint64_t each =
			conntrack_foreign_dpdk_bytes(options->tables[i], places_most(options));
		bytes = each > bytes ? each : bytes;
	}
	return bytes;
}

/* One table is there at a time, with the entries of one size. */
uint64_t bench_tables_bytes(const struct bench_tables_options *options)
{
	uint64_t places = places_most(options), each = OWN_PLACE_BYTES;
	for (uint32_t i = 0; i < options->tables_count; i++) {
		const char *library = options->tables[i]->library;
		if (library != NULL && strcmp(library, "DPDK") != 0)
			each = FOREIGN_PLACE_BYTES;
	}
	uint64_t world = sizeof(struct bench_tables_entry) + 2 * sizeof(uint32_t);
	return (places + BENCH_TABLES_SPARE) * (world + each) + dpdk_bytes(options);
}

static void name_all(struct bench_tables_options *options)
{
	const struct conntrack_table_ops *ops;
	for (size_t i = 0; (ops = table_names_at(i)) != NULL && i < BENCH_TABLES_MAX; i++)
		options->tables[options->tables_count++] = ops;
}

static int check(const struct bench_tables_options *options, char *message)
{
	uint64_t need = bench_tables_bytes(options);
	uint64_t available = pipeline_memory_available("");
	if (need <= available)
		return 0;
	snprintf(message, BENCH_TABLES_MESSAGE_SIZE,
		"%llu entries need %llu MB, the machine has %llu MB free: lower --entries",
		(unsigned long long)places_most(options), (unsigned long long)(need >> 20),
		(unsigned long long)(available >> 20));
	return -ENOMEM;
}

/* Whether the kernel gives transparent huge pages to memory of this kind ("" or "shmem_") that asks
 * for them. */
static bool transparent(const char *kind)
{
	char path[96], text[96] = "";
	snprintf(path, sizeof(path), "/sys/kernel/mm/transparent_hugepage/%senabled", kind);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	if (fgets(text, sizeof(text), file) == NULL)
		text[0] = '\0';
	fclose(file);
	return text[0] != '\0' && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL;
}

/* The same pages for every table: explicit huge ones only when they are enough for all. Without
 * them DPDK's heap is shared memory, for which the kernel has a switch of its own. */
static void choose_pages(struct run *run)
{
	struct bench_tables_result *result = run->result;
	bool dpdk = dpdk_bytes(&result->options) != 0;
	run->huge = !result->options.no_huge &&
		    pipeline_memory_huge_free("") >= bench_tables_bytes(&result->options);
	if (run->huge)
		result->memory = "explicit huge pages";
	else if (!transparent(""))
		result->memory = "plain pages";
	else if (dpdk && !transparent("shmem_"))
		result->memory = "transparent huge pages, but plain ones for DPDK's tables";
	else
		result->memory = "transparent huge pages";
}

/* Tables that need DPDK go without being measured when it cannot start. */
static void start_dpdk(struct run *run)
{
	struct bench_tables_result *result = run->result;
	struct bench_tables_options *options = &result->options;
	size_t bytes = dpdk_bytes(options);
	const struct pipeline_eal_need need = { bytes, bytes };
	bool huge;
	if (bytes == 0)
		return;
	int error = pipeline_eal_start(&need, !run->huge, NULL, 0, &huge, result->message);
	if (error == 0 && !huge)
		pipeline_eal_advise_huge();
	for (uint32_t i = 0; error != 0 && i < options->tables_count; i++) {
		if (conntrack_foreign_dpdk_bytes(options->tables[i], 1) != 0)
			result->missing[i] = "DPDK does not start";
	}
}

static int give_turn(struct run *run, uint32_t size, uint32_t load, uint32_t table)
{
	struct bench_tables_result *result = run->result;
	const struct bench_tables_options *options = &result->options;
	if (result->missing[table] != NULL)
		return 0;
	if (run->progress != NULL)
		run->progress(run->progress_context, options->tables[table]->name, run->turns_done,
			run->turns_total);
	run->turns_done++;
	int error = load < options->loads_count
			    ? bench_tables_turn(&run->world, options->tables[table],
				      options->loads[load],
				      bench_tables_cell_at(result, size, load, table))
			    : bench_tables_turn_full(&run->world, options->tables[table],
				      bench_tables_full_at(result, size, table));
	if (error == 0 || error == -EINTR || error == -EBADMSG)
		return error;
	/* Not to be had at this size: said, and the others go on. */
	result->missing[table] = error == -ENOMEM   ? "no memory for it at one of the sizes"
				 : error == -EINVAL ? "impossible at one of the sizes"
						    : "cannot be created here";
	return 0;
}

/* Every table once at one size, at each load, and full. */
static int give_round(struct run *run, uint32_t size, uint32_t round)
{
	const struct bench_tables_options *options = &run->result->options;
	int error = 0;
	for (uint32_t load = 0; load <= options->loads_count && error == 0; load++) {
		for (uint32_t k = 0; k < options->tables_count && error == 0; k++)
			error = give_turn(run, size, load, (k + round) % options->tables_count);
	}
	return error;
}

static int measure(struct run *run, const atomic_bool *stop)
{
	const struct bench_tables_options *options = &run->result->options;
	int error = 0;
	for (uint32_t size = 0; size < options->entries_count && error == 0; size++) {
		run->world = (struct bench_tables_world){
			.stop = stop,
			.counters = &run->counters,
			.message = run->result->message,
		};
		error = bench_tables_world_create(
			&run->world, options, options->entries[size], run->huge);
		if (error != 0)
			return error;
		for (uint32_t round = 0; round < options->repeats && error == 0; round++)
			error = give_round(run, size, round);
		bench_tables_world_destroy(&run->world);
	}
	return error;
}

/* What the processor counted everywhere, and why it did not. */
static void sum_counted(struct run *run)
{
	struct bench_tables_result *result = run->result;
	const struct bench_tables_options *options = &result->options;
	struct counters_sum *sum = &result->counted;
	uint32_t cells = options->entries_count * options->loads_count * options->tables_count;
	if (!counters_work(&run->counters))
		counters_end(&run->counters, sum, 0);
	for (uint32_t i = 0; i < cells; i++) {
		const struct bench_tables_cell *cell = &result->cells[i];
		for (uint32_t k = 0; k < options->hit_ratios_count; k++)
			counters_add(sum, &cell->lookup[k].counted);
		counters_add(sum, &cell->insert.counted);
		counters_add(sum, &cell->open.counted);
		counters_add(sum, &cell->remove.counted);
	}
}

int bench_tables_run(const struct bench_tables_options *options, struct bench_tables_result *result,
	const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *progress_context)
{
	struct run run = {
		.result = result,
		.progress = progress,
		.progress_context = progress_context,
	};
	*result = (struct bench_tables_result){ .options = *options };
	struct bench_tables_options *own = &result->options;
	if (own->tables_count == 0)
		name_all(own);
	for (uint32_t i = 0; i < own->entries_count; i++)
		own->entries[i] = places_of(own->entries[i]);
	int error = check(own, result->message);
	if (error != 0)
		return error;
	size_t columns = (size_t)own->entries_count * own->tables_count;
	result->cells = calloc(columns * own->loads_count, sizeof(*result->cells));
	result->full = calloc(columns, sizeof(*result->full));
	if (result->cells == NULL || result->full == NULL)
		return -ENOMEM;
	run.turns_total = columns * (own->loads_count + 1) * own->repeats;
	choose_pages(&run);
	start_dpdk(&run);
	result->tsc_hz = bench_clock_tsc_hz();
	counters_open(&run.counters, own->counters);
	error = measure(&run, stop);
	sum_counted(&run);
	counters_close(&run.counters);
	return error;
}

void bench_tables_release(struct bench_tables_result *result)
{
	free(result->cells);
	free(result->full);
	result->cells = NULL;
	result->full = NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct bench_tables_summary bench_tables_summarise(const struct bench_tables_cost *cost)
{
	double sorted[BENCH_TABLES_REPEATS_MAX];
	uint32_t count = cost->count;
	if (count == 0)
		return (struct bench_tables_summary){ 0 };
	memcpy(sorted, cost->each, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare);
	double median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
	return (struct bench_tables_summary){ median, sorted[0], sorted[count - 1] };
}
