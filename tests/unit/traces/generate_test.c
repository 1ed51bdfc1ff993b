/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "tests/support/generated.h"
#include "traces/generate.h"

#include <math.h>
#include <stdlib.h>

enum { FLOWS_MAX = 1 << 18 };

static struct traces_generate_options options_for(enum traces_preset preset, uint64_t packets)
{
	struct traces_generate_options options;
	traces_generate_options_defaults(&options);
	options.preset = preset;
	options.packets = packets;
	return options;
}

static void same_options_make_the_same_bytes(void **state)
{
	(void)state;
	for (int preset = 0; preset < TRACES_PRESETS_COUNT; preset++) {
		struct traces_generate_options options =
			options_for((enum traces_preset)preset, 20000);
		uint64_t first = generated_digest(generated_open(&options));
		assert_true(generated_digest(generated_open(&options)) == first);
		options.seed = 2;
		assert_true(generated_digest(generated_open(&options)) != first);
	}
}

static void every_packet_is_well_formed(void **state)
{
	(void)state;
	for (int i = 0; i < 4 * TRACES_PRESETS_COUNT; i++) {
		struct traces_generate_options options =
			options_for((enum traces_preset)(i / 4), 30000);
		options.snaplen = 65535; /* so that checksums can be checked */
		options.fragment_share = 0.1;
		options.icmp_error_share = 0.2;
		options.ip6_share = 0.4;
		options.ways = i & 1 ? TRACES_WAYS_ONE : TRACES_WAYS_BOTH;
		options.frames = i & 2 ? TRACES_FRAMES_RAW : TRACES_FRAMES_ETHERNET;
		struct generated_summary summary =
			generated_walk(generated_open(&options), FLOWS_MAX, NULL, NULL);
		assert_int_equal(summary.packets, 30000);
		assert_int_equal(summary.malformed, 0);
		assert_int_equal(summary.checksums_bad, 0);
		assert_int_equal(summary.backwards, 0);
		assert_int_equal(summary.orphans, 0);
	}
}

/* ---- fragments: the checksum spans both ---- */

struct datagrams {
	uint8_t first[FLOWS_MAX / 64][1600];
	size_t first_size[FLOWS_MAX / 64];
	uint64_t whole, fragments;
};

static uint16_t word(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* Ones' complement sum of UDP with its pseudo header; 0xffff when the checksum is right. */
static uint32_t udp_sum(
	const uint8_t *ip, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	uint32_t sum = BASE_PROTOCOL_UDP + (uint32_t)(a_size + b_size);
	for (int i = 12; i < 20; i += 2)
		sum += word(ip + i);
	for (size_t i = 0; i < a_size + b_size; i++) {
		uint32_t byte = i < a_size ? a[i] : b[i - a_size];
		sum += i % 2 == 0 ? byte << 8 : byte;
	}
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void visit_fragment(void *context, const struct generated_packet *packet)
{
	struct datagrams *datagrams = context;
	const uint8_t *ip = packet->frame;
	if ((packet->parsed->flags & BASE_PACKET_FRAGMENT) == 0)
		return;
	datagrams->fragments++;
	assert_true(packet->flow < FLOWS_MAX / 64);
	size_t size = word(ip + 2);
	uint8_t *first = datagrams->first[packet->flow];
	if (word(ip + 6) == 0x2000) {
		memcpy(first, ip, size);
		datagrams->first_size[packet->flow] = size;
		return;
	}
	assert_int_equal(word(ip + 4), word(first + 4)); /* one identification */
	size_t first_payload = datagrams->first_size[packet->flow] - 20;
	assert_int_equal(word(ip + 6), first_payload / 8);
	assert_int_equal(word(first + 24), first_payload + size - 20); /* UDP's length */
	assert_int_equal(udp_sum(first, first + 20, first_payload, ip + 20, size - 20), 0xffff);
	datagrams->whole++;
}

static void fragments_make_whole_datagrams(void **state)
{
	(void)state;
	struct datagrams *datagrams = calloc(1, sizeof(*datagrams));
	struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 30000);
	options.snaplen = 65535;
	options.fragment_share = 0.2;
	options.frames = TRACES_FRAMES_RAW;
	generated_walk(generated_open(&options), FLOWS_MAX / 64, visit_fragment, datagrams);
	assert_true(datagrams->whole > 200);
	/* But for those that the trace's end cut. */
	assert_in_range(datagrams->fragments, 2 * datagrams->whole, 2 * datagrams->whole + 20);
	free(datagrams);
}

/* ---- options ---- */

static void cut_packets_are_the_beginning_of_whole_ones(void **state)
{
	(void)state;
	struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 5000);
	struct traces_batch cut_batch, whole_batch;
	options.snaplen = 57;
	struct traces_packets *cut = generated_open(&options);
	options.snaplen = 65535;
	struct traces_packets *whole = generated_open(&options);
	size_t at = 0, seen = 0;
	assert_int_equal(traces_packets_next(cut, &cut_batch), 0);
	while (traces_packets_next(whole, &whole_batch) == 0 && whole_batch.count > 0) {
		for (size_t i = 0; i < whole_batch.count; i++, at++, seen++) {
			if (at == cut_batch.count) {
				assert_int_equal(traces_packets_next(cut, &cut_batch), 0);
				at = 0;
			}
			const struct traces_record *a = &cut_batch.records[at];
			const struct traces_record *b = &whole_batch.records[i];
			assert_true(a->time_ns == b->time_ns);
			assert_int_equal(a->wire_len, b->wire_len);
			assert_int_equal(a->cap_len, b->wire_len < 57 ? b->wire_len : 57);
			assert_memory_equal(cut_batch.bytes + a->offset,
				whole_batch.bytes + b->offset, a->cap_len);
		}
	}
	assert_int_equal(seen, 5000);
	traces_packets_destroy(cut);
	traces_packets_destroy(whole);
}

