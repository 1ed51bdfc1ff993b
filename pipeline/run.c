/* SPDX-License-Identifier: BSD-2-Clause */
/* One run: load, schedule, start workers, repeat, collect. */
#include "pipeline/collect.h"
#include "pipeline/eal.h"

#include <rte_cycles.h>
#include <rte_lcore.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef void progress_fn(void *context, const char *what, uint64_t done, uint64_t total);

/* Everything that lives as long as the run. */
struct run {
	struct pipeline_config config; /* with seeds and limits filled in */
	struct pipeline_result *result;
	const atomic_bool *stop;
	progress_fn *progress;
	void *progress_context;
	struct traces_trace *trace;
	struct schedule schedule;
	struct port source_port, sink_port;
	struct worker_shared shared;
	struct worker *workers;
	struct collect_sample *samples;
	pthread_barrier_t barrier;
	pthread_mutex_t gate; /* closed while threads are started, then while one sets up */
	bool abandoned;       /* not all could be started; gate protects it */
};

struct thread_argument {
	struct run *run;
	struct worker *worker;
	atomic_bool finished; /* worker -> main, release/acquire pair in wait_for_workers */
};

static void show_load(void *context, uint64_t done, uint64_t total)
{
	struct run *run = context;
	if (run->progress != NULL)
		run->progress(run->progress_context, "loading", done, total);
}

static enum pipeline_exit load(struct run *run)
{
	struct traces_load_options options;
	struct pipeline_result *result = run->result;
	traces_load_options_defaults(&options);
	options.merge = !run->config.concatenate;
	options.packets_max = run->config.packets_max;
	options.progress = show_load;
	options.progress_context = run;
	int error = traces_trace_load(
		&run->trace, run->config.paths, run->config.paths_count, &options, &result->load);
	if (error != 0) {
		snprintf(result->message, sizeof(result->message), "%s", result->load.message);
		return PIPELINE_EXIT_INPUT;
	}
	error = schedule_create(
		&run->schedule, &run->config, run->trace, run->stop, result->message);
	if (error == -EINTR) {
		result->interrupted = true;
		return PIPELINE_EXIT_INTERRUPTED;
	}
	if (error != 0 && result->message[0] == '\0')
		snprintf(
			result->message, sizeof(result->message), "schedule: %s", strerror(-error));
	return error == 0         ? PIPELINE_EXIT_OK
	       : error == -EINVAL ? PIPELINE_EXIT_USAGE
				  : PIPELINE_EXIT_RUN;
}

static void describe_trace(struct run *run)
{
	struct pipeline_result *result = run->result;
	const struct schedule *schedule = &run->schedule;
	result->trace_packets = schedule->packets;
	result->trace_wire_bytes = schedule->wire_bytes;
	result->trace_captured_bytes = schedule->captured_bytes;
	result->trace_duration_ns = schedule->duration_ns;
	result->time_clamped = schedule->time_clamped;
	result->gaps_cut = schedule->gaps_cut;
	result->gaps_cut_ns = schedule->gaps_cut_ns;
	result->flows = schedule->flows;
	if (run->trace != NULL)
		result->trace_memory_bytes = traces_trace_memory_bytes(run->trace) +
					     schedule->packets * sizeof(struct schedule_entry);
}

/* DPDK memory of one worker: packet buffers, route tables, rule tables. */
static size_t eal_bytes(const struct run *run)
{
	const struct pipeline_config *config = &run->config;
	size_t buffers = config->rx == PIPELINE_RX_COLD ? 1u << 17 : config->rx_ring;
	buffers += 2048;
	if (config->reframer_enabled)
		buffers += config->reframer.held_packets_max;
	if (config->sink == PIPELINE_SINK_PORT)
		buffers += 8192;
	size_t room = run->schedule.cap_len_max;
	if (config->pad_to_wire)
		room = run->schedule.wire_len_max;
	room = room < 2048 ? 2048 : room > UINT16_MAX ? UINT16_MAX : room;
	size_t bytes = buffers * (room + 512);
	for (uint32_t i = 0; i < config->chain.functions_count; i++) {
		if (config->chain.functions[i].kind == CHAIN_ROUTER)
			bytes += (size_t)160 << 20;
		else if (config->chain.functions[i].kind == CHAIN_FIREWALL)
			bytes += (size_t)256 << 20;
	}
	if (run->config.source == PIPELINE_SOURCE_PORT || config->sink == PIPELINE_SINK_PORT)
		bytes += (size_t)64 << 20;
	return bytes * config->workers;
}

