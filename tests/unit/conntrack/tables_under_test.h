/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables that a test is about: the project's own, or those of libraries. */
#pragma once

#include "conntrack/lab.h"

/* cmocka's group setup. */
int tables_under_test_start(void **state);

/* NULL behind the last. */
const struct conntrack_table_ops *tables_under_test_at(size_t index);
