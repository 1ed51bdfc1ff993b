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
 */
#include "conntrack/tracker.h"

enum { CHUNK = 32 };

struct scratch {
	uint64_t mixed[BASE_BURST_MAX]; /* per run head */
	uint32_t conn[BASE_BURST_MAX];  /* connection after the run */
	uint32_t guess[CHUNK];
	uint16_t twin[CHUNK]; /* earlier run head with the same hash */
	uint64_t twins;       /* bit: twin is valid */
};
static_assert(CHUNK <= 64, "a bit for each run of a chunk");

/* What track needs beside the packet. */
struct context {
	struct conntrack *tracker;
	struct base_burst *burst;
	struct conntrack_entry *entries;
	unsigned int plain; /* what PLAIN_MASK leaves of the flags of a packet for the short path */
	unsigned int index; /* of the packet in the burst */
};

/* A packet of a flow, with its transport header, not an ICMP error. */
enum {
	PLAIN_MASK = BASE_PACKET_FLOW | BASE_PACKET_ICMP_ERROR | BASE_PACKET_L4,
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
			twins |= UINT64_C(1) << i;
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

static unsigned int closing_flag(unsigned int state)
{
	return (CONNTRACK_STATES_CLOSING * BASE_CONN_CLOSING >> state) & BASE_CONN_CLOSING;
}

static void mark(struct base_packet *packet, const struct conntrack_entry *entry, uint32_t conn,
	bool reply, unsigned int extra)
{
	unsigned int flags = extra | closing_flag(entry->state);
	if (reply)
		flags |= BASE_CONN_REPLY;
	packet->conn = conn;
	packet->conn_flags = (uint8_t)flags;
}

static void untracked(struct context *context, struct base_packet *packet, unsigned int flags)
{
	packet->conn = BASE_CONN_NONE;
	packet->conn_flags = (uint8_t)flags;
	context->tracker->stats.untracked_packets++;
}

static void refuse(struct context *context)
{
	context->tracker->stats.invalid_packets++;
	if (context->tracker->config.drop_invalid)
		base_burst_drop(context->burst, context->index, BASE_DROP_CONN_INVALID);
}

static bool is_reply(const struct conntrack_entry *entry, const struct base_packet *packet)
{
	return ((entry->flags ^ packet->flags) & CONNTRACK_ENTRY_ORIGIN_REVERSED) != 0;
}

static void refresh(struct conntrack_entry *entry, uint64_t time_ns)
{
	if (time_ns > entry->last_seen_ns)
		entry->last_seen_ns = time_ns;
}

static void count_packet(struct conntrack_entry *entry)
{
	uint32_t packets = entry->packets + 1;
	entry->packets = packets - (packets == 0);
}

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

/* How a TCP packet without a connection begins one. False: it does not. */
static bool open_tcp(const struct conntrack *tracker, const struct base_packet *packet,
	struct conntrack_opening *o)
{
	bool pickup = tracker->config.tcp_pickup;
	if ((packet->flags & BASE_PACKET_L4) == 0) {
		/* The snapshot cut the header: all that is known is that the flow is there. */
		o->state = CONNTRACK_STATE_TCP_ESTABLISHED;
		o->flags |= CONNTRACK_TCP_PICKED_UP;
		return pickup;
	}
	struct conntrack_tcp_step step = conntrack_tcp_step(
		CONNTRACK_STATE_NONE, false, packet->tcp_flags, pickup ? CONNTRACK_TCP_PICKUP : 0);
	if (step.verdict != CONNTRACK_TCP_ACCEPT)
		return false;
	o->state = step.state;
	if (is_syn(packet)) {
		o->syn_seq = tcp_seq(packet);
		o->flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		return true;
	}
	o->flags |= CONNTRACK_TCP_PICKED_UP;
	if (step.state == CONNTRACK_STATE_TCP_SYN_RECV) {
		/* A SYN|ACK comes from the server: its receiver opened. */
		o->flags ^= CONNTRACK_ENTRY_ORIGIN_REVERSED | CONNTRACK_ENTRY_ORIGIN_SEEN |
			    CONNTRACK_ENTRY_REPLY_SEEN;
	}
	return true;
}

static uint8_t stateless_state(const struct base_packet *packet)
{
	if ((packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0)
		return CONNTRACK_STATE_GENERIC;
	switch (packet->key.protocol) {
	case BASE_PROTOCOL_UDP:
		return CONNTRACK_STATE_UDP_UNREPLIED;
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return CONNTRACK_STATE_ICMP;
	default:
		return CONNTRACK_STATE_GENERIC;
	}
}

static uint32_t open_connection(struct context *context, struct base_packet *packet)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_opening opening = {
		.key = &packet->key,
		.mixed = conntrack_table_mix(&tracker->table, packet->hash),
		.time_ns = packet->time_ns,
		.hash = packet->hash,
		.flags = CONNTRACK_ENTRY_ORIGIN_SEEN,
	};
	bool orphan = (packet->flags & BASE_PACKET_FRAGMENT_ORPHAN) != 0;
	if ((packet->flags & BASE_PACKET_REVERSED) != 0)
		opening.flags |= CONNTRACK_ENTRY_ORIGIN_REVERSED;
	if (packet->key.protocol == BASE_PROTOCOL_TCP && !orphan) {
		if ((packet->flags & BASE_PACKET_FRAGMENT_LATER) != 0) {
			/* Its first fragment began no connection, so it does not either. */
			untracked(context, packet, 0);
			return BASE_CONN_NONE;
		}
		if (!open_tcp(tracker, packet, &opening)) {
			untracked(context, packet, BASE_CONN_INVALID);
			refuse(context);
			return BASE_CONN_NONE;
		}
	} else {
		opening.state = stateless_state(packet);
	}

	enum base_drop_reason reason = BASE_DROP_NONE;
	uint32_t conn = conntrack_open(tracker, &opening, &reason);
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE)) {
		tracker->stats.insert_failures++;
		untracked(context, packet, 0);
		if (tracker->config.full_policy == CONNTRACK_FULL_DROP_NEW)
			base_burst_drop(context->burst, context->index, reason);
		return BASE_CONN_NONE;
	}
	struct conntrack_entry *entry = &tracker->entries[conn];
	count_packet(entry);
	mark(packet, entry, conn, is_reply(entry, packet), BASE_CONN_NEW);
	return conn;
}

