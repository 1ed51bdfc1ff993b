/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_traffic.h"

#include "base/checksum.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/sort.h"
#include "conntrack/conntrack.h"
#include "pipeline/bench_packets.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	FRAME4_BYTES = 64,
	FRAME6_BYTES = 78,
	ETHERNET_BYTES = 14,
	TCP_BYTES = 20,
	LOOK = 1 << 16, /* packets between looks at the stop flag */
};

static bool look(const atomic_bool *stop, uint64_t count)
{
	/* Partner: the signal handler; nothing is read behind it. */
	return count % LOOK == 0 && stop != NULL &&
	       atomic_load_explicit(stop, memory_order_relaxed);
}

/* One packet to come. */
struct event {
	uint64_t time_ns;
	uint32_t flow;
	uint8_t tcp_flags;
};

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

static void write_tcp(uint8_t *tcp, size_t size, uint32_t addresses_sum, uint32_t port,
	uint32_t seq, uint8_t flags)
{
	put16(tcp, port);
	put16(tcp + 2, 443);
	put32(tcp + 4, seq);
	tcp[12] = TCP_BYTES / 4 << 4;
	tcp[13] = flags;
	put16(tcp + 14, 65535);
	uint8_t pseudo[4] = { 0, BASE_PROTOCOL_TCP, (uint8_t)(size >> 8), (uint8_t)size };
	uint16_t checksum = base_checksum_finish(base_checksum_add(
		tcp, size, base_checksum_add(pseudo, sizeof(pseudo), addresses_sum)));
	memcpy(tcp + 16, &checksum, 2);
}

/* Client `number`, port from its upper bits; how long the frame is. */
static size_t write_frame(
	uint8_t *frame, bool ip6, uint32_t client, uint32_t port, uint32_t seq, uint8_t flags)
{
	memset(frame, 0, FRAME6_BYTES);
	frame[0] = frame[6] = 2;
	frame[5] = 1;
	frame[11] = 2;
	uint8_t *ip = frame + ETHERNET_BYTES;
	if (ip6) {
		size_t payload = FRAME6_BYTES - ETHERNET_BYTES - 40;
		put16(frame + 12, 0x86dd);
		ip[0] = 0x60;
		put16(ip + 4, (uint32_t)payload);
		ip[6] = BASE_PROTOCOL_TCP;
		ip[7] = 64;
		put32(ip + 8, 0x20010db8);
		put32(ip + 20, client);
		put32(ip + 24, 0x20010db8);
		put32(ip + 36, 0xffff0001);
		write_tcp(ip + 40, payload, base_checksum_add(ip + 8, 32, 0), port, seq, flags);
		return FRAME6_BYTES;
	}
	size_t size = FRAME4_BYTES - ETHERNET_BYTES;
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, (uint32_t)size);
	ip[8] = 64;
	ip[9] = BASE_PROTOCOL_TCP;
	put32(ip + 12, client);
	put32(ip + 16, 0xc0000201); /* the service: 192.0.2.1 */
	uint16_t checksum = base_checksum_finish(base_checksum_add(ip, 20, 0));
	memcpy(ip + 10, &checksum, 2);
	write_tcp(ip + 20, size - 20, base_checksum_add(ip + 12, 8, 0), port, seq, flags);
	return FRAME4_BYTES;
}

static int append(struct traces_trace *trace, uint64_t time_ns, const uint8_t *frame, size_t size)
{
	const struct traces_record record = {
		.time_ns = time_ns,
		.cap_len = (uint32_t)size,
		.wire_len = (uint32_t)size,
		.link = BASE_LINK_ETHERNET,
	};
	return traces_trace_append(trace, &record, frame);
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->flow > y->flow) - (x->flow < y->flow);
}

