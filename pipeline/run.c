/* SPDX-License-Identifier: BSD-2-Clause */
/* One run or several over the same packets: load, schedule, start workers, repeat, collect. */
#include "pipeline/collect.h"
#include "pipeline/eal.h"
#include "pipeline/infer.h"
#include "pipeline/input.h"
#include "pipeline/run_memory.h"
#include "pipeline/worker_threads.h"

#include <rte_cycles.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAGE_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20 };

/* One configuration of those that take turns. */
struct variant {
	struct pipeline_config config; /* with seeds and limits filled in */
	struct pipeline_result *result;
	struct collect_sample *samples; /* one per repeat */
	uint32_t repeats;               /* done */
	uint64_t fingerprint;           /* of the last repeat's results */
	bool repeatable;                /* they must be the next one's as well */
};

/* Everything that lives as long as the run. What concerns the input is the same in all variants and
 * read from the first one's configuration. */
struct run {
	struct variant *variants;
	size_t variants_count;
	const struct pipeline_config *config; /* of the first variant */
	struct pipeline_result *result;       /* of the variant at work: takes messages */
	struct input input;
	struct port source_port, sink_port;
	struct worker_shared shared;
	struct worker *workers;
	struct gpu_offload_model *model; /* NULL unless flows are classified */
};

static uint64_t dpdk_bytes(
	const struct run *run, const struct pipeline_config *config, uint64_t page_bytes)
{
	return run_memory_dpdk_bytes(config, input_frame_max(&run->input, config), page_bytes);
}

static enum pipeline_exit start_dpdk(struct run *run)
{
	struct pipeline_result *result = run->result;
	const struct pipeline_config *config = run->config;
	const char *devices[] = { config->source_port, config->sink_port };
	struct pipeline_eal_need need = { 0 };
	bool huge;
	for (size_t i = 0; i < run->variants_count; i++) {
		const struct pipeline_config *each = &run->variants[i].config;
		size_t huge_bytes = dpdk_bytes(run, each, HUGE_PAGE_BYTES);
		size_t plain_bytes = dpdk_bytes(run, each, PAGE_BYTES);
		need.huge_bytes = huge_bytes > need.huge_bytes ? huge_bytes : need.huge_bytes;
		need.plain_bytes = plain_bytes > need.plain_bytes ? plain_bytes : need.plain_bytes;
	}
	if (pipeline_eal_start(&need, config->no_huge, devices, BASE_ARRAY_COUNT(devices), &huge,
		    result->message) != 0)
		return PIPELINE_EXIT_RUN;
	run->shared.huge = huge;
	for (size_t i = 0; i < run->variants_count; i++) {
		result = run->variants[i].result;
		result->huge_pages = huge;
		snprintf(result->memory_note, sizeof(result->memory_note), "%s",
			huge              ? "huge pages"
			: config->no_huge ? "plain pages (asked for): slower"
					  : "no free huge pages: slower, see docs/experiments.md");
	}
	result = run->result;
	int error = 0;
	if (config->source == PIPELINE_SOURCE_PORT)
		error = port_start(&run->source_port, config->source_port,
			(uint16_t)config->workers, result->message);
	bool same = config->source == PIPELINE_SOURCE_PORT && config->sink_port != NULL &&
		    strcmp(config->source_port, config->sink_port) == 0;
	run->shared.source_port = run->shared.sink_port = &run->source_port;
	if (error == 0 && config->sink == PIPELINE_SINK_PORT && !same) {
		error = port_start(&run->sink_port, config->sink_port, (uint16_t)config->workers,
			result->message);
		run->shared.sink_port = &run->sink_port;
	}
	return error == 0 ? PIPELINE_EXIT_OK : PIPELINE_EXIT_RUN;
}

