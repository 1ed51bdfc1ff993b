/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tcp_window.h"

#include "base/packet.h"

#include <string.h>

enum {
	HEADER = 20,
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_SCALE = 3,
	OPTION_SACK_PERMITTED = 4,
	OPTION_SACK = 5,
	SCALE_MAX = 14,           /* RFC 7323 2.3 */
	ACK_DISTANCE_MIN = 66000, /* bound IV is never narrower */
	SACK_BLOCK = 8,
};

/* Comparisons modulo 2^32 (RFC 9293 3.4). */
static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static bool after(uint32_t a, uint32_t b)
{
	return before(b, a);
}

static uint32_t load32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

void conntrack_tcp_segment_read(
	struct conntrack_tcp_segment *segment, const struct base_packet *packet)
{
	const uint8_t *header = packet->data + packet->l4_offset;
	uint32_t header_len = (header[12] >> 4) * 4u;
	uint32_t room = packet->cap_len - packet->l4_offset;
	uint32_t length = packet->payload_len;
	segment->seq = load32(header + 4);
	segment->ack = load32(header + 8);
	segment->window = (uint16_t)(header[14] << 8 | header[15]);
	segment->flags = packet->tcp_flags;
	segment->class = conntrack_tcp_class(packet->tcp_flags);
	length += (segment->flags & BASE_TCP_SYN) != 0;
	length += (segment->flags & BASE_TCP_FIN) != 0;
	segment->end = segment->seq + length;
	segment->part = header_len > room || (packet->flags & BASE_PACKET_FRAGMENT) != 0 ||
			packet->payload_len == UINT16_MAX;
	segment->options = header + HEADER;
	segment->options_len = 0;
	if (header_len > HEADER && header_len <= room)
		segment->options_len = (uint8_t)(header_len - HEADER);
}

/* The next option: its size, or 0 at the end. *at is behind it. */
static unsigned int next_option(
	const struct conntrack_tcp_segment *segment, unsigned int *at, const uint8_t **option)
{
	const uint8_t *options = segment->options;
	while (*at < segment->options_len && options[*at] == OPTION_NOP)
		(*at)++;
	if (segment->options_len - *at < 2 || options[*at] == OPTION_END)
		return 0;
	unsigned int size = options[*at + 1];
	if (size < 2 || size > segment->options_len - *at)
		return 0;
	*option = options + *at;
	*at += size;
	return size;
}

/* What a SYN offers. */
static void read_offers(const struct conntrack_tcp_segment *segment, uint8_t *scale, uint8_t *flags)
{
	unsigned int at = 0, size;
	const uint8_t *option;
	*scale = 0;
	*flags = 0;
	while ((size = next_option(segment, &at, &option)) != 0) {
		if (option[0] == OPTION_SCALE && size == 3) {
			*scale = option[2] < SCALE_MAX ? option[2] : SCALE_MAX;
			*flags |= CONNTRACK_TCP_SIDE_SCALES;
		} else if (option[0] == OPTION_SACK_PERMITTED && size == 2) {
			*flags |= CONNTRACK_TCP_SIDE_SACKS;
		}
	}
}

/* The highest right edge of the segment's SACK blocks (RFC 2018), or ack. */
static uint32_t highest_edge(const struct conntrack_tcp_segment *segment, uint32_t ack)
{
	unsigned int at = 0, size;
	const uint8_t *option;
	while ((size = next_option(segment, &at, &option)) != 0) {
		if (option[0] != OPTION_SACK || size < 2 + SACK_BLOCK ||
			(size - 2) % SACK_BLOCK != 0)
			continue;
		for (unsigned int i = 2; i < size; i += SACK_BLOCK) {
			uint32_t right = load32(option + i + 4);
			if (after(right, ack))
				ack = right;
		}
		return ack;
	}
	return ack;
}

static uint32_t at_least_one(uint32_t window)
{
	return window != 0 ? window : 1;
}

static bool is_syn(const struct conntrack_tcp_segment *segment)
{
	return (segment->flags & BASE_TCP_SYN) != 0;
}

static bool has_ack(const struct conntrack_tcp_segment *segment)
{
	return (segment->flags & BASE_TCP_ACK) != 0;
}

