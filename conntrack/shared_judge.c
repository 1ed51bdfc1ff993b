/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/shared_judge.h"

#include "base/compiler.h"
#include "base/sort.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One connection, expected or found. */
struct record {
	struct conntrack_shared_conn conn;
	uint64_t first_ns; /* expected ones only */
};

struct list {
	struct record *records;
	uint64_t count, capacity;
} BASE_ALIGNED(64);

struct conntrack_shared_judge {
	uint64_t timeout_ns[CONNTRACK_SHARED_TIMEOUTS_COUNT]; /* UINT64_MAX: never */
	unsigned int workers;
	struct list expected;
	struct list found[CONNTRACK_SHARED_WORKERS_MAX];
};

static int list_grow(struct list *list)
{
	if (list->count < list->capacity)
		return 0;
	uint64_t capacity = 2 * list->capacity + 1024;
	struct record *records = realloc(list->records, capacity * sizeof(*records));
	if (records == NULL)
		return -ENOMEM;
	list->records = records;
	list->capacity = capacity;
	return 0;
}

int conntrack_shared_judge_create(struct conntrack_shared_judge **out, unsigned int workers,
	const uint64_t timeout_ns[CONNTRACK_SHARED_TIMEOUTS_COUNT])
{
	struct conntrack_shared_judge *judge =
		aligned_alloc(BASE_CACHE_LINE, sizeof(struct conntrack_shared_judge));
	if (judge == NULL)
		return -ENOMEM;
	memset(judge, 0, sizeof(*judge));
	judge->workers = workers;
	for (unsigned int i = 0; i < CONNTRACK_SHARED_TIMEOUTS_COUNT; i++)
		judge->timeout_ns[i] = timeout_ns[i] == 0 ? UINT64_MAX : timeout_ns[i];
	*out = judge;
	return 0;
}

void conntrack_shared_judge_destroy(struct conntrack_shared_judge *judge)
{
	if (judge == NULL)
		return;
	free(judge->expected.records);
	for (unsigned int i = 0; i < judge->workers; i++)
		free(judge->found[i].records);
	free(judge);
}

void conntrack_shared_collect(
	void *context, unsigned int worker, const struct conntrack_shared_conn *conn)
{
	struct conntrack_shared_judge *judge = context;
	struct list *list = &judge->found[worker];
	BASE_ASSERT(worker < judge->workers && list_grow(list) == 0);
	list->records[list->count++] = (struct record){ .conn = *conn };
}

/* ---- the reference --------------------------------------------------------------------------- */

static int compare_packets(const void *a, const void *b)
{
	const struct base_packet *x = *(const struct base_packet *const *)a;
	const struct base_packet *y = *(const struct base_packet *const *)b;
	int order = memcmp(&x->key, &y->key, sizeof(x->key));
	/* in place order: they lie in one array */
	return order != 0 ? order : (x > y) - (x < y);
}

static int compare_records(const void *a, const void *b)
{
	const struct conntrack_shared_conn *x = &((const struct record *)a)->conn;
	const struct conntrack_shared_conn *y = &((const struct record *)b)->conn;
	int order = memcmp(&x->key, &y->key, sizeof(x->key));
	if (order == 0)
		order = (x->last_seen_ns > y->last_seen_ns) - (x->last_seen_ns < y->last_seen_ns);
	return order;
}

static uint32_t flags_of(const struct base_packet *packet)
{
	bool reversed = (packet->flags & BASE_PACKET_REVERSED) != 0;
	uint32_t flags = reversed ? CONNTRACK_SHARED_SEEN_1 : CONNTRACK_SHARED_SEEN_0;
	if (packet->protocol != BASE_PROTOCOL_TCP)
		return flags;
	if ((packet->tcp_flags & BASE_TCP_RST) != 0)
		flags |= CONNTRACK_SHARED_RST;
	if ((packet->tcp_flags & BASE_TCP_FIN) != 0)
		flags |= reversed ? CONNTRACK_SHARED_FIN_1 : CONNTRACK_SHARED_FIN_0;
	return flags;
}