/* The packet belongs to the connection as it is, or as it has become. */
static void accept(struct context *context, struct base_packet *packet, uint32_t conn, bool reply,
	unsigned int state, unsigned int flags)
{
	struct conntrack_entry *entry = &context->tracker->entries[conn];
	const unsigned int both = CONNTRACK_ENTRY_ORIGIN_SEEN | CONNTRACK_ENTRY_REPLY_SEEN;
	flags |= reply ? CONNTRACK_ENTRY_REPLY_SEEN : CONNTRACK_ENTRY_ORIGIN_SEEN;
	if ((flags & both) == both) {
		if (state == CONNTRACK_STATE_UDP_UNREPLIED)
			state = CONNTRACK_STATE_UDP_REPLIED;
		if (conntrack_state_in(
			    state, CONNTRACK_STATES_SYNCHRONISED | CONNTRACK_STATES_STATELESS))
			flags |= CONNTRACK_ENTRY_ASSURED;
	}
	refresh(entry, packet->time_ns);
	if (state != entry->state || flags != entry->flags)
		conntrack_transition(context->tracker, conn, state, flags);
	count_packet(entry);
	mark(packet, entry, conn, reply, 0);
}

static uint32_t step_tcp(
	struct context *context, struct base_packet *packet, uint32_t conn, bool reply)
{
	struct conntrack *tracker = context->tracker;
	struct conntrack_entry *entry = &tracker->entries[conn];
	unsigned int flags = entry->flags;
	unsigned int bits = flags & CONNTRACK_ENTRY_TCP_BITS;
	bool opener_syn = !reply && is_syn(packet);
	uint32_t seq = opener_syn ? tcp_seq(packet) : 0;
	if (tracker->config.tcp_pickup)
		bits |= CONNTRACK_TCP_PICKUP;
	if (opener_syn && (flags & CONNTRACK_ENTRY_SYN_KNOWN) != 0 && seq == entry->syn_seq)
		bits |= CONNTRACK_TCP_SAME_SYN;

