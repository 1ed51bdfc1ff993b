/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents as text, and the document of a capture's statistics. */
#include "pipeline/results.h"

#include <stdlib.h>

char *results_text(const json_t *value)
{
	if (value == NULL)
		return NULL;
	char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(RESULTS_REAL_DIGITS));
	size_t length = text == NULL ? 0 : strlen(text);
	char *line = text == NULL ? NULL : realloc(text, length + 2);
	if (line == NULL) {
		free(text);
		return NULL;
	}
	memcpy(line + length, "\n", 2);
	return line;
}

char *pipeline_result_json(
	const struct pipeline_config *config, const struct pipeline_result *result)
{
	json_t *document = results_document(config, result, NULL);
	char *text = results_text(document);
	json_decref(document);
	return text;
}

struct trait {
	const char *name;
	uint64_t packets;
};

static json_t *traits(struct results_builder *builder, const struct traces_info *info)
{
	const struct trait rows[] = {
		{ "vlan", info->vlan },
		{ "vlan_stacked", info->vlan_stacked },
		{ "mpls", info->mpls },
		{ "pppoe", info->pppoe },
		{ "fragments", info->fragments },
		{ "atomic_fragments", info->atomic_fragments },
		{ "ip_options", info->ip_options },
		{ "extension_headers", info->extension_headers },
		{ "icmp_errors", info->icmp_errors },
		{ "tunnels", info->tunnels },
		{ "snaplen_cut", info->snaplen_cut },
		{ "time_backwards", info->time_backwards },
		{ "jumbo", info->jumbo },
		{ "tcp_syn", info->tcp_syn },
		{ "tcp_fin", info->tcp_fin },
		{ "tcp_rst", info->tcp_rst },
	};
	json_t *object = json_object();
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++)
		results_put_count(builder, object, rows[i].name, rows[i].packets);
	return object;
}

static json_t *protocols(struct results_builder *builder, const struct traces_info *info)
{
	json_t *list = json_array();
	for (unsigned int i = 0; i < TRACES_PROTOCOLS_MAX; i++) {
		if (info->protocol_packets[i] == 0)
			continue;
		json_t *object = json_object();
		results_put_count(builder, object, "protocol", i);
		results_put_count(builder, object, "packets", info->protocol_packets[i]);
		results_put_count(builder, object, "wire_bytes", info->protocol_bytes[i]);
		results_append(builder, list, object);
	}
	return list;
}

static const char *const packet_windows[TRACES_WINDOWS] = { "64_packets", "256_packets",
	"1024_packets" };
static const char *const time_windows[TRACES_WINDOWS] = { "16_us", "64_us", "128_us" };

static json_t *best_slf(struct results_builder *builder, const struct traces_info *info)
{
	json_t *object = json_object();
	for (unsigned int i = 0; i < TRACES_WINDOWS; i++)
		results_put_real(builder, object, packet_windows[i], info->slf_window_packets[i]);
	for (unsigned int i = 0; i < TRACES_WINDOWS; i++)
		results_put_real(builder, object, time_windows[i], info->slf_window_time[i]);
	return object;
}

static json_t *best_slf_exactness(struct results_builder *builder, const struct traces_info *info)
{
	json_t *object = json_object();
	for (unsigned int i = 0; i < TRACES_WINDOWS; i++)
		results_put_text(builder, object, packet_windows[i],
			traces_exactness_name(info->slf_window_packets_exactness[i]));
	for (unsigned int i = 0; i < TRACES_WINDOWS; i++)
		results_put_text(builder, object, time_windows[i],
			traces_exactness_name(info->slf_window_time_exactness[i]));
	return object;
}

/* Of the figures that may be something else than exact. */
static json_t *exactness(struct results_builder *builder, const struct traces_info *info)
{
	json_t *object = json_object();
	results_put_count(builder, object, "flows_max", info->flows_max);
	results_put_text(builder, object, "flows", traces_exactness_name(info->flows_exactness));
	results_put_text(builder, object, "flows_unidirectional",
		traces_exactness_name(info->flows_exactness));
	results_put_real(builder, object, "flows_standard_error", info->flows_standard_error);
	results_put(builder, object, "best_slf", best_slf_exactness(builder, info));
	results_put_text(
		builder, object, "peak_live", traces_exactness_name(info->peak_live_exactness));
	results_put_text(
		builder, object, "insertions", traces_exactness_name(info->insertions_exactness));
	results_put_count(
		builder, object, "insertions_min", info->insertions - info->early_evictions);
	return object;
}

static json_t *refusals(struct results_builder *builder, const struct traces_info *info)
{
	json_t *object = json_object();
	for (unsigned int i = 1; i <= BASE_DROP_PARSE_LAST; i++) {
		if (info->refusals[i] != 0)
			results_put_count(builder, object, base_drop_name(i), info->refusals[i]);
	}
	return object;
}

static json_t *damages(struct results_builder *builder, const struct traces_load_report *report)
{
	json_t *list = json_array();
	for (uint64_t i = 0; i < report->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		json_t *object = json_object();
		results_put_count(builder, object, "packet", report->damages[i].packet);
		results_put_count(builder, object, "offset", report->damages[i].offset);
		results_put_text(builder, object, "reason", report->damages[i].reason);
		results_append(builder, list, object);
	}
	return list;
}

json_t *results_trace_info(
	const char *path, const struct traces_load_report *report, const struct traces_info *info)
{
	struct results_builder builder = { .failed = false };
	json_t *object = json_object();
	results_put_text(&builder, object, "path", path);
	results_put_count(&builder, object, "packets", info->packets);
	results_put_count(&builder, object, "wire_bytes", info->wire_bytes);
	results_put_count(&builder, object, "captured_bytes", info->captured_bytes);
	results_put_count(&builder, object, "flows", info->flows);
	results_put_count(&builder, object, "flows_unidirectional", info->flows_unidirectional);
	results_put_count(&builder, object, "flow_packets", info->flow_packets);
	results_put_count(&builder, object, "non_ip_packets", info->non_ip_packets);
	results_put_count(&builder, object, "malformed_packets", info->malformed_packets);
	results_put(&builder, object, "refusals", refusals(&builder, info));
	results_put_count(&builder, object, "ip4_packets", info->ip4_packets);
	results_put_count(&builder, object, "ip6_packets", info->ip6_packets);
	results_put(&builder, object, "protocols", protocols(&builder, info));
	results_put_count(&builder, object, "first_ns", info->first_ns);
	results_put_count(&builder, object, "last_ns", info->last_ns);
	results_put_count(&builder, object, "duration_ns", info->duration_ns);
	results_put_count(&builder, object, "flow_runs", info->flow_runs);
	results_put_real(&builder, object, "slf", info->slf);
	results_put(&builder, object, "best_slf", best_slf(&builder, info));
	results_put_count(&builder, object, "peak_live", info->peak_live);
	results_put_count(&builder, object, "insertions", info->insertions);
	results_put(&builder, object, "exactness", exactness(&builder, info));
	results_put(&builder, object, "traits", traits(&builder, info));
	results_put_flag(&builder, object, "nanoseconds", report->nanoseconds);
	results_put_count(&builder, object, "skipped_oversize", report->skipped_oversize);
	results_put_count(&builder, object, "skipped_link", report->skipped_link);
	results_put_count(&builder, object, "damages_count", report->damages_count);
	results_put(&builder, object, "damages", damages(&builder, report));
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}
