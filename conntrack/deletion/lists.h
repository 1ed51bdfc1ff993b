/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doubly linked lists of connections, by index: for strategies that keep an order. A connection is
 * in at most one list. 8 bytes per connection; every operation is O(1) and touches three links,
 * which stand where indices do and so in no order: strategies ask for them ahead where they can
 * (conntrack_lists_prefetch).
 */
#pragma once

#include "base/arena.h"
#include "base/compiler.h"
#include "base/packet.h"

struct conntrack_lists_link {
	uint32_t older, newer; /* UINT32_MAX, UINT32_MAX: in no list */
};

struct conntrack_lists {
	struct conntrack_lists_link *links; /* of connections, then a head for each list */
	uint32_t conns_max, count;
	struct base_arena *arena;
};

/* -ENOMEM. */
int conntrack_lists_init(struct conntrack_lists *lists, uint32_t conns_max, uint32_t count,
	struct base_arena *arena);
void conntrack_lists_release(struct conntrack_lists *lists);
uint64_t conntrack_lists_bytes(const struct conntrack_lists *lists);

/* Put all of a list, in order, behind the newest of another. */
void conntrack_lists_splice(struct conntrack_lists *lists, uint32_t from, uint32_t to);

/* Take up to max of the oldest out of a list. */
unsigned int conntrack_lists_take(
	struct conntrack_lists *lists, uint32_t list, uint32_t *conns, unsigned int max);

/* NULL or what is wrong; counts (may be NULL) gets the length of each list. */
const char *conntrack_lists_check(const struct conntrack_lists *lists, uint32_t *counts);

static inline bool conntrack_lists_has(const struct conntrack_lists *lists, uint32_t conn)
{
	return lists->links[conn].older != UINT32_MAX;
}

/* BASE_CONN_NONE when the list is empty. */
static inline uint32_t conntrack_lists_oldest(const struct conntrack_lists *lists, uint32_t list)
{
	uint32_t oldest = lists->links[lists->conns_max + list].newer;
	return oldest < lists->conns_max ? oldest : BASE_CONN_NONE;
}

/* It must be in none. */
static inline void conntrack_lists_append(
	struct conntrack_lists *lists, uint32_t list, uint32_t conn)
{
	uint32_t head = lists->conns_max + list;
	uint32_t newest = lists->links[head].older;
	BASE_DEBUG_ASSERT(!conntrack_lists_has(lists, conn));
	lists->links[conn] = (struct conntrack_lists_link){ .older = newest, .newer = head };
	lists->links[newest].newer = conn;
	lists->links[head].older = conn;
}

/* Nothing when it is in none. */
static inline void conntrack_lists_unlink(struct conntrack_lists *lists, uint32_t conn)
{
	struct conntrack_lists_link link = lists->links[conn];
	if (link.older == UINT32_MAX)
		return;
	lists->links[link.older].newer = link.newer;
	lists->links[link.newer].older = link.older;
	lists->links[conn] = (struct conntrack_lists_link){ UINT32_MAX, UINT32_MAX };
}

/* The links that moving each of them needs. */
static inline void conntrack_lists_prefetch(
	const struct conntrack_lists *lists, const uint32_t *conns, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		BASE_PREFETCH_W(&lists->links[conns[i]]);
	for (unsigned int i = 0; i < count; i++) {
		struct conntrack_lists_link link = lists->links[conns[i]];
		if (link.older == UINT32_MAX)
			continue;
		BASE_PREFETCH_W(&lists->links[link.older]);
		BASE_PREFETCH_W(&lists->links[link.newer]);
	}
}
