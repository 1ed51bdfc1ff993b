/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP window tracking: does a segment fit what the two sides have sent, acknowledged and offered?
 * After G. van Rooij, "Real stateful TCP packet filtering in IP Filter" (SANE 2000), with the
 * bounds and exceptions of Linux's nf_conntrack. A segment [seq, end) with acknowledgement ack (or
 * the highest edge of its SACK blocks, sack), from a sender to a receiver, must meet
 *
 *   I    seq <= sender.max_end                      the receiver has room for it
 *   II   end >= sender.end - receiver.max_window    it is not older than a window
 *   III  sack <= receiver.end                       what it acknowledges has been sent
 *   IV   sack >= receiver.end - max(66000, sender.max_window)    and not long ago
 *
 * Windows are scaled when both SYNs offer to (RFC 7323), by at most 2^14. A connection that was
 * picked up, or of which a segment was seen only in part (a fragment, a header cut by the
 * snapshot), has unknown bounds: what breaks them is tolerated there. Of a side that was not seen
 * at all, as where a capture shows one direction, is known what its peer acknowledges.
 *
 * An RST closes an open connection only when its number is the one that the other side expects
 * next, or when it follows its sender's data (RFC 5961 3: anything else inside the window is
 * answered with a challenge ACK). Older than that, it is refused.
 *
 * Memory: 64 bytes per connection. Cost: docs/conntrack-semantics.md, "TCP windows". Threads: pure.
 */
#pragma once

#include "conntrack/tcp_state.h"

/* What is known of one side, from what it and its peer have sent. */
struct conntrack_tcp_side {
	uint32_t end;        /* highest seq + length that it has sent */
	uint32_t max_end;    /* highest that its peer allows */
	uint32_t max_window; /* largest that it has offered, scaled; 0: nothing seen of it */
	uint32_t max_ack;    /* highest that it has acknowledged; see ACKED */
	uint8_t scale;
	uint8_t flags; /* enum conntrack_tcp_side_flag */
};

enum conntrack_tcp_side_flag {
	CONNTRACK_TCP_SIDE_SCALES = 1 << 0,   /* its SYN offers to scale windows */
	CONNTRACK_TCP_SIDE_SACKS = 1 << 1,    /* its SYN permits SACK */
	CONNTRACK_TCP_SIDE_ACKED = 1 << 2,    /* max_ack holds something */
	CONNTRACK_TCP_SIDE_UNACKED = 1 << 3,  /* it has sent what is not acknowledged yet */
	CONNTRACK_TCP_SIDE_INFERRED = 1 << 4, /* not seen; end is what its peer acknowledges */
};

struct conntrack_tcp_window {
	struct conntrack_tcp_side side[2]; /* the opener, its peer */
	/* The latest segment that was taken or ignored. */
	uint32_t last_seq, last_ack, last_end;
	uint16_t last_window;
	uint8_t last_class; /* enum conntrack_tcp_class */
	uint8_t last_reply;
	uint8_t repeats; /* times that it came again and again, saturating */
	bool blind;      /* part of what was sent was not seen */
	/* A SYN of the opener that the open connection ignored. */
	uint8_t offered_scale, offered_flags;
	uint16_t offered_window;
} BASE_ALIGNED(64);
static_assert(sizeof(struct conntrack_tcp_window) == 64, "one cache line per connection");

/* What windows need of a segment. */
struct conntrack_tcp_segment {
	uint32_t seq, ack, end; /* end: seq + payload + 1 for SYN + 1 for FIN */
	uint16_t window;        /* as it stands in the header */
	uint8_t flags, class;
	bool part; /* end or options are not known: a fragment, or cut by the snapshot */
	uint8_t options_len;
	const uint8_t *options;
};

enum conntrack_tcp_fit {
	CONNTRACK_TCP_FITS,
	CONNTRACK_TCP_FITS_AS_IS, /* but leaves the state alone: an RST that may be forged */
	CONNTRACK_TCP_STRAY,      /* late or early: neither moves nor refreshes the connection */
	CONNTRACK_TCP_MISFIT,     /* cannot be of this connection */
	CONNTRACK_TCP_FORGED,     /* the same, and tells nothing: an RST older than what is
				     acknowledged */
};

struct conntrack_tcp_question {
	enum conntrack_state state; /* of the connection, before the segment */
	bool reply;
	bool reply_seen; /* anything of the opener's peer, before the segment */
	bool assured;
	bool tolerant; /* bounds that are broken are tolerated */
};

/* Repeats of one segment without an answer after which a connection counts as unanswered. */
enum { CONNTRACK_TCP_REPEATS_MAX = 3 };

/* packet: with a whole fixed TCP header. */
void conntrack_tcp_segment_read(
	struct conntrack_tcp_segment *segment, const struct base_packet *packet);

/* The first segment of a connection, sent by its opener, or by the opener's peer (reply). */
void conntrack_tcp_window_open(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply);

/* A segment that the state table takes. *broken: it broke a bound, tolerated or not. */
enum conntrack_tcp_fit conntrack_tcp_window_judge(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, const struct conntrack_tcp_question *question,
	bool *broken);

/* The short way of what most segments are: an ACK, with or without data, inside an open connection
 * whose sides have both been seen, that fits. NOT: it may be anything else, nothing was done, and
 * conntrack_tcp_window_judge must be asked. Otherwise that was done which it would have done. */
enum conntrack_tcp_carry {
	CONNTRACK_TCP_CARRY_NOT,
	CONNTRACK_TCP_CARRY_ON,
	CONNTRACK_TCP_CARRY_STUCK /* on; and conntrack_tcp_window_is_stuck */
};

enum conntrack_tcp_carry conntrack_tcp_window_carry_on(
	struct conntrack_tcp_window *window, const struct base_packet *packet, bool reply);

/* A segment that the state table ignores. */
void conntrack_tcp_window_ignore(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, enum conntrack_state state, bool reply);

/* The answer has come to a SYN, of number seq, that was ignored: start anew from the two. */
void conntrack_tcp_window_resync(struct conntrack_tcp_window *window, uint32_t seq);

/* A refused segment that wants to close the connection. True: the other side did, too. */
bool conntrack_tcp_window_refused_close(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply);

/* Somebody sends, and nobody answers. */
static inline bool conntrack_tcp_window_is_stuck(const struct conntrack_tcp_window *window)
{
	unsigned int flags = window->side[0].flags | window->side[1].flags;
	return window->repeats >= CONNTRACK_TCP_REPEATS_MAX ||
	       (flags & CONNTRACK_TCP_SIDE_UNACKED) != 0 || window->last_window == 0;
}
