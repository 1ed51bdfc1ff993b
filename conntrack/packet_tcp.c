/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/packet.h"

#include <string.h>

/* A field of a whole TCP header. */
static uint32_t tcp_word(const struct base_packet *packet, unsigned int at)
{
	if ((uint32_t)packet->l4_offset + at + 4 > packet->cap_len)
		return 0;
	const uint8_t *b = packet->data + packet->l4_offset + at;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t tcp_seq(const struct base_packet *packet)
{
	return tcp_word(packet, 4);
}

static uint32_t tcp_ack(const struct base_packet *packet)
{
	return tcp_word(packet, 8);
}

static bool is_syn(const struct base_packet *packet)
{
	return conntrack_tcp_class(packet->tcp_flags) == CONNTRACK_TCP_CLASS_SYN;
}

static bool is_syn_ack(const struct base_packet *packet)
{
	return conntrack_tcp_class(packet->tcp_flags) == CONNTRACK_TCP_CLASS_SYN_ACK;
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
	/* Its SYN may yet come, overtaken by this packet, and is no reuse of the tuple then. */
	opening->flags |= CONNTRACK_TCP_PICKED_UP | CONNTRACK_ENTRY_SYN_GUESSED;
	opening->syn_seq = tcp_seq(packet) - 1;
	if (step.state == CONNTRACK_STATE_TCP_SYN_RECV) {
		/* A SYN|ACK comes from the server: its receiver opened. */
		opening->syn_seq = tcp_ack(packet) - 1;
		opening->flags ^= CONNTRACK_ENTRY_ORIGIN_REVERSED | CONNTRACK_ENTRY_ORIGIN_SEEN |
				  CONNTRACK_ENTRY_REPLY_SEEN;
	}
	return true;
}

enum {
	SYN_SEEN_OR_GUESSED = CONNTRACK_ENTRY_SYN_KNOWN | CONNTRACK_ENTRY_SYN_GUESSED,
	SYN_FLAGS = SYN_SEEN_OR_GUESSED | CONNTRACK_ENTRY_SYN_OFFERED | CONNTRACK_ENTRY_CHALLENGED,
};

/* What the step needs to know beside the state. */
static unsigned int step_bits(const struct conntrack_context *context,
	const struct conntrack_entry *entry, const struct base_packet *packet, bool reply)
{
	unsigned int flags = entry->flags, bits = flags & CONNTRACK_ENTRY_TCP_BITS;
	bool offered = (flags & CONNTRACK_ENTRY_SYN_OFFERED) != 0;
	bool given_up = entry->state == CONNTRACK_STATE_TCP_CLOSE &&
			(flags & CONNTRACK_ENTRY_CHALLENGED) != 0;
	if (context->tracker->config.tcp_pickup)
		bits |= CONNTRACK_TCP_PICKUP;
	if ((flags & CONNTRACK_ENTRY_CHALLENGED) != 0)
		bits |= CONNTRACK_TCP_CHALLENGED;
	if (!reply && !offered && !given_up && is_syn(packet) &&
		(flags & SYN_SEEN_OR_GUESSED) != 0 && tcp_seq(packet) == entry->syn_seq)
		bits |= CONNTRACK_TCP_SAME_SYN;
	if (reply && offered && is_syn_ack(packet) && tcp_ack(packet) == entry->syn_seq + 1)
		bits |= CONNTRACK_TCP_ANSWERS_SYN;
	return bits;
}

/* A SYN of the opener that moves nothing. */
static void remember_syn(struct conntrack_entry *entry, uint32_t seq)
{
	unsigned int flags = entry->flags;
	bool same = (flags & SYN_SEEN_OR_GUESSED) != 0 && seq == entry->syn_seq;
	if (entry->state == CONNTRACK_STATE_TCP_LAST_ACK)
		flags |= CONNTRACK_ENTRY_CHALLENGED;
	if (same && (flags & CONNTRACK_ENTRY_SYN_OFFERED) != 0) {
		/* The ignored one again. */
	} else if (same || entry->state == CONNTRACK_STATE_TCP_SYN_SENT ||
		   (flags & (CONNTRACK_ENTRY_SYN_KNOWN | CONNTRACK_ENTRY_SYN_OFFERED)) == 0) {
		/* The connection's own: repeated, begun afresh, or late where it was picked up. */
		flags = (flags & ~(unsigned int)CONNTRACK_ENTRY_SYN_GUESSED) |
			CONNTRACK_ENTRY_SYN_KNOWN;
	} else {
		flags |= CONNTRACK_ENTRY_SYN_OFFERED;
	}
	entry->syn_seq = seq;
	entry->flags = (uint16_t)flags;
}

void conntrack_tcp_opened(struct conntrack_context *context, const struct base_packet *packet,
	uint32_t conn, bool reply)
{
	struct conntrack_tcp_window *window = &context->tracker->windows[conn];
	struct conntrack_tcp_segment segment;
	if ((packet->flags & BASE_PACKET_L4) == 0) {
		memset(window, 0, sizeof(*window));
		window->blind = true;
		return;
	}
	conntrack_tcp_segment_read(&segment, packet);
	conntrack_tcp_window_open(window, &segment, reply);
}

static struct conntrack_tcp_question question_of(
	const struct conntrack *tracker, const struct conntrack_entry *entry, bool reply)
{
	return (struct conntrack_tcp_question){
		.state = (enum conntrack_state)entry->state,
		.reply = reply,
		.reply_seen = (entry->flags & CONNTRACK_ENTRY_REPLY_SEEN) != 0,
		.assured = conntrack_entry_is_assured(entry),
		.tolerant = tracker->config.tcp_windows == CONNTRACK_TCP_WINDOWS_LIBERAL ||
			    (entry->flags & CONNTRACK_TCP_PICKED_UP) != 0,
	};
}

static void ignore_in_window(struct conntrack_context *context, const struct base_packet *packet,
	uint32_t conn, bool reply)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_tcp_window *window = &tracker->windows[conn];
	struct conntrack_tcp_question question =
		question_of(tracker, &tracker->entries[conn], reply);
	struct conntrack_tcp_segment segment;
	bool broken;
	conntrack_tcp_segment_read(&segment, packet);
	if (question.state != CONNTRACK_STATE_TCP_SYN_SENT || reply || !is_syn(packet)) {
		conntrack_tcp_window_ignore(window, &segment, question.state, reply);
		return;
	}
	/* The opener's SYN again does not refresh, but may begin afresh with another number. */
	conntrack_tcp_window_judge(window, &segment, &question, &broken);
	tracker->stats.out_of_window_packets += broken;
}

