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

static struct conntrack_deletion_knobs knobs_of(
	const struct conntrack_config *config, const struct conntrack_deletion_ops *ops)
{
	struct conntrack_deletion_knobs knobs = config->knobs;
	if (knobs.interval_ns == 0)
		knobs.interval_ns = ops->defaults.interval_ns;
	if (knobs.budget == 0)
		knobs.budget = ops->defaults.budget;
	if (knobs.slots == 0)
		knobs.slots = ops->defaults.slots;
	return knobs;
}

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
	int error = lab->table_ops->create(&lab->table, &table);
	struct conntrack_deletion_config deletion = {
		.tracker = tracker,
		.config = config,
		.table_ops = lab->table_ops,
		.table = lab->table,
		.conns_max = tracker->slots_count,
		.knobs = knobs_of(config, lab->deletion_ops),
		.arena = config->arena,
	};
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

static bool may_remove(const struct conntrack *tracker, unsigned int count)
{
	return !tracker->lab->in_burst ||
	       tracker->retired_count + RETIRED_RESERVE + count <= tracker->retired_max;
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

void conntrack_lab_make_room(struct conntrack *tracker, uint64_t mixed, enum conntrack_lack lack)
{
	struct conntrack_lab *lab = tracker->lab;
	/* What a strategy takes out of its lists must go: else it would lose sight of it. */
	if (lab->deletion_ops->make_room != NULL && may_remove(tracker, CONNTRACK_LAB_BURST))
		lab->deletion_ops->make_room(lab->deletion, mixed, lab->now_ns, lack);
}

void conntrack_lab_changed(struct conntrack *tracker, uint32_t conn, bool earlier)
{
	struct conntrack_lab *lab = tracker->lab;
	if (tracker->config.no_close_hints || lab->deletion_ops->changed == NULL)
		return;
	lab->deletion_ops->changed(lab->deletion, conn,
		conntrack_due_ns(tracker, &tracker->entries[conn]), lab->now_ns, earlier);
}

/* Time that no packet to come is earlier than: what is due by it may go. */
void conntrack_lab_before(struct conntrack *tracker, const struct base_burst *burst)
{
	struct conntrack_lab *lab = tracker->lab;
	uint64_t mixed[BASE_BURST_MAX];
	unsigned int count = 0;
	pass_time(lab, tracker->horizon_ns);
	for (unsigned int i = 0; lab->deletion_ops->lookup != NULL && i < burst->run_count; i++) {
		const struct base_packet *packet = burst->packets[burst->runs[i].first];
		if ((packet->flags & BASE_PACKET_FLOW) != 0)
			mixed[count++] = conntrack_table_mix(&tracker->table, packet->hash);
	}
	if (count != 0)
		lab->deletion_ops->lookup(lab->deletion, mixed, count, lab->now_ns);
	lab->in_burst = true;
}

void conntrack_lab_after(struct conntrack *tracker, const struct base_burst *burst)
{
	struct conntrack_lab *lab = tracker->lab;
	const unsigned int passive = BASE_CONN_RELATED | BASE_CONN_INVALID | BASE_CONN_NEW;
	uint32_t conns[BASE_BURST_MAX], last = BASE_CONN_NONE;
	unsigned int count = 0;
	for (unsigned int i = 0; lab->deletion_ops->touched != NULL && i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		if (packet->conn == last || packet->conn == BASE_CONN_NONE ||
			(packet->conn_flags & passive) != 0)
			continue;
		/* It may have been removed since, by a later packet of the burst. */
		if (tracker->entries[packet->conn].state != CONNTRACK_STATE_NONE)
			conns[count++] = last = packet->conn;
	}
	if (count != 0)
		lab->deletion_ops->touched(lab->deletion, conns, count, lab->now_ns);
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

uint64_t conntrack_slack_ns(const struct conntrack *tracker)
{
	const struct conntrack_lab *lab = tracker->lab;
	if (lab == NULL)
		return conntrack_expiry_slack_ns(&tracker->expiry, tracker->horizon_ns);
	return lab->deletion_ops->slack_ns != NULL
		       ? lab->deletion_ops->slack_ns(lab->deletion, lab->now_ns)
		       : UINT64_MAX;
}

/* ---- for strategies ---- */

uint64_t conntrack_lab_due_ns(const struct conntrack *tracker, uint32_t conn)
{
	return conntrack_due_ns(tracker, &tracker->entries[conn]);
}

unsigned int conntrack_lab_class(const struct conntrack *tracker, uint32_t conn)
{
	const struct conntrack_entry *entry = &tracker->entries[conn];
	return (entry->flags & (unsigned int)CONNTRACK_ENTRY_KEEP) | entry->state;
}
static_assert(
	(int)CONNTRACK_LAB_CLASSES == (int)CONNTRACK_TIMEOUTS_COUNT, "states and what bounds them");

uint64_t conntrack_lab_class_timeout_ns(const struct conntrack_config *config, unsigned int class)
{
	unsigned int state = class & (CONNTRACK_STATES_PADDED - 1);
	if (state >= CONNTRACK_STATES_COUNT)
		return 0;
	return conntrack_state_timeout_ns(
		config, state, (enum conntrack_keep)(class >> CONNTRACK_ENTRY_KEEP_SHIFT));
}

static void take_out(struct conntrack *tracker, uint32_t conn, uint64_t *counter)
{
	if (tracker->lab->in_burst)
		conntrack_retire(tracker, conn, counter);
	else
		conntrack_remove(tracker, conn, counter);
}

/* due_ns <= now_ns. */
static void expire(struct conntrack *tracker, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	base_histogram_add(&tracker->lab->stats.late, now_ns - due_ns);
	if (now_ns - due_ns > tracker->stats.expiry_late_max_ns)
		tracker->stats.expiry_late_max_ns = now_ns - due_ns;
	take_out(tracker, conn, conntrack_idle_counter(tracker, conn));
}

static bool is_due(uint64_t due_ns, uint64_t now_ns)
{
	return due_ns <= now_ns && due_ns != CONNTRACK_EXPIRY_NEVER;
}

bool conntrack_lab_expire(struct conntrack *tracker, uint32_t conn, uint64_t now_ns)
{
	uint64_t due_ns = conntrack_due_ns(tracker, &tracker->entries[conn]);
	if (!is_due(due_ns, now_ns) || !may_remove(tracker, 1))
		return false;
	expire(tracker, conn, due_ns, now_ns);
	return true;
}

unsigned int conntrack_lab_expire_burst(
	struct conntrack *tracker, uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	const struct conntrack_lab *lab = tracker->lab;
	uint64_t due_ns[CONNTRACK_LAB_BURST];
	unsigned int kept = 0;
	for (unsigned int i = 0; i < count; i++) {
		BASE_PREFETCH_W(&tracker->entries[conns[i]]);
		BASE_PREFETCH(&tracker->hashes[conns[i]]);
	}
	for (unsigned int i = 0; i < count; i++) {
		due_ns[i] = conntrack_due_ns(tracker, &tracker->entries[conns[i]]);
		if (is_due(due_ns[i], now_ns) && lab->table_ops->prefetch != NULL)
			lab->table_ops->prefetch(lab->table,
				conntrack_table_mix(&tracker->table, tracker->hashes[conns[i]]));
	}
	for (unsigned int i = 0; i < count; i++) {
		if (is_due(due_ns[i], now_ns) && may_remove(tracker, 1))
			expire(tracker, conns[i], due_ns[i], now_ns);
		else
			conns[kept++] = conns[i];
	}
	return kept;
}

void conntrack_lab_sweep(struct conntrack *tracker, uint32_t first, uint32_t count, uint64_t now_ns,
	void (*stays)(void *context, uint64_t due_ns), void *context)
{
	uint32_t due[CONNTRACK_LAB_BURST];
	unsigned int due_count = 0;
	for (uint32_t conn = first; conn < first + count; conn++) {
		const struct conntrack_entry *entry = &tracker->entries[conn];
		if (entry->state == CONNTRACK_STATE_NONE)
			continue;
		uint64_t due_ns = conntrack_due_ns(tracker, entry);
		if (is_due(due_ns, now_ns))
			due[due_count++] = conn;
		else if (stays != NULL)
			stays(context, due_ns);
		if (due_count == CONNTRACK_LAB_BURST) {
			conntrack_lab_expire_burst(tracker, due, due_count, now_ns);
			due_count = 0;
		}
	}
	conntrack_lab_expire_burst(tracker, due, due_count, now_ns);
}

bool conntrack_lab_evict(struct conntrack *tracker, uint32_t conn, uint64_t now_ns)
{
	if (conntrack_lab_expire(tracker, conn, now_ns))
		return true;
	if (!may_remove(tracker, 1))
		return false;
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

void conntrack_lab_stats_reset(struct conntrack *tracker)
{
	struct conntrack_lab *lab = tracker->lab;
	if (lab == NULL)
		return;
	memset(&lab->stats, 0, sizeof(lab->stats));
	base_histogram_reset(&lab->stats.late);
}
