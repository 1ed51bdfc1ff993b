/* SPDX-License-Identifier: BSD-2-Clause */
/* Concurrency Kit's ck_ht: open addressing, entries of 32 bytes that point to keys. */
#include "conntrack/foreign/tables.h"

#include <ck_ht.h>
#include <errno.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

struct foreign {
	ck_ht_t table;
	struct ck_malloc memory;
	struct conntrack_table_config config;
};

/* Large blocks on huge pages where the system has transparent ones, as in an arena. The library
 * gives no context with these, so the arena itself cannot be used. */
static size_t mapped_size(size_t size)
{
	return (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, mapped_size(size), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, mapped_size(size), MADV_HUGEPAGE);
	(void)madvise(memory, mapped_size(size), MADV_POPULATE_WRITE);
	return memory;
}

static void unmap(void *memory, size_t size, bool defer)
{
	(void)defer; /* the owner is the only reader */
	if (memory != NULL)
		(void)munmap(memory, mapped_size(size));
}

static int foreign_create(void **out, const struct conntrack_table_config *config)
{
	if (config->load > 1)
		return -EINVAL;
	struct foreign *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->memory = (struct ck_malloc){ .malloc = map, .free = unmap };
	/* It doubles when half full: large enough that it never does. */
	uint64_t places = 2 * ((uint64_t)config->entries_max + 1);
	if (!ck_ht_init(&table->table, CK_HT_MODE_BYTESTRING | CK_HT_WORKLOAD_DELETE, NULL,
		    &table->memory, places, config->salt)) {
		base_arena_free(config->arena, table, sizeof(*table));
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static void foreign_destroy(void *opaque)
{
	struct foreign *table = opaque;
	ck_ht_destroy(&table->table);
	base_arena_free(table->config.arena, table, sizeof(*table));
}

/* The library does not tell: entries and a byte of probe bound for each of its places, which are
 * the next power of two. */
static uint64_t foreign_bytes(const void *opaque)
{
	const struct foreign *table = opaque;
	uint64_t places = 8;
	while (places < 2 * ((uint64_t)table->config.entries_max + 1))
		places *= 2;
	return sizeof(*table) + places * (sizeof(ck_ht_entry_t) + 1);
}

/* It takes places from the lower bits. */
static ck_ht_hash_t hash_of(uint64_t mixed)
{
	return (ck_ht_hash_t){ mixed >> 32 | mixed << 32 };
}

static void foreign_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct foreign *table = opaque;
	for (unsigned int i = 0; i < count; i++) {
		ck_ht_entry_t entry;
		ck_ht_entry_key_set(&entry, keys[i], sizeof(*keys[i]));
		/* Lookups of a table with one writer do not change it. */
		bool found = ck_ht_get_spmc(
			(ck_ht_t *)(uintptr_t)&table->table, hash_of(mixed[i]), &entry);
		conns[i] = found ? (uint32_t)((uintptr_t)ck_ht_entry_value(&entry) - 1)
				 : BASE_CONN_NONE;
	}
}

static int foreign_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	ck_ht_hash_t hash = hash_of(mixed);
	ck_ht_entry_t entry;
	if (ck_ht_count(&table->table) == table->config.entries_max)
		return -ENOSPC;
	ck_ht_entry_set(&entry, hash, conntrack_table_key(&table->config, conn),
		sizeof(struct base_flow_key), (const void *)((uintptr_t)conn + 1));
	return ck_ht_put_spmc(&table->table, hash, &entry) ? 0 : -ENOSPC;
}

static void foreign_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	ck_ht_entry_t entry;
	ck_ht_entry_key_set(
		&entry, conntrack_table_key(&table->config, conn), sizeof(struct base_flow_key));
	bool removed = ck_ht_remove_spmc(&table->table, hash_of(mixed), &entry);
	BASE_ASSERT(removed);
}

static const char *foreign_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct foreign *table = opaque;
	ck_ht_t *inner = (ck_ht_t *)(uintptr_t)&table->table;
	ck_ht_iterator_t iterator = CK_HT_ITERATOR_INITIALIZER;
	ck_ht_entry_t *entry;
	uint64_t count = 0;
	while (ck_ht_next(inner, &iterator, &entry)) {
		uint32_t conn = (uint32_t)((uintptr_t)ck_ht_entry_value(entry) - 1);
		if (ck_ht_entry_key(entry) !=
			(const void *)conntrack_table_key(&table->config, conn))
			return "a pair has another's key";
		count++;
		if (visit != NULL)
			visit(context, conn);
	}
	return count == ck_ht_count(inner) ? NULL : "its count is not that of its keys";
}

const struct conntrack_table_ops conntrack_foreign_ck_ht_ops = {
	.name = "ck_ht",
	.summary = "Concurrency Kit's open addressing for one writer, removals as tombstones",
	.library = "Concurrency Kit",
	.differs =
		"one lookup at a time, no prefetch; at most half full whatever load is asked for; "
		"its own memory",
	.create = foreign_create,
	.destroy = foreign_destroy,
	.bytes = foreign_bytes,
	.find_burst = foreign_find_burst,
	.insert = foreign_insert,
	.remove = foreign_remove,
	.check = foreign_check,
};
