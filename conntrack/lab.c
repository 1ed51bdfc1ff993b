/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracker in laboratory mode: calls go through the ops tables of a table and a strategy. */
#include "conntrack/lab.h"

#include "conntrack/tracker.h"

#include <errno.h>
#include <string.h>

/* Removals that a packet itself may need; those of strategies leave them room. */
enum { RETIRED_RESERVE = CONNTRACK_RETIRED_MAX };

static struct conntrack_table_config table_config(const struct conntrack *tracker)
{
	return (struct conntrack_table_config){
		.entries_max = tracker->config.entries_max,
		.conns_max = tracker->slots_count,
		.load = tracker->config.table_load,
		.salt = tracker->config.salt,
		.keys = (const uint8_t *)&tracker->entries->key,
		.key_stride = sizeof(struct conntrack_entry),
		.hashes = tracker->hashes,
		.no_prefetch = tracker->config.no_prefetch,
		.arena = tracker->config.arena,
	};
}
static_assert(offsetof(struct conntrack_entry, key) == 0, "keys stand at the entries' starts");

int conntrack_lab_create(struct conntrack *tracker)
{
	const struct conntrack_config *config = &tracker->config;
	struct conntrack_lab *lab = base_arena_alloc(config->arena, sizeof(*lab), BASE_CACHE_LINE);
	if (lab == NULL)
		return -ENOMEM;
	memset(lab, 0, sizeof(*lab));
	tracker->lab = lab;
	base_histogram_reset(&lab->stats.late);
	lab->table_ops = config->table != NULL ? config->table : conntrack_table_at(0);
	lab->deletion_ops = config->deletion != NULL ? config->deletion : conntrack_deletion_at(0);
	struct conntrack_table_config table = table_config(tracker);
	struct conntrack_deletion_config deletion = {
		.tracker = tracker,
		.conns_max = tracker->slots_count,
		.knobs = config->knobs,
		.arena = config->arena,
	};
	int error = lab->table_ops->create(&lab->table, &table);
	if (error == 0)
		error = lab->deletion_ops->create(&lab->deletion, &deletion);
	return error;
}

void conntrack_lab_destroy(struct conntrack *tracker)
{
	struct conntrack_lab *lab = tracker->lab;
	if (lab == NULL)
		return;
	if (lab->deletion != NULL)
		lab->deletion_ops->destroy(lab->deletion);
	if (lab->table != NULL)
		lab->table_ops->destroy(lab->table);
	base_arena_free(tracker->config.arena, lab, sizeof(*lab));
}

uint64_t conntrack_lab_bytes(const struct conntrack *tracker)
{
	const struct conntrack_lab *lab = tracker->lab;
	return sizeof(*lab) + lab->table_ops->bytes(lab->table) +
	       lab->deletion_ops->bytes(lab->deletion);
}

uint32_t conntrack_lab_find(
	const struct conntrack *tracker, uint64_t mixed, const struct base_flow_key *key)
{
	uint32_t conn;
	tracker->lab->table_ops->find_burst(tracker->lab->table, &mixed, &key, 1, &conn);
	return conn;
}

int conntrack_lab_insert(struct conntrack *tracker, uint64_t mixed, uint32_t conn)
{
	return tracker->lab->table_ops->insert(tracker->lab->table, mixed, conn);
}

static void pass_time(struct conntrack_lab *lab, uint64_t now_ns)
{
	if (now_ns > lab->now_ns)
		lab->now_ns = now_ns;
}

void conntrack_lab_inserted(struct conntrack *tracker, uint32_t conn)
{
	struct conntrack_lab *lab = tracker->lab;
	const struct conntrack_entry *entry = &tracker->entries[conn];
	if (lab->deletion_ops->inserted != NULL)
		lab->deletion_ops->inserted(
			lab->deletion, conn, conntrack_due_ns(tracker, entry), lab->now_ns);
}

void conntrack_lab_unlink(struct conntrack *tracker, uint64_t mixed, uint32_t conn)
{
	struct conntrack_lab *lab = tracker->lab;
	lab->table_ops->remove(lab->table, mixed, conn);
	if (lab->deletion_ops->removed != NULL)
		lab->deletion_ops->removed(lab->deletion, conn);
}

void conntrack_lab_make_room(struct conntrack *tracker, uint64_t mixed, bool full)
{
	struct conntrack_lab *lab = tracker->lab;
	if (lab->deletion_ops->make_room != NULL)
		lab->deletion_ops->make_room(lab->deletion, mixed, lab->now_ns, full);
}

void conntrack_lab_changed(struct conntrack *tracker, uint32_t conn, bool earlier)
{
	struct conntrack_lab *lab = tracker->lab;
	if (tracker->config.no_close_hints || lab->deletion_ops->changed == NULL)
		return;
	lab->deletion_ops->changed(
		lab->deletion, conn, conntrack_due_ns(tracker, &tracker->entries[conn]), earlier);
}

/* Time that no packet to come is earlier than: what is due by it may go. */
void conntrack_lab_before(struct conntrack *tracker, const struct base_burst *burst)
{
	struct conntrack_lab *lab = tracker->lab;
	lab->in_burst = true;
	pass_time(lab, tracker->horizon_ns);
	if (lab->deletion_ops->lookup == NULL)
		return;
	for (unsigned int i = 0; i < burst->run_count; i++) {
		const struct base_packet *packet = burst->packets[burst->runs[i].first];
		if ((packet->flags & BASE_PACKET_FLOW) != 0)
			lab->deletion_ops->lookup(lab->deletion,
				conntrack_table_mix(&tracker->table, packet->hash), lab->now_ns);
	}
}

