/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tracker.h"

#include <string.h>

enum conntrack_queue_kind conntrack_queue_of(unsigned int state, bool assured)
{
	if (conntrack_state_in(state, CONNTRACK_STATES_HALF_OPEN))
		return CONNTRACK_QUEUE_HALF_OPEN;
	if (conntrack_state_is_transient(state, assured))
		return CONNTRACK_QUEUE_OTHER;
	return CONNTRACK_QUEUE_NONE;
}

static void queue_append(struct conntrack *tracker, enum conntrack_queue_kind kind, uint32_t conn)
{
	if (tracker->links == NULL || kind == CONNTRACK_QUEUE_NONE)
		return;
	struct conntrack_queue *queue = &tracker->queues[kind];
	tracker->links[conn] =
		(struct conntrack_links){ .older = queue->newest, .newer = BASE_CONN_NONE };
	if (queue->newest == BASE_CONN_NONE)
		queue->oldest = conn;
	else
		tracker->links[queue->newest].newer = conn;
	queue->newest = conn;
}

static void queue_unlink(struct conntrack *tracker, enum conntrack_queue_kind kind, uint32_t conn)
{
	if (tracker->links == NULL || kind == CONNTRACK_QUEUE_NONE)
		return;
	struct conntrack_queue *queue = &tracker->queues[kind];
	struct conntrack_links links = tracker->links[conn];
	if (links.older == BASE_CONN_NONE)
		queue->oldest = links.newer;
	else
		tracker->links[links.older].newer = links.newer;
	if (links.newer == BASE_CONN_NONE)
		queue->newest = links.older;
	else
		tracker->links[links.newer].older = links.older;
}

/* What removing it begins with; its owner reads its memory. */
static void prefetch_victim(const struct conntrack *tracker, uint32_t conn)
{
	BASE_PREFETCH_W(&tracker->entries[conn]);
	BASE_PREFETCH(&tracker->hashes[conn]);
	if (tracker->lab == NULL)
		BASE_PREFETCH_W(&tracker->expiry.position[conn]);
	for (uint32_t at = 0; at < tracker->user_stride; at += BASE_CACHE_LINE)
		BASE_PREFETCH_W((uint8_t *)conntrack_user_at(tracker, conn) + at);
}

/* What removing it goes on with, which follows from the former. */
static void prefetch_victim_further(const struct conntrack *tracker, uint32_t conn)
{
	if (tracker->lab != NULL)
		return;
	BASE_PREFETCH_W(conntrack_table_bucket(
		&tracker->table, conntrack_table_mix(&tracker->table, tracker->hashes[conn])));
	conntrack_expiry_prefetch(&tracker->expiry, conn);
}

/* The hints begin anew from the oldest, with the last one in the place before `step`. */
static void scouts_begin(
	const struct conntrack *tracker, struct conntrack_queue *queue, uint32_t step)
{
	uint32_t conn = queue->oldest;
	for (uint32_t i = 0; i < CONNTRACK_SCOUTS && conn != BASE_CONN_NONE; i++) {
		queue->scouts.conn[(step + i) % CONNTRACK_SCOUTS] = conn;
		conn = tracker->links[conn].newer;
	}
}

/* An eviction takes the oldest or one of the few behind it: prepare later ones. */
static void scouts_step(const struct conntrack *tracker, struct conntrack_queue *queue)
{
	struct conntrack_scouts *scouts = &queue->scouts;
	uint32_t step = scouts->steps++;
	if (step % CONNTRACK_SCOUTS_LAST == 0)
		scouts_begin(tracker, queue, step);
	uint32_t last = scouts->conn[(step - 1) % CONNTRACK_SCOUTS];
	uint32_t next = tracker->links[last].newer;
	if (next == BASE_CONN_NONE)
		next = queue->oldest;
	scouts->conn[step % CONNTRACK_SCOUTS] = next;
	BASE_PREFETCH_W(&tracker->links[next]);
	prefetch_victim(tracker, next);
	prefetch_victim_further(
		tracker, scouts->conn[(step - CONNTRACK_SCOUTS / 2) % CONNTRACK_SCOUTS]);
}

/* The entry that was seen least recently among the first `looks` of a queue. */
static uint32_t queue_oldest(struct conntrack *tracker, enum conntrack_queue_kind kind,
	unsigned int looks, uint32_t best)
{
	uint32_t conn = tracker->queues[kind].oldest;
	if (conn != BASE_CONN_NONE)
		scouts_step(tracker, &tracker->queues[kind]);
	for (; looks > 0 && conn != BASE_CONN_NONE; looks--) {
		if (best == BASE_CONN_NONE ||
			tracker->entries[conn].last_seen_ns < tracker->entries[best].last_seen_ns)
			best = conn;
		conn = tracker->links[conn].newer;
	}
	return best;
}

static void count_state(struct conntrack *tracker, unsigned int state, int change)
{
	struct conntrack_stats *stats = &tracker->stats;
	stats->state_live[state] += (uint64_t)(int64_t)change;
	if (conntrack_state_in(state, CONNTRACK_STATES_HALF_OPEN)) {
		stats->half_open += (uint64_t)(int64_t)change;
		if (stats->half_open > stats->peak_half_open)
			stats->peak_half_open = stats->half_open;
	}
}

