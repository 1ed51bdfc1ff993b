/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables and strategies that are broken on purpose, some as published code was (HPSR 2021 artefact,
 * commits named in docs/conntrack.md): the judge must see each.
 */
#pragma once

#include "conntrack/judge.h"

struct fault {
	const char *what;
	const struct conntrack_table_ops *table; /* NULL: the default */
	const struct conntrack_deletion_ops *deletion;
	enum conntrack_failure expected;
};

/* NULL behind the last. */
const struct fault *fault_at(size_t index);
