/* SPDX-License-Identifier: BSD-2-Clause */
/* The deterministic sections of the results document: trace, reframer, conntrack, chain, books. */
#include "pipeline/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A point of the hold-time curve wants at least this much of all packets. */
#define CDF_STEP 0.002

void results_put(struct results_builder *builder, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) != 0)
		builder->failed = true;
}

void results_append(struct results_builder *builder, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		builder->failed = true;
}

void results_put_count(
	struct results_builder *builder, json_t *object, const char *key, uint64_t value)
{
	results_put(builder, object, key,
		json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

void results_put_real(
	struct results_builder *builder, json_t *object, const char *key, double value)
{
	results_put(builder, object, key, isfinite(value) ? json_real(value) : json_null());
}

void results_put_text(
	struct results_builder *builder, json_t *object, const char *key, const char *text)
{
	json_t *value = text == NULL ? json_null() : json_string(text);
	if (value == NULL) { /* not UTF-8, as file names may be */
		size_t length = strlen(text);
		char *plain = malloc(length + 1);
		for (size_t i = 0; plain != NULL && i <= length; i++)
			plain[i] = (text[i] & 0x80) != 0 ? '?' : text[i];
		value = plain == NULL ? NULL : json_string(plain);
		free(plain);
	}
	results_put(builder, object, key, value);
}

void results_put_flag(struct results_builder *builder, json_t *object, const char *key, bool value)
{
	results_put(builder, object, key, json_boolean(value));
}

void results_chain_key(
	const struct pipeline_result *result, uint32_t index, char *key, size_t key_size)
{
	const char *name = result->chain[index].name;
	unsigned int nth = 1;
	for (uint32_t i = 0; i < index; i++)
		nth += strcmp(result->chain[i].name, name) == 0;
	if (nth == 1)
		snprintf(key, key_size, "%s", name);
	else
		snprintf(key, key_size, "%s#%u", name, nth);
}

static json_t *drops(struct results_builder *builder, const uint64_t *counts)
{
	json_t *object = json_object();
	for (unsigned int i = 1; i < BASE_DROP_REASONS_COUNT; i++) {
		if (counts[i] != 0)
			results_put_count(builder, object, base_drop_name(i), counts[i]);
	}
	return object;
}

static json_t *damages(struct results_builder *builder)
{
	const struct traces_load_report *load = &builder->result->load;
	json_t *list = json_array();
	for (uint64_t i = 0; i < load->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		const struct traces_damage *damage = &load->damages[i];
		json_t *object = json_object();
		results_put_text(builder, object, "file",
			damage->file < builder->config->paths_count
				? builder->config->paths[damage->file]
				: NULL);
		results_put_count(builder, object, "packet", damage->packet);
		results_put_count(builder, object, "offset", damage->offset);
		results_put_text(builder, object, "reason", damage->reason);
		results_append(builder, list, object);
	}
	return list;
}

static json_t *parse_section(struct results_builder *builder)
{
	const struct base_parse_stats *parse = &builder->result->parse;
	json_t *object = json_object();
	results_put_count(builder, object, "packets", parse->packets);
	results_put_count(builder, object, "flow_packets", parse->flow_packets);
	results_put_count(builder, object, "non_ip_packets", parse->non_ip_packets);
	results_put_count(builder, object, "refused_packets", parse->refused_packets);
	results_put_count(builder, object, "fragments", parse->fragments);
	results_put_count(builder, object, "fragments_orphaned", parse->fragments_orphaned);
	results_put_count(builder, object, "fragments_forgotten", parse->fragments_forgotten);
	results_put_count(builder, object, "checksums_bad", parse->checksums_bad);
	results_put_count(builder, object, "snaplen_cut", parse->snaplen_cut);
	return object;
}

static json_t *trace_section(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	const struct traces_load_report *load = &result->load;
	json_t *object = json_object();
	results_put_count(builder, object, "packets", result->trace_packets);
	results_put_count(builder, object, "wire_bytes", result->trace_wire_bytes);
	results_put_count(builder, object, "captured_bytes", result->trace_captured_bytes);
	results_put_count(builder, object, "flows", result->flows);
	results_put_text(
		builder, object, "flows_exactness", traces_exactness_name(result->flows_exactness));
	results_put_count(builder, object, "duration_ns", result->trace_duration_ns);
	results_put_real(
		builder, object, "slf", results_ratio(result->runs_packets, result->runs_in));
	results_put_count(builder, object, "flow_runs", result->runs_in);
	results_put_flag(builder, object, "nanoseconds", load->nanoseconds);
	results_put_count(builder, object, "time_clamped", result->time_clamped);
	results_put_count(builder, object, "time_missing", load->time_missing);
	results_put_count(builder, object, "gaps_cut", result->gaps_cut);
	results_put_count(builder, object, "gaps_cut_ns", result->gaps_cut_ns);
	results_put_count(builder, object, "frames_cut", result->frames_cut);
	results_put_count(builder, object, "skipped_oversize", load->skipped_oversize);
	results_put_count(builder, object, "skipped_link", load->skipped_link);
	results_put_text(builder, object, "skipped_link_name",
		load->skipped_link_name[0] == '\0' ? NULL : load->skipped_link_name);
	results_put_count(builder, object, "damages_count", load->damages_count);
	results_put(builder, object, "damages", damages(builder));
	if (result->streamed)
		results_put(builder, object, "memory_bytes", json_null());
	else
		results_put_count(builder, object, "memory_bytes", result->trace_memory_bytes);
	results_put(builder, object, "parse", parse_section(builder));
	return object;
}

/* [[ns, fraction], ...]: the share of packets held at most so long. */
static json_t *hold_cdf(struct results_builder *builder)
{
	const struct base_histogram *hold = &builder->result->hold;
	json_t *list = json_array();
	uint64_t sum = 0;
	double shown = -1;
	for (unsigned int i = 0; i < BASE_HISTOGRAM_BUCKETS && hold->count != 0; i++) {
		if (hold->buckets[i] == 0)
			continue;
		sum += hold->buckets[i];
		double fraction = results_ratio(sum, hold->count);
		if (fraction - shown < CDF_STEP && sum != hold->count)
			continue;
		uint64_t high = base_histogram_bucket_high(i);
		json_t *point = json_array();
		results_append(builder, point,
			json_integer((json_int_t)(high > hold->max ? hold->max : high)));
		results_append(builder, point, json_real(fraction));
		results_append(builder, list, point);
		shown = fraction;
	}
	return list;
}

static void put_hold(struct results_builder *builder, json_t *object)
{
	const struct base_histogram *hold = &builder->result->hold;
	static const char *const keys[] = { "hold_p50_ns", "hold_p90_ns", "hold_p99_ns",
		"hold_p999_ns" };
	static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };
	bool measured = builder->config->reframer_enabled && hold->count != 0;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(keys); i++) {
		if (measured)
			results_put_count(builder, object, keys[i],
				base_histogram_quantile(hold, quantiles[i]));
		else
			results_put(builder, object, keys[i], json_null());
	}
	if (measured)
		results_put_count(builder, object, "hold_max_ns", hold->max);
	else
		results_put(builder, object, "hold_max_ns", json_null());
	results_put(builder, object, "hold_cdf", hold_cdf(builder));
}

