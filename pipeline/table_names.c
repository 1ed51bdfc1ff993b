/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/table_names.h"

#include <stdio.h>
#include <string.h>

const struct conntrack_table_ops *table_names_at(size_t index)
{
	size_t own_count = 0;
	while (conntrack_table_at(own_count) != NULL)
		own_count++;
	return index < own_count ? conntrack_table_at(index)
				 : conntrack_foreign_table_at(index - own_count);
}

const struct conntrack_table_ops *table_names_find(const char *name)
{
	const struct conntrack_table_ops *ops;
	for (size_t i = 0; (ops = table_names_at(i)) != NULL; i++) {
		if (strcmp(ops->name, name) == 0)
			return ops;
	}
	return NULL;
}

const char *table_names_absence(const char *name)
{
	const struct conntrack_foreign_absence *absence;
	for (size_t i = 0; (absence = conntrack_foreign_absence_at(i)) != NULL; i++) {
		if (strcmp(absence->name, name) == 0)
			return absence->reason;
	}
	return NULL;
}

void table_names_list(char *text, size_t text_size)
{
	const struct conntrack_table_ops *ops;
	size_t used = 0;
	text[0] = '\0';
	for (size_t i = 0; (ops = table_names_at(i)) != NULL && used < text_size; i++)
		used += (size_t)snprintf(
			text + used, text_size - used, "%s%s", i == 0 ? "" : "|", ops->name);
	const struct conntrack_foreign_absence *absence;
	for (size_t i = 0; (absence = conntrack_foreign_absence_at(i)) != NULL; i++) {
		if (used < text_size)
			used += (size_t)snprintf(
				text + used, text_size - used, "|%s", absence->name);
	}
}
