/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/conntrack/actors.h"

#include <string.h>

enum step {
	STEP_OPEN,
	STEP_ANSWER,
	STEP_CONFIRM,
	STEP_TALK,
	STEP_FIN,
	STEP_FIN_BACK,
	STEP_LAST_ACK
};

struct actor {
	struct base_flow_key key;
	enum step step;
	uint32_t talks; /* packets still to send before it closes */
	uint32_t seq;
};

static uint64_t pick(struct base_rng *rng, uint64_t bound)
{
	return base_rng_below(rng, bound);
}

static void new_key(struct base_flow_key *key, struct base_rng *rng)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_TCP,
		BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_UDP, BASE_PROTOCOL_ICMP,
		BASE_PROTOCOL_SCTP };
	uint64_t address = base_rng_u64(rng);
	memset(key, 0, sizeof(*key));
	key->family = 4;
	key->protocol = protocols[pick(rng, BASE_ARRAY_COUNT(protocols))];
	memcpy(key->address[0], &address, 4);
	key->address[1][0] = 10;
	key->port[0] = (uint16_t)(address >> 32);
	key->port[1] = 80;
}

/* Half of the time the same tuple again, as clients do with few ports. */
static void begin(struct actor *actor, struct base_rng *rng, bool fresh)
{
	if (fresh || pick(rng, 2) == 0)
		new_key(&actor->key, rng);
	actor->step = STEP_OPEN;
	actor->talks = (uint32_t)pick(rng, pick(rng, 4) == 0 ? 40 : 6);
	actor->seq = (uint32_t)base_rng_u64(rng);
}

struct said {
	uint8_t tcp_flags;
	bool back; /* by the side that did not open */
};

/* What it does next; it may have ended afterwards. */
static struct said act(struct actor *actor, struct base_rng *rng)
{
	const uint8_t ack = BASE_TCP_ACK;
	bool back = pick(rng, 2) == 0;
	if (actor->key.protocol != BASE_PROTOCOL_TCP) {
		bool first = actor->step == STEP_OPEN;
		actor->step = STEP_TALK;
		if (actor->talks-- == 0)
			begin(actor, rng, false);
		return (struct said){ 0, !first && back };
	}
	switch (actor->step) {
	case STEP_OPEN:
		/* Some are never answered. */
		actor->step = pick(rng, 10) == 0 ? STEP_OPEN : STEP_ANSWER;
		return (struct said){ BASE_TCP_SYN, false };
	case STEP_ANSWER:
		actor->step = STEP_CONFIRM;
		return (struct said){ BASE_TCP_SYN | ack, true };
	case STEP_CONFIRM:
		actor->step = STEP_TALK;
		return (struct said){ ack, false };
	case STEP_TALK:
		if (actor->talks-- != 0)
			return (struct said){ ack | BASE_TCP_PSH, back };
		if (pick(rng, 5) == 0) {
			begin(actor, rng, false);
			return (struct said){ BASE_TCP_RST | ack, back };
		}
		actor->step = STEP_FIN;
		return (struct said){ ack, back };
	case STEP_FIN:
		actor->step = STEP_FIN_BACK;
		return (struct said){ BASE_TCP_FIN | ack, false };
	case STEP_FIN_BACK:
		actor->step = STEP_LAST_ACK;
		return (struct said){ BASE_TCP_FIN | ack, true };
	case STEP_LAST_ACK:
		break;
	}
	begin(actor, rng, false);
	return (struct said){ ack, false };
}

static void write_packet(struct base_packet *packet, uint8_t *header, const struct actor *actor,
	struct said said, uint32_t seq)
{
	struct base_hash_config hash = { .kind = BASE_HASH_CRC32C };
	base_packet_reset(packet);
	packet->key = actor->key;
	packet->hash = base_flow_key_hash(&packet->key, &hash);
	memset(header, 0, ACTORS_HEADER_BYTES);
	for (unsigned int i = 0; i < 4; i++)
		header[4 + i] = (uint8_t)(seq >> (24 - 8 * i));
	header[12] = 5 << 4;
	header[13] = said.tcp_flags;
	packet->data = header;
	packet->cap_len = packet->wire_len = ACTORS_HEADER_BYTES;
	packet->protocol = packet->key.protocol;
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	if (said.back)
		packet->flags |= BASE_PACKET_REVERSED;
	packet->tcp_flags = said.tcp_flags;
}

/* A related error, a later fragment, a packet without a flow, now and then. */
static void disturb(struct base_packet *packet, struct base_rng *rng)
{
	switch (pick(rng, 60)) {
	case 0:
		packet->flags |= BASE_PACKET_ICMP_ERROR;
		packet->flags &= (uint16_t)~BASE_PACKET_L4;
		break;
	case 1:
		packet->flags |= BASE_PACKET_FRAGMENT | BASE_PACKET_FRAGMENT_LATER;
		packet->flags &= (uint16_t)~BASE_PACKET_L4;
		packet->tcp_flags = 0;
		break;
	case 2:
		packet->flags = 0;
		break;
	default:
		break;
	}
}

static void fill_times(
	struct actors *actors, const struct actors_config *config, struct base_rng *rng)
{
	uint64_t now_ns = pick(rng, 2) == 0 ? 1 : UINT64_C(1700000000) * UINT64_C(1000000000);
	for (unsigned int i = 0; i < config->packets; i++) {
		now_ns += pick(rng, 2 * config->step_ns + 1);
		if (pick(rng, 200) == 0)
			now_ns += pick(rng, config->pause_ns + 1);
		uint64_t lag_ns =
			config->lag_ns != 0 && pick(rng, 10) == 0 ? pick(rng, config->lag_ns) : 0;
		actors->packets[i].time_ns = now_ns > lag_ns ? now_ns - lag_ns : now_ns;
	}
	actors->horizon_ns[config->packets] = now_ns;
	for (unsigned int i = config->packets; i-- > 0;) {
		uint64_t time_ns = actors->packets[i].time_ns;
		uint64_t later_ns = actors->horizon_ns[i + 1];
		actors->horizon_ns[i] = time_ns < later_ns ? time_ns : later_ns;
	}
}

void actors_fill(struct actors *actors, const struct actors_config *config, struct base_rng *rng)
{
	static const struct said syn = { BASE_TCP_SYN, false };
	struct actor cast[ACTORS_MAX], nobody;
	for (unsigned int i = 0; i < config->actors; i++)
		begin(&cast[i], rng, true);
	for (unsigned int i = 0; i < config->packets; i++) {
		struct base_packet *packet = &actors->packets[i];
		struct actor *actor = &cast[pick(rng, config->actors)];
		if (pick(rng, 100) < config->flood) {
			new_key(&nobody.key, rng);
			nobody.key.protocol = BASE_PROTOCOL_TCP;
			write_packet(packet, actors->headers[i], &nobody, syn, i);
			continue;
		}
		struct actor before = *actor;
		struct said said = act(actor, rng);
		/* Some are lost, or come twice. */
		write_packet(packet, actors->headers[i], &before, said, before.seq);
		if (pick(rng, 50) == 0)
			*actor = before;
		disturb(packet, rng);
	}
	fill_times(actors, config, rng);
}
