/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's rte_hash, plain, with its reader-writer lock, and with lock-free readers and QSBR. The
 * index is the key's data; hashes are given; lookups go 64 at a time, which is its own bound.
 */
#include "conntrack/foreign/tables.h"

#include <errno.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>
#include <stdio.h>
#include <string.h>

#define LOAD 0.8

/* Few buckets deviate far from their mean. */
enum { PLACES_EXTRA = 64 };

struct foreign {
	struct rte_hash *hash;
	struct rte_rcu_qsbr *qsbr; /* NULL: readers and writers are not told apart */
	uint64_t bytes;
	uint32_t count; /* its own counts places that wait for a quiescent state too */
	struct conntrack_table_config config;
};

/* Of all sockets; nothing else allocates while a table is being created. */
static uint64_t allocated_bytes(void)
{
	uint64_t bytes = 0;
	for (unsigned int i = 0; i < rte_socket_count(); i++) {
		struct rte_malloc_socket_stats stats;
		int socket = rte_socket_id_by_idx(i);
		if (socket >= 0 && rte_malloc_get_socket_stats(socket, &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	}
	return bytes;
}

static int setup_qsbr(struct foreign *table)
{
	size_t size = rte_rcu_qsbr_get_memsize(1);
	table->qsbr = rte_zmalloc("sheaf qsbr", size, RTE_CACHE_LINE_SIZE);
	if (table->qsbr == NULL)
		return -ENOMEM;
	struct rte_hash_rcu_config rcu = { .v = table->qsbr, .mode = RTE_HASH_QSBR_MODE_DQ };
	if (rte_rcu_qsbr_init(table->qsbr, 1) != 0 ||
		rte_rcu_qsbr_thread_register(table->qsbr, 0) != 0)
		return -EIO;
	rte_rcu_qsbr_thread_online(table->qsbr, 0);
	return rte_hash_rcu_qsbr_add(table->hash, &rcu) == 0 ? 0 : -rte_errno;
}

static void foreign_destroy(void *opaque)
{
	struct foreign *table = opaque;
	if (table->qsbr != NULL) {
		rte_rcu_qsbr_quiescent(table->qsbr, 0);
		rte_rcu_qsbr_thread_offline(table->qsbr, 0);
		(void)rte_rcu_qsbr_thread_unregister(table->qsbr, 0);
	}
	rte_hash_free(table->hash);
	rte_free(table->qsbr);
	base_arena_free(table->config.arena, table, sizeof(*table));
}

static int create(void **out, const struct conntrack_table_config *config, uint8_t flags)
{
	char name[RTE_HASH_NAMESIZE];
	double load = config->load > 0 ? config->load : LOAD;
	double places = (double)config->entries_max / load;
	if (load > 1 || places > RTE_HASH_ENTRIES_MAX - PLACES_EXTRA)
		return -EINVAL;
	if (rte_lcore_count() == 0)
		return -ENOTSUP;
	struct foreign *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	snprintf(name, sizeof(name), "sheaf %p", (void *)table);
	uint32_t whole = (uint32_t)(places + 0.5);
	struct rte_hash_parameters parameters = {
		.name = name,
		/* A power of two stays one: its buckets are rounded up to one. */
		.entries = whole < PLACES_EXTRA * PLACES_EXTRA ? whole + PLACES_EXTRA : whole,
		.key_len = sizeof(struct base_flow_key),
		.socket_id = SOCKET_ID_ANY,
		.extra_flag = flags,
	};
	uint64_t before = allocated_bytes();
	table->hash = rte_hash_create(&parameters);
	int error = table->hash == NULL ? -rte_errno : 0;
	if (error == 0 && (flags & RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF) != 0)
		error = setup_qsbr(table);
	if (error != 0) {
		foreign_destroy(table);
		return error;
	}
	table->bytes = allocated_bytes() - before;
	*out = table;
	return 0;
}

static int plain_create(void **out, const struct conntrack_table_config *config)
{
	return create(out, config, 0);
}

static int rw_create(void **out, const struct conntrack_table_config *config)
{
	return create(out, config, RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY);
}

static int lf_create(void **out, const struct conntrack_table_config *config)
{
	return create(out, config, RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF);
}

static uint64_t foreign_bytes(const void *opaque)
{
	return ((const struct foreign *)opaque)->bytes;
}

static hash_sig_t signature(uint64_t mixed)
{
	return (hash_sig_t)(mixed >> 32);
}

static void *data_of(uint32_t conn)
{
	return (void *)((uintptr_t)conn + 1);
}

static uint32_t conn_of(const void *data)
{
	return (uint32_t)((uintptr_t)data - 1);
}

/* The owner holds nothing of the table between calls. */
static inline void quiesce(const struct foreign *table)
{
	if (table->qsbr != NULL)
		rte_rcu_qsbr_quiescent(table->qsbr, 0);
}

static void find_some(const struct foreign *table, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	hash_sig_t signatures[RTE_HASH_LOOKUP_BULK_MAX];
	const void *pointers[RTE_HASH_LOOKUP_BULK_MAX];
	void *data[RTE_HASH_LOOKUP_BULK_MAX];
	uint64_t hits = 0;
	for (unsigned int i = 0; i < count; i++) {
		signatures[i] = signature(mixed[i]);
		pointers[i] = keys[i];
	}
	(void)rte_hash_lookup_with_hash_bulk_data(
		table->hash, pointers, signatures, count, &hits, data);
	for (unsigned int i = 0; i < count; i++)
		conns[i] = (hits >> i & 1) != 0 ? conn_of(data[i]) : BASE_CONN_NONE;
}

static void foreign_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	const struct foreign *table = opaque;
	for (unsigned int at = 0; at < count; at += RTE_HASH_LOOKUP_BULK_MAX) {
		unsigned int some = count - at < RTE_HASH_LOOKUP_BULK_MAX
					    ? count - at
					    : RTE_HASH_LOOKUP_BULK_MAX;
		find_some(table, mixed + at, keys + at, some, conns + at);
	}
	quiesce(table);
}

static int foreign_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	const struct base_flow_key *key = conntrack_table_key(&table->config, conn);
	quiesce(table);
	int error =
		rte_hash_add_key_with_hash_data(table->hash, key, signature(mixed), data_of(conn));
	table->count += error == 0;
	return error == 0 ? 0 : -ENOSPC;
}

