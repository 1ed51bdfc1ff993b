/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: the parts of the traffic generator (traces_packets_generate).
 *
 * generate_model.c   the parameters, one table, with their sources
 * generate_law.c     distributions: flow lengths, gaps
 * generate_plan.c    a model at one offered load: rates, sizes, pauses, calibrated in closed form
 * generate_flow.c    flows begin, or are met in their middle when the trace begins
 * generate_step.c    what a flow sends next, and when
 * generate_frame.c   that as bytes
 * generate_queue.c   which flow is next
 * generate.c         the loop and the stream
 *
 * Time inside is nanoseconds since the trace's start. Everything random comes from one generator,
 * in an order that depends on the options alone: same options, same bytes.
 */
#pragma once

#include "base/rng.h"
#include "traces/packets.h"

/* ---- distributions ------------------------------------------------------------------------- */

/* Part of a mixture: uniform on (0, scale], or log-normal with exp(mu) = scale. */
struct traces_law_term {
	double weight;
	double sigma; /* 0: uniform */
	double scale;
};

struct traces_law_mixture {
	const struct traces_law_term *terms;
	unsigned int count;
};

enum { TRACES_LAW_BINS_MAX = 384, TRACES_LAW_GUIDES = 256, TRACES_QUANTILES = 1024 };

/* P(X <= x) of a mixture whose weights may sum to anything above 0. */
double traces_law_mixture_cdf(const struct traces_law_mixture *mixture, double x);
/* x with P(X <= x) = p, 0 < p < 1. */
double traces_law_mixture_quantile(const struct traces_law_mixture *mixture, double p);

/*
 * Whole numbers 1..max: a mixture, rounded up, given that it is at most max. Exact up to 32, above
 * that in 16 bins per octave, uniform inside a bin.
 */
struct traces_law {
	unsigned int bins;
	uint32_t last[TRACES_LAW_BINS_MAX + 1]; /* bin k holds last[k] + 1 .. last[k + 1] */
	double below[TRACES_LAW_BINS_MAX + 1];  /* P(bin < k) */
	uint16_t guide[TRACES_LAW_GUIDES];      /* first bin to look at, by the top bits */
};

void traces_law_build(
	struct traces_law *law, const struct traces_law_mixture *mixture, uint32_t max);
/* Let `share` of the numbers be short instead: 1 (70 of 100) or 2. */
void traces_law_shorten(struct traces_law *law, double share);
/* Multiply the probability of numbers above `above` by factor; the sum before it is 1 again. */
double traces_law_tilt(struct traces_law *law, uint32_t above, double factor);
double traces_law_mean(const struct traces_law *law);
static inline double traces_law_probability(const struct traces_law *law, unsigned int bin)
{
	return law->below[bin + 1] - law->below[bin];
}
/* Mean of the numbers in a bin. */
static inline double traces_law_middle(const struct traces_law *law, unsigned int bin)
{
	return ((double)law->last[bin] + 1 + law->last[bin + 1]) / 2;
}
uint32_t traces_law_draw(const struct traces_law *law, struct base_rng *rng, unsigned int *bin);

/* Log-normal with median 1 as quantiles; cut at the outermost 1/2048. */
struct traces_quantiles {
	float value[TRACES_QUANTILES + 1];
	double mean;
};

void traces_quantiles_build(struct traces_quantiles *quantiles, double sigma);
/* From 32 random bits. */
static inline float traces_quantiles_at(const struct traces_quantiles *quantiles, uint32_t bits)
{
	const float *value = &quantiles->value[bits >> 22];
	return value[0] + (value[1] - value[0]) * ((float)(bits & 0x3fffff) * 0x1.0p-22f);
}

/* ---- the model ----------------------------------------------------------------------------- */

enum traces_gen_class {
	TRACES_GEN_TCP,
	TRACES_GEN_UDP,
	TRACES_GEN_OTHER, /* ICMP echo, ESP */
	TRACES_GEN_CLASSES
};

/* Flows by length, for the gaps between their packets. */
enum { TRACES_GEN_SMALL_MAX = 16, TRACES_GEN_MEDIUM_MAX = 1024, TRACES_GEN_SIZES = 3 };

/* How the gap before a flow's next packet is chosen; what is left is a round trip's gap. */
struct traces_gen_gaps {
	double touching; /* behind the packet before, as a full queue upstream leaves them */
	double close;    /* in the same burst, microseconds */
	double pause;    /* seconds; relative: scaled to meet packets_per_insertion */
};