struct traits {
	uint64_t packets, ip6, tagged, wire_bytes;
	uint64_t first_ns, last_ns;
	bool vlans[16];
};

static void visit_traits(void *context, const struct generated_packet *packet)
{
	struct traits *traits = context;
	uint32_t overhead = packet->record->link == BASE_LINK_RAW ? 38 : 24;
	traits->packets++;
	traits->ip6 += (packet->parsed->flags & BASE_PACKET_IP6) != 0;
	traits->wire_bytes += packet->record->wire_len + overhead;
	traits->first_ns = traits->first_ns == 0 ? packet->record->time_ns : traits->first_ns;
	traits->last_ns = packet->record->time_ns;
	if (packet->record->link == BASE_LINK_ETHERNET && word(packet->frame + 12) == 0x8100) {
		traits->tagged++;
		traits->vlans[packet->frame[15] & 15] = true;
	}
}

static struct traits traits_of(const struct traces_generate_options *options)
{
	struct traits traits = { 0 };
	generated_walk(generated_open(options), FLOWS_MAX, visit_traits, &traits);
	return traits;
}

static void the_trace_ends_where_it_was_told_to(void **state)
{
	(void)state;
	struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 12345);
	assert_int_equal(traits_of(&options).packets, 12345);
	options.packets = 0;
	options.duration_ns = 200000000;
	options.start_ns = 5000000000;
	options.microseconds = true;
	struct traits traits = traits_of(&options);
	assert_int_equal(traits.last_ns % 1000, 0);
	assert_true(traits.packets > 10000);
	assert_in_range(traits.first_ns, 5000000000, 5001000000);
	assert_in_range(traits.last_ns, 5199000000, 5199999999);
	options.duration_ns = 0;
	options.flows = 300;
	options.cold = true;
	assert_int_equal(
		generated_walk(generated_open(&options), FLOWS_MAX, NULL, NULL).flows, 300);
}

static void the_load_is_the_one_asked_for(void **state)
{
	(void)state;
	static const double loads[] = { 50e6, 1e9, 5e9 };
	for (int i = 0; i < 2 * (int)BASE_ARRAY_COUNT(loads); i++) {
		struct traces_generate_options options =
			options_for(i & 1 ? TRACES_PRESET_BACKBONE : TRACES_PRESET_CAMPUS, 0);
		options.bits_per_s = (uint64_t)loads[i / 2];
		options.duration_ns = (uint64_t)(1e18 / loads[i / 2]);
		options.seed = (uint64_t)i + 1;
		struct traits traits = traits_of(&options);
		double seconds = (double)options.duration_ns / 1e9;
		double load = (double)traits.wire_bytes * 8 / seconds;
		if (fabs(load / loads[i / 2] - 1) >= 0.05)
			print_error("load %g, asked for %g\n", load, loads[i / 2]);
		assert_true(fabs(load / loads[i / 2] - 1) < 0.05);
		options.packets_per_s = 100000;
		options.duration_ns = 500000000;
		assert_true(fabs((double)traits_of(&options).packets / 50000 - 1) < 0.05);
	}
}

