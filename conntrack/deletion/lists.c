/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/deletion/lists.h"

#include <errno.h>
#include <string.h>

static uint32_t links_count(const struct conntrack_lists *lists)
{
	return lists->conns_max + lists->count;
}

int conntrack_lists_init(
	struct conntrack_lists *lists, uint32_t conns_max, uint32_t count, struct base_arena *arena)
{
	*lists = (struct conntrack_lists){
		.conns_max = conns_max,
		.count = count,
		.arena = arena,
	};
	lists->links = base_arena_alloc(
		arena, links_count(lists) * sizeof(*lists->links), BASE_CACHE_LINE);
	if (lists->links == NULL)
		return -ENOMEM;
	memset(lists->links, 0xff, conns_max * sizeof(*lists->links));
	for (uint32_t head = conns_max; head < conns_max + count; head++)
		lists->links[head] = (struct conntrack_lists_link){ head, head };
	return 0;
}

void conntrack_lists_release(struct conntrack_lists *lists)
{
	base_arena_free(lists->arena, lists->links, links_count(lists) * sizeof(*lists->links));
	lists->links = NULL;
}

uint64_t conntrack_lists_bytes(const struct conntrack_lists *lists)
{
	return links_count(lists) * sizeof(*lists->links);
}

void conntrack_lists_splice(struct conntrack_lists *lists, uint32_t from, uint32_t to)
{
	struct conntrack_lists_link *links = lists->links;
	uint32_t source = lists->conns_max + from, target = lists->conns_max + to;
	if (links[source].newer == source)
		return;
	uint32_t oldest = links[source].newer, newest = links[source].older;
	uint32_t before = links[target].older;
	links[before].newer = oldest;
	links[oldest].older = before;
	links[newest].newer = target;
	links[target].older = newest;
	links[source] = (struct conntrack_lists_link){ source, source };
}

unsigned int conntrack_lists_take(
	struct conntrack_lists *lists, uint32_t list, uint32_t *conns, unsigned int max)
{
	struct conntrack_lists_link *links = lists->links;
	uint32_t head = lists->conns_max + list;
	uint32_t conn = links[head].newer;
	unsigned int taken = 0;
	while (taken < max && conn != head) {
		uint32_t next = links[conn].newer;
		links[conn] = (struct conntrack_lists_link){ UINT32_MAX, UINT32_MAX };
		conns[taken++] = conn;
		conn = next;
	}
	links[head].newer = conn;
	links[conn].older = head;
	return taken;
}

const char *conntrack_lists_check(const struct conntrack_lists *lists, uint32_t *counts)
{
	uint64_t listed = 0, marked = 0;
	for (uint32_t list = 0; list < lists->count; list++) {
		uint32_t head = lists->conns_max + list, at = head, length = 0;
		for (;;) {
			uint32_t next = lists->links[at].newer;
			if (next >= links_count(lists) || lists->links[next].older != at)
				return "a list's links disagree";
			if (next == head)
				break;
			if (next >= lists->conns_max || ++length > lists->conns_max)
				return "a list leads into another, or into a ring";
			at = next;
		}
		listed += length;
		if (counts != NULL)
			counts[list] = length;
	}
	for (uint32_t conn = 0; conn < lists->conns_max; conn++)
		marked += conntrack_lists_has(lists, conn);
	return listed == marked ? NULL : "connections are linked but in no list";
}
