/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whole runs with several workers, some stopped at a random moment from another thread: books must
 * balance and flows keep their order whatever the moment, from memory and as a stream, under every
 * sharing model; undisturbed runs must give the same flow results for every number of workers and
 * every model. Meant for ThreadSanitizer;
 * passes without it too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/pipeline.h"
#include "pipeline/sharing.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS = 500, PACKETS = 40000 };

struct stopper {
	atomic_bool stop; /* partner: the workers' relaxed loads */
	uint64_t after_us;
};

static char capture[] = "stress-XXXXXX";

static int write_capture(void **)
{
	struct traces_synth_options options;
	struct traces_trace *trace;
	struct traces_writer *writer;
	char message[TRACES_MESSAGE_SIZE];
	size_t count;
	int fd = mkstemp(capture);
	if (fd < 0)
		return -1;
	close(fd);
	traces_synth_options_defaults(&options);
	options.flows = FLOWS;
	options.packets = PACKETS;
	options.run_length = 2;
	options.order = TRACES_ORDER_ZIPF;
	if (traces_synth_generate(&trace, &options, message) != 0 ||
		traces_writer_create(&writer, capture, TRACES_FORMAT_PCAP_NS, 0) != 0)
		return -1;
	const struct traces_record *records = traces_trace_records(trace, &count);
	for (size_t i = 0; i < count; i++)
		traces_writer_write(writer, records[i].time_ns, records[i].link,
			traces_trace_bytes(trace) + records[i].offset, records[i].cap_len,
			records[i].wire_len);
	traces_trace_destroy(trace);
	return traces_writer_close(writer);
}

static int remove_capture(void **)
{
	return unlink(capture);
}

static void configure(struct pipeline_config *config, const char *const *paths)
{
	pipeline_config_defaults(config);
	config->paths = paths;
	config->paths_count = 1;
	config->no_huge = true;
	config->reframer_enabled = true;
	config->conntrack.entries_max = 4096;
	config->chain.functions_count = 3;
	chain_function_config_defaults(&config->chain.functions[0], CHAIN_STATS);
	chain_function_config_defaults(&config->chain.functions[1], CHAIN_NAT);
	chain_function_config_defaults(&config->chain.functions[2], CHAIN_LB);
}

static void *stop_later(void *context)
{
	struct stopper *stopper = context;
	const struct timespec pause = { .tv_nsec = (long)stopper->after_us * 1000 };
	nanosleep(&pause, NULL);
	atomic_store(&stopper->stop, true);
	return NULL;
}

static void stop_at_any_moment(enum pipeline_stream stream, enum pipeline_sharing_kind sharing)
{
	const char *paths[] = { capture };
	struct pipeline_config config;
	struct pipeline_result *result = malloc(sizeof(*result));
	uint64_t seed = (uint64_t)time(NULL);
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	print_message("seed %llu\n", (unsigned long long)seed);
	configure(&config, paths);
	config.stream = stream;
	config.sharing = sharing;
	bool once = sharing == PIPELINE_SHARING_HANDOVER;
	config.loops = once ? 1 : 1000000; /* refused */
	config.handover_ns = 20000;
	for (int round = 0; round < 8; round++) {
		struct stopper stopper = { .after_us =
						   base_rng_below(&rng, once ? 150000 : 300000) };
		pthread_t thread;
		config.workers = 1 + (uint32_t)round % 4;
		config.overlay = stream == PIPELINE_STREAM_ON ? 1 + (uint32_t)round / 4 * 2 : 1;
		assert_int_equal(pthread_create(&thread, NULL, stop_later, &stopper), 0);
		enum pipeline_exit exit = pipeline_run(&config, result, &stopper.stop, NULL, NULL);
		pthread_join(thread, NULL);
		if (exit != PIPELINE_EXIT_INTERRUPTED && !(once && exit == PIPELINE_EXIT_OK))
			fail_msg("exit %d: %s", exit, result->message);
		assert_int_equal(result->books.held, 0);
	}
	free(result);
}

