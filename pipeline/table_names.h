/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables by name: the project's own first, then those of other libraries that were built in. */
#pragma once

#include "conntrack/foreign.h"

/* NULL behind the last. */
const struct conntrack_table_ops *table_names_at(size_t index);

/* NULL when there is none of that name. */
const struct conntrack_table_ops *table_names_find(const char *name);

/* Why a known table is not there; NULL for names that nobody knows. */
const char *table_names_absence(const char *name);

/* "bucket|cuckoo|...", absent ones among them, cut to size. */
void table_names_list(char *text, size_t text_size);