static void ignore(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	if (context->tracker->windows != NULL)
		ignore_in_window(context, packet, conn, reply);
	if (!reply && is_syn(packet))
		remember_syn(entry, tcp_seq(packet));
	else if (reply && !is_syn_ack(packet))
		entry->flags &= (uint16_t)~CONNTRACK_ENTRY_CHALLENGED;
	/* Who challenges a SYN is there: no RST of either side is its only answer. */
	if (reply && entry->state == CONNTRACK_STATE_TCP_SYN_SENT)
		entry->flags |= CONNTRACK_ENTRY_REPLY_SEEN;
	conntrack_packet_ignore(context, packet, conn, reply);
}

/* Returns the connection, or BASE_CONN_NONE when the packet was its last. keep: KEEP_ASSURED leaves
 * it to whether it is. */
static uint32_t accept(struct conntrack_context *context, struct base_packet *packet, uint32_t conn,
	bool reply, struct conntrack_tcp_step step, enum conntrack_keep keep)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_entry *entry = &tracker->entries[conn];
	unsigned int to = step.state, from = entry->state;
	unsigned int flags = entry->flags & ~(unsigned int)CONNTRACK_ENTRY_KEEP;
	bool unanswered =
		from == CONNTRACK_STATE_TCP_SYN_SENT && (flags & CONNTRACK_ENTRY_REPLY_SEEN) == 0;
	if (keep != CONNTRACK_KEEP_ASSURED)
		flags |= (unsigned int)keep << CONNTRACK_ENTRY_KEEP_SHIFT;
	if (step.verdict == CONNTRACK_TCP_RESYNC) {
		flags &= ~(unsigned int)(SYN_FLAGS | CONNTRACK_ENTRY_TCP_BITS);
		flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		tracker->stats.resyncs++;
	}
	if (!reply && is_syn(packet)) {
		entry->syn_seq = tcp_seq(packet);
		flags |= CONNTRACK_ENTRY_SYN_KNOWN;
	}
	if (to == CONNTRACK_STATE_TCP_SYN_SENT2)
		flags |= CONNTRACK_TCP_SIMULTANEOUS;
	/* Its SYN|ACK was not seen: what the sides may send is not known. */
	if (from == CONNTRACK_STATE_TCP_SYN_SENT &&
		(to == CONNTRACK_STATE_TCP_ESTABLISHED || to == CONNTRACK_STATE_TCP_FIN_WAIT))
		flags |= CONNTRACK_TCP_PICKED_UP;
	if (to != from &&
		(to == CONNTRACK_STATE_TCP_FIN_WAIT || to == CONNTRACK_STATE_TCP_LAST_ACK))
		flags = (flags & ~(unsigned int)CONNTRACK_TCP_CLOSER_REPLY) |
			(reply ? CONNTRACK_TCP_CLOSER_REPLY : 0);
	/* Its SYN was challenged and its RST ends what the peer still knew: the SYN that follows
	 * opens, whatever its number (RFC 9293 3.5.1). */
	if (to == CONNTRACK_STATE_TCP_CLOSE && from != CONNTRACK_STATE_TCP_CLOSE) {
		flags &= ~(unsigned int)CONNTRACK_ENTRY_CHALLENGED;
		if (from == CONNTRACK_STATE_TCP_SYN_SENT && !reply)
			flags |= CONNTRACK_ENTRY_CHALLENGED;
	}
	conntrack_packet_accept(context, packet, conn, reply, to, flags);
	if (to != CONNTRACK_STATE_TCP_CLOSE || !unanswered)
		return conn;
	/* Refused, or given up before anybody answered. */
	conntrack_retire(tracker, conn, &tracker->stats.closed);
	return BASE_CONN_NONE;
}

