/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows begin, and flows are met in their middle. A trace that began with no flow in progress would
 * for minutes have too few long ones; so the flows of time 0 are drawn as an observer who comes at
 * a random moment finds them: in proportion to how long they last, somewhere inside, and within a
 * gap that is longer than usual. Gaps of microseconds are left out of that account.
 */
#include "traces/generate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NONE UINT32_MAX
/* 10.0.0.0/8, and 198.18.0.0/15 (RFC 2544). */
#define CLIENT_NET UINT32_C(0x0a000000)
#define SERVER_NET UINT32_C(0xc6120000)

enum {
	SERVER_BITS = 17,
	SCANNERS = 16,
	PORT_MIN = 32768,
	PORTS = 28232,      /* Linux's for clients */
	CONTROL_BYTES = 56, /* of an IP packet that opens, acknowledges or closes */
	TALK_UP_TO = 16,
	ECHO_PAYLOAD = 56,
	PARTIAL_MAX = 300,
};

static uint32_t flow_take(struct traces_gen *gen)
{
	if (gen->flows_free == NONE) {
		uint32_t count = gen->flows_capacity, capacity = count == 0 ? 4096 : count * 2;
		struct traces_gen_flow *flows =
			capacity > count ? aligned_alloc(BASE_CACHE_LINE, capacity * sizeof(*flows))
					 : NULL;
		if (flows == NULL)
			return NONE;
		if (count > 0)
			memcpy(flows, gen->flows, count * sizeof(*flows));
		free(gen->flows);
		for (uint32_t i = count; i < capacity; i++)
			flows[i].left = i + 1 < capacity ? i + 1 : NONE;
		gen->flows = flows;
		gen->queue->flows = flows;
		gen->flows_capacity = capacity;
		gen->flows_free = count;
	}
	uint32_t index = gen->flows_free;
	gen->flows_free = gen->flows[index].left;
	return index;
}

void traces_gen_flow_end(struct traces_gen *gen, uint32_t index)
{
	gen->flows[index].left = gen->flows_free;
	gen->flows_free = index;
}

/* ---- who talks to whom ---- */

static uint16_t tcp_port(struct base_rng *rng)
{
	static const uint16_t ports[16] = { 443, 443, 443, 443, 443, 443, 443, 443, 443, 80, 80, 80,
		993, 22, 8080, 25 };
	return ports[base_rng_below(rng, 16)];
}

static uint16_t udp_port(struct base_rng *rng, uint32_t packets)
{
	static const uint16_t small[8] = { 53, 53, 53, 53, 53, 53, 123, 161 };
	static const uint16_t large[8] = { 443, 443, 443, 443, 3478, 4500, 6881, 51413 };
	return packets <= 4 ? small[base_rng_below(rng, 8)] : large[base_rng_below(rng, 8)];
}

/* No two flows have the same client and port until the ports of all clients are used up; servers
 * are chosen by Zipf's law with exponent 1. */
static void set_addresses(struct traces_gen *gen, struct traces_gen_flow *flow)
{
	uint64_t serial = gen->serial++;
	unsigned int bits = gen->plan.model->client_bits;
	uint32_t host = (uint32_t)serial & ((1u << bits) - 1);
	double rank = exp2(base_rng_unit(&gen->rng) * SERVER_BITS);
	flow->client = CLIENT_NET | traces_scatter24(host, gen->salt);
	flow->server = SERVER_NET | ((uint32_t)rank - 1);
	flow->client_port = (uint16_t)(PORT_MIN + ((serial >> bits) + host * 7) % PORTS);
	flow->vlan = 0;
	if (gen->options.vlans != 0)
		flow->vlan = (uint16_t)(1 + serial % gen->options.vlans);
	flow->ip_id = (uint16_t)base_rng_u64(&gen->rng);
}

/* A scan goes the other way: from one of few outside to ever-new addresses inside. */
static void set_scan_addresses(struct traces_gen *gen, struct traces_gen_flow *flow)
{
	uint32_t serial = (uint32_t)gen->serial;
	flow->server = CLIENT_NET | traces_scatter24(serial & 0xffffff, gen->salt);
	flow->client = SERVER_NET | 0xff00 | (uint32_t)base_rng_below(&gen->rng, SCANNERS);
	flow->flags &= (uint8_t)~TRACES_GEN_IP6;
}

/* ---- sizes ---- */

/* Payloads so that data packets have `bytes` IP bytes in the mean: full ones, and others whose mean
 * is this part of it. */
