/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: exactly one cache line, all that a packet of an open connection reads and writes.
 * What only insertion, removal and timers need lives in arrays of its own (conntrack/tracker.h).
 */
#pragma once

#include "base/flow_key.h"
#include "base/packet.h"
#include "conntrack/tcp_state.h"

enum conntrack_entry_flag {
	/* bits 0..2: enum conntrack_tcp_bit */
	CONNTRACK_ENTRY_TCP_BITS =
		CONNTRACK_TCP_CLOSER_REPLY | CONNTRACK_TCP_SIMULTANEOUS | CONNTRACK_TCP_PICKED_UP,
	CONNTRACK_ENTRY_ORIGIN_REVERSED = 1 << 3, /* the opener is endpoint 1 of the key */
	CONNTRACK_ENTRY_ORIGIN_SEEN = 1 << 4,     /* the opener has sent something */
	CONNTRACK_ENTRY_REPLY_SEEN = 1 << 5,      /* ... and the other side */
	CONNTRACK_ENTRY_ASSURED = 1 << 6,
	CONNTRACK_ENTRY_SYN_KNOWN = 1 << 7, /* syn_seq holds the opener's */
};

/* A dead entry's family: equal to no packet's key, so that an index remembered across a removal
 * in the same burst fails its comparison. */
#define CONNTRACK_ENTRY_DEAD_FAMILY 0xff

struct conntrack_entry {
	struct base_flow_key key;
	uint64_t last_seen_ns; /* latest arrival that refreshed it */
	uint32_t packets;      /* saturating */
	uint32_t syn_seq;      /* sequence number of the SYN that opened it */
	uint32_t generation;   /* counts removals; outlives the connection */
	uint16_t flags;        /* enum conntrack_entry_flag */
	uint8_t state;         /* enum conntrack_state; NONE: free */
	uint8_t spare;
} BASE_ALIGNED(64);
static_assert(sizeof(struct conntrack_entry) == 64, "one cache line per connection");
static_assert(offsetof(struct conntrack_entry, last_seen_ns) == 40, "no padding after the key");
