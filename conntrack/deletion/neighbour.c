/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Eviction of expired neighbours on lookup, after Suricata 6: whoever walks a bucket takes out what
 * has expired in it. No bytes per connection and no maintenance, but every lookup reads its
 * neighbours' entries too, and a bucket that nothing is looked up in keeps what it has. So there is
 * no bound on lateness. Needs a table that tells who stands beside a key.
 */
#include "conntrack/deletion/deletion.h"

#include <errno.h>

enum { LOOKS_DEFAULT = 8, LOOKS_MAX = CONNTRACK_LAB_BURST };

struct neighbour {
	struct conntrack *tracker;
	struct base_arena *arena;
	unsigned int looks;
};

static int neighbour_create(void **out, const struct conntrack_deletion_config *config)
{
	uint32_t looks = config->knobs.budget;
	if (config->table_ops->neighbours == NULL)
		return -ENOTSUP;
	struct neighbour *neighbour =
		base_arena_alloc(config->arena, sizeof(*neighbour), BASE_CACHE_LINE);
	if (neighbour == NULL)
		return -ENOMEM;
	*neighbour = (struct neighbour){
		.tracker = config->tracker,
		.arena = config->arena,
		.looks = looks == 0          ? LOOKS_DEFAULT
			 : looks > LOOKS_MAX ? LOOKS_MAX
					     : looks,
	};
	*out = neighbour;
	return 0;
}

static void neighbour_destroy(void *deletion)
{
	struct neighbour *neighbour = deletion;
	base_arena_free(neighbour->arena, neighbour, sizeof(*neighbour));
}

static uint64_t neighbour_bytes(const void *deletion)
{
	(void)deletion;
	return sizeof(struct neighbour);
}

static void neighbour_lookup(
	void *deletion, const uint64_t *mixed, unsigned int count, uint64_t now_ns)
{
	const struct neighbour *neighbour = deletion;
	uint32_t conns[LOOKS_MAX];
	for (unsigned int i = 0; i < count; i++) {
		unsigned int beside = conntrack_lab_neighbours(
			neighbour->tracker, mixed[i], conns, neighbour->looks);
		conntrack_lab_expire_burst(neighbour->tracker, conns, beside, now_ns);
	}
}

const struct conntrack_deletion_ops conntrack_deletion_neighbour_ops = {
	.name = "neighbour",
	.summary = "a lookup takes out what has expired in its bucket, as Suricata 6; budget: "
		   "neighbours looked at, 8",
	.defaults = { .budget = LOOKS_DEFAULT },
	.create = neighbour_create,
	.destroy = neighbour_destroy,
	.bytes = neighbour_bytes,
	.lookup = neighbour_lookup,
};
