/* SPDX-License-Identifier: BSD-2-Clause */
/* What streams made of streams do with errors, limits and odd inputs; their results are judged by
 * models in tests/model/traces. */
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"
#include "tests/support/streams.h"
#include "traces/flow_index.h"
#include "traces/packets.h"

#include <stdlib.h>

static struct traces_trace *random_trace(size_t packets, uint64_t seed)
{
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	struct streams_shape shape = {
		.packets = packets, .flows = 10, .gap_ns_max = 100, .first_ns = 1000
	};
	return streams_random_trace(&shape, &rng);
}

/* A stream that gives `batches` batches of a trace and then fails. */
struct failing {
	struct traces_packets packets;
	const struct traces_trace *trace;
	unsigned int batches_left;
	bool *destroyed;
};

static int failing_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct failing *failing = (struct failing *)packets;
	if (failing->batches_left-- == 0)
		return traces_packets_fail(packets, -EIO, "the wire was cut");
	*batch = traces_trace_batch(failing->trace);
	return 0;
}

static void failing_destroy(struct traces_packets *packets)
{
	*((struct failing *)packets)->destroyed = true;
	free(packets);
}

static const struct traces_packets_ops failing_ops = { failing_next, failing_destroy };

static struct traces_packets *failing_stream(
	const struct traces_trace *trace, unsigned int batches, bool *destroyed)
{
	struct failing *failing = calloc(1, sizeof(*failing));
	assert_non_null(failing);
	*failing = (struct failing){ { .ops = &failing_ops }, trace, batches, destroyed };
	*destroyed = false;
	return &failing->packets;
}

enum kind { TAP, FILTER, SLICE, MERGE, SCALE, SHUFFLE, REGROUP, KINDS };

static int see_nothing(void *context, const struct traces_batch *batch)
{
	(void)context;
	(void)batch;
	return 0;
}

/* Every kind of stream, with options that keep all packets. */
static struct traces_packets *of_kind(
	enum kind kind, struct traces_packets *from, const struct traces_filter *filter)
{
	static union {
		struct traces_filter_report filter;
		struct traces_slice_report slice;
		struct traces_scale_report scale;
		struct traces_shuffle_report shuffle;
		struct traces_regroup_report regroup;
	} report;
	struct traces_slice_options slice = { .flows_max = 1000 };
	struct traces_scale_options scale = { .copies = 1, .speed = 1 };
	struct traces_shuffle_options shuffle = { .window_packets = 50, .flow_order = true };
	struct traces_regroup_options regroup = { .delay_ns = 1000, .held_max = 64 };
	struct traces_packets *made = NULL;
	int error = -1;
	switch (kind) {
	case TAP:
		error = traces_packets_tap(&made, from, see_nothing, NULL);
		break;
	case FILTER:
		error = traces_packets_filter(&made, from, filter, &report.filter);
		break;
	case SLICE:
		error = traces_packets_slice(&made, from, &slice, &report.slice);
		break;
	case MERGE:
		error = traces_packets_merge(&made, &from, 1);
		break;
	case SCALE:
		error = traces_packets_scale(&made, &from, &scale, &report.scale);
		break;
	case SHUFFLE:
		error = traces_packets_shuffle(&made, from, &shuffle, &report.shuffle);
		break;
	case REGROUP:
		error = traces_packets_regroup(&made, from, &regroup, &report.regroup);
		break;
	case KINDS:
		break;
	}
	assert_int_equal(error, 0);
	return made;
}

static void errors_of_the_input_come_through(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_filter *filter;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "ip or ip6", message), 0);
	struct traces_trace *trace = random_trace(100, 1);
	for (enum kind kind = TAP; kind < KINDS; kind++) {
		for (unsigned int batches = 0; batches < 3; batches++) {
			bool destroyed;
			struct traces_packets *packets =
				of_kind(kind, failing_stream(trace, batches, &destroyed), filter);
			struct traces_batch batch;
			int error;
			while ((error = traces_packets_next(packets, &batch)) == 0)
				assert_true(batch.count > 0);
			assert_int_equal(error, -EIO);
			assert_string_equal(traces_packets_message(packets), "the wire was cut");
			traces_packets_destroy(packets);
			assert_true(destroyed);
		}
	}
	traces_trace_destroy(trace);
	traces_filter_destroy(filter);
}

