/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of a stream: the same however it is cut, and told apart from its errors. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "tests/support/packets.h"
#include "traces/packets.h"

#include <stdlib.h>

enum { PACKETS = 6000, FRAME_SIZE = 2048 };

static void append(struct traces_trace *trace, uint64_t time_ns, uint8_t link, const uint8_t *frame,
	size_t size, size_t wire_len)
{
	struct traces_record record = {
		.time_ns = time_ns,
		.cap_len = (uint32_t)size,
		.wire_len = (uint32_t)wire_len,
		.link = link,
	};
	assert_int_equal(traces_trace_append(trace, &record, frame), 0);
}

/* One packet, or a datagram in two fragments; sometimes cut, broken, or not IP. */
static void append_random(struct traces_trace *trace, struct base_rng *rng, uint64_t time_ns)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	uint8_t frame[FRAME_SIZE];
	uint8_t protocol = protocols[base_rng_below(rng, 3)];
	uint32_t host = (uint32_t)base_rng_below(rng, 300);
	struct packets_spec spec = packets_ip4(protocol, 0x0a000000 + host, 1000, 0x0a001000, 80);
	if (base_rng_below(rng, 4) == 0)
		spec = packets_ip6(protocol, host, 7, 0x1000, 8);
	if (base_rng_below(rng, 2) == 0)
		spec = packets_reverse(&spec);
	spec.ip_id = (uint16_t)base_rng_u64(rng);
	spec.payload_len = (uint16_t)base_rng_below(rng, 1000);
	spec.tcp_flags = (uint8_t)base_rng_u64(rng);
	if (protocol == BASE_PROTOCOL_UDP && spec.payload_len > 64 && base_rng_below(rng, 2)) {
		for (uint16_t offset = 0; offset <= 56; offset = (uint16_t)(offset + 56)) {
			size_t size = packets_build_fragment(
				frame, sizeof(frame), &spec, offset, offset == 0 ? 56 : 16);
			append(trace, time_ns, BASE_LINK_ETHERNET, frame, size, size);
		}
		return;
	}
	size_t size = packets_build(frame, sizeof(frame), &spec), cap_len = size;
	if (base_rng_below(rng, 10) == 0)
		cap_len = base_rng_below(rng, size);
	if (base_rng_below(rng, 20) == 0)
		frame[12] = (uint8_t)base_rng_u64(rng);
	if (base_rng_below(rng, 20) == 0)
		frame[14] = (uint8_t)base_rng_u64(rng);
	append(trace, time_ns, BASE_LINK_ETHERNET, frame, cap_len, size);
}

static struct traces_trace *random_trace(uint64_t seed)
{
	struct traces_trace *trace;
	struct base_rng rng;
	base_rng_seed(&rng, seed);
	assert_int_equal(traces_trace_create(&trace), 0);
	uint64_t now_ns = UINT64_C(1700000000000000000);
	for (int i = 0; i < PACKETS; i++) {
		now_ns += base_rng_below(&rng, 20000);
		if (base_rng_below(&rng, 100) == 0)
			now_ns -= base_rng_below(&rng, 20000);
		append_random(trace, &rng, now_ns);
	}
	return trace;
}

static void batches_of_any_size_give_the_same_figures(void **state)
{
	(void)state;
	static const size_t sizes[] = { 1, 7, 4096 };
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct traces_info_options options;
		traces_info_options_defaults(&options);
		options.idle_timeout_ns = 2000000;
		if (seed % 2 == 0)
			options.flows_max = 100; /* of several hundred */
		struct traces_trace *trace = random_trace(seed);
		struct traces_info whole;
		assert_int_equal(traces_info_compute(&whole, trace, &options), 0);
		assert_true(whole.insertions > whole.flows && whole.fragments > 0);
		assert_int_equal(whole.flows_exactness != TRACES_EXACT, seed % 2 == 0);
		for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
			struct traces_packets *packets;
			struct traces_info info;
			assert_int_equal(traces_packets_of_trace(&packets, trace, sizes[i]), 0);
			assert_int_equal(traces_info_of_packets(&info, packets, &options), 0);
			traces_packets_destroy(packets);
			if (memcmp(&info, &whole, sizeof(info)) != 0)
				fail_msg("seed %llu: batches of %zu differ",
					(unsigned long long)seed, sizes[i]);
		}
		traces_trace_destroy(trace);
	}
}

