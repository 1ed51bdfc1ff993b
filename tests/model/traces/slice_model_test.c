/* SPDX-License-Identifier: BSD-2-Clause */
/* Slices and filters of random traffic against going over the packets one condition at a time. */
#include "tests/unit/traces/test.h"

#include "tests/support/streams.h"

#include <stdlib.h>

enum { SEEDS = 600 };

static const size_t batches[] = { 1, 3, 64, 0 };

static void append(struct traces_trace *to, const struct traces_trace *from, size_t index)
{
	size_t count;
	const struct traces_record *record = traces_trace_records(from, &count) + index;
	assert_int_equal(
		traces_trace_append(to, record, traces_trace_bytes(from) + record->offset), 0);
}

static struct traces_trace *empty_trace(void)
{
	struct traces_trace *trace;
	assert_int_equal(traces_trace_create(&trace), 0);
	return trace;
}

static uint64_t bound(struct traces_slice_time time, uint64_t first_ns, uint64_t otherwise)
{
	if (!time.given)
		return otherwise;
	return time.absolute ? time.time_ns : first_ns + time.time_ns;
}

static struct traces_trace *model_times(
	const struct traces_trace *trace, const struct traces_slice_options *options)
{
	struct traces_trace *kept = empty_trace();
	uint64_t latest_ns = 0;
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	for (size_t i = 0; i < count; i++) {
		latest_ns = records[i].time_ns > latest_ns ? records[i].time_ns : latest_ns;
		uint64_t time_ns = options->by_clock ? latest_ns : records[i].time_ns;
		if (time_ns >= bound(options->from, records[0].time_ns, 0) &&
			time_ns < bound(options->to, records[0].time_ns, UINT64_MAX))
			append(kept, trace, i);
	}
	return kept;
}

/* Which flow, in order of appearance, is this? Slow and plain. */
static size_t rank_of(const struct base_flow_key *keys, size_t index)
{
	size_t rank = 0;
	for (size_t i = 0; i < index; i++) {
		bool seen = keys[i].family == 0;
		if (base_flow_key_equal(&keys[i], &keys[index]))
			return rank_of(keys, i);
		for (size_t j = 0; j < i; j++)
			seen = seen || base_flow_key_equal(&keys[i], &keys[j]);
		rank += !seen;
	}
	return rank;
}

static struct traces_trace *model_flows(
	const struct traces_trace *trace, const struct traces_slice_options *options)
{
	struct traces_trace *kept = empty_trace();
	struct base_flow_key *keys = streams_keys(trace), *left = NULL;
	size_t count, left_count = 0;
	traces_trace_records(trace, &count);
	left = calloc(count + 1, sizeof(*left));
	assert_non_null(left);
	for (size_t i = 0; i < count; i++) {
		if (options->one_flow || options->flows_max > 0) {
			if (keys[i].family == 0)
				continue;
			if (options->one_flow && !base_flow_key_equal(&keys[i], &options->flow))
				continue;
			left[left_count++] = keys[i];
			if (options->flows_max > 0 &&
				rank_of(left, left_count - 1) >= options->flows_max)
				continue;
		}
		append(kept, trace, i);
	}
	free(keys);
	free(left);
	return kept;
}

static struct traces_trace *model(
	const struct traces_trace *trace, const struct traces_slice_options *options)
{
	struct traces_trace *timed = model_times(trace, options);
	struct traces_trace *flowed = model_flows(timed, options), *kept = empty_trace();
	size_t count;
	traces_trace_records(flowed, &count);
	for (size_t i = options->packets_skip; i < count; i++) {
		if (options->packets_max == 0 || i < options->packets_skip + options->packets_max)
			append(kept, flowed, i);
	}
	traces_trace_destroy(timed);
	traces_trace_destroy(flowed);
	return kept;
}

static struct traces_slice_time random_time(const struct traces_trace *trace, struct base_rng *rng)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	struct traces_slice_time time = { .given = base_rng_below(rng, 2) == 0 };
	if (count == 0)
		return time;
	/* Bounds that some packet has exactly. */
	time.time_ns = records[base_rng_below(rng, count)].time_ns;
	time.absolute = time.time_ns < records[0].time_ns || base_rng_below(rng, 2);
	if (!time.absolute)
		time.time_ns -= records[0].time_ns;
	return time;
}

