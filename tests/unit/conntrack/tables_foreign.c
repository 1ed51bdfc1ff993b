/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/foreign.h"
#include "tests/support/eal.h"
#include "tests/unit/conntrack/tables_under_test.h"

int tables_under_test_start(void **state)
{
	(void)state;
	return support_eal_init();
}

const struct conntrack_table_ops *tables_under_test_at(size_t index)
{
	return conntrack_foreign_table_at(index);
}
