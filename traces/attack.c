/* SPDX-License-Identifier: BSD-2-Clause */
/* Traffic that is made to hurt a connection table. */
#include "traces/synth.h"

#include "traces/collide.h"
#include "traces/generate.h"

#include <errno.h>
#include <stdlib.h>

/* Clients 10.0.0.0/8, servers 198.18.0.0/15 (RFC 2544), and one victim there. */
#define CLIENT_NET UINT32_C(0x0a000000)
#define SERVER_NET UINT32_C(0xc6120000)
#define VICTIM     UINT32_C(0xc6120001)

enum {
	PORT_MIN = 1024,
	PORTS = 65536 - PORT_MIN,
	SERVER_BITS = 17,
	HTTPS_PORT = 443,
	DNS_PORT = 53,
	BUCKET_FLOWS_MAX = 1 << 16,
};

struct attack {
	struct traces_packets packets;
	struct traces_attack_options options;
	uint64_t done;
	uint64_t salt;
	struct traces_collision *collisions; /* ONE_BUCKET */
	struct traces_trace *batch;
	struct traces_synth_frame frame;
};

static const struct {
	const char *name;
	uint64_t flows, passes, period_ns;
} kinds[TRACES_ATTACKS_COUNT] = {
	[TRACES_ATTACK_SYN_FLOOD] = { "syn-flood", 1000000, 1, 0 },
	[TRACES_ATTACK_ONE_TICK] = { "one-tick", 65536, 3, UINT64_C(60000000000) },
	[TRACES_ATTACK_ONE_BUCKET] = { "one-bucket", 128, 1000, 0 },
	[TRACES_ATTACK_KEEP_ALIVE] = { "keep-alive", 65536, 10, UINT64_C(25000000000) },
	[TRACES_ATTACK_EVER_NEW] = { "ever-new", 655360, 1, 0 },
};

const char *traces_attack_name(enum traces_attack kind)
{
	return (unsigned int)kind < TRACES_ATTACKS_COUNT ? kinds[kind].name : NULL;
}

void traces_attack_options_defaults(struct traces_attack_options *options, enum traces_attack kind)
{
	*options = (struct traces_attack_options){
		.kind = kind,
		.packets_per_s = 1000000,
		.frame_bytes = 64,
		.start_ns = UINT64_C(1700000000000000000),
		.seed = 1,
	};
	if ((unsigned int)kind >= TRACES_ATTACKS_COUNT)
		return;
	options->flows = kinds[kind].flows;
	options->period_ns = kinds[kind].period_ns;
}

/* Of packet i since the first. */
static uint64_t time_of(const struct traces_attack_options *options, uint64_t i)
{
	__extension__ typedef unsigned __int128 wide;
	switch (options->kind) {
	case TRACES_ATTACK_ONE_TICK:
		return i / options->flows * options->period_ns;
	case TRACES_ATTACK_KEEP_ALIVE:
		return (uint64_t)((wide)i * options->period_ns / options->flows);
	default:
		return (uint64_t)((wide)i * 1000000000u / options->packets_per_s);
	}
}

/* Whether there is a packet i. */
static bool goes_on(const struct traces_attack_options *options, uint64_t i)
{
	if (options->packets != 0 && i >= options->packets)
		return false;
	if (options->duration_ns != 0)
		return time_of(options, i) < options->duration_ns;
	return options->packets != 0 || i < options->flows * kinds[options->kind].passes;
}

static const char *options_problem(const struct traces_attack_options *options)
{
	__extension__ typedef unsigned __int128 wide;
	wide packets = options->packets, duration = 0;
	bool periodic = options->kind == TRACES_ATTACK_ONE_TICK ||
			options->kind == TRACES_ATTACK_KEEP_ALIVE;
	if ((unsigned int)options->kind >= TRACES_ATTACKS_COUNT)
		return "unknown attack";
	if (options->flows == 0 || options->flows > TRACES_SYNTH_FLOWS_MAX)
		return "flows must be between 1 and 2^24 * 64512";
	if (options->kind == TRACES_ATTACK_ONE_BUCKET && options->flows > BUCKET_FLOWS_MAX)
		return "at most 65536 flows in one bucket";
	if (packets == 0)
		packets = (wide)options->flows * kinds[options->kind].passes;
	if (periodic && options->period_ns == 0)
		return "the period must be above 0";
	if (options->packets_per_s == 0)
		return "packets per second must be at least 1";
	if (periodic)
		duration = packets * options->period_ns / options->flows;
	else
		duration = packets * 1000000000u / options->packets_per_s;
	if (options->duration_ns != 0)
		duration = options->duration_ns;
	if (duration + options->start_ns > TRACES_TIME_NS_MAX)
		return "timestamps would pass the year 2262";
	return traces_synth_frame_problem(options->frame_bytes, BASE_PROTOCOL_UDP, false);
}

