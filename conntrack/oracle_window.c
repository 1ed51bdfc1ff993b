/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP windows as the oracle sees them. Written from the four bounds, not from
 * conntrack/tcp_window.c; numbers compare as TCP compares them, the shorter way around.
 */
#include "conntrack/oracle_private.h"

#include <string.h>

struct look {
	uint32_t seq, ack, length, window;
	bool syn, ack_set, fin, rst;
	char kind;
	bool part;
	bool scales, sacks;
	unsigned int scale;
	unsigned int blocks; /* of SACK */
	uint32_t right[5];
};

static uint32_t number(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void look_at_option(struct look *look, const uint8_t *option, unsigned int size)
{
	if (option[0] == 3 && size == 3) {
		look->scales = true;
		look->scale = option[2] > 14 ? 14 : option[2];
	} else if (option[0] == 4 && size == 2) {
		look->sacks = true;
	} else if (option[0] == 5 && size > 2 && size % 8 == 2 && look->blocks == 0) {
		for (unsigned int i = 0; i < (size - 2) / 8 && i < 5; i++)
			look->right[look->blocks++] = number(option + 2 + 8 * i + 4);
	}
}

static struct look look_at(const struct base_packet *packet)
{
	const uint8_t *h = packet->data + packet->l4_offset;
	unsigned int size = (h[12] >> 4) * 4u, captured = packet->cap_len - packet->l4_offset;
	unsigned int flags = packet->tcp_flags;
	struct look look = {
		.seq = number(h + 4),
		.ack = number(h + 8),
		.window = h[14] * 256u + h[15],
		.syn = (flags & BASE_TCP_SYN) != 0,
		.ack_set = (flags & BASE_TCP_ACK) != 0,
		.fin = (flags & BASE_TCP_FIN) != 0,
		.rst = (flags & BASE_TCP_RST) != 0,
	};
	look.length = packet->payload_len + (look.syn ? 1u : 0) + (look.fin ? 1u : 0);
	look.part = size > captured || (packet->flags & BASE_PACKET_FRAGMENT) != 0 ||
		    packet->payload_len == 65535;
	look.kind = look.rst ? 'R' : look.syn ? (look.ack_set ? 'K' : 'S') : look.fin ? 'F' : 'A';
	if (size > captured)
		return look;
	for (unsigned int i = 20; i + 2 <= size && h[i] != 0;) {
		if (h[i] == 1) {
			i++;
			continue;
		}
		if (h[i + 1] < 2 || i + h[i + 1] > size)
			break;
		look_at_option(&look, h + i, h[i + 1]);
		i += h[i + 1];
	}
	return look;
}

/* How far a is beyond b; negative: it comes before. */
static int32_t beyond(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void side_from_syn(struct conntrack_oracle_tcp *tcp, const struct look *look, bool reply)
{
	struct conntrack_oracle_side *me = &tcp->side[reply], *peer = &tcp->side[!reply];
	*me = (struct conntrack_oracle_side){ .seen = true,
		.sent = look->seq + look->length,
		.room = larger(look->window, 1),
		.scales = look->scales,
		.sacks = look->sacks,
		.scale = look->scale };
	me->allowed = me->sent;
	if (reply && !(me->scales && peer->scales))
		me->scale = peer->scale = 0;
}

static void side_from_the_middle(
	struct conntrack_oracle_tcp *tcp, const struct look *look, bool reply, uint32_t sack)
{
	struct conntrack_oracle_side *me = &tcp->side[reply], *peer = &tcp->side[!reply];
	me->seen = true;
	me->sent = look->seq + look->length;
	me->room = larger(look->window << me->scale, 1);
	me->allowed = me->sent + me->room;
	if (!peer->seen) {
		peer->sent = peer->allowed = sack;
		peer->inferred = true;
	} else if (sack == peer->sent + 1)
		peer->sent++; /* a keep-alive's byte */
}

static uint32_t sack_of(const struct look *look, uint32_t ack)
{
	for (unsigned int i = 0; i < look->blocks; i++)
		if (beyond(look->right[i], ack) > 0)
			ack = look->right[i];
	return ack;
}

/* A side that is never seen has sent what is acknowledged. */
static void infer(struct conntrack_oracle_side *unseen, const struct look *look)
{
	uint32_t sack = unseen->sacks ? sack_of(look, look->ack) : look->ack;
	if (unseen->inferred && beyond(sack, unseen->sent) <= 0)
		return;
	unseen->inferred = true;
	unseen->sent = unseen->allowed = sack;
}

static void remember(struct conntrack_oracle_tcp *tcp, const struct look *look, bool reply)
{
	tcp->last_reply = reply;
	tcp->last_seq = look->seq;
	tcp->last_ack = look->ack;
	tcp->last_end = look->seq + look->length;
	tcp->last_window = look->window;
}

static void count_again(struct conntrack_oracle_tcp *tcp, const struct look *look, bool reply)
{
	bool same = tcp->last_reply == reply && tcp->last_seq == look->seq &&
		    tcp->last_ack == look->ack && tcp->last_end == look->seq + look->length &&
		    tcp->last_window == look->window;
	tcp->again = same ? tcp->again + 1 : 0;
	remember(tcp, look, reply);
}

void conntrack_oracle_tcp_begin(struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, bool whole)
{
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	memset(tcp, 0, sizeof(*tcp));
	tcp->blind = !whole;
	if (!whole)
		return;
	struct look look = look_at(packet);
	tcp->blind = look.part;
	tcp->last_kind = look.kind;
	tcp->last_reply = reply;
	if (look.kind == 'S') {
		side_from_syn(tcp, &look, reply);
		return;
	}
	for (unsigned int i = 0; i < 2; i++) {
		tcp->side[i].scale = 14;
		tcp->side[i].sacks = tcp->side[i].scales = true;
	}
	if (look.kind == 'K') {
		side_from_syn(tcp, &look, reply);
		infer(&tcp->side[!reply], &look);
		return;
	}
	side_from_the_middle(tcp, &look, reply, look.ack);
	count_again(tcp, &look, reply);
}

/* The segment's numbers as the bounds see them. */
struct place {
	uint32_t seq, end; /* among the sender's */
	uint32_t ack, sack;
};

static struct place place_of(
	const struct conntrack_oracle_conn *conn, const struct look *look, bool reply)
{
	const struct conntrack_oracle_side *me = &conn->tcp.side[reply];
	const struct conntrack_oracle_side *peer = &conn->tcp.side[!reply];
	struct place at = { look->seq, look->seq + look->length, look->ack, look->ack };
	if (peer->sacks)
		at.sack = sack_of(look, look->ack);
	if (!look->ack_set || (look->rst && look->ack == 0))
		at.ack = at.sack = peer->sent;
	if (look->rst && look->seq == 0 && conn->state == CONNTRACK_STATE_TCP_SYN_SENT)
		at.seq = at.end = me->sent;
	return at;
}

static void take_note(struct conntrack_oracle_tcp *tcp, const struct look *look, bool reply,
	const struct place *at)
{
	struct conntrack_oracle_side *me = &tcp->side[reply], *peer = &tcp->side[!reply];
	uint32_t window = look->syn ? look->window : look->window << me->scale;
	me->room = larger(me->room, window + at->sack - at->ack);
	if (beyond(at->end, me->sent) > 0) {
		me->sent = at->end;
		me->owed = true;
	}
	if (look->ack_set && (!me->acks || beyond(at->ack, me->acked) > 0)) {
		me->acked = at->ack;
		me->acks = true;
	}
	if (peer->seen && beyond(at->end, me->allowed) > 0)
		peer->room += at->end - me->allowed;
	if (beyond(at->sack + window, peer->allowed) >= 0)
		peer->allowed = at->sack + larger(window, 1);
	if (at->ack == peer->sent)
		peer->owed = false;
	if (look->kind == 'A')
		count_again(tcp, look, reply);
}

static enum conntrack_oracle_fit bounds(struct conntrack_oracle_conn *conn, const struct look *look,
	bool reply, bool liberal, bool *broken)
{
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	struct conntrack_oracle_side *me = &tcp->side[reply], *peer = &tcp->side[!reply];
	bool half_open = conn->state == CONNTRACK_STATE_TCP_SYN_SENT ||
			 conn->state == CONNTRACK_STATE_TCP_SYN_RECV;
	bool later = beyond(look->seq + look->length, me->sent) > 0;
	if (look->syn && (!me->seen || (half_open && later))) {
		bool first = !me->seen;
		side_from_syn(tcp, look, reply);
		if (!look->ack_set && (first || reply))
			return CONNTRACK_ORACLE_FITS;
	} else if (!me->seen) {
		side_from_the_middle(
			tcp, look, reply, peer->sacks ? sack_of(look, look->ack) : look->ack);
	} else if (!peer->seen && look->ack_set && !look->rst) {
		infer(peer, look);
	}

	struct place at = place_of(conn, look, reply);
	bool one = (!peer->seen && !look->rst) || beyond(at.seq, me->allowed) <= 0;
	bool two = !peer->seen || beyond(at.end, me->sent - peer->room) >= 0;
	bool three = beyond(at.sack, peer->sent) <= 0;
	bool four = beyond(at.sack, peer->sent - larger(66000, me->room)) >= 0;
	if (one && two && three && four) {
		take_note(tcp, look, reply, &at);
		return CONNTRACK_ORACLE_FITS;
	}
	*broken = true;
	enum conntrack_oracle_fit fit = CONNTRACK_ORACLE_MISFIT;
	if (one && three)
		fit = CONNTRACK_ORACLE_STRAY;
	if (!one && two && three && four && at.end + 1 - me->allowed <= peer->room) {
		me->sent = at.end;
		me->owed = true;
		fit = CONNTRACK_ORACLE_STRAY;
	}
	return liberal ? CONNTRACK_ORACLE_FITS : fit;
}

/* An RST: 'y' it is right, '?' as the bounds say, '=' the same but the state stays, 'n' it is not.
 */
static char weigh_rst(const struct conntrack_oracle_conn *conn, const struct look *look, bool reply)
{
	const struct conntrack_oracle_tcp *tcp = &conn->tcp;
	const struct conntrack_oracle_side *peer = &tcp->side[!reply];
	bool open = conn->state == CONNTRACK_STATE_TCP_ESTABLISHED;
	char answer = '?';
	if (conn->state >= CONNTRACK_STATE_TCP_FIN_WAIT)
		return 'y';
	if (peer->acks && tcp->last_kind != 'S' && (open || look->seq != 0)) {
		int32_t distance = beyond(look->seq, peer->acked);
		bool train = tcp->last_kind == 'A' && tcp->last_reply == reply &&
			     look->seq == tcp->last_end;
		if (distance < 0)
			return 'n';
		if (!open || distance == 0 || train)
			return '?';
		answer = '=';
	}
	if (look->ack == tcp->last_end && ((conn->reply_seen && tcp->last_kind == 'S') ||
						  (!conn->assured && tcp->last_kind == 'A')))
		return 'y';
	if (conn->state == CONNTRACK_STATE_TCP_SYN_SENT && tcp->last_kind == 'A' &&
		tcp->last_reply && look->seq == tcp->last_ack)
		return 'y';
	return answer;
}

enum conntrack_oracle_fit conntrack_oracle_tcp_judge(struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, bool liberal, bool *broken)
{
	struct look look = look_at(packet);
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	enum conntrack_oracle_fit fit = CONNTRACK_ORACLE_FITS;
	*broken = false;
	tcp->blind |= look.part;
	char rst = look.rst ? weigh_rst(conn, &look, reply) : '?';
	if (rst == 'n') {
		*broken = true;
		return CONNTRACK_ORACLE_FORGED;
	}
	if (rst != 'y')
		fit = bounds(conn, &look, reply, liberal || tcp->blind, broken);
	if (fit != CONNTRACK_ORACLE_FITS)
		return fit;
	tcp->last_kind = look.kind;
	tcp->last_reply = reply;
	return rst == '=' ? CONNTRACK_ORACLE_FITS_AS_IS : CONNTRACK_ORACLE_FITS;
}

void conntrack_oracle_tcp_ignore(
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply)
{
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	struct look look = look_at(packet);
	uint32_t last_ack = tcp->last_ack;
	remember(tcp, &look, reply);
	tcp->last_kind = look.kind;
	if (conn->state != CONNTRACK_STATE_TCP_SYN_SENT || !reply)
		tcp->last_ack = last_ack;
	if (look.kind == 'S' && !reply) {
		tcp->offers_scale = look.scales;
		tcp->offers_sack = look.sacks;
		tcp->offered_scale = look.scale;
		tcp->offered_window = look.window;
	}
}

void conntrack_oracle_tcp_resync(struct conntrack_oracle_conn *conn, uint32_t seq)
{
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	memset(tcp->side, 0, sizeof(tcp->side));
	tcp->blind = false;
	tcp->side[0].seen = true;
	tcp->side[0].sent = tcp->side[0].allowed = seq + 1;
	tcp->side[0].room = larger(tcp->offered_window, 1);
	tcp->side[0].scales = tcp->offers_scale;
	tcp->side[0].sacks = tcp->offers_sack;
	tcp->side[0].scale = tcp->offered_scale;
}

bool conntrack_oracle_tcp_refused(
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply)
{
	struct conntrack_oracle_tcp *tcp = &conn->tcp;
	struct look look = look_at(packet);
	bool other_did =
		(tcp->last_kind == 'F' || tcp->last_kind == 'R') && tcp->last_reply != reply;
	if (look.kind != 'F' && look.kind != 'R')
		return false;
	if (!other_did) {
		tcp->last_kind = look.kind;
		tcp->last_reply = reply;
	}
	return other_did;
}

bool conntrack_oracle_tcp_stuck(const struct conntrack_oracle_conn *conn)
{
	const struct conntrack_oracle_tcp *tcp = &conn->tcp;
	return tcp->again >= 3 || tcp->side[0].owed || tcp->side[1].owed || tcp->last_window == 0;
}
