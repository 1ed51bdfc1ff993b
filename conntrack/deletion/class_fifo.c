/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A first-in-first-out list per class of timeout, with deferred requeue, after VPP's ACL plugin
 * (acl_multicore_doc): packets do not touch the lists. A connection enters its class's list with
 * the time of that; a class's timeout later it is looked at, and either is due and leaves, or goes
 * to the end of the list for another timeout. All of a class wait equally long, so the head is
 * always the one to look at first, and no wheel is needed.
 *
 * So a connection that was active just after it was put into the list stays for two timeouts: late
 * by at most the longest timeout while the budget suffices, with and without close hints. With
 * hints, one whose timeout shrinks goes to its new class at once. 16 bytes per connection.
 */
#include "conntrack/deletion/deletion.h"
#include "conntrack/deletion/lists.h"
#include "conntrack/deletion/timing.h"

#include <errno.h>
#include <string.h>

enum { LIST_NONE = CONNTRACK_LAB_CLASSES, RECLAIM_LOOKS = 8 };

#define INTERVAL_NS_DEFAULT UINT64_C(4000000)

struct fifo {
	struct conntrack_lists lists; /* by class */
	uint64_t *entered_ns;         /* when a connection entered its list */
	struct conntrack_timing timing;
	uint64_t timeout_ns[CONNTRACK_LAB_CLASSES]; /* by list */
	unsigned int lists_count;                   /* one for each timeout */
	uint8_t list_of[CONNTRACK_LAB_CLASSES];     /* by class; LIST_NONE: never looked at */
	struct conntrack *tracker;
	struct base_arena *arena;
	uint64_t interval_ns;
	uint64_t looked_ns; /* when heads were looked at */
	uint64_t now_ns;    /* that is known of */
	uint32_t conns_max;
	unsigned int turn; /* list to begin with */
	bool behind;       /* the budget ended first */
};

static void fifo_destroy(void *deletion)
{
	struct fifo *fifo = deletion;
	conntrack_lists_release(&fifo->lists);
	base_arena_free(fifo->arena, fifo->entered_ns, fifo->conns_max * sizeof(*fifo->entered_ns));
	base_arena_free(fifo->arena, fifo, sizeof(*fifo));
}

static void make_lists(struct fifo *fifo, const struct conntrack_config *config)
{
	for (unsigned int class = 0; class < CONNTRACK_LAB_CLASSES; class ++) {
		uint64_t timeout_ns = conntrack_lab_class_timeout_ns(config, class);
		unsigned int list = 0;
		fifo->list_of[class] = LIST_NONE;
		if (timeout_ns == 0)
			timeout_ns = fifo->timing.unnoticed_ns;
		if (timeout_ns == 0)
			continue;
		while (list < fifo->lists_count && fifo->timeout_ns[list] != timeout_ns)
			list++;
		if (list == fifo->lists_count)
			fifo->timeout_ns[fifo->lists_count++] = timeout_ns;
		fifo->list_of[class] = (uint8_t)list;
	}
}

static int fifo_create(void **out, const struct conntrack_deletion_config *config)
{
	struct fifo *fifo = base_arena_alloc(config->arena, sizeof(*fifo), BASE_CACHE_LINE);
	if (fifo == NULL)
		return -ENOMEM;
	*fifo = (struct fifo){
		.timing = conntrack_timing_of(config->config),
		.tracker = config->tracker,
		.arena = config->arena,
		.interval_ns = config->knobs.interval_ns,
		.conns_max = config->conns_max,
	};
	make_lists(fifo, config->config);
	fifo->entered_ns = base_arena_alloc(
		config->arena, config->conns_max * sizeof(*fifo->entered_ns), BASE_CACHE_LINE);
	int error = conntrack_lists_init(
		&fifo->lists, config->conns_max, CONNTRACK_LAB_CLASSES, config->arena);
	if (error != 0 || fifo->entered_ns == NULL) {
		fifo_destroy(fifo);
		return -ENOMEM;
	}
	*out = fifo;
	return 0;
}

static uint64_t fifo_bytes(const void *deletion)
{
	const struct fifo *fifo = deletion;
	return sizeof(*fifo) + conntrack_lists_bytes(&fifo->lists) +
	       fifo->conns_max * sizeof(*fifo->entered_ns);
}

static uint64_t look_ns(const struct fifo *fifo, unsigned int list, uint32_t conn)
{
	return conntrack_timing_add(fifo->entered_ns[conn], fifo->timeout_ns[list]);
}

static uint64_t fifo_slack_ns(const void *deletion, uint64_t now_ns)
{
	const struct fifo *fifo = deletion;
	uint64_t behind_ns = 0;
	for (unsigned int list = 0; list < fifo->lists_count; list++) {
		uint32_t head = conntrack_lists_oldest(&fifo->lists, list);
		uint64_t at_ns = head == BASE_CONN_NONE ? UINT64_MAX : look_ns(fifo, list, head);
		if (at_ns < now_ns && now_ns - at_ns > behind_ns)
			behind_ns = now_ns - at_ns;
	}
	return conntrack_timing_add(fifo->timing.longest_ns, behind_ns);
}

