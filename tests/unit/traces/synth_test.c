/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"

#include <stdlib.h>

/* Addresses, ports and protocol of a generated frame, as they stand in it. */
struct tuple {
	uint8_t bytes[37];
};

static struct tuple tuple_of(const uint8_t *frame)
{
	struct tuple tuple = { { 0 } };
	bool ip6 = frame[12] == 0x86;
	const uint8_t *ip = frame + 14;
	size_t addresses = ip6 ? 32 : 8;
	memcpy(tuple.bytes, ip + (ip6 ? 8 : 12), addresses);
	memcpy(tuple.bytes + 32, ip + (ip6 ? 40 : 20), 4);
	tuple.bytes[36] = ip[ip6 ? 6 : 9];
	return tuple;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct tuple));
}

struct summary {
	uint64_t packets, flows, runs;
	bool exact_runs; /* all but the last one are of the asked length */
};

static struct summary summarize(const struct traces_trace *trace, uint64_t run_length)
{
	struct summary summary = { .exact_runs = true };
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	struct tuple *tuples = calloc(count + 1, sizeof(*tuples));
	uint64_t length = 0;
	for (size_t i = 0; i < count; i++) {
		tuples[i] = tuple_of(traces_trace_bytes(trace) + records[i].offset);
		if (i > 0 && compare(&tuples[i], &tuples[i - 1]) == 0) {
			length++;
			continue;
		}
		if (i > 0 && length != run_length)
			summary.exact_runs = false;
		summary.runs++;
		length = 1;
	}
	qsort(tuples, count, sizeof(*tuples), compare);
	for (size_t i = 0; i < count; i++)
		summary.flows += i == 0 || compare(&tuples[i], &tuples[i - 1]) != 0;
	summary.packets = count;
	free(tuples);
	return summary;
}

static struct traces_trace *generate(const struct traces_synth_options *options)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_trace *trace = NULL;
	int error = traces_synth_generate(&trace, options, message);
	if (error)
		print_error("%s\n", message);
	assert_int_equal(error, 0);
	return trace;
}

static void run_length_is_exact_in_every_order(void **state)
{
	(void)state;
	static const uint64_t lengths[] = { 1, 3, 16 }, flows[] = { 2, 7, 1000 };
	for (int i = 0; i < 27; i++) {
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.order = (enum traces_order)(i % 3);
		options.run_length = lengths[i / 3 % 3];
		options.flows = flows[i / 9];
		options.packets = 960 * options.run_length;
		options.zipf_exponent = i % 2 ? 1.0 : 5.0;
		struct traces_trace *trace = generate(&options);
		struct summary summary = summarize(trace, options.run_length);
		assert_true(summary.exact_runs);
		assert_int_equal(summary.packets, options.packets);
		assert_int_equal(summary.runs, 960); /* the SLF is run_length */
		assert_true(summary.flows <= options.flows);
		traces_trace_destroy(trace);
	}
}

static void round_robin_visits_every_flow_in_turn(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.flows = 5000;
	options.packets = 15000;
	struct traces_trace *trace = generate(&options);
	assert_int_equal(summarize(trace, 1).flows, 5000);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	for (size_t i = 0; i + 5000 < count; i++) {
		struct tuple a = tuple_of(bytes + records[i].offset);
		struct tuple b = tuple_of(bytes + records[i + 5000].offset);
		assert_int_equal(compare(&a, &b), 0);
	}
	traces_trace_destroy(trace);
}

static void many_flows_are_all_distinct(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.flows = options.packets = 300000;
	options.frame_bytes = 64;
	struct traces_trace *trace = generate(&options);
	assert_int_equal(summarize(trace, 1).flows, 300000);
	traces_trace_destroy(trace);
}

static void one_flow_is_one_run(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.flows = 1;
	options.packets = 100;
	for (int order = 0; order < 3; order++) {
		options.order = (enum traces_order)order;
		struct traces_trace *trace = generate(&options);
		assert_int_equal(summarize(trace, 1).runs, 1);
		traces_trace_destroy(trace);
	}
}

static void zipf_shares_follow_the_law(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.order = TRACES_ORDER_ZIPF;
	options.flows = 10000;
	options.packets = 200000;
	struct traces_trace *trace = generate(&options);
	/* Count packets per flow through the sorted tuples. */
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	struct tuple *tuples = calloc(count, sizeof(*tuples));
	for (size_t i = 0; i < count; i++)
		tuples[i] = tuple_of(traces_trace_bytes(trace) + records[i].offset);
	qsort(tuples, count, sizeof(*tuples), compare);
	uint64_t first = 0, second = 0;
	for (size_t i = 0, start = 0; i <= count; i++) {
		if (i < count && compare(&tuples[i], &tuples[start]) == 0)
			continue;
		uint64_t packets = i - start;
		if (packets > first) {
			second = first;
			first = packets;
		} else if (packets > second) {
			second = packets;
		}
		start = i;
	}
	free(tuples);
	/* H(10000) = 9.79: the first flow has a tenth of the draws, less its rejected repeats. */
	assert_in_range(first, 200000 / 9.79 * 0.85, 200000 / 9.79 * 1.05);
	assert_in_range(second, first * 0.48, first * 0.60);
	traces_trace_destroy(trace);
}

