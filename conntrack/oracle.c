/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/oracle.h"

#include "conntrack/tcp_state.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

void conntrack_oracle_init(struct conntrack_oracle *oracle, const struct conntrack_config *config)
{
	*oracle = (struct conntrack_oracle){ .config = *config };
}

void conntrack_oracle_release(struct conntrack_oracle *oracle)
{
	conntrack_oracle_purge(oracle, 0);
	free(oracle->heap);
	oracle->heap = NULL;
	oracle->capacity = 0;
}

/* ---- by key ---- */

/* The key stands first in a connection. */
static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct base_flow_key));
}

struct conntrack_oracle_conn *conntrack_oracle_find(
	const struct conntrack_oracle *oracle, const struct base_flow_key *key)
{
	void *const *found = tfind(key, (void *const *)&oracle->by_key, compare_keys);
	return found != NULL ? *found : NULL;
}

/* ---- by due time ---- */

static void place(struct conntrack_oracle *oracle, size_t at, struct conntrack_oracle_conn *conn)
{
	oracle->heap[at] = conn;
	conn->place = at;
}

static void sift_up(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	size_t at = conn->place;
	for (; at > 0 && oracle->heap[(at - 1) / 2]->due_ns > conn->due_ns; at = (at - 1) / 2)
		place(oracle, at, oracle->heap[(at - 1) / 2]);
	place(oracle, at, conn);
}

static void sift_down(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	size_t at = conn->place;
	for (size_t child; (child = 2 * at + 1) < oracle->count; at = child) {
		if (child + 1 < oracle->count &&
			oracle->heap[child + 1]->due_ns < oracle->heap[child]->due_ns)
			child++;
		if (oracle->heap[child]->due_ns >= conn->due_ns)
			break;
		place(oracle, at, oracle->heap[child]);
	}
	place(oracle, at, conn);
}

struct conntrack_oracle_conn *conntrack_oracle_first(const struct conntrack_oracle *oracle)
{
	return oracle->count != 0 ? oracle->heap[0] : NULL;
}

static bool is_closed(enum conntrack_state state)
{
	return state == CONNTRACK_STATE_TCP_LAST_ACK || state == CONNTRACK_STATE_TCP_TIME_WAIT ||
	       state == CONNTRACK_STATE_TCP_CLOSE;
}

static uint64_t due_ns(
	const struct conntrack_oracle *oracle, const struct conntrack_oracle_conn *conn)
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

/* After any change of its state or of its last packet. */
static void schedule(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	conn->due_ns = due_ns(oracle, conn);
	sift_up(oracle, conn);
	sift_down(oracle, conn);
}

/* ---- coming and going ---- */

static void erase(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	struct conntrack_oracle_conn *last = oracle->heap[--oracle->count];
	if (last != conn) {
		place(oracle, conn->place, last);
		sift_up(oracle, last);
		sift_down(oracle, last);
	}
	tdelete(&conn->key, &oracle->by_key, compare_keys);
	free(conn);
}

void conntrack_oracle_expire(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	if (is_closed(conn->state))
		oracle->closed++;
	else
		oracle->expired++;
	erase(oracle, conn);
}

void conntrack_oracle_forget(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	oracle->forgotten++;
	erase(oracle, conn);
}

void conntrack_oracle_advance(struct conntrack_oracle *oracle, uint64_t horizon_ns)
{
	struct conntrack_oracle_conn *conn;
	while ((conn = conntrack_oracle_first(oracle)) != NULL && conn->due_ns <= horizon_ns &&
		conn->due_ns != UINT64_MAX)
		conntrack_oracle_expire(oracle, conn);
}

uint64_t conntrack_oracle_purge(struct conntrack_oracle *oracle, uint8_t protocol)
{
	struct conntrack_oracle_conn **found =
		calloc(oracle->count + 1, sizeof(struct conntrack_oracle_conn *));
	size_t count = 0;
	if (found == NULL)
		abort();
	for (size_t i = 0; i < oracle->count; i++) {
		if (protocol == 0 || oracle->heap[i]->key.protocol == protocol)
			found[count++] = oracle->heap[i];
	}
	for (size_t i = 0; i < count; i++)
		erase(oracle, found[i]);
	free(found);
	oracle->purged += count;
	return count;
}

