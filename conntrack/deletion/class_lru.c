/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A list per class of timeout in the order of use, after VPP's NAT44-ED: a packet moves its
 * connection to the end of its class's list, at most once per interval; each insertion looks at the
 * head of each list, and takes out at most one that is due. No maintenance of its own and so no
 * pause, but a table that nothing is opened in keeps what it has: there is no bound on lateness.
 *
 * With close hints a connection whose timeout changes goes to its new class at once; without, it
 * stays in the class that it was opened in. 13 bytes per connection.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"

#include <errno.h>

#define INTERVAL_NS_DEFAULT UINT64_C(1000000000)

struct lru {
	struct conntrack_lists lists; /* by class */
	uint32_t *moved;              /* interval in which a connection was moved, wraps */
	uint8_t *list;                /* where it is */
	uint8_t list_of[CONNTRACK_LAB_CLASSES]; /* classes of one timeout share a list */
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t interval_ns;
	uint64_t now_ns;
	uint32_t conns_max;
	uint32_t used; /* lists that classes have */
};

static void lru_destroy(void *deletion)
{
	struct lru *lru = deletion;
	conntrack_lists_release(&lru->lists);
	base_arena_free(lru->arena, lru->moved, lru->conns_max * sizeof(*lru->moved));
	base_arena_free(lru->arena, lru->list, lru->conns_max * sizeof(*lru->list));
	base_arena_free(lru->arena, lru, sizeof(*lru));
}

/* One list for each timeout. */
static void make_lists(struct lru *lru, const struct conntrack_config *config)
{
	uint64_t timeouts_ns[CONNTRACK_LAB_CLASSES];
	for (unsigned int class = 0; class < CONNTRACK_LAB_CLASSES; class ++) {
		uint64_t timeout_ns = conntrack_lab_class_timeout_ns(config, class);
		uint32_t list = 0;
		while (list < lru->used && timeouts_ns[list] != timeout_ns)
			list++;
		if (list == lru->used)
			timeouts_ns[lru->used++] = timeout_ns;
		lru->list_of[class] = (uint8_t)list;
	}
}

static int lru_create(void **out, const struct conntrack_deletion_config *config)
{
	struct lru *lru = base_arena_alloc(config->arena, sizeof(*lru), BASE_CACHE_LINE);
	if (lru == NULL)
		return -ENOMEM;
	*lru = (struct lru){
		.tracker = config->tracker,
		.arena = config->arena,
		.interval_ns = config->knobs.interval_ns,
		.conns_max = config->conns_max,
	};
	make_lists(lru, config->config);
	lru->moved = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*lru->moved), BASE_CACHE_LINE);
	lru->list = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*lru->list), BASE_CACHE_LINE);
	int error = conntrack_lists_init(
		&lru->lists, config->conns_max, CONNTRACK_LAB_CLASSES, config->arena);
	if (error != 0 || lru->moved == NULL || lru->list == NULL) {
		lru_destroy(lru);
		return -ENOMEM;
	}
	*out = lru;
	return 0;
}

static uint64_t lru_bytes(const void *deletion)
{
	const struct lru *lru = deletion;
	return sizeof(*lru) + conntrack_lists_bytes(&lru->lists) +
	       lru->conns_max * (sizeof(*lru->moved) + sizeof(*lru->list));
}

static void enter(struct lru *lru, uint32_t conn, uint32_t list)
{
	lru->moved[conn] = (uint32_t)(lru->now_ns / lru->interval_ns);
	lru->list[conn] = (uint8_t)list;
	conntrack_lists_append(&lru->lists, list, conn);
}

static void lru_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct lru *lru = deletion;
	(void)due_ns;
	lru->now_ns = now_ns;
	enter(lru, conn, lru->list_of[conntrack_lab_class(lru->tracker, conn)]);
}

static void lru_removed(void *deletion, uint32_t conn)
{
	conntrack_lists_unlink(&((struct lru *)deletion)->lists, conn);
}

static void lru_touched(void *deletion, const uint32_t *conns, unsigned int count, uint64_t now_ns)
{
	struct lru *lru = deletion;
	lru->now_ns = now_ns;
	uint32_t interval = (uint32_t)(now_ns / lru->interval_ns);
	for (unsigned int i = 0; i < count; i++)
		BASE_PREFETCH_W(&lru->moved[conns[i]]);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t conn = conns[i];
		if (lru->moved[conn] == interval)
			continue;
		conntrack_lists_unlink(&lru->lists, conn);
		enter(lru, conn, lru->list[conn]);
	}
}

static void lru_changed(
	void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier)
{
	struct lru *lru = deletion;
	(void)due_ns;
	(void)earlier;
	lru->now_ns = now_ns;
	conntrack_lists_unlink(&lru->lists, conn);
	enter(lru, conn, lru->list_of[conntrack_lab_class(lru->tracker, conn)]);
}

static void lru_make_room(void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	struct lru *lru = deletion;
	(void)mixed;
	(void)lack;
	for (uint32_t list = 0; list < lru->used; list++) {
		uint32_t head = conntrack_lists_oldest(&lru->lists, list);
		if (head != BASE_CONN_NONE && conntrack_lab_expire(lru->tracker, head, now_ns))
			return;
	}
}

static const char *lru_check(const void *deletion)
{
	const struct lru *lru = deletion;
	const char *wrong = conntrack_lists_check(&lru->lists, NULL);
	for (uint32_t list = 0; list < CONNTRACK_LAB_CLASSES && wrong == NULL; list++) {
		uint32_t conn = conntrack_lists_oldest(&lru->lists, list);
		for (; conn < lru->conns_max; conn = lru->lists.links[conn].newer) {
			if (lru->list[conn] != list)
				wrong = "a connection is in another list than it says";
		}
	}
	return wrong;
}

const struct conntrack_deletion_ops conntrack_deletion_class_lru_ops = {
	.name = "class_lru",
	.summary =
		"a list per timeout in the order of use, each insertion takes out at most one, as "
		"VPP's NAT44-ED; interval: between moves of a connection, 1 s",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT },
	.create = lru_create,
	.destroy = lru_destroy,
	.bytes = lru_bytes,
	.inserted = lru_inserted,
	.removed = lru_removed,
	.touched = lru_touched,
	.changed = lru_changed,
	.make_room = lru_make_room,
	.check = lru_check,
};
