/* SPDX-License-Identifier: BSD-2-Clause */
/* Regrouping against a list of held packets that is searched anew for every packet. */
#include "tests/unit/traces/test.h"

#include "tests/support/streams.h"

#include <stdlib.h>

enum { SEEDS = 300 };

static const size_t batches[] = { 1, 3, 64, 0 };

struct held {
	size_t index;
	uint64_t arrival_ns;
	bool gone;
};

struct model {
	const struct traces_trace *trace;
	const struct base_flow_key *keys;
	const struct traces_regroup_options *options;
	struct held *held; /* in order of arrival */
	size_t held_count;
	struct traces_trace *out;
	uint64_t groups, groups_early;
};

static void model_send(struct model *model, size_t index, uint64_t time_ns)
{
	size_t count;
	struct traces_record record = traces_trace_records(model->trace, &count)[index];
	const uint8_t *frame = traces_trace_bytes(model->trace) + record.offset;
	if (!model->options->keep_times)
		record.time_ns = time_ns;
	assert_int_equal(traces_trace_append(model->out, &record, frame), 0);
}

static void model_release(struct model *model, size_t index, uint64_t time_ns)
{
	model->groups++;
	for (size_t i = 0; i < model->held_count; i++) {
		struct held *held = &model->held[i];
		if (held->gone ||
			!base_flow_key_equal(&model->keys[held->index], &model->keys[index]))
			continue;
		held->gone = true;
		model_send(model, held->index, time_ns);
	}
}

static struct held *model_oldest(const struct model *model)
{
	for (size_t i = 0; i < model->held_count; i++) {
		if (!model->held[i].gone)
			return &model->held[i];
	}
	return NULL;
}

static size_t model_held(const struct model *model, const struct base_flow_key *key)
{
	size_t count = 0;
	for (size_t i = 0; i < model->held_count; i++)
		count += !model->held[i].gone &&
			 (key == NULL ||
				 base_flow_key_equal(&model->keys[model->held[i].index], key));
	return count;
}

static void model_run(struct model *model)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(model->trace, &count);
	uint64_t now_ns = 0, delay_ns = model->options->delay_ns;
	for (size_t i = 0; i < count; i++) {
		struct held *oldest;
		now_ns = records[i].time_ns > now_ns ? records[i].time_ns : now_ns;
		while ((oldest = model_oldest(model)) != NULL &&
			oldest->arrival_ns + delay_ns <= now_ns)
			model_release(model, oldest->index, oldest->arrival_ns + delay_ns);
		if (model->keys[i].family == 0) {
			model_send(model, i, now_ns);
			continue;
		}
		/* Who completes a run needs no place. */
		bool completes =
			model_held(model, &model->keys[i]) + 1 == model->options->run_packets;
		if (!completes && model_held(model, NULL) == model->options->held_max) {
			model->groups_early++;
			model_release(model, model_oldest(model)->index, now_ns);
		}
		model->held[model->held_count++] = (struct held){ i, now_ns, false };
		if (model_held(model, &model->keys[i]) == model->options->run_packets)
			model_release(model, i, now_ns);
	}
	for (struct held *oldest; (oldest = model_oldest(model)) != NULL;)
		model_release(model, oldest->index, now_ns);
}

