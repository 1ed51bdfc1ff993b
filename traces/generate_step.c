/* SPDX-License-Identifier: BSD-2-Clause */
/* What a flow sends next, and when. */
#include "traces/generate.h"

enum {
	CLIENT = 0,
	SERVER = 1,
	ACK_PAYLOAD = 40, /* of QUIC, to the bulk of its other side */
	REST_PAYLOAD_MIN = 8,
};

static const float touching_ns = 60, touching_spread_ns = 200;
static const float first_retransmission_ns = 1e9f; /* RFC 6298; twice as long each time */

/* ---- when ---- */

static float round_gap(struct traces_gen *gen, const struct traces_gen_flow *flow, uint32_t bits)
{
	const struct traces_gen_class_plan *class = &gen->plan.classes[flow->class];
	return flow->pace_ns * gen->stretch *
	       traces_gen_wait(class->gaps[flow->size].burst, class->window_packets, flow->sent) *
	       traces_quantiles_at(&gen->plan.round, bits);
}

/* Connections open and close by rounds; the rest of them is free. */
static bool is_settled(const struct traces_gen_flow *flow)
{
	if (flow->script == TRACES_GEN_REFUSED || flow->script == TRACES_GEN_STRAY ||
		(flow->flags & TRACES_GEN_AGAIN) != 0)
		return false;
	if (flow->script != TRACES_GEN_CONNECTION)
		return true;
	return flow->sent >= 3 && (flow->close != TRACES_GEN_CLOSE_FIN || flow->left >= 3);
}

uint64_t traces_gen_gap(struct traces_gen *gen, const struct traces_gen_flow *flow)
{
	const struct traces_gen_gap_plan *gap = &gen->plan.classes[flow->class].gaps[flow->size];
	uint64_t bits = base_rng_u64(&gen->rng);
	uint32_t kind = (uint32_t)(bits >> 32), draw = (uint32_t)bits;
	float unit = (float)draw * 0x1.0p-32f;
	if (flow->script == TRACES_GEN_UNANSWERED)
		return (uint64_t)(first_retransmission_ns * (1 << (flow->sent - 1) % 8) *
				  (0.98f + 0.04f * unit));
	if ((flow->flags & (TRACES_GEN_FRAGMENT | TRACES_GEN_SWAPPED)) != 0)
		return (uint64_t)(touching_ns + touching_spread_ns * unit);
	if (!is_settled(flow))
		return (uint64_t)round_gap(gen, flow, draw);
	if (kind < gap->touching)
		return (uint64_t)(touching_ns + touching_spread_ns * unit);
	if (kind < gap->close)
		return (uint64_t)((float)gen->plan.model->close_ns *
				  traces_quantiles_at(&gen->plan.close, draw));
	if (kind < gap->pause) {
		double low = gen->plan.model->pause_low_ns;
		return (uint64_t)(low + (gen->plan.model->pause_high_ns - low) * (double)unit);
	}
	return (uint64_t)round_gap(gen, flow, draw);
}

/* ---- TCP ---- */

static void set_segment(struct traces_gen_flow *flow, struct traces_gen_packet *packet,
	unsigned int from, uint8_t flags, uint16_t payload)
{
	*packet = (struct traces_gen_packet){
		.kind = TRACES_GEN_SEGMENT,
		.from_server = from == SERVER,
		.tcp_flags = flags,
		.payload = payload,
		.sequence = flow->sequence[from],
		.acknowledgement = flags & BASE_TCP_ACK ? flow->sequence[!from] : 0,
	};
	/* SYN and FIN count as a byte each. */
	flow->sequence[from] += payload + ((flags & (BASE_TCP_SYN | BASE_TCP_FIN)) != 0);
}

/* One way, what is not seen goes on all the same: a handshake's and a close's other half. */
static void tcp_open(struct traces_gen_flow *flow, struct traces_gen_packet *packet, bool one_way)
{
	bool server = one_way && (flow->flags & TRACES_GEN_SERVER_SHOWN) != 0;
	if (flow->sent == 0 && !server) {
		set_segment(flow, packet, CLIENT, BASE_TCP_SYN, 0);
		flow->sequence[SERVER] += one_way;
	} else if ((flow->sent == 0 && server) || (flow->sent == 1 && !one_way)) {
		flow->sequence[CLIENT] += one_way;
		set_segment(flow, packet, SERVER, BASE_TCP_SYN | BASE_TCP_ACK, 0);
	} else {
		set_segment(flow, packet, server ? SERVER : CLIENT, BASE_TCP_ACK, 0);
	}
}