struct traces_gen_class_model {
	double flow_share;
	struct traces_law_mixture length; /* packets per flow */
	double short_share;               /* of flows, on top of the law: one or two packets */
	struct traces_law_mixture bytes;  /* IP bytes per flow; count 0: frame_bytes in all */
	double pace_ns;                   /* median of a flow's round trip, or its period */
	double pace_sigma;
	double arrival_cv; /* of the time between flows: 1 is Poisson, above it Weibull */
	struct traces_gen_gaps gaps[TRACES_GEN_SIZES];
};

struct traces_gen_model {
	const char *name;
	struct traces_gen_class_model classes[TRACES_GEN_CLASSES];
	uint32_t length_max;          /* flows are cut here */
	double frame_bytes;           /* mean on Ethernet, without checksum */
	double packets_per_insertion; /* with 5 s idle timeout; 0: no pauses */
	double close_ns, close_sigma;
	double round_sigma;
	double pause_low_ns, pause_high_ns;
	double window_packets; /* most packets that a flow sends per round trip */
	bool one_way;
	unsigned int client_bits; /* 2^bits clients */
	double ip6_share;

	/* TCP */
	double scan_share;       /* of unanswered flows: from few addresses to ever-new ones */
	double unanswered_share; /* of flows of one to three packets: SYNs without answer */
	double refused_share;    /* of the other flows of two packets: SYN and RST */
	double stray_rst_share;  /* of what is left of those: a lone RST */
	double fin_share, rst_share;
	double retransmit_share, reorder_share; /* of data packets */
	double ack_share;                       /* of packets between handshake and close */
	double timestamps_share;

	/* UDP */
	double fragment_share;   /* of IPv4 data packets that come in two fragments */
	double icmp_error_share; /* of flows of two packets: answered by port unreachable */

	uint32_t snaplen;
	enum base_link link;
};

/* A preset's model, by enum traces_preset; NULL for presets that are no flow model. */
const struct traces_gen_model *traces_gen_model_of(enum traces_preset preset);

/* ---- which flow is next -------------------------------------------------------------------- */

enum { TRACES_GEN_SLOTS = 1024, TRACES_GEN_CHUNK_EVENTS = 31 };

struct traces_gen_event {
	uint64_t time_ns;
	uint32_t flow;
	uint32_t reserved;
};

struct traces_gen_chunk {
	uint32_t next, count;
	uint64_t reserved;
	struct traces_gen_event events[TRACES_GEN_CHUNK_EVENTS];
};

struct traces_gen_queue {
	struct traces_gen_event *heap; /* slots before `slot` */
	uint32_t heap_count, heap_capacity;
	uint64_t count;      /* events in all */
	uint64_t slot;       /* the first whose events are not in the heap */
	uint64_t turn;       /* that the near wheel holds */
	uint64_t later_turn; /* earliest in `later` */
	uint64_t near_marks[TRACES_GEN_SLOTS / 64], far_marks[TRACES_GEN_SLOTS / 64];
	uint32_t near[TRACES_GEN_SLOTS], far[TRACES_GEN_SLOTS], later; /* lists of chunks */
	struct traces_gen_chunk *chunks;
	uint32_t chunks_count, chunk_free;
	const void *flows; /* of 64 bytes each, to prefetch */
};

int traces_gen_queue_create(struct traces_gen_queue **out);
void traces_gen_queue_destroy(struct traces_gen_queue *queue);
/* time_ns is not before the event taken last. -ENOMEM. */
int traces_gen_queue_push(struct traces_gen_queue *queue, uint64_t time_ns, uint32_t flow);
/* Earliest event; time UINT64_MAX when there is none. -ENOMEM. */
int traces_gen_queue_top(struct traces_gen_queue *queue, struct traces_gen_event *event);
void traces_gen_queue_pop(struct traces_gen_queue *queue);
/* The top's flow comes again at time_ns, not earlier. -ENOMEM. */
int traces_gen_queue_move(struct traces_gen_queue *queue, uint64_t time_ns);

/* ---- a model at one load ------------------------------------------------------------------- */

struct traces_gen_gap_plan {
	/* The kind of gap by 32 random bits: below each of these, else a round's. */
	uint32_t touching, close, pause;
	double burst;       /* mean packets between gaps that end a burst */
	double round_share; /* probability of a round's gap */
	double pause_share;
};

struct traces_gen_class_plan {
	struct traces_law length;
	double share; /* of flows */
	double flows_per_s;
	double window_packets; /* most packets that a flow sends per round trip */
	struct traces_quantiles pace;
	struct traces_gen_gap_plan gaps[TRACES_GEN_SIZES];
	float packet_bytes[TRACES_LAW_BINS_MAX]; /* mean IP bytes by length */
};

