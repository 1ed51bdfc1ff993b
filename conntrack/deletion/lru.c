/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A map that evicts the least recently used, as load balancers with kernel LRU maps have (Katran,
 * Cilium): every packet moves its connection to the end of one list; an insertion that finds no
 * room takes the head of the list, live or not. Nothing leaves before the table is full, so there
 * is no bound on lateness, and a flood of new connections evicts those that are merely quiet.
 * Lookups compare times. 8 bytes per connection; no knobs; close hints make no difference.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"

#include <errno.h>

struct lru {
	struct conntrack_lists lists;
	struct conntrack *tracker;
	struct base_arena *arena;
};

static int lru_create(void **out, const struct conntrack_deletion_config *config)
{
	struct lru *lru = base_arena_alloc(config->arena, sizeof(*lru), BASE_CACHE_LINE);
	if (lru == NULL)
		return -ENOMEM;
	*lru = (struct lru){ .tracker = config->tracker, .arena = config->arena };
	int error = conntrack_lists_init(&lru->lists, config->conns_max, 1, config->arena);
	if (error != 0) {
		base_arena_free(config->arena, lru, sizeof(*lru));
		return error;
	}
	*out = lru;
	return 0;
}

static void lru_destroy(void *deletion)
{
	struct lru *lru = deletion;
	conntrack_lists_release(&lru->lists);
	base_arena_free(lru->arena, lru, sizeof(*lru));
}

static uint64_t lru_bytes(const void *deletion)
{
	const struct lru *lru = deletion;
	return sizeof(*lru) + conntrack_lists_bytes(&lru->lists);
}

static void lru_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	(void)due_ns;
	(void)now_ns;
	conntrack_lists_append(&((struct lru *)deletion)->lists, 0, conn);
}

static void lru_removed(void *deletion, uint32_t conn)
{
	conntrack_lists_unlink(&((struct lru *)deletion)->lists, conn);
}

static void lru_touched(void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct lru *lru = deletion;
	(void)now_ns;
	conntrack_lists_prefetch(&lru->lists, conns, count);
	for (unsigned int i = 0; i < count; i++) {
		conntrack_lists_unlink(&lru->lists, conns[i]);
		conntrack_lists_append(&lru->lists, 0, conns[i]);
	}
}

/* A half-open cap is the tracker's own to keep. */
static void lru_make_room(void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct lru *lru = deletion;
	uint32_t oldest = conntrack_lists_oldest(&lru->lists, 0);
	(void)mixed;
	if (lack == CONNTRACK_LACK_ROOM && oldest != BASE_CONN_NONE)
		conntrack_lab_evict(lru->tracker, oldest, now_ns);
}

static const char *lru_check(const void *deletion)
{
	return conntrack_lists_check(&((const struct lru *)deletion)->lists, NULL);
}

const struct conntrack_deletion_ops conntrack_deletion_lru_ops = {
	.name = "lru",
	.summary = "the least recently used leaves when there is no room, as kernel LRU maps; no "
		   "knobs",
	.evicts = true,
	.create = lru_create,
	.destroy = lru_destroy,
	.bytes = lru_bytes,
	.inserted = lru_inserted,
	.removed = lru_removed,
	.touched = lru_touched,
	.make_room = lru_make_room,
	.check = lru_check,
};
