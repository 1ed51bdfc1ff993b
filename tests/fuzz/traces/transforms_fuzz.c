/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as packets through every transform: nothing is read beyond a frame (the sanitizer
 * watches), no packet is lost or made up, and the result does not depend on where batches end.
 *
 * Input: 16 bytes of options, then packets of link (1), time step (2, signed), captured length (2),
 * cut (1), and the frame.
 */
#include "traces/traces.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

enum { OPTIONS_BYTES = 16, PACKET_BYTES = 6, PACKETS_MAX = 4000, COPIES_MAX = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a stream gave: how much, and its bytes with and without their order. */
struct digest {
	uint64_t packets, bytes, wire_bytes;
	uint64_t ordered, unordered;
	bool monotone;
};

static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

static uint64_t frame_digest(const struct traces_record *record, const uint8_t *frame)
{
	uint64_t sum =
		mix(record->cap_len) ^ mix(record->wire_len + UINT64_C(0x100000000)) ^ record->link;
	for (uint32_t i = 0; i < record->cap_len; i++)
		sum = mix(sum ^ frame[i]);
	return sum;
}

static struct digest drain(struct traces_packets *packets)
{
	struct digest digest = { .monotone = true };
	struct traces_batch batch;
	uint64_t before_ns = 0;
	int error;
	while ((error = traces_packets_next(packets, &batch)) == 0 && batch.count > 0) {
		for (size_t i = 0; i < batch.count; i++) {
			const struct traces_record *record = &batch.records[i];
			uint64_t sum = frame_digest(record, batch.bytes + record->offset);
			digest.packets++;
			digest.bytes += record->cap_len;
			digest.wire_bytes += record->wire_len;
			digest.unordered += mix(sum);
			digest.ordered = mix(digest.ordered ^ sum) + record->time_ns;
			digest.monotone = digest.monotone && record->time_ns >= before_ns;
			before_ns = record->time_ns;
		}
	}
	BASE_ASSERT(error == 0 || traces_packets_message(packets)[0] != '\0');
	if (error)
		digest.packets = UINT64_MAX;
	traces_packets_destroy(packets);
	return digest;
}

static struct traces_trace *trace_of(const uint8_t *data, size_t size)
{
	struct traces_trace *trace;
	uint64_t time_ns = UINT64_C(1000000000);
	size_t at = 0, count = 0;
	BASE_ASSERT(traces_trace_create(&trace) == 0);
	while (size - at >= PACKET_BYTES && count++ < PACKETS_MAX) {
		const uint8_t *head = data + at;
		uint32_t cap_len = (uint32_t)(head[3] | head[4] << 8);
		at += PACKET_BYTES;
		if (cap_len > size - at)
			cap_len = (uint32_t)(size - at);
		/* Each frame in memory of its own size first: what the trace reads is watched. */
		struct traces_record record = {
			.time_ns = time_ns,
			.cap_len = cap_len,
			.wire_len = cap_len + head[5],
			.link = head[0] % BASE_LINKS_COUNT,
		};
		BASE_ASSERT(traces_trace_append(trace, &record, data + at) == 0);
		time_ns += (uint64_t)(int64_t)(int16_t)(head[1] | head[2] << 8);
		at += cap_len;
	}
	return trace;
}

static struct traces_packets *stream_of(const struct traces_trace *trace, size_t batch)
{
	struct traces_packets *packets;
	BASE_ASSERT(traces_packets_of_trace(&packets, trace, batch) == 0);
	return packets;
}

static uint64_t read_option(const uint8_t *options, int index)
{
	return (uint64_t)options[index] | (uint64_t)options[index + 1] << 8;
}

static struct digest run_scale(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch, bool *whole)
{
	struct traces_packets *inputs[COPIES_MAX], *packets;
	struct traces_scale_report report;
	struct traces_scale_options options = {
		.copies = bytes[1] % COPIES_MAX + 1u,
		.shift_ns = read_option(bytes, 2) << bytes[4] % 48,
		.window_ns = read_option(bytes, 5),
		.speed = (double)(read_option(bytes, 7) + 1) / (bytes[9] + 1.0),
	};
	for (uint32_t i = 0; i < options.copies; i++)
		inputs[i] = stream_of(trace, batch);
	BASE_ASSERT(traces_packets_scale(&packets, inputs, &options, &report) == 0);
	*whole = options.copies == 1 && options.window_ns == 0;
	return drain(packets);
}

static struct digest run_shuffle(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch)
{
	struct traces_packets *packets;
	struct traces_shuffle_report report;
	struct traces_shuffle_options options = {
		.window_packets = (uint32_t)read_option(bytes, 1),
		.window_ns = read_option(bytes, 3) + 1,
		.keep_times = bytes[5] & 1,
		.flow_order = bytes[5] & 2,
		.seed = bytes[6],
	};
	BASE_ASSERT(
		traces_packets_shuffle(&packets, stream_of(trace, batch), &options, &report) == 0);
	return drain(packets);
}

static struct digest run_regroup(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch)
{
	struct traces_packets *packets;
	struct traces_regroup_report report;
	struct traces_regroup_options options = {
		.delay_ns = read_option(bytes, 1) << bytes[3] % 48,
		.run_packets = bytes[4],
		.held_max = (uint32_t)read_option(bytes, 5) + 1,
		.keep_times = bytes[7] & 1,
	};
	BASE_ASSERT(
		traces_packets_regroup(&packets, stream_of(trace, batch), &options, &report) == 0);
	struct digest digest = drain(packets);
	BASE_ASSERT(options.keep_times || digest.monotone);
	BASE_ASSERT(report.peak_held <= options.held_max);
	return digest;
}

static struct digest run_slice(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch, bool *whole)
{
	struct traces_packets *packets;
	struct traces_slice_report report;
	struct traces_slice_options options = {
		.from = { bytes[1] & 1, false, read_option(bytes, 2) },
		.to = { bytes[1] & 2, false, read_option(bytes, 4) },
		.by_clock = bytes[1] & 4,
		.flows_max = bytes[6],
		.packets_skip = bytes[7],
		.packets_max = read_option(bytes, 8),
	};
	BASE_ASSERT(
		traces_packets_slice(&packets, stream_of(trace, batch), &options, &report) == 0);
	*whole = false;
	return drain(packets);
}

static struct digest run_filter(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch, bool *whole)
{
	static const char *const expressions[] = { "", "tcp port 80", "udp", "ip6 and not icmp6",
		"vlan and ip", "ether[0] & 1 != 0", "greater 100", "ip[0] & 0xf != 5" };
	char message[TRACES_MESSAGE_SIZE];
	struct traces_packets *packets;
	struct traces_filter_report report;
	struct traces_filter *filter;
	const char *expression = expressions[bytes[1] % BASE_ARRAY_COUNT(expressions)];
	BASE_ASSERT(traces_filter_create(&filter, expression, message) == 0);
	BASE_ASSERT(traces_packets_filter(&packets, stream_of(trace, batch), filter, &report) == 0);
	struct digest digest = drain(packets);
	traces_filter_destroy(filter);
	*whole = expression[0] == '\0';
	return digest;
}

/* whole: every packet comes out once, unchanged. */
static struct digest run(
	const struct traces_trace *trace, const uint8_t *bytes, size_t batch, bool *whole)
{
	struct traces_packets *inputs[2], *packets;
	*whole = true;
	switch (bytes[0] % 6) {
	case 0:
		return run_scale(trace, bytes, batch, whole);
	case 1:
		return run_shuffle(trace, bytes, batch);
	case 2:
		return run_regroup(trace, bytes, batch);
	case 3:
		return run_slice(trace, bytes, batch, whole);
	case 4:
		return run_filter(trace, bytes, batch, whole);
	default:
		*whole = false;
		inputs[0] = stream_of(trace, batch);
		inputs[1] = stream_of(trace, batch + 1);
		BASE_ASSERT(traces_packets_merge(&packets, inputs, 2) == 0);
		return drain(packets);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t options[OPTIONS_BYTES] = { 0 };
	size_t used = size < OPTIONS_BYTES ? size : OPTIONS_BYTES;
	bool whole;
	memcpy(options, data, used);
	struct traces_trace *trace = trace_of(data + used, size - used);
	struct digest before = drain(stream_of(trace, 0));
	struct digest some = run(trace, options, options[15] % 8 + 1u, &whole);
	struct digest all = run(trace, options, 0, &whole);
	BASE_ASSERT(some.packets == all.packets);
	if (some.packets != UINT64_MAX) {
		BASE_ASSERT(some.ordered == all.ordered && some.unordered == all.unordered);
		BASE_ASSERT(!whole ||
			    (some.packets == before.packets && some.unordered == before.unordered));
	}
	traces_trace_destroy(trace);
	return 0;
}
