/* SPDX-License-Identifier: BSD-2-Clause */
/* Orders of made traffic: reuse distances by a list that is searched, runs, renewal. */
#include "tests/unit/traces/test.h"

#include "traces/synth.h"

#include <math.h>
#include <stdlib.h>

enum { FLOWS = 500 };

/* Flows by their last choice, the latest first. */
struct stack {
	uint32_t flows[FLOWS];
	uint32_t count;
};

static void stack_fill(struct stack *stack, uint32_t count)
{
	stack->count = count;
	for (uint32_t i = 0; i < count; i++)
		stack->flows[i] = count - 1 - i;
}

/* How many others were chosen since; the flow goes to the front. */
static uint32_t stack_use(struct stack *stack, uint32_t flow)
{
	uint32_t depth = 0;
	while (stack->flows[depth] != flow)
		depth++;
	memmove(stack->flows + 1, stack->flows, depth * sizeof(*stack->flows));
	stack->flows[0] = flow;
	return depth;
}

static void recency_takes_the_flow_at_a_depth(void **state)
{
	(void)state;
	static const uint32_t counts[] = { 1, 2, 3, 64, 500 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(counts); i++) {
		struct traces_recency recency;
		struct stack stack;
		struct base_rng rng;
		base_rng_seed(&rng, i + 1);
		stack_fill(&stack, counts[i]);
		assert_int_equal(traces_recency_init(&recency, counts[i], NULL), 0);
		for (int step = 0; step < 5000; step++) {
			uint32_t depth = (uint32_t)base_rng_below(&rng, counts[i]);
			uint32_t expected = stack.flows[depth];
			uint32_t flow = traces_recency_take(&recency, depth);
			if (flow != expected)
				print_error("%u flows, step %d\n", counts[i], step);
			assert_int_equal(flow, expected);
			stack_use(&stack, flow);
		}
		traces_recency_destroy(&recency);
	}
}

/* Count the distances of an order. */
static void measure(const struct traces_synth_options *options, uint32_t runs, uint32_t *distances)
{
	struct traces_synth_order order;
	struct base_rng rng;
	struct stack stack;
	base_rng_seed(&rng, 7);
	stack_fill(&stack, (uint32_t)options->flows);
	memset(distances, 0, FLOWS * sizeof(*distances));
	assert_int_equal(traces_synth_order_init(&order, options), 0);
	for (uint32_t i = 0; i < runs; i++) {
		uint64_t flow = traces_synth_order_next(&order, &rng);
		assert_in_range(flow, 0, options->flows - 1);
		distances[stack_use(&stack, (uint32_t)flow)]++;
	}
	traces_synth_order_destroy(&order);
}

/* Largest distance of a distribution on 1..most from what it should be. */
static double off(const uint32_t *distances, uint32_t runs, double (*cdf)(double d, double value),
	double value, uint32_t most)
{
	double sum = 0, worst = 0;
	assert_int_equal(distances[0], 0); /* neighbours differ */
	for (uint32_t d = 1; d <= most; d++) {
		sum += distances[d];
		double here = fabs(sum / runs - cdf(d, value) / cdf(most, value));
		worst = here > worst ? here : worst;
	}
	return worst;
}

static double fixed_cdf(double d, double value)
{
	return d >= value;
}

static double uniform_cdf(double d, double value)
{
	return d < value ? d / value : 1;
}

static double geometric_cdf(double d, double value)
{
	return 1 - pow(1 - 1 / value, d);
}

static double zipf_cdf(double d, double value)
{
	double sum = 0;
	for (double k = 1; k <= d; k++)
		sum += pow(k, -value);
	return sum;
}

static void reuse_distances_follow_their_law(void **state)
{
	(void)state;
	static const struct {
		struct traces_reuse reuse;
		double (*cdf)(double d, double value);
	} cases[] = {
		{ { TRACES_REUSE_FIXED, 1 }, fixed_cdf },
		{ { TRACES_REUSE_FIXED, 37 }, fixed_cdf },
		{ { TRACES_REUSE_UNIFORM, 100 }, uniform_cdf },
		{ { TRACES_REUSE_UNIFORM, 499 }, uniform_cdf },
		{ { TRACES_REUSE_GEOMETRIC, 1 }, geometric_cdf },
		{ { TRACES_REUSE_GEOMETRIC, 20 }, geometric_cdf },
		{ { TRACES_REUSE_GEOMETRIC, 1000 }, geometric_cdf },
		{ { TRACES_REUSE_ZIPF, 0.8 }, zipf_cdf },
		{ { TRACES_REUSE_ZIPF, 1.5 }, zipf_cdf },
	};
	enum { RUNS = 40000 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		uint32_t distances[FLOWS];
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.flows = FLOWS;
		options.order = TRACES_ORDER_RECENCY;
		options.reuse = cases[i].reuse;
		measure(&options, RUNS, distances);
		double worst = off(distances, RUNS, cases[i].cdf, cases[i].reuse.value, FLOWS - 1);
		if (worst >= 1.95 / sqrt(RUNS))
			print_error("case %zu: %f\n", i, worst);
		assert_true(worst < 1.95 / sqrt(RUNS));
	}
}

