/* SPDX-License-Identifier: BSD-2-Clause */
/* What the oracle says about a packet. */
#include "conntrack/oracle_private.h"
#include "conntrack/sctp_state.h"
#include "conntrack/tcp_state.h"

#include <string.h>

static uint32_t word_at(const struct base_packet *packet, unsigned int at)
{
	const uint8_t *b = packet->data + packet->l4_offset + at;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t seq_of(const struct base_packet *packet)
{
	return word_at(packet, 4);
}

static uint32_t ack_of(const struct base_packet *packet)
{
	return word_at(packet, 8);
}

static unsigned int plain_flags(const struct base_packet *packet)
{
	return packet->tcp_flags & (BASE_TCP_SYN | BASE_TCP_ACK | BASE_TCP_FIN | BASE_TCP_RST);
}

static bool is_syn(const struct base_packet *packet)
{
	return plain_flags(packet) == BASE_TCP_SYN;
}

static bool is_syn_ack(const struct base_packet *packet)
{
	return plain_flags(packet) == (BASE_TCP_SYN | BASE_TCP_ACK) &&
	       (packet->tcp_flags & BASE_TCP_URG) == 0;
}

static bool is_closing(enum conntrack_state state)
{
	return conntrack_oracle_is_closed(state) || state == CONNTRACK_STATE_TCP_FIN_WAIT ||
	       state == CONNTRACK_STATE_TCP_CLOSE_WAIT ||
	       state == CONNTRACK_STATE_SCTP_SHUTDOWN_SENT ||
	       state == CONNTRACK_STATE_SCTP_SHUTDOWN_RECD ||
	       state == CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT;
}

static uint8_t flags_of(const struct conntrack_oracle_conn *conn, bool reply)
{
	return (uint8_t)((reply ? BASE_CONN_REPLY : 0) |
			 (is_closing(conn->state) ? BASE_CONN_CLOSING : 0));
}

static struct conntrack_oracle_answer none(struct conntrack_oracle *oracle, bool invalid)
{
	oracle->untracked++;
	oracle->invalid += invalid;
	return (struct conntrack_oracle_answer){
		.conn_flags = invalid ? BASE_CONN_INVALID : 0,
		.dropped = invalid && oracle->config.drop_invalid,
	};
}

static struct conntrack_oracle_answer refuse(
	struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn, bool reply)
{
	oracle->invalid++;
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = BASE_CONN_INVALID | flags_of(conn, reply),
		.dropped = oracle->config.drop_invalid };
}

/* How a packet without a connection begins one. */
struct beginning {
	enum conntrack_state state; /* NONE: it does not */
	bool from_server;           /* the packet is an answer: its receiver opened */
	bool picked_up;
	enum conntrack_oracle_syn syn;
	uint32_t syn_seq;
};

static struct beginning begin_tcp(
	const struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	struct beginning b = { .state = CONNTRACK_STATE_NONE };
	bool pickup = oracle->config.tcp_pickup;
	if ((packet->flags & BASE_PACKET_L4) == 0) {
		b.picked_up = true;
		b.state = pickup ? CONNTRACK_STATE_TCP_ESTABLISHED : CONNTRACK_STATE_NONE;
		return b;
	}
	struct conntrack_tcp_step step = conntrack_tcp_step(
		CONNTRACK_STATE_NONE, false, packet->tcp_flags, pickup ? CONNTRACK_TCP_PICKUP : 0);
	if (step.verdict != CONNTRACK_TCP_ACCEPT)
		return b;
	b.state = step.state;
	b.from_server = is_syn_ack(packet);
	b.picked_up = !is_syn(packet);
	b.syn = b.picked_up ? CONNTRACK_ORACLE_SYN_GUESSED : CONNTRACK_ORACLE_SYN_OWN;
	b.syn_seq = b.from_server ? ack_of(packet) - 1 : seq_of(packet) - (b.picked_up ? 1 : 0);
	return b;
}

static struct conntrack_sctp_step step_sctp(const struct conntrack_oracle *oracle,
	const struct base_packet *packet, enum conntrack_state state, bool reply)
{
	size_t whole = (size_t)packet->payload_len + 12;
	size_t captured = packet->cap_len - packet->l4_offset;
	struct conntrack_sctp_input input = { .state = state,
		.reply = reply,
		.pickup = oracle->config.tcp_pickup,
		.bytes = packet->data + packet->l4_offset,
		.size = whole < captured ? whole : captured };
	return conntrack_sctp_step(&input);
}

