/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/packet.h"

/* Sequence number of a packet with a whole TCP header. */
static uint32_t tcp_seq(const struct base_packet *packet)
{
	if ((uint32_t)packet->l4_offset + 8 > packet->cap_len)
		return 0;
	const uint8_t *b = packet->data + packet->l4_offset + 4;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool is_syn(const struct base_packet *packet)
{
	return conntrack_tcp_class(packet->tcp_flags) == CONNTRACK_TCP_CLASS_SYN;
}

bool conntrack_tcp_open(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *opening)
{
	bool pickup = tracker->config.tcp_pickup;
	if ((packet->flags & BASE_PACKET_L4) == 0) {
		/* The snapshot cut the header: all that is known is that the flow is there. */
		opening->state = CONNTRACK_STATE_TCP_ESTABLISHED;
		opening->flags |= CONNTRACK_TCP_PICKED_UP;
		return pickup;
	}
	struct conntrack_tcp_step step = conntrack_tcp_step(
		CONNTRACK_STATE_NONE, false, packet->tcp_flags, pickup ? CONNTRACK_TCP_PICKUP : 0);
	if (step.verdict != CONNTRACK_TCP_ACCEPT)
		return false;
	opening->state = step.state;
	if (is_syn(packet)) {
		opening->syn_seq = tcp_seq(packet);
		opening->flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		return true;
	}
	opening->flags |= CONNTRACK_TCP_PICKED_UP;
	if (step.state == CONNTRACK_STATE_TCP_SYN_RECV) {
		/* A SYN|ACK comes from the server: its receiver opened. */
		opening->flags ^= CONNTRACK_ENTRY_ORIGIN_REVERSED | CONNTRACK_ENTRY_ORIGIN_SEEN |
				  CONNTRACK_ENTRY_REPLY_SEEN;
	}
	return true;
}

static void accept(struct conntrack_context *context, struct base_packet *packet, uint32_t conn,
	bool reply, unsigned int to)
{
	const struct conntrack_entry *entry = &context->tracker->entries[conn];
	unsigned int flags = entry->flags;
	if (to == CONNTRACK_STATE_TCP_SYN_SENT2)
		flags |= CONNTRACK_TCP_SIMULTANEOUS;
	if (to != entry->state &&
		(to == CONNTRACK_STATE_TCP_FIN_WAIT || to == CONNTRACK_STATE_TCP_LAST_ACK))
		flags = (flags & ~(unsigned int)CONNTRACK_TCP_CLOSER_REPLY) |
			(reply ? CONNTRACK_TCP_CLOSER_REPLY : 0);
	conntrack_packet_accept(context, packet, conn, reply, to, flags);
}

uint32_t conntrack_tcp_packet(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_entry *entry = &tracker->entries[conn];
	unsigned int bits = entry->flags & CONNTRACK_ENTRY_TCP_BITS;
	bool syn_known = (entry->flags & CONNTRACK_ENTRY_SYN_KNOWN) != 0;
	bool opener_syn = !reply && is_syn(packet);
	uint32_t seq = opener_syn ? tcp_seq(packet) : 0;
	if (tracker->config.tcp_pickup)
		bits |= CONNTRACK_TCP_PICKUP;
	if (opener_syn && syn_known && seq == entry->syn_seq)
		bits |= CONNTRACK_TCP_SAME_SYN;

	struct conntrack_tcp_step step =
		conntrack_tcp_step(entry->state, reply, packet->tcp_flags, bits);
	bool accepted = step.verdict == CONNTRACK_TCP_ACCEPT;
	switch ((enum conntrack_tcp_verdict)step.verdict) {
	case CONNTRACK_TCP_REOPEN:
		conntrack_retire(tracker, conn, &tracker->stats.closed);
		return conntrack_packet_open(context, packet);
	case CONNTRACK_TCP_ACCEPT:
	case CONNTRACK_TCP_IGNORE:
		/* An ignored one overtook nothing: it is late, but its number is worth having. */
		if (opener_syn && (accepted || !syn_known)) {
			entry->syn_seq = seq;
			entry->flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		}
		if (accepted)
			accept(context, packet, conn, reply, step.state);
		else
			conntrack_packet_ignore(context, packet, conn, reply);
		return conn;
	case CONNTRACK_TCP_INVALID:
	case CONNTRACK_TCP_VERDICTS_COUNT:
		break;
	}
	conntrack_packet_refuse(context, packet, conn, reply);
	return conn;
}
