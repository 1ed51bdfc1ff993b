/* SPDX-License-Identifier: BSD-2-Clause */
/* The sections of the results document that differ between two equal runs: run and cost. */
#include "pipeline/results.h"

#include "conntrack/lab.h"
#include "pipeline/options.h"
#include "pipeline/sharing.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void results_ablations_format(unsigned int ablations, char *text, size_t text_size)
{
	size_t used = 0;
	snprintf(text, text_size, "none");
	for (unsigned int i = 0; i < OPTIONS_ABLATIONS_COUNT && used < text_size; i++) {
		if ((ablations >> i & 1) != 0)
			used += (size_t)snprintf(text + used, text_size - used, "%s%s",
				used == 0 ? "" : ",", options_ablation_name(i));
	}
}

static json_t *files(struct results_builder *builder)
{
	const struct pipeline_config *config = builder->config;
	json_t *object = json_object(), *list = json_array();
	if (config->source == PIPELINE_SOURCE_PORT) {
		results_put_text(builder, object, "port", config->source_port);
		json_decref(list);
		return object;
	}
	for (size_t i = 0; i < config->paths_count; i++) {
		json_t *path = json_string(config->paths[i]);
		results_append(builder, list, path == NULL ? json_string("?") : path);
	}
	results_put(builder, object, "files", list);
	return object;
}

static json_t *reframer_options(struct results_builder *builder)
{
	const struct reframer_config *reframer = &builder->config->reframer;
	json_t *object = json_object();
	if (!builder->config->reframer_enabled) {
		json_decref(object);
		return json_null();
	}
	results_put_count(builder, object, "delay_ns", reframer->delay_ns[REFRAMER_CLASS_NORMAL]);
	if (reframer->short_acks)
		results_put_count(
			builder, object, "short_ns", reframer->delay_ns[REFRAMER_CLASS_SHORT]);
	else
		results_put(builder, object, "short_ns", json_null());
	if (reframer->operator_bulk)
		results_put_count(
			builder, object, "bulk_ns", reframer->delay_ns[REFRAMER_CLASS_BULK]);
	else
		results_put(builder, object, "bulk_ns", json_null());
	results_put_count(builder, object, "run_packets", reframer->run_packets_max);
	results_put_count(builder, object, "held_packets", reframer->held_packets_max);
	results_put_count(builder, object, "held_flows", reframer->held_flows_max);
	results_put_count(builder, object, "seen_flows", reframer->seen_flows);
	results_put_flag(builder, object, "bypass_syn", reframer->bypass_syn);
	results_put_flag(builder, object, "bypass_rst", reframer->bypass_rst);
	results_put_flag(builder, object, "bypass_first", reframer->bypass_first);
	results_put_text(builder, object, "bypass_filter", builder->config->bypass_filter);
	results_put_text(builder, object, "bulk_filter", builder->config->bulk_filter);
	return object;
}

/* A knob that was not given is its strategy's default; null: the strategy has none. */
static void put_knob(struct results_builder *builder, json_t *object, const char *key,
	uint64_t given, uint64_t usual)
{
	if (usual == 0)
		results_put(builder, object, key, json_null());
	else
		results_put_count(builder, object, key, given != 0 ? given : usual);
}

static json_t *deletion_options(struct results_builder *builder)
{
	const struct conntrack_config *conntrack = &builder->config->conntrack;
	const struct conntrack_deletion_ops *deletion = conntrack->deletion;
	if (deletion == NULL)
		return json_null();
	const struct conntrack_deletion_knobs *given = &conntrack->knobs;
	json_t *object = json_object();
	results_put_text(builder, object, "name", deletion->name);
	put_knob(
		builder, object, "interval_ns", given->interval_ns, deletion->defaults.interval_ns);
	put_knob(builder, object, "budget", given->budget, deletion->defaults.budget);
	put_knob(builder, object, "slots", given->slots, deletion->defaults.slots);
	results_put_flag(builder, object, "close_hints", !conntrack->no_close_hints);
	return object;
}