static struct beginning begin_sctp(
	const struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	struct beginning b = { .state = CONNTRACK_STATE_NONE };
	if ((packet->flags & BASE_PACKET_L4) == 0) {
		if (oracle->config.tcp_pickup)
			b.state = CONNTRACK_STATE_SCTP_ESTABLISHED;
		return b;
	}
	struct conntrack_sctp_step step = step_sctp(oracle, packet, CONNTRACK_STATE_NONE, false);
	if (!step.invalid)
		b.state = step.state;
	b.from_server = step.from_server;
	return b;
}

static struct beginning begin_icmp(
	const struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	static const uint8_t replies[] = { 0, 14, 16, 18, 43 }, replies6[] = { 129, 161 };
	struct beginning b = { .state = CONNTRACK_STATE_ICMP };
	bool ip6 = packet->key.protocol == BASE_PROTOCOL_ICMP6;
	const uint8_t *list = ip6 ? replies6 : replies;
	size_t count = ip6 ? sizeof(replies6) : sizeof(replies);
	if ((packet->flags & BASE_PACKET_L4) == 0)
		return b;
	for (size_t i = 0; i < count; i++)
		b.from_server |= packet->data[packet->l4_offset] == list[i];
	if (b.from_server && !oracle->config.tcp_pickup)
		b.state = CONNTRACK_STATE_NONE;
	return b;
}