static void addresses_and_tags_are_by_option(void **state)
{
	(void)state;
	struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 20000);
	options.ip6_share = 0;
	options.vlans = 5;
	struct traits traits = traits_of(&options);
	assert_int_equal(traits.ip6, 0);
	assert_int_equal(traits.tagged, traits.packets);
	for (int i = 0; i < 16; i++)
		assert_int_equal(traits.vlans[i], i >= 1 && i <= 5);
	options.vlans = 0;
	options.ip6_share = 1;
	traits = traits_of(&options);
	assert_int_equal(traits.ip6, traits.packets);
	assert_int_equal(traits.tagged, 0);
}

static void new_flows_are_as_frequent_as_asked_for(void **state)
{
	(void)state;
	static const uint64_t rates[] = { 800, 4000, 10000 };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rates); i++) {
		struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 0);
		struct traces_batch batch;
		options.duration_ns = 1000000000;
		options.new_flows_per_s = rates[i];
		struct traces_packets *stream = generated_open(&options);
		while (traces_packets_next(stream, &batch) == 0 && batch.count > 0)
			continue;
		struct traces_gen *gen = (struct traces_gen *)stream;
		double begun = (double)gen->begun, load = gen->offered;
		traces_packets_destroy(stream);
		/* Four standard deviations of a Poisson number, and some for those of UDP. */
		assert_true(fabs(begun - (double)rates[i]) < 6 * sqrt((double)rates[i]));
		assert_true(fabs(load - 1) < 0.08);
	}
}

static void memory_is_that_of_flows_in_progress(void **state)
{
	(void)state;
	struct traces_generate_options options = options_for(TRACES_PRESET_CAMPUS, 1500000);
	struct traces_batch batch;
	options.bits_per_s = 100000000;
	struct traces_packets *stream = generated_open(&options);
	struct traces_gen *gen = (struct traces_gen *)stream;
	while (traces_packets_next(stream, &batch) == 0 && batch.count > 0)
		continue;
	/* Some 20,000 flows have passed, some 1,800 were there at any time. */
	assert_true(gen->begun > 15000);
	assert_in_range(gen->flows_capacity, 1, 4096);
	assert_in_range(gen->queue->chunks_count, 1, 2048);
	traces_packets_destroy(stream);
}

static void assert_refused(const struct traces_generate_options *options, const char *reason)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_packets *stream = NULL;
	assert_int_equal(traces_packets_generate(&stream, options, message), -EINVAL);
	assert_null(stream);
	assert_non_null(strstr(message, reason));
}

static void what_cannot_be_is_refused_with_its_reason(void **state)
{
	(void)state;
	struct traces_generate_options good = options_for(TRACES_PRESET_CAMPUS, 10), bad;
	bad = good, bad.preset = TRACES_PRESETS_COUNT;
	assert_refused(&bad, "unknown preset");
	bad = good, bad.bits_per_s = 999999;
	assert_refused(&bad, "the load must be between");
	bad = good, bad.bits_per_s = UINT64_MAX;
	assert_refused(&bad, "the load must be between");
	bad = good, bad.packets_per_s = 99;
	assert_refused(&bad, "packets per second");
	bad = good, bad.new_flows_per_s = 1;
	assert_refused(&bad, "new flows per second: got 1, expected ");
	bad = good, bad.new_flows_per_s = 100000;
	assert_refused(&bad, "new flows per second: got 100000, expected ");
	bad = good, bad.vlans = 4095;
	assert_refused(&bad, "VLANs");
	bad = good, bad.vlans = 1, bad.frames = TRACES_FRAMES_RAW;
	assert_refused(&bad, "VLANs need Ethernet");
	bad = good, bad.ip6_share = 1.5;
	assert_refused(&bad, "a share");
	bad = good, bad.reorder_share = (double)NAN;
	assert_refused(&bad, "a share");
	bad = good, bad.start_ns = UINT64_MAX;
	assert_refused(&bad, "2262");
	for (int i = 0; i < TRACES_PRESETS_COUNT; i++)
		assert_non_null(traces_preset_name((enum traces_preset)i));
	assert_null(traces_preset_name(TRACES_PRESETS_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_options_make_the_same_bytes),
		cmocka_unit_test(every_packet_is_well_formed),
		cmocka_unit_test(fragments_make_whole_datagrams),
		cmocka_unit_test(cut_packets_are_the_beginning_of_whole_ones),
		cmocka_unit_test(the_trace_ends_where_it_was_told_to),
		cmocka_unit_test(the_load_is_the_one_asked_for),
		cmocka_unit_test(addresses_and_tags_are_by_option),
		cmocka_unit_test(new_flows_are_as_frequent_as_asked_for),
		cmocka_unit_test(memory_is_that_of_flows_in_progress),
		cmocka_unit_test(what_cannot_be_is_refused_with_its_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