static enum pipeline_exit start_dpdk(struct run *run)
{
	struct pipeline_result *result = run->result;
	const struct pipeline_config *config = &run->config;
	const char *devices[] = { config->source_port, config->sink_port };
	bool huge;
	if (pipeline_eal_start(eal_bytes(run), config->no_huge, devices, BASE_ARRAY_COUNT(devices),
		    &huge, result->message) != 0)
		return PIPELINE_EXIT_RUN;
	result->huge_pages = run->shared.huge = huge;
	snprintf(result->memory_note, sizeof(result->memory_note), "%s",
		huge              ? "huge pages"
		: config->no_huge ? "plain pages (asked for): slower"
				  : "no free huge pages: slower, see docs/experiments.md");
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

/* Pin the calling thread to the index-th CPU that the process may use. */
static void pin(unsigned int index)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) != 0)
		return;
	unsigned int skip = index % (unsigned int)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
		return;
	}
}

static void *worker_thread(void *context)
{
	struct thread_argument *argument = context;
	struct worker *worker = argument->worker;
	struct worker_shared *shared = worker->shared;
	pin(worker->index);
	pthread_mutex_lock(&argument->run->gate);
	bool abandoned = argument->run->abandoned;
	if (abandoned) {
		pthread_mutex_unlock(&argument->run->gate);
		return NULL;
	}
	(void)rte_thread_register(); /* without an id only per-thread caches are missing */
	/* One at a time: where DPDK cannot get a huge page, it leaves a hole in its address space
	 * for a moment and then maps over it, whoever has mapped memory there meanwhile. */
	if (worker_setup(worker) != 0)
		atomic_store(&shared->failed, true);
	pthread_mutex_unlock(&argument->run->gate);
	pthread_barrier_wait(&argument->run->barrier);
	if (worker->index == 0)
		shared->start_cycles = base_cycles();
	pthread_barrier_wait(&argument->run->barrier);
	if (!atomic_load(&shared->failed)) {
		worker_loop(worker);
		worker_finish(worker);
	}
	rte_thread_unregister();
	atomic_store_explicit(&argument->finished, true, memory_order_release);
	return NULL;
}

/* Show progress until all have finished. */
static void wait_for_workers(struct run *run, struct thread_argument *arguments, uint32_t count)
{
	const struct timespec tick = { .tv_nsec = 20000000 };
	const struct pipeline_config *config = &run->config;
	uint64_t total = run->schedule.packets * config->loops * config->overlay;
	for (unsigned int ticks = 0;; ticks++) {
		uint64_t done = 0;
		bool finished = true;
		for (uint32_t i = 0; i < count; i++) {
			done += atomic_load_explicit(
				&run->workers[i].progress, memory_order_relaxed);
			/* acquire: pairs with the release store in worker_thread */
			finished = finished && atomic_load_explicit(&arguments[i].finished,
						       memory_order_acquire);
		}
		if (finished)
			break;
		if (run->progress != NULL && ticks % 5 == 4)
			run->progress(run->progress_context, "replaying", done, total);
		nanosleep(&tick, NULL);
	}
}