static struct beginning begin(
	const struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	struct beginning b = { .state = CONNTRACK_STATE_GENERIC };
	if ((packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0)
		return b;
	switch (packet->key.protocol) {
	case BASE_PROTOCOL_TCP:
		return begin_tcp(oracle, packet);
	case BASE_PROTOCOL_SCTP:
		return begin_sctp(oracle, packet);
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return begin_icmp(oracle, packet);
	case BASE_PROTOCOL_UDP:
		b.state = CONNTRACK_STATE_UDP_UNREPLIED;
		return b;
	case BASE_PROTOCOL_GRE:
		b.state = CONNTRACK_STATE_GRE_UNREPLIED;
		return b;
	default:
		return b;
	}
}

static struct conntrack_oracle_answer create(
	struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	bool states = packet->key.protocol == BASE_PROTOCOL_TCP ||
		      packet->key.protocol == BASE_PROTOCOL_SCTP;
	bool headless = (packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0 &&
			(packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) == 0;
	if (states && headless)
		return none(oracle, false);
	struct beginning b = begin(oracle, packet);
	if (b.state == CONNTRACK_STATE_NONE)
		return none(oracle, true);
	struct conntrack_oracle_conn *conn = conntrack_oracle_add(oracle, packet);
	conn->state = b.state;
	conn->opened_ns = packet->time_ns;
	conn->syn = b.syn;
	conn->syn_seq = b.syn_seq;
	conn->picked_up = b.picked_up;
	if (b.from_server) {
		conn->reversed = !conn->reversed;
		conn->reply_seen = true;
		conn->origin_seen = false;
	}
	if (conn->state <= CONNTRACK_STATE_TCP_CLOSE)
		conntrack_oracle_tcp_begin(
			conn, packet, conn->reply_seen, (packet->flags & BASE_PACKET_L4) != 0);
	conntrack_oracle_schedule(oracle, conn);
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = BASE_CONN_NEW | flags_of(conn, conn->reply_seen) };
}

/* In whole milliseconds, of which 32 bits are kept; at most a minute back. */
static bool lasts(const struct conntrack_oracle_conn *conn, uint64_t now_ns)
{
	uint64_t age_ms = (now_ns / 1000000 - conn->opened_ns / 1000000) & UINT32_MAX;
	return age_ms > 2000 && age_ms < UINT32_MAX - 60000;
}

/* Both sides have been seen. */
static void answered(struct conntrack_oracle_conn *conn, uint64_t now_ns)
{
	switch (conn->state) {
	case CONNTRACK_STATE_UDP_UNREPLIED:
		conn->state = CONNTRACK_STATE_UDP_REPLIED;
		break;
	case CONNTRACK_STATE_UDP_REPLIED:
		if (lasts(conn, now_ns))
			conn->state = CONNTRACK_STATE_UDP_STREAM;
		break;
	case CONNTRACK_STATE_GRE_UNREPLIED:
		conn->state = CONNTRACK_STATE_GRE_REPLIED;
		break;
	default:
		break;
	}
	/* Whatever is not half open, reset or ended, and more than a question. */
	if (conn->state == CONNTRACK_STATE_TCP_ESTABLISHED ||
		(is_closing(conn->state) && conn->state != CONNTRACK_STATE_TCP_CLOSE &&
			conn->state <= CONNTRACK_STATE_TCP_CLOSE) ||
		conn->state == CONNTRACK_STATE_UDP_STREAM || conn->state == CONNTRACK_STATE_ICMP ||
		conn->state == CONNTRACK_STATE_GRE_REPLIED ||
		conn->state == CONNTRACK_STATE_SCTP_ESTABLISHED ||
		conn->state == CONNTRACK_STATE_GENERIC)
		conn->assured = true;
}

static void accept(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, enum conntrack_state state)
{
	bool was_same = state == conn->state;
	conn->state = state;
	if (!was_same &&
		(state == CONNTRACK_STATE_TCP_FIN_WAIT || state == CONNTRACK_STATE_TCP_LAST_ACK))
		conn->closer_reply = reply;
	if (state == CONNTRACK_STATE_TCP_SYN_SENT2)
		conn->simultaneous = true;
	if (reply)
		conn->reply_seen = true;
	else
		conn->origin_seen = true;
	if (conn->origin_seen && conn->reply_seen)
		answered(conn, packet->time_ns);
	if (packet->time_ns > conn->last_seen_ns)
		conn->last_seen_ns = packet->time_ns;
	conntrack_oracle_schedule(oracle, conn);
}

/* A SYN of the opener that was not taken. */
static void note_syn(struct conntrack_oracle_conn *conn, uint32_t seq)
{
	if (conn->state == CONNTRACK_STATE_TCP_LAST_ACK)
		conn->challenged = true;
	if (conn->state == CONNTRACK_STATE_TCP_SYN_SENT)
		conn->syn = CONNTRACK_ORACLE_SYN_OWN;
	else if (conn->syn == CONNTRACK_ORACLE_SYN_OWN && seq != conn->syn_seq)
		conn->syn = CONNTRACK_ORACLE_SYN_OFFERED;
	else if (conn->syn != CONNTRACK_ORACLE_SYN_OFFERED)
		conn->syn = CONNTRACK_ORACLE_SYN_OWN;
	conn->syn_seq = seq;
}

static struct conntrack_tcp_step step_tcp(const struct conntrack_oracle *oracle,
	const struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply)
{
	unsigned int bits = oracle->config.tcp_pickup ? CONNTRACK_TCP_PICKUP : 0;
	bool own =
		conn->syn == CONNTRACK_ORACLE_SYN_OWN || conn->syn == CONNTRACK_ORACLE_SYN_GUESSED;
	if (conn->closer_reply)
		bits |= CONNTRACK_TCP_CLOSER_REPLY;
	if (conn->simultaneous)
		bits |= CONNTRACK_TCP_SIMULTANEOUS;
	if (conn->picked_up)
		bits |= CONNTRACK_TCP_PICKED_UP;
	if (conn->challenged)
		bits |= CONNTRACK_TCP_CHALLENGED;
	if (!reply && is_syn(packet) && own && !conn->recovering && conn->syn_seq == seq_of(packet))
		bits |= CONNTRACK_TCP_SAME_SYN;
	if (reply && is_syn_ack(packet) && conn->syn == CONNTRACK_ORACLE_SYN_OFFERED &&
		ack_of(packet) == conn->syn_seq + 1)
		bits |= CONNTRACK_TCP_ANSWERS_SYN;
	return conntrack_tcp_step(conn->state, reply, packet->tcp_flags, bits);
}

static struct conntrack_oracle_answer ignore_tcp(struct conntrack_oracle *oracle,
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply)
{
	bool again = conn->state == CONNTRACK_STATE_TCP_SYN_SENT && !reply && is_syn(packet);
	bool liberal = oracle->config.tcp_windows == CONNTRACK_TCP_WINDOWS_LIBERAL;
	bool broken = false;
	if (oracle->config.tcp_windows != CONNTRACK_TCP_WINDOWS_OFF && !again)
		conntrack_oracle_tcp_ignore(conn, packet, reply);
	else if (oracle->config.tcp_windows != CONNTRACK_TCP_WINDOWS_OFF)
		conntrack_oracle_tcp_judge(
			conn, packet, reply, liberal || conn->picked_up, &broken);
	oracle->out_of_window += broken;
	if (!reply && is_syn(packet))
		note_syn(conn, seq_of(packet));
	if (reply && plain_flags(packet) == BASE_TCP_ACK) {
		conn->challenged = false;
		if (conn->state == CONNTRACK_STATE_TCP_SYN_SENT)
			conn->reply_seen = true;
	}
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = flags_of(conn, reply) };
}