static void nothing_in_nothing_out(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_filter *filter;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "", message), 0);
	struct traces_trace *trace = random_trace(0, 1);
	for (enum kind kind = TAP; kind < KINDS; kind++) {
		struct traces_packets *packets = of_kind(kind, streams_of(trace, 0), filter);
		struct traces_batch batch = { .count = 1 };
		for (int i = 0; i < 3; i++) {
			assert_int_equal(traces_packets_next(packets, &batch), 0);
			assert_int_equal(batch.count, 0);
		}
		traces_packets_destroy(packets);
	}
	traces_trace_destroy(trace);
	traces_filter_destroy(filter);
}

static void kinds_stack(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_filter *filter;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "ip or ip6", message), 0);
	struct traces_trace *trace = random_trace(5000, 3);
	struct traces_packets *packets = streams_of(trace, 77);
	for (enum kind kind = TAP; kind < KINDS; kind++)
		packets = of_kind(kind, packets, filter);
	struct traces_trace *got = streams_collect(packets, NULL);
	size_t count;
	traces_trace_records(got, &count);
	assert_int_equal(count, 5000);
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
	traces_filter_destroy(filter);
}

static void peeking_takes_nothing(void **state)
{
	(void)state;
	struct traces_trace *trace = random_trace(10, 1);
	struct traces_packets *packets = streams_of(trace, 4);
	struct traces_batch peeked, batch;
	for (size_t i = 0; i < 4; i++) {
		static const size_t counts[] = { 4, 4, 2, 0 };
		assert_int_equal(traces_packets_peek(packets, &peeked), 0);
		assert_int_equal(traces_packets_peek(packets, &peeked), 0);
		assert_int_equal(peeked.count, counts[i]);
		assert_int_equal(traces_packets_next(packets, &batch), 0);
		assert_memory_equal(&batch, &peeked, sizeof(batch));
	}
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
}

static int fail_at_zero(void *context, const struct traces_batch *batch)
{
	int *left = context;
	assert_true(batch->count > 0);
	return (*left)-- == 0 ? -ENOMEM : 0;
}

static void a_tap_may_fail_the_stream(void **state)
{
	(void)state;
	struct traces_trace *trace = random_trace(10, 1);
	struct traces_packets *packets;
	int left = 1, error;
	assert_int_equal(
		traces_packets_tap(&packets, streams_of(trace, 4), fail_at_zero, &left), 0);
	struct traces_trace *got = streams_collect(packets, &error);
	assert_int_equal(error, -ENOMEM);
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
}

static void impossible_options_are_refused(void **state)
{
	(void)state;
	struct traces_trace *trace = random_trace(1, 1);
	struct traces_packets *from = streams_of(trace, 0), *out = NULL;
	struct traces_scale_report scale_report;
	struct traces_slice_report slice_report;
	struct traces_shuffle_report shuffle_report;
	struct traces_regroup_report regroup_report;
	static const struct traces_scale_options scales[] = { { .copies = 0, .speed = 1 },
		{ .copies = TRACES_COPIES_MAX + 1, .speed = 1 }, { .copies = 1, .speed = 0 },
		{ .copies = 1, .speed = -1 }, { .copies = 1, .speed = 1.0 / 0.0 },
		{ .copies = 1, .speed = 0.0 / 0.0 } };
	static const struct traces_slice_options slice = { .flows_max =
								   TRACES_SLICE_FLOWS_MAX + 1 };
	static const struct traces_shuffle_options shuffles[] = { { 0 },
		{ .window_packets = TRACES_SHUFFLE_PACKETS_MAX + 1 } };
	static const struct traces_regroup_options regroups[] = { { .delay_ns = 1 },
		{ .delay_ns = 1, .held_max = TRACES_REGROUP_HELD_MAX + 1 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(scales); i++)
		assert_int_equal(
			traces_packets_scale(&out, &from, &scales[i], &scale_report), -EINVAL);
	assert_int_equal(traces_packets_slice(&out, from, &slice, &slice_report), -EINVAL);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(
			traces_packets_shuffle(&out, from, &shuffles[i], &shuffle_report), -EINVAL);
		assert_int_equal(
			traces_packets_regroup(&out, from, &regroups[i], &regroup_report), -EINVAL);
	}
	assert_int_equal(traces_packets_merge(&out, &from, 0), -EINVAL);
	assert_null(out);
	traces_packets_destroy(from);
	traces_trace_destroy(trace);
}