static json_t *conntrack_options(struct results_builder *builder)
{
	static const char *const full[] = { "drop", "pass", "evict" };
	static const char *const windows[] = { "off", "liberal", "strict" };
	const struct conntrack_config *conntrack = &builder->config->conntrack;
	json_t *object = json_object(), *timeouts = json_object();
	results_put_count(builder, object, "entries", conntrack->entries_max);
	results_put_text(
		builder, object, "table", conntrack->table != NULL ? conntrack->table->name : NULL);
	results_put(builder, object, "deletion", deletion_options(builder));
	results_put_text(builder, object, "full", full[conntrack->full_policy]);
	results_put_count(builder, object, "half_open", conntrack->half_open_max);
	results_put_flag(builder, object, "pickup", conntrack->tcp_pickup);
	results_put_text(builder, object, "tcp_window", windows[conntrack->tcp_windows]);
	results_put_flag(builder, object, "drop_invalid", conntrack->drop_invalid);
	for (unsigned int i = CONNTRACK_STATE_NONE + 1; i < CONNTRACK_STATES_COUNT; i++)
		results_put_count(
			builder, timeouts, conntrack_state_name(i), conntrack->timeout_ns[i]);
	results_put_count(
		builder, timeouts, "tcp_unacknowledged", conntrack->tcp_unacknowledged_ns);
	results_put(builder, object, "timeout_ns", timeouts);
	return object;
}

static json_t *chain_options(struct results_builder *builder)
{
	const struct chain_config *chain = &builder->config->chain;
	json_t *list = json_array();
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_function_config *function = &chain->functions[i];
		json_t *object = json_object();
		results_put_text(builder, object, "name", chain_kind_name(function->kind));
		if (function->kind == CHAIN_ROUTER) {
			results_put_text(builder, object, "file", function->router.routes_file);
			results_put_count(builder, object, "routes", function->router.routes_count);
			results_put_count(builder, object, "seed", function->router.seed);
		} else if (function->kind == CHAIN_FIREWALL) {
			results_put_text(builder, object, "file", function->firewall.rules_file);
			results_put_count(builder, object, "rules", function->firewall.rules_count);
			results_put_count(builder, object, "seed", function->firewall.seed);
			results_put_flag(
				builder, object, "per_packet", function->firewall.per_packet);
		} else if (function->kind == CHAIN_NAT) {
			results_put_count(
				builder, object, "addresses", function->nat.addresses_count);
			results_put_count(builder, object, "port_first", function->nat.port_first);
			results_put_count(builder, object, "port_last", function->nat.port_last);
		} else if (function->kind == CHAIN_LB) {
			results_put_count(builder, object, "backends", function->lb.backends_count);
			results_put_count(builder, object, "table", function->lb.table_size);
			results_put_text(builder, object, "policy",
				chain_lb_policy_name(function->lb.policy));
			results_put_count(builder, object, "seed", function->lb.seed);
		}
		results_append(builder, list, object);
	}
	return list;
}

static json_t *ablations(struct results_builder *builder)
{
	json_t *list = json_array();
	for (unsigned int i = 0; i < OPTIONS_ABLATIONS_COUNT; i++) {
		if ((builder->config->ablations >> i & 1) != 0)
			results_append(builder, list, json_string(options_ablation_name(i)));
	}
	return list;
}

static json_t *machine(struct results_builder *builder)
{
	const struct results_origin *origin = builder->origin;
	const struct pipeline_result *result = builder->result;
	json_t *object = json_object();
	results_put_text(builder, object, "cpu", origin->cpu);
	results_put_count(builder, object, "cpus", origin->cpus);
	results_put_text(builder, object, "kernel", origin->kernel);
	results_put_flag(builder, object, "huge_pages", result->huge_pages);
	results_put_text(builder, object, "memory", result->memory_note);
	results_put_text(builder, object, "compiler", COMPILER);
	results_put_text(builder, object, "flags", PIPELINE_BUILD_FLAGS);
	return object;
}

