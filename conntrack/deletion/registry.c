/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/deletion/deletion.h"

#include <string.h>

static const struct conntrack_deletion_ops *const strategies[] = {
	&conntrack_deletion_wheel_ops,
	&conntrack_deletion_none_ops,
	&conntrack_deletion_full_scan_ops,
	&conntrack_deletion_budgeted_scan_ops,
	&conntrack_deletion_adaptive_linux_ops,
	&conntrack_deletion_adaptive_suricata_ops,
	&conntrack_deletion_neighbour_ops,
	&conntrack_deletion_lazy_ops,
	&conntrack_deletion_lazy_stale_ops,
	&conntrack_deletion_single_wheel_lazy_ops,
	&conntrack_deletion_single_wheel_eager_ops,
	&conntrack_deletion_coarse_wheel_ops,
	&conntrack_deletion_class_fifo_ops,
	&conntrack_deletion_class_lru_ops,
	&conntrack_deletion_clock_ops,
	&conntrack_deletion_generations_ops,
	&conntrack_deletion_lru_ops,
	&conntrack_deletion_trlp_ops,
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
