/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/collect.h"

#include <stdio.h>
#include <stdlib.h>

void collect_reset(struct pipeline_result *result)
{
	memset(&result->parse, 0, sizeof(result->parse));
	memset(&result->reframer, 0, sizeof(result->reframer));
	memset(&result->conntrack, 0, sizeof(result->conntrack));
	memset(result->chain, 0, sizeof(result->chain));
	memset(&result->infer, 0, sizeof(result->infer));
	memset(&result->books, 0, sizeof(result->books));
	result->books.balanced = true;
	base_histogram_reset(&result->hold);
	result->runs_in = result->runs_packets = result->flow_runs_out = 0;
	result->frames_cut = 0;
	result->flow_digest = 0;
	result->chain_count = 0;
}

/* All members of these structs are uint64_t counters; peaks are summed too: they are memory bounds
 * over all workers. */
static void add_counters(void *into, const void *from, size_t bytes)
{
	uint64_t *sum = into;
	const uint64_t *part = from;
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		sum[i] += part[i];
}
static_assert(sizeof(struct base_parse_stats) % sizeof(uint64_t) == 0, "counters only");
static_assert(sizeof(struct sharing_waits) % sizeof(uint64_t) == 0, "counters only");
static_assert(sizeof(struct worker_waits) % sizeof(uint64_t) == 0, "counters only");
static_assert(sizeof(struct reframer_stats) % sizeof(uint64_t) == 0, "counters only");
static_assert(offsetof(struct conntrack_stats, bytes_per_entry) % sizeof(uint64_t) == 0,
	"counters only, then bytes_per_entry");

void collect_add_conntrack(struct conntrack_stats *sum, const struct conntrack_stats *part)
{
	uint64_t late_ns = sum->expiry_late_max_ns > part->expiry_late_max_ns
				   ? sum->expiry_late_max_ns
				   : part->expiry_late_max_ns;
	add_counters(sum, part, offsetof(struct conntrack_stats, bytes_per_entry));
	sum->expiry_late_max_ns = late_ns;
	sum->bytes_per_entry = part->bytes_per_entry;
}

void collect_add_function(struct chain_function_stats *sum, const struct chain_function_stats *part)
{
	sum->name = part->name;
	sum->in += part->in;
	sum->out += part->out;
	add_counters(sum->drops, part->drops, sizeof(sum->drops));
	add_counters(sum->early_drops, part->early_drops, sizeof(sum->early_drops));
	sum->counters_count = part->counters_count;
	for (uint32_t i = 0; i < part->counters_count; i++) {
		sum->counters[i].name = part->counters[i].name;
		sum->counters[i].value += part->counters[i].value;
	}
}

static void add_chain(struct pipeline_result *result, const struct worker *worker)
{
	result->chain_count = worker->chain_count;
	for (uint32_t i = 0; i < worker->chain_count; i++) {
		struct chain_function_stats *sum = &result->chain[i];
		const struct chain_function_stats *part = &worker->chain_stats[i];
		collect_add_function(sum, part);
		for (uint32_t j = 0; j < part->counters_count; j++) {
			/* The chain may own its counters' names, and is gone after the run. */
			char *name = result->counter_names[i][j];
			snprintf(name, sizeof(result->counter_names[i][j]), "%s",
				part->counters[j].name);
			sum->counters[j].name = name;
		}
	}
}

static void add_books(struct pipeline_books *sum, const struct pipeline_books *part)
{
	sum->read += part->read;
	sum->forwarded += part->forwarded;
	sum->held += part->held;
	add_counters(sum->dropped, part->dropped, sizeof(sum->dropped));
	sum->read_wire_bytes += part->read_wire_bytes;
	sum->forwarded_wire_bytes += part->forwarded_wire_bytes;
	sum->reorder_violations += part->reorder_violations;
	sum->balanced = sum->balanced && part->balanced;
}

/* Hold times were measured in capture time; results speak of replay time. */
static void add_hold(struct base_histogram *sum, const struct worker *worker, double speed)
{
	const struct base_histogram *part = reframer_hold_histogram(worker->reframer);
	if (speed == 1.0) {
		base_histogram_merge(sum, part);
		return;
	}
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS; i++) {
		uint64_t high = base_histogram_bucket_high(i);
		if (high > part->max)
			high = part->max;
		if (part->buckets[i] != 0)
			base_histogram_add_n(
				sum, (uint64_t)((double)high / speed), part->buckets[i]);
	}
}

static void collect_model(struct pipeline_result *result, const struct gpu_offload_model *model)
{
	gpu_offload_model_info(model, &result->infer_model);
	for (uint32_t class = 0; class < result->infer_model.classes; class ++) {
		const char *name = gpu_offload_model_label_name(model, class);
		result->infer_labels[class] = gpu_offload_model_label(model, class);
		if (name != NULL && class < PIPELINE_INFER_NAMES_MAX)
			snprintf(result->infer_names[class], GPU_OFFLOAD_LABEL_SIZE, "%s", name);
	}
}