static void set_payloads(
	struct traces_gen_flow *flow, double bytes, double header, double full, double part)
{
	double payload = bytes - header > 1 ? bytes - header : 1;
	double segment = full - header, partial = payload * part;
	partial = partial > PARTIAL_MAX ? PARTIAL_MAX : partial < 1 ? 1 : partial;
	double share = (payload - partial) / (segment - partial);
	share = share > 0.9999 ? 0.9999 : share;
	flow->segment = (uint16_t)segment;
	flow->partial = (uint16_t)(partial + 0.5);
	flow->full = (uint16_t)(share * 65536);
}

static void set_acks(struct traces_gen_flow *flow, double share)
{
	flow->acks = (uint16_t)(share < 0 ? 0 : share > 0.9999 ? 65535 : share * 65536);
}

/* Body packets of a connection in both directions: data, and acknowledgements in between. */
static void set_tcp_sizes(struct traces_gen *gen, struct traces_gen_flow *flow, double bytes,
	uint32_t packets, double role)
{
	static const double full_mean = TRACES_GEN_TCP_BYTES - 60, acks_min = 0.02;
	double header = 40 + (flow->flags & TRACES_GEN_TIMESTAMPS ? 12 : 0) +
			(flow->flags & TRACES_GEN_IP6 ? 20 : 0);
	double control = flow->close == TRACES_GEN_CLOSE_FIN ? 6 : 4;
	double acks = gen->plan.model->ack_share, data = bytes;
	if (packets > control)
		bytes = (bytes * packets - control * CONTROL_BYTES) / (packets - control);
	if (gen->options.ways == TRACES_WAYS_ONE) {
		/* One side shows the data and the other its acknowledgements. */
		double shown = (bytes - header) / (full_mean - header);
		shown = shown < 0.6 ? 0.6 : shown > 1 ? 1 : shown;
		data = (bytes - (1 - shown) * header) / shown;
		acks = 0.02;
		if (role >= shown) {
			flow->flags ^= TRACES_GEN_SERVER_SENDS;
			acks = 0.95;
		}
	} else {
		data = (bytes - acks * header) / (1 - acks);
		if (data > full_mean) {
			acks = (full_mean - bytes) / (full_mean - header);
			acks = acks < acks_min ? acks_min : acks;
			data = (bytes - acks * header) / (1 - acks);
		}
	}
	set_acks(flow, acks);
	set_payloads(flow, data, header, TRACES_GEN_TCP_BYTES, 0.35);
}

static void set_udp_sizes(struct traces_gen_flow *flow, double bytes)
{
	static const double acks = 0.15, ack_bytes = 68;
	double header = flow->flags & TRACES_GEN_IP6 ? 48 : 28;
	set_acks(flow, acks);
	if (flow->script == TRACES_GEN_BULK)
		bytes = (bytes - acks * ack_bytes) / (1 - acks);
	set_payloads(flow, bytes, header, TRACES_GEN_UDP_BYTES, 0.6);
}

/* ---- what it does ---- */

static void set_tcp(struct traces_gen *gen, struct traces_gen_flow *flow, uint32_t packets)
{
	const struct traces_gen_model *model = gen->plan.model;
	bool one_way = gen->options.ways == TRACES_WAYS_ONE;
	double u = base_rng_unit(&gen->rng), v = base_rng_unit(&gen->rng);
	uint32_t fin_from = one_way ? 4 : 6;
	flow->server_port = tcp_port(&gen->rng);
	flow->script = TRACES_GEN_CONNECTION;
	flow->close = TRACES_GEN_CLOSE_NONE;
	if (base_rng_unit(&gen->rng) < model->timestamps_share)
		flow->flags |= TRACES_GEN_TIMESTAMPS;
	if (packets <= 3) {
		if (u < gen->options.unanswered_share)
			flow->script = TRACES_GEN_UNANSWERED;
		else if (packets == 3 || (packets == 2 && v < model->refused_share))
			flow->script = TRACES_GEN_REFUSED;
		else
			flow->script = TRACES_GEN_STRAY;
		if (flow->script == TRACES_GEN_UNANSWERED && v < model->scan_share)
			set_scan_addresses(gen, flow);
		if (flow->script == TRACES_GEN_STRAY &&
			base_rng_unit(&gen->rng) < model->stray_rst_share)
			flow->close = TRACES_GEN_CLOSE_RST;
	} else if (packets >= fin_from && u < model->fin_share) {
		flow->close = TRACES_GEN_CLOSE_FIN;
	} else if (u < model->fin_share + model->rst_share) {
		flow->close = TRACES_GEN_CLOSE_RST;
	}
}