/* A side begins with its SYN. Windows are scaled only when the other SYN offers it, too. */
static void begin_with_syn(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply)
{
	struct conntrack_tcp_side *sender = &window->side[reply], *receiver = &window->side[!reply];
	sender->end = sender->max_end = segment->end;
	sender->max_window = at_least_one(segment->window);
	read_offers(segment, &sender->scale, &sender->flags);
	if (reply && (sender->flags & receiver->flags & CONNTRACK_TCP_SIDE_SCALES) == 0)
		sender->scale = receiver->scale = 0;
}

/* A side begins in the middle. */
static void begin_midway(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply, uint32_t sack)
{
	struct conntrack_tcp_side *sender = &window->side[reply], *receiver = &window->side[!reply];
	sender->end = segment->end;
	sender->max_window = at_least_one((uint32_t)segment->window << sender->scale);
	sender->max_end = segment->end + sender->max_window;
	if (receiver->max_window == 0) {
		receiver->end = receiver->max_end = sack;
		receiver->flags |= CONNTRACK_TCP_SIDE_INFERRED;
	} else if (sack == receiver->end + 1) {
		/* The answer to a keep-alive, which carries a byte that was sent before. */
		receiver->end++;
	}
}

/* A side that has not been seen has sent what its peer acknowledges. */
static void infer(struct conntrack_tcp_window *window, const struct conntrack_tcp_segment *segment,
	bool unseen)
{
	struct conntrack_tcp_side *side = &window->side[unseen];
	uint32_t sack = segment->ack;
	if ((side->flags & CONNTRACK_TCP_SIDE_SACKS) != 0)
		sack = highest_edge(segment, sack);
	if ((side->flags & CONNTRACK_TCP_SIDE_INFERRED) != 0 && !after(sack, side->end))
		return;
	side->end = side->max_end = sack;
	side->flags |= CONNTRACK_TCP_SIDE_INFERRED;
}

/* The same segment again, without an answer? */
static void count_repeats(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply)
{
	if (window->last_reply == reply && window->last_seq == segment->seq &&
		window->last_ack == segment->ack && window->last_end == segment->end &&
		window->last_window == segment->window) {
		window->repeats += window->repeats < UINT8_MAX;
		return;
	}
	window->last_reply = reply;
	window->last_seq = segment->seq;
	window->last_ack = segment->ack;
	window->last_end = segment->end;
	window->last_window = segment->window;
	window->repeats = 0;
}

void conntrack_tcp_window_open(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply)
{
	memset(window, 0, sizeof(*window));
	window->blind = segment->part;
	window->last_class = segment->class;
	window->last_reply = reply;
	if (segment->class == CONNTRACK_TCP_CLASS_SYN) {
		begin_with_syn(window, segment, reply);
		return;
	}
	/* Nobody knows how the two scale, or whether: as far as they may. */
	for (unsigned int i = 0; i < 2; i++) {
		window->side[i].scale = SCALE_MAX;
		window->side[i].flags = CONNTRACK_TCP_SIDE_SACKS | CONNTRACK_TCP_SIDE_SCALES;
	}
	if (segment->class == CONNTRACK_TCP_CLASS_SYN_ACK) {
		begin_with_syn(window, segment, reply);
		infer(window, segment, !reply);
		return;
	}
	begin_midway(window, segment, reply, segment->ack);
	count_repeats(window, segment, reply);
}

/* The segment as the bounds see it. */
struct edges {
	uint32_t seq, end, ack, sack;
};

static struct edges edges_of(const struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, const struct conntrack_tcp_question *question)
{
	const struct conntrack_tcp_side *sender = &window->side[question->reply];
	const struct conntrack_tcp_side *receiver = &window->side[!question->reply];
	bool rst = (segment->flags & BASE_TCP_RST) != 0;
	struct edges e = { segment->seq, segment->end, segment->ack, segment->ack };
	/* Without an ACK, or with the zero of an RST that only pretends to have one, what was
	 * sent is taken for acknowledged. */
	if (!has_ack(segment) || (rst && segment->ack == 0))
		e.ack = e.sack = receiver->end;
	else if ((receiver->flags & CONNTRACK_TCP_SIDE_SACKS) != 0)
		e.sack = highest_edge(segment, segment->ack);
	/* The answer to a SYN has no number of its own. */
	if (rst && segment->seq == 0 && question->state == CONNTRACK_STATE_TCP_SYN_SENT)
		e.seq = e.end = sender->end;
	return e;
}

