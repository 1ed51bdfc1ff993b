/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/packet.h"

#include "conntrack/sctp_state.h"

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

static uint32_t in_ms(uint64_t time_ns)
{
	return (uint32_t)(time_ns / 1000000);
}

/* An answer whose question was not seen: the question's sender opened. */
static void swap_sides(struct conntrack_opening *opening)
{
	opening->flags ^= CONNTRACK_ENTRY_ORIGIN_REVERSED | CONNTRACK_ENTRY_ORIGIN_SEEN |
			  CONNTRACK_ENTRY_REPLY_SEEN;
}

static bool icmp_is_reply(const struct base_packet *packet)
{
	if ((packet->flags & BASE_PACKET_L4) == 0)
		return false;
	uint8_t type = packet->data[packet->l4_offset];
	if (packet->key.protocol == BASE_PROTOCOL_ICMP6)
		return type == 129 || type == 161; /* RFC 4443, RFC 8335 */
	return type == 0 || type == 14 || type == 16 || type == 18 || type == 43;
}

static bool icmp_open(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *opening)
{
	opening->state = CONNTRACK_STATE_ICMP;
	if (!icmp_is_reply(packet))
		return true;
	swap_sides(opening);
	return tracker->config.tcp_pickup;
}

static struct conntrack_sctp_step sctp_step(const struct conntrack *tracker,
	const struct base_packet *packet, enum conntrack_state state, bool reply)
{
	struct conntrack_sctp_input input = {
		.state = state,
		.reply = reply,
		.pickup = tracker->config.tcp_pickup,
		.bytes = packet->data + packet->l4_offset,
		.size = packet->cap_len - packet->l4_offset,
	};
	size_t size = CONNTRACK_SCTP_HEADER + (size_t)packet->payload_len;
	if (size < input.size) /* behind it is padding */
		input.size = size;
	return conntrack_sctp_step(&input);
}

static bool sctp_open(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *opening)
{
	opening->state = CONNTRACK_STATE_SCTP_ESTABLISHED;
	if ((packet->flags & BASE_PACKET_L4) == 0)
		return tracker->config.tcp_pickup;
	struct conntrack_sctp_step step = sctp_step(tracker, packet, CONNTRACK_STATE_NONE, false);
	opening->state = step.state;
	if (step.from_server)
		swap_sides(opening);
	return !step.invalid;
}

enum begins {
	BEGINS_ONE,
	BEGINS_NONE, /* its first fragment began no connection, so it does not either */
	BEGINS_INVALID,
	BEGINS_WINDOWED, /* one of TCP, whose windows are kept */
};

