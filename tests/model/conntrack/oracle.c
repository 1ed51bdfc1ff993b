/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/conntrack/oracle.h"

#include "conntrack/tcp_state.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

void oracle_init(struct oracle *oracle, const struct conntrack_config *config)
{
	*oracle = (struct oracle){ .config = *config };
}

void oracle_release(struct oracle *oracle)
{
	free(oracle->conns);
	oracle->conns = NULL;
}

/* Position of key, or where it belongs. */
static size_t search(const struct oracle *oracle, const struct base_flow_key *key, bool *found)
{
	size_t low = 0, high = oracle->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(&oracle->conns[middle].key, key, sizeof(*key));
		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = false;
	return low;
}

const struct oracle_conn *oracle_find(const struct oracle *oracle, const struct base_flow_key *key)
{
	bool found;
	size_t at = search(oracle, key, &found);
	return found ? &oracle->conns[at] : NULL;
}

static bool is_closed(enum conntrack_state state)
{
	return state == CONNTRACK_STATE_TCP_LAST_ACK || state == CONNTRACK_STATE_TCP_TIME_WAIT ||
	       state == CONNTRACK_STATE_TCP_CLOSE;
}

uint64_t oracle_due_ns(const struct oracle *oracle, const struct oracle_conn *conn)
{
	uint64_t timeout = oracle->config.timeout_ns[conn->state];
	if (timeout == 0)
		return UINT64_MAX;
	if (conn->state == CONNTRACK_STATE_TCP_ESTABLISHED && !conn->assured &&
		timeout > 300 * SECOND)
		timeout = 300 * SECOND;
	return UINT64_MAX - conn->last_seen_ns < timeout ? UINT64_MAX
							 : conn->last_seen_ns + timeout;
}

static void erase(struct oracle *oracle, size_t at)
{
	memmove(&oracle->conns[at], &oracle->conns[at + 1],
		(oracle->count - at - 1) * sizeof(*oracle->conns));
	oracle->count--;
}

static void erase_idle(struct oracle *oracle, size_t at)
{
	if (is_closed(oracle->conns[at].state))
		oracle->closed++;
	else
		oracle->expired++;
	erase(oracle, at);
}

void oracle_advance(struct oracle *oracle, uint64_t horizon_ns)
{
	for (size_t i = oracle->count; i-- > 0;) {
		uint64_t due_ns = oracle_due_ns(oracle, &oracle->conns[i]);
		if (due_ns <= horizon_ns && due_ns != UINT64_MAX)
			erase_idle(oracle, i);
	}
}

void oracle_purge(struct oracle *oracle, uint8_t protocol)
{
	for (size_t i = oracle->count; i-- > 0;) {
		if (oracle->conns[i].key.protocol == protocol) {
			erase(oracle, i);
			oracle->purged++;
		}
	}
}

static struct oracle_conn *add(struct oracle *oracle, size_t at, const struct base_packet *packet)
{
	if (oracle->count == oracle->capacity) {
		oracle->capacity = oracle->capacity * 2 + 16;
		oracle->conns = realloc(oracle->conns, oracle->capacity * sizeof(*oracle->conns));
		if (oracle->conns == NULL)
			abort();
	}
	memmove(&oracle->conns[at + 1], &oracle->conns[at],
		(oracle->count - at) * sizeof(*oracle->conns));
	oracle->count++;
	oracle->conns[at] = (struct oracle_conn){
		.key = packet->key,
		.id = ++oracle->ids,
		.last_seen_ns = packet->time_ns,
		.packets = 1,
		.reversed = (packet->flags & BASE_PACKET_REVERSED) != 0,
		.origin_seen = true,
	};
	oracle->inserted++;
	return &oracle->conns[at];
}