/* A connection's share of the packets, at least SYN, one of data and FIN. */
static uint64_t plan_flow(struct base_rng *rng, struct event *events, uint32_t flow, uint64_t count,
	uint64_t duration_ns)
{
	double mean_ns = (double)duration_ns / 4;
	uint64_t begin_ns = base_rng_below(rng, duration_ns - duration_ns / 10 + 1);
	double life = -log(1 - base_rng_unit(rng)) * mean_ns + (double)duration_ns / 1000;
	double left = (double)(duration_ns - begin_ns);
	uint64_t life_ns = (uint64_t)(life < left ? life : left);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t step_ns = life_ns / count;
		events[i] =
			(struct event){ begin_ns + i * step_ns + base_rng_below(rng, step_ns + 1),
				flow, BASE_TCP_ACK };
	}
	events[0].tcp_flags = BASE_TCP_SYN;
	events[0].time_ns = begin_ns;
	events[count - 1].tcp_flags = BASE_TCP_FIN | BASE_TCP_ACK;
	return count;
}

static int write_events(struct traces_trace *trace, const struct event *events, uint64_t count,
	const atomic_bool *stop)
{
	uint8_t frame[FRAME6_BYTES];
	for (uint64_t i = 0; i < count; i++) {
		uint32_t flow = events[i].flow;
		size_t size = write_frame(frame, flow % 4 == 3, 0x0a000000 + flow / 50000,
			1024 + flow % 50000, (uint32_t)i, events[i].tcp_flags);
		int error = look(stop, i) ? -EINTR : append(trace, events[i].time_ns, frame, size);
		if (error)
			return error;
	}
	return 0;
}

int bench_traffic_make(struct bench_traffic *traffic, uint64_t flows, uint64_t packets,
	uint64_t duration_ns, uint64_t seed, const atomic_bool *stop)
{
	struct base_rng rng;
	uint64_t per_flow = packets / flows < 3 ? 3 : packets / flows, count = 0;
	memset(traffic, 0, sizeof(*traffic));
	base_rng_seed(&rng, seed);
	struct event *events = calloc(flows * per_flow, sizeof(*events));
	struct event *spare = calloc(flows * per_flow, sizeof(*spare));
	int error =
		events == NULL || spare == NULL ? -ENOMEM : traces_trace_create(&traffic->trace);
	for (uint64_t i = 0; i < flows && error == 0; i++) {
		count += plan_flow(&rng, events + count, (uint32_t)i, per_flow, duration_ns);
		error = look(stop, i) ? -EINTR : 0;
	}
	if (error == 0)
		error = base_sort(events, spare, count, sizeof(*events), compare_events, stop);
	free(spare);
	if (error == 0)
		error = write_events(traffic->trace, events, count, stop);
	traffic->duration_ns = duration_ns;
	free(events);
	if (error)
		bench_traffic_destroy(traffic);
	return error;
}

/* Keep what the openers sent: packets of connections in their original direction. */
struct sieve {
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker;
};

static int sieve_create(struct sieve *sieve)
{
	struct base_parse_config parse;
	struct conntrack_config conntrack;
	base_parse_config_defaults(&parse);
	conntrack_config_defaults(&conntrack);
	conntrack.entries_max = 1 << 20;
	int error = base_arena_create(&sieve->arena, false);
	if (error == 0)
		error = base_parser_create(&sieve->parser, &parse);
	conntrack.arena = sieve->arena;
	return error == 0 ? conntrack_create(&sieve->tracker, &conntrack) : error;
}

static void sieve_destroy(struct sieve *sieve)
{
	conntrack_destroy(sieve->tracker);
	base_parser_destroy(sieve->parser);
	base_arena_destroy(sieve->arena);
}

static bool sieve_keeps(struct sieve *sieve, struct base_packet *packet)
{
	struct base_burst burst = { .count = 1, .packets = { packet } };
	const unsigned int unwanted = BASE_CONN_REPLY | BASE_CONN_RELATED;
	if (base_parse_packet(sieve->parser, packet) != BASE_PARSE_FLOW)
		return false;
	base_burst_mark_runs(&burst, true);
	conntrack_process_burst(sieve->tracker, &burst);
	conntrack_advance(sieve->tracker, packet->time_ns, 8);
	return packet->conn != BASE_CONN_NONE && (packet->conn_flags & unwanted) == 0 &&
	       (packet->flags & BASE_PACKET_TUNNEL) == 0;
}

