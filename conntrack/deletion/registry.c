/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/deletion/deletion.h"

#include <string.h>

static const struct conntrack_deletion_ops *const strategies[] = {
	&conntrack_deletion_wheel_ops,
	&conntrack_deletion_none_ops,
};

const struct conntrack_deletion_ops *conntrack_deletion_at(size_t index)
{
	return index < BASE_ARRAY_COUNT(strategies) ? strategies[index] : NULL;
}

const struct conntrack_deletion_ops *conntrack_deletion_by_name(const char *name)
{
	for (size_t i = 0; i < BASE_ARRAY_COUNT(strategies); i++) {
		if (strcmp(strategies[i]->name, name) == 0)
			return strategies[i];
	}
	return NULL;
}