static void a_collector_tells_its_figures_at_any_time(void **state)
{
	(void)state;
	struct traces_info_collector *collector;
	struct traces_trace *trace = random_trace(9);
	struct traces_batch batch = traces_trace_batch(trace), empty = { 0 };
	struct traces_info info, zeros = { .flows_max = TRACES_INFO_FLOWS_MAX };
	size_t count = batch.count;
	assert_int_equal(traces_info_collector_create(&collector, NULL), 0);
	assert_int_equal(traces_info_collector_add(collector, &empty), 0);
	traces_info_collector_finish(collector, &info);
	assert_memory_equal(&info, &zeros, sizeof(info));
	batch.count = count / 2;
	assert_int_equal(traces_info_collector_add(collector, &batch), 0);
	traces_info_collector_finish(collector, &info);
	assert_int_equal(info.packets, count / 2);
	batch.records += count / 2;
	batch.count = count - count / 2;
	assert_int_equal(traces_info_collector_add(collector, &batch), 0);
	traces_info_collector_finish(collector, &info);
	traces_info_collector_destroy(collector);
	struct traces_info whole;
	assert_int_equal(traces_info_compute(&whole, trace, NULL), 0);
	assert_memory_equal(&info, &whole, sizeof(info));
	traces_trace_destroy(trace);
}

/* Packets of ever new flows, `gap_ns` apart. */
static struct traces_trace *new_flows_trace(uint32_t flows, uint64_t gap_ns)
{
	struct traces_trace *trace;
	uint8_t frame[FRAME_SIZE];
	assert_int_equal(traces_trace_create(&trace), 0);
	for (uint32_t i = 0; i < flows; i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0a000000 + i, 1000, 0x0b000000, 80);
		size_t size = packets_build(frame, sizeof(frame), &spec);
		append(trace, i * gap_ns, BASE_LINK_ETHERNET, frame, size, size);
	}
	return trace;
}

static uint64_t collect(struct traces_info *info, const struct traces_trace *trace,
	const struct traces_info_options *options)
{
	struct traces_info_collector *collector;
	struct traces_batch batch = traces_trace_batch(trace);
	assert_int_equal(traces_info_collector_create(&collector, options), 0);
	assert_int_equal(traces_info_collector_add(collector, &batch), 0);
	traces_info_collector_finish(collector, info);
	uint64_t memory_bytes = traces_info_collector_memory_bytes(collector);
	traces_info_collector_destroy(collector);
	return memory_bytes;
}

static char *text_of(const struct traces_info *info)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	assert_int_equal(traces_info_print(info, stream), 0);
	fclose(stream);
	return text;
}

/* All live: beyond the limit, distinct flows are an estimate and the rest a bound. */
static void memory_is_bounded_by_the_flows_that_are_kept(void **state)
{
	(void)state;
	enum { FLOWS = 40000 };
	static const uint64_t limits[] = { 1, 10, 1000, FLOWS - 1 };
	struct traces_trace *trace = new_flows_trace(FLOWS, 10);
	struct traces_info_options options;
	struct traces_info info;
	traces_info_options_defaults(&options);
	uint64_t all_kept = collect(&info, trace, &options);
	assert_int_equal(info.flows_exactness, TRACES_EXACT);
	assert_int_equal(info.flows, FLOWS);
	assert_true(all_kept > FLOWS * UINT64_C(84));
	for (size_t i = 0; i < BASE_ARRAY_COUNT(limits); i++) {
		options.flows_max = limits[i];
		uint64_t memory_bytes = collect(&info, trace, &options);
		assert_int_equal(info.flows_max, limits[i]);
		assert_int_equal(info.flows_exactness, TRACES_ESTIMATED);
		assert_true(info.flows > FLOWS * 0.98 && info.flows < FLOWS * 1.02);
		assert_int_equal(info.peak_live_exactness, TRACES_AT_LEAST);
		assert_int_equal(info.peak_live, limits[i]);
		assert_int_equal(info.insertions_exactness, TRACES_AT_MOST);
		assert_int_equal(info.insertions, FLOWS);
		assert_int_equal(info.flow_runs, FLOWS);
		/* A table of 1025 holds every window of packets: the one that leaves is in none. */
		assert_int_equal(info.slf_window_packets_exactness[2],
			limits[i] > 1024 ? TRACES_EXACT : TRACES_AT_LEAST);
		assert_true(memory_bytes < 400 * 1024 + limits[i] * 200);
	}
	traces_trace_destroy(trace);
}