static int sift(struct bench_traffic *traffic, struct sieve *sieve, const struct traces_trace *all,
	const atomic_bool *stop)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(all, &count);
	uint64_t first_ns = count > 0 ? records[0].time_ns : 0, now_ns = 0;
	for (size_t i = 0; i < count; i++) {
		struct base_packet packet;
		const uint8_t *frame = traces_trace_bytes(all) + records[i].offset;
		if (look(stop, i))
			return -EINTR;
		if (records[i].time_ns > first_ns && records[i].time_ns - first_ns > now_ns)
			now_ns = records[i].time_ns - first_ns;
		base_packet_reset(&packet);
		packet.data = (uint8_t *)frame; /* only read */
		packet.time_ns = now_ns;
		packet.wire_len = records[i].wire_len;
		packet.cap_len = records[i].cap_len;
		packet.link = records[i].link;
		if (!sieve_keeps(sieve, &packet)) {
			traffic->left_out_packets++;
			continue;
		}
		struct traces_record record = records[i];
		record.time_ns = now_ns;
		int error = traces_trace_append(traffic->trace, &record, frame);
		if (error)
			return error;
	}
	traffic->duration_ns = now_ns;
	return 0;
}

int bench_traffic_load(
	struct bench_traffic *traffic, const char *path, const atomic_bool *stop, char *message)
{
	struct traces_load_options load;
	struct traces_load_report report;
	struct traces_trace *all = NULL;
	struct sieve sieve = { 0 };
	memset(traffic, 0, sizeof(*traffic));
	traces_load_options_defaults(&load);
	load.stop = stop;
	int error = traces_trace_load(&all, &path, 1, &load, &report);
	if (error != 0) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", report.message);
		return error;
	}
	bench_packets_tell_damage(&report, path, message, TRACES_MESSAGE_SIZE);
	error = traces_trace_create(&traffic->trace);
	if (error == 0)
		error = sieve_create(&sieve);
	if (error == 0)
		error = sift(traffic, &sieve, all, stop);
	sieve_destroy(&sieve);
	traces_trace_destroy(all);
	if (error)
		bench_traffic_destroy(traffic);
	return error;
}

/* After each packet as many SYNs as are due; they share its time. */
int bench_traffic_flood(struct bench_traffic *out, const struct bench_traffic *calm, double rate,
	uint64_t seed, const atomic_bool *stop)
{
	size_t count, position = 0;
	const struct traces_record *records = traces_trace_records(calm->trace, &count);
	double due = 0;
	struct base_rng rng;
	uint8_t frame[FRAME6_BYTES];
	*out = (struct bench_traffic){ .duration_ns = calm->duration_ns,
		.left_out_packets = calm->left_out_packets };
	base_rng_seed(&rng, seed ^ UINT64_C(0x666c6f6f64));
	int error = traces_trace_create(&out->trace);
	if (error == 0)
		out->is_flood = calloc((size_t)((double)count * (rate + 1)) + 2, 1);
	if (error == 0 && out->is_flood == NULL)
		error = -ENOMEM;
	for (size_t i = 0; i < count && error == 0; i++) {
		error = traces_trace_append(out->trace, &records[i],
			traces_trace_bytes(calm->trace) + records[i].offset);
		position++;
		if (error == 0 && look(stop, i))
			error = -EINTR;
		for (due += rate; due >= 1 && error == 0; due -= 1) {
			uint64_t random = base_rng_u64(&rng);
			/* 100.64.0.0/10: no client of made traffic is there. */
			size_t size = write_frame(frame, false,
				0x64400000 | ((uint32_t)random & 0x3fffff),
				1024 + (random >> 32) % 60000, (uint32_t)(random >> 40),
				BASE_TCP_SYN);
			error = append(out->trace, records[i].time_ns, frame, size);
			out->is_flood[position++] = 1;
			out->flood_packets++;
		}
	}
	if (error)
		bench_traffic_destroy(out);
	return error;
}

void bench_traffic_destroy(struct bench_traffic *traffic)
{
	traces_trace_destroy(traffic->trace);
	free(traffic->is_flood);
	memset(traffic, 0, sizeof(*traffic));
}