/* libpcap takes hours for what fits a command line. */
static void filters_have_a_length_and_long_ones_match_too(void **state)
{
	char message[TRACES_MESSAGE_SIZE] = "", text[TRACES_FILTER_TEXT_MAX + 2];
	struct traces_filter *filter = NULL;
	uint8_t frame[64] = { [12] = 8, [14] = 0x45, [23] = 17, [36] = 0, [37] = 53 };
	(void)state;
	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "udp", 3);
	assert_int_equal(traces_filter_create(&filter, text, message), -EINVAL);
	assert_null(filter);
	assert_non_null(strstr(message, "2049 bytes"));
	text[TRACES_FILTER_TEXT_MAX] = '\0';
	memcpy(text + TRACES_FILTER_TEXT_MAX - 16, "and dst port 53 ", 16);
	assert_int_equal(traces_filter_create(&filter, text, message), 0);
	assert_true(traces_filter_match(filter, BASE_LINK_ETHERNET, frame, 64, 64));
	frame[37] = 54;
	assert_false(traces_filter_match(filter, BASE_LINK_ETHERNET, frame, 64, 64));
	traces_filter_destroy(filter);
}

static void filters_are_checked_before_and_by_link_type(void **state)
{
	char message[TRACES_MESSAGE_SIZE] = "";
	struct traces_filter *filter = NULL;
	struct traces_filter_report report;
	struct base_rng rng;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "tcp and and", message), -EINVAL);
	assert_null(filter);
	assert_true(message[0] != '\0');
	assert_int_equal(traces_filter_create(&filter, "ether host 02:00:00:00:00:01", message), 0);
	assert_null(traces_filter_misfit(filter, BASE_LINK_ETHERNET));
	assert_non_null(traces_filter_misfit(filter, BASE_LINK_RAW));
	base_rng_seed(&rng, 4);
	struct streams_shape shape = { .packets = 100, .flows = 3, .mixed_links = true };
	struct traces_trace *trace = streams_random_trace(&shape, &rng);
	struct traces_packets *packets;
	int error;
	assert_int_equal(traces_packets_filter(&packets, streams_of(trace, 9), filter, &report), 0);
	struct traces_batch batch;
	while ((error = traces_packets_next(packets, &batch)) == 0 && batch.count > 0)
		continue;
	assert_int_equal(error, -EINVAL);
	assert_non_null(strstr(traces_packets_message(packets), "RAW"));
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	traces_filter_destroy(filter);
}

/* Loopback captures of hosts of either byte order hold the same packets. */
static void filters_read_loopback_of_both_byte_orders(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	uint8_t frame[256];
	struct traces_filter *filter;
	(void)state;
	assert_int_equal(traces_filter_create(&filter, "ip and udp port 53", message), 0);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 1000, 2, 53);
	spec.link = BASE_LINK_RAW;
	size_t size = packets_build(frame + 4, sizeof(frame) - 4, &spec) + 4;
	for (int i = 0; i < 2; i++) {
		uint32_t family = i == 0 ? 2 : __builtin_bswap32(2);
		memcpy(frame, &family, sizeof(family));
		assert_true(traces_filter_match(
			filter, BASE_LINK_NULL, frame, (uint32_t)size, (uint32_t)size));
		for (uint32_t cut = 0; cut < 4; cut++)
			assert_false(traces_filter_match(
				filter, BASE_LINK_NULL, frame, cut, (uint32_t)size));
	}
	traces_filter_destroy(filter);
}

