/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: exactly one cache line, all that a packet of an open connection reads and writes.
 * What only insertion, removal and timers need lives in arrays of its own (conntrack/tracker.h).
 */
#pragma once

#include "base/flow_key.h"
#include "base/packet.h"
#include "conntrack/tcp_state.h"

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

/* The places matter to the packet path: the opener's direction stands where a packet's stands in
 * its flags and where "reply" stands in its connection flags; the two SEEN bits are two apart,
 * so that the reply bit shifts to them; KEEP and a state together index the timeouts. */
enum conntrack_entry_flag {
	/* bits 0, 2, 3: enum conntrack_tcp_bit */
	CONNTRACK_ENTRY_TCP_BITS =
		CONNTRACK_TCP_CLOSER_REPLY | CONNTRACK_TCP_SIMULTANEOUS | CONNTRACK_TCP_PICKED_UP,
	CONNTRACK_ENTRY_ORIGIN_REVERSED = 1 << 1, /* the opener is endpoint 1 of the key */
	CONNTRACK_ENTRY_SYN_KNOWN = 1 << 4, /* syn_seq is of the opener's SYN, which was seen */
	CONNTRACK_ENTRY_KEEP_SHIFT = 5,     /* two bits: enum conntrack_keep */
	CONNTRACK_ENTRY_KEEP = 3 << CONNTRACK_ENTRY_KEEP_SHIFT,
	CONNTRACK_ENTRY_ASSURED = 1 << 7,
	CONNTRACK_ENTRY_ORIGIN_SEEN = 1 << 8, /* the opener has sent something */
	/* syn_seq is of a SYN of the opener that the open connection ignored: should a SYN|ACK
	 * acknowledge it, it was right. */
	CONNTRACK_ENTRY_SYN_OFFERED = 1 << 9,
	CONNTRACK_ENTRY_REPLY_SEEN = 1 << 10,  /* the other side has sent something */
	CONNTRACK_ENTRY_SYN_GUESSED = 1 << 11, /* syn_seq follows from the first packet seen */
	/* In LAST_ACK: an ACK may answer a SYN, not the last FIN. In CLOSE: the opener's SYN was
	 * challenged and its RST closed what the peer knew; it may send that SYN again. */
	CONNTRACK_ENTRY_CHALLENGED = 1 << 12,
};
static_assert(CONNTRACK_ENTRY_ORIGIN_REVERSED == (int)BASE_PACKET_REVERSED, "same place");
static_assert(CONNTRACK_ENTRY_ORIGIN_REVERSED == (int)BASE_CONN_REPLY, "same place");
static_assert(
	CONNTRACK_ENTRY_REPLY_SEEN == CONNTRACK_ENTRY_ORIGIN_SEEN << BASE_CONN_REPLY, "shift");

/* A dead entry's family: equal to no packet's key, so that an index remembered across a removal
 * in the same burst fails its comparison. */
#define CONNTRACK_ENTRY_DEAD_FAMILY 0xff

struct conntrack_entry {
	struct base_flow_key key;
	uint64_t last_seen_ns; /* latest arrival that refreshed it; of a free one: the next free */
	uint32_t packets;      /* saturating */
	union {
		uint32_t syn_seq;   /* TCP: sequence number of the SYN, see the flags */
		uint32_t opened_ms; /* UDP: when it began, modulo 2^32 */
	};
	uint32_t generation; /* counts removals; outlives the connection */
	uint16_t flags;      /* enum conntrack_entry_flag */
	uint8_t state;       /* enum conntrack_state; NONE: free */
	uint8_t spare;
} BASE_ALIGNED(64);
static_assert(sizeof(struct conntrack_entry) == 64, "one cache line per connection");
static_assert(offsetof(struct conntrack_entry, last_seen_ns) == 40, "no padding after the key");

/* base_flow_key_equal, in a third of the instructions. */
static inline bool conntrack_key_equal(const struct base_flow_key *a, const struct base_flow_key *b)
{
#if defined(__SSE4_1__)
	const __m128i *x = (const __m128i *)a;
	const __m128i *y = (const __m128i *)b;
	__m128i first = _mm_xor_si128(_mm_loadu_si128(x), _mm_loadu_si128(y));
	__m128i second = _mm_xor_si128(_mm_loadu_si128(x + 1), _mm_loadu_si128(y + 1));
	__m128i rest = _mm_xor_si128(_mm_loadl_epi64(x + 2), _mm_loadl_epi64(y + 2));
	__m128i all = _mm_or_si128(_mm_or_si128(first, second), rest);
	return _mm_testz_si128(all, all) != 0;
#else
	return base_flow_key_equal(a, b);
#endif
}