/* Both hosts close, by segments that do not fit: it is kept no longer than data that nobody
 * acknowledges, from now on. Only if that is sooner. */
static void keep_less(
	struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn, uint64_t now_ns)
{
	struct conntrack_oracle_conn later = *conn;
	later.stuck = true;
	later.doubted = false;
	later.last_seen_ns = now_ns;
	if (now_ns < conn->last_seen_ns || conntrack_oracle_due_ns(oracle, &later) >= conn->due_ns)
		return;
	conn->stuck = true;
	conn->doubted = false;
	conn->last_seen_ns = now_ns;
	conntrack_oracle_schedule(oracle, conn);
}

/* What the numbers say of a segment that the states take. False: *answer is all there is to it. */
static bool fits(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, struct conntrack_tcp_step *to,
	struct conntrack_oracle_answer *answer)
{
	bool liberal = oracle->config.tcp_windows == CONNTRACK_TCP_WINDOWS_LIBERAL;
	bool resync = to->verdict == CONNTRACK_TCP_RESYNC;
	bool rst = (packet->tcp_flags & BASE_TCP_RST) != 0;
	bool broken;
	enum conntrack_state state = conn->state;
	if (resync) {
		conntrack_oracle_tcp_resync(conn, conn->syn_seq);
		conn->state = CONNTRACK_STATE_TCP_SYN_SENT;
	}
	enum conntrack_oracle_fit fit = conntrack_oracle_tcp_judge(
		conn, packet, reply, liberal || (conn->picked_up && !resync), &broken);
	conn->state = state;
	oracle->out_of_window += broken;
	if (fit == CONNTRACK_ORACLE_STRAY) {
		*answer = (struct conntrack_oracle_answer){ .id = conn->id,
			.conn_flags = flags_of(conn, reply) };
		return false;
	}
	if (fit == CONNTRACK_ORACLE_MISFIT || fit == CONNTRACK_ORACLE_FORGED) {
		if (fit == CONNTRACK_ORACLE_MISFIT && conn->assured &&
			conntrack_oracle_tcp_refused(conn, packet, reply))
			keep_less(oracle, conn, packet->time_ns);
		*answer = refuse(oracle, conn, reply);
		return false;
	}
	if (fit == CONNTRACK_ORACLE_FITS_AS_IS)
		to->state = (uint8_t)state;
	conn->doubted = rst;
	conn->stuck = !rst && conntrack_oracle_tcp_stuck(conn);
	return true;
}

