/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/tables/tables.h"

#include <string.h>

static const struct conntrack_table_ops *const tables[] = {
	&conntrack_table_bucket_ops,
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