static void frames_are_valid_and_of_the_asked_size(void **state)
{
	(void)state;
	static const uint32_t sizes[] = { 64, 65, 74, 128, 1514, 9014, 65549 };
	for (int i = 0; i < 28; i++) {
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.ip6 = i & 1;
		options.protocol = i & 2 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
		options.frame_bytes = sizes[i / 4];
		options.packets = 50;
		options.flows = 10;
		options.order = TRACES_ORDER_UNIFORM;
		if (options.ip6 && (i & 2) && options.frame_bytes < 74)
			continue;
		struct traces_trace *trace = generate(&options);
		size_t count;
		const struct traces_record *records = traces_trace_records(trace, &count);
		for (size_t j = 0; j < count; j++) {
			assert_int_equal(records[j].cap_len, options.frame_bytes);
			assert_int_equal(records[j].wire_len, options.frame_bytes);
			const uint8_t *ip = traces_trace_bytes(trace) + records[j].offset + 14;
			assert_true(packets_checksums_valid(ip, options.frame_bytes - 14));
		}
		traces_trace_destroy(trace);
	}
}

static void timestamps_are_spaced_by_the_rate(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.packets = 1000;
	options.packets_per_s = 3000000;
	options.start_ns = 77;
	struct traces_trace *trace = generate(&options);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(records[i].time_ns, 77 + i * 1000 / 3);
	traces_trace_destroy(trace);
}

static void the_same_seed_gives_the_same_trace(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.order = TRACES_ORDER_ZIPF;
	options.packets = 5000;
	struct traces_trace *a = generate(&options), *b = generate(&options);
	options.seed++;
	struct traces_trace *c = generate(&options);
	size_t size = options.packets * options.frame_bytes;
	assert_memory_equal(traces_trace_bytes(a), traces_trace_bytes(b), size);
	assert_memory_not_equal(traces_trace_bytes(a), traces_trace_bytes(c), size);
	traces_trace_destroy(a);
	traces_trace_destroy(b);
	traces_trace_destroy(c);
}

static void tcp_sequence_numbers_follow_one_another(void **state)
{
	(void)state;
	struct traces_synth_options options;
	traces_synth_options_defaults(&options);
	options.protocol = BASE_PROTOCOL_TCP;
	options.flows = 3;
	options.packets = 9;
	struct traces_trace *trace = generate(&options);
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	for (size_t i = 0; i + 3 < count; i++) {
		uint32_t seq[2];
		memcpy(&seq[0], traces_trace_bytes(trace) + records[i].offset + 38, 4);
		memcpy(&seq[1], traces_trace_bytes(trace) + records[i + 3].offset + 38, 4);
		uint32_t step = __builtin_bswap32(seq[1]) - __builtin_bswap32(seq[0]);
		assert_int_equal(step, 128 - 54);
	}
	traces_trace_destroy(trace);
}

static void impossible_options_are_refused_with_a_reason(void **state)
{
	(void)state;
	for (int i = 0; i < 11; i++) {
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.order = TRACES_ORDER_ZIPF;
		switch (i) {
		case 0:
			options.flows = 0;
			break;
		case 1:
			options.flows = UINT64_MAX;
			break;
		case 2:
			options.run_length = 0;
			break;
		case 3:
			options.frame_bytes = 63;
			break;
		case 4:
			options.frame_bytes = 65550;
			break;
		case 5:
			options.protocol = BASE_PROTOCOL_ICMP;
			break;
		case 6:
			options.packets_per_s = 0;
			break;
		case 7:
			options.zipf_exponent = 0;
			break;
		case 8:
			options.zipf_exponent = strtod("nan", NULL);
			break;
		case 9:
			options.start_ns = UINT64_MAX;
			break;
		default:
			options.packets = UINT64_MAX;
			break;
		}
		char message[TRACES_MESSAGE_SIZE];
		struct traces_trace *trace = NULL;
		assert_int_equal(traces_synth_generate(&trace, &options, message), -EINVAL);
		assert_null(trace);
		assert_string_not_equal(message, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_length_is_exact_in_every_order),
		cmocka_unit_test(round_robin_visits_every_flow_in_turn),
		cmocka_unit_test(many_flows_are_all_distinct),
		cmocka_unit_test(one_flow_is_one_run),
		cmocka_unit_test(zipf_shares_follow_the_law),
		cmocka_unit_test(frames_are_valid_and_of_the_asked_size),
		cmocka_unit_test(timestamps_are_spaced_by_the_rate),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
		cmocka_unit_test(tcp_sequence_numbers_follow_one_another),
		cmocka_unit_test(impossible_options_are_refused_with_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
