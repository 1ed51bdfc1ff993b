/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packet path. A burst is worked on in chunks of run heads, each chunk in three passes, so that
 * every memory line has been asked for some tens of packets before it is read:
 *
 *   locate   hash, find equal keys earlier in the burst, prefetch bucket lines
 *   guess    compare tags, prefetch the entries they lead to
 *   track    compare keys, step states, packet by packet in order
 *
 * Guesses are hints: track compares keys again, and looks the key up afresh when the comparison
 * fails. So whatever an earlier packet of the burst did (insert, remove, evict) is seen, and the
 * result is that of one packet after the other.
 *
 * Packets that change their connection or have none are packet.c's.
 */
#include "conntrack/packet.h"

enum { CHUNK = 32 };

struct scratch {
	uint64_t mixed[BASE_BURST_MAX]; /* per run head */
	uint32_t conn[BASE_BURST_MAX];  /* connection after the run */
	uint32_t guess[CHUNK];
	uint16_t twin[CHUNK]; /* earlier run head with the same hash */
	uint64_t twins;       /* bit: twin is valid */
};
static_assert(CHUNK <= 64, "a bit for each run of a chunk");

/* A packet of a flow, with its transport header, not an ICMP error, not spoilt. */
enum {
	PLAIN_MASK = BASE_PACKET_FLOW | BASE_PACKET_ICMP_ERROR | BASE_PACKET_L4 |
		     BASE_PACKET_CHECKSUM_BAD,
	PLAIN = BASE_PACKET_FLOW | BASE_PACKET_L4,
	PLAIN_NEVER = BASE_PACKET_ICMP_ERROR,
};
static_assert(BASE_PACKET_FLOW == 1, "counts flows");

/* Pass 1. The dedup map is never cleared: a hint carries its burst's number, so that stale ones
 * cost a branch that the processor foresees. Keys are not compared here: track does that. */
static __attribute__((noinline)) void locate(struct conntrack *tracker,
	const struct base_burst *burst, const struct base_run *runs, unsigned int first,
	unsigned int count, struct scratch *scratch)
{
	const struct conntrack_table table = tracker->table;
	uint32_t *hints = tracker->dedup;
	uint32_t serial = tracker->dedup_serial;
	bool dedup = !tracker->config.no_dedup;
	bool prefetch = !tracker->config.no_prefetch && tracker->lab == NULL;
	unsigned int heads = 0, packets = 0;
	uint64_t twins = 0;
	for (unsigned int i = 0; i < count; i++) {
		unsigned int head = first + i;
		const struct base_packet *packet = burst->packets[runs[head].first];
		uint64_t mixed = conntrack_table_mix(&table, packet->hash);
		unsigned int flow = packet->flags & BASE_PACKET_FLOW;
		heads += flow;
		packets += flow != 0 ? runs[head].count : 0;
		scratch->mixed[head] = mixed;
		if (prefetch)
			BASE_PREFETCH(conntrack_table_bucket(&table, mixed));
		if (!dedup)
			continue;
		uint32_t *hint = &hints[mixed % CONNTRACK_DEDUP_SLOTS];
		uint32_t candidate = *hint ^ serial;
		*hint = serial | head;
		if (BASE_UNLIKELY(candidate < head) && scratch->mixed[candidate] == mixed) {
			scratch->twin[i] = (uint16_t)candidate;
			twins |= (uint64_t)flow << i; /* only flows are looked up */
		}
	}
	scratch->twins = twins;
	heads -= (unsigned int)__builtin_popcountll(twins);
	tracker->stats.lookups += heads;
	tracker->stats.lookups_saved += packets - heads;
	tracker->stats.hits += packets; /* until they turn out to be misses */
}

static inline void prefetch_entry(const struct conntrack *tracker, uint32_t conn)
{
	BASE_PREFETCH_W(&tracker->entries[conn]);
	if (tracker->user_stride != 0)
		BASE_PREFETCH_W(conntrack_user_at(tracker, conn));
}

