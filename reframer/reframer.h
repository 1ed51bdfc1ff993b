/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reframer: hold packets per flow for at most a delay bound and release each flow's packets as one
 * flow run (after "Packet Order Matters!", NSDI 2022).
 *
 * Packets of one flow always leave in the order they came. A held flow is released when the first
 * of its packets has waited for its class's delay bound, when it holds run_packets_max packets,
 * when a bypass packet of the same flow arrives (its held packets leave first, the bypass packet
 * right behind them, as one run), or when a bound on held packets or held flows is hit (the flow
 * that has waited longest leaves). Nothing is dropped and nothing is allocated after create.
 *
 * Bypass: TCP SYN and RST, first packet of a flow, packets without a flow, packets that the
 * operator marked (BASE_PACKET_OPERATOR_BYPASS). Each is a switch.
 *
 * Which flow leaves under pressure: the one whose first held packet came first. The packet at hand
 * is held behind it, not sent with it, even when the flow is its own. With held_flows_max also goes
 * the length of an index probe: a flow that finds no place because 64 held flows share its hash is
 * not held, its packet leaves at once (counted as pressure_flows).
 *
 * First packet: a flow that the fixed filter does not know and that holds no packets.
 *
 * Classes: each has a delay bound of its own and one FIFO flush list; bounds are constant within
 * a class, so FIFO order is expiry order. A flow sits in the class of its first held packet and
 * moves to a shorter one when a packet of a shorter class joins it (its deadline then is the
 * earlier of the two). Flows with equal deadlines leave lowest class first, then in FIFO order.
 *
 * Time: `time_ns` of the packets drives everything; the reframer reads no clock. A flow whose bound
 * ends at t is released with release time t exactly, by the first call that knows a time >= t, so
 * results do not depend on burst size. A packet that comes at t exactly comes after that release.
 * Hold time = release_ns - time_ns <= delay bound, always; a packet whose time went backwards
 * counts from the time it was clamped to. Release times never decrease from one packet to the next.
 *
 * Cost: constant per packet (one probe of the held-flow table, one list append). State exists only
 * for flows that hold packets. Memory: per held flow 64 bytes and 16 to 32 bytes of index; 32 bytes
 * per held packet for the queue of released runs; 2 bytes per seen flow; otherwise nothing per
 * packet (links live in the packet, in next, release_ns and holder_word).
 *
 * Threads: one owner. Ownership: packets pushed belong to the reframer until popped.
 *
 *	reframer_push_burst(reframer, burst.packets, burst.count);
 *	reframer_advance(reframer, now_ns);
 *	while (reframer_pop_burst(reframer, &out, 32))
 *		next_stage(&out);
 *	...
 *	reframer_flush(reframer); // end of input, then pop until empty
 */
#pragma once

#include "base/arena.h"
#include "base/burst.h"
#include "base/histogram.h"

enum reframer_class {
	REFRAMER_CLASS_NORMAL, /* data */
	REFRAMER_CLASS_SHORT,  /* pure TCP ACKs and FINs */
	REFRAMER_CLASS_BULK,   /* the operator's: marked so, or put there by config.classify */
	REFRAMER_CLASSES_COUNT
};

enum reframer_release {
	REFRAMER_RELEASE_DELAY,      /* delay bound reached */
	REFRAMER_RELEASE_RUN_FULL,   /* run_packets_max reached */
	REFRAMER_RELEASE_BYPASS_SYN, /* released by its own bypass packet ... */
	REFRAMER_RELEASE_BYPASS_RST,
	REFRAMER_RELEASE_BYPASS_FIRST,
	REFRAMER_RELEASE_BYPASS_NO_FLOW,
	REFRAMER_RELEASE_BYPASS_OPERATOR,
	REFRAMER_RELEASE_BYPASS_OPTION,    /* delay 0 */
	REFRAMER_RELEASE_PRESSURE_PACKETS, /* bound on held packets */
	REFRAMER_RELEASE_PRESSURE_FLOWS,   /* bound on held flows */
	REFRAMER_RELEASE_FLUSH,            /* end of input */
	REFRAMER_RELEASES_COUNT
};