/* One-packet flows of the largest frames: held bytes are bounded too. */
static void held_bytes_are_bounded(void **state)
{
	enum { FRAMES = 1200, SIZE = TRACES_RECORD_BYTES_MAX };
	(void)state;
	struct traces_trace *trace;
	uint8_t *frame = calloc(1, SIZE);
	assert_non_null(frame);
	assert_int_equal(traces_trace_create(&trace), 0);
	for (uint32_t i = 0; i < FRAMES; i++) {
		struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, i, 1, 2, 3);
		packets_build(frame, SIZE, &spec);
		struct traces_record record = { .time_ns = i, .cap_len = SIZE };
		assert_int_equal(traces_trace_append(trace, &record, frame), 0);
	}
	struct traces_regroup_options options = { .delay_ns = 1000000, .held_max = 100000 };
	struct traces_regroup_report report;
	struct traces_packets *packets;
	assert_int_equal(
		traces_packets_regroup(&packets, streams_of(trace, 1), &options, &report), 0);
	struct traces_batch batch;
	size_t count = 0;
	while (traces_packets_next(packets, &batch) == 0 && batch.count > 0)
		count += batch.count;
	assert_int_equal(count, FRAMES);
	assert_int_equal(report.peak_held, TRACES_REGROUP_BYTES_MAX / SIZE);
	assert_int_equal(report.groups_early, FRAMES - TRACES_REGROUP_BYTES_MAX / SIZE);
	traces_packets_destroy(packets);
	traces_trace_destroy(trace);
	free(frame);
}

static struct base_flow_key key_of(uint16_t number)
{
	return (struct base_flow_key){ .port = { number, 1 }, .family = 4 };
}

/* Against an array of who is there; hashes of two bits, so that chains are long. */
static void index_keeps_numbers(void **state)
{
	enum { CAPACITY = 50, KEYS = 120 };
	struct traces_flow_index index;
	uint32_t numbers[KEYS];
	struct base_rng rng;
	(void)state;
	base_rng_seed(&rng, 6);
	assert_int_equal(traces_flow_index_init(&index, CAPACITY), 0);
	for (int round = 0; round < 3; round++) {
		memset(numbers, 0xff, sizeof(numbers));
		for (int i = 0; i < 20000; i++) {
			uint16_t which = (uint16_t)base_rng_below(&rng, KEYS);
			struct base_flow_key key = key_of(which);
			uint32_t hash = which & 3;
			assert_int_equal(
				traces_flow_index_find(&index, &key, hash), numbers[which]);
			if (numbers[which] != TRACES_FLOW_NONE) {
				traces_flow_index_remove(&index, numbers[which]);
				numbers[which] = TRACES_FLOW_NONE;
			} else if (index.count < CAPACITY) {
				numbers[which] = traces_flow_index_add(&index, &key, hash);
				assert_true(numbers[which] < CAPACITY);
				for (uint16_t j = 0; j < KEYS; j++)
					assert_true(j == which || numbers[j] != numbers[which] ||
						    numbers[j] == TRACES_FLOW_NONE);
			}
		}
		traces_flow_index_clear(&index);
		struct base_flow_key key = key_of(1);
		assert_int_equal(traces_flow_index_find(&index, &key, 1), TRACES_FLOW_NONE);
	}
	traces_flow_index_destroy(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_of_the_input_come_through),
		cmocka_unit_test(nothing_in_nothing_out),
		cmocka_unit_test(kinds_stack),
		cmocka_unit_test(peeking_takes_nothing),
		cmocka_unit_test(a_tap_may_fail_the_stream),
		cmocka_unit_test(impossible_options_are_refused),
		cmocka_unit_test(filters_have_a_length_and_long_ones_match_too),
		cmocka_unit_test(filters_are_checked_before_and_by_link_type),
		cmocka_unit_test(filters_read_loopback_of_both_byte_orders),
		cmocka_unit_test(held_bytes_are_bounded),
		cmocka_unit_test(index_keeps_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
