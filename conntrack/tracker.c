/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tracker.h"

#include <errno.h>
#include <string.h>

enum {
	ENTRIES_LIMIT = 1 << 28,
	USER_BYTES_LIMIT = 1 << 16,
	TICK_NS_MIN = 1000, /* ticks of 64-bit nanoseconds then fit the wheel's arithmetic */
};

static_assert(1 << CONNTRACK_ENTRY_KEEP_SHIFT == (int)CONNTRACK_STATES_PADDED, "index timeouts");
static_assert((int)CONNTRACK_STATES_COUNT <= (int)CONNTRACK_STATES_PADDED, "states index timeouts");

static int config_check(const struct conntrack_config *config)
{
	if (config->arena == NULL || config->entries_max < 1 ||
		config->entries_max > ENTRIES_LIMIT || config->tick_ns < TICK_NS_MIN ||
		config->user_bytes > USER_BYTES_LIMIT)
		return -EINVAL;
	if ((unsigned int)config->full_policy > CONNTRACK_FULL_EVICT_TRANSIENT ||
		(unsigned int)config->tcp_windows > CONNTRACK_TCP_WINDOWS_STRICT)
		return -EINVAL;
	return 0;
}

/* One connection's memory never straddles more lines than it must. */
static uint32_t user_stride(uint32_t user_bytes)
{
	uint32_t stride = 16;
	if (user_bytes == 0)
		return 0;
	while (stride < user_bytes && stride < BASE_CACHE_LINE)
		stride *= 2;
	if (stride < user_bytes)
		stride = (user_bytes + BASE_CACHE_LINE - 1) & ~(BASE_CACHE_LINE - 1);
	return stride;
}

static int allocate(struct conntrack *tracker)
{
	const struct conntrack_config *config = &tracker->config;
	size_t count = tracker->slots_count;
	bool lab = config->table != NULL || config->deletion != NULL;
	int error = 0;
	if (!lab)
		error = conntrack_table_init(&tracker->table, config->entries_max,
			CONNTRACK_TABLE_LOAD, config->salt, config->arena);
	if (error == 0 && !lab)
		error = conntrack_expiry_init(
			&tracker->expiry, tracker->slots_count, config->tick_ns, config->arena);
	if (error != 0)
		return error;
	tracker->table.salt = config->salt;

	tracker->entries =
		base_arena_alloc(config->arena, count * sizeof(*tracker->entries), BASE_CACHE_LINE);
	tracker->hashes =
		base_arena_alloc(config->arena, count * sizeof(*tracker->hashes), BASE_CACHE_LINE);
	tracker->retired = base_arena_alloc(
		config->arena, tracker->retired_max * sizeof(*tracker->retired), BASE_CACHE_LINE);
	if (tracker->entries == NULL || tracker->hashes == NULL || tracker->retired == NULL)
		return -ENOMEM;
	if (config->tcp_windows != CONNTRACK_TCP_WINDOWS_OFF) {
		tracker->windows = base_arena_alloc(
			config->arena, count * sizeof(*tracker->windows), BASE_CACHE_LINE);
		if (tracker->windows == NULL)
			return -ENOMEM;
	}
	if (tracker->user_stride != 0) {
		tracker->user = base_arena_alloc(
			config->arena, count * tracker->user_stride, BASE_CACHE_LINE);
		if (tracker->user == NULL)
			return -ENOMEM;
	}
	if (config->full_policy == CONNTRACK_FULL_EVICT_TRANSIENT) {
		tracker->links = base_arena_alloc(
			config->arena, count * sizeof(*tracker->links), BASE_CACHE_LINE);
		if (tracker->links == NULL)
			return -ENOMEM;
	}
	return lab ? conntrack_lab_create(tracker) : 0;
}

static void set_timeouts(struct conntrack *tracker)
{
	for (unsigned int state = 0; state < CONNTRACK_STATES_COUNT; state++)
		for (unsigned int keep = 0; keep < CONNTRACK_KEEPS_COUNT; keep++)
			tracker->idle_max_ns[keep << CONNTRACK_ENTRY_KEEP_SHIFT | state] =
				conntrack_state_timeout_ns(
					&tracker->config, state, (enum conntrack_keep)keep) -
				1;
	bool stale_hits = tracker->config.deletion != NULL && tracker->config.deletion->stale_hits;
	memcpy(tracker->lookup_idle_max_ns, tracker->idle_max_ns, sizeof(tracker->idle_max_ns));
	if (stale_hits)
		memset(tracker->lookup_idle_max_ns, 0xff, sizeof(tracker->lookup_idle_max_ns));
}