/* Apart, so that trackers without windows do not pay for the question. */
static __attribute__((noinline)) void prefetch_windows(
	const struct conntrack *tracker, const uint32_t *conns, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (conns[i] != BASE_CONN_NONE)
			BASE_PREFETCH_W(&tracker->windows[conns[i]]);
	}
}

/* Pass 2b: the few whose pair may be in an overflow line, which pass 2 has asked for. */
static void guess_overflow(const struct conntrack *tracker, unsigned int first, const uint8_t *late,
	unsigned int late_count, struct scratch *scratch)
{
	for (unsigned int i = 0; i < late_count; i++) {
		unsigned int at = late[i];
		uint32_t conn =
			conntrack_table_guess_overflow(&tracker->table, scratch->mixed[first + at]);
		scratch->guess[at] = conn;
		if (conn != BASE_CONN_NONE && !tracker->config.no_prefetch)
			prefetch_entry(tracker, conn);
	}
}

/* Pass 2. */
static __attribute__((noinline)) void guess(const struct conntrack *tracker, unsigned int first,
	unsigned int count, struct scratch *scratch)
{
	const struct conntrack_table table = tracker->table;
	uint8_t late[CHUNK];
	unsigned int late_count = 0;
	bool prefetch = !tracker->config.no_prefetch;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t mixed = scratch->mixed[first + i];
		uint16_t tag = conntrack_table_tag(mixed);
		const struct conntrack_table_line *bucket = conntrack_table_bucket(&table, mixed);
		unsigned int mask = conntrack_table_match(bucket, tag);
		uint32_t conn = BASE_CONN_NONE;
		if (BASE_LIKELY(mask != 0)) {
			conn = bucket->index[__builtin_ctz(mask)];
			if (prefetch)
				prefetch_entry(tracker, conn);
		} else if (conntrack_table_may_overflow(bucket, tag)) {
			late[late_count++] = (uint8_t)i;
			if (prefetch)
				BASE_PREFETCH(&table.overflow[bucket->next]);
		}
		scratch->guess[i] = conn;
	}
	if (late_count != 0)
		guess_overflow(tracker, first, late, late_count, scratch);
}

/* Pass 2 in the laboratory: a table finds; nothing is left to guess. */
static __attribute__((noinline)) void guess_lab(const struct conntrack *tracker,
	const struct base_burst *burst, const struct base_run *runs, unsigned int first,
	unsigned int count, struct scratch *scratch)
{
	const struct base_flow_key *keys[CHUNK];
	const struct conntrack_lab *lab = tracker->lab;
	for (unsigned int i = 0; i < count; i++)
		keys[i] = &burst->packets[runs[first + i].first]->key;
	lab->table_ops->find_burst(lab->table, scratch->mixed + first, keys, count, scratch->guess);
	for (unsigned int i = 0; i < count && !tracker->config.no_prefetch; i++) {
		if (scratch->guess[i] != BASE_CONN_NONE)
			prefetch_entry(tracker, scratch->guess[i]);
	}
}

static uint32_t find(const struct conntrack *tracker, const struct base_packet *packet)
{
	uint64_t mixed = conntrack_table_mix(&tracker->table, packet->hash);
	if (BASE_UNLIKELY(tracker->lab != NULL))
		return conntrack_lab_find(tracker, mixed, &packet->key);
	return conntrack_table_find(&tracker->table, mixed, &packet->key, tracker->entries);
}

/* The short path: an open connection, not expired, both this side and this state seen before. It
 * does what conntrack_packet_accept does when nothing changes; branches are left to the one
 * comparison. */
