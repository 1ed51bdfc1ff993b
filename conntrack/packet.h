/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One packet closely: everything but what process.c's short path settles. Shared by its files:
 *
 *   packet.c      which connection, opening one, protocols without a handshake, ICMP errors
 *   packet_tcp.c  TCP: how a packet opens a connection, and what it does to one
 */
#pragma once

#include "conntrack/tracker.h"

/* What a packet needs beside itself. */
struct conntrack_context {
	struct conntrack *tracker;
	struct base_burst *burst;
	struct conntrack_entry *entries;
	/* conntrack_packet, or conntrack_tcp_windowed where windows are kept. */
	uint32_t (*take)(struct conntrack_context *context, struct base_packet *packet,
		unsigned int index, uint32_t conn);
	unsigned int plain; /* what the short path's mask leaves of the flags of its packets */
	unsigned int index; /* of the packet in the burst */
};

static inline unsigned int conntrack_closing_flag(unsigned int state)
{
	return (CONNTRACK_STATES_CLOSING * BASE_CONN_CLOSING >> state) & BASE_CONN_CLOSING;
}

static inline bool conntrack_is_reply(
	const struct conntrack_entry *entry, const struct base_packet *packet)
{
	return ((entry->flags ^ packet->flags) & CONNTRACK_ENTRY_ORIGIN_REVERSED) != 0;
}

static inline void conntrack_count_packet(struct conntrack_entry *entry)
{
	uint32_t packets = entry->packets + 1;
	entry->packets = packets - (packets == 0);
}

/* What the chain is told: the connection, and extra of enum base_conn_flag. */
static inline void conntrack_mark(struct base_packet *packet, const struct conntrack_entry *entry,
	uint32_t conn, bool reply, unsigned int extra)
{
	unsigned int flags = extra | conntrack_closing_flag(entry->state);
	if (reply)
		flags |= BASE_CONN_REPLY;
	packet->conn = conn;
	packet->conn_flags = (uint8_t)flags;
}

/* conn: what the key leads to, BASE_CONN_NONE included. Returns what it leads to afterwards. */
uint32_t conntrack_packet(struct conntrack_context *context, struct base_packet *packet,
	unsigned int index, uint32_t conn);

/* The packet begins a connection, or is left without one. */
uint32_t conntrack_packet_open(struct conntrack_context *context, struct base_packet *packet);

/* The packet belongs to the connection as it is, or as it has become. */
void conntrack_packet_accept(struct conntrack_context *context, struct base_packet *packet,
	uint32_t conn, bool reply, unsigned int state, unsigned int flags);

/* The packet passes without moving or refreshing the connection. */
void conntrack_packet_ignore(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply);

/* It does not belong: counted, flagged, dropped if so configured. */
void conntrack_packet_refuse(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply);

/* packet_tcp.c */

/* How a TCP packet without a connection begins one. False: it does not. */
bool conntrack_tcp_open(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *opening);

/* The packet has begun a TCP connection; windows are on. */
void conntrack_tcp_opened(struct conntrack_context *context, const struct base_packet *packet,
	uint32_t conn, bool reply);

/* conntrack_packet, with a short way for segments of open connections. */
uint32_t conntrack_tcp_windowed(struct conntrack_context *context, struct base_packet *packet,
	unsigned int index, uint32_t conn);

/* A packet with a whole TCP header, of a TCP connection. Returns its connection. */
uint32_t conntrack_tcp_packet(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply);