static void flows_that_fell_idle_make_room(void **state)
{
	(void)state;
	enum { FLOWS = 20000 };
	struct traces_trace *trace = new_flows_trace(FLOWS, 1000000);
	struct traces_info_options options;
	struct traces_info all, few;
	traces_info_options_defaults(&options);
	options.idle_timeout_ns = UINT64_C(1000000000); /* 1001 live at once */
	collect(&all, trace, &options);
	options.flows_max = 3000;
	collect(&few, trace, &options);
	assert_int_equal(few.flows_exactness, TRACES_ESTIMATED);
	assert_int_equal(few.peak_live_exactness, TRACES_EXACT);
	assert_int_equal(few.insertions_exactness, TRACES_EXACT);
	assert_int_equal(few.early_evictions, 0);
	assert_int_equal(few.peak_live, 1001);
	assert_int_equal(few.insertions, FLOWS);
	for (int i = 0; i < TRACES_WINDOWS; i++) {
		assert_int_equal(few.slf_window_packets_exactness[i], TRACES_EXACT);
		assert_true(few.slf_window_packets[i] == all.slf_window_packets[i]);
		assert_true(few.slf_window_time[i] == all.slf_window_time[i]);
	}
	traces_trace_destroy(trace);
}

static void the_text_says_what_is_exact(void **state)
{
	(void)state;
	struct traces_trace *trace = new_flows_trace(5000, 1000000);
	struct traces_info_options options;
	struct traces_info info;
	traces_info_options_defaults(&options);
	collect(&info, trace, &options);
	char *text = text_of(&info);
	assert_non_null(strstr(text, "\nall figures are exact\n"));
	assert_null(strchr(text, '~'));
	free(text);

	options.idle_timeout_ns = UINT64_C(100000000);
	options.flows_max = 2000;
	collect(&info, trace, &options);
	text = text_of(&info);
	assert_non_null(strstr(text, "\nflows, about "));
	assert_non_null(strstr(text, "\nmore than 2000 flows: their number is an estimate "
				     "(standard error 0.41 %)\nall other figures are exact\n"));
	assert_non_null(strstr(text, ": 5000 insertions, 101 live at once\n"));
	free(text);

	options.flows_max = 10;
	collect(&info, trace, &options);
	text = text_of(&info);
	assert_non_null(strstr(text, ": <= 5000 insertions, >= 10 live at once\n"));
	assert_non_null(strstr(text, "  64: >= 1.000  256: >= 1.000  1024: >= 1.000\n"));
	assert_null(strstr(text, "exact"));
	free(text);
	traces_trace_destroy(trace);
}

/* A stream that breaks off. */
static int broken_next(struct traces_packets *packets, struct traces_batch *batch)
{
	(void)batch;
	return traces_packets_fail(packets, -EIO, "the cable was pulled");
}

static void broken_destroy(struct traces_packets *packets)
{
	(void)packets;
}

static void an_error_of_the_stream_is_handed_on(void **state)
{
	(void)state;
	static const struct traces_packets_ops ops = { broken_next, broken_destroy };
	struct traces_packets packets = { .ops = &ops };
	struct traces_info info = { .packets = 77 };
	assert_int_equal(traces_info_of_packets(&info, &packets, NULL), -EIO);
	assert_string_equal(traces_packets_message(&packets), "the cable was pulled");
	assert_int_equal(info.packets, 77); /* outputs are written on success only */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_of_any_size_give_the_same_figures),
		cmocka_unit_test(a_collector_tells_its_figures_at_any_time),
		cmocka_unit_test(memory_is_bounded_by_the_flows_that_are_kept),
		cmocka_unit_test(flows_that_fell_idle_make_room),
		cmocka_unit_test(the_text_says_what_is_exact),
		cmocka_unit_test(an_error_of_the_stream_is_handed_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
