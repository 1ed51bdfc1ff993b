/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline/test.h"

#include "pipeline/results.h"

#include <errno.h>
#include <math.h>

/* A result in which every printed number differs. */
struct sample {
	struct pipeline_config config;
	struct pipeline_result *result;
};

static const char *const paths[] = { "a.pcap", "b\xff.pcap" };

static void fill_stages(struct pipeline_result *result)
{
	result->reframer.packets_in = result->reframer.packets_out = 1000;
	result->reframer.runs_in = 800;
	result->reframer.runs_out = 250;
	result->reframer.releases[REFRAMER_RELEASE_DELAY] = 200;
	result->reframer.peak_held_packets = 77;
	base_histogram_reset(&result->hold);
	for (uint64_t i = 0; i < 1000; i++)
		base_histogram_add(&result->hold, i * 64);
	result->conntrack.inserted = 321;
	result->conntrack.closed = 300;
	result->conntrack.expired = 20;
	result->conntrack.live = 1;
	result->conntrack.lookups = 400;
	result->conntrack.lookups_saved = 600;
	result->conntrack.bytes_per_entry = 144.5;
	result->chain_count = 2;
	result->chain[0].name = result->chain[1].name = "stats";
	result->chain[0].in = result->chain[0].out = 1000;
	result->chain[1].in = 1000;
	result->chain[1].out = 990;
	result->chain[1].drops[BASE_DROP_FIREWALL_DENY] = 10;
	result->chain[1].counters_count = 1;
	result->chain[1].counters[0] = (struct chain_counter){ "flows", 12 };
	result->flow_digest = UINT64_C(0xfedcba9876543210);
	result->flow_runs_out = 247;
}

static struct sample *make_sample(void)
{
	struct sample *sample = calloc(1, sizeof(*sample));
	assert_non_null(sample);
	sample->result = calloc(1, sizeof(*sample->result));
	struct pipeline_result *result = sample->result;
	assert_non_null(result);
	pipeline_config_defaults(&sample->config);
	sample->config.paths = paths;
	sample->config.paths_count = 2;
	sample->config.reframer_enabled = true;
	result->trace_packets = 1000;
	result->trace_wire_bytes = 128000;
	result->trace_captured_bytes = 64000;
	result->trace_duration_ns = UINT64_C(123456789012345);
	result->flows = 321;
	result->runs_in = 800;
	result->runs_packets = 1000;
	result->load.damages_count = 1;
	result->load.damages[0] = (struct traces_damage){
		.file = 1, .packet = 5, .offset = 999, .reason = "cut record"
	};
	fill_stages(result);
	result->books.read = 1000;
	result->books.forwarded = 990;
	result->books.dropped[BASE_DROP_FIREWALL_DENY] = 10;
	result->books.balanced = true;
	result->worker_books[0] = result->books;
	result->cost.repeats = 1;
	result->cost.total = 123.456;
	result->cost.packets_per_s = 1e7;
	snprintf(result->memory_note, sizeof(result->memory_note), "no huge pages: slower");
	return sample;
}

static void free_sample(struct sample *sample)
{
	free(sample->result);
	free(sample);
}

/* "reframer.slf_in" -> its value; fails when a part is missing. */
static const json_t *at(const json_t *document, const char *path)
{
	char text[128];
	const json_t *value = document;
	snprintf(text, sizeof(text), "%s", path);
	for (char *rest = text, *key; (key = strsep(&rest, ".")) != NULL;) {
		const json_t *next = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
							  : json_object_get(value, key);
		if (next == NULL)
			fail_msg("%s: no %s", path, key);
		value = next;
	}
	return value;
}

