/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/foreign/tables.h"

#include <string.h>

/* A key with its data, a share of a bucket, of the ring of free places and of the queue of those
 * that wait, each rounded up to a power of two. */
enum { RTE_HASH_PLACE_BYTES = 48 + 2 * (8 + 4 + 24) };

static const struct conntrack_table_ops *const tables[] = {
	&conntrack_foreign_rte_hash_ops,
	&conntrack_foreign_rte_hash_rw_ops,
	&conntrack_foreign_rte_hash_lf_ops,
#ifdef CONNTRACK_HAVE_CK
	&conntrack_foreign_ck_ht_ops,
#endif
#ifdef CONNTRACK_HAVE_URCU
	&conntrack_foreign_cds_lfht_ops,
#endif
	NULL,
};

static const struct conntrack_foreign_absence absences[] = {
#ifndef CONNTRACK_HAVE_CK
	{ "ck_ht", "built without Concurrency Kit (libck-dev)" },
#endif
#ifndef CONNTRACK_HAVE_URCU
	{ "cds_lfht", "built without liburcu (liburcu-dev)" },
#endif
	{ NULL, NULL },
};

const struct conntrack_table_ops *conntrack_foreign_table_at(size_t index)
{
	return index < BASE_ARRAY_COUNT(tables) ? tables[index] : NULL;
}

uint64_t conntrack_foreign_dpdk_bytes(const struct conntrack_table_ops *ops, uint64_t places)
{
	const uint64_t fixed = 4 << 20;
	if (ops == NULL || ops->library == NULL || strcmp(ops->library, "DPDK") != 0)
		return 0;
	return fixed + places * RTE_HASH_PLACE_BYTES;
}

const struct conntrack_foreign_absence *conntrack_foreign_absence_at(size_t index)
{
	return index + 1 < BASE_ARRAY_COUNT(absences) ? &absences[index] : NULL;
}
