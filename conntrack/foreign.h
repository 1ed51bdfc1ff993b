/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of other libraries behind the laboratory's calls (conntrack/lab.h), to compare with. A
 * library of their own, so that lib_conntrack needs neither DPDK's runtime nor any of them.
 *
 * What a library does not let have in common with the others (its own copy of keys, its own
 * memory, one lookup at a time) stands in the table's `differs`. Beyond entries_max a table of a
 * library may still take pairs.
 *
 * Threads: one owner, whatever the library would allow. Memory: the library's own, but for what is
 * said in `differs`; bytes() tells. rte_hash wants DPDK's runtime to be up: -ENOTSUP without it.
 */
#pragma once

#include "conntrack/lab.h"

/* In the order of documents. NULL behind the last. */
const struct conntrack_table_ops *conntrack_foreign_table_at(size_t index);

/* The most that a table of so many places takes of DPDK's heap; 0 for those that do without. */
uint64_t conntrack_foreign_dpdk_bytes(const struct conntrack_table_ops *ops, uint64_t places);

/* A table that this build has not got. */
struct conntrack_foreign_absence {
	const char *name;
	const char *reason; /* one line */
};

/* NULL behind the last. */
const struct conntrack_foreign_absence *conntrack_foreign_absence_at(size_t index);