static uint32_t seq_of(const struct base_packet *packet)
{
	const uint8_t *b = packet->data + packet->l4_offset + 4;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool is_syn(const struct base_packet *packet)
{
	const unsigned int which = BASE_TCP_SYN | BASE_TCP_ACK | BASE_TCP_FIN | BASE_TCP_RST;
	return (packet->tcp_flags & which) == BASE_TCP_SYN;
}

static uint8_t flags_of(const struct oracle_conn *conn, bool reply)
{
	bool closing = is_closed(conn->state) || conn->state == CONNTRACK_STATE_TCP_FIN_WAIT ||
		       conn->state == CONNTRACK_STATE_TCP_CLOSE_WAIT;
	return (uint8_t)((reply ? BASE_CONN_REPLY : 0) | (closing ? BASE_CONN_CLOSING : 0));
}

static struct oracle_answer none(struct oracle *oracle, bool invalid)
{
	oracle->untracked++;
	oracle->invalid += invalid;
	return (struct oracle_answer){
		.conn_flags = invalid ? BASE_CONN_INVALID : 0,
		.dropped = invalid && oracle->config.drop_invalid,
	};
}

static struct oracle_answer create(
	struct oracle *oracle, size_t at, const struct base_packet *packet)
{
	bool orphan = (packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0;
	bool tcp = packet->key.protocol == BASE_PROTOCOL_TCP && !orphan;
	bool whole = (packet->flags & BASE_PACKET_L4) != 0;
	bool pickup = oracle->config.tcp_pickup;
	enum conntrack_state state = CONNTRACK_STATE_GENERIC;
	if (tcp && (packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0)
		return none(oracle, false);
	if (tcp && whole) {
		struct conntrack_tcp_step step = conntrack_tcp_step(CONNTRACK_STATE_NONE, false,
			packet->tcp_flags, pickup ? CONNTRACK_TCP_PICKUP : 0);
		if (step.verdict != CONNTRACK_TCP_ACCEPT)
			return none(oracle, true);
		state = step.state;
	} else if (tcp) {
		if (!pickup)
			return none(oracle, true);
		state = CONNTRACK_STATE_TCP_ESTABLISHED;
	} else if (packet->key.protocol == BASE_PROTOCOL_UDP && !orphan) {
		state = CONNTRACK_STATE_UDP_UNREPLIED;
	} else if (packet->key.protocol == BASE_PROTOCOL_ICMP && !orphan) {
		state = CONNTRACK_STATE_ICMP;
	}

	struct oracle_conn *conn = add(oracle, at, packet);
	conn->state = state;
	if (tcp && whole && is_syn(packet)) {
		conn->syn_known = true;
		conn->syn_seq = seq_of(packet);
	} else if (tcp) {
		conn->picked_up = true;
	}
	if (state == CONNTRACK_STATE_TCP_SYN_RECV) {
		conn->reversed = !conn->reversed;
		conn->reply_seen = true;
		conn->origin_seen = false;
	}
	return (struct oracle_answer){ .id = conn->id,
		.conn_flags = BASE_CONN_NEW | flags_of(conn, conn->reply_seen) };
}

static void accept(struct oracle_conn *conn, const struct base_packet *packet, bool reply,
	enum conntrack_state state)
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
	if (conn->origin_seen && conn->reply_seen) {
		if (conn->state == CONNTRACK_STATE_UDP_UNREPLIED)
			conn->state = CONNTRACK_STATE_UDP_REPLIED;
		/* Neither half open nor reset. */
		if (conn->state != CONNTRACK_STATE_TCP_SYN_SENT &&
			conn->state != CONNTRACK_STATE_TCP_SYN_SENT2 &&
			conn->state != CONNTRACK_STATE_TCP_SYN_RECV &&
			conn->state != CONNTRACK_STATE_TCP_CLOSE)
			conn->assured = true;
	}
	if (packet->time_ns > conn->last_seen_ns)
		conn->last_seen_ns = packet->time_ns;
}

static struct oracle_answer step(struct oracle *oracle, size_t at, const struct base_packet *packet)
{
	struct oracle_conn *conn = &oracle->conns[at];
	bool reply = ((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed;
	bool whole = (packet->flags & BASE_PACKET_L4) != 0;
	bool tcp = conn->state <= CONNTRACK_STATE_TCP_CLOSE && whole;
	bool opener_syn = tcp && !reply && is_syn(packet);
	unsigned int bits = oracle->config.tcp_pickup ? CONNTRACK_TCP_PICKUP : 0;
	struct conntrack_tcp_step to = { (uint8_t)conn->state, CONNTRACK_TCP_ACCEPT };
	if (conn->closer_reply)
		bits |= CONNTRACK_TCP_CLOSER_REPLY;
	if (conn->simultaneous)
		bits |= CONNTRACK_TCP_SIMULTANEOUS;
	if (conn->picked_up)
		bits |= CONNTRACK_TCP_PICKED_UP;
	if (opener_syn && conn->syn_known && conn->syn_seq == seq_of(packet))
		bits |= CONNTRACK_TCP_SAME_SYN;
	if (tcp)
		to = conntrack_tcp_step(conn->state, reply, packet->tcp_flags, bits);

	if (to.verdict == CONNTRACK_TCP_REOPEN) {
		oracle->closed++;
		erase(oracle, at);
		return create(oracle, at, packet);
	}
	conn->packets++;
	if (to.verdict == CONNTRACK_TCP_INVALID) {
		oracle->invalid++;
		return (struct oracle_answer){ .id = conn->id,
			.conn_flags = BASE_CONN_INVALID | flags_of(conn, reply),
			.dropped = oracle->config.drop_invalid };
	}
	if (opener_syn && (to.verdict == CONNTRACK_TCP_ACCEPT || !conn->syn_known)) {
		conn->syn_known = true;
		conn->syn_seq = seq_of(packet);
	}
	if (to.verdict == CONNTRACK_TCP_ACCEPT)
		accept(conn, packet, reply, to.state);
	return (struct oracle_answer){ .id = conn->id, .conn_flags = flags_of(conn, reply) };
}

struct oracle_answer oracle_packet(struct oracle *oracle, const struct base_packet *packet)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return none(oracle, false);
	bool found;
	size_t at = search(oracle, &packet->key, &found);
	bool expired = found && oracle_due_ns(oracle, &oracle->conns[at]) <= packet->time_ns &&
		       oracle_due_ns(oracle, &oracle->conns[at]) != UINT64_MAX;
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0) {
		if (!found || expired) {
			oracle->misses++;
			return none(oracle, false);
		}
		struct oracle_conn *conn = &oracle->conns[at];
		bool reply = ((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed;
		oracle->hits++;
		oracle->related++;
		return (struct oracle_answer){ .id = conn->id,
			.conn_flags = BASE_CONN_RELATED | flags_of(conn, reply) };
	}
	if (expired) {
		erase_idle(oracle, at);
		found = false;
	}
	if (!found) {
		oracle->misses++;
		return create(oracle, at, packet);
	}
	oracle->hits++;
	return step(oracle, at, packet);
}
