/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lazy deletion in the bucket, after Cuckoo++ (Le Scouarnec, ANCS 2018): an insertion takes out
 * what has expired in the bucket that it goes into. No maintenance and no bytes per connection, but
 * the table keeps what is dead until something new hashes beside it: there is no bound on lateness,
 * and a table must be larger for the same number of live connections.
 *
 * As two strategies: "lazy" compares times on lookup, so that a dead connection is never met;
 * "lazy_stale" does not, as published: a packet that meets a dead connection brings it back.
 * Needs a table that tells who stands beside a key.
 */
#include "conntrack/deletion/deletion.h"

#include <errno.h>

enum { LOOKS_DEFAULT = 8, LOOKS_MAX = CONNTRACK_LAB_BURST };

struct lazy {
	struct conntrack *tracker;
	struct base_arena *arena;
	unsigned int looks;
};

static int lazy_create(void **out, const struct conntrack_deletion_config *config)
{
	uint32_t looks = config->knobs.budget;
	if (config->table_ops->neighbours == NULL)
		return -ENOTSUP;
	struct lazy *lazy = base_arena_alloc(config->arena, sizeof(*lazy), BASE_CACHE_LINE);
	if (lazy == NULL)
		return -ENOMEM;
	*lazy = (struct lazy){
		.tracker = config->tracker,
		.arena = config->arena,
		.looks = looks == 0          ? LOOKS_DEFAULT
			 : looks > LOOKS_MAX ? LOOKS_MAX
					     : looks,
	};
	*out = lazy;
	return 0;
}

static void lazy_destroy(void *deletion)
{
	struct lazy *lazy = deletion;
	base_arena_free(lazy->arena, lazy, sizeof(*lazy));
}

static uint64_t lazy_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct lazy);
}

static void lazy_make_room(
	void *deletion, uint64_t mixed, uint64_t now_ns, enum conntrack_lack lack)
{
	const struct lazy *lazy = deletion;
	uint32_t conns[LOOKS_MAX];
	(void)lack;
	unsigned int beside = conntrack_lab_neighbours(lazy->tracker, mixed, conns, lazy->looks);
	conntrack_lab_expire_burst(lazy->tracker, conns, beside, now_ns);
}

const struct conntrack_deletion_ops conntrack_deletion_lazy_ops = {
	.name = "lazy",
	.summary = "an insertion takes out what has expired in its bucket, as Cuckoo++; lookups "
		   "compare times; budget: neighbours looked at, 8",
	.defaults = { .budget = LOOKS_DEFAULT },
	.create = lazy_create,
	.destroy = lazy_destroy,
	.bytes = lazy_bytes,
	.make_room = lazy_make_room,
};

const struct conntrack_deletion_ops conntrack_deletion_lazy_stale_ops = {
	.name = "lazy_stale",
	.summary = "the same, but lookups do not compare times: a dead connection can come back; "
		   "budget: neighbours looked at, 8",
	.stale_hits = true,
	.defaults = { .budget = LOOKS_DEFAULT },
	.create = lazy_create,
	.destroy = lazy_destroy,
	.bytes = lazy_bytes,
	.make_room = lazy_make_room,
};