/* What needs to see a handshake. */
static enum begins begin_by_states(const struct conntrack *tracker,
	const struct base_packet *packet, struct conntrack_opening *opening)
{
	if ((packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0)
		return BEGINS_NONE;
	if (packet->key.protocol == BASE_PROTOCOL_SCTP)
		return sctp_open(tracker, packet, opening) ? BEGINS_ONE : BEGINS_INVALID;
	if (!conntrack_tcp_open(tracker, packet, opening))
		return BEGINS_INVALID;
	return tracker->windows == NULL ? BEGINS_ONE : BEGINS_WINDOWED;
}

/* The state that the packet begins a connection in, and whose it is. */
static enum begins begin(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *opening)
{
	opening->state = CONNTRACK_STATE_GENERIC;
	if ((packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0)
		return BEGINS_ONE;
	switch (packet->key.protocol) {
	case BASE_PROTOCOL_UDP:
		opening->state = CONNTRACK_STATE_UDP_UNREPLIED;
		opening->syn_seq = in_ms(packet->time_ns);
		return BEGINS_ONE;
	case BASE_PROTOCOL_TCP:
	case BASE_PROTOCOL_SCTP:
		return begin_by_states(tracker, packet, opening);
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return icmp_open(tracker, packet, opening) ? BEGINS_ONE : BEGINS_INVALID;
	case BASE_PROTOCOL_GRE:
		opening->state = CONNTRACK_STATE_GRE_UNREPLIED;
		return BEGINS_ONE;
	default:
		return BEGINS_ONE;
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

/* Inlined twice, so that only who keeps windows asks for them. */
static inline __attribute__((always_inline)) uint32_t open_one(struct conntrack_context *context,
	struct base_packet *packet, const struct conntrack_opening *opening)
{
	struct conntrack *tracker = context->tracker;
	enum base_drop_reason reason = BASE_DROP_NONE;
	if (!is_admitted(tracker, packet)) {
		untracked(context, packet, 0);
		return BASE_CONN_NONE;
	}
	uint32_t conn = conntrack_open(tracker, opening, &reason);
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE)) {
		tracker->stats.insert_failures++;
		untracked(context, packet, 0);
		if (tracker->config.full_policy == CONNTRACK_FULL_DROP_NEW)
			base_burst_drop(context->burst, context->index, reason);
		return BASE_CONN_NONE;
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	conntrack_mark(packet, entry, conn, conntrack_is_reply(entry, packet), BASE_CONN_NEW);
	return conn;
}

static __attribute__((noinline)) uint32_t open_windowed(struct conntrack_context *context,
	struct base_packet *packet, const struct conntrack_opening *opening)
{
	uint32_t conn = open_one(context, packet, opening);
	if (conn != BASE_CONN_NONE)
		conntrack_tcp_opened(
			context, packet, conn, conntrack_is_reply(&context->entries[conn], packet));
	return conn;
}

uint32_t conntrack_packet_open(struct conntrack_context *context, struct base_packet *packet)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_opening opening = {
		.key = &packet->key,
		.mixed = conntrack_table_mix(&tracker->table, packet->hash),
		.time_ns = packet->time_ns,
		.hash = packet->hash,
		.flags = CONNTRACK_ENTRY_ORIGIN_SEEN |
			 (packet->flags & CONNTRACK_ENTRY_ORIGIN_REVERSED), /* same place */
	};
	enum begins begins = begin(tracker, packet, &opening);
	if (BASE_LIKELY(begins == BEGINS_ONE))
		return open_one(context, packet, &opening);
	if (begins == BEGINS_WINDOWED)
		return open_windowed(context, packet, &opening);
	untracked(context, packet, begins == BEGINS_INVALID ? BASE_CONN_INVALID : 0);
	if (begins == BEGINS_INVALID)
		count_invalid(context);
	return BASE_CONN_NONE;
}

enum {
	SEEN_BOTH = CONNTRACK_ENTRY_ORIGIN_SEEN | CONNTRACK_ENTRY_REPLY_SEEN,
	AGE_BACK_MAX_MS = 60000,
};

static enum conntrack_keep keep_of(unsigned int flags)
{
	return (enum conntrack_keep)((flags & CONNTRACK_ENTRY_KEEP) >> CONNTRACK_ENTRY_KEEP_SHIFT);
}

/* The state, now that both sides have been seen. */
static unsigned int answered_state(
	const struct conntrack_entry *entry, const struct base_packet *packet, unsigned int state)
{
	uint32_t age_ms = in_ms(packet->time_ns) - entry->opened_ms;
	/* Out of order, a packet may be older than the connection. */
	bool lasts = age_ms > CONNTRACK_STREAM_AFTER_MS && age_ms < UINT32_MAX - AGE_BACK_MAX_MS;
	switch (state) {
	case CONNTRACK_STATE_UDP_UNREPLIED:
		return CONNTRACK_STATE_UDP_REPLIED;
	case CONNTRACK_STATE_UDP_REPLIED:
		return lasts ? CONNTRACK_STATE_UDP_STREAM : state;
	case CONNTRACK_STATE_GRE_UNREPLIED:
		return CONNTRACK_STATE_GRE_REPLIED;
	default:
		return state;
	}
}

void conntrack_packet_accept(struct conntrack_context *context, struct base_packet *packet,
	uint32_t conn, bool reply, unsigned int state, unsigned int flags)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	flags |= reply ? CONNTRACK_ENTRY_REPLY_SEEN : CONNTRACK_ENTRY_ORIGIN_SEEN;
	if ((flags & SEEN_BOTH) == SEEN_BOTH) {
		state = answered_state(entry, packet, state);
		if (conntrack_state_in(state, CONNTRACK_STATES_ASSURED_BY_ANSWER))
			flags |= CONNTRACK_ENTRY_ASSURED;
	}
	/* What was decided otherwise about how long to keep it stays decided. */
	if (keep_of(flags) <= CONNTRACK_KEEP_ASSURED)
		flags |= (flags & CONNTRACK_ENTRY_ASSURED) != 0
				 ? CONNTRACK_KEEP_ASSURED << CONNTRACK_ENTRY_KEEP_SHIFT
				 : 0;
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

/* An ICMP error must be on its way to the sender of the packet that it quotes. */
static bool goes_to_quoted_sender(const struct base_packet *packet)
{
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	size_t size = ip6 ? 16 : 4, at = packet->l3_offset + (ip6 ? 24u : 16u);
	/* The key's direction is as if the quoted packet's receiver had answered. */
	unsigned int to = (packet->flags & BASE_PACKET_REVERSED) != 0 ? 0 : 1;
	return at + size <= packet->cap_len &&
	       memcmp(packet->data + at, packet->key.address[to], size) == 0;
}

static void relate(struct conntrack_context *context, struct base_packet *packet, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	if (conn == BASE_CONN_NONE ||
		conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		/* It may be about a connection that began before the trace. */
		bool invalid = !tracker->config.tcp_pickup;
		count_miss(tracker);
		untracked(context, packet, invalid ? BASE_CONN_INVALID : 0);
		if (invalid)
			count_invalid(context);
		return;
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	if (!goes_to_quoted_sender(packet)) {
		conntrack_mark(
			packet, entry, conn, conntrack_is_reply(entry, packet), BASE_CONN_INVALID);
		count_invalid(context);
		return;
	}
	tracker->stats.related_packets++;
	conntrack_mark(packet, entry, conn, conntrack_is_reply(entry, packet), BASE_CONN_RELATED);
}

/* What arrived is not what was sent: it begins nothing and refreshes nothing. */
static uint32_t refuse_spoilt(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	if (conn != BASE_CONN_NONE &&
		!conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		bool reply = conntrack_is_reply(&tracker->entries[conn], packet);
		conntrack_packet_refuse(context, packet, conn, reply);
		return conn;
	}
	count_miss(tracker);
	untracked(context, packet, BASE_CONN_INVALID);
	count_invalid(context);
	return conn;
}

static void sctp_packet(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	const struct conntrack_entry *entry = &context->tracker->entries[conn];
	struct conntrack_sctp_step step =
		sctp_step(context->tracker, packet, (enum conntrack_state)entry->state, reply);
	if (step.invalid)
		conntrack_packet_refuse(context, packet, conn, reply);
	else
		conntrack_packet_accept(context, packet, conn, reply, step.state, entry->flags);
}

enum { UNUSUAL = BASE_PACKET_FLOW | BASE_PACKET_CHECKSUM_BAD | BASE_PACKET_ICMP_ERROR };

/* Neither begins a connection nor moves one. */
static uint32_t take_unusual(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0) {
		untracked(context, packet, 0);
		return BASE_CONN_NONE;
	}
	if ((packet->flags & BASE_PACKET_CHECKSUM_BAD) != 0)
		return refuse_spoilt(context, packet, conn);
	relate(context, packet, conn);
	return conn;
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
	if (BASE_UNLIKELY((packet->flags & UNUSUAL) != BASE_PACKET_FLOW))
		return take_unusual(context, packet, conn);
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
	if ((packet->flags & BASE_PACKET_L4) != 0 && conntrack_state_is_tcp(entry->state))
		return conntrack_tcp_packet(context, packet, conn, reply);
	if (BASE_UNLIKELY(tracker->windows != NULL) && conntrack_state_is_tcp(entry->state))
		tracker->windows[conn].blind = true;
	if ((packet->flags & BASE_PACKET_L4) != 0 && conntrack_state_is_sctp(entry->state))
		sctp_packet(context, packet, conn, reply);
	else
		conntrack_packet_accept(context, packet, conn, reply, entry->state, entry->flags);
	return conn;
}