/* Out of the table, its timer and its queue; the index stays taken. */
static void unlink_entry(struct conntrack *tracker, uint32_t conn, uint64_t *counter)
{
	struct conntrack_entry *entry = &tracker->entries[conn];
	uint64_t mixed = conntrack_table_mix(&tracker->table, tracker->hashes[conn]);
	if (BASE_UNLIKELY(tracker->lab != NULL)) {
		conntrack_lab_unlink(tracker, mixed, conn);
	} else {
		conntrack_table_remove(&tracker->table, mixed, conn);
		conntrack_expiry_disarm(&tracker->expiry, conn);
	}
	queue_unlink(
		tracker, conntrack_queue_of(entry->state, conntrack_entry_is_assured(entry)), conn);
	count_state(tracker, entry->state, -1);
	tracker->stats.live--;
	(*counter)++;
}

static void bury(struct conntrack_entry *entry)
{
	entry->key.family = CONNTRACK_ENTRY_DEAD_FAMILY;
	entry->state = CONNTRACK_STATE_NONE;
}

/* The owner sees the entry as it was. */
static void tell_owner(struct conntrack *tracker, uint32_t conn)
{
	if (tracker->config.on_remove != NULL)
		tracker->config.on_remove(
			tracker->config.on_remove_context, conn, conntrack_user(tracker, conn));
}

static void free_index(struct conntrack *tracker, uint32_t conn)
{
	struct conntrack_entry *entry = &tracker->entries[conn];
	bury(entry);
	entry->generation++;
	entry->last_seen_ns = tracker->free_newest;
	tracker->free_newest = conn;
	tracker->free_count++;
}

/* The index that the next connection gets. There is one: slots_count exceeds what is live and
 * retired. */
static uint32_t next_index(const struct conntrack *tracker)
{
	return tracker->free_newest != BASE_CONN_NONE ? tracker->free_newest : tracker->fresh;
}

static void take_index(struct conntrack *tracker)
{
	if (tracker->free_newest != BASE_CONN_NONE) {
		tracker->free_newest =
			(uint32_t)tracker->entries[tracker->free_newest].last_seen_ns;
		tracker->free_count--;
	} else {
		tracker->fresh++;
	}
	uint32_t next = next_index(tracker);
	if (next >= tracker->slots_count)
		return;
	BASE_PREFETCH_W(&tracker->entries[next]);
	if (tracker->user_stride != 0)
		BASE_PREFETCH_W(conntrack_user_at(tracker, next));
}

void conntrack_remove(struct conntrack *tracker, uint32_t conn, uint64_t *counter)
{
	tell_owner(tracker, conn);
	unlink_entry(tracker, conn, counter);
	free_index(tracker, conn);
}

void conntrack_retire(struct conntrack *tracker, uint32_t conn, uint64_t *counter)
{
	BASE_ASSERT(tracker->retired_count < tracker->retired_max);
	struct conntrack_retired *retired = &tracker->retired[tracker->retired_count++];
	retired->conn = conn;
	retired->entry = tracker->entries[conn];
	unlink_entry(tracker, conn, counter);
	bury(&tracker->entries[conn]);
}

void conntrack_release_retired_slow(struct conntrack *tracker)
{
	for (uint32_t i = 0; i < tracker->retired_count; i++) {
		const struct conntrack_retired *retired = &tracker->retired[i];
		tracker->entries[retired->conn] = retired->entry;
		tell_owner(tracker, retired->conn);
		free_index(tracker, retired->conn);
	}
	tracker->retired_count = 0;
}

uint64_t *conntrack_idle_counter(struct conntrack *tracker, uint32_t conn)
{
	const struct conntrack_entry *entry = &tracker->entries[conn];
	bool closed =
		conntrack_state_in(entry->state, CONNTRACK_STATES_CLOSED) ||
		(entry->state == CONNTRACK_STATE_SCTP_CLOSED && conntrack_entry_is_assured(entry));
	return closed ? &tracker->stats.closed : &tracker->stats.expired;
}

void conntrack_transition(
	struct conntrack *tracker, uint32_t conn, unsigned int state, unsigned int flags)
{
	struct conntrack_entry *entry = &tracker->entries[conn];
	enum conntrack_queue_kind old_queue =
		conntrack_queue_of(entry->state, conntrack_entry_is_assured(entry));
	uint64_t old_idle_max_ns = conntrack_idle_max_ns(tracker, entry);

	if (state != entry->state) {
		count_state(tracker, entry->state, -1);
		count_state(tracker, state, 1);
		entry->state = (uint8_t)state;
	}
	entry->flags = (uint16_t)flags;