static void regrouping_agrees_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct streams_shape shape = {
			.packets = base_rng_below(&rng, 300),
			.flows = (uint32_t)base_rng_below(&rng, 30) + 1,
			.gap_ns_max = 1000,
			.first_ns = UINT64_C(1700000000000000000),
			.backwards = base_rng_below(&rng, 2),
			.mixed_links = base_rng_below(&rng, 2),
			.strays = base_rng_below(&rng, 2),
		};
		struct traces_trace *trace = streams_random_trace(&shape, &rng);
		struct traces_regroup_options options = {
			.delay_ns = base_rng_below(&rng, 30000),
			.run_packets =
				base_rng_below(&rng, 2) ? (uint32_t)base_rng_below(&rng, 5) + 1 : 0,
			.held_max = base_rng_below(&rng, 2) ? (uint32_t)base_rng_below(&rng, 20) + 1
							    : 1000,
			.keep_times = base_rng_below(&rng, 2),
		};
		struct base_flow_key *keys = streams_keys(trace);
		struct model model = { .trace = trace, .keys = keys, .options = &options };
		model.held = calloc(shape.packets + 1, sizeof(*model.held));
		assert_int_equal(traces_trace_create(&model.out), 0);
		model_run(&model);
		for (size_t i = 0; i < 4; i++) {
			struct traces_regroup_report report;
			struct traces_packets *packets;
			assert_int_equal(traces_packets_regroup(&packets,
						 streams_of(trace, batches[i]), &options, &report),
				0);
			struct traces_trace *got = streams_collect(packets, NULL);
			streams_must_equal(model.out, got, "regroup", seed);
			assert_int_equal(report.groups, model.groups);
			assert_int_equal(report.groups_early, model.groups_early);
			assert_true(report.peak_held <= options.held_max);
			traces_trace_destroy(got);
		}
		traces_trace_destroy(model.out);
		free(model.held);
		free(keys);
		traces_trace_destroy(trace);
	}
}

static bool same_frame(
	const struct traces_trace *a, size_t i, const struct traces_trace *b, size_t j)
{
	size_t count;
	const struct traces_record *x = traces_trace_records(a, &count) + i;
	const struct traces_record *y = traces_trace_records(b, &count) + j;
	return x->cap_len == y->cap_len &&
	       memcmp(traces_trace_bytes(a) + x->offset, traces_trace_bytes(b) + y->offset,
		       x->cap_len) == 0;
}

/* Flow by flow, both hold the same packets in the same order, and in `got` each leaves after it
 * came, by at most the delay. */
static void must_keep_flows(
	const struct traces_trace *trace, const struct traces_trace *got, uint64_t delay_ns)
{
	size_t count;
	const struct traces_record *came = traces_trace_records(trace, &count);
	const struct traces_record *left = traces_trace_records(got, &count);
	struct base_flow_key *keys = streams_keys(trace), *got_keys = streams_keys(got);
	bool *seen = calloc(count, sizeof(*seen));
	assert_non_null(seen);
	for (size_t first = 0; first < count; first++) {
		size_t at = 0;
		for (size_t i = first; i < count && !seen[first]; i++) {
			if (!base_flow_key_equal(&keys[i], &keys[first]))
				continue;
			while (at < count && !base_flow_key_equal(&got_keys[at], &keys[first]))
				at++;
			assert_true(at < count && same_frame(trace, i, got, at));
			assert_in_range(
				left[at].time_ns, came[i].time_ns, came[i].time_ns + delay_ns);
			at++;
			seen[i] = i != first;
		}
	}
	free(seen);
	free(keys);
	free(got_keys);
}

/* More than a batch, and more than one move of the held bytes. */
static void what_regrouping_promises(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 5);
	struct streams_shape shape = {
		.packets = 60000, .flows = 50, .gap_ns_max = 2000, .first_ns = 1000
	};
	struct traces_trace *trace = streams_random_trace(&shape, &rng);
	struct traces_regroup_options options = { .delay_ns = 64000, .held_max = 65536 };
	struct traces_regroup_report report;
	struct traces_packets *packets;
	assert_int_equal(
		traces_packets_regroup(&packets, streams_of(trace, 777), &options, &report), 0);
	struct traces_trace *got = streams_collect(packets, NULL);
	struct traces_info before, after;
	assert_int_equal(traces_info_compute(&before, trace, NULL), 0);
	assert_int_equal(traces_info_compute(&after, got, NULL), 0);
	assert_int_equal(after.packets, before.packets);
	assert_int_equal(after.captured_bytes, before.captured_bytes);
	assert_int_equal(after.flows, before.flows);
	assert_int_equal(after.time_backwards, 0);
	assert_int_equal(after.last_ns, before.last_ns);
	assert_true(after.slf > 1.5 * before.slf);
	assert_int_equal(report.groups_early, 0);
	assert_in_range(report.peak_held, 50, 300);
	must_keep_flows(trace, got, options.delay_ns);
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regrouping_agrees_with_the_model),
		cmocka_unit_test(what_regrouping_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