static void set_ends(struct attack *attack, uint64_t flow)
{
	uint64_t mixed = attack->salt ^ flow;
	uint64_t random = base_rng_splitmix64(&mixed);
	uint32_t client = CLIENT_NET | traces_scatter24(flow & 0xffffff, attack->salt);
	/* Flows with one address differ in the upper bits, and so in the port. */
	uint16_t port = (uint16_t)(PORT_MIN + (client + (flow >> 24)) % PORTS);
	uint32_t server = SERVER_NET | (uint32_t)(random >> (64 - SERVER_BITS));
	switch (attack->options.kind) {
	case TRACES_ATTACK_SYN_FLOOD:
		traces_synth_frame_set_ends(&attack->frame, client, port, VICTIM, HTTPS_PORT);
		break;
	case TRACES_ATTACK_ONE_BUCKET: {
		const struct traces_collision *ends = &attack->collisions[flow];
		traces_synth_frame_set_ends(&attack->frame, ends->client, ends->client_port,
			ends->server, ends->server_port);
		break;
	}
	case TRACES_ATTACK_KEEP_ALIVE:
		traces_synth_frame_set_ends(&attack->frame, client, port, server, HTTPS_PORT);
		break;
	default:
		traces_synth_frame_set_ends(&attack->frame, client, port, server, DNS_PORT);
		break;
	}
}

static int put_packet(struct attack *attack)
{
	const struct traces_attack_options *options = &attack->options;
	uint64_t flow = attack->done % options->flows;
	uint64_t state = attack->salt + flow;
	bool syn = options->kind == TRACES_ATTACK_SYN_FLOOD;
	set_ends(attack, flow);
	/* Keep-alives repeat the byte before the next one (RFC 9293, 3.8.4). */
	traces_synth_frame_set_packet(&attack->frame, (uint32_t)base_rng_splitmix64(&state),
		syn ? BASE_TCP_SYN : BASE_TCP_ACK);
	struct traces_record record = {
		.time_ns = options->start_ns + time_of(options, attack->done),
		.cap_len = options->frame_bytes,
		.wire_len = options->frame_bytes,
		.link = BASE_LINK_ETHERNET,
	};
	if (options->microseconds)
		record.time_ns -= record.time_ns % 1000;
	attack->done++;
	return traces_trace_append(attack->batch, &record, attack->frame.data);
}

static int attack_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct attack *attack = (struct attack *)packets;
	traces_trace_clear(attack->batch);
	for (int i = 0; i < TRACES_BATCH_PACKETS && goes_on(&attack->options, attack->done) &&
			attack->batch->bytes.used < TRACES_BATCH_BYTES;
		i++) {
		int error = put_packet(attack);
		if (error)
			return traces_packets_fail(packets, error, "out of memory");
	}
	*batch = traces_trace_batch(attack->batch);
	return 0;
}

static void attack_destroy(struct traces_packets *packets)
{
	struct attack *attack = (struct attack *)packets;
	traces_trace_destroy(attack->batch);
	free(attack->collisions);
	free(attack);
}

static const struct traces_packets_ops attack_ops = { attack_next, attack_destroy };

static int set_up(struct attack *attack, char *message)
{
	const struct traces_attack_options *options = &attack->options;
	bool tcp = options->kind == TRACES_ATTACK_SYN_FLOOD ||
		   options->kind == TRACES_ATTACK_KEEP_ALIVE;
	struct base_rng rng;
	base_rng_seed(&rng, options->seed);
	attack->salt = base_rng_u64(&rng);
	traces_synth_frame_init(&attack->frame, options->frame_bytes,
		tcp ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP, false, &rng);
	if (traces_trace_create(&attack->batch) != 0)
		return -ENOMEM;
	if (options->kind != TRACES_ATTACK_ONE_BUCKET)
		return 0;
	attack->collisions = calloc(options->flows, sizeof(*attack->collisions));
	if (attack->collisions == NULL)
		return -ENOMEM;
	int error =
		traces_collisions_find(attack->collisions, (uint32_t)options->flows, options, &rng);
	if (error == -EINTR)
		return error;
	if (error != 0) {
		snprintf(message, TRACES_MESSAGE_SIZE,
			"found too few flows for one bucket: take fewer flows or a smaller table");
		return -EINVAL;
	}
	return 0;
}

int traces_packets_attack(
	struct traces_packets **out, const struct traces_attack_options *options, char *message)
{
	const char *problem = options_problem(options);
	message[0] = '\0';
	if (problem != NULL) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", problem);
		return -EINVAL;
	}
	struct attack *attack = calloc(1, sizeof(*attack));
	if (attack == NULL)
		return -ENOMEM;
	attack->packets.ops = &attack_ops;
	attack->options = *options;
	int error = set_up(attack, message);
	if (error) {
		attack_destroy(&attack->packets);
		return error;
	}
	*out = &attack->packets;
	return 0;
}
