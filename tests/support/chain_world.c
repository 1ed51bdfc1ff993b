/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/chain_world.h"

#include <stdlib.h>

int chain_world_open(
	struct chain_world *world, const struct chain_config *config, uint32_t entries_max)
{
	struct base_parse_config parse;
	struct conntrack_config track;
	struct chain_config own = *config;
	memset(world, 0, sizeof(*world));
	world->no_runs = config->no_runs;
	BASE_ASSERT(base_arena_create(&world->arena, false) == 0);
	base_parse_config_defaults(&parse);
	BASE_ASSERT(base_parser_create(&world->parser, &parse) == 0);
	own.arena = world->arena;
	own.hash = parse.hash;
	int rc = chain_create(&world->chain, &own, world->message);
	if (rc != 0) {
		chain_world_close(world);
		return rc;
	}
	conntrack_config_defaults(&track);
	track.entries_max = entries_max;
	track.user_bytes = chain_user_bytes(world->chain);
	track.arena = world->arena;
	track.on_remove = chain_on_remove;
	track.on_remove_context = world->chain;
	BASE_ASSERT(conntrack_create(&world->tracker, &track) == 0);
	chain_attach(world->chain, world->tracker);
	return 0;
}

static void compact(struct base_burst *burst)
{
	struct base_packet *dropped[BASE_BURST_MAX];
	if (burst->drop_count > 0)
		base_burst_compact(burst, dropped);
}

static void run_burst(struct chain_world *world, struct base_burst *burst)
{
	uint64_t now_ns = burst->packets[burst->count - 1]->time_ns;
	base_parse_burst(world->parser, burst, world->no_runs);
	compact(burst);
	chain_translate_burst(world->chain, burst, world->parser);
	compact(burst);
	conntrack_process_burst(world->tracker, burst);
	compact(burst);
	for (uint32_t i = 0; i < chain_functions_count(world->chain); i++) {
		chain_function_process(world->chain, i, burst, now_ns);
		compact(burst);
	}
}

void chain_world_run(struct chain_world *world, struct base_packet *packets, uint32_t count,
	unsigned int burst_max)
{
	struct base_burst burst;
	BASE_ASSERT(burst_max >= 1 && burst_max <= BASE_BURST_MAX);
	for (uint32_t at = 0; at < count; at += burst.count) {
		memset(&burst, 0, sizeof(burst));
		while (burst.count < burst_max && at + burst.count < count) {
			burst.packets[burst.count] = &packets[at + burst.count];
			burst.count++;
		}
		uint16_t taken = burst.count;
		run_burst(world, &burst);
		burst.count = taken;
	}
}

void chain_world_finish(struct chain_world *world)
{
	char message[128];
	conntrack_purge(world->tracker, NULL, NULL);
	BASE_ASSERT(conntrack_check(world->tracker, message, sizeof(message)) == 0);
}

void chain_world_close(struct chain_world *world)
{
	conntrack_destroy(world->tracker);
	chain_destroy(world->chain);
	base_parser_destroy(world->parser);
	base_arena_destroy(world->arena);
	world->tracker = NULL;
	world->chain = NULL;
	world->parser = NULL;
	world->arena = NULL;
}

uint64_t chain_world_counter(const struct chain_world *world, uint32_t index, const char *name)
{
	struct chain_function_stats stats;
	chain_function_stats(world->chain, index, &stats);
	for (uint32_t i = 0; i < stats.counters_count; i++) {
		if (strcmp(stats.counters[i].name, name) == 0)
			return stats.counters[i].value;
	}
	BASE_ASSERT(!"no counter of this name");
	return 0;
}

/* One flow as its opener sends it, and how far it is. */
struct traffic_flow {
	struct packets_spec spec;
	uint32_t packets;
	uint32_t seq;
};

static void make_flow(struct traffic_flow *flow, struct base_rng *rng)
{
	static const uint8_t protocols4[8] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_TCP,
		BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_ICMP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_ESP };
	uint8_t protocol = protocols4[base_rng_below(rng, 8)];
	uint32_t client = (uint32_t)base_rng_below(rng, 4096);
	uint32_t server = (uint32_t)base_rng_below(rng, 64);
	uint16_t client_port = (uint16_t)(1024 + base_rng_below(rng, 64000));
	uint16_t server_port = base_rng_below(rng, 2) ? 443 : 53;
	if (protocol == BASE_PROTOCOL_ICMP || protocol == BASE_PROTOCOL_ESP)
		server_port = 1;
	if (base_rng_below(rng, 4) == 0) {
		if (protocol == BASE_PROTOCOL_ICMP)
			protocol = BASE_PROTOCOL_ICMP6;
		flow->spec = packets_ip6(
			protocol, 0x10000 + client, client_port, 0x20000 + server, server_port);
	} else {
		flow->spec = packets_ip4(protocol, 0x0a000000 + client * 7919, client_port,
			0x08080000 + server * 104729, server_port);
	}
	flow->packets = 0;
	flow->seq = (uint32_t)base_rng_u64(rng);
}