static uint64_t timeout_of(const struct conntrack_shared_judge *judge, uint32_t flags)
{
	bool seen_0 = flags & CONNTRACK_SHARED_SEEN_0, seen_1 = flags & CONNTRACK_SHARED_SEEN_1;
	bool fin_0 = flags & CONNTRACK_SHARED_FIN_0, fin_1 = flags & CONNTRACK_SHARED_FIN_1;
	if ((flags & CONNTRACK_SHARED_RST) != 0 || (fin_0 && fin_1))
		return judge->timeout_ns[CONNTRACK_SHARED_CLOSED];
	return judge->timeout_ns[seen_0 && seen_1 ? CONNTRACK_SHARED_REPLIED
						  : CONNTRACK_SHARED_UNREPLIED];
}

static int expect(struct conntrack_shared_judge *judge, const struct base_packet *packet)
{
	struct list *list = &judge->expected;
	struct record *last = list->count != 0 ? &list->records[list->count - 1] : NULL;
	if (last == NULL || memcmp(&last->conn.key, &packet->key, sizeof(packet->key)) != 0 ||
		packet->time_ns - last->conn.last_seen_ns >= timeout_of(judge, last->conn.flags)) {
		if (list_grow(list) != 0)
			return -ENOMEM;
		last = &list->records[list->count++];
		*last = (struct record){ .conn.key = packet->key, .first_ns = packet->time_ns };
	}
	last->conn.last_seen_ns = packet->time_ns;
	last->conn.flags |= flags_of(packet);
	last->conn.packets++;
	last->conn.bytes += packet->wire_len;
	return 0;
}