static struct conntrack_oracle_conn *add(
	struct conntrack_oracle *oracle, const struct base_packet *packet)
{
	struct conntrack_oracle_conn *conn = malloc(sizeof(*conn));
	if (oracle->count == oracle->capacity) {
		oracle->capacity = oracle->capacity * 2 + 16;
		oracle->heap = realloc(oracle->heap, oracle->capacity * sizeof(*oracle->heap));
	}
	if (conn == NULL || oracle->heap == NULL)
		abort();
	*conn = (struct conntrack_oracle_conn){
		.key = packet->key,
		.id = ++oracle->ids,
		.last_seen_ns = packet->time_ns,
		.packets = 1,
		.reversed = (packet->flags & BASE_PACKET_REVERSED) != 0,
		.origin_seen = true,
		.due_ns = UINT64_MAX,
		.conn = BASE_CONN_NONE,
	};
	place(oracle, oracle->count++, conn);
	if (tsearch(conn, &oracle->by_key, compare_keys) == NULL)
		abort();
	oracle->inserted++;
	return conn;
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

static uint8_t flags_of(const struct conntrack_oracle_conn *conn, bool reply)
{
	bool closing = is_closed(conn->state) || conn->state == CONNTRACK_STATE_TCP_FIN_WAIT ||
		       conn->state == CONNTRACK_STATE_TCP_CLOSE_WAIT;
	return (uint8_t)((reply ? BASE_CONN_REPLY : 0) | (closing ? BASE_CONN_CLOSING : 0));
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

static struct conntrack_oracle_answer create(
	struct conntrack_oracle *oracle, const struct base_packet *packet)
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
	} else if ((packet->key.protocol == BASE_PROTOCOL_ICMP ||
			   packet->key.protocol == BASE_PROTOCOL_ICMP6) &&
		   !orphan) {
		state = CONNTRACK_STATE_ICMP;
	}

	struct conntrack_oracle_conn *conn = add(oracle, packet);
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
	schedule(oracle, conn);
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = BASE_CONN_NEW | flags_of(conn, conn->reply_seen) };
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
	schedule(oracle, conn);
}

static struct conntrack_oracle_answer step(struct conntrack_oracle *oracle,
	struct conntrack_oracle_conn *conn, const struct base_packet *packet)
{
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
		erase(oracle, conn);
		return create(oracle, packet);
	}
	conn->packets++;
	if (to.verdict == CONNTRACK_TCP_INVALID) {
		oracle->invalid++;
		return (struct conntrack_oracle_answer){ .id = conn->id,
			.conn_flags = BASE_CONN_INVALID | flags_of(conn, reply),
			.dropped = oracle->config.drop_invalid };
	}
	if (opener_syn && (to.verdict == CONNTRACK_TCP_ACCEPT || !conn->syn_known)) {
		conn->syn_known = true;
		conn->syn_seq = seq_of(packet);
	}
	if (to.verdict == CONNTRACK_TCP_ACCEPT)
		accept(oracle, conn, packet, reply, to.state);
	return (struct conntrack_oracle_answer){ .id = conn->id,
		.conn_flags = flags_of(conn, reply) };
}

struct conntrack_oracle_answer conntrack_oracle_packet(
	struct conntrack_oracle *oracle, const struct base_packet *packet, bool kept)
{
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return none(oracle, false);
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(oracle, &packet->key);
	bool expired = conn != NULL && !kept && conn->due_ns <= packet->time_ns &&
		       conn->due_ns != UINT64_MAX;
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0) {
		if (conn == NULL || expired) {
			oracle->misses++;
			return none(oracle, false);
		}
		bool reply = ((packet->flags & BASE_PACKET_REVERSED) != 0) != conn->reversed;
		oracle->hits++;
		oracle->related++;
		return (struct conntrack_oracle_answer){ .id = conn->id,
			.conn_flags = BASE_CONN_RELATED | flags_of(conn, reply) };
	}
	if (expired) {
		conntrack_oracle_expire(oracle, conn);
		conn = NULL;
	}
	if (conn == NULL) {
		oracle->misses++;
		return create(oracle, packet);
	}
	oracle->hits++;
	return step(oracle, conn, packet);
}