static struct conntrack_oracle_answer take_tcp(struct conntrack_oracle *oracle,
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply)
{
	struct conntrack_oracle_answer answer;
	struct conntrack_tcp_step to = step_tcp(oracle, conn, packet, reply);
	bool unanswered = conn->state == CONNTRACK_STATE_TCP_SYN_SENT && !conn->reply_seen;
	if (to.verdict == CONNTRACK_TCP_REOPEN) {
		oracle->closed++;
		conntrack_oracle_erase(oracle, conn);
		return create(oracle, packet);
	}
	conn->packets++;
	if (to.verdict == CONNTRACK_TCP_INVALID)
		return refuse(oracle, conn, reply);
	if (to.verdict == CONNTRACK_TCP_IGNORE)
		return ignore_tcp(oracle, conn, packet, reply);
	if (oracle->config.tcp_windows != CONNTRACK_TCP_WINDOWS_OFF &&
		!fits(oracle, conn, packet, reply, &to, &answer))
		return answer;
	if (to.verdict == CONNTRACK_TCP_RESYNC) {
		oracle->resyncs++;
		conn->challenged = conn->closer_reply = conn->simultaneous = conn->picked_up =
			conn->recovering = false;
		conn->syn = CONNTRACK_ORACLE_SYN_OWN;
	}
	if (!reply && is_syn(packet)) {
		conn->syn = CONNTRACK_ORACLE_SYN_OWN;
		conn->syn_seq = seq_of(packet);
	}
	if (conn->state == CONNTRACK_STATE_TCP_SYN_SENT &&
		(to.state == CONNTRACK_STATE_TCP_ESTABLISHED ||
			to.state == CONNTRACK_STATE_TCP_FIN_WAIT))
		conn->picked_up = true;
	if (conn->state == CONNTRACK_STATE_TCP_SYN_SENT && !reply &&
		to.state == CONNTRACK_STATE_TCP_CLOSE)
		conn->recovering = true;
	accept(oracle, conn, packet, reply, to.state);
	answer = (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = flags_of(conn, reply) };
	if (unanswered && conn->state == CONNTRACK_STATE_TCP_CLOSE) {
		oracle->closed++;
		conntrack_oracle_erase(oracle, conn);
	}
	return answer;
}

static struct conntrack_oracle_answer take(struct conntrack_oracle *oracle,
	struct conntrack_oracle_conn *conn, const struct base_packet *packet)
{
	bool reply = ((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed;
	bool whole = (packet->flags & BASE_PACKET_L4) != 0;
	enum conntrack_state state = conn->state;
	if (whole && state <= CONNTRACK_STATE_TCP_CLOSE)
		return take_tcp(oracle, conn, packet, reply);
	conn->packets++;
	if (state <= CONNTRACK_STATE_TCP_CLOSE)
		conn->tcp.blind = true;
	if (whole && state >= CONNTRACK_STATE_SCTP_CLOSED &&
		state <= CONNTRACK_STATE_SCTP_HEARTBEAT_SENT) {
		struct conntrack_sctp_step step = step_sctp(oracle, packet, state, reply);
		if (step.invalid)
			return refuse(oracle, conn, reply);
		state = step.state;
	}
	accept(oracle, conn, packet, reply, state);
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = flags_of(conn, reply) };
}

static bool reaches_quoted_sender(const struct base_packet *packet)
{
	bool ip6 = (packet->flags & BASE_PACKET_IP6) != 0;
	const uint8_t *to = packet->data + packet->l3_offset + (ip6 ? 24 : 16);
	const uint8_t *sender =
		packet->key.address[(packet->flags & BASE_PACKET_REVERSED) != 0 ? 0 : 1];
	return memcmp(to, sender, ip6 ? 16 : 4) == 0;
}

/* An ICMP error; conn: NULL when there is none, or no more. */
static struct conntrack_oracle_answer relate(struct conntrack_oracle *oracle,
	struct conntrack_oracle_conn *conn, const struct base_packet *packet)
{
	if (conn == NULL) {
		oracle->misses++;
		return none(oracle, !oracle->config.tcp_pickup);
	}
	bool reply = ((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed;
	oracle->hits++;
	if (!reaches_quoted_sender(packet))
		return refuse(oracle, conn, reply);
	oracle->related++;
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = BASE_CONN_RELATED | flags_of(conn, reply) };
}

struct conntrack_oracle_answer conntrack_oracle_packet(
	struct conntrack_oracle *oracle, const struct base_packet *packet, bool kept)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return none(oracle, false);
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(oracle, &packet->key);
	bool expired = conn != NULL && !kept && conn->due_ns <= packet->time_ns &&
		       conn->due_ns != UINT64_MAX;
	if ((packet->flags & BASE_PACKET_CHECKSUM_BAD) != 0) {
		if (conn == NULL || expired) {
			oracle->misses++;
			return none(oracle, true);
		}
		oracle->hits++;
		conn->packets++;
		return refuse(oracle, conn,
			((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed);
	}
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0)
		return relate(oracle, expired ? NULL : conn, packet);
	if (expired) {
		conntrack_oracle_expire(oracle, conn);
		conn = NULL;
	}
	if (conn == NULL) {
		oracle->misses++;
		return create(oracle, packet);
	}
	oracle->hits++;
	return take(oracle, conn, packet);
}