static void show_replay(void *context)
{
	struct run *run = context;
	const struct pipeline_config *config = run->config;
	const struct input *input = &run->input;
	uint64_t done = 0, total = input->plan.packets * config->loops * config->overlay;
	if (input->progress == NULL)
		return;
	for (uint32_t i = 0; i < config->workers; i++)
		done += atomic_load_explicit(&run->workers[i].progress, memory_order_relaxed);
	if (input->streams)
		reader_progress(input->reader, &done, &total);
	input->progress(input->progress_context, "replaying", done, total);
}

static enum pipeline_exit judge_workers(struct run *run)
{
	for (uint32_t i = 0; i < run->config->workers; i++) {
		const struct worker *worker = &run->workers[i];
		if (worker->error == 0)
			continue;
		if (worker->error == -EBADMSG) { /* all workers read the file, the first tells */
			snprintf(run->result->message, sizeof(run->result->message), "%.480s",
				worker->message);
			return PIPELINE_EXIT_INPUT;
		}
		snprintf(run->result->message, sizeof(run->result->message), "worker %u: %.480s", i,
			worker->message);
		return worker->error == -EUCLEAN  ? PIPELINE_EXIT_BOOKS
		       : worker->error == -EINVAL ? PIPELINE_EXIT_USAGE
						  : PIPELINE_EXIT_RUN;
	}
	return PIPELINE_EXIT_OK;
}

/* Run the threads of one pass to their end. */
static enum pipeline_exit run_threads(struct run *run, const struct pipeline_config *config)
{
	struct pipeline_result *result = run->result;
	enum pipeline_exit exit = input_begin(&run->input, result);
	run->shared.reader = run->input.streams ? run->input.reader : NULL;
	int error = 0;
	if (exit == PIPELINE_EXIT_OK) {
		error = worker_threads_run(
			run->workers, config->workers, show_replay, run, result->message);
		exit = input_end(&run->input, result);
	}
	if (error != 0)
		exit = PIPELINE_EXIT_RUN;
	if (exit != PIPELINE_EXIT_OK)
		atomic_store(&run->shared.failed, true); /* the workers have nothing to collect */
	return exit != PIPELINE_EXIT_OK ? exit : judge_workers(run);
}

/* One pass of one variant. sample may be NULL: the pass only warms up. */
static enum pipeline_exit run_once(
	struct run *run, struct variant *variant, struct collect_sample *sample)
{
	const struct pipeline_config *config = &variant->config;
	struct collect_sample unused = { 0 };
	size_t size = config->workers * sizeof(struct worker);
	run->result = variant->result;
	run->shared.config = config;
	run->workers = aligned_alloc(BASE_CACHE_LINE, size);
	if (run->workers == NULL) {
		snprintf(run->result->message, sizeof(run->result->message), "out of memory");
		return PIPELINE_EXIT_RUN;
	}
	memset(run->workers, 0, size);
	if (sharing_create(&run->shared.sharing, config, run->shared.huge) != 0) {
		snprintf(run->result->message, sizeof(run->result->message), "out of memory");
		free(run->workers);
		run->workers = NULL;
		return PIPELINE_EXIT_RUN;
	}
	for (uint32_t i = 0; i < config->workers; i++) {
		run->workers[i].shared = &run->shared;
		run->workers[i].index = i;
	}
	enum pipeline_exit exit = run_threads(run, config);
	collect_reset(run->result);
	for (uint32_t i = 0; i < config->workers; i++) {
		if (!atomic_load(&run->shared.failed))
			collect_worker(run->result, sample != NULL ? sample : &unused,
				&run->workers[i], config);
		if (!run->result->interrupted && !atomic_load(&run->shared.failed) &&
			config->source == PIPELINE_SOURCE_TRACE && !run->workers[i].source->done)
			run->result->interrupted = true;
	}
	if (exit == PIPELINE_EXIT_OK && config->infer.enabled && config->infer.verdicts != NULL &&
		infer_verdicts_write(run->workers, config, run->result->message) != 0)
		exit = PIPELINE_EXIT_RUN;
	for (uint32_t i = 0; i < config->workers; i++) {
		worker_destroy(&run->workers[i]);
	}
	sharing_destroy(run->shared.sharing);
	run->shared.sharing = NULL;
	free(run->workers);
	run->workers = NULL;
	return exit;
}

