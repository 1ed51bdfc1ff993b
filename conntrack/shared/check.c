/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks everything that workers share, when none of them runs. */
#include "conntrack/shared/core.h"

#include <errno.h>
#include <stdio.h>

struct walk {
	const struct conntrack_shared *shared;
	char *message;
	uint64_t valid, free;
};

static int wrong_message(struct walk *walk, const char *what, uint64_t at)
{
	snprintf(walk->message, CONNTRACK_SHARED_MESSAGE_SIZE, "%s (%llu)", what,
		(unsigned long long)at);
	return -EUCLEAN;
}

/* Nobody writes: relaxed everywhere in this file. */
static int check_slot(struct walk *walk, const struct shared_table *table, uint32_t bucket,
	uint64_t header, unsigned int slot)
{
	const struct conntrack_shared *shared = walk->shared;
	uint64_t word =
		atomic_load_explicit(shared_slot(table, bucket, slot), memory_order_relaxed);
	if ((header >> slot & 1) == 0)
		return word == 0 ? 0
				 : wrong_message(walk, "a slot is claimed and not valid", bucket);
	uint32_t conn = (uint32_t)word - 1;
	if (word == 0 || conn >= shared->places)
		return wrong_message(walk, "a valid slot has no entry", bucket);
	uint64_t mixed = shared_mix(shared, shared->cold[conn].hash);
	if (shared_word(mixed, conn) != word || shared_bucket_at(shared, mixed) != bucket)
		return wrong_message(walk, "an entry is in another key's slot", conn);
	const struct shared_entry *entry = &shared->entries[conn];
	if ((atomic_load_explicit(&entry->flags, memory_order_relaxed) & SHARED_LIVE) == 0 ||
		atomic_load_explicit(&entry->last_seen_ns, memory_order_relaxed) == SHARED_DEAD)
		return wrong_message(walk, "a valid slot has a dead entry", conn);
	struct conntrack_shared_conn view;
	uint64_t ignored;
	shared_entry_read(entry, &view);
	if (shared_search(shared, table, mixed, &view.key, &ignored) != conn)
		return wrong_message(walk, "a key is there twice, or not found", conn);
	walk->valid++;
	return 0;
}

static int check_tables(struct walk *walk)
{
	const struct conntrack_shared *shared = walk->shared;
	for (uint32_t i = 0; i < shared->tables_count; i++) {
		const struct shared_table *table = &shared->tables[i];
		for (uint32_t bucket = 0; bucket < shared->buckets_count; bucket++) {
			uint64_t header = atomic_load_explicit(
				&table->buckets[bucket].header, memory_order_relaxed);
			if ((header & SHARED_LOCKED) != 0)
				return wrong_message(walk, "a bucket is locked", bucket);
			for (unsigned int slot = 0; slot < SHARED_SLOTS; slot++) {
				int error = check_slot(walk, table, bucket, header, slot);
				if (error != 0)
					return error;
			}
		}
	}
	return 0;
}

static int check_list(struct walk *walk, const struct shared_pool *pool, uint32_t conn)
{
	for (; conn != SHARED_NONE; conn = walk->shared->cold[conn].next) {
		if (conn - pool->first >= pool->count)
			return wrong_message(walk, "a pool has another's entry", conn);
		if (walk->free++ > walk->shared->places)
			return wrong_message(walk, "a list of free entries has no end", conn);
	}
	return 0;
}

static int check_pools(struct walk *walk)
{
	const struct conntrack_shared *shared = walk->shared;
	uint64_t retired = 0;
	for (uint32_t i = 0; i < shared->config.workers; i++)
		retired += shared->workers[i].retired_count;
	for (uint32_t i = 0; i < shared->pools_count; i++) {
		const struct shared_pool *pool = &shared->pools[i];
		int error = check_list(walk, pool, pool->free_head);
		if (error == 0)
			error = check_list(walk, pool,
				atomic_load_explicit(&pool->returned, memory_order_relaxed));
		if (error != 0)
			return error;
		walk->free += pool->count - pool->fresh;
	}
	if (walk->valid + walk->free + retired != shared->places)
		return wrong_message(walk, "entries are neither live, free nor retired",
			shared->places - walk->valid - walk->free - retired);
	return 0;
}

int conntrack_shared_check(const struct conntrack_shared *shared, char *message)
{
	struct walk walk = { .shared = shared, .message = message };
	struct conntrack_shared_stats stats;
	int error = check_tables(&walk);
	if (error == 0)
		error = check_pools(&walk);
	conntrack_shared_stats(shared, &stats);
	if (error == 0 && stats.live != walk.valid)
		error = wrong_message(&walk, "inserted less expired is not live", stats.live);
	if (error == 0 && stats.packets != stats.hits + stats.inserted + stats.refused_pool +
						   stats.refused_bucket)
		error = wrong_message(
			&walk, "packets are not hits, insertions and refusals", stats.packets);
	return error;
}