static void document_has_the_promised_keys(void **state)
{
	static const char *const keys[] = { "schema", "run.version", "run.machine.compiler",
		"run.machine.huge_pages", "run.seed", "run.ablations", "trace.packets",
		"trace.wire_bytes", "trace.captured_bytes", "trace.flows", "trace.duration_ns",
		"trace.slf", "trace.damages", "reframer.slf_in", "reframer.slf_out",
		"reframer.hold_p50_ns", "reframer.hold_p99_ns", "reframer.hold_max_ns",
		"reframer.hold_cdf", "reframer.peak_held_packets", "reframer.releases.delay",
		"reframer.reorder_violations", "conntrack.inserted", "conntrack.live",
		"conntrack.expired", "conntrack.closed", "conntrack.evicted",
		"conntrack.insert_failures", "conntrack.lookups", "conntrack.lookups_saved",
		"conntrack.bytes_per_flow", "chain.0.name", "chain.0.in", "chain.0.out",
		"chain.1.drops.firewall_deny", "chain.1.counters.flows", "gpu_offload",
		"cost.packets_per_s", "cost.cycles_per_packet.total",
		"cost.cycles_per_packet.source", "cost.cycles_per_packet.parse",
		"cost.cycles_per_packet.reframer", "cost.cycles_per_packet.conntrack",
		"cost.cycles_per_packet.chain.stats", "cost.cycles_per_packet.chain.stats#2",
		"cost.cycles_per_packet.sink", "cost.repeats", "cost.spread", "cost.not_measured.0",
		"books.read", "books.forwarded", "books.dropped.firewall_deny", "books.held",
		"books.balanced", "books.workers.0.read" };
	(void)state;
	struct sample *sample = make_sample();
	json_t *document = results_document(&sample->config, sample->result, NULL);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(keys); i++)
		at(document, keys[i]);
	json_decref(document);
	free_sample(sample);
}

static void values_keep_all_their_digits(void **state)
{
	(void)state;
	struct sample *sample = make_sample();
	json_t *document = results_document(&sample->config, sample->result, NULL);
	assert_int_equal(
		json_integer_value(at(document, "trace.duration_ns")), UINT64_C(123456789012345));
	assert_string_equal(
		json_string_value(at(document, "conntrack.flow_digest")), "fedcba9876543210");
	assert_true(json_real_value(at(document, "trace.slf")) == 1.25);
	assert_true(json_real_value(at(document, "reframer.slf_out")) == 4.0);
	assert_string_equal(json_string_value(at(document, "trace.damages.0.file")), "b?.pcap");
	json_decref(document);
	free_sample(sample);
}

static void what_was_not_measured_is_null(void **state)
{
	static const char *const nulls[] = { "gpu_offload", "cost.spread", "cost.hardware_counters",
		"cost.pacing_late_ns", "cost.cycles_per_packet.reframer", "reframer.hold_p50_ns",
		"reframer.hold_max_ns", "run.command", "run.reframer" };
	(void)state;
	struct sample *sample = make_sample();
	sample->config.reframer_enabled = false;
	base_histogram_reset(&sample->result->hold);
	sample->result->cost.sink = NAN;
	json_t *document = results_document(&sample->config, sample->result, NULL);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(nulls); i++)
		assert_true(json_is_null(at(document, nulls[i])));
	assert_true(json_is_null(at(document, "cost.cycles_per_packet.sink")));
	assert_int_equal(json_array_size(at(document, "reframer.hold_cdf")), 0);
	json_decref(document);
	free_sample(sample);
}

static void hardware_counters_are_per_packet_or_null(void **state)
{
	(void)state;
	struct sample *sample = make_sample();
	struct counters_sum *sum = &sample->result->cost.counted;
	*sum = (struct counters_sum){ .operations = 200, .enabled_ns = 10, .running_ns = 10 };
	sum->values[COUNTERS_INSTRUCTIONS] = 50000;
	sum->errors[COUNTERS_LLC_MISSES] = -ENOENT;
	json_t *document = results_document(&sample->config, sample->result, NULL);
	assert_true(json_real_value(at(document, "cost.hardware_counters.instructions")) == 250.0);
	assert_true(json_is_null(at(document, "cost.hardware_counters.llc_misses")));
	assert_int_equal(
		json_integer_value(at(document, "cost.hardware_counters.operations")), 200);
	assert_string_equal(json_string_value(at(document, "cost.not_measured.0")),
		"hardware_counters: llc_misses: no such hardware counters on this machine "
		"(ENOENT)");
	json_decref(document);
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	assert_non_null(stream);
	results_counters_print_line(stream, sum);
	results_counters_head(stream, sum, "packet");
	results_counters_row(stream, "row", sum);
	fclose(stream);
	assert_string_equal(text,
		"counters   per packet: instructions 250.00, cycles 0.00, l1d_misses 0.00, "
		"dtlb_misses 0.00, branch_misses 0.00\n"
		"counters   not measured: llc_misses: no such hardware counters on this machine "
		"(ENOENT)\n"
		"\ncounted by the processor, per packet\n"
		"                                  instructions        cycles    llc_misses    "
		"l1d_misses   dtlb_misses branch_misses\n"
		"row                                    250.000         0.000             -        "
		" "
		"0.000         0.000         0.000\n");
	free(text);
	free_sample(sample);
}