static enum pipeline_exit run_repeat(struct run *run, struct variant *variant)
{
	const struct pipeline_config *config = &variant->config;
	struct pipeline_result *result = variant->result;
	enum pipeline_exit exit = run_once(run, variant, &variant->samples[variant->repeats]);
	variant->samples[variant->repeats].start_cycles = run->shared.start_cycles;
	if (exit != PIPELINE_EXIT_OK) {
		if (config->sink == PIPELINE_SINK_FILE)
			sink_file_discard_parts(config);
		return exit;
	}
	uint64_t fingerprint = collect_fingerprint(result, config);
	bool repeatable = collect_is_repeatable(result, config);
	/* When a device was lost depends on the machine, and so does which flows failed. */
	if (variant->repeats != 0 && fingerprint != variant->fingerprint && repeatable &&
		variant->repeatable && !result->interrupted &&
		config->clock == PIPELINE_CLOCK_VIRTUAL && result->infer_lost[0] == '\0')
		result->repeats_differ = true;
	variant->fingerprint = fingerprint;
	variant->repeatable = repeatable;
	variant->repeats++;
	return result->interrupted ? PIPELINE_EXIT_INTERRUPTED : PIPELINE_EXIT_OK;
}

/* The variants take turns, so that a machine that grows slower slows all of them. */
static enum pipeline_exit run_repeats(struct run *run)
{
	enum pipeline_exit exit = PIPELINE_EXIT_OK;
	for (uint32_t repeat = 0; repeat < run->config->repeats; repeat++) {
		for (size_t i = 0; i < run->variants_count && exit == PIPELINE_EXIT_OK; i++)
			exit = run_repeat(run, &run->variants[i]);
	}
	if (exit != PIPELINE_EXIT_OK && exit != PIPELINE_EXIT_INTERRUPTED)
		return exit;
	for (size_t i = 0; i < run->variants_count; i++) {
		struct variant *variant = &run->variants[i];
		if (variant->repeats != 0)
			collect_cost(&variant->result->cost, variant->samples, variant->repeats,
				run->variants[0].samples[0].start_cycles, run->shared.tsc_hz);
	}
	if (run->config->sink == PIPELINE_SINK_FILE && run->config->workers > 1 &&
		sink_file_join(run->config, run->result->message) != 0)
		return PIPELINE_EXIT_RUN;
	return PIPELINE_EXIT_OK;
}

static void tell_damage(const struct pipeline_config *config, struct pipeline_result *result)
{
	const struct traces_load_report *load = &result->load;
	const struct traces_damage *first = &load->damages[0];
	const char *path = first->file < config->paths_count ? config->paths[first->file] : "?";
	int used = snprintf(result->message, sizeof(result->message),
		"%.300s: damaged at packet %" PRIu64 ", byte %" PRIu64 ": %s", path, first->packet,
		first->offset, first->reason);
	if (load->damages_count > 1)
		snprintf(result->message + used, sizeof(result->message) - (size_t)used,
			", and %" PRIu64 " more", load->damages_count - 1);
}

static enum pipeline_exit judge(const struct variant *variant)
{
	struct pipeline_result *result = variant->result;
	const char *wrong = NULL;
	if (!result->books.balanced)
		wrong = "books do not balance";
	else if (result->books.reorder_violations != 0)
		wrong = "packets of a flow left out of order";
	else if (result->repeats_differ)
		wrong = "repeats gave different results";
	if (wrong != NULL) {
		snprintf(result->message, sizeof(result->message), "%s (a bug in sheaf)", wrong);
		return PIPELINE_EXIT_BOOKS;
	}
	if (result->load.damages_count != 0)
		tell_damage(&variant->config, result);
	if (result->interrupted) {
		snprintf(result->message, sizeof(result->message), "interrupted");
		return PIPELINE_EXIT_INTERRUPTED;
	}
	if (result->infer_lost[0] != '\0') {
		snprintf(result->message, sizeof(result->message),
			"infer: %s (%" PRIu64 " flows failed)", result->infer_lost,
			result->infer.batcher.failed);
		return PIPELINE_EXIT_LOST;
	}
	return result->load.damages_count != 0 ? PIPELINE_EXIT_DAMAGED : PIPELINE_EXIT_OK;
}

