/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/streams.h"

#include "base/parse.h"
#include "tests/support/packets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void must(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "streams: %s\n", what);
		abort();
	}
}

static struct packets_spec flow_spec(uint32_t flow, struct base_rng *rng)
{
	uint8_t protocol = flow % 2 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
	uint16_t port = flow % 3 ? 80 : 53;
	struct packets_spec spec =
		flow % 5 == 4 ? packets_ip6(protocol, flow, (uint16_t)(1024 + flow), 7, port)
			      : packets_ip4(protocol, 0x0a000000 + flow, (uint16_t)(1024 + flow),
					0xc0a80001, port);
	spec.payload_len = (uint16_t)base_rng_below(rng, 200);
	spec.ip_id = (uint16_t)base_rng_u64(rng);
	spec.tcp_flags = BASE_TCP_ACK;
	return base_rng_below(rng, 2) ? packets_reverse(&spec) : spec;
}

/* Something that a parser stumbles over; returns its length. */
static size_t build_stray(uint8_t *frame, struct packets_spec *spec, struct base_rng *rng)
{
	struct packets_spec error;
	size_t size;
	switch (base_rng_below(rng, 4)) {
	case 0: /* ARP, or an unknown version on RAW */
		memset(frame, 0, 60);
		frame[12] = 0x08;
		frame[13] = 0x06;
		return 60;
	case 1:
		spec->payload_len = 64;
		if (spec->family == 6)
			return packets_build(frame, PACKETS_FRAME_MAX, spec);
		return packets_build_fragment(
			frame, PACKETS_FRAME_MAX, spec, base_rng_below(rng, 2) ? 32 : 0, 32);
	case 2:
		error = packets_reverse(spec);
		error.protocol = spec->family == 6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
		error.icmp_type = spec->family == 6 ? 1 : 3;
		return packets_build_icmp_error(frame, PACKETS_FRAME_MAX, &error, spec, 48);
	default:
		size = packets_build(frame, PACKETS_FRAME_MAX, spec);
		frame[base_rng_below(rng, size)] ^= (uint8_t)base_rng_u64(rng);
		return size;
	}
}

static uint64_t next_time(const struct streams_shape *shape, uint64_t time_ns, struct base_rng *rng)
{
	if (base_rng_below(rng, 3) == 0)
		return time_ns;
	if (shape->backwards && base_rng_below(rng, 10) == 0 && time_ns > shape->gap_ns_max)
		return time_ns - base_rng_below(rng, shape->gap_ns_max + 1);
	return time_ns + base_rng_below(rng, shape->gap_ns_max + 1);
}

struct traces_trace *streams_random_trace(const struct streams_shape *shape, struct base_rng *rng)
{
	struct traces_trace *trace;
	uint8_t *frame = malloc(PACKETS_FRAME_MAX);
	must(frame != NULL && traces_trace_create(&trace) == 0, "out of memory");
	uint64_t time_ns = shape->first_ns;
	for (size_t i = 0; i < shape->packets; i++) {
		struct packets_spec spec =
			flow_spec((uint32_t)base_rng_below(rng, shape->flows), rng);
		if (shape->mixed_links && base_rng_below(rng, 3) == 0)
			spec.link = BASE_LINK_RAW;
		bool stray = shape->strays && base_rng_below(rng, 4) == 0;
		size_t size = stray ? build_stray(frame, &spec, rng)
				    : packets_build(frame, PACKETS_FRAME_MAX, &spec);
		struct traces_record record = {
			.time_ns = time_ns,
			.cap_len = (uint32_t)size,
			.wire_len = (uint32_t)size,
			.link = (uint8_t)spec.link,
			.interface = (uint8_t)base_rng_below(rng, 3),
		};
		if (shape->strays && base_rng_below(rng, 16) == 0)
			record.cap_len = (uint32_t)base_rng_below(rng, size + 1);
		must(traces_trace_append(trace, &record, frame) == 0, "out of memory");
		time_ns = next_time(shape, time_ns, rng);
	}
	free(frame);
	return trace;
}

struct traces_trace *streams_collect(struct traces_packets *packets, int *error)
{
	struct traces_trace *trace;
	struct traces_batch batch;
	int result;
	must(traces_trace_create(&trace) == 0, "out of memory");
	while ((result = traces_packets_next(packets, &batch)) == 0 && batch.count > 0) {
		for (size_t i = 0; i < batch.count; i++)
			must(traces_trace_append(trace, &batch.records[i],
				     batch.bytes + batch.records[i].offset) == 0,
				"out of memory");
	}
	must(error != NULL || result == 0, traces_packets_message(packets));
	if (error != NULL)
		*error = result;
	traces_packets_destroy(packets);
	return trace;
}

void streams_must_equal(const struct traces_trace *expected, const struct traces_trace *got,
	const char *what, uint64_t seed)
{
	size_t x_count, y_count;
	const struct traces_record *x = traces_trace_records(expected, &x_count);
	const struct traces_record *y = traces_trace_records(got, &y_count);
	size_t i = 0, count = x_count < y_count ? x_count : y_count;
	while (i < count && x[i].time_ns == y[i].time_ns && x[i].cap_len == y[i].cap_len &&
		x[i].wire_len == y[i].wire_len && x[i].link == y[i].link &&
		x[i].interface == y[i].interface &&
		memcmp(traces_trace_bytes(expected) + x[i].offset,
			traces_trace_bytes(got) + y[i].offset, x[i].cap_len) == 0)
		i++;
	if (i == x_count && i == y_count)
		return;
	fprintf(stderr, "%s: seed %" PRIu64 ": expected %zu packets, got %zu, differ from %zu on\n",
		what, seed, x_count, y_count, i);
	if (i < count)
		fprintf(stderr, "times %" PRIu64 " and %" PRIu64 ", lengths %u and %u\n",
			x[i].time_ns, y[i].time_ns, x[i].cap_len, y[i].cap_len);
	abort();
}

struct traces_packets *streams_of(const struct traces_trace *trace, size_t batch_packets)
{
	struct traces_packets *packets;
	must(traces_packets_of_trace(&packets, trace, batch_packets) == 0, "out of memory");
	return packets;
}

struct base_flow_key *streams_keys(const struct traces_trace *trace)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	struct base_flow_key *keys = calloc(count + 1, sizeof(*keys));
	struct base_parser *parser;
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	must(keys != NULL && base_parser_create(&parser, &config) == 0, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct base_packet packet;
		base_packet_reset(&packet);
		packet.data = (uint8_t *)(uintptr_t)(traces_trace_bytes(trace) + records[i].offset);
		packet.time_ns = records[i].time_ns;
		packet.wire_len = records[i].wire_len;
		packet.cap_len = records[i].cap_len;
		packet.link = records[i].link;
		if (base_parse_packet(parser, &packet) == BASE_PARSE_FLOW)
			keys[i] = packet.key;
	}
	base_parser_destroy(parser);
	return keys;
}
