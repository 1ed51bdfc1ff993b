/* SPDX-License-Identifier: BSD-2-Clause */
/* Overlays, speed-ups and merges of random traffic against choosing, for every packet of the
 * output, the earliest of all that may come next. */
#include "tests/unit/traces/test.h"

#include "base/parse.h"
#include "base/remap.h"
#include "tests/support/packets.h"
#include "tests/support/streams.h"

#include <stdlib.h>

enum { SEEDS = 150, COPIES_MAX = 7 };

static const size_t batches[] = { 1, 3, 64, 0 };

/* A packet where it stands on the output's time line. */
struct placed {
	const struct traces_trace *trace;
	size_t index;
	uint64_t time_ns;
};

struct lane {
	struct placed *packets;
	size_t count, next;
};

static struct lane lane_of(const struct traces_trace *trace)
{
	struct lane lane = { 0 };
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	lane.packets = calloc(count + 1, sizeof(*lane.packets));
	assert_non_null(lane.packets);
	for (size_t i = 0; i < count; i++)
		lane.packets[i] = (struct placed){ trace, i, records[i].time_ns };
	lane.count = count;
	return lane;
}

static struct traces_trace *model_merge(struct lane *lanes, size_t lanes_count, bool remap)
{
	struct traces_trace *merged;
	struct base_parser *parser;
	struct base_parse_config config;
	uint8_t *frame = malloc(PACKETS_FRAME_MAX);
	base_parse_config_defaults(&config);
	assert_int_equal(base_parser_create(&parser, &config), 0);
	assert_int_equal(traces_trace_create(&merged), 0);
	for (;;) {
		size_t best = lanes_count, count;
		for (size_t i = 0; i < lanes_count; i++) {
			if (lanes[i].next < lanes[i].count &&
				(best == lanes_count ||
					lanes[i].packets[lanes[i].next].time_ns <
						lanes[best].packets[lanes[best].next].time_ns))
				best = i;
		}
		if (best == lanes_count)
			break;
		const struct placed *placed = &lanes[best].packets[lanes[best].next++];
		struct traces_record record =
			traces_trace_records(placed->trace, &count)[placed->index];
		memcpy(frame, traces_trace_bytes(placed->trace) + record.offset, record.cap_len);
		record.time_ns = placed->time_ns;
		record.file = (uint16_t)best;
		if (remap && best > 0) {
			struct base_packet packet;
			base_packet_reset(&packet);
			packet.data = frame;
			packet.time_ns = record.time_ns;
			packet.wire_len = record.wire_len;
			packet.cap_len = record.cap_len;
			packet.link = record.link;
			if (base_parse_packet(parser, &packet) == BASE_PARSE_FLOW)
				base_remap_packet(&packet, (uint32_t)best);
		}
		assert_int_equal(traces_trace_append(merged, &record, frame), 0);
	}
	for (size_t i = 0; i < lanes_count; i++)
		free(lanes[i].packets);
	base_parser_destroy(parser);
	free(frame);
	return merged;
}

static struct traces_trace *random_trace(struct base_rng *rng, uint64_t first_ns)
{
	struct streams_shape shape = {
		.packets = base_rng_below(rng, 200),
		.flows = (uint32_t)base_rng_below(rng, 20) + 1,
		.gap_ns_max = 1000,
		.first_ns = first_ns,
		.backwards = base_rng_below(rng, 2),
		.mixed_links = base_rng_below(rng, 2),
		.strays = base_rng_below(rng, 2),
	};
	return streams_random_trace(&shape, rng);
}

/* Speeds as fractions, so that the model divides whole numbers. */
static const struct {
	uint64_t numerator, denominator;
} speeds[] = { { 1, 1 }, { 24, 1 }, { 3, 2 }, { 1, 4 }, { 1000000, 1 } };

/* Toward the first packet, as the documentation of the stream says. */
static uint64_t placed_time(const struct traces_scale_options *options, size_t speed, uint64_t copy,
	uint64_t first_ns, uint64_t time_ns)
{
	int64_t distance = (int64_t)(time_ns - first_ns) + (int64_t)(copy * options->shift_ns) -
			   (int64_t)(copy * options->window_ns);
	return first_ns + (uint64_t)(distance * (int64_t)speeds[speed].denominator /
				     (int64_t)speeds[speed].numerator);
}