/* The gravest of the variants' outcomes; run->result becomes the one that it speaks of. */
static enum pipeline_exit judge_all(struct run *run)
{
	static const enum pipeline_exit gravest_first[] = { PIPELINE_EXIT_BOOKS,
		PIPELINE_EXIT_INTERRUPTED, PIPELINE_EXIT_LOST, PIPELINE_EXIT_DAMAGED,
		PIPELINE_EXIT_OK };
	size_t worst = BASE_ARRAY_COUNT(gravest_first) - 1;
	run->result = run->variants[0].result;
	for (size_t i = 0; i < run->variants_count; i++) {
		enum pipeline_exit exit = judge(&run->variants[i]);
		for (size_t rank = 0; rank < worst; rank++) {
			if (exit != gravest_first[rank])
				continue;
			worst = rank;
			run->result = run->variants[i].result;
		}
	}
	return gravest_first[worst];
}

/* Packets that a variant can see in one pass; UINT64_MAX when nobody knows yet. */
static uint64_t packets_most(const struct run *run, const struct pipeline_config *config)
{
	if (config->source == PIPELINE_SOURCE_PORT || run->input.streams)
		return UINT64_MAX;
	return run->input.plan.packets * config->loops * config->overlay;
}

/* Refuse what would make the system end processes. Variants have the machine in turns. */
static enum pipeline_exit check_memory(struct run *run)
{
	struct pipeline_memory_part parts[PIPELINE_MEMORY_PARTS_MAX];
	for (size_t i = 0; i < run->variants_count; i++) {
		const struct pipeline_config *config = &run->variants[i].config;
		bool huge = !config->no_huge && pipeline_memory_huge_free("") >=
							dpdk_bytes(run, config, HUGE_PAGE_BYTES);
		uint64_t available =
			huge ? pipeline_memory_available("") : pipeline_memory_plain("");
		size_t count = run_memory_parts(parts, config, input_frame_max(&run->input, config),
			huge ? HUGE_PAGE_BYTES : PAGE_BYTES, packets_most(run, config));
		if (pipeline_memory_check(parts, count, available, run->result->message,
			    sizeof(run->result->message)) != 0)
			return PIPELINE_EXIT_RUN;
	}
	return PIPELINE_EXIT_OK;
}

static void describe_input(struct run *run)
{
	for (size_t i = 0; i < run->variants_count; i++) {
		struct pipeline_result *result = run->variants[i].result;
		input_describe(&run->input, result);
		if (result == run->result)
			continue;
		result->load = run->result->load;
		result->streamed = run->result->streamed;
		memcpy(result->stream_note, run->result->stream_note, sizeof(result->stream_note));
	}
}

/* A run to warm up, thrown away: the first in a process pays for memory that later ones find
 * mapped. The last variant's buffers are the largest. */
static enum pipeline_exit warm_up(struct run *run)
{
	struct variant *variant = &run->variants[run->variants_count - 1];
	enum pipeline_exit exit = run_once(run, variant, NULL);
	if (exit == PIPELINE_EXIT_OK && variant->result->interrupted) {
		snprintf(variant->result->message, sizeof(variant->result->message), "interrupted");
		return PIPELINE_EXIT_INTERRUPTED;
	}
	return exit;
}

