/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tables/tables.h"
#include "conntrack/tables/trlp.h"

#include <string.h>

static const struct conntrack_table_ops *const tables[] = {
	&conntrack_table_bucket_ops,
	&conntrack_table_cuckoo_ops,
	&conntrack_table_robin_hood_ops,
	&conntrack_table_hopscotch_ops,
	&conntrack_table_chaining_ops,
	&conntrack_table_dlht_ops,
	&conntrack_table_growing_ops,
	&conntrack_table_trlp_ops,
};

const struct conntrack_table_ops *conntrack_table_at(size_t index)
{
	return index < BASE_ARRAY_COUNT(tables) ? tables[index] : NULL;
}

const struct conntrack_table_ops *conntrack_table_by_name(const char *name)
{
	for (size_t i = 0; i < BASE_ARRAY_COUNT(tables); i++) {
		if (strcmp(tables[i]->name, name) == 0)
			return tables[i];
	}
	return NULL;
}