int conntrack_shared_judge_expect(struct conntrack_shared_judge *judge,
	const struct base_packet *packets, uint64_t count, const atomic_bool *stop)
{
	const struct base_packet **order = malloc((count + 1) * sizeof(*order));
	const struct base_packet **spare = malloc((count + 1) * sizeof(*spare));
	uint64_t used = 0;
	if (order == NULL || spare == NULL) {
		free(order);
		free(spare);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < count; i++) {
		if ((packets[i].flags & (BASE_PACKET_FLOW | BASE_PACKET_ICMP_ERROR)) ==
			BASE_PACKET_FLOW)
			order[used++] = &packets[i];
	}
	int error = base_sort(order, spare, used, sizeof(*order), compare_packets, stop);
	free(spare);
	judge->expected.count = 0;
	for (uint64_t i = 0; i < used && error == 0; i++)
		error = expect(judge, order[i]);
	free(order);
	return error;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void tell(struct conntrack_shared_verdict *verdict, uint64_t *what, const char *text,
	const struct conntrack_shared_conn *conn, const struct conntrack_shared_conn *should)
{
	char key[128];
	(*what)++;
	if (verdict->failures_sum++ != 0)
		return;
	base_flow_key_format(&conn->key, key, sizeof(key));
	snprintf(verdict->first_failure, sizeof(verdict->first_failure),
		"%s: %s: got %llu packets, %llu bytes, flags %u, last %llu ns, expected %llu, "
		"%llu, "
		"%u, %llu",
		key, text, (unsigned long long)conn->packets, (unsigned long long)conn->bytes,
		conn->flags, (unsigned long long)conn->last_seen_ns,
		(unsigned long long)should->packets, (unsigned long long)should->bytes,
		should->flags, (unsigned long long)should->last_seen_ns);
}

static bool conn_equal(const struct conntrack_shared_conn *a, const struct conntrack_shared_conn *b)
{
	return a->packets == b->packets && a->bytes == b->bytes && a->flags == b->flags &&
	       a->last_seen_ns == b->last_seen_ns;
}

static uint64_t same_key(const struct record *records, uint64_t count, const struct record *of)
{
	uint64_t same = 0;
	while (same < count &&
		memcmp(&records[same].conn.key, &of->conn.key, sizeof(of->conn.key)) == 0)
		same++;
	return same;
}

/* The connections of one flow as one. */
static struct conntrack_shared_conn sum_up(const struct record *records, uint64_t count)
{
	struct conntrack_shared_conn sum = { .key = records[0].conn.key };
	for (uint64_t i = 0; i < count; i++) {
		const struct conntrack_shared_conn *conn = &records[i].conn;
		sum.packets += conn->packets;
		sum.bytes += conn->bytes;
		sum.flags |= conn->flags;
		if (conn->last_seen_ns > sum.last_seen_ns)
			sum.last_seen_ns = conn->last_seen_ns;
	}
	return sum;
}

static uint64_t least_timeout(const struct conntrack_shared_judge *judge)
{
	uint64_t least = UINT64_MAX;
	for (unsigned int i = 0; i < CONNTRACK_SHARED_TIMEOUTS_COUNT; i++)
		least = judge->timeout_ns[i] < least ? judge->timeout_ns[i] : least;
	return least;
}

/* One flow; both counts at least 1. */
static void judge_flow(const struct conntrack_shared_judge *judge, bool spread,
	const struct record *expected, uint64_t expected_count, const struct record *found,
	uint64_t found_count, struct conntrack_shared_verdict *verdict)
{
	uint64_t span_ns = expected[expected_count - 1].conn.last_seen_ns - expected[0].first_ns;
	struct conntrack_shared_conn should = sum_up(expected, expected_count);
	struct conntrack_shared_conn is = sum_up(found, found_count);
	if (spread && span_ns >= least_timeout(judge)) {
		if (!conn_equal(&is, &should))
			tell(verdict, &verdict->wrong, "sums of a flow", &is, &should);
		return;
	}
	verdict->compared_flows++;
	if (found_count < expected_count) {
		tell(verdict, &verdict->missing, "too few connections", &is, &should);
		verdict->missing += expected_count - found_count - 1;
	} else if (found_count > expected_count) {
		tell(verdict, &verdict->surplus, "too many connections", &is, &should);
		verdict->surplus += found_count - expected_count - 1;
	}
	for (uint64_t i = 0; i < expected_count && found_count == expected_count; i++) {
		if (!conn_equal(&found[i].conn, &expected[i].conn))
			tell(verdict, &verdict->wrong, "a connection", &found[i].conn,
				&expected[i].conn);
	}
}

static void compare(const struct conntrack_shared_judge *judge, bool spread,
	const struct list *found, struct conntrack_shared_verdict *verdict)
{
	static const struct conntrack_shared_conn none;
	const struct list *expected = &judge->expected;
	uint64_t e = 0, f = 0;
	while (e < expected->count || f < found->count) {
		int order = e == expected->count ? 1
			    : f == found->count  ? -1
						 : memcmp(&expected->records[e].conn.key,
							   &found->records[f].conn.key,
							   sizeof(struct base_flow_key));
		const struct record *of = order <= 0 ? &expected->records[e] : &found->records[f];
		uint64_t e_count =
			order <= 0 ? same_key(expected->records + e, expected->count - e, of) : 0;
		uint64_t f_count =
			order >= 0 ? same_key(found->records + f, found->count - f, of) : 0;
		verdict->flows += e_count != 0;
		if (f_count == 0)
			tell(verdict, &verdict->missing, "a flow is not there", &none, &of->conn);
		else if (e_count == 0)
			tell(verdict, &verdict->surplus, "a flow that was not sent", &of->conn,
				&none);
		else
			judge_flow(judge, spread, expected->records + e, e_count,
				found->records + f, f_count, verdict);
		e += e_count;
		f += f_count;
	}
}

int conntrack_shared_judge_verdict(
	struct conntrack_shared_judge *judge, bool spread, struct conntrack_shared_verdict *verdict)
{
	struct list all = { 0 };
	for (unsigned int i = 0; i < judge->workers; i++)
		all.capacity += judge->found[i].count;
	all.records = malloc((all.capacity + 1) * sizeof(*all.records));
	if (all.records == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < judge->workers; i++) {
		struct list *list = &judge->found[i];
		if (list->count != 0)
			memcpy(all.records + all.count, list->records,
				list->count * sizeof(*list->records));
		all.count += list->count;
		list->count = 0;
	}
	qsort(all.records, all.count, sizeof(*all.records), compare_records);
	memset(verdict, 0, sizeof(*verdict));
	verdict->connections = judge->expected.count;
	compare(judge, spread, &all, verdict);
	free(all.records);
	return 0;
}