static enum pipeline_exit execute(struct run *run)
{
	struct timespec now;
	enum pipeline_exit exit = PIPELINE_EXIT_OK;
	if (run->config->source == PIPELINE_SOURCE_TRACE) {
		const struct pipeline_config *config = run->config;
		exit = input_open(&run->input,
			config->loops * config->overlay * config->repeats * run->variants_count,
			run->result);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		run->input.plan.epoch_ns =
			(uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	}
	describe_input(run);
	if (exit == PIPELINE_EXIT_OK)
		exit = check_memory(run);
	if (exit == PIPELINE_EXIT_OK)
		exit = infer_load(&run->model, run->config, run->result);
	if (exit == PIPELINE_EXIT_OK)
		exit = start_dpdk(run);
	if (exit != PIPELINE_EXIT_OK)
		return exit;
	struct worker_shared *shared = &run->shared;
	shared->schedule = &run->input.schedule;
	shared->trace = run->input.trace;
	shared->plan = &run->input.plan;
	shared->model = run->model;
	shared->stop = run->input.stop;
	shared->tsc_hz = (double)rte_get_tsc_hz();
	if (run->variants_count > 1)
		exit = warm_up(run);
	if (exit == PIPELINE_EXIT_OK)
		exit = run_repeats(run);
	return exit == PIPELINE_EXIT_OK ? judge_all(run) : exit;
}

/* -ENOMEM. */
static int add_variants(struct run *run, const struct pipeline_config *configs,
	struct pipeline_result *results, size_t count)
{
	run->variants = calloc(count, sizeof(*run->variants));
	if (run->variants == NULL)
		return -ENOMEM;
	run->variants_count = count;
	run->config = run->input.config = &run->variants[0].config;
	for (size_t i = 0; i < count; i++) {
		struct variant *variant = &run->variants[i];
		BASE_ASSERT(configs[i].paths == configs[0].paths &&
			    configs[i].workers == configs[0].workers &&
			    configs[i].repeats == configs[0].repeats);
		variant->config = configs[i];
		variant->result = &results[i];
		variant->samples = calloc(configs[i].repeats, sizeof(*variant->samples));
		if (variant->samples == NULL)
			return -ENOMEM;
		pipeline_hash_salts(variant->config.seed, variant->config.parse.hash.salt);
	}
	return 0;
}

static void destroy_run(struct run *run)
{
	port_stop(&run->source_port);
	port_stop(&run->sink_port);
	gpu_offload_model_destroy(run->model);
	input_close(&run->input);
	for (size_t i = 0; i < run->variants_count; i++)
		free(run->variants[i].samples);
	free(run->variants);
	free(run);
}

enum pipeline_exit pipeline_compare(const struct pipeline_config *configs,
	struct pipeline_result *results, size_t count, size_t *told, const atomic_bool *stop,
	input_progress *progress, void *progress_context)
{
	*told = 0;
	for (size_t i = 0; i < count; i++) {
		memset(&results[i], 0, sizeof(results[i]));
		collect_reset(&results[i]);
		if (pipeline_config_check(&configs[i], results[0].message) != 0)
			return PIPELINE_EXIT_USAGE;
	}
	struct run *run = calloc(1, sizeof(*run));
	if (run == NULL) {
		snprintf(results[0].message, sizeof(results[0].message), "out of memory");
		return PIPELINE_EXIT_RUN;
	}
	run->result = &results[0];
	run->input.stop = stop;
	run->input.progress = progress;
	run->input.progress_context = progress_context;
	enum pipeline_exit exit = PIPELINE_EXIT_RUN;
	if (add_variants(run, configs, results, count) == 0)
		exit = execute(run);
	else
		snprintf(run->result->message, sizeof(run->result->message), "out of memory");
	*told = (size_t)(run->result - results);
	destroy_run(run);
	return exit;
}

enum pipeline_exit pipeline_run(const struct pipeline_config *config,
	struct pipeline_result *result, const atomic_bool *stop, input_progress *progress,
	void *progress_context)
{
	size_t told;
	return pipeline_compare(config, result, 1, &told, stop, progress, progress_context);
}