/* Bounds II and IV. */
static bool is_recent(const struct conntrack_tcp_side *sender,
	const struct conntrack_tcp_side *receiver, const struct edges *e)
{
	return receiver->max_window == 0 || !before(e->end, sender->end - receiver->max_window);
}

static bool acks_recent(const struct conntrack_tcp_side *sender,
	const struct conntrack_tcp_side *receiver, const struct edges *e)
{
	uint32_t distance =
		sender->max_window > ACK_DISTANCE_MIN ? sender->max_window : ACK_DISTANCE_MIN;
	return !before(e->sack, receiver->end - distance);
}

/* Of a receiver that was not seen, nobody knows what it has room for: as where a capture shows one
 * direction. That is no reason to believe an RST. */
static enum conntrack_tcp_fit compare(struct conntrack_tcp_side *sender,
	const struct conntrack_tcp_side *receiver, const struct edges *e, bool rst)
{
	bool acks_sent = !after(e->sack, receiver->end);
	if ((receiver->max_window != 0 || rst) && after(e->seq, sender->max_end)) {
		/* Somewhat more than the window holds: should it get through, its
		 * acknowledgement must not come as a surprise. */
		uint32_t beyond = e->end - sender->max_end + 1;
		if (beyond > receiver->max_window || !acks_sent ||
			!is_recent(sender, receiver, e) || !acks_recent(sender, receiver, e))
			return CONNTRACK_TCP_MISFIT;
		sender->end = e->end;
		sender->flags |= CONNTRACK_TCP_SIDE_UNACKED;
		return CONNTRACK_TCP_STRAY;
	}
	if (!acks_sent)
		return CONNTRACK_TCP_MISFIT;
	if (!is_recent(sender, receiver, e) || !acks_recent(sender, receiver, e))
		return CONNTRACK_TCP_STRAY;
	return CONNTRACK_TCP_FITS;
}

/* The segment is taken: what do we know now? */
static void learn(struct conntrack_tcp_side *sender, struct conntrack_tcp_side *receiver,
	const struct conntrack_tcp_segment *segment, const struct edges *e)
{
	uint32_t offered = segment->window;
	if (!is_syn(segment))
		offered <<= sender->scale;
	if (offered + (e->sack - e->ack) > sender->max_window)
		sender->max_window = offered + (e->sack - e->ack);
	if (after(e->end, sender->end)) {
		sender->end = e->end;
		sender->flags |= CONNTRACK_TCP_SIDE_UNACKED;
	}
	if (has_ack(segment) && ((sender->flags & CONNTRACK_TCP_SIDE_ACKED) == 0 ||
					after(e->ack, sender->max_ack))) {
		sender->max_ack = e->ack;
		sender->flags |= CONNTRACK_TCP_SIDE_ACKED;
	}
	if (receiver->max_window != 0 && after(e->end, sender->max_end))
		receiver->max_window += e->end - sender->max_end;
	if (!before(e->sack + offered, receiver->max_end))
		receiver->max_end = e->sack + at_least_one(offered);
	if (e->ack == receiver->end)
		receiver->flags &= (uint8_t)~CONNTRACK_TCP_SIDE_UNACKED;
}