static void cyclic_order_has_the_largest_distance(void **state)
{
	(void)state;
	uint32_t distances[FLOWS];
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.flows = FLOWS;
	measure(&options, 10 * FLOWS, distances);
	assert_int_equal(distances[FLOWS - 1], 10 * FLOWS);
}

/* ---- whole traces ---- */

struct shape {
	uint64_t packets, runs, flows;
};

/* Runs and flows of IPv4 frames, by addresses and client port. */
static struct shape shape_of(const struct traces_synth_options *options)
{
	struct shape shape = { 0 };
	struct traces_info info;
	struct traces_packets *packets;
	char message[TRACES_MESSAGE_SIZE];
	assert_int_equal(traces_packets_synth(&packets, options, message), 0);
	assert_int_equal(traces_info_of_packets(&info, packets, NULL), 0);
	traces_packets_destroy(packets);
	assert_int_equal(info.malformed_packets, 0);
	shape.packets = info.packets;
	shape.runs = info.flow_runs;
	shape.flows = info.flows;
	return shape;
}

static void any_slf_is_met_exactly_by_any_order(void **state)
{
	(void)state;
	static const double slfs[] = { 1, 1.25, 1.5, 3.7, 16 };
	for (int i = 0; i < 4 * (int)BASE_ARRAY_COUNT(slfs); i++) {
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.flows = 1000;
		options.slf = slfs[i / 4];
		options.order = (enum traces_order)(i % 4);
		options.reuse = (struct traces_reuse){ TRACES_REUSE_GEOMETRIC, 50 };
		options.packets = (uint64_t)(4000 * options.slf);
		assert_int_equal(shape_of(&options).runs, 4000);
	}
}

static void flows_give_way_when_they_have_sent_their_packets(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.flows = 100;
	options.flow_packets = 5;
	options.packets = 10000;
	/* A new flow for each 5 packets, and those in progress at both ends. */
	assert_in_range(shape_of(&options).flows, 2000, 2100);
	options.run_length = 3; /* whole runs: after 6 */
	assert_in_range(shape_of(&options).flows, 1667, 1767);
}

static void the_stream_is_the_trace(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		struct traces_synth_options options;
		struct traces_trace *trace;
		struct traces_packets *packets;
		struct traces_batch batch;
		char message[TRACES_MESSAGE_SIZE];
		size_t at = 0, count;
		traces_synth_options_defaults(&options);
		options.order = (enum traces_order)(i % 4);
		options.reuse = (struct traces_reuse){ TRACES_REUSE_UNIFORM, 30 };
		options.packets = 12345;
		options.slf = 2.5;
		options.protocol = i < 4 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
		options.flow_packets = i < 4 ? 0 : 9;
		assert_int_equal(traces_synth_generate(&trace, &options, message), 0);
		assert_int_equal(traces_packets_synth(&packets, &options, message), 0);
		const struct traces_record *records = traces_trace_records(trace, &count);
		while (traces_packets_next(packets, &batch) == 0 && batch.count > 0) {
			for (size_t j = 0; j < batch.count; j++, at++) {
				assert_true(batch.records[j].time_ns == records[at].time_ns);
				assert_memory_equal(batch.bytes + batch.records[j].offset,
					traces_trace_bytes(trace) + records[at].offset,
					options.frame_bytes);
			}
		}
		assert_int_equal(at, count);
		assert_int_equal(at, options.packets);
		traces_packets_destroy(packets);
		traces_trace_destroy(trace);
	}
}

static void impossible_orders_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		struct traces_synth_options options;
		struct traces_packets *packets = NULL;
		char message[TRACES_MESSAGE_SIZE];
		traces_synth_options_defaults(&options);
		options.order = TRACES_ORDER_RECENCY;
		options.reuse = (struct traces_reuse){ TRACES_REUSE_FIXED, 2 };
		if (i == 0)
			options.reuse.value = 0.5;
		else if (i == 1)
			options.reuse.value = (double)NAN;
		else if (i == 2)
			options.reuse = (struct traces_reuse){ TRACES_REUSE_ZIPF, 0 };
		else if (i == 3)
			options.reuse.law = (enum traces_reuse_law)4;
		else if (i == 4)
			options.flows = (uint64_t)TRACES_SYNTH_RECENCY_FLOWS_MAX + 1;
		else if (i == 5)
			options.slf = 0.99;
		else if (i == 6)
			options.slf = (double)NAN;
		else
			options.flow_packets = UINT64_MAX;
		assert_int_equal(traces_packets_synth(&packets, &options, message), -EINVAL);
		assert_null(packets);
		assert_string_not_equal(message, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recency_takes_the_flow_at_a_depth),
		cmocka_unit_test(reuse_distances_follow_their_law),
		cmocka_unit_test(cyclic_order_has_the_largest_distance),
		cmocka_unit_test(any_slf_is_met_exactly_by_any_order),
		cmocka_unit_test(flows_give_way_when_they_have_sent_their_packets),
		cmocka_unit_test(the_stream_is_the_trace),
		cmocka_unit_test(impossible_orders_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
