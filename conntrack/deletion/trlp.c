/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time-reversed linear probing as a deletion strategy: one with its table
 * (conntrack/tables/trlp.c), in which what is due makes place by itself. Packets tell the table
 * their connection's new due time, which may move it towards its home; an insertion takes the first
 * cell that is due or empty. What was in it is removed then, so there is no maintenance and no
 * bound on lateness. Close hints make no difference: a packet that closes a connection tells its
 * new due time as any other.
 *
 * When entries_max are in, an insertion looks `budget` cells beyond its place for what is due.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/tables/trlp.h"

#include <errno.h>

enum { LOOKS_DEFAULT = 64, REACH_ALL = 1 << 16 };

struct trlp {
	struct conntrack *tracker;
	void *table;
	struct base_arena *arena;
	uint32_t looks;
};

static int trlp_create(void **out, const struct conntrack_deletion_config *config)
{
	if (config->table_ops != &conntrack_table_trlp_ops)
		return -ENOTSUP;
	struct trlp *trlp = base_arena_alloc(config->arena, sizeof(*trlp), BASE_CACHE_LINE);
	if (trlp == NULL)
		return -ENOMEM;
	*trlp = (struct trlp){
		.tracker = config->tracker,
		.table = config->table,
		.arena = config->arena,
		.looks = config->knobs.budget,
	};
	*out = trlp;
	return 0;
}

static void trlp_destroy(void *deletion)
{
	struct trlp *trlp = deletion;
	base_arena_free(trlp->arena, trlp, sizeof(*trlp));
}

static uint64_t trlp_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct trlp);
}

static void trlp_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct trlp *trlp = deletion;
	(void)now_ns;
	conntrack_trlp_set_due(trlp->table, conn, due_ns);
}

static void trlp_touched(void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct trlp *trlp = deletion;
	(void)now_ns;
	for (unsigned int i = 0; i < count; i++)
		conntrack_trlp_prefetch(trlp->table, conns[i]);
	for (unsigned int i = 0; i < count; i++)
		conntrack_trlp_set_due(
			trlp->table, conns[i], conntrack_lab_due_ns(trlp->tracker, conns[i]));
}

static void trlp_lookup(void *deletion, const uint64_t *mixed, unsigned int count, uint64_t now_ns)
{
	struct trlp *trlp = deletion;
	(void)mixed;
	(void)count;
	conntrack_trlp_pass_time(trlp->table, now_ns);
}

static void trlp_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct trlp *trlp = deletion;
	uint32_t conn = conntrack_trlp_due(trlp->table, mixed, REACH_ALL, true);
	if (conn == BASE_CONN_NONE && lack != CONNTRACK_LACK_NOTHING)
		conn = conntrack_trlp_due(trlp->table, mixed, trlp->looks, false);
	if (conn != BASE_CONN_NONE)
		conntrack_lab_expire(trlp->tracker, conn, now_ns);
}

const struct conntrack_deletion_ops conntrack_deletion_trlp_ops = {
	.name = "trlp",
	.summary = "time-reversed linear probing, with the table of that name only; budget: cells "
		   "looked at when there is no room, 64",
	.defaults = { .budget = LOOKS_DEFAULT },
	.create = trlp_create,
	.destroy = trlp_destroy,
	.bytes = trlp_bytes,
	.lookup = trlp_lookup,
	.inserted = trlp_inserted,
	.touched = trlp_touched,
	.make_room = trlp_make_room,
};
