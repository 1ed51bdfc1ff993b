/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tracker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

uint32_t conntrack_ended_count(const struct conntrack *tracker)
{
	return tracker->retired_count;
}

uint32_t conntrack_ended(const struct conntrack *tracker, uint32_t index)
{
	BASE_ASSERT(index < tracker->retired_count);
	return tracker->retired[index].conn;
}

uint32_t conntrack_generation(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->entries[conn].generation;
}

int conntrack_find(const struct conntrack *tracker, const struct base_flow_key *key, uint32_t hash,
	uint32_t *conn)
{
	uint64_t mixed = conntrack_table_mix(&tracker->table, hash);
	uint32_t found = tracker->lab != NULL ? conntrack_lab_find(tracker, mixed, key)
					      : conntrack_table_find(&tracker->table, mixed, key,
							tracker->entries);
	if (found == BASE_CONN_NONE)
		return -ENOENT;
	*conn = found;
	return 0;
}

/* Straight to where it is wanted: a copy would read words in other sizes than they were written. */
static void read_conn(const struct conntrack *tracker, const struct conntrack_entry *entry,
	struct conntrack_conn *out)
{
	out->key = entry->key;
	out->state = entry->state;
	out->origin_reversed = (entry->flags & CONNTRACK_ENTRY_ORIGIN_REVERSED) != 0;
	out->assured = conntrack_entry_is_assured(entry);
	out->generation = entry->generation;
	out->last_seen_ns = entry->last_seen_ns;
	out->due_ns = conntrack_due_ns(tracker, entry);
	out->packets = entry->packets;
}

int conntrack_conn_get(const struct conntrack *tracker, uint32_t conn, struct conntrack_conn *out)
{
	if (conn >= tracker->slots_count || tracker->entries[conn].state == CONNTRACK_STATE_NONE)
		return -ENOENT;
	read_conn(tracker, &tracker->entries[conn], out);
	return 0;
}

uint32_t conntrack_purge_step(struct conntrack *tracker, uint32_t from, uint32_t budget,
	bool (*match)(void *context, const struct conntrack_conn *conn, void *user), void *context)
{
	conntrack_release_retired(tracker);
	for (; from < tracker->slots_count && budget > 0; from++, budget--) {
		const struct conntrack_entry *entry = &tracker->entries[from];
		if (entry->state == CONNTRACK_STATE_NONE)
			continue;
		struct conntrack_conn conn;
		read_conn(tracker, entry, &conn);
		if (match == NULL || match(context, &conn, conntrack_user(tracker, from)))
			conntrack_remove(tracker, from, &tracker->stats.purged);
	}
	return from < tracker->slots_count ? from : 0;
}

uint64_t conntrack_purge(struct conntrack *tracker,
	bool (*match)(void *context, const struct conntrack_conn *conn, void *user), void *context)
{
	uint64_t purged = tracker->stats.purged;
	conntrack_purge_step(tracker, 0, UINT32_MAX, match, context);
	return tracker->stats.purged - purged;
}

void conntrack_stats(const struct conntrack *tracker, struct conntrack_stats *stats)
{
	uint64_t count = tracker->slots_count;
	*stats = tracker->stats;
	uint64_t structures;
	if (tracker->lab != NULL)
		structures = conntrack_lab_bytes(tracker);
	else
		structures = conntrack_table_bytes(&tracker->table) +
			     conntrack_expiry_bytes(&tracker->expiry);
	stats->timers_moved_earlier = tracker->expiry.moved_earlier;
	stats->memory_bytes = sizeof(*tracker) + structures +
			      count * (sizeof(*tracker->entries) + sizeof(*tracker->hashes) +
					      tracker->user_stride);
	if (tracker->links != NULL)
		stats->memory_bytes += count * sizeof(*tracker->links);
	if (tracker->windows != NULL)
		stats->memory_bytes += count * sizeof(*tracker->windows);
	stats->memory_bytes += tracker->retired_max * sizeof(*tracker->retired);
	stats->bytes_per_entry = (double)stats->memory_bytes / (double)tracker->config.entries_max;
}

bool conntrack_is_crowded(const struct conntrack *tracker)
{
	return tracker->stats.live >= (tracker->config.entries_max + 1) / 2 ||
	       tracker->stats.half_open >= (tracker->half_open_max + 1) / 2;
}

/* What check has found out about each index so far. */
enum {
	SEEN_FREE = 1 << 0,
	SEEN_TABLE = 1 << 1,
	SEEN_QUEUE = 1 << 2,
};