/* The hosts are closing, whatever the tracker makes of it: it need not be kept for days. */
static void keep_less(
	struct conntrack_context *context, const struct base_packet *packet, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_entry *entry = &tracker->entries[conn];
	unsigned int flags = entry->flags & ~(unsigned int)CONNTRACK_ENTRY_KEEP;
	uint64_t due_ns = conntrack_due_ns(tracker, entry), last_ns = entry->last_seen_ns;
	flags |= CONNTRACK_KEEP_UNACKED << CONNTRACK_ENTRY_KEEP_SHIFT;
	if (packet->time_ns < last_ns)
		return;
	struct conntrack_entry later = *entry;
	later.flags = (uint16_t)flags;
	later.last_seen_ns = packet->time_ns;
	if (conntrack_due_ns(tracker, &later) >= due_ns)
		return;
	entry->last_seen_ns = packet->time_ns;
	conntrack_transition(tracker, conn, entry->state, flags);
}

/* What sequence numbers say of a segment that the states accept. */
static uint32_t accept_if_fits(struct conntrack_context *context, struct base_packet *packet,
	uint32_t conn, bool reply, struct conntrack_tcp_step step)
{
	struct conntrack *tracker = context->tracker;
	const struct conntrack_entry *entry = &tracker->entries[conn];
	struct conntrack_tcp_window *window = &tracker->windows[conn];
	struct conntrack_tcp_segment segment;
	struct conntrack_tcp_question question = question_of(tracker, entry, reply);
	enum conntrack_keep keep = CONNTRACK_KEEP_ASSURED;
	bool broken;
	conntrack_tcp_segment_read(&segment, packet);
	if (step.verdict == CONNTRACK_TCP_RESYNC) {
		conntrack_tcp_window_resync(window, entry->syn_seq);
		question.state = CONNTRACK_STATE_TCP_SYN_SENT;
		question.tolerant = tracker->config.tcp_windows == CONNTRACK_TCP_WINDOWS_LIBERAL;
	}
	enum conntrack_tcp_fit fit =
		conntrack_tcp_window_judge(window, &segment, &question, &broken);
	tracker->stats.out_of_window_packets += broken;
	switch (fit) {
	case CONNTRACK_TCP_STRAY:
		conntrack_packet_ignore(context, packet, conn, reply);
		return conn;
	case CONNTRACK_TCP_MISFIT:
		if (question.assured && conntrack_tcp_window_refused_close(window, &segment, reply))
			keep_less(context, packet, conn);
		conntrack_packet_refuse(context, packet, conn, reply);
		return conn;
	case CONNTRACK_TCP_FORGED:
		conntrack_packet_refuse(context, packet, conn, reply);
		return conn;
	case CONNTRACK_TCP_FITS_AS_IS:
		step.state = entry->state;
		break;
	case CONNTRACK_TCP_FITS:
		break;
	}
	if (segment.class == CONNTRACK_TCP_CLASS_RST)
		keep = CONNTRACK_KEEP_RESET;
	else if (conntrack_tcp_window_is_stuck(window))
		keep = CONNTRACK_KEEP_UNACKED;
	return accept(context, packet, conn, reply, step, keep);
}