/* How the captures came to the workers. */
static json_t *reader(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	json_t *object = json_object();
	if (builder->config->source == PIPELINE_SOURCE_PORT) {
		json_decref(object);
		return json_null();
	}
	results_put_text(builder, object, "mode", result->streamed ? "stream" : "memory");
	results_put_text(builder, object, "why", result->stream_note);
	results_put_count(builder, object, "chunks", result->reader_chunks);
	results_put_count(builder, object, "memory_bytes", result->reader_memory_bytes);
	return object;
}

json_t *results_run_section(struct results_builder *builder)
{
	const struct pipeline_config *config = builder->config;
	json_t *object = json_object();
	results_put_text(builder, object, "version", PIPELINE_VERSION);
	results_put_text(builder, object, "command", builder->origin->command);
	results_put_text(builder, object, "date", builder->origin->date);
	results_put(builder, object, "machine", machine(builder));
	results_put(builder, object, "source", files(builder));
	results_put(builder, object, "reader", reader(builder));
	results_put_text(builder, object, "clock",
		config->clock == PIPELINE_CLOCK_WALL ? "wall" : "virtual");
	results_put_real(builder, object, "speed", config->speed);
	results_put_count(builder, object, "workers", config->workers);
	results_put_text(builder, object, "sharing", sharing_name(config->sharing));
	results_put_count(builder, object, "burst", config->burst);
	results_put_count(builder, object, "seed", config->seed);
	results_put_count(builder, object, "repeats", config->repeats);
	results_put_count(builder, object, "loops", config->loops);
	results_put_flag(builder, object, "loop_shift", config->loop_shift);
	results_put_count(builder, object, "overlay", config->overlay);
	results_put_count(builder, object, "overlay_shift_ns", config->overlay_shift_ns);
	results_put_text(builder, object, "rx", config->rx == PIPELINE_RX_COLD ? "cold" : "hot");
	results_put_count(builder, object, "rx_ring", config->rx_ring);
	results_put_text(builder, object, "hash",
		config->parse.hash.kind == BASE_HASH_SIPHASH ? "siphash" : "crc32c");
	results_put(builder, object, "ablations", ablations(builder));
	results_put(builder, object, "reframer", reframer_options(builder));
	results_put(builder, object, "conntrack", conntrack_options(builder));
	results_put(builder, object, "infer", results_infer_options(builder));
	results_put(builder, object, "chain", chain_options(builder));
	results_put_flag(builder, object, "interrupted", builder->result->interrupted);
	results_put_text(builder, object, "message",
		builder->result->message[0] == '\0' ? NULL : builder->result->message);
	return object;
}

static json_t *cycles(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	const struct pipeline_cost *cost = &result->cost;
	json_t *object = json_object(), *chain = json_object();
	char key[64];
	results_put_real(builder, object, "total", cost->total);
	results_put_real(builder, object, "source", cost->source);
	results_put_real(builder, object, "parse", cost->parse);
	if (builder->config->reframer_enabled)
		results_put_real(builder, object, "reframer", cost->reframer);
	else
		results_put(builder, object, "reframer", json_null());
	results_put_real(builder, object, "conntrack", cost->conntrack);
	if (builder->config->infer.enabled)
		results_put_real(builder, object, "infer", cost->infer);
	for (uint32_t i = 0; i < result->chain_count; i++) {
		results_chain_key(result, i, key, sizeof(key));
		results_put_real(builder, chain, key, cost->chain[i]);
	}
	results_put(builder, object, "chain", chain);
	results_put_real(builder, object, "sink", cost->sink);
	return object;
}

static json_t *pacing(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	if (builder->config->clock != PIPELINE_CLOCK_WALL)
		return json_null();
	json_t *object = json_object();
	results_put_real(builder, object, "p50", cost->pacing_late_p50_ns);
	results_put_real(builder, object, "p99", cost->pacing_late_p99_ns);
	results_put_real(builder, object, "max", cost->pacing_late_max_ns);
	return object;
}

