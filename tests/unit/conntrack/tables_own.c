/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/conntrack/tables_under_test.h"

int tables_under_test_start(void **state)
{
	(void)state;
	return 0;
}

const struct conntrack_table_ops *tables_under_test_at(size_t index)
{
	return conntrack_table_at(index);
}