static void set_udp(struct traces_gen *gen, struct traces_gen_flow *flow, uint32_t packets)
{
	double u = base_rng_unit(&gen->rng), v = base_rng_unit(&gen->rng);
	flow->server_port = udp_port(&gen->rng, packets);
	flow->script = TRACES_GEN_TALK;
	if (packets == 2 && u < gen->options.icmp_error_share) {
		flow->script = TRACES_GEN_UNREACHABLE;
	} else if (packets <= 3 && u < gen->options.unanswered_share) {
		flow->script = TRACES_GEN_ONE_SIDED;
		if (v < gen->plan.model->scan_share)
			set_scan_addresses(gen, flow);
	} else if (packets > TALK_UP_TO && u < 0.7) {
		flow->script = TRACES_GEN_BULK;
	}
}

static void set_other(struct traces_gen *gen, struct traces_gen_flow *flow, double bytes)
{
	flow->script = TRACES_GEN_ECHO;
	flow->server_port = flow->client_port;
	flow->segment = ECHO_PAYLOAD;
	if (base_rng_unit(&gen->rng) < 0.3) {
		/* No ports tell these apart: the addresses must. */
		flow->script = TRACES_GEN_ESP;
		flow->server = SERVER_NET | (uint32_t)base_rng_below(&gen->rng, 1u << SERVER_BITS);
		flow->client = CLIENT_NET | traces_scatter24(gen->serial & 0xffffff, ~gen->salt);
		flow->client_port = flow->server_port = 0;
		set_payloads(flow, bytes, 28 + (flow->flags & TRACES_GEN_IP6 ? 20 : 0), 1400, 0.6);
	}
}

/* All but pace. role in [0, 1) tells which side is seen, when one is. */
static void set_up(struct traces_gen *gen, struct traces_gen_flow *flow,
	enum traces_gen_class class, uint32_t packets, unsigned int bin, double role)
{
	/* Flows of one length differ in size; of few elephants a mean is wanted all the same. */
	double spread = packets > TRACES_GEN_MEDIUM_MAX ? 0.1 : 0.5;
	double bytes = (double)gen->plan.classes[class].packet_bytes[bin] *
		       (1 + spread * (base_rng_unit(&gen->rng) - 0.5));
	*flow = (struct traces_gen_flow){
		.left = packets,
		.class = (uint8_t) class,
		.size = (uint8_t)traces_gen_size(packets),
		.sequence = { (uint32_t)base_rng_u64(&gen->rng),
			(uint32_t)base_rng_u64(&gen->rng) },
	};
	if (base_rng_unit(&gen->rng) < gen->options.ip6_share)
		flow->flags |= TRACES_GEN_IP6;
	uint64_t bits = base_rng_u64(&gen->rng);
	if ((bits & 7) < 6)
		flow->flags |= TRACES_GEN_SERVER_SENDS;
	set_addresses(gen, flow);
	switch (class) {
	case TRACES_GEN_TCP:
		set_tcp(gen, flow, packets);
		set_tcp_sizes(gen, flow, bytes, packets, role);
		break;
	case TRACES_GEN_UDP:
		set_udp(gen, flow, packets);
		set_udp_sizes(flow, bytes);
		break;
	case TRACES_GEN_OTHER:
	case TRACES_GEN_CLASSES:
		set_other(gen, flow, bytes);
		break;
	}
	/* One way, data is seen of the side that sends; of the others, either side. */
	bool server_shown = flow->script == TRACES_GEN_CONNECTION
				    ? (flow->flags & TRACES_GEN_SERVER_SENDS) != 0
				    : (bits & 8) != 0;
	if (flow->script != TRACES_GEN_UNANSWERED && flow->script != TRACES_GEN_ONE_SIDED &&
		(server_shown || flow->script == TRACES_GEN_UNREACHABLE))
		flow->flags |= TRACES_GEN_SERVER_SHOWN;
}

int traces_gen_flow_begin(struct traces_gen *gen, enum traces_gen_class class, uint64_t now_ns)
{
	const struct traces_gen_class_plan *plan = &gen->plan.classes[class];
	unsigned int bin;
	uint32_t index = flow_take(gen);
	if (index == NONE)
		return -ENOMEM;
	struct traces_gen_flow *flow = &gen->flows[index];
	uint32_t packets = traces_law_draw(&plan->length, &gen->rng, &bin);
	set_up(gen, flow, class, packets, bin, base_rng_unit(&gen->rng));
	flow->pace_ns = (float)gen->plan.model->classes[class].pace_ns *
			traces_quantiles_at(&plan->pace, (uint32_t)base_rng_u64(&gen->rng));
	gen->begun++;
	return traces_gen_queue_push(gen->queue, now_ns, index);
}

/* ---- in progress at time 0 ---- */

/* Where a flow of a class and length is met: in a pause, or in a round's gap. */
struct meeting {
	enum traces_gen_class class;
	unsigned int bin;
	bool pause;
};