static bool is_tcp(const struct traffic_flow *flow)
{
	return flow->spec.protocol == BASE_PROTOCOL_TCP;
}

/* The flow's next packet: SYN, SYN|ACK, data either way and, if asked for, an end. */
static struct packets_spec next_packet(
	struct traffic_flow *flow, const struct chain_traffic_config *config, struct base_rng *rng)
{
	uint32_t step = flow->packets++;
	bool reply = step == 1 || (step > 1 && base_rng_below(rng, 3) == 0);
	struct packets_spec spec = reply ? packets_reverse(&flow->spec) : flow->spec;
	spec.seq = flow->seq + step;
	if (is_tcp(flow)) {
		spec.tcp_flags = BASE_TCP_ACK;
		if (step == 0)
			spec.tcp_flags = BASE_TCP_SYN;
		else if (step == 1)
			spec.tcp_flags = BASE_TCP_SYN | BASE_TCP_ACK;
		else if (config->close_reopen && base_rng_below(rng, 6) == 0) {
			spec.tcp_flags = BASE_TCP_RST | BASE_TCP_ACK;
			flow->packets = 0;
			flow->seq += 100000;
		}
	}
	spec.payload_len = (uint16_t)(8 + base_rng_below(rng, 100));
	if (config->ttl_ends && base_rng_below(rng, 24) == 0)
		spec.ttl = (uint8_t)(1 + base_rng_below(rng, 2));
	return spec;
}

static size_t build_error(
	uint8_t *frame, size_t size, const struct traffic_flow *flow, struct base_rng *rng)
{
	const struct packets_spec *quoted = &flow->spec;
	bool ip4 = quoted->family == 4;
	/* Half of them come from the receiver, half from a router on the way. */
	struct packets_spec error = packets_reverse(quoted);
	error.protocol = ip4 ? BASE_PROTOCOL_ICMP : BASE_PROTOCOL_ICMP6;
	error.icmp_type = ip4 ? 3 : 1;
	error.icmp_code = 1;
	error.ttl = 64;
	if (base_rng_below(rng, 2) == 0)
		error.source[3] ^= 0x55;
	return packets_build_icmp_error(frame, size, &error, quoted, 64);
}

static size_t build_arp(uint8_t *frame)
{
	memset(frame, 0, 60);
	memset(frame, 0xff, 6);
	frame[12] = 0x08;
	frame[13] = 0x06;
	return 60;
}

void chain_traffic_make(struct packets_pool *pool, const struct chain_traffic_config *config)
{
	struct base_rng rng;
	struct traffic_flow *flows = calloc(config->flows_count, sizeof(*flows));
	struct traffic_flow *flow = NULL;
	uint64_t time_ns = 1000000000;
	uint64_t run_left = 0;
	uint8_t frame[2048];
	BASE_ASSERT(flows != NULL);
	base_rng_seed(&rng, config->seed);
	for (uint32_t i = 0; i < config->flows_count; i++)
		make_flow(&flows[i], &rng);
	packets_pool_init(pool, config->packets_count);
	for (uint32_t i = 0; i < config->packets_count; i++) {
		size_t size;
		time_ns += base_rng_below(&rng, config->gap_ns == 0 ? 1000 : config->gap_ns);
		if (run_left-- == 0) {
			run_left = base_rng_below(&rng, 6);
			flow = &flows[base_rng_below(&rng, config->flows_count)];
		}
		uint64_t draw = base_rng_below(&rng, 64);
		if (draw == 0) {
			size = build_arp(frame);
		} else if (draw <= 2 && config->icmp_errors && flow->packets > 0 &&
			   flow->spec.protocol != BASE_PROTOCOL_ESP) {
			size = build_error(frame, sizeof(frame), flow, &rng);
		} else {
			struct packets_spec spec = next_packet(flow, config, &rng);
			size = packets_build(frame, sizeof(frame), &spec);
		}
		packets_pool_set(pool, i, BASE_LINK_ETHERNET, frame, size, 0, time_ns);
	}
	free(flows);
}