struct check {
	const struct conntrack *tracker;
	uint8_t *seen;
	uint64_t found; /* pairs in the table */
	char *message;
	size_t message_size;
	int error;
};

static BASE_PRINTF(2, 3) void complain(struct check *check, const char *format, ...)
{
	if (check->error != 0)
		return;
	check->error = -EUCLEAN;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(check->message, check->message_size, format, arguments);
	va_end(arguments);
}

static void visit_pair(void *context, uint32_t bucket, uint16_t tag, uint32_t conn)
{
	struct check *check = context;
	const struct conntrack *tracker = check->tracker;
	check->found++;
	if (conn >= tracker->slots_count) {
		complain(check, "bucket %u holds index %u, beyond the table", bucket, conn);
		return;
	}
	if ((check->seen[conn] & (SEEN_TABLE | SEEN_FREE)) != 0)
		complain(check, "index %u is in the table twice, or free as well", conn);
	check->seen[conn] |= SEEN_TABLE;
	uint64_t mixed = conntrack_table_mix(&tracker->table, tracker->hashes[conn]);
	if (conntrack_table_bucket_at(&tracker->table, mixed) != bucket ||
		conntrack_table_tag(mixed) != tag)
		complain(check, "index %u is in bucket %u, not its own", conn, bucket);
	else if (conntrack_table_find(&tracker->table, mixed, &tracker->entries[conn].key,
			 tracker->entries) != conn)
		complain(check, "the key of index %u does not lead to it", conn);
}

static void check_free(struct check *check)
{
	const struct conntrack *tracker = check->tracker;
	uint64_t count = tracker->fresh;
	uint32_t conn = tracker->free_newest;
	if (count > tracker->slots_count ||
		tracker->stats.live + tracker->free_count + tracker->retired_count != count)
		complain(check, "live, free and retired entries are not all entries");
	for (uint32_t i = 0; check->error == 0 && i < tracker->free_count; i++) {
		if (conn >= count || check->seen[conn] != 0)
			complain(check, "free index %u is twice free, or out of range", conn);
		else if (tracker->entries[conn].state != CONNTRACK_STATE_NONE)
			complain(check, "free index %u has a state", conn);
		else if (tracker->lab == NULL && conntrack_expiry_is_armed(&tracker->expiry, conn))
			complain(check, "free index %u has a timer", conn);
		else
			check->seen[conn] = SEEN_FREE;
		if (check->error == 0)
			conn = (uint32_t)tracker->entries[conn].last_seen_ns;
	}
	if (check->error == 0 && conn != BASE_CONN_NONE)
		complain(check, "the list of free entries goes on behind its last");
}

static void visit_lab(void *context, uint32_t conn)
{
	struct check *check = context;
	const struct conntrack *tracker = check->tracker;
	check->found++;
	if (conn >= tracker->slots_count) {
		complain(check, "the table holds index %u, beyond its entries", conn);
		return;
	}
	if ((check->seen[conn] & (SEEN_TABLE | SEEN_FREE)) != 0)
		complain(check, "index %u is in the table twice, or free as well", conn);
	check->seen[conn] |= SEEN_TABLE;
	/* What is over need not be found any more (conntrack/tables/trlp.c). */
	if (conntrack_due_ns(tracker, &tracker->entries[conn]) <= tracker->lab->now_ns)
		return;
	uint64_t mixed = conntrack_table_mix(&tracker->table, tracker->hashes[conn]);
	if (conntrack_lab_find(tracker, mixed, &tracker->entries[conn].key) != conn)
		complain(check, "the key of index %u does not lead to it", conn);
}

static void check_lab(struct check *check)
{
	const char *wrong = conntrack_lab_check(check->tracker, visit_lab, check);
	if (wrong != NULL)
		complain(check, "%s", wrong);
	if (check->found != check->tracker->stats.live)
		complain(check, "the table holds %llu entries, live are %llu",
			(unsigned long long)check->found,
			(unsigned long long)check->tracker->stats.live);
}

static void check_table(struct check *check)
{
	const struct conntrack *tracker = check->tracker;
	if (tracker->lab != NULL) {
		check_lab(check);
		return;
	}
	for (uint32_t i = 0; check->error == 0 && i < tracker->table.buckets_count; i++) {
		const char *wrong =
			conntrack_table_check_bucket(&tracker->table, i, visit_pair, check);
		if (wrong != NULL)
			complain(check, "bucket %u: %s", i, wrong);
	}
	if (check->found != tracker->stats.live)
		complain(check, "the table holds %llu entries, live are %llu",
			(unsigned long long)check->found, (unsigned long long)tracker->stats.live);
}