/* "delay", "run_full", ...; never NULL. */
const char *reframer_release_name(enum reframer_release release);

/* The operator's choice of a class for a packet with a flow. Called once per packet: keep it cheap,
 * and pure, or results are not reproducible. */
typedef enum reframer_class reframer_classify_fn(
	const struct base_packet *packet, const void *classify_arg);

struct reframer_config {
	uint64_t delay_ns[REFRAMER_CLASSES_COUNT]; /* 0: the class is never held */
	uint32_t run_packets_max;                  /* 1..BASE_BURST_MAX, default 128 */
	uint32_t held_packets_max;                 /* default 4096 */
	uint32_t held_flows_max;                   /* default 4096, <= held_packets_max */
	bool bypass_syn, bypass_rst, bypass_first; /* default on, on, on */
	bool short_acks;     /* pure ACKs and FINs use REFRAMER_CLASS_SHORT; default off */
	bool operator_bulk;  /* packets marked BASE_PACKET_OPERATOR_BULK use REFRAMER_CLASS_BULK,
				before short_acks; default off: the mark is ignored */
	bool prefetch;       /* default on; off only to measure what it gains */
	uint32_t seen_flows; /* flows whose first packet is remembered for bypass_first: a
				      fixed filter of 16-bit tags, oldest forgotten, default 1 Mi */
	uint64_t salt;
	reframer_classify_fn *classify; /* replaces both; NULL (default): none */
	const void *classify_arg;
	struct base_arena *arena; /* outlives the reframer */
};

struct reframer_stats {
	uint64_t packets_in, packets_out;
	uint64_t runs_in;  /* flow runs as packets came */
	uint64_t runs_out; /* flow runs as packets left: SLF out = packets_out / runs_out */
	uint64_t releases[REFRAMER_RELEASES_COUNT]; /* releases of runs (or bypass packets) */
	uint64_t release_packets[REFRAMER_RELEASES_COUNT]; /* packets that left by them */
	uint64_t held_packets, held_flows;                 /* now, not yet released */
	uint64_t released_packets; /* now, not yet popped: in = out + held + released */
	uint64_t peak_held_packets, peak_held_flows;
	uint64_t time_backwards; /* a packet's time was below an earlier one's: clamped */
};

struct reframer;

void reframer_config_defaults(struct reframer_config *config);

/* -EINVAL (an impossible size), -ENOMEM. */
int reframer_create(struct reframer **out, const struct reframer_config *config);
/* Must hold no packets (flush and pop first). NULL is fine. */
void reframer_destroy(struct reframer *reframer);

/* Take up to BASE_BURST_MAX packets in order. Always takes all of them: pressure releases others,
 * it never refuses. Pop until 0 between two calls: what is released must fit a queue of fixed size
 * (held_packets_max + BASE_BURST_MAX runs; asserted, so nothing is ever lost silently). */
void reframer_push_burst(
	struct reframer *reframer, struct base_packet *const *packets, unsigned int count);

/* Release what is due at now_ns (a time no packet to come will be earlier than). */
void reframer_advance(struct reframer *reframer, uint64_t now_ns);

/* Release everything (end of input); release time is the latest time seen, or the flow's bound,
 * whichever comes first. */
void reframer_flush(struct reframer *reframer);

/*
 * Move up to packets_max (1..BASE_BURST_MAX) released packets into burst, with runs; a released run
 * is split only when it does not fit an empty burst, and neighbours of one flow become one run.
 * Sets release_ns in each packet. Returns the number of packets; 0 when nothing is released.
 */
unsigned int reframer_pop_burst(
	struct reframer *reframer, struct base_burst *burst, unsigned int packets_max);

/* A time that no packet inside, nor any later one, arrived before (clamped arrival): stages behind
 * may let their timers run up to it. Never decreases. It is the arrival of the longest-waiting
 * packet, or the latest time seen when nothing is inside; ask after popping until 0, before that it
 * lags. */
uint64_t reframer_horizon_ns(const struct reframer *reframer);

void reframer_stats(const struct reframer *reframer, struct reframer_stats *stats);

/* Hold times of popped packets. Valid until destroy. */
const struct base_histogram *reframer_hold_histogram(const struct reframer *reframer);
