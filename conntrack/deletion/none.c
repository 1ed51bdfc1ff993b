/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No deletion: connections stay until the end. What deletion costs is measured against this.
 * Lookups still compare times, so that results are right until the table is full.
 */
#include "conntrack/deletion/deletion.h"

static int none_create(void **deletion, const struct conntrack_deletion_config *config)
{
	*deletion = config->tracker; /* needs no state; not NULL, which means not created */
	return 0;
}

static void none_destroy(void *deletion)
{
	(void)deletion;
}

static uint64_t none_bytes(const void *deletion)
{
	(void)deletion;
	return 0;
}

const struct conntrack_deletion_ops conntrack_deletion_none_ops = {
	.name = "none",
	.summary = "nothing is removed before the end of the run",
	.create = none_create,
	.destroy = none_destroy,
	.bytes = none_bytes,
};