static void tcp_close(struct traces_gen_flow *flow, struct traces_gen_packet *packet, bool one_way)
{
	unsigned int closer = flow->flags & TRACES_GEN_SERVER_SENDS ? SERVER : CLIENT;
	unsigned int shown = flow->flags & TRACES_GEN_SERVER_SHOWN ? SERVER : CLIENT;
	if (flow->close == TRACES_GEN_CLOSE_RST) {
		set_segment(flow, packet, one_way ? shown : CLIENT, BASE_TCP_RST | BASE_TCP_ACK, 0);
	} else if (one_way) {
		flow->sequence[!shown] += flow->left == 1;
		set_segment(flow, packet, shown,
			flow->left == 2 ? BASE_TCP_FIN | BASE_TCP_ACK : BASE_TCP_ACK, 0);
	} else if (flow->left == 1) {
		set_segment(flow, packet, closer, BASE_TCP_ACK, 0);
	} else {
		set_segment(flow, packet, flow->left == 3 ? closer : !closer,
			BASE_TCP_FIN | BASE_TCP_ACK, 0);
	}
}

/* Between 1 and twice the mean; two draws, so that the middle is likeliest. */
static uint16_t partial_payload(struct traces_gen *gen, const struct traces_gen_flow *flow)
{
	uint64_t bits = base_rng_u64(&gen->rng);
	uint32_t sum = (uint32_t)(bits & 0xffff) + (uint32_t)(bits >> 16 & 0xffff);
	uint32_t payload = 1 + (uint32_t)((uint64_t)flow->partial * sum >> 16);
	return (uint16_t)(payload < flow->segment ? payload : flow->segment);
}

static void tcp_data(struct traces_gen *gen, struct traces_gen_flow *flow,
	struct traces_gen_packet *packet, unsigned int from, uint64_t bits)
{
	double chance = (double)(bits >> 32 & 0xffffff) * 0x1.0p-24;
	bool full = (bits & 0xffff) < flow->full;
	uint16_t payload = full ? flow->segment : partial_payload(gen, flow);
	uint8_t flags = full ? BASE_TCP_ACK : BASE_TCP_ACK | BASE_TCP_PSH;
	uint32_t reserve = flow->close == TRACES_GEN_CLOSE_FIN ? 4 : 2;
	if (chance < gen->options.reorder_share && flow->left > reserve) {
		/* The one behind overtakes; this one follows at once. */
		flow->sequence[from] += flow->segment;
		set_segment(flow, packet, from, flags, flow->segment);
		flow->sequence[from] -= 2u * flow->segment;
		flow->flags |= TRACES_GEN_SWAPPED;
		return;
	}
	if (chance > 1 - gen->options.retransmit_share && flow->left > reserve)
		flow->flags |= TRACES_GEN_AGAIN;
	set_segment(flow, packet, from, flags, payload);
	flow->last_payload = payload;
}

static void tcp_body(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet)
{
	bool one_way = gen->options.ways == TRACES_WAYS_ONE;
	unsigned int sender = flow->flags & TRACES_GEN_SERVER_SENDS ? SERVER : CLIENT;
	uint64_t bits = base_rng_u64(&gen->rng);
	if ((flow->flags & TRACES_GEN_AGAIN) != 0) {
		flow->flags &= (uint8_t)~TRACES_GEN_AGAIN;
		flow->sequence[sender] -= flow->last_payload;
		set_segment(flow, packet, sender, BASE_TCP_ACK, flow->last_payload);
	} else if ((flow->flags & TRACES_GEN_SWAPPED) != 0) {
		flow->flags &= (uint8_t)~TRACES_GEN_SWAPPED;
		set_segment(flow, packet, sender, BASE_TCP_ACK, flow->segment);
		flow->sequence[sender] += flow->segment;
	} else if (flow->sent == 3 && !one_way) {
		/* The request. */
		set_segment(flow, packet, CLIENT, BASE_TCP_ACK | BASE_TCP_PSH,
			partial_payload(gen, flow));
	} else if ((bits >> 16 & 0xffff) < flow->acks) {
		unsigned int from = one_way ? sender : !sender;
		flow->sequence[!from] += one_way ? 2u * flow->segment : 0; /* unseen */
		set_segment(flow, packet, from, BASE_TCP_ACK, 0);
	} else {
		tcp_data(gen, flow, packet, sender, bits);
	}
}

