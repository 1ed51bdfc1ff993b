/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Made traffic. Flow i has a client 10.x.y.z (2001:db8::10.x.y.z) that no other flow shares its
 * port with, and one of the servers 198.18.0.0/15 (2001:db8:1::/112). Packets go from client to
 * server only. TCP packets are data of an established connection: flags ACK and PSH, sequence
 * numbers that follow one another, no SYN and no FIN.
 */
#include "traces/trace.h"

#include "base/checksum.h"
#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	ETHERNET_BYTES = 14,
	IP4_BYTES = 20,
	IP6_BYTES = 40,
	UDP_BYTES = 8,
	TCP_BYTES = 20,
	FRAME_BYTES_MIN = 64,
	IP_BYTES_MAX = 65535,
	CLIENT_PORT_MIN = 1024,
	CLIENT_PORTS = 65536 - CLIENT_PORT_MIN,
	CLIENT_ADDRESS_BITS = 24,
	REDRAWS_MAX = 64,
};

static const uint64_t flows_max = (uint64_t)CLIENT_PORTS << CLIENT_ADDRESS_BITS;

struct zipf {
	double exponent;
	double n;
	double h_first, h_last, threshold;
};

struct synth {
	const struct traces_synth_options *options;
	struct base_rng rng;
	struct zipf zipf;
	uint32_t *packets_sent; /* per flow, for TCP sequence numbers */
	uint64_t salt;
	size_t ip_bytes, l4_bytes;
	size_t payload_offset, payload_len;
	uint32_t payload_sum; /* checksum of the payload, which is the same in all packets */
	uint8_t frame[ETHERNET_BYTES + IP_BYTES_MAX + IP6_BYTES];
};

void traces_synth_options_defaults(struct traces_synth_options *options)
{
	*options = (struct traces_synth_options){
		.flows = 1024,
		.packets = 1000000,
		.run_length = 1,
		.order = TRACES_ORDER_ROUND_ROBIN,
		.zipf_exponent = 1.0,
		.frame_bytes = 128,
		.packets_per_s = 1000000,
		.start_ns = UINT64_C(1700000000000000000),
		.seed = 1,
		.protocol = BASE_PROTOCOL_UDP,
	};
}

/*
 * Zipf by rejection-inversion (Hoermann and Derflinger 1996): a draw costs the same for any number
 * of flows and needs no table. H is the integral of x^-s, helped near s = 1 where it is a log.
 */
static double zipf_h_integral(const struct zipf *zipf, double x)
{
	double log_x = log(x), t = (1 - zipf->exponent) * log_x;
	return (fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2) * log_x;
}

static double zipf_h_inverse(const struct zipf *zipf, double y)
{
	double t = y * (1 - zipf->exponent);
	if (t < -1)
		t = -1; /* rounding at the far end */
	return exp((fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2) * y);
}

static void zipf_init(struct zipf *zipf, double exponent, uint64_t n)
{
	zipf->exponent = exponent;
	zipf->n = (double)n;
	zipf->h_first = zipf_h_integral(zipf, 1.5) - 1;
	zipf->h_last = zipf_h_integral(zipf, zipf->n + 0.5);
	zipf->threshold = 2 - zipf_h_inverse(zipf, zipf_h_integral(zipf, 2.5) - pow(2, -exponent));
}

/* Rank in [0, n). */
static uint64_t zipf_draw(const struct zipf *zipf, struct base_rng *rng)
{
	for (;;) {
		double u = zipf->h_last + base_rng_unit(rng) * (zipf->h_first - zipf->h_last);
		double x = zipf_h_inverse(zipf, u);
		double k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		if (k > zipf->n)
			k = zipf->n;
		if (k - x <= zipf->threshold ||
			u >= zipf_h_integral(zipf, k + 0.5) - pow(k, -zipf->exponent))
			return (uint64_t)k - 1;
	}
}

static uint64_t mix64(uint64_t value)
{
	return base_rng_splitmix64(&value);
}

/* A seeded bijection on 24 bits, so that neighbours in number are not neighbours in address. */
static uint32_t scatter24(uint32_t value, uint64_t salt)
{
	value ^= (uint32_t)salt & 0xffffff;
	for (int i = 0; i < 3; i++) {
		value = value * UINT32_C(0x9e3779b1) & 0xffffff;
		value ^= value >> 12;
	}
	return value;
}