static struct traces_trace *model_scale(
	const struct traces_trace *trace, const struct traces_scale_options *options, size_t speed)
{
	struct lane lanes[COPIES_MAX];
	for (uint32_t copy = 0; copy < options->copies; copy++) {
		struct lane *lane = &lanes[copy];
		*lane = lane_of(trace);
		uint64_t first_ns = lane->count > 0 ? lane->packets[0].time_ns : 0, clock_ns = 0;
		size_t kept = 0;
		for (size_t i = 0; i < lane->count; i++) {
			struct placed packet = lane->packets[i];
			if (packet.time_ns > clock_ns)
				clock_ns = packet.time_ns;
			if (options->window_ns > 0 &&
				(clock_ns - first_ns) / options->window_ns != copy)
				continue;
			packet.time_ns =
				placed_time(options, speed, copy, first_ns, packet.time_ns);
			lane->packets[kept++] = packet;
		}
		lane->count = kept;
	}
	return model_merge(lanes, options->copies, true);
}

/* The input of a copy. */
static struct traces_packets *window_of(const struct traces_trace *trace, size_t batch,
	const struct traces_scale_options *options, uint32_t copy,
	struct traces_slice_report *report)
{
	struct traces_packets *packets = streams_of(trace, batch), *slice;
	if (options->window_ns == 0)
		return packets;
	struct traces_slice_options slice_options = {
		.from = { .given = true, .time_ns = copy * options->window_ns },
		.to = { .given = true, .time_ns = (copy + 1) * options->window_ns },
		.by_clock = true,
	};
	assert_int_equal(traces_packets_slice(&slice, packets, &slice_options, report), 0);
	return slice;
}

static void scale_agrees_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct traces_trace *trace = random_trace(&rng, 1000000000);
		size_t speed = base_rng_below(&rng, 5);
		struct traces_scale_options options = {
			.copies = (uint32_t)base_rng_below(&rng, COPIES_MAX) + 1,
			.shift_ns = base_rng_below(&rng, 2) ? base_rng_below(&rng, 20000) : 0,
			.window_ns = base_rng_below(&rng, 2) ? base_rng_below(&rng, 20000) : 0,
			.speed =
				(double)speeds[speed].numerator / (double)speeds[speed].denominator,
		};
		struct traces_trace *expected = model_scale(trace, &options, speed);
		for (size_t i = 0; i < 4; i++) {
			struct traces_packets *inputs[COPIES_MAX], *packets;
			struct traces_scale_report report;
			struct traces_slice_report slices[COPIES_MAX];
			for (uint32_t copy = 0; copy < options.copies; copy++)
				inputs[copy] =
					window_of(trace, batches[i], &options, copy, &slices[copy]);
			assert_int_equal(
				traces_packets_scale(&packets, inputs, &options, &report), 0);
			struct traces_trace *got = streams_collect(packets, NULL);
			streams_must_equal(expected, got, "scale", seed);
			assert_int_equal(report.time_clamped, 0);
			traces_trace_destroy(got);
		}
		traces_trace_destroy(expected);
		traces_trace_destroy(trace);
	}
}

/* What an overlay promises, without its model: flows by copies, checksums right, windows whole. */
static void overlays_multiply_flows_and_keep_checksums(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 77);
	struct streams_shape shape = {
		.packets = 800, .flows = 40, .gap_ns_max = 1000, .first_ns = 1000
	};
	struct traces_trace *trace = streams_random_trace(&shape, &rng);
	struct traces_scale_options options = { .copies = 5, .shift_ns = 333, .speed = 2 };
	struct traces_packets *inputs[5], *packets;
	struct traces_scale_report report;
	for (int i = 0; i < 5; i++)
		inputs[i] = streams_of(trace, 10);
	assert_int_equal(traces_packets_scale(&packets, inputs, &options, &report), 0);
	struct traces_trace *got = streams_collect(packets, NULL);
	struct traces_info before, after;
	assert_int_equal(traces_info_compute(&before, trace, NULL), 0);
	assert_int_equal(traces_info_compute(&after, got, NULL), 0);
	assert_int_equal(before.flows, 40);
	assert_int_equal(after.flows, 5 * before.flows);
	assert_int_equal(after.packets, 5 * before.packets);
	assert_int_equal(after.duration_ns, (before.duration_ns + 4 * 333) / 2);
	size_t count;
	const struct traces_record *records = traces_trace_records(got, &count);
	for (size_t i = 0; i < count; i++) {
		assert_true(i == 0 || records[i].time_ns >= records[i - 1].time_ns);
		assert_true(packets_checksums_valid(
			traces_trace_bytes(got) + records[i].offset + 14, records[i].cap_len - 14));
	}
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
}

