/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Part of traces/traces.h, which includes it: traffic that is made, as streams of packets.
 *
 * traces_packets_synth     a chosen order of flows: exact run lengths, reuse distances
 * traces_packets_attack    what a connection table fears
 * traces_packets_generate  the statistics of measured links
 *
 * All come from a seed: same options, same bytes. They write no clock and read none; one thread
 * uses a stream at a time.
 */
#pragma once

#include "traces/traces.h"

/* ---- synthesis: `sheaf trace gen` -------------------------------------------------------- */

/* Which flow the next run is of: in turn (cyclic), at random, by popularity, or by recency: the one
 * since whose last run so many others had one (LRU stack distance), which sets how soon a table's
 * entry is needed again while the SLF sets how many packets share one look-up. */
enum traces_order {
	TRACES_ORDER_ROUND_ROBIN,
	TRACES_ORDER_UNIFORM,
	TRACES_ORDER_ZIPF,
	TRACES_ORDER_RECENCY
};

enum { TRACES_SYNTH_RECENCY_FLOWS_MAX = 1 << 28 };

/* Law of the distances of TRACES_ORDER_RECENCY, from 1 to flows - 1. */
struct traces_reuse {
	enum traces_reuse_law {
		TRACES_REUSE_FIXED,     /* always value */
		TRACES_REUSE_UNIFORM,   /* 1 to value */
		TRACES_REUSE_GEOMETRIC, /* mean value */
		TRACES_REUSE_ZIPF       /* exponent value */
	} law;
	double value;
};

struct traces_synth_options {
	uint64_t flows; /* distinct connections at a time, >= 1 */
	uint64_t packets;
	uint64_t run_length; /* exact: consecutive packets of one flow; neighbours always differ */
	double slf; /* not 0: instead, runs of two lengths whose mean is exactly this; >= 1 */
	enum traces_order order;
	double zipf_exponent; /* default 1.0 */
	struct traces_reuse reuse;
	uint64_t flow_packets;  /* a flow that has sent so many gives way to a new one; 0: never */
	uint32_t frame_bytes;   /* on the wire without FCS, default 128, >= 64 */
	uint64_t packets_per_s; /* spacing of timestamps, default 1 M */
	uint64_t start_ns;      /* first timestamp */
	bool microseconds;      /* timestamps are whole ones */
	uint64_t seed;
	uint8_t protocol; /* UDP (default) or TCP */
	bool ip6;
	const atomic_bool *stop; /* a look at it while preparing; may be NULL */
};

void traces_synth_options_defaults(struct traces_synth_options *options);
/* As a stream: memory for flows with TCP or renewal (8 bytes each) and by recency (32 at most),
 * else that of a batch. -EINVAL with a line in message (TRACES_MESSAGE_SIZE), -ENOMEM, -EINTR
 * (stop). */
int traces_packets_synth(
	struct traces_packets **out, const struct traces_synth_options *options, char *message);
/* The same in memory. */
int traces_synth_generate(
	struct traces_trace **out, const struct traces_synth_options *options, char *message);

/* ---- attacks on a connection table: `sheaf trace gen --attack` ---------------------------- */

enum traces_attack {
	TRACES_ATTACK_SYN_FLOOD,  /* SYNs from ever-new clients to one server */
	TRACES_ATTACK_ONE_TICK,   /* all flows at one instant, again after each period */
	TRACES_ATTACK_ONE_BUCKET, /* all flows in one bucket of the table */
	TRACES_ATTACK_KEEP_ALIVE, /* a bare acknowledgement of each flow in each period */
	TRACES_ATTACK_EVER_NEW,   /* one packet of each flow, and more flows than fit */
	TRACES_ATTACKS_COUNT
};