int conntrack_set_timeouts(struct conntrack *tracker,
	const uint64_t timeout_ns[CONNTRACK_STATES_COUNT], uint64_t tcp_unacknowledged_ns)
{
	if (tracker->lab != NULL)
		return -ENOTSUP;
	conntrack_release_retired(tracker);
	memcpy(tracker->config.timeout_ns, timeout_ns, sizeof(tracker->config.timeout_ns));
	tracker->config.tcp_unacknowledged_ns = tcp_unacknowledged_ns;
	set_timeouts(tracker);
	for (uint32_t conn = 0; conn < tracker->slots_count; conn++) {
		const struct conntrack_entry *entry = &tracker->entries[conn];
		if (entry->state == CONNTRACK_STATE_NONE)
			continue;
		uint64_t due_ns = conntrack_due_ns(tracker, entry);
		if (due_ns != CONNTRACK_EXPIRY_NEVER)
			conntrack_expiry_shorten(&tracker->expiry, conn, due_ns);
	}
	return 0;
}

int conntrack_create(struct conntrack **out, const struct conntrack_config *config)
{
	int error = config_check(config);
	if (error != 0)
		return error;
	struct conntrack *tracker =
		base_arena_alloc(config->arena, sizeof(*tracker), BASE_CACHE_LINE);
	if (tracker == NULL)
		return -ENOMEM;

	tracker->config = *config;
	tracker->free_newest = BASE_CONN_NONE;
	tracker->user_stride = user_stride(config->user_bytes);
	tracker->retired_max = CONNTRACK_RETIRED_MAX;
	if (config->deletion != NULL) /* a strategy may remove others along the way */
		tracker->retired_max *= 2;
	tracker->slots_count = config->entries_max + tracker->retired_max;
	tracker->half_open_max = config->half_open_max;
	if (tracker->half_open_max == 0)
		tracker->half_open_max = config->entries_max / 2 + (config->entries_max == 1);
	for (unsigned int i = 0; i < CONNTRACK_QUEUES_COUNT; i++)
		tracker->queues[i] = (struct conntrack_queue){
			.oldest = BASE_CONN_NONE,
			.newest = BASE_CONN_NONE,
		};
	set_timeouts(tracker);
	error = allocate(tracker);
	if (error != 0) {
		conntrack_destroy(tracker);
		return error;
	}
	*out = tracker;
	return 0;
}

void conntrack_destroy(struct conntrack *tracker)
{
	if (tracker == NULL)
		return;
	struct base_arena *arena = tracker->config.arena;
	size_t count = tracker->slots_count;
	if (tracker->table.arena != NULL)
		conntrack_table_release(&tracker->table);
	if (tracker->expiry.arena != NULL)
		conntrack_expiry_release(&tracker->expiry);
	conntrack_lab_destroy(tracker);
	base_arena_free(arena, tracker->retired, tracker->retired_max * sizeof(*tracker->retired));
	base_arena_free(arena, tracker->links, count * sizeof(*tracker->links));
	base_arena_free(arena, tracker->user, count * tracker->user_stride);
	base_arena_free(arena, tracker->windows, count * sizeof(*tracker->windows));
	base_arena_free(arena, tracker->hashes, count * sizeof(*tracker->hashes));
	base_arena_free(arena, tracker->entries, count * sizeof(*tracker->entries));
	base_arena_free(arena, tracker, sizeof(*tracker));
}

/* Entries fire in no order of memory, so everything is asked for before anything is read. */
static void settle_prefetch(
	const struct conntrack *tracker, const uint32_t *conns, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		BASE_PREFETCH_W(&tracker->entries[conns[i]]);
		BASE_PREFETCH(&tracker->hashes[conns[i]]);
		BASE_PREFETCH_W(&tracker->expiry.position[conns[i]]);
	}
}