void collect_worker(struct pipeline_result *result, struct collect_sample *sample,
	const struct worker *worker, const struct pipeline_config *config)
{
	add_counters(&result->parse, &worker->parse_stats, sizeof(result->parse));
	if (worker->reframer != NULL) {
		add_counters(&result->reframer, &worker->reframer_stats, sizeof(result->reframer));
		add_hold(&result->hold, worker, config->speed);
	}
	bool speaks = worker->sharing == NULL || worker->index == 0;
	if (speaks)
		collect_add_conntrack(&result->conntrack, &worker->conntrack_stats);
	if (worker->infer != NULL) {
		gpu_offload_stage_stats_add(&result->infer, &worker->infer_stats);
		collect_model(result, worker->shared->model);
		memcpy(result->infer_note, worker->infer_note, sizeof(result->infer_note));
		if (worker->infer_lost[0] != '\0')
			snprintf(result->infer_lost, sizeof(result->infer_lost), "worker %u: %s",
				worker->index, worker->infer_lost);
	}
	if (speaks)
		add_chain(result, worker);
	add_books(&result->books, &worker->books);
	result->worker_books[worker->index] = worker->books;
	result->runs_in += worker->runs_in;
	result->runs_packets += worker->runs_in_packets;
	result->flow_runs_out += worker->flow_runs_out;
	result->frames_cut += worker->source->frames_cut;
	result->flow_digest += worker->flow_digest;

	add_counters(&sample->cycles, &worker->cycles, sizeof(sample->cycles));
	if (worker->elapsed_cycles > sample->elapsed_cycles)
		sample->elapsed_cycles = worker->elapsed_cycles;
	sample->elapsed_sum_cycles += worker->elapsed_cycles;
	add_counters(&sample->waits, &worker->waits, sizeof(sample->waits));
	add_counters(&sample->locks, &worker->lock_waits, sizeof(sample->locks));
	sample->packets += worker->books.read;
	sample->wire_bytes += worker->books.read_wire_bytes;
	counters_add(&sample->counted, &worker->counted);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *byte = bytes;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Under a sharing model, when something was removed depends on how far workers were apart. */
static void forget_moments(struct conntrack_stats *conntrack)
{
	conntrack->peak_live = conntrack->peak_half_open = 0;
	conntrack->timers_fired = conntrack->timers_rearmed = conntrack->timers_moved_earlier = 0;
	conntrack->expiry_late_max_ns = 0;
}

static bool counts_over_workers(const struct chain_function_config *function)
{
	return function->kind == CHAIN_LB &&
	       (function->lb.policy == CHAIN_LB_ROUND_ROBIN ||
		       function->lb.policy == CHAIN_LB_LEAST_CONNECTIONS);
}

bool collect_is_repeatable(
	const struct pipeline_result *result, const struct pipeline_config *config)
{
	if (config->sharing == PIPELINE_SHARING_SHARD || config->workers == 1 ||
		config->sharing == PIPELINE_SHARING_HANDOVER)
		return true;
	bool ran_short = result->conntrack.insert_failures != 0 || result->conntrack.evicted != 0;
	for (uint32_t i = 0; i < result->chain_count; i++)
		ran_short |= result->chain[i].drops[BASE_DROP_NAT_NO_PORT] != 0;
	for (uint32_t i = 0; i < config->chain.functions_count; i++)
		ran_short |= counts_over_workers(&config->chain.functions[i]);
	return !ran_short;
}

uint64_t collect_fingerprint(
	const struct pipeline_result *result, const struct pipeline_config *config)
{
	struct conntrack_stats conntrack = result->conntrack;
	struct gpu_offload_stage_stats infer = result->infer;
	if (config->sharing != PIPELINE_SHARING_SHARD &&
		config->sharing != PIPELINE_SHARING_HANDOVER) {
		forget_moments(&conntrack);
		infer.stale = infer.applied = infer.given_up = 0;
	}
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	hash = mix(hash, &result->parse, sizeof(result->parse));
	hash = mix(hash, &result->reframer, sizeof(result->reframer));
	hash = mix(hash, &conntrack, offsetof(struct conntrack_stats, memory_bytes));
	hash = mix(hash, &result->books, offsetof(struct pipeline_books, balanced));
	hash = mix(hash, &result->hold, sizeof(result->hold));
	hash = mix(hash, &result->flow_digest, sizeof(result->flow_digest));
	hash = mix(hash, &result->flow_runs_out, sizeof(result->flow_runs_out));
	hash = mix(hash, &infer, offsetof(struct gpu_offload_stage_stats, batcher));
	for (uint32_t i = 0; i < result->chain_count; i++) {
		hash = mix(hash, &result->chain[i].in, sizeof(result->chain[i].in));
		hash = mix(hash, result->chain[i].drops, sizeof(result->chain[i].drops));
	}
	return hash;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Median over repeats of one stage's cycles per packet. */
static double stage_median(const struct collect_sample *samples, uint32_t repeats, size_t offset)
{
	double values[PIPELINE_REPEATS_MAX];
	for (uint32_t i = 0; i < repeats; i++) {
		const uint64_t *cycles =
			(const uint64_t *)((const uint8_t *)&samples[i].cycles + offset);
		values[i] =
			samples[i].packets == 0 ? 0 : (double)*cycles / (double)samples[i].packets;
	}
	return median(values, repeats);
}

static void collect_rates(struct pipeline_cost *cost, const struct collect_sample *samples,
	uint32_t repeats, double tsc_hz)
{
	double elapsed[PIPELINE_REPEATS_MAX], total[PIPELINE_REPEATS_MAX];
	for (uint32_t i = 0; i < repeats; i++) {
		elapsed[i] = (double)samples[i].elapsed_cycles / tsc_hz;
		total[i] = samples[i].packets == 0
				   ? 0
				   : (double)samples[i].cycles.total / (double)samples[i].packets;
		cost->repeat_total[i] = total[i];
	}
	cost->elapsed_s = median(elapsed, repeats);
	cost->total = median(total, repeats); /* sorts */
	cost->total_min = total[0];
	cost->total_max = total[repeats - 1];
	cost->spread = cost->total > 0 ? (cost->total_max - cost->total_min) / cost->total : 0;
	if (cost->elapsed_s > 0) {
		cost->packets_per_s = (double)samples[0].packets / cost->elapsed_s;
		cost->bits_per_s = 8.0 * (double)samples[0].wire_bytes / cost->elapsed_s;
	}
}

/* Of the repeat that was starved longest. */
static void collect_waits(struct pipeline_cost *cost, const struct collect_sample *samples,
	uint32_t repeats, double tsc_hz)
{
	const struct collect_sample *worst = &samples[0];
	for (uint32_t i = 1; i < repeats; i++) {
		if (samples[i].waits.starved_cycles > worst->waits.starved_cycles)
			worst = &samples[i];
	}
	cost->reader_starved_times = worst->waits.starved_times;
	cost->reader_starved_polls = worst->waits.starved_polls;
	cost->reader_starved_s = (double)worst->waits.starved_cycles / tsc_hz;
	cost->reader_held_up_s = (double)worst->waits.held_up_cycles / tsc_hz;
	cost->reader_starved_share = 0;
	if (worst->elapsed_sum_cycles > 0)
		cost->reader_starved_share =
			(double)worst->waits.starved_cycles / (double)worst->elapsed_sum_cycles;
}

/* Of the repeat whose workers waited longest for one another. */
static void collect_locks(struct pipeline_cost *cost, const struct collect_sample *samples,
	uint32_t repeats, double tsc_hz)
{
	const struct collect_sample *worst = &samples[0];
	for (uint32_t i = 1; i < repeats; i++) {
		if (samples[i].locks.waited_cycles > worst->locks.waited_cycles)
			worst = &samples[i];
	}
	cost->locks_taken = worst->locks.locks;
	cost->locks_contended = worst->locks.contended;
	cost->lock_wait_s = (double)worst->locks.waited_cycles / tsc_hz;
	cost->lock_held_back_s = (double)worst->locks.held_back_cycles / tsc_hz;
	cost->handover_groups = worst->locks.groups;
	cost->handover_turns = worst->locks.turns;
	cost->lock_wait_share = 0;
	if (worst->elapsed_sum_cycles > 0)
		cost->lock_wait_share =
			(double)worst->locks.waited_cycles / (double)worst->elapsed_sum_cycles;
}

void collect_cost(struct pipeline_cost *cost, const struct collect_sample *samples,
	uint32_t repeats, uint64_t first_cycles, double tsc_hz)
{
	for (uint32_t i = 0; i < repeats; i++)
		cost->repeat_began_s[i] = (double)(samples[i].start_cycles - first_cycles) / tsc_hz;
	cost->repeats = repeats;
	for (uint32_t i = 0; i < repeats; i++)
		counters_add(&cost->counted, &samples[i].counted);
	cost->tsc_hz = tsc_hz;
	collect_rates(cost, samples, repeats, tsc_hz);
	collect_waits(cost, samples, repeats, tsc_hz);
	collect_locks(cost, samples, repeats, tsc_hz);
	cost->source = stage_median(samples, repeats, offsetof(struct worker_cycles, source));
	cost->parse = stage_median(samples, repeats, offsetof(struct worker_cycles, parse));
	cost->reframer = stage_median(samples, repeats, offsetof(struct worker_cycles, reframer));
	cost->conntrack = stage_median(samples, repeats, offsetof(struct worker_cycles, conntrack));
	cost->infer = stage_median(samples, repeats, offsetof(struct worker_cycles, infer));
	cost->sink = stage_median(samples, repeats, offsetof(struct worker_cycles, sink));
	for (size_t i = 0; i < CHAIN_FUNCTIONS_MAX; i++)
		cost->chain[i] = stage_median(samples, repeats,
			offsetof(struct worker_cycles, chain) + i * sizeof(uint64_t));
}