struct traces_attack_options {
	enum traces_attack kind;
	uint64_t flows;
	/* The end is what comes first; without both, when each flow has sent what the kind is known
	 * for: 1 packet, in one tick 3, in one bucket 1000, as keep-alive 10. */
	uint64_t packets, duration_ns;
	uint64_t packets_per_s; /* not ONE_TICK, KEEP_ALIVE */
	uint64_t period_ns;     /* ONE_TICK, KEEP_ALIVE */
	uint32_t frame_bytes;   /* default 64 */
	uint64_t start_ns;
	bool microseconds; /* timestamps are whole ones */
	uint64_t seed;
	/* ONE_BUCKET: the table's hash with its salt. CRC32C needs no salt: flows that have one
	 * hash under one have one under all. With SipHash, which bucket a hash falls into. */
	struct base_hash_config hash;
	uint32_t (*bucket_of)(const void *context, uint32_t hash);
	const void *bucket_context;
	const atomic_bool *stop; /* a look at it while preparing; may be NULL */
};

/* What the kind is known for: a million SYNs, 65536 flows, or ten times as many. */
void traces_attack_options_defaults(struct traces_attack_options *options, enum traces_attack kind);
/* Name of an attack; NULL behind the last. */
const char *traces_attack_name(enum traces_attack kind);
/* Constant memory, with ONE_BUCKET 12 bytes per flow. -EINVAL with a line in message, -ENOMEM,
 * -EINTR (stop). */
int traces_packets_attack(
	struct traces_packets **out, const struct traces_attack_options *options, char *message);

/* ---- generation: `sheaf trace gen --preset` ----------------------------------------------- */

enum traces_preset {
	TRACES_PRESET_CAMPUS,
	TRACES_PRESET_BACKBONE,
	TRACES_PRESET_SCAN,
	TRACES_PRESET_DATACENTER,
	TRACES_PRESETS_COUNT
};

/* Directions of a connection that the trace shows; what its packets begin with. */
enum traces_ways { TRACES_WAYS_PRESET, TRACES_WAYS_ONE, TRACES_WAYS_BOTH };
enum traces_frames { TRACES_FRAMES_PRESET, TRACES_FRAMES_ETHERNET, TRACES_FRAMES_RAW };

/*
 * Traffic by a model of flows (docs/traces.md has the model, traces/generate_model.c its
 * parameters). A share below 0, and 0 where it says so, leaves the preset's value.
 */
struct traces_generate_options {
	enum traces_preset preset;
	uint64_t bits_per_s;      /* on Ethernet: 24 bytes per frame on top; default 1 Gb/s */
	uint64_t packets_per_s;   /* instead of bits_per_s; 0: not given */
	uint64_t new_flows_per_s; /* 0: by the preset */
	/* The end is what comes first; 0: no such limit. */
	uint64_t packets;
	uint64_t duration_ns;
	uint64_t flows; /* no more begin after so many; the trace ends when all are over */
	uint64_t start_ns;
	uint64_t seed;
	enum traces_ways ways;
	enum traces_frames frames;
	uint32_t snaplen;  /* 0: the preset's */
	bool microseconds; /* timestamps are whole ones */
	bool cold;         /* no flows are in progress at the start */
	uint16_t vlans;    /* flows are spread over VLANs 1 to this; 0: no tags; not with RAW */
	double ip6_share;
	double unanswered_share; /* of flows of at most 3 packets: SYNs without an answer */
	double retransmit_share, reorder_share; /* of TCP data packets */
	double fragment_share;                  /* of UDP data packets */
	double icmp_error_share;                /* of UDP flows of two packets */
};

void traces_generate_options_defaults(struct traces_generate_options *options);
/* Name of a preset; NULL behind the last. */
const char *traces_preset_name(enum traces_preset preset);
/*
 * The stream ends by options; next returns -ENOMEM when flows need more memory. Memory: 80 bytes
 * per flow in progress (about 17,000 per Gb/s of campus traffic) and a batch. Cost: about 150 ns
 * per packet. -EINVAL with a line in message (TRACES_MESSAGE_SIZE), -ENOMEM.
 */
int traces_packets_generate(
	struct traces_packets **out, const struct traces_generate_options *options, char *message);