static void hold_curve_rises_to_one(void **state)
{
	double last = 0;
	json_int_t last_ns = -1;
	(void)state;
	struct sample *sample = make_sample();
	json_t *document = results_document(&sample->config, sample->result, NULL);
	const json_t *curve = at(document, "reframer.hold_cdf");
	for (size_t i = 0; i < json_array_size(curve); i++) {
		const json_t *point = json_array_get(curve, i);
		json_int_t ns = json_integer_value(json_array_get(point, 0));
		double fraction = json_real_value(json_array_get(point, 1));
		assert_true(ns > last_ns && fraction > last);
		last_ns = ns;
		last = fraction;
	}
	assert_true(last == 1.0);
	assert_int_equal(last_ns, json_integer_value(at(document, "reframer.hold_max_ns")));
	json_decref(document);
	free_sample(sample);
}

static void equal_results_are_equal_bytes(void **state)
{
	(void)state;
	struct sample *sample = make_sample(), *other = make_sample();
	char *first = pipeline_result_json(&sample->config, sample->result);
	char *second = pipeline_result_json(&other->config, other->result);
	assert_non_null(first);
	assert_string_equal(first, second);
	assert_int_equal(first[strlen(first) - 1], '\n');
	free(first);
	free(second);
	free_sample(sample);
	free_sample(other);
}

/* The table as text; the caller frees. */
static char *printed(const struct sample *sample)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	assert_non_null(stream);
	pipeline_result_print(&sample->config, sample->result, stream);
	fclose(stream);
	return text;
}

static void table_says_what_matters(void **state)
{
	static const char *const parts[] = { "1,000 packets", "321 flows", "SLF 1.25",
		"SLF 1.25 -> 4.00", "firewall_deny 10", "123.5 cycles per packet",
		"no huge pages: slower", "balanced, no flow reordered", "packet 5 at byte 999",
		"stats#2" };
	(void)state;
	struct sample *sample = make_sample();
	char *text = printed(sample);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(parts); i++) {
		if (strstr(text, parts[i]) == NULL)
			fail_msg("no '%s' in:\n%s", parts[i], text);
	}
	free(text);
	sample->result->books.balanced = false;
	sample->result->books.reorder_violations = 3;
	text = printed(sample);
	assert_non_null(strstr(text, "NOT BALANCED, FLOWS REORDERED"));
	free(text);
	free_sample(sample);
}

static void comparison_has_a_row_for_each_run(void **state)
{
	static const char *const names[] = { "baseline", "reframer" };
	char *text = NULL;
	size_t size = 0;
	(void)state;
	struct sample *sample = make_sample();
	struct pipeline_config configs[2] = { sample->config, sample->config };
	struct pipeline_result *results = calloc(2, sizeof(*results));
	assert_non_null(results);
	results[0] = results[1] = *sample->result;
	configs[0].reframer_enabled = false;
	results[1].cost.packets_per_s = 2.5e7;
	FILE *stream = open_memstream(&text, &size);
	pipeline_comparison_print(names, configs, results, 2, stream);
	fclose(stream);
	assert_non_null(strstr(text, "\nbaseline "));
	assert_non_null(strstr(text, "\nreframer "));
	assert_non_null(strstr(text, "2.50"));
	free(text);
	free(results);
	free_sample(sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(document_has_the_promised_keys),
		cmocka_unit_test(values_keep_all_their_digits),
		cmocka_unit_test(what_was_not_measured_is_null),
		cmocka_unit_test(hardware_counters_are_per_packet_or_null),
		cmocka_unit_test(hold_curve_rises_to_one),
		cmocka_unit_test(equal_results_are_equal_bytes),
		cmocka_unit_test(table_says_what_matters),
		cmocka_unit_test(comparison_has_a_row_for_each_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