unsigned int conntrack_settle(struct conntrack *tracker, uint64_t horizon_ns, uint64_t end_ns,
	unsigned int max, unsigned int *removed)
{
	uint32_t conns[CONNTRACK_SETTLE_MAX];
	uint64_t due_ns[CONNTRACK_SETTLE_MAX];
	struct conntrack_stats *stats = &tracker->stats;
	if (max > CONNTRACK_SETTLE_MAX)
		max = CONNTRACK_SETTLE_MAX;
	unsigned int count = conntrack_expiry_fire(&tracker->expiry, horizon_ns, conns, max);
	if (BASE_LIKELY(count == 0))
		return 0;

	stats->timers_fired += count;
	settle_prefetch(tracker, conns, count);
	for (unsigned int i = 0; i < count; i++) {
		due_ns[i] = conntrack_due_ns(tracker, &tracker->entries[conns[i]]);
		if (due_ns[i] <= end_ns && due_ns[i] != CONNTRACK_EXPIRY_NEVER)
			BASE_PREFETCH_W(conntrack_table_bucket(&tracker->table,
				conntrack_table_mix(&tracker->table, tracker->hashes[conns[i]])));
	}
	for (unsigned int i = 0; i < count; i++) {
		if (due_ns[i] > end_ns || due_ns[i] == CONNTRACK_EXPIRY_NEVER) {
			conntrack_expiry_arm(&tracker->expiry, conns[i], due_ns[i]);
			stats->timers_rearmed++;
			continue;
		}
		if (end_ns - due_ns[i] > stats->expiry_late_max_ns)
			stats->expiry_late_max_ns = end_ns - due_ns[i];
		conntrack_remove(tracker, conns[i], conntrack_idle_counter(tracker, conns[i]));
		(*removed)++;
	}
	return count;
}

void conntrack_reclaim(struct conntrack *tracker)
{
	struct conntrack_stats *stats = &tracker->stats;
	uint64_t horizon_ns = tracker->horizon_ns;
	uint32_t conn;
	for (unsigned int looks = 0; looks < CONNTRACK_RECLAIM_LOOKS; looks++) {
		if (conntrack_expiry_fire(&tracker->expiry, horizon_ns, &conn, 1) == 0)
			return;
		uint64_t due_ns = conntrack_due_ns(tracker, &tracker->entries[conn]);
		stats->timers_fired++;
		if (due_ns <= horizon_ns && due_ns != CONNTRACK_EXPIRY_NEVER) {
			if (horizon_ns - due_ns > stats->expiry_late_max_ns)
				stats->expiry_late_max_ns = horizon_ns - due_ns;
			conntrack_retire(tracker, conn, conntrack_idle_counter(tracker, conn));
			return;
		}
		conntrack_expiry_arm(&tracker->expiry, conn, due_ns);
		stats->timers_rearmed++;
	}
}

unsigned int conntrack_advance(struct conntrack *tracker, uint64_t horizon_ns, unsigned int budget)
{
	unsigned int removed = 0;
	conntrack_release_retired(tracker);
	if (horizon_ns > tracker->horizon_ns)
		tracker->horizon_ns = horizon_ns;
	if (BASE_UNLIKELY(tracker->lab != NULL))
		return conntrack_lab_advance(tracker, tracker->horizon_ns, budget);
	while (budget > 0) {
		unsigned int looked =
			conntrack_settle(tracker, horizon_ns, horizon_ns, budget, &removed);
		if (looked == 0)
			break;
		budget -= looked;
	}
	return removed;
}

void conntrack_finish(struct conntrack *tracker, uint64_t end_ns)
{
	conntrack_release_retired(tracker);
	if (tracker->lab != NULL) {
		conntrack_lab_finish(tracker, end_ns);
		return;
	}
	/* The end may lie between two ticks: look at the next one too, take only what is due. */
	uint64_t horizon_ns = conntrack_expiry_end_ns(&tracker->expiry, end_ns);
	unsigned int removed = 0;
	while (conntrack_settle(tracker, horizon_ns, end_ns, CONNTRACK_SETTLE_MAX, &removed) > 0)
		;
}

void *conntrack_user(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->user_stride != 0 ? conntrack_user_at(tracker, conn) : NULL;
}