/* Fill in what differs between flows. */
static void frame_set_flow(struct synth *synth, uint64_t flow)
{
	const struct traces_synth_options *options = synth->options;
	uint32_t address = scatter24(flow & 0xffffff, synth->salt);
	uint64_t mixed = mix64(synth->salt ^ address);
	/* Flows that share an address differ in `flow >> 24`, and so in the port. */
	uint32_t port = CLIENT_PORT_MIN +
			(uint32_t)((mixed + (flow >> CLIENT_ADDRESS_BITS)) % CLIENT_PORTS);
	uint64_t server = mix64(mixed + flow);
	uint8_t client[4] = { 10, (uint8_t)(address >> 16), (uint8_t)(address >> 8),
		(uint8_t)address };
	uint8_t *ip = synth->frame + ETHERNET_BYTES;
	uint8_t *l4 = ip + synth->ip_bytes;
	if (options->ip6) {
		memcpy(ip + 20, client, 4);
		ip[38] = (uint8_t)(server >> 8);
		ip[39] = (uint8_t)server;
	} else {
		memcpy(ip + 12, client, 4);
		ip[17] = (uint8_t)(18 + (server >> 16 & 1));
		ip[18] = (uint8_t)(server >> 8);
		ip[19] = (uint8_t)server;
		ip[10] = ip[11] = 0;
		uint16_t sum = base_checksum_finish(base_checksum_add(ip, IP4_BYTES, 0));
		memcpy(ip + 10, &sum, 2);
	}
	l4[0] = (uint8_t)(port >> 8);
	l4[1] = (uint8_t)port;
}

static void put32(uint8_t *bytes, uint32_t value)
{
	value = __builtin_bswap32(value);
	memcpy(bytes, &value, sizeof(value));
}

/* Fill in what differs between packets of a flow, and the transport checksum. */
static void frame_set_packet(struct synth *synth, uint64_t flow)
{
	const struct traces_synth_options *options = synth->options;
	uint8_t *ip = synth->frame + ETHERNET_BYTES;
	uint8_t *l4 = ip + synth->ip_bytes;
	size_t checksum_at = 6;
	if (synth->packets_sent != NULL) {
		checksum_at = 16;
		uint32_t sent = synth->packets_sent[flow]++;
		put32(l4 + 4, (uint32_t)mix64(flow) + sent * (uint32_t)synth->payload_len);
	}
	memset(l4 + checksum_at, 0, 2);
	uint32_t l4_len = (uint32_t)(synth->l4_bytes + synth->payload_len);
	uint8_t pseudo[4] = { (uint8_t)(l4_len >> 8), (uint8_t)l4_len, 0, options->protocol };
	uint32_t sum = base_checksum_add(pseudo, sizeof(pseudo), synth->payload_sum);
	sum = options->ip6 ? base_checksum_add(ip + 8, 32, sum)
			   : base_checksum_add(ip + 12, 8, sum);
	uint16_t checksum = base_checksum_finish(base_checksum_add(l4, synth->l4_bytes, sum));
	if (checksum == 0 && options->protocol == BASE_PROTOCOL_UDP)
		checksum = 0xffff; /* 0 would say "none" (RFC 768) */
	memcpy(l4 + checksum_at, &checksum, 2);
}