	struct conntrack_tcp_step step =
		conntrack_tcp_step(entry->state, reply, packet->tcp_flags, bits);
	switch ((enum conntrack_tcp_verdict)step.verdict) {
	case CONNTRACK_TCP_REOPEN:
		conntrack_retire(tracker, conn, &tracker->stats.closed);
		return open_connection(context, packet);
	case CONNTRACK_TCP_ACCEPT:
		if (opener_syn) {
			entry->syn_seq = seq;
			flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		}
		if (step.state == CONNTRACK_STATE_TCP_SYN_SENT2)
			flags |= CONNTRACK_TCP_SIMULTANEOUS;
		if (step.state != entry->state &&
			(step.state == CONNTRACK_STATE_TCP_FIN_WAIT ||
				step.state == CONNTRACK_STATE_TCP_LAST_ACK))
			flags = (flags & ~(unsigned int)CONNTRACK_TCP_CLOSER_REPLY) |
				(reply ? CONNTRACK_TCP_CLOSER_REPLY : 0);
		accept(context, packet, conn, reply, step.state, flags);
		return conn;
	case CONNTRACK_TCP_IGNORE:
		if (opener_syn && (flags & CONNTRACK_ENTRY_SYN_KNOWN) == 0) {
			/* It overtook nothing: it is late, so its number is still worth having. */
			entry->syn_seq = seq;
			entry->flags |= CONNTRACK_ENTRY_SYN_KNOWN;
		}
		count_packet(entry);
		mark(packet, entry, conn, reply, 0);
		return conn;
	case CONNTRACK_TCP_INVALID:
	case CONNTRACK_TCP_VERDICTS_COUNT:
		break;
	}
	count_packet(entry);
	mark(packet, entry, conn, reply, BASE_CONN_INVALID);
	refuse(context);
	return conn;
}

/* Runs have been counted as hits. */
static void count_miss(struct conntrack *tracker)
{
	tracker->stats.hits--;
	tracker->stats.misses++;
}

static void relate(struct context *context, struct base_packet *packet, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	if (conn == BASE_CONN_NONE ||
		conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		count_miss(tracker);
		untracked(context, packet, 0);
		return;
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	tracker->stats.related_packets++;
	mark(packet, entry, conn, is_reply(entry, packet), BASE_CONN_RELATED);
}

/* Everything but a packet that leaves its connection's state as it is. */
static __attribute__((noinline)) uint32_t track_slow(
	struct context *context, struct base_packet *packet, unsigned int index, uint32_t conn)
{
	struct conntrack *tracker = context->tracker;
	context->index = index;
	if (packet->drop_reason != BASE_DROP_NONE) {
		tracker->stats.hits -= packet->flags & BASE_PACKET_FLOW;
		return conn;
	}
	if ((packet->flags & BASE_PACKET_FLOW) == 0) {
		untracked(context, packet, 0);
		return BASE_CONN_NONE;
	}
	if ((packet->flags & BASE_PACKET_ICMP_ERROR) != 0) {
		relate(context, packet, conn);
		return conn;
	}
	if (conn != BASE_CONN_NONE &&
		conntrack_is_expired(tracker, &tracker->entries[conn], packet->time_ns)) {
		conntrack_retire(tracker, conn, conntrack_idle_counter(tracker, conn));
		conn = BASE_CONN_NONE;
	}
	if (conn == BASE_CONN_NONE) {
		count_miss(tracker);
		return open_connection(context, packet);
	}
	const struct conntrack_entry *entry = &tracker->entries[conn];
	bool reply = is_reply(entry, packet);
	if (conntrack_state_is_tcp(entry->state) && (packet->flags & BASE_PACKET_L4) != 0)
		return step_tcp(context, packet, conn, reply);
	accept(context, packet, conn, reply, entry->state, entry->flags);
	return conn;
}

/* The short path: an open connection, not expired, both this side and this state seen before. It
 * does what accept does when nothing changes; branches are left to the one comparison. */
static inline uint32_t track(
	struct context *context, struct base_packet *packet, unsigned int index, uint32_t conn)
{
	unsigned int packet_flags = packet->flags;
	if (BASE_UNLIKELY(conn == BASE_CONN_NONE || (packet_flags & PLAIN_MASK) != context->plain))
		return track_slow(context, packet, index, conn);

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
		context->tracker->lookup_idle_max_ns[(flags & CONNTRACK_ENTRY_ASSURED) | state];
	if (BASE_UNLIKELY(newest_ns - last_ns > idle_max_ns || cell != state ||
			  (flags & (CONNTRACK_ENTRY_ORIGIN_SEEN << reply)) == 0))
		return track_slow(context, packet, index, conn);

	entry->last_seen_ns = newest_ns;
	count_packet(entry);
	packet->conn = conn;
	packet->conn_flags = (uint8_t)(reply | closing_flag(state));
	return conn;
}

/* Pass 3. */
static __attribute__((noinline)) void track_runs(struct context *context,
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
	struct context context = {
		.tracker = tracker,
		.burst = burst,
		.entries = tracker->entries,
		/* With dropped packets among them, all are looked at closely. */
		.plain = burst->drop_count == 0 ? PLAIN : PLAIN_NEVER,
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
		track_runs(&context, runs, first, count, &scratch);
	}
	if (BASE_UNLIKELY(tracker->lab != NULL))
		conntrack_lab_after(tracker, burst);
}