/* Log-normals weighted by their value have the same shape and a median exp(sigma^2) times it. */
static float draw_long(const struct traces_quantiles *quantiles, double sigma, uint32_t bits)
{
	return (float)exp(sigma * sigma) * traces_quantiles_at(quantiles, bits);
}

static int flow_meet(struct traces_gen *gen, const struct meeting *meeting)
{
	const struct traces_gen_model *model = gen->plan.model;
	const struct traces_gen_class_model *class = &model->classes[meeting->class];
	const struct traces_gen_class_plan *plan = &gen->plan.classes[meeting->class];
	uint32_t first = plan->length.last[meeting->bin] + 1;
	uint32_t packets = first + (uint32_t)base_rng_below(&gen->rng,
					   plan->length.last[meeting->bin + 1] - first + 1);
	double burst = plan->gaps[traces_gen_size(packets)].burst;
	double window = plan->window_packets, u = base_rng_unit(&gen->rng), gap_ns;
	uint32_t index = flow_take(gen);
	if (index == NONE)
		return -ENOMEM;
	struct traces_gen_flow *flow = &gen->flows[index];
	/* Evenly spread steps, not draws (Roberts' R2 sequence): few elephants make most of the
	 * load, and they should be as different as the law says, for every seed. */
	gen->met_pace += UINT32_C(3242174889);
	gen->met_role += UINT32_C(2447445413);
	set_up(gen, flow, meeting->class, packets, meeting->bin, gen->met_role * 0x1.0p-32);
	if (meeting->pause) {
		double low = model->pause_low_ns, high = model->pause_high_ns;
		flow->sent =
			packets - 1 - (uint32_t)(u * traces_gen_pausable(meeting->class, packets));
		flow->pace_ns = (float)class->pace_ns *
				traces_quantiles_at(&plan->pace, (uint32_t)base_rng_u64(&gen->rng));
		gap_ns = sqrt(low * low + base_rng_unit(&gen->rng) * (high * high - low * low));
	} else {
		double waits = u * traces_gen_waits(burst, window, packets - 1);
		flow->sent = 1 + (uint32_t)traces_gen_waits_inverse(burst, window, waits);
		flow->pace_ns = (float)class->pace_ns *
				draw_long(&plan->pace, class->pace_sigma, gen->met_pace);
		gap_ns = (double)(flow->pace_ns * traces_gen_wait(burst, window, flow->sent) *
				  draw_long(&gen->plan.round, model->round_sigma,
					  (uint32_t)base_rng_u64(&gen->rng)));
	}
	flow->sent = flow->sent >= packets ? packets - 1 : flow->sent;
	flow->left = packets - flow->sent;
	return traces_gen_queue_push(
		gen->queue, (uint64_t)(base_rng_unit(&gen->rng) * gap_ns), index);
}

/* How many flows of a class and length are in a pause, or in a round's gap. */
static double expected(const struct traces_gen *gen, const struct meeting *meeting)
{
	const struct traces_gen_model *model = gen->plan.model;
	const struct traces_gen_class_plan *plan = &gen->plan.classes[meeting->class];
	double packets = traces_law_middle(&plan->length, meeting->bin);
	const struct traces_gen_gap_plan *gap = &plan->gaps[traces_gen_size(packets)];
	double per_s = plan->flows_per_s * traces_law_probability(&plan->length, meeting->bin);
	if (packets < 2)
		return 0;
	if (meeting->pause)
		return per_s * gap->pause_share * traces_gen_pausable(meeting->class, packets) *
		       (model->pause_low_ns + model->pause_high_ns) / 2 / 1e9;
	return per_s * gap->round_share *
	       traces_gen_waits(gap->burst, plan->window_packets, packets - 1) *
	       model->classes[meeting->class].pace_ns * plan->pace.mean * gen->plan.round.mean /
	       1e9;
}

int traces_gen_flows_meet(struct traces_gen *gen)
{
	struct meeting meeting;
	gen->met_pace = (uint32_t)base_rng_u64(&gen->rng);
	gen->met_role = (uint32_t)base_rng_u64(&gen->rng);
	for (meeting.class = 0; meeting.class < TRACES_GEN_CLASSES; meeting.class ++) {
		for (int pause = 0; pause < 2; pause++) {
			/* Systematic sampling: in every range of lengths the number is right to
			 * one, so that the load is the one asked for from the start. */
			double sum = base_rng_unit(&gen->rng);
			meeting.pause = pause != 0;
			for (meeting.bin = 0;
				meeting.bin < gen->plan.classes[meeting.class].length.bins;
				meeting.bin++) {
				for (sum += expected(gen, &meeting); sum >= 1; sum--) {
					int error = flow_meet(gen, &meeting);
					if (error)
						return error;
				}
			}
		}
	}
	return 0;
}