static void put16(uint8_t *bytes, size_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

/* What all frames share. */
static void frame_init(struct synth *synth)
{
	static const uint8_t addresses[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 };
	static const uint8_t network6[] = { 0x20, 0x01, 0x0d, 0xb8 };
	const struct traces_synth_options *options = synth->options;
	uint8_t *frame = synth->frame, *ip = frame + ETHERNET_BYTES;
	size_t ip_len = options->frame_bytes - ETHERNET_BYTES;
	memcpy(frame, addresses, sizeof(addresses));
	put16(frame + 12, options->ip6 ? 0x86dd : 0x0800);
	if (options->ip6) {
		ip[0] = 0x60;
		put16(ip + 4, ip_len - IP6_BYTES);
		ip[6] = options->protocol;
		ip[7] = 64;
		memcpy(ip + 8, network6, sizeof(network6));
		memcpy(ip + 24, network6, sizeof(network6));
		ip[29] = 1; /* 2001:db8:1:: */
	} else {
		ip[0] = 0x45;
		put16(ip + 2, ip_len);
		ip[6] = 0x40; /* don't fragment */
		ip[8] = 64;
		ip[9] = options->protocol;
		ip[16] = 198;
	}
	uint8_t *l4 = ip + synth->ip_bytes;
	put16(l4 + 2, options->protocol == BASE_PROTOCOL_TCP ? 443 : 53);
	if (options->protocol == BASE_PROTOCOL_TCP) {
		put32(l4 + 8, 1);
		l4[12] = TCP_BYTES / 4 << 4;
		l4[13] = BASE_TCP_ACK | BASE_TCP_PSH;
		put16(l4 + 14, 65535);
	} else {
		put16(l4 + 4, synth->l4_bytes + synth->payload_len);
	}
	uint8_t *payload = frame + synth->payload_offset;
	for (size_t i = 0; i < synth->payload_len; i++)
		payload[i] = (uint8_t)base_rng_u64(&synth->rng);
	/* The headers are of even length: sums of parts add up. */
	synth->payload_sum = base_checksum_add(payload, synth->payload_len, 0);
}

/* The flow of the next run, never that of the run before unless there is only one. */
static uint64_t next_flow(struct synth *synth, uint64_t previous, bool first)
{
	uint64_t flows = synth->options->flows;
	if (flows == 1)
		return 0;
	switch (synth->options->order) {
	case TRACES_ORDER_UNIFORM: {
		if (first)
			return base_rng_below(&synth->rng, flows);
		uint64_t other = base_rng_below(&synth->rng, flows - 1);
		return other + (other >= previous);
	}
	case TRACES_ORDER_ZIPF:
		/* Steep laws draw the first rank nearly always: give up, take a neighbour. */
		for (int i = 0; i < REDRAWS_MAX; i++) {
			uint64_t flow = zipf_draw(&synth->zipf, &synth->rng);
			if (first || flow != previous)
				return flow;
		}
		return (previous + 1) % flows;
	case TRACES_ORDER_ROUND_ROBIN:
	default:
		return first || previous + 1 == flows ? 0 : previous + 1;
	}
}

static int generate(struct synth *synth, struct traces_trace *trace)
{
	const struct traces_synth_options *options = synth->options;
	uint64_t flow = 0, left_in_run = 0;
	__extension__ typedef unsigned __int128 wide;
	for (uint64_t i = 0; i < options->packets; i++) {
		if (left_in_run == 0) {
			flow = next_flow(synth, flow, i == 0);
			frame_set_flow(synth, flow);
			left_in_run = options->run_length;
		}
		left_in_run--;
		frame_set_packet(synth, flow);
		struct traces_record record = {
			.time_ns = options->start_ns +
				   (uint64_t)((wide)i * 1000000000u / options->packets_per_s),
			.cap_len = options->frame_bytes,
			.wire_len = options->frame_bytes,
			.link = BASE_LINK_ETHERNET,
		};
		int error = traces_trace_append(trace, &record, synth->frame);
		if (error)
			return error;
	}
	return 0;
}

static const char *options_problem(const struct traces_synth_options *options)
{
	if (options->flows == 0 || options->flows > flows_max)
		return "flows must be between 1 and 2^24 * 64512";
	if (options->protocol != BASE_PROTOCOL_UDP && options->protocol != BASE_PROTOCOL_TCP)
		return "protocol must be UDP or TCP";
	if (options->protocol == BASE_PROTOCOL_TCP && options->flows > UINT32_MAX)
		return "at most 2^32 flows with TCP";
	if (options->run_length == 0)
		return "run length must be at least 1";
	if (options->packets_per_s == 0)
		return "packets per second must be at least 1";
	if ((unsigned int)options->order > TRACES_ORDER_ZIPF)
		return "unknown order";
	if (options->order == TRACES_ORDER_ZIPF &&
		!(options->zipf_exponent > 0 && options->zipf_exponent <= 10))
		return "Zipf exponent must be above 0 and at most 10";
	uint32_t frame_max = ETHERNET_BYTES + IP_BYTES_MAX;
	if (options->frame_bytes < FRAME_BYTES_MIN || options->frame_bytes > frame_max)
		return "frame bytes must be between 64 and 65549";
	if (options->ip6 && options->protocol == BASE_PROTOCOL_TCP &&
		options->frame_bytes < ETHERNET_BYTES + IP6_BYTES + TCP_BYTES)
		return "TCP over IPv6 needs frames of at least 74 bytes";
	if (options->packets > SIZE_MAX / 8 / frame_max)
		return "too many packets";
	__extension__ typedef unsigned __int128 wide;
	if ((wide)options->packets * 1000000000u / options->packets_per_s + options->start_ns >
		TRACES_TIME_NS_MAX)
		return "timestamps would pass the year 2262";
	return NULL;
}

int traces_synth_generate(
	struct traces_trace **out, const struct traces_synth_options *options, char *message)
{
	message[0] = '\0';
	const char *problem = options_problem(options);
	if (problem != NULL) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", problem);
		return -EINVAL;
	}
	bool tcp = options->protocol == BASE_PROTOCOL_TCP;
	struct synth *synth = calloc(1, sizeof(*synth));
	struct traces_trace *trace = NULL;
	int error = synth != NULL ? traces_trace_create(&trace) : -ENOMEM;
	if (error)
		goto out;
	synth->options = options;
	base_rng_seed(&synth->rng, options->seed);
	synth->salt = base_rng_u64(&synth->rng);
	synth->ip_bytes = options->ip6 ? IP6_BYTES : IP4_BYTES;
	synth->l4_bytes = tcp ? TCP_BYTES : UDP_BYTES;
	synth->payload_offset = ETHERNET_BYTES + synth->ip_bytes + synth->l4_bytes;
	synth->payload_len = options->frame_bytes - synth->payload_offset;
	if (options->order == TRACES_ORDER_ZIPF)
		zipf_init(&synth->zipf, options->zipf_exponent, options->flows);
	if (tcp)
		synth->packets_sent = calloc(options->flows, sizeof(*synth->packets_sent));
	if ((tcp && synth->packets_sent == NULL) ||
		traces_buffer_reserve_exact(
			&trace->bytes, options->packets * options->frame_bytes) != 0 ||
		traces_buffer_reserve_exact(
			&trace->records, options->packets * sizeof(struct traces_record)) != 0) {
		error = -ENOMEM;
		goto out;
	}
	frame_init(synth);
	error = generate(synth, trace);
out:
	if (synth != NULL)
		free(synth->packets_sent);
	free(synth);
	if (error) {
		snprintf(message, TRACES_MESSAGE_SIZE, "out of memory");
		traces_trace_destroy(trace);
		return error;
	}
	*out = trace;
	return 0;
}
