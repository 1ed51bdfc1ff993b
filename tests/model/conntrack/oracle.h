/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection tracker of unlimited size must say about each packet: a sorted array of
 * connections, searched by bisection, whose timeouts are compared in nanoseconds on every packet.
 * No table, no wheel, no bursts. Shares with the tracker the TCP step function (which has a
 * reference of its own in its unit test) and the list of timeouts.
 */
#pragma once

#include "conntrack/conntrack.h"

struct oracle_conn {
	struct base_flow_key key;
	uint64_t id; /* counts up */
	uint64_t last_seen_ns;
	uint64_t packets;
	enum conntrack_state state;
	uint32_t syn_seq;
	bool syn_known, reversed, origin_seen, reply_seen, assured;
	bool closer_reply, simultaneous, picked_up;
};

struct oracle {
	struct conntrack_config config;
	struct oracle_conn *conns;
	size_t count, capacity;
	uint64_t ids;
	uint64_t inserted, expired, closed, purged;
	uint64_t hits, misses, invalid, related, untracked;
};

struct oracle_answer {
	uint64_t id; /* 0: no connection */
	uint8_t conn_flags;
	bool dropped;
};

void oracle_init(struct oracle *oracle, const struct conntrack_config *config);
void oracle_release(struct oracle *oracle);

struct oracle_answer oracle_packet(struct oracle *oracle, const struct base_packet *packet);

/* NULL when there is none (expired ones not yet seen to be are there). */
const struct oracle_conn *oracle_find(const struct oracle *oracle, const struct base_flow_key *key);

uint64_t oracle_due_ns(const struct oracle *oracle, const struct oracle_conn *conn);

/* Remove what is due by horizon_ns. Changes no later answer if no packet to come is earlier. */
void oracle_advance(struct oracle *oracle, uint64_t horizon_ns);

void oracle_purge(struct oracle *oracle, uint8_t protocol);