uint32_t conntrack_tcp_packet(
	struct conntrack_context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack *tracker = context->tracker;
	const struct conntrack_entry *entry = &tracker->entries[conn];
	struct conntrack_tcp_step step = conntrack_tcp_step((enum conntrack_state)entry->state,
		reply, packet->tcp_flags, step_bits(context, entry, packet, reply));
	switch ((enum conntrack_tcp_verdict)step.verdict) {
	case CONNTRACK_TCP_REOPEN:
		conntrack_retire(tracker, conn, &tracker->stats.closed);
		return conntrack_packet_open(context, packet);
	case CONNTRACK_TCP_ACCEPT:
	case CONNTRACK_TCP_RESYNC:
		if (tracker->windows != NULL)
			return accept_if_fits(context, packet, conn, reply, step);
		return accept(context, packet, conn, reply, step, CONNTRACK_KEEP_ASSURED);
	case CONNTRACK_TCP_IGNORE:
		ignore(context, packet, conn, reply);
		return conn;
	case CONNTRACK_TCP_INVALID:
	case CONNTRACK_TCP_VERDICTS_COUNT:
		break;
	}
	conntrack_packet_refuse(context, packet, conn, reply);
	return conn;
}

enum {
	/* A whole segment that is what was sent. */
	SEGMENT_MASK = BASE_PACKET_FLOW | BASE_PACKET_L4 | BASE_PACKET_ICMP_ERROR |
		       BASE_PACKET_CHECKSUM_BAD | BASE_PACKET_FRAGMENT,
	SEGMENT = BASE_PACKET_FLOW | BASE_PACKET_L4,
	/* Of a connection where an ACK changes nothing but numbers. */
	OPEN_FLAGS =
		CONNTRACK_ENTRY_ASSURED | CONNTRACK_ENTRY_ORIGIN_SEEN | CONNTRACK_ENTRY_REPLY_SEEN,
};

uint32_t conntrack_tcp_windowed(struct conntrack_context *context, struct base_packet *packet,
	unsigned int index, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	if (conn == BASE_CONN_NONE || (packet->flags & SEGMENT_MASK) != SEGMENT ||
		packet->drop_reason != BASE_DROP_NONE)
		return conntrack_packet(context, packet, index, conn);
	struct conntrack_entry *entry = &context->entries[conn];
	if (entry->state != CONNTRACK_STATE_TCP_ESTABLISHED ||
		(entry->flags & OPEN_FLAGS) != OPEN_FLAGS ||
		conntrack_tcp_class(packet->tcp_flags) != CONNTRACK_TCP_CLASS_ACK ||
		conntrack_is_expired(tracker, entry, packet->time_ns))
		return conntrack_packet(context, packet, index, conn);
	bool reply = conntrack_is_reply(entry, packet);
	enum conntrack_tcp_carry carry =
		conntrack_tcp_window_carry_on(&tracker->windows[conn], packet, reply);
	if (carry == CONNTRACK_TCP_CARRY_NOT)
		return conntrack_packet(context, packet, index, conn);
	unsigned int keep = carry == CONNTRACK_TCP_CARRY_STUCK ? CONNTRACK_KEEP_UNACKED
							       : CONNTRACK_KEEP_ASSURED;
	unsigned int flags = (entry->flags & ~(unsigned int)CONNTRACK_ENTRY_KEEP) |
			     keep << CONNTRACK_ENTRY_KEEP_SHIFT;
	if (packet->time_ns > entry->last_seen_ns)
		entry->last_seen_ns = packet->time_ns;
	if (flags != entry->flags)
		conntrack_transition(tracker, conn, entry->state, flags);
	conntrack_count_packet(entry);
	conntrack_mark(packet, entry, conn, reply, 0);
	return conn;
}