static inline uint32_t track(struct conntrack_context *context, struct base_packet *packet,
	unsigned int index, uint32_t conn)
{
	unsigned int packet_flags = packet->flags;
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE || (packet_flags & PLAIN_MASK) != context->plain))
		return context->take(context, packet, index, conn);

	struct conntrack_entry *entry = &context->entries[conn];
	unsigned int flags = entry->flags;
	unsigned int state = entry->state;
	unsigned int reply = (packet_flags ^ flags) & BASE_CONN_REPLY; /* 0 or 2 */
	unsigned int side = conntrack_tcp_side(reply >> 1, flags);
	/* A cell that equals the state says: accept and stay. */
	unsigned int cell = conntrack_tcp_cell(state, side, packet->tcp_flags);
	uint64_t last_ns = entry->last_seen_ns;
	uint64_t newest_ns = packet->time_ns > last_ns ? packet->time_ns : last_ns;
	uint64_t idle_max_ns =
		context->tracker->lookup_idle_max_ns[(flags & CONNTRACK_ENTRY_KEEP) | state];
	if (BASE_UNLIKELY(newest_ns - last_ns > idle_max_ns || cell != state ||
			  (flags & (CONNTRACK_ENTRY_ORIGIN_SEEN << reply)) == 0))
		return context->take(context, packet, index, conn);

	entry->last_seen_ns = newest_ns;
	conntrack_count_packet(entry);
	packet->conn = conn;
	packet->conn_flags = (uint8_t)(reply | conntrack_closing_flag(state));
	return conn;
}

/* Pass 3. */
static __attribute__((noinline)) void track_runs(struct conntrack_context *context,
	const struct base_run *runs, unsigned int first, unsigned int count,
	struct scratch *scratch)
{
	struct base_packet *const *packets = context->burst->packets;
	for (unsigned int i = 0; i < count; i++) {
		struct base_run run = runs[first + i];
		struct base_packet *packet = packets[run.first];
		uint32_t conn = scratch->guess[i];
		if (BASE_UNLIKELY((scratch->twins >> i & 1) != 0))
			conn = scratch->conn[scratch->twin[i]];
		if (BASE_UNLIKELY(conn == BASE_CONN_NONE ||
				  !conntrack_key_equal(&context->entries[conn].key, &packet->key)))
			conn = find(context->tracker, packet);
		conn = track(context, packet, run.first, conn);
		for (unsigned int k = 1; k < run.count; k++)
			conn = track(context, packets[run.first + k], run.first + k, conn);
		scratch->conn[first + i] = conn;
	}
}

void conntrack_process_burst(struct conntrack *tracker, struct base_burst *burst)
{
	struct base_run singles[BASE_BURST_MAX];
	struct scratch scratch;
	struct conntrack_context context = {
		.tracker = tracker,
		.burst = burst,
		.entries = tracker->entries,
		.take = tracker->windows == NULL ? conntrack_packet : conntrack_tcp_windowed,
		/* With dropped packets among them, or with windows, all are looked at closely. */
		.plain = burst->drop_count == 0 && tracker->windows == NULL ? PLAIN : PLAIN_NEVER,
	};
	const struct base_run *runs = burst->runs;
	unsigned int runs_count = burst->run_count;
	conntrack_release_retired(tracker);
	if (tracker->config.no_runs) {
		for (unsigned int i = 0; i < burst->count; i++)
			singles[i] = (struct base_run){ .first = (uint16_t)i, .count = 1 };
		runs = singles;
		runs_count = burst->count;
	}

	if (BASE_UNLIKELY(tracker->lab != NULL))
		conntrack_lab_before(tracker, burst);
	unsigned int step = tracker->config.no_bulk ? 1 : CHUNK;
	for (unsigned int first = 0; first < runs_count; first += step) {
		unsigned int count = runs_count - first < step ? runs_count - first : step;
		locate(tracker, burst, runs, first, count, &scratch);
		if (BASE_LIKELY(tracker->lab == NULL))
			guess(tracker, first, count, &scratch);
		else
			guess_lab(tracker, burst, runs, first, count, &scratch);
		if (BASE_UNLIKELY(tracker->windows != NULL) && !tracker->config.no_prefetch)
			prefetch_windows(tracker, scratch.guess, count);
		track_runs(&context, runs, first, count, &scratch);
	}
	if (BASE_UNLIKELY(tracker->lab != NULL))
		conntrack_lab_after(tracker, burst);
}