	enum conntrack_queue_kind queue =
		conntrack_queue_of(state, conntrack_entry_is_assured(entry));
	if (queue != old_queue) {
		queue_unlink(tracker, old_queue, conn);
		queue_append(tracker, queue, conn);
	}
	/* A longer timeout waits for the slot to fire; a shorter one cannot. */
	uint64_t idle_max_ns = conntrack_idle_max_ns(tracker, entry);
	if (BASE_UNLIKELY(tracker->lab != NULL)) {
		if (idle_max_ns != old_idle_max_ns)
			conntrack_lab_changed(tracker, conn, idle_max_ns < old_idle_max_ns);
	} else if (idle_max_ns < old_idle_max_ns)
		conntrack_expiry_shorten(&tracker->expiry, conn, conntrack_due_ns(tracker, entry));
}

static bool is_full(const struct conntrack *tracker, bool half_open)
{
	return tracker->stats.live >= tracker->config.entries_max ||
	       (half_open && tracker->stats.half_open >= tracker->half_open_max);
}

static enum conntrack_lack lack_of(const struct conntrack *tracker, bool half_open)
{
	if (is_full(tracker, false))
		return CONNTRACK_LACK_ROOM;
	return is_full(tracker, half_open) ? CONNTRACK_LACK_HALF_OPEN : CONNTRACK_LACK_NOTHING;
}

/* Room for one more, within a constant number of looks. */
static bool make_room(struct conntrack *tracker, bool half_open)
{
	/* What is due already but waits for its turn in the wheel goes first. */
	if (tracker->lab == NULL)
		conntrack_reclaim(tracker);
	if (!is_full(tracker, half_open))
		return true;
	if (tracker->config.full_policy != CONNTRACK_FULL_EVICT_TRANSIENT)
		return false;

	bool at_cap = half_open && tracker->stats.half_open >= tracker->half_open_max;
	uint32_t victim = queue_oldest(
		tracker, CONNTRACK_QUEUE_HALF_OPEN, CONNTRACK_EVICT_LOOKS / 2, BASE_CONN_NONE);
	if (!at_cap)
		victim = queue_oldest(
			tracker, CONNTRACK_QUEUE_OTHER, CONNTRACK_EVICT_LOOKS / 2, victim);
	if (victim == BASE_CONN_NONE)
		return false;
	conntrack_retire(tracker, victim, &tracker->stats.evicted);
	return true;
}

static void fill(struct conntrack *tracker, uint32_t conn, const struct conntrack_opening *opening)
{
	struct conntrack_entry *entry = &tracker->entries[conn];
	entry->key = *opening->key;
	entry->last_seen_ns = opening->time_ns;
	entry->packets = 1; /* the one that opens it */
	entry->syn_seq = opening->syn_seq;
	entry->flags = opening->flags;
	entry->state = opening->state;
	tracker->hashes[conn] = opening->hash;
	if (tracker->user_stride != 0)
		memset(conntrack_user_at(tracker, conn), 0, tracker->user_stride);
}

/* lab is a constant where this is called, so that each caller gets code of its own. */
static inline __attribute__((always_inline)) uint32_t open_with(struct conntrack *tracker,
	const struct conntrack_opening *opening, enum base_drop_reason *reason, const bool lab)
{
	bool half_open = conntrack_state_in(opening->state, CONNTRACK_STATES_HALF_OPEN);
	if (lab)
		conntrack_lab_make_room(tracker, opening->mixed, lack_of(tracker, half_open));
	if (BASE_UNLIKELY(is_full(tracker, half_open)) && !make_room(tracker, half_open)) {
		*reason = is_full(tracker, false) ? BASE_DROP_CONN_TABLE_FULL
						  : BASE_DROP_CONN_HALF_OPEN;
		return BASE_CONN_NONE;
	}
	uint32_t conn = next_index(tracker);
	struct conntrack_entry *entry = &tracker->entries[conn];
	if (lab)
		entry->key = *opening->key; /* some tables read it */
	int error = lab ? conntrack_lab_insert(tracker, opening->mixed, conn)
			: conntrack_table_insert(&tracker->table, opening->mixed, conn);
	if (error != 0) {
		if (lab)
			bury(entry);
		*reason = BASE_DROP_CONN_TABLE_FULL;
		return BASE_CONN_NONE;
	}
	take_index(tracker);
	fill(tracker, conn, opening);
	if (!lab) {
		if (tracker->stats.live == 0)
			conntrack_expiry_start(&tracker->expiry, tracker->horizon_ns);
		conntrack_expiry_arm(&tracker->expiry, conn, conntrack_due_ns(tracker, entry));
	}
	queue_append(
		tracker, conntrack_queue_of(entry->state, conntrack_entry_is_assured(entry)), conn);
	count_state(tracker, entry->state, 1);
	tracker->stats.inserted++;
	if (++tracker->stats.live > tracker->stats.peak_live)
		tracker->stats.peak_live = tracker->stats.live;
	if (lab)
		conntrack_lab_inserted(tracker, conn);
	return conn;
}

uint32_t conntrack_open(struct conntrack *tracker, const struct conntrack_opening *opening,
	enum base_drop_reason *reason)
{
	return BASE_LIKELY(tracker->lab == NULL) ? open_with(tracker, opening, reason, false)
						 : open_with(tracker, opening, reason, true);
}