static json_t *releases(struct results_builder *builder, const uint64_t *counts)
{
	json_t *object = json_object();
	for (unsigned int i = 0; i < REFRAMER_RELEASES_COUNT; i++)
		results_put_count(builder, object, reframer_release_name(i), counts[i]);
	return object;
}

static json_t *reframer_section(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	const struct reframer_stats *stats = &result->reframer;
	bool enabled = builder->config->reframer_enabled;
	double natural = results_ratio(result->runs_packets, result->runs_in);
	json_t *object = json_object();
	results_put_flag(builder, object, "enabled", enabled);
	results_put_real(builder, object, "slf_in",
		enabled ? results_ratio(stats->packets_in, stats->runs_in) : natural);
	results_put_real(builder, object, "slf_out",
		enabled ? results_ratio(stats->packets_out, stats->runs_out) : natural);
	results_put_real(builder, object, "slf_sink",
		results_ratio(result->books.forwarded, result->flow_runs_out));
	put_hold(builder, object);
	results_put_count(builder, object, "packets_in", stats->packets_in);
	results_put_count(builder, object, "packets_out", stats->packets_out);
	results_put_count(builder, object, "runs_in", stats->runs_in);
	results_put_count(builder, object, "runs_out", stats->runs_out);
	results_put_count(builder, object, "peak_held_packets", stats->peak_held_packets);
	results_put_count(builder, object, "peak_held_flows", stats->peak_held_flows);
	results_put(builder, object, "releases", releases(builder, stats->releases));
	results_put(builder, object, "release_packets", releases(builder, stats->release_packets));
	results_put_count(builder, object, "time_backwards", stats->time_backwards);
	results_put_count(builder, object, "reorder_violations", result->books.reorder_violations);
	return object;
}

static json_t *conntrack_states(struct results_builder *builder)
{
	json_t *object = json_object();
	for (unsigned int i = CONNTRACK_STATE_NONE + 1; i < CONNTRACK_STATES_COUNT; i++)
		results_put_count(builder, object, conntrack_state_name(i),
			builder->result->conntrack.state_live[i]);
	return object;
}