/* Sides that have not been seen, or begin anew. True: nothing is left to compare. */
static bool meet(struct conntrack_tcp_window *window, const struct conntrack_tcp_segment *segment,
	const struct conntrack_tcp_question *question)
{
	struct conntrack_tcp_side *sender = &window->side[question->reply];
	struct conntrack_tcp_side *receiver = &window->side[!question->reply];
	bool opening = question->state == CONNTRACK_STATE_TCP_SYN_SENT ||
		       question->state == CONNTRACK_STATE_TCP_SYN_RECV;
	if (sender->max_window == 0 && !is_syn(segment)) {
		uint32_t sack = segment->ack;
		if ((receiver->flags & CONNTRACK_TCP_SIDE_SACKS) != 0)
			sack = highest_edge(segment, sack);
		begin_midway(window, segment, question->reply, sack);
		return false;
	}
	if (sender->max_window == 0) {
		begin_with_syn(window, segment, question->reply);
		return !has_ack(segment);
	}
	if (is_syn(segment) && opening && after(segment->end, sender->end)) {
		begin_with_syn(window, segment, question->reply);
		return question->reply && !has_ack(segment);
	}
	if (receiver->max_window == 0 && has_ack(segment) && (segment->flags & BASE_TCP_RST) == 0)
		infer(window, segment, !question->reply);
	return false;
}

static enum conntrack_tcp_fit judge_bounds(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, const struct conntrack_tcp_question *question,
	bool *broken)
{
	struct conntrack_tcp_side *sender = &window->side[question->reply];
	struct conntrack_tcp_side *receiver = &window->side[!question->reply];
	if (meet(window, segment, question))
		return CONNTRACK_TCP_FITS;
	struct edges e = edges_of(window, segment, question);
	enum conntrack_tcp_fit fit =
		compare(sender, receiver, &e, segment->class == CONNTRACK_TCP_CLASS_RST);
	if (fit != CONNTRACK_TCP_FITS) {
		*broken = true;
		return question->tolerant || window->blind ? CONNTRACK_TCP_FITS : fit;
	}
	learn(sender, receiver, segment, &e);
	if (segment->class == CONNTRACK_TCP_CLASS_ACK)
		count_repeats(window, segment, question->reply);
	return CONNTRACK_TCP_FITS;
}

enum rst {
	RST_FITS,    /* whatever the bounds say */
	RST_COMPARE, /* if the bounds are met */
	RST_DOUBTED, /* if they are met, and then the state stays */
	RST_REFUSED,
};

static enum rst judge_rst(const struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, const struct conntrack_tcp_question *question)
{
	const struct conntrack_tcp_side *receiver = &window->side[!question->reply];
	bool open = question->state == CONNTRACK_STATE_TCP_ESTABLISHED;
	bool after_syn = window->last_class == CONNTRACK_TCP_CLASS_SYN;
	bool after_ack = window->last_class == CONNTRACK_TCP_CLASS_ACK;
	bool doubted = false;
	/* Closing already: the hosts may have used the tuple again by now. */
	if (question->state >= CONNTRACK_STATE_TCP_FIN_WAIT)
		return RST_FITS;
	/* A SYN may have been let through: what was acknowledged before it tells nothing then. */
	if ((receiver->flags & CONNTRACK_TCP_SIDE_ACKED) != 0 && !after_syn &&
		(segment->seq != 0 || open)) {
		bool train = after_ack && window->last_reply == question->reply &&
			     segment->seq == window->last_end;
		if (before(segment->seq, receiver->max_ack))
			return RST_REFUSED;
		if (!open || segment->seq == receiver->max_ack || train)
			return RST_COMPARE;
		doubted = true;
	}
	/* The answer to a SYN or an ACK that was ignored. */
	if (((question->reply_seen && after_syn) || (!question->assured && after_ack)) &&
		segment->ack == window->last_end)
		return RST_FITS;
	if (question->state == CONNTRACK_STATE_TCP_SYN_SENT && after_ack && window->last_reply &&
		segment->seq == window->last_ack)
		return RST_FITS;
	return doubted ? RST_DOUBTED : RST_COMPARE;
}

enum conntrack_tcp_fit conntrack_tcp_window_judge(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, const struct conntrack_tcp_question *question,
	bool *broken)
{
	enum conntrack_tcp_fit fit = CONNTRACK_TCP_FITS;
	enum rst rst = RST_COMPARE;
	*broken = false;
	if (segment->part)
		window->blind = true;
	if (segment->class == CONNTRACK_TCP_CLASS_RST)
		rst = judge_rst(window, segment, question);
	if (rst == RST_REFUSED) {
		*broken = true;
		return CONNTRACK_TCP_FORGED;
	}
	if (rst != RST_FITS)
		fit = judge_bounds(window, segment, question, broken);
	if (fit != CONNTRACK_TCP_FITS)
		return fit;
	window->last_class = segment->class;
	window->last_reply = question->reply;
	return rst == RST_DOUBTED ? CONNTRACK_TCP_FITS_AS_IS : CONNTRACK_TCP_FITS;
}