static json_t *repeats(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	json_t *array = json_array();
	for (uint32_t i = 0; i < cost->repeats; i++) {
		json_t *object = json_object();
		results_put_real(builder, object, "began_s", cost->repeat_began_s[i]);
		results_put_real(builder, object, "total", cost->repeat_total[i]);
		results_append(builder, array, object);
	}
	return array;
}

/* Whether the reader of a stream kept up. */
static json_t *reading(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	if (!builder->result->streamed)
		return json_null();
	json_t *object = json_object();
	results_put_flag(builder, object, "starved", cost->reader_starved_times != 0);
	results_put_count(builder, object, "starved_times", cost->reader_starved_times);
	results_put_count(builder, object, "starved_polls", cost->reader_starved_polls);
	results_put_real(builder, object, "starved_s", cost->reader_starved_s);
	results_put_real(builder, object, "starved_share", cost->reader_starved_share);
	results_put_real(builder, object, "held_up_s", cost->reader_held_up_s);
	return object;
}

/* What workers that share connections waited for one another. */
static json_t *locks(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	enum pipeline_sharing_kind sharing = builder->config->sharing;
	if (sharing == PIPELINE_SHARING_SHARD || sharing == PIPELINE_SHARING_HANDOVER)
		return json_null();
	json_t *object = json_object();
	results_put_count(builder, object, "taken", cost->locks_taken);
	results_put_count(builder, object, "contended", cost->locks_contended);
	results_put_real(builder, object, "waited_s", cost->lock_wait_s);
	results_put_real(builder, object, "waited_share", cost->lock_wait_share);
	results_put_real(builder, object, "held_back_s", cost->lock_held_back_s);
	return object;
}

/* What workers that hand groups of connections over did and waited. */
static json_t *handover(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	if (builder->config->sharing != PIPELINE_SHARING_HANDOVER)
		return json_null();
	json_t *object = json_object();
	results_put_count(builder, object, "every_ns", builder->config->handover_ns);
	results_put_count(builder, object, "groups", cost->handover_groups);
	results_put_count(builder, object, "turns", cost->handover_turns);
	results_put_real(builder, object, "waited_s", cost->lock_wait_s);
	results_put_real(builder, object, "waited_share", cost->lock_wait_share);
	return object;
}

json_t *results_cost_section(struct results_builder *builder)
{
	const struct pipeline_cost *cost = &builder->result->cost;
	json_t *object = json_object(), *missing = json_array();
	results_put_real(builder, object, "packets_per_s", cost->packets_per_s);
	results_put_real(builder, object, "bits_per_s", cost->bits_per_s);
	results_put(builder, object, "cycles_per_packet", cycles(builder));
	results_put_count(builder, object, "repeats", cost->repeats);
	if (cost->repeats > 1)
		results_put_real(builder, object, "spread", cost->spread);
	else
		results_put(builder, object, "spread", json_null());
	results_put_real(builder, object, "total_min", cost->total_min);
	results_put_real(builder, object, "total_max", cost->total_max);
	results_put(builder, object, "each", repeats(builder));
	results_put_real(builder, object, "tsc_hz", cost->tsc_hz);
	results_put_real(builder, object, "elapsed_s", cost->elapsed_s);
	results_put(builder, object, "pacing_late_ns", pacing(builder));
	results_put(builder, object, "reader", reading(builder));
	results_put(builder, object, "locks", locks(builder));
	results_put(builder, object, "handover", handover(builder));
	results_put_counters(builder, object, &cost->counted);
	results_append_uncounted(builder, missing, &cost->counted);
	if (cost->repeats <= 1)
		results_append(builder, missing, json_string("spread: one repeat only"));
	if (cost->reader_starved_times != 0)
		results_append(builder, missing,
			json_sprintf("packets_per_s, bits_per_s of the workers: the reader kept "
				     "them waiting %.1f %% of the time, which rates include",
				100 * cost->reader_starved_share));
	results_put(builder, object, "not_measured", missing);
	return object;
}
