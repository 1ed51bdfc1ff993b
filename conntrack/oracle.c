/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/oracle_private.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

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

bool conntrack_oracle_is_closed(enum conntrack_state state)
{
	return state == CONNTRACK_STATE_TCP_LAST_ACK || state == CONNTRACK_STATE_TCP_TIME_WAIT ||
	       state == CONNTRACK_STATE_TCP_CLOSE;
}

uint64_t conntrack_oracle_due_ns(
	const struct conntrack_oracle *oracle, const struct conntrack_oracle_conn *conn)
{
	uint64_t timeout = oracle->config.timeout_ns[conn->state];
	uint64_t bound = oracle->config.tcp_unacknowledged_ns;
	bool tcp = conn->state <= CONNTRACK_STATE_TCP_CLOSE;
	bool unanswered = conn->state == CONNTRACK_STATE_TCP_ESTABLISHED && !conn->assured;
	if (tcp && conn->doubted)
		timeout = oracle->config.timeout_ns[CONNTRACK_STATE_TCP_CLOSE];
	else if (tcp && (conn->stuck || unanswered) && bound != 0 && timeout > bound)
		timeout = bound;
	if (timeout == 0)
		return UINT64_MAX;
	return UINT64_MAX - conn->last_seen_ns < timeout ? UINT64_MAX
							 : conn->last_seen_ns + timeout;
}

void conntrack_oracle_schedule(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	conn->due_ns = conntrack_oracle_due_ns(oracle, conn);
	sift_up(oracle, conn);
	sift_down(oracle, conn);
}

/* ---- coming and going ---- */

void conntrack_oracle_erase(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
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
	if (conntrack_oracle_is_closed(conn->state) ||
		(conn->state == CONNTRACK_STATE_SCTP_CLOSED && conn->assured))
		oracle->closed++;
	else
		oracle->expired++;
	conntrack_oracle_erase(oracle, conn);
}

void conntrack_oracle_forget(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn)
{
	oracle->forgotten++;
	conntrack_oracle_erase(oracle, conn);
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
		conntrack_oracle_erase(oracle, found[i]);
	free(found);
	oracle->purged += count;
	return count;
}

struct conntrack_oracle_conn *conntrack_oracle_add(
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