static void tcp_step(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet)
{
	bool one_way = gen->options.ways == TRACES_WAYS_ONE;
	unsigned int shown = flow->flags & TRACES_GEN_SERVER_SHOWN ? SERVER : CLIENT;
	uint32_t opening = one_way ? (shown == SERVER ? 1 : 2) : 3;
	uint32_t closing = one_way ? 2 : 3;
	if (flow->close != TRACES_GEN_CLOSE_FIN)
		closing = flow->close == TRACES_GEN_CLOSE_RST ? 1 : 0;
	switch ((enum traces_gen_script)flow->script) {
	case TRACES_GEN_UNANSWERED:
		set_segment(flow, packet, CLIENT, BASE_TCP_SYN, 0);
		flow->sequence[CLIENT]--; /* the same SYN again */
		break;
	case TRACES_GEN_REFUSED:
		if (flow->left > 1)
			tcp_open(flow, packet, one_way);
		else
			set_segment(flow, packet,
				one_way           ? shown
				: flow->sent == 1 ? SERVER
						  : CLIENT,
				BASE_TCP_RST | BASE_TCP_ACK, 0);
		break;
	case TRACES_GEN_STRAY:
		set_segment(flow, packet, flow->sent & 1 && !one_way ? !shown : shown,
			flow->close == TRACES_GEN_CLOSE_RST ? BASE_TCP_RST : BASE_TCP_ACK, 0);
		break;
	default:
		if (flow->sent < opening)
			tcp_open(flow, packet, one_way);
		else if (flow->left <= closing)
			tcp_close(flow, packet, one_way);
		else
			tcp_body(gen, flow, packet);
		break;
	}
}

/* ---- UDP and others ---- */

static void udp_step(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet)
{
	uint64_t bits = base_rng_u64(&gen->rng);
	bool full = (bits & 0xffff) < flow->full, acks = (bits >> 16 & 0xffff) < flow->acks;
	bool server_sends = (flow->flags & TRACES_GEN_SERVER_SENDS) != 0;
	double chance = (double)(bits >> 32 & 0xffffff) * 0x1.0p-24;
	*packet = (struct traces_gen_packet){ .kind = TRACES_GEN_DATAGRAM };
	packet->payload = full ? flow->segment : partial_payload(gen, flow);
	if ((flow->flags & TRACES_GEN_FRAGMENT) != 0) {
		flow->flags &= (uint8_t)~TRACES_GEN_FRAGMENT;
		packet->kind = TRACES_GEN_FRAGMENT_REST;
		packet->payload = flow->last_payload;
		packet->from_server = server_sends;
	} else if (flow->script == TRACES_GEN_BULK) {
		packet->from_server = server_sends != acks;
		packet->payload = acks ? ACK_PAYLOAD : packet->payload;
	} else if (flow->script == TRACES_GEN_TALK) {
		packet->from_server = (flow->sent & 1) != 0;
	} else if (flow->script == TRACES_GEN_UNREACHABLE &&
		   (flow->left == 1 || gen->options.ways == TRACES_WAYS_ONE)) {
		packet->kind = TRACES_GEN_ICMP_ERROR;
		packet->from_server = true;
	}
	if (gen->options.ways == TRACES_WAYS_ONE)
		packet->from_server = (flow->flags & TRACES_GEN_SERVER_SHOWN) != 0;
	if (packet->kind == TRACES_GEN_DATAGRAM && packet->from_server == server_sends &&
		flow->left > 1 && (flow->flags & TRACES_GEN_IP6) == 0 &&
		flow->script != TRACES_GEN_UNREACHABLE && chance < gen->options.fragment_share) {
		flow->flags |= TRACES_GEN_FRAGMENT;
		packet->kind = TRACES_GEN_FRAGMENT_FIRST;
		packet->rest =
			packet->payload < REST_PAYLOAD_MIN ? REST_PAYLOAD_MIN : packet->payload;
		packet->payload = TRACES_GEN_MTU - 20 - 8;
		flow->last_payload = packet->rest;
	}
}

static void other_step(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet)
{
	bool one_way = gen->options.ways == TRACES_WAYS_ONE;
	*packet = (struct traces_gen_packet){
		.kind = TRACES_GEN_ICMP_ECHO,
		.payload = flow->segment,
		.from_server = (flow->sent & 1) != 0,
		.sequence = flow->sent / 2,
	};
	if (flow->script == TRACES_GEN_ESP) {
		uint64_t bits = base_rng_u64(&gen->rng);
		packet->kind = TRACES_GEN_ESP_PACKET;
		packet->from_server = (bits >> 16 & 3) != 0;
		packet->payload =
			(bits & 0xffff) < flow->full ? flow->segment : partial_payload(gen, flow);
		packet->sequence = flow->sent;
	}
	if (one_way)
		packet->from_server = (flow->flags & TRACES_GEN_SERVER_SHOWN) != 0;
}

void traces_gen_step(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet)
{
	switch ((enum traces_gen_class)flow->class) {
	case TRACES_GEN_TCP:
		tcp_step(gen, flow, packet);
		break;
	case TRACES_GEN_UDP:
		udp_step(gen, flow, packet);
		break;
	case TRACES_GEN_OTHER:
	case TRACES_GEN_CLASSES:
		other_step(gen, flow, packet);
		break;
	}
}