/* No SACK blocks among them. */
static bool options_are_plain(const uint8_t *header, uint32_t header_len)
{
	static const uint32_t nop_nop_times = 0x0101080a; /* what most hosts send, RFC 7323 A */
	return header_len == HEADER ||
	       (header_len == HEADER + 12 && load32(header + HEADER) == nop_nop_times);
}

enum conntrack_tcp_carry conntrack_tcp_window_carry_on(
	struct conntrack_tcp_window *window, const struct base_packet *packet, bool reply)
{
	const uint8_t *header = packet->data + packet->l4_offset;
	struct conntrack_tcp_side *sender = &window->side[reply], *receiver = &window->side[!reply];
	uint32_t header_len = (header[12] >> 4) * 4u;
	struct conntrack_tcp_segment segment = {
		.seq = load32(header + 4),
		.ack = load32(header + 8),
		.end = load32(header + 4) + packet->payload_len,
		.window = (uint16_t)(header[14] << 8 | header[15]),
		.flags = BASE_TCP_ACK,
	};
	struct edges e = { segment.seq, segment.end, segment.ack, segment.ack };
	if (sender->max_window == 0 || receiver->max_window == 0 ||
		packet->payload_len == UINT16_MAX ||
		header_len > (uint32_t)packet->cap_len - packet->l4_offset ||
		((receiver->flags & CONNTRACK_TCP_SIDE_SACKS) != 0 &&
			!options_are_plain(header, header_len)))
		return CONNTRACK_TCP_CARRY_NOT;
	/* Bounds I to IV. */
	if (after(e.end, sender->max_end) || after(e.seq, sender->max_end) ||
		after(e.ack, receiver->end) || !is_recent(sender, receiver, &e) ||
		!acks_recent(sender, receiver, &e))
		return CONNTRACK_TCP_CARRY_NOT;
	learn(sender, receiver, &segment, &e);
	count_repeats(window, &segment, reply);
	window->last_class = CONNTRACK_TCP_CLASS_ACK;
	return conntrack_tcp_window_is_stuck(window) ? CONNTRACK_TCP_CARRY_STUCK
						     : CONNTRACK_TCP_CARRY_ON;
}

void conntrack_tcp_window_ignore(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, enum conntrack_state state, bool reply)
{
	window->last_class = segment->class;
	window->last_reply = reply;
	window->last_seq = segment->seq;
	window->last_end = segment->end;
	window->last_window = segment->window;
	if (segment->class == CONNTRACK_TCP_CLASS_SYN && !reply) {
		window->offered_window = segment->window;
		read_offers(segment, &window->offered_scale, &window->offered_flags);
	}
	if (state == CONNTRACK_STATE_TCP_SYN_SENT && reply)
		window->last_ack = segment->ack;
}

void conntrack_tcp_window_resync(struct conntrack_tcp_window *window, uint32_t seq)
{
	window->side[0] = (struct conntrack_tcp_side){
		.end = seq + 1,
		.max_end = seq + 1,
		.max_window = at_least_one(window->offered_window),
		.scale = window->offered_scale,
		.flags = window->offered_flags,
	};
	window->side[1] = (struct conntrack_tcp_side){ 0 };
	window->blind = false;
}

bool conntrack_tcp_window_refused_close(struct conntrack_tcp_window *window,
	const struct conntrack_tcp_segment *segment, bool reply)
{
	bool closes = segment->class == CONNTRACK_TCP_CLASS_FIN ||
		      segment->class == CONNTRACK_TCP_CLASS_RST;
	bool other_closes = window->last_class == CONNTRACK_TCP_CLASS_FIN ||
			    window->last_class == CONNTRACK_TCP_CLASS_RST;
	if (!closes)
		return false;
	if (other_closes && window->last_reply != reply)
		return true;
	window->last_class = segment->class;
	window->last_reply = reply;
	return false;
}