struct traces_gen_plan {
	const struct traces_gen_model *model;
	double packets_per_s;
	double flows_per_s;
	double flow_packets; /* mean */
	double frame_bytes;  /* mean on Ethernet, as planned */
	struct traces_gen_class_plan classes[TRACES_GEN_CLASSES];
	struct traces_quantiles close, round;
};

/* IP bytes of full packets: TCP, and QUIC's usual datagram. */
enum { TRACES_GEN_TCP_BYTES = 1500, TRACES_GEN_UDP_BYTES = 1278 };
/* Frame bytes that a load in bits counts on top: preamble, checksum, gap. */
enum { TRACES_GEN_OVERHEAD_BYTES = 24 };

/* -EINVAL with a message when the load and the flows asked for exclude one another. */
int traces_gen_plan_make(struct traces_gen_plan *plan, const struct traces_gen_model *model,
	const struct traces_generate_options *options, char *message);
/* Gaps of a flow that may be a pause: not within handshakes and closes. */
double traces_gen_pausable(enum traces_gen_class class, double packets);
/* 0, 1, 2 for small, medium, large. */
static inline unsigned int traces_gen_size(double packets)
{
	return (packets > TRACES_GEN_SMALL_MAX) + (packets > TRACES_GEN_MEDIUM_MAX);
}
/* Share of its pace that a flow waits before its next burst: its window grows by what it sent. */
static inline float traces_gen_wait(double burst, double window, uint32_t sent)
{
	float grown = (float)(sent < window ? sent : window);
	return grown <= (float)burst ? 1 : (float)burst / grown;
}
/* The sum of these over packets 1..gaps, and the packet at which it reaches a value. */
double traces_gen_waits(double burst, double window, double gaps);
double traces_gen_waits_inverse(double burst, double window, double waits);

/* A seeded bijection on 24 bits, so that neighbours in number are not neighbours in address. */
static inline uint32_t traces_scatter24(uint32_t value, uint64_t salt)
{
	value ^= (uint32_t)salt & 0xffffff;
	for (int i = 0; i < 3; i++) {
		value = value * UINT32_C(0x9e3779b1) & 0xffffff;
		value ^= value >> 12;
	}
	return value;
}

/* ---- flows --------------------------------------------------------------------------------- */

enum traces_gen_script {
	TRACES_GEN_CONNECTION,  /* TCP: handshake, data, close */
	TRACES_GEN_UNANSWERED,  /* TCP: SYNs only */
	TRACES_GEN_REFUSED,     /* TCP: SYN, RST */
	TRACES_GEN_STRAY,       /* TCP: acknowledgements or, closed by RST, resets */
	TRACES_GEN_TALK,        /* UDP: one side, then the other */
	TRACES_GEN_ONE_SIDED,   /* UDP: the client only */
	TRACES_GEN_BULK,        /* UDP: one side sends, the other acknowledges */
	TRACES_GEN_UNREACHABLE, /* UDP, answered by an ICMP error */
	TRACES_GEN_ECHO,
	TRACES_GEN_ESP
};

enum traces_gen_close { TRACES_GEN_CLOSE_NONE, TRACES_GEN_CLOSE_RST, TRACES_GEN_CLOSE_FIN };

enum traces_gen_flag {
	TRACES_GEN_IP6 = 1 << 0,
	TRACES_GEN_TIMESTAMPS = 1 << 1,
	TRACES_GEN_SERVER_SENDS = 1 << 2, /* the bulk of the data */
	TRACES_GEN_SERVER_SHOWN = 1 << 3, /* one way: the side whose packets are seen */
	TRACES_GEN_AGAIN = 1 << 4,        /* the last data packet comes once more */
	TRACES_GEN_SWAPPED = 1 << 5,      /* a segment was sent before the one in front of it */
	TRACES_GEN_FRAGMENT = 1 << 6,     /* the rest of a datagram is still to come */
};