static struct traces_slice_options random_options(
	const struct traces_trace *trace, struct base_rng *rng)
{
	size_t count;
	traces_trace_records(trace, &count);
	struct traces_slice_options options = {
		.from = random_time(trace, rng),
		.to = random_time(trace, rng),
		.by_clock = base_rng_below(rng, 3) == 0,
		.one_flow = count > 0 && base_rng_below(rng, 3) == 0,
		.flows_max = base_rng_below(rng, 2) ? (uint32_t)base_rng_below(rng, 12) : 0,
		.packets_skip = base_rng_below(rng, 2) ? base_rng_below(rng, count + 5) : 0,
		.packets_max = base_rng_below(rng, 2) ? base_rng_below(rng, count + 5) : 0,
	};
	if (options.one_flow) {
		struct base_flow_key *keys = streams_keys(trace);
		options.flow = keys[base_rng_below(rng, count)];
		options.one_flow = options.flow.family != 0;
		free(keys);
	}
	return options;
}

static struct traces_trace *random_trace(struct base_rng *rng)
{
	struct streams_shape shape = {
		.packets = base_rng_below(rng, 300),
		.flows = (uint32_t)base_rng_below(rng, 20) + 1,
		.gap_ns_max = 1000,
		.first_ns = UINT64_C(1700000000000000000),
		.backwards = base_rng_below(rng, 2),
		.mixed_links = base_rng_below(rng, 2),
		.strays = base_rng_below(rng, 2),
	};
	return streams_random_trace(&shape, rng);
}

static void slices_agree_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct traces_trace *trace = random_trace(&rng);
		struct traces_slice_options options = random_options(trace, &rng);
		struct traces_trace *expected = model(trace, &options);
		for (size_t i = 0; i < 4; i++) {
			struct traces_slice_report report;
			struct traces_packets *packets;
			size_t count;
			assert_int_equal(traces_packets_slice(&packets,
						 streams_of(trace, batches[i]), &options, &report),
				0);
			struct traces_trace *got = streams_collect(packets, NULL);
			streams_must_equal(expected, got, "slice", seed);
			traces_trace_records(got, &count);
			assert_int_equal(report.packets_out, count);
			traces_trace_destroy(got);
		}
		traces_trace_destroy(expected);
		traces_trace_destroy(trace);
	}
}

static void consecutive_slices_make_up_the_whole(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct streams_shape shape = { .packets = 500,
			.flows = 9,
			.gap_ns_max = 1000,
			.first_ns = 1000000,
			.strays = true };
		struct traces_trace *trace = streams_random_trace(&shape, &rng);
		struct traces_trace *joined = empty_trace();
		for (uint64_t t = 0; t < 600000; t += 50000) {
			struct traces_slice_options options = {
				.from = { .given = true, .time_ns = t },
				.to = { .given = true, .time_ns = t + 50000 },
			};
			struct traces_slice_report report;
			struct traces_packets *packets;
			size_t count;
			assert_int_equal(traces_packets_slice(
						 &packets, streams_of(trace, 7), &options, &report),
				0);
			struct traces_trace *part = streams_collect(packets, NULL);
			traces_trace_records(part, &count);
			for (size_t i = 0; i < count; i++)
				append(joined, part, i);
			traces_trace_destroy(part);
		}
		streams_must_equal(trace, joined, "slices", seed);
		traces_trace_destroy(joined);
		traces_trace_destroy(trace);
	}
}

/* "udp port 53" read off the flow keys; random traffic has no fragments without strays. */
static void filters_agree_with_keys(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_filter *filter;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "udp port 53", message), 0);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct streams_shape shape = {
			.packets = 200, .flows = 20, .gap_ns_max = 10, .mixed_links = true
		};
		struct traces_trace *trace = streams_random_trace(&shape, &rng);
		struct traces_trace *expected = empty_trace();
		struct base_flow_key *keys = streams_keys(trace);
		for (size_t i = 0; i < shape.packets; i++) {
			if (keys[i].protocol == BASE_PROTOCOL_UDP &&
				(keys[i].port[0] == 53 || keys[i].port[1] == 53))
				append(expected, trace, i);
		}
		for (size_t i = 0; i < 4; i++) {
			struct traces_filter_report report;
			struct traces_packets *packets;
			assert_int_equal(traces_packets_filter(&packets,
						 streams_of(trace, batches[i]), filter, &report),
				0);
			struct traces_trace *got = streams_collect(packets, NULL);
			streams_must_equal(expected, got, "filter", seed);
			assert_int_equal(report.packets_in, shape.packets);
			traces_trace_destroy(got);
		}
		free(keys);
		traces_trace_destroy(expected);
		traces_trace_destroy(trace);
	}
	traces_filter_destroy(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_agree_with_the_model),
		cmocka_unit_test(consecutive_slices_make_up_the_whole),
		cmocka_unit_test(filters_agree_with_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