/* Flows are classified, packets held, and short flows asked about when they end, under both clocks.
 * STRESS_MODEL: a small one. */
static void inference_stopped_at_any_moment_balances_its_books(void **)
{
	const char *paths[] = { capture };
	struct pipeline_config config;
	struct pipeline_result *result = malloc(sizeof(*result));
	uint64_t seed = (uint64_t)time(NULL);
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	print_message("seed %llu\n", (unsigned long long)seed);
	configure(&config, paths);
	config.loops = 1000000;
	config.infer.enabled = true;
	config.infer.model = STRESS_MODEL;
	config.infer.stage.backend = "cpu";
	config.infer.stage.depth = 4;
	config.infer.stage.hold_packets = 256;
	config.infer.stage.batcher.queue_max = 256;
	config.infer.short_flows = PIPELINE_SHORT_CLASSIFY;
	for (unsigned int state = 0; state < CONNTRACK_STATES_COUNT; state++)
		config.conntrack.timeout_ns[state] = 200000;
	for (int round = 0; round < 16; round++) {
		struct stopper stopper = { .after_us = base_rng_below(&rng, 200000) };
		pthread_t thread;
		config.workers = 1 + (uint32_t)round % 4;
		config.clock = round % 8 < 4 ? PIPELINE_CLOCK_VIRTUAL : PIPELINE_CLOCK_WALL;
		config.infer.stage.hold_ns = round < 8 ? 100000 : 0;
		assert_int_equal(pthread_create(&thread, NULL, stop_later, &stopper), 0);
		enum pipeline_exit exit = pipeline_run(&config, result, &stopper.stop, NULL, NULL);
		pthread_join(thread, NULL);
		if (exit != PIPELINE_EXIT_INTERRUPTED)
			fail_msg("exit %d: %s", exit, result->message);
		const struct gpu_offload_stage_stats *stats = &result->infer;
		assert_int_equal(stats->flows, stats->asked + stats->too_short);
		assert_int_equal(result->books.held, 0);
	}
	free(result);
}

static void a_run_stopped_at_any_moment_balances_its_books(void **)
{
	stop_at_any_moment(PIPELINE_STREAM_OFF, PIPELINE_SHARING_SHARD);
}

static void a_stream_stopped_at_any_moment_balances_its_books(void **)
{
	stop_at_any_moment(PIPELINE_STREAM_ON, PIPELINE_SHARING_SHARD);
}

static void a_run_that_shares_can_be_stopped_at_any_moment(void **)
{
	for (int kind = PIPELINE_SHARING_SHARD + 1; kind < PIPELINE_SHARING_KINDS_COUNT; kind++) {
		stop_at_any_moment(PIPELINE_STREAM_OFF, (enum pipeline_sharing_kind)kind);
		if (kind != PIPELINE_SHARING_HANDOVER)
			stop_at_any_moment(PIPELINE_STREAM_ON, (enum pipeline_sharing_kind)kind);
	}
}

static void flow_results_do_not_depend_on_the_number_of_workers(void **)
{
	const char *paths[] = { capture };
	struct pipeline_config config;
	struct pipeline_result *result = malloc(sizeof(*result));
	const atomic_bool stop = false;
	uint64_t digest = 0;
	configure(&config, paths);
	for (uint32_t run = 0; run < 8; run++) {
		config.workers = 1 + run % 4;
		config.stream = run < 4 ? PIPELINE_STREAM_OFF : PIPELINE_STREAM_ON;
		enum pipeline_exit exit = pipeline_run(&config, result, &stop, NULL, NULL);
		if (exit != PIPELINE_EXIT_OK)
			fail_msg("exit %d: %s", exit, result->message);
		assert_int_equal(result->books.forwarded, PACKETS);
		assert_int_equal(result->conntrack.inserted, FLOWS);
		if (run > 0)
			assert_int_equal(result->flow_digest, digest);
		digest = result->flow_digest;
	}
	assert_int_not_equal(digest, 0);
	free(result);
}