static void check_queues(struct check *check)
{
	const struct conntrack *tracker = check->tracker;
	for (unsigned int kind = 0; kind < CONNTRACK_QUEUES_COUNT; kind++) {
		uint32_t older = BASE_CONN_NONE;
		uint32_t conn = tracker->queues[kind].oldest;
		while (check->error == 0 && conn != BASE_CONN_NONE) {
			const struct conntrack_entry *entry = &tracker->entries[conn];
			if (check->seen[conn] != SEEN_TABLE)
				complain(check, "index %u is queued twice, or not live", conn);
			else if (tracker->links[conn].older != older)
				complain(check, "the queue's links of index %u disagree", conn);
			else if (conntrack_queue_of(
					 entry->state, conntrack_entry_is_assured(entry)) != kind)
				complain(check, "index %u is in the wrong queue", conn);
			check->seen[conn] |= SEEN_QUEUE;
			older = conn;
			conn = tracker->links[conn].newer;
		}
		if (tracker->queues[kind].newest != older)
			complain(check, "a queue's end is not its newest");
	}
}

static const char *timer_wrong(const struct conntrack *tracker, uint32_t conn)
{
	const struct conntrack_expiry *expiry = &tracker->expiry;
	uint64_t due_ns = conntrack_due_ns(tracker, &tracker->entries[conn]);
	uint64_t tick = conntrack_expiry_due_tick(expiry, due_ns);
	bool armed = conntrack_expiry_is_armed(expiry, conn);
	if (tick <= expiry->current)
		tick = expiry->current + 1;
	if (due_ns == CONNTRACK_EXPIRY_NEVER)
		return NULL;
	if (!armed)
		return "it has no timer";
	if (conntrack_expiry_fire_tick(expiry, conn) > tick)
		return "its timer fires too late";
	return NULL;
}

static void check_live(struct check *check)
{
	const struct conntrack *tracker = check->tracker;
	uint64_t state_live[CONNTRACK_STATES_COUNT] = { 0 };
	uint64_t half_open = 0;
	for (uint32_t i = 0; check->error == 0 && i < tracker->slots_count; i++) {
		const struct conntrack_entry *entry = &tracker->entries[i];
		if ((check->seen[i] & SEEN_TABLE) == 0)
			continue;
		const char *timer = tracker->lab == NULL ? timer_wrong(tracker, i) : NULL;
		bool assured = conntrack_entry_is_assured(entry);
		bool queued = (check->seen[i] & SEEN_QUEUE) != 0;
		if (entry->state == CONNTRACK_STATE_NONE || entry->state >= CONNTRACK_STATES_COUNT)
			complain(check, "live index %u has no state", i);
		else if (timer != NULL)
			complain(check, "live index %u: %s", i, timer);
		else if (tracker->links != NULL &&
			 queued != conntrack_state_is_transient(entry->state, assured))
			complain(check, "index %u is transient and not queued, or not so", i);
		else
			state_live[entry->state]++;
		half_open += conntrack_state_in(entry->state, CONNTRACK_STATES_HALF_OPEN);
	}
	for (unsigned int i = 0; i < CONNTRACK_STATES_COUNT; i++)
		if (state_live[i] != tracker->stats.state_live[i])
			complain(check, "count of state %s is wrong", conntrack_state_name(i));
	if (half_open != tracker->stats.half_open)
		complain(check, "count of half-open connections is wrong");
}

int conntrack_check(const struct conntrack *tracker, char *message, size_t message_size)
{
	const struct conntrack_stats *stats = &tracker->stats;
	struct check check = {
		.tracker = tracker,
		.seen = calloc(tracker->slots_count, 1),
		.message = message,
		.message_size = message_size,
	};
	if (check.seen == NULL)
		return -ENOMEM;
	check_free(&check);
	if (check.error == 0)
		check_table(&check);
	if (check.error == 0 && tracker->links != NULL)
		check_queues(&check);
	if (check.error == 0)
		check_live(&check);
	const char *wrong = tracker->lab == NULL ? conntrack_expiry_check(&tracker->expiry) : NULL;
	if (wrong != NULL)
		complain(&check, "%s", wrong);
	if (stats->inserted !=
		stats->live + stats->expired + stats->closed + stats->evicted + stats->purged)
		complain(&check, "inserted is not live + expired + closed + evicted + purged");
	free(check.seen);
	return check.error;
}