void conntrack_lab_after(struct conntrack *tracker, const struct base_burst *burst)
{
	struct conntrack_lab *lab = tracker->lab;
	const unsigned int passive = BASE_CONN_RELATED | BASE_CONN_INVALID | BASE_CONN_NEW;
	for (unsigned int i = 0; lab->deletion_ops->touched != NULL && i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		if (packet->conn == BASE_CONN_NONE || (packet->conn_flags & passive) != 0)
			continue;
		/* It may have been removed since, by a later packet of the burst. */
		if (tracker->entries[packet->conn].state != CONNTRACK_STATE_NONE)
			lab->deletion_ops->touched(lab->deletion, packet->conn, packet->time_ns);
	}
	lab->in_burst = false;
}

unsigned int conntrack_lab_advance(
	struct conntrack *tracker, uint64_t horizon_ns, unsigned int budget)
{
	struct conntrack_lab *lab = tracker->lab;
	const struct conntrack_stats *stats = &tracker->stats;
	uint64_t before = stats->expired + stats->closed + stats->evicted;
	pass_time(lab, horizon_ns);
	if (lab->deletion_ops->advance != NULL) {
		unsigned int looked =
			lab->deletion_ops->advance(lab->deletion, lab->now_ns, budget);
		lab->stats.looked_at += looked;
		if (looked > lab->stats.longest_advance)
			lab->stats.longest_advance = looked;
	}
	return (unsigned int)(stats->expired + stats->closed + stats->evicted - before);
}

/* The end of the input, not of a strategy's patience: what is due goes, whoever would find it. */
void conntrack_lab_finish(struct conntrack *tracker, uint64_t end_ns)
{
	pass_time(tracker->lab, end_ns);
	for (uint32_t conn = 0; conn < tracker->slots_count; conn++) {
		const struct conntrack_entry *entry = &tracker->entries[conn];
		if (entry->state == CONNTRACK_STATE_NONE)
			continue;
		uint64_t due_ns = conntrack_due_ns(tracker, entry);
		if (due_ns <= end_ns && due_ns != CONNTRACK_EXPIRY_NEVER)
			conntrack_remove(tracker, conn, conntrack_idle_counter(tracker, conn));
	}
}

const char *conntrack_lab_check(
	const struct conntrack *tracker, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct conntrack_lab *lab = tracker->lab;
	const char *wrong = lab->table_ops->check(lab->table, visit, context);
	if (wrong == NULL && lab->deletion_ops->check != NULL)
		wrong = lab->deletion_ops->check(lab->deletion);
	return wrong;
}

/* ---- for strategies ---- */

uint64_t conntrack_lab_due_ns(const struct conntrack *tracker, uint32_t conn)
{
	return conntrack_due_ns(tracker, &tracker->entries[conn]);
}

uint64_t conntrack_lab_last_seen_ns(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->entries[conn].last_seen_ns;
}

unsigned int conntrack_lab_state(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->entries[conn].state;
}

bool conntrack_lab_is_live(const struct conntrack *tracker, uint32_t conn)
{
	return tracker->entries[conn].state != CONNTRACK_STATE_NONE;
}

static bool may_remove(const struct conntrack *tracker)
{
	return !tracker->lab->in_burst ||
	       tracker->retired_count + RETIRED_RESERVE < tracker->retired_max;
}

static void take_out(struct conntrack *tracker, uint32_t conn, uint64_t *counter)
{
	if (tracker->lab->in_burst)
		conntrack_retire(tracker, conn, counter);
	else
		conntrack_remove(tracker, conn, counter);
}

bool conntrack_lab_expire(struct conntrack *tracker, uint32_t conn, uint64_t now_ns)
{
	uint64_t due_ns = conntrack_due_ns(tracker, &tracker->entries[conn]);
	if (due_ns > now_ns || due_ns == CONNTRACK_EXPIRY_NEVER || !may_remove(tracker))
		return false;
	base_histogram_add(&tracker->lab->stats.late, now_ns - due_ns);
	if (now_ns - due_ns > tracker->stats.expiry_late_max_ns)
		tracker->stats.expiry_late_max_ns = now_ns - due_ns;
	take_out(tracker, conn, conntrack_idle_counter(tracker, conn));
	return true;
}

bool conntrack_lab_evict(struct conntrack *tracker, uint32_t conn)
{
	if (!may_remove(tracker))
		return false;
	if (conntrack_due_ns(tracker, &tracker->entries[conn]) > tracker->lab->now_ns)
		tracker->lab->stats.evicted_live++;
	take_out(tracker, conn, &tracker->stats.evicted);
	return true;
}

unsigned int conntrack_lab_neighbours(
	const struct conntrack *tracker, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct conntrack_lab *lab = tracker->lab;
	if (lab->table_ops->neighbours == NULL)
		return 0;
	return lab->table_ops->neighbours(lab->table, mixed, conns, max);
}

void conntrack_lab_prefetch(const struct conntrack *tracker, uint32_t conn)
{
	BASE_PREFETCH_W(&tracker->entries[conn]);
}

int conntrack_lab_stats(const struct conntrack *tracker, struct conntrack_lab_stats *stats)
{
	const struct conntrack_lab *lab = tracker->lab;
	if (lab == NULL)
		return -ENOENT;
	*stats = lab->stats;
	stats->table_bytes = lab->table_ops->bytes(lab->table);
	stats->deletion_bytes = lab->deletion_ops->bytes(lab->deletion);
	return 0;
}
