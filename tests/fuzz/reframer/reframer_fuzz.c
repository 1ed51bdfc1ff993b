/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes are a configuration and then operations, run on the reframer and on the naive one beside
 * it. A difference aborts.
 *
 * Configuration, 12 bytes: three delays, run size, held packets, held flows, seen flows, switches,
 * hash bits, start time, two spare. Then operations of 6 bytes: what, flow, time step (2), TCP
 * flags, payload length.
 */
#include "tests/model/reframer/comparison.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONFIG_SIZE = 12, OPERATION_SIZE = 6, OPERATIONS_MAX = 4096 };

struct run {
	struct comparison comparison;
	struct comparison_packet packets[BASE_BURST_MAX];
	unsigned int packets_count;
	uint64_t time_ns;
	uint32_t hash_mask;
};

/* 0, small, or large, from one byte. */
static uint64_t spread(uint8_t byte)
{
	return byte < 128 ? byte : (uint64_t)1 << (byte & 63);
}

static struct reframer_config make_config(const uint8_t *data)
{
	struct reframer_config config;
	reframer_config_defaults(&config);
	for (unsigned int i = 0; i < REFRAMER_CLASSES_COUNT; i++)
		config.delay_ns[i] = spread(data[i]);
	config.run_packets_max = 1u + data[3];
	config.held_packets_max = 1u + data[4] * 8u;
	config.held_flows_max = 1u + data[5];
	if (config.held_flows_max > config.held_packets_max)
		config.held_flows_max = config.held_packets_max;
	config.seen_flows = 1u + data[6];
	config.bypass_syn = data[7] & 1;
	config.bypass_rst = data[7] & 2;
	config.bypass_first = data[7] & 4;
	config.short_acks = data[7] & 8;
	config.prefetch = data[7] & 16;
	config.salt = data[7];
	return config;
}

static void check(bool same)
{
	BASE_ASSERT(same);
}

static void push(struct run *run, unsigned int packets_max)
{
	comparison_push(&run->comparison, run->packets, run->packets_count);
	run->packets_count = 0;
	check(comparison_pop(&run->comparison, packets_max));
}

static void add_packet(struct run *run, const uint8_t *operation, uint64_t time_ns)
{
	/* At most 62 flows: as many may share a hash. */
	bool udp = (operation[1] & 64) != 0;
	uint32_t flow = operation[1] & 31;
	if (flow != 0 && udp)
		flow += 31;
	run->packets[run->packets_count++] = (struct comparison_packet){
		.time_ns = time_ns,
		.flow = flow,
		.hash = flow * UINT32_C(0x9e3779b1) & run->hash_mask,
		.flags = (uint16_t)(((operation[1] & 32) != 0 ? BASE_PACKET_OPERATOR_BYPASS : 0) |
				    ((operation[1] & 16) != 0 ? BASE_PACKET_OPERATOR_BULK : 0)),
		.payload_len = operation[5],
		.protocol = udp ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP,
		.tcp_flags = operation[4],
	};
	if (run->packets_count == BASE_BURST_MAX)
		push(run, BASE_BURST_MAX);
}

static void operate(struct run *run, const uint8_t *operation)
{
	uint64_t step_ns = operation[2] | (uint64_t)(operation[3] & 127) << 8;
	uint64_t time_ns = run->time_ns - step_ns; /* wraps: hostile times */
	if ((operation[3] & 128) == 0)
		time_ns = run->time_ns += step_ns;
	if (operation[0] < 0xe0) {
		add_packet(run, operation, time_ns);
		return;
	}
	push(run, 1u + operation[5]);
	if (operation[0] < 0xf0)
		comparison_advance(&run->comparison, time_ns);
	else if (operation[0] < 0xf8)
		comparison_flush(&run->comparison);
	check(comparison_pop(&run->comparison, 1u + operation[5]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < CONFIG_SIZE)
		return 0;
	struct reframer_config config = make_config(data);
	struct run *run = calloc(1, sizeof(*run));
	BASE_ASSERT(run != NULL);
	comparison_init(&run->comparison, &config);
	run->hash_mask = data[8] < 32 ? (UINT32_C(1) << data[8]) - 1 : UINT32_MAX;
	run->time_ns = spread(data[9]);
	size_t end = CONFIG_SIZE + (size_t)OPERATIONS_MAX * OPERATION_SIZE;
	for (size_t at = CONFIG_SIZE; at + OPERATION_SIZE <= size && at < end; at += OPERATION_SIZE)
		operate(run, data + at);
	push(run, 32);
	comparison_flush(&run->comparison);
	check(comparison_pop(&run->comparison, 32));
	BASE_ASSERT(run->comparison.packets_in == run->comparison.packets_out);
	comparison_release(&run->comparison);
	free(run);
	return 0;
}