/* A flow in progress: one cache line. */
struct traces_gen_flow {
	uint32_t client, server; /* IPv4 addresses; IPv6: their last 32 bits */
	uint16_t client_port, server_port;
	uint32_t left; /* packets still to come; free flows: next free one */
	uint32_t sent;
	uint32_t sequence[2]; /* next byte of client, server */
	float pace_ns;
	uint16_t full;         /* data packets that are full, of 65536 */
	uint16_t acks;         /* packets that only acknowledge, of 65536 */
	uint16_t segment;      /* payload of a full packet */
	uint16_t partial;      /* mean payload of the others */
	uint16_t last_payload; /* of the last data packet, or of a datagram's rest */
	uint16_t ip_id;
	uint16_t vlan;
	uint8_t class, size; /* the gaps' */
	uint8_t script;      /* enum traces_gen_script */
	uint8_t close;       /* enum traces_gen_close */
	uint8_t flags;       /* enum traces_gen_flag */
	uint8_t reserved[5];
} BASE_ALIGNED(64);
static_assert(sizeof(struct traces_gen_flow) == 64, "one cache line");

/* ---- packets ------------------------------------------------------------------------------- */

enum traces_gen_kind {
	TRACES_GEN_SEGMENT,        /* TCP */
	TRACES_GEN_DATAGRAM,       /* UDP, whole */
	TRACES_GEN_FRAGMENT_FIRST, /* UDP */
	TRACES_GEN_FRAGMENT_REST,
	TRACES_GEN_ICMP_ERROR,
	TRACES_GEN_ICMP_ECHO,
	TRACES_GEN_ESP_PACKET
};

struct traces_gen_packet {
	enum traces_gen_kind kind;
	bool from_server;
	uint8_t tcp_flags;
	uint16_t payload; /* of this packet */
	uint16_t rest;    /* FRAGMENT_FIRST: payload of the other fragment */
	uint32_t sequence, acknowledgement;
};

enum {
	TRACES_GEN_PAYLOAD_BYTES = 8192, /* pseudo-random, shared by all packets */
	TRACES_GEN_PAYLOAD_SHIFTS = 2048,
	TRACES_GEN_HEADER_BYTES_MAX = 160,
	TRACES_GEN_MTU = 1500,
};

struct traces_gen_frames {
	uint32_t snaplen;
	bool raw;
	uint32_t sums[TRACES_GEN_PAYLOAD_BYTES / 2 + 1]; /* checksums of the payload's beginnings */
	uint8_t payload[TRACES_GEN_PAYLOAD_BYTES];
};

struct traces_gen {
	struct traces_packets packets;
	struct traces_generate_options options; /* with the preset's values filled in */
	struct traces_gen_plan plan;
	struct base_rng rng;
	struct traces_gen_queue *queue;
	struct traces_gen_flow *flows;
	uint32_t flows_capacity, flows_free; /* free list; UINT32_MAX: none */
	uint64_t serial;                     /* flows begun or met so far: addresses */
	uint64_t begun;                      /* flows begun in the trace */
	uint64_t salt;
	uint32_t met_pace, met_role;        /* sequences for flows that are met */
	double next_ns[TRACES_GEN_CLASSES]; /* when a class's next flow begins */
	double arrival_shape[TRACES_GEN_CLASSES], arrival_scale_ns[TRACES_GEN_CLASSES];
	float stretch;           /* of rounds: keeps the load at what was asked for */
	double offered;          /* load so far, in seconds of the load asked for */
	double packet_s, byte_s; /* what a packet and its bytes add to it */
	uint64_t link_free_ns;   /* the link has sent everything before */
	double link_ns_per_byte;
	uint64_t emitted;
	struct traces_trace *batch;
	struct traces_gen_frames frames;
};

/* generate_flow.c */
/* A flow of a class that begins now; -ENOMEM. */
int traces_gen_flow_begin(struct traces_gen *gen, enum traces_gen_class class, uint64_t now_ns);
/* The flows that are in progress at time 0, as they are in the long run. -ENOMEM. */
int traces_gen_flows_meet(struct traces_gen *gen);
void traces_gen_flow_end(struct traces_gen *gen, uint32_t index);

/* generate_step.c */
/* The flow's next packet; left and sent are the caller's to count. */
void traces_gen_step(
	struct traces_gen *gen, struct traces_gen_flow *flow, struct traces_gen_packet *packet);
/* Time until the packet after the one just sent. */
uint64_t traces_gen_gap(struct traces_gen *gen, const struct traces_gen_flow *flow);

/* generate_frame.c */
void traces_gen_frames_init(struct traces_gen_frames *frames, struct base_rng *rng);
/* Write the captured part (at most snaplen) at `out`; fills cap_len and wire_len. */
void traces_gen_frame(const struct traces_gen_frames *frames, struct traces_gen_flow *flow,
	const struct traces_gen_packet *packet, uint64_t time_ns, uint8_t *out,
	struct traces_record *record);