/* Linux's counters with an event that needs no hardware. */
static int open_task_clock(void *context, const struct perf_event_attr *attributes, int group)
{
	struct perf_event_attr other = *attributes;
	other.type = PERF_TYPE_SOFTWARE;
	other.config = PERF_COUNT_SW_TASK_CLOCK;
	return counters_linux()->open(context, &other, group);
}

static void every_worker_counts_its_own_thread(void **)
{
	const char *paths[] = { capture };
	struct pipeline_config config;
	struct pipeline_result *result = malloc(sizeof(*result));
	struct counters_kernel kernel = *counters_linux();
	const atomic_bool stop = false;
	kernel.open = open_task_clock;
	configure(&config, paths);
	config.counters = &kernel;
	config.workers = 3;
	config.repeats = 2;
	assert_int_equal(pipeline_run(&config, result, &stop, NULL, NULL), PIPELINE_EXIT_OK);
	const struct counters_sum *counted = &result->cost.counted;
	assert_int_equal(counted->operations, 2 * PACKETS);
	int error = counters_error(counted, COUNTERS_INSTRUCTIONS);
	assert_true(error == 0 || error == -EACCES || error == -EPERM || error == -ENOENT ||
		    error == -ENOSYS);
	if (error == 0)
		assert_in_range(counted->values[0], 1, 2 * counted->enabled_ns);

	config.counters = NULL;
	assert_int_equal(pipeline_run(&config, result, &stop, NULL, NULL), PIPELINE_EXIT_OK);
	assert_int_equal(counters_error(&result->cost.counted, COUNTERS_INSTRUCTIONS), -ECANCELED);
	free(result);
}

/* Connections end while packets go on, in a table that is crowded or not. */
static void flow_results_do_not_depend_on_how_connections_are_shared(void **)
{
	const char *paths[] = { capture };
	struct pipeline_config config;
	struct pipeline_result *result = malloc(sizeof(*result));
	const atomic_bool stop = false;
	uint64_t digest = 0, inserted = 0;
	configure(&config, paths);
	for (unsigned int state = 0; state < CONNTRACK_STATES_COUNT; state++)
		config.conntrack.timeout_ns[state] = 200000;
	config.conntrack.tick_ns = 10000;
	config.handover_ns = 5000;
	for (uint32_t run = 0; run < 4 * PIPELINE_SHARING_KINDS_COUNT; run++) {
		config.workers = 1 + run % 4;
		config.sharing = (enum pipeline_sharing_kind)(run / 4);
		config.conntrack.entries_max = run % 2 == 0 ? 4096 : FLOWS;
		enum pipeline_exit exit = pipeline_run(&config, result, &stop, NULL, NULL);
		if (exit != PIPELINE_EXIT_OK)
			fail_msg("%s: exit %d: %s", sharing_name(config.sharing), exit,
				result->message);
		assert_int_equal(result->books.forwarded, PACKETS);
		assert_int_equal(result->conntrack.insert_failures, 0);
		if (run > 0) {
			assert_int_equal(result->conntrack.inserted, inserted);
			assert_int_equal(result->flow_digest, digest);
		}
		inserted = result->conntrack.inserted;
		digest = result->flow_digest;
	}
	assert_true(inserted > 2 * FLOWS);
	free(result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_stopped_at_any_moment_balances_its_books),
		cmocka_unit_test(a_stream_stopped_at_any_moment_balances_its_books),
		cmocka_unit_test(inference_stopped_at_any_moment_balances_its_books),
		cmocka_unit_test(flow_results_do_not_depend_on_the_number_of_workers),
		cmocka_unit_test(every_worker_counts_its_own_thread),
		cmocka_unit_test(a_run_that_shares_can_be_stopped_at_any_moment),
		cmocka_unit_test(flow_results_do_not_depend_on_how_connections_are_shared),
	};
	return cmocka_run_group_tests(tests, write_capture, remove_capture);
}