static int start_threads(struct run *run)
{
	uint32_t count = run->config.workers;
	pthread_t threads[PIPELINE_WORKERS_MAX];
	struct thread_argument arguments[PIPELINE_WORKERS_MAX];
	int error = pthread_barrier_init(&run->barrier, NULL, count);
	if (error != 0)
		return -error;
	/* Nobody may reach the barrier before it is sure that all will. */
	uint32_t started = 0;
	pthread_mutex_lock(&run->gate);
	while (started < count && error == 0) {
		arguments[started].run = run;
		arguments[started].worker = &run->workers[started];
		atomic_init(&arguments[started].finished, false);
		error = pthread_create(&threads[started], NULL, worker_thread, &arguments[started]);
		started += error == 0;
	}
	run->abandoned = error != 0;
	pthread_mutex_unlock(&run->gate);
	if (error == 0)
		wait_for_workers(run, arguments, count);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&run->barrier);
	if (error != 0)
		snprintf(run->result->message, sizeof(run->result->message),
			"cannot start worker thread %u: %s", started, strerror(error));
	return -error;
}

static enum pipeline_exit judge_workers(struct run *run)
{
	for (uint32_t i = 0; i < run->config.workers; i++) {
		const struct worker *worker = &run->workers[i];
		if (worker->error == 0)
			continue;
		snprintf(run->result->message, sizeof(run->result->message), "worker %u: %.480s", i,
			worker->message);
		return worker->error == -EUCLEAN  ? PIPELINE_EXIT_BOOKS
		       : worker->error == -EINVAL ? PIPELINE_EXIT_USAGE
						  : PIPELINE_EXIT_RUN;
	}
	return PIPELINE_EXIT_OK;
}

static enum pipeline_exit run_once(struct run *run, uint32_t repeat)
{
	const struct pipeline_config *config = &run->config;
	size_t size = config->workers * sizeof(struct worker);
	run->workers = aligned_alloc(BASE_CACHE_LINE, size);
	if (run->workers == NULL) {
		snprintf(run->result->message, sizeof(run->result->message), "out of memory");
		return PIPELINE_EXIT_RUN;
	}
	memset(run->workers, 0, size);
	for (uint32_t i = 0; i < config->workers; i++) {
		run->workers[i].shared = &run->shared;
		run->workers[i].index = i;
	}
	int error = start_threads(run);
	if (error != 0)
		atomic_store(&run->shared.failed, true); /* the workers have nothing to collect */
	enum pipeline_exit exit = error == 0 ? judge_workers(run) : PIPELINE_EXIT_RUN;
	collect_reset(run->result);
	for (uint32_t i = 0; i < config->workers; i++) {
		if (!atomic_load(&run->shared.failed))
			collect_worker(
				run->result, &run->samples[repeat], &run->workers[i], config);
		if (!run->result->interrupted && !atomic_load(&run->shared.failed) &&
			config->source == PIPELINE_SOURCE_TRACE && !run->workers[i].source->done)
			run->result->interrupted = true;
		worker_destroy(&run->workers[i]);
	}
	free(run->workers);
	run->workers = NULL;
	return exit;
}

static enum pipeline_exit run_repeats(struct run *run)
{
	struct pipeline_result *result = run->result;
	uint64_t fingerprint = 0;
	uint32_t repeat = 0;
	while (repeat < run->config.repeats && !result->interrupted) {
		enum pipeline_exit exit = run_once(run, repeat);
		if (exit != PIPELINE_EXIT_OK) {
			if (run->config.sink == PIPELINE_SINK_FILE)
				sink_file_discard_parts(&run->config);
			return exit;
		}
		uint64_t this_one = collect_fingerprint(result);
		if (repeat != 0 && this_one != fingerprint && !result->interrupted &&
			run->config.clock == PIPELINE_CLOCK_VIRTUAL)
			result->repeats_differ = true;
		fingerprint = this_one;
		repeat++;
	}
	collect_cost(&result->cost, run->samples, repeat, run->shared.tsc_hz);
	if (run->config.sink == PIPELINE_SINK_FILE && run->config.workers > 1 &&
		sink_file_join(&run->config, result->message) != 0)
		return PIPELINE_EXIT_RUN;
	return PIPELINE_EXIT_OK;
}

static void tell_damage(struct run *run)
{
	const struct traces_load_report *load = &run->result->load;
	const struct traces_damage *first = &load->damages[0];
	const char *path =
		first->file < run->config.paths_count ? run->config.paths[first->file] : "?";
	int used = snprintf(run->result->message, sizeof(run->result->message),
		"%.300s: damaged at packet %" PRIu64 ", byte %" PRIu64 ": %s", path, first->packet,
		first->offset, first->reason);
	if (load->damages_count > 1)
		snprintf(run->result->message + used, sizeof(run->result->message) - (size_t)used,
			", and %" PRIu64 " more", load->damages_count - 1);
}