static void windows_use_each_packet_once(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 78);
	struct streams_shape shape = { .packets = 1000,
		.flows = 40,
		.gap_ns_max = 1000,
		.first_ns = 5000000,
		.backwards = true };
	struct traces_trace *trace = streams_random_trace(&shape, &rng);
	struct traces_scale_options options = { .copies = 64, .window_ns = 10000, .speed = 1 };
	struct traces_packets *inputs[64], *packets;
	struct traces_slice_report slices[64];
	struct traces_scale_report report;
	for (uint32_t i = 0; i < 64; i++)
		inputs[i] = window_of(trace, 100, &options, i, &slices[i]);
	assert_int_equal(traces_packets_scale(&packets, inputs, &options, &report), 0);
	struct traces_trace *got = streams_collect(packets, NULL);
	size_t count;
	const struct traces_record *records = traces_trace_records(got, &count);
	assert_int_equal(count, 1000);
	for (size_t i = 0; i < count; i++)
		assert_in_range(records[i].time_ns, 5000000 - 2000, 5000000 + 9999);
	/* 1000 packets of a third of a microsecond or so last 30 to 40 windows. */
	assert_in_range(report.copies_empty, 20, 40);
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
}

static void times_beyond_the_range_are_set_to_its_ends(void **state)
{
	(void)state;
	struct traces_trace *trace;
	struct traces_record record = { .time_ns = 5000, .link = BASE_LINK_RAW };
	assert_int_equal(traces_trace_create(&trace), 0);
	assert_int_equal(traces_trace_append(trace, &record, NULL), 0);
	record.time_ns = 4000;
	assert_int_equal(traces_trace_append(trace, &record, NULL), 0);
	record.time_ns = TRACES_TIME_NS_MAX;
	assert_int_equal(traces_trace_append(trace, &record, NULL), 0);
	struct traces_scale_options options = { .copies = 1, .speed = 0.125 };
	struct traces_packets *input = streams_of(trace, 0), *packets;
	struct traces_scale_report report;
	assert_int_equal(traces_packets_scale(&packets, &input, &options, &report), 0);
	struct traces_trace *got = streams_collect(packets, NULL);
	size_t count;
	const struct traces_record *records = traces_trace_records(got, &count);
	assert_int_equal(count, 3);
	assert_int_equal(records[0].time_ns, 5000);
	assert_int_equal(records[1].time_ns, 0);
	assert_true(records[2].time_ns == TRACES_TIME_NS_MAX);
	assert_int_equal(report.time_clamped, 2);
	traces_trace_destroy(got);
	traces_trace_destroy(trace);
}

static void merges_agree_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct traces_trace *traces[COPIES_MAX];
		struct lane lanes[COPIES_MAX];
		size_t inputs_count = base_rng_below(&rng, COPIES_MAX) + 1;
		for (size_t i = 0; i < inputs_count; i++) {
			traces[i] = random_trace(&rng, 1000000 + base_rng_below(&rng, 10) * 1000);
			lanes[i] = lane_of(traces[i]);
		}
		struct traces_trace *expected = model_merge(lanes, inputs_count, false);
		for (size_t i = 0; i < 4; i++) {
			struct traces_packets *inputs[COPIES_MAX], *packets;
			for (size_t j = 0; j < inputs_count; j++)
				inputs[j] = streams_of(traces[j], batches[(i + j) % 4]);
			assert_int_equal(traces_packets_merge(&packets, inputs, inputs_count), 0);
			struct traces_trace *got = streams_collect(packets, NULL);
			streams_must_equal(expected, got, "merge", seed);
			traces_trace_destroy(got);
		}
		for (size_t i = 0; i < inputs_count; i++)
			traces_trace_destroy(traces[i]);
		traces_trace_destroy(expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_agrees_with_the_model),
		cmocka_unit_test(overlays_multiply_flows_and_keep_checksums),
		cmocka_unit_test(windows_use_each_packet_once),
		cmocka_unit_test(times_beyond_the_range_are_set_to_its_ends),
		cmocka_unit_test(merges_agree_with_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