static void foreign_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct foreign *table = opaque;
	const struct base_flow_key *key = conntrack_table_key(&table->config, conn);
	int position = rte_hash_del_key_with_hash(table->hash, key, signature(mixed));
	BASE_ASSERT(position >= 0);
	table->count--;
	quiesce(table);
}

static const char *foreign_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct foreign *table = opaque;
	const void *key;
	void *data;
	uint32_t next = 0;
	uint32_t count = 0;
	while (rte_hash_iterate(table->hash, &key, &data, &next) >= 0) {
		const struct base_flow_key *own =
			conntrack_table_key(&table->config, conn_of(data));
		if (!base_flow_key_equal(key, own))
			return "a key's copy differs from the key";
		count++;
		if (visit != NULL)
			visit(context, conn_of(data));
	}
	return count == table->count ? NULL : "it holds more or fewer keys than were added";
}

#define COPIES "copies keys; memory of DPDK's heap"

const struct conntrack_table_ops conntrack_foreign_rte_hash_ops = {
	.name = "rte_hash",
	.summary = "DPDK's cuckoo table of 8-pair buckets and a key store",
	.library = "DPDK",
	.differs = COPIES,
	.create = plain_create,
	.destroy = foreign_destroy,
	.bytes = foreign_bytes,
	.find_burst = foreign_find_burst,
	.insert = foreign_insert,
	.remove = foreign_remove,
	.check = foreign_check,
};

const struct conntrack_table_ops conntrack_foreign_rte_hash_rw_ops = {
	.name = "rte_hash_rw",
	.summary = "the same under its reader-writer lock",
	.library = "DPDK",
	.differs = COPIES "; takes a lock for each burst and change",
	.create = rw_create,
	.destroy = foreign_destroy,
	.bytes = foreign_bytes,
	.find_burst = foreign_find_burst,
	.insert = foreign_insert,
	.remove = foreign_remove,
	.check = foreign_check,
};

const struct conntrack_table_ops conntrack_foreign_rte_hash_lf_ops = {
	.name = "rte_hash_lf",
	.summary = "the same with lock-free readers, places given back by QSBR",
	.library = "DPDK",
	.differs = COPIES "; a removed pair's place waits for its reader's next quiescent state",
	.create = lf_create,
	.destroy = foreign_destroy,
	.bytes = foreign_bytes,
	.find_burst = foreign_find_burst,
	.insert = foreign_insert,
	.remove = foreign_remove,
	.check = foreign_check,
};