static json_t *conntrack_section(struct results_builder *builder)
{
	const struct conntrack_stats *stats = &builder->result->conntrack;
	char digest[24];
	json_t *object = json_object();
	results_put_count(builder, object, "inserted", stats->inserted);
	results_put_count(builder, object, "live", stats->live);
	results_put_count(builder, object, "expired", stats->expired);
	results_put_count(builder, object, "closed", stats->closed);
	results_put_count(builder, object, "evicted", stats->evicted);
	results_put_count(builder, object, "purged", stats->purged);
	results_put_count(builder, object, "peak_live", stats->peak_live);
	results_put_count(builder, object, "insert_failures", stats->insert_failures);
	results_put_count(builder, object, "lookups", stats->lookups);
	results_put_count(builder, object, "lookups_saved", stats->lookups_saved);
	results_put_count(builder, object, "hits", stats->hits);
	results_put_count(builder, object, "misses", stats->misses);
	results_put_count(builder, object, "invalid_packets", stats->invalid_packets);
	results_put_count(builder, object, "related_packets", stats->related_packets);
	results_put_count(builder, object, "resyncs", stats->resyncs);
	results_put_count(builder, object, "out_of_window_packets", stats->out_of_window_packets);
	results_put_count(builder, object, "untracked_packets", stats->untracked_packets);
	results_put_count(builder, object, "peak_half_open", stats->peak_half_open);
	results_put(builder, object, "state_live", conntrack_states(builder));
	results_put_count(builder, object, "timers_fired", stats->timers_fired);
	results_put_count(builder, object, "timers_rearmed", stats->timers_rearmed);
	results_put_count(builder, object, "timers_moved_earlier", stats->timers_moved_earlier);
	results_put_count(builder, object, "expiry_late_max_ns", stats->expiry_late_max_ns);
	results_put_count(builder, object, "memory_bytes", stats->memory_bytes);
	results_put_real(builder, object, "bytes_per_flow", stats->bytes_per_entry);
	snprintf(digest, sizeof(digest), "%016" PRIx64, builder->result->flow_digest);
	results_put_text(builder, object, "flow_digest", digest);
	return object;
}

static json_t *chain_section(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	json_t *list = json_array();
	for (uint32_t i = 0; i < result->chain_count; i++) {
		const struct chain_function_stats *stats = &result->chain[i];
		json_t *object = json_object(), *counters = json_object();
		results_put_text(builder, object, "name", stats->name);
		results_put_count(builder, object, "in", stats->in);
		results_put_count(builder, object, "out", stats->out);
		results_put(builder, object, "drops", drops(builder, stats->drops));
		results_put(builder, object, "early_drops", drops(builder, stats->early_drops));
		for (uint32_t k = 0; k < stats->counters_count; k++)
			results_put_count(builder, counters, stats->counters[k].name,
				stats->counters[k].value);
		results_put(builder, object, "counters", counters);
		results_append(builder, list, object);
	}
	return list;
}

static json_t *books(struct results_builder *builder, const struct pipeline_books *account)
{
	json_t *object = json_object();
	results_put_count(builder, object, "read", account->read);
	results_put_count(builder, object, "forwarded", account->forwarded);
	results_put(builder, object, "dropped", drops(builder, account->dropped));
	results_put_count(builder, object, "held", account->held);
	results_put_count(builder, object, "read_wire_bytes", account->read_wire_bytes);
	results_put_count(builder, object, "forwarded_wire_bytes", account->forwarded_wire_bytes);
	results_put_count(builder, object, "reorder_violations", account->reorder_violations);
	results_put_flag(builder, object, "balanced", account->balanced);
	return object;
}

static json_t *books_section(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	json_t *object = books(builder, &result->books);
	json_t *workers = json_array();
	for (uint32_t i = 0; i < builder->config->workers && i < PIPELINE_WORKERS_MAX; i++)
		results_append(builder, workers, books(builder, &result->worker_books[i]));
	results_put(builder, object, "workers", workers);
	return object;
}

json_t *results_document(const struct pipeline_config *config, const struct pipeline_result *result,
	const struct results_origin *origin)
{
	static const struct results_origin nowhere = { .cpus = 0 };
	struct results_builder builder = {
		.config = config,
		.result = result,
		.origin = origin == NULL ? &nowhere : origin,
	};
	json_t *document = json_object();
	results_put_text(&builder, document, "schema", RESULTS_SCHEMA);
	results_put(&builder, document, "run", results_run_section(&builder));
	results_put(&builder, document, "trace", trace_section(&builder));
	results_put(&builder, document, "reframer", reframer_section(&builder));
	results_put(&builder, document, "conntrack", conntrack_section(&builder));
	results_put(&builder, document, "chain", chain_section(&builder));
	results_put(&builder, document, "gpu_offload", results_infer_section(&builder));
	results_put(&builder, document, "cost", results_cost_section(&builder));
	results_put(&builder, document, "books", books_section(&builder));
	if (!builder.failed)
		return document;
	json_decref(document);
	return NULL;
}