static void enter(struct fifo *fifo, uint32_t conn)
{
	unsigned int list = fifo->list_of[conntrack_lab_class(fifo->tracker, conn)];
	if (list == LIST_NONE)
		return;
	fifo->entered_ns[conn] = fifo->now_ns;
	conntrack_lists_append(&fifo->lists, list, conn);
}

static void fifo_inserted(void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns)
{
	struct fifo *fifo = deletion;
	(void)due_ns;
	fifo->now_ns = now_ns;
	enter(fifo, conn);
}

static void fifo_removed(void *deletion, uint32_t conn)
{
	conntrack_lists_unlink(&((struct fifo *)deletion)->lists, conn);
}

static void fifo_changed(
	void *deletion, uint32_t conn, uint64_t due_ns, uint64_t now_ns, bool earlier)
{
	struct fifo *fifo = deletion;
	(void)due_ns;
	fifo->now_ns = now_ns;
	if (!earlier)
		return;
	conntrack_lists_unlink(&fifo->lists, conn);
	enter(fifo, conn);
}

/* Up to max connections at the head of a list whose time has come. */
static unsigned int take(
	struct fifo *fifo, unsigned int list, uint64_t now_ns, uint32_t *conns, unsigned int max)
{
	unsigned int count = 0;
	while (count < max) {
		uint32_t head = conntrack_lists_oldest(&fifo->lists, list);
		if (head == BASE_CONN_NONE || look_ns(fifo, list, head) > now_ns)
			break;
		conntrack_lists_unlink(&fifo->lists, head);
		conns[count++] = head;
	}
	return count;
}

static unsigned int look_at_list(
	struct fifo *fifo, unsigned int list, uint64_t now_ns, unsigned int budget)
{
	uint32_t conns[CONNTRACK_LAB_BURST];
	unsigned int looked = 0;
	while (looked < budget) {
		unsigned int most = budget - looked < CONNTRACK_LAB_BURST ? budget - looked
									  : CONNTRACK_LAB_BURST;
		unsigned int count = take(fifo, list, now_ns, conns, most);
		unsigned int kept = conntrack_lab_expire_burst(fifo->tracker, conns, count, now_ns);
		for (unsigned int i = 0; i < kept; i++)
			enter(fifo, conns[i]);
		looked += count;
		if (count < most)
			break;
	}
	return looked;
}

static unsigned int look(struct fifo *fifo, uint64_t now_ns, unsigned int budget)
{
	unsigned int looked = 0;
	fifo->now_ns = now_ns;
	for (unsigned int i = 0; i < fifo->lists_count && looked < budget; i++) {
		unsigned int list = (fifo->turn + i) % fifo->lists_count;
		looked += look_at_list(fifo, list, now_ns, budget - looked);
	}
	fifo->behind = looked == budget;
	if (fifo->behind) /* no class starves another */
		fifo->turn++;
	return looked;
}

static unsigned int fifo_advance(void *deletion, uint64_t now_ns, unsigned int budget)
{
	struct fifo *fifo = deletion;
	if (budget == 0 || (!fifo->behind && now_ns - fifo->looked_ns < fifo->interval_ns))
		return 0;
	fifo->looked_ns = now_ns;
	return look(fifo, now_ns, budget);
}

static void fifo_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	(void)mixed;
	if (lack != CONNTRACK_LACK_NOTHING)
		look(deletion, now_ns, RECLAIM_LOOKS);
}

static const char *fifo_check(const void *deletion)
{
	const struct fifo *fifo = deletion;
	const char *wrong = conntrack_lists_check(&fifo->lists, NULL);
	for (unsigned int list = 0; list < fifo->lists_count && wrong == NULL; list++) {
		uint64_t latest_ns = 0;
		uint32_t conn = conntrack_lists_oldest(&fifo->lists, list);
		for (; conn < fifo->conns_max; conn = fifo->lists.links[conn].newer) {
			if (fifo->entered_ns[conn] < latest_ns)
				wrong = "a class's list is not in the order of entry";
			latest_ns = fifo->entered_ns[conn];
		}
	}
	return wrong;
}

const struct conntrack_deletion_ops conntrack_deletion_class_fifo_ops = {
	.name = "class_fifo",
	.summary = "a list per timeout, looked at from its head, as VPP's ACL sessions; interval: "
		   "between looks, 4 ms",
	.defaults = { .interval_ns = INTERVAL_NS_DEFAULT },
	.slack_ns = fifo_slack_ns,
	.create = fifo_create,
	.destroy = fifo_destroy,
	.bytes = fifo_bytes,
	.inserted = fifo_inserted,
	.removed = fifo_removed,
	.changed = fifo_changed,
	.make_room = fifo_make_room,
	.advance = fifo_advance,
	.check = fifo_check,
};