static enum pipeline_exit judge(struct run *run)
{
	struct pipeline_result *result = run->result;
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
		tell_damage(run);
	if (result->interrupted) {
		snprintf(result->message, sizeof(result->message), "interrupted");
		return PIPELINE_EXIT_INTERRUPTED;
	}
	return result->load.damages_count != 0 ? PIPELINE_EXIT_DAMAGED : PIPELINE_EXIT_OK;
}

/* Refuse what would make the system end processes. A connection takes about 100 bytes, and more
 * with a chain. */
static enum pipeline_exit check_memory(struct run *run)
{
	enum { CONN_BYTES = 100 };
	size_t need = (size_t)run->config.conntrack.entries_max * run->config.workers * CONN_BYTES;
	size_t available = pipeline_eal_memory_available();
	if (need <= available)
		return PIPELINE_EXIT_OK;
	snprintf(run->result->message, sizeof(run->result->message),
		"connection tables need %zu MB, the machine has %zu MB free: lower --conns or "
		"--workers",
		need >> 20, available >> 20);
	return PIPELINE_EXIT_RUN;
}

static enum pipeline_exit execute(struct run *run)
{
	struct timespec now;
	enum pipeline_exit exit = PIPELINE_EXIT_OK;
	if (run->config.source == PIPELINE_SOURCE_TRACE) {
		exit = load(run);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		run->schedule.epoch_ns =
			(uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	}
	describe_trace(run);
	if (exit == PIPELINE_EXIT_OK)
		exit = check_memory(run);
	if (exit == PIPELINE_EXIT_OK)
		exit = start_dpdk(run);
	if (exit != PIPELINE_EXIT_OK)
		return exit;
	struct worker_shared *shared = &run->shared;
	shared->config = &run->config;
	shared->schedule = &run->schedule;
	shared->trace = run->trace;
	shared->stop = run->stop;
	shared->tsc_hz = (double)rte_get_tsc_hz();
	shared->end_ns = (run->config.loops - 1) * run->schedule.period_ns +
			 run->schedule.duration_ns +
			 (run->config.overlay - 1) * run->config.overlay_shift_ns;
	exit = run_repeats(run);
	return exit == PIPELINE_EXIT_OK ? judge(run) : exit;
}

/* Salts come from the seed, so that a run can be repeated exactly. */
static void fill_in(struct run *run)
{
	struct pipeline_config *config = &run->config;
	uint64_t state = config->seed;
	config->parse.hash.salt[0] = base_rng_splitmix64(&state);
	config->parse.hash.salt[1] = base_rng_splitmix64(&state);
}

enum pipeline_exit pipeline_run(const struct pipeline_config *config,
	struct pipeline_result *result, const atomic_bool *stop, progress_fn *progress,
	void *progress_context)
{
	memset(result, 0, sizeof(*result));
	collect_reset(result);
	if (pipeline_config_check(config, result->message) != 0)
		return PIPELINE_EXIT_USAGE;
	struct run *run = calloc(1, sizeof(*run));
	struct collect_sample *samples = calloc(config->repeats, sizeof(*samples));
	enum pipeline_exit exit = PIPELINE_EXIT_RUN;
	if (run != NULL && samples != NULL) {
		run->config = *config;
		run->result = result;
		run->stop = stop;
		run->progress = progress;
		run->progress_context = progress_context;
		pthread_mutex_init(&run->gate, NULL);
		run->samples = samples;
		fill_in(run);
		exit = execute(run);
		port_stop(&run->source_port);
		port_stop(&run->sink_port);
		schedule_destroy(&run->schedule);
		traces_trace_destroy(run->trace);
		pthread_mutex_destroy(&run->gate);
	} else {
		snprintf(result->message, sizeof(result->message), "out of memory");
	}
	free(samples);
	free(run);
	return exit;
}
