/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/packet.h"

static void untracked(
	struct conntrack_context *context, struct base_packet *packet, unsigned int flags)
{
	packet->conn = BASE_CONN_NONE;
	packet->conn_flags = (uint8_t)flags;
	context->tracker->stats.untracked_packets++;
}

static void count_invalid(struct conntrack_context *context)
{
	context->tracker->stats.invalid_packets++;
	if (context->tracker->config.drop_invalid)
		base_burst_drop(context->burst, context->index, BASE_DROP_CONN_INVALID);
}

static void refresh(struct conntrack_entry *entry, uint64_t time_ns)
{
	if (time_ns > entry->last_seen_ns)
		entry->last_seen_ns = time_ns;
}

static uint8_t stateless_state(const struct base_packet *packet)
{
	if ((packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0)
		return CONNTRACK_STATE_GENERIC;
	switch (packet->key.protocol) {
	case BASE_PROTOCOL_UDP:
		return CONNTRACK_STATE_UDP_UNREPLIED;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return CONNTRACK_STATE_ICMP;
	default:
		return CONNTRACK_STATE_GENERIC;
	}
}

static bool is_admitted(struct conntrack *tracker, const struct base_packet *packet)
{
	if (BASE_LIKELY(tracker->config.admit == NULL) ||
		tracker->config.admit(tracker->config.admit_context, packet))
		return true;
	tracker->stats.not_admitted++;
	return false;
}

uint32_t conntrack_packet_open(struct conntrack_context *context, struct base_packet *packet)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_opening opening = {
		.key = &packet->key,
		.mixed = conntrack_table_mix(&tracker->table, packet->hash),
		.time_ns = packet->time_ns,
		.hash = packet->hash,
		.flags = CONNTRACK_ENTRY_ORIGIN_SEEN,
	};
	bool orphan = (packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0;
	if ((packet->flags & BASE_PACKET_REVERSED) != 0)
		opening.flags |= CONNTRACK_ENTRY_ORIGIN_REVERSED;
	if (packet->key.protocol == BASE_PROTOCOL_TCP && !orphan) {
		if ((packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0) {
			/* Its first fragment began no connection, so it does not either. */
			untracked(context, packet, 0);
			return BASE_CONN_NONE;
		}
		if (!conntrack_tcp_open(tracker, packet, &opening)) {
			untracked(context, packet, BASE_CONN_INVALID);
			count_invalid(context);
			return BASE_CONN_NONE;
		}
	} else {
		opening.state = stateless_state(packet);
	}

	if (!is_admitted(tracker, packet)) {
		untracked(context, packet, 0);
		return BASE_CONN_NONE;
	}
	enum base_drop_reason reason = BASE_DROP_NONE;
	uint32_t conn = conntrack_open(tracker, &opening, &reason);
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE)) {
		tracker->stats.insert_failures++;
		untracked(context, packet, 0);
		if (tracker->config.full_policy == CONNTRACK_FULL_DROP_NEW)
			base_burst_drop(context->burst, context->index, reason);
		return BASE_CONN_NONE;
	}
	struct conntrack_entry *entry = &tracker->entries[conn];
	conntrack_count_packet(entry);
	conntrack_mark(packet, entry, conn, conntrack_is_reply(entry, packet), BASE_CONN_NEW);
	return conn;
}

void conntrack_packet_accept(struct conntrack_context *context, struct base_packet *packet,
	uint32_t conn, bool reply, unsigned int state, unsigned int flags)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	const unsigned int both = CONNTRACK_ENTRY_ORIGIN_SEEN | CONNTRACK_ENTRY_REPLY_SEEN;
	flags |= reply ? CONNTRACK_ENTRY_REPLY_SEEN : CONNTRACK_ENTRY_ORIGIN_SEEN;
	if ((flags & both) == both) {
		if (state == CONNTRACK_STATE_UDP_UNREPLIED)
			state = CONNTRACK_STATE_UDP_REPLIED;
		if (conntrack_state_in(
			    state, CONNTRACK_STATES_SYNCHRONISED | CONNTRACK_STATES_STATELESS))
			flags |= CONNTRACK_ENTRY_ASSURED;
	}
	refresh(entry, packet->time_ns);
	if (state != entry->state || flags != entry->flags)
		conntrack_transition(context->tracker, conn, state, flags);
	conntrack_count_packet(entry);
	conntrack_mark(packet, entry, conn, reply, 0);
}

void conntrack_packet_ignore(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	conntrack_count_packet(entry);
	conntrack_mark(packet, entry, conn, reply, 0);
}

void conntrack_packet_refuse(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	conntrack_count_packet(entry);
	conntrack_mark(packet, entry, conn, reply, BASE_CONN_INVALID);
	count_invalid(context);
}

/* Runs have been counted as hits. */
static void count_miss(struct conntrack *tracker)
{
	tracker->stats.hits--;
	tracker->stats.misses++;
}

static void relate(struct conntrack_context *context, struct base_packet *packet, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	if (conn == BASE_CONN_NONE ||
		conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		count_miss(tracker);
		untracked(context, packet, 0);
		return;
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	tracker->stats.related_packets++;
	conntrack_mark(packet, entry, conn, conntrack_is_reply(entry, packet), BASE_CONN_RELATED);
}

uint32_t conntrack_packet(struct conntrack_context *context, struct base_packet *packet,
	unsigned int index, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	context->index = index;
	if (packet->drop_reason != BASE_DROP_NONE) {
		tracker->stats.hits -= packet->flags & BASE_PACKET_FLOW;
		return conn;
	}
	if ((packet->flags & BASE_PACKET_FLOW) == 0) {
		untracked(context, packet, 0);
		return BASE_CONN_NONE;
	}
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0) {
		relate(context, packet, conn);
		return conn;
	}
	if (conn != BASE_CONN_NONE &&
		conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		conntrack_retire(tracker, conn, conntrack_idle_counter(tracker, conn));
		conn = BASE_CONN_NONE;
	}
	if (conn == BASE_CONN_NONE) {
		count_miss(tracker);
		return conntrack_packet_open(context, packet);
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	bool reply = conntrack_is_reply(entry, packet);
	if (conntrack_state_is_tcp(entry->state) && (packet->flags & BASE_PACKET_L4) != 0)
		return conntrack_tcp_packet(context, packet, conn, reply);
	conntrack_packet_accept(context, packet, conn, reply, entry->state, entry->flags);
	return conn;
}
