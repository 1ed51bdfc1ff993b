/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to conntrack/tables: one constant per file. */
#pragma once

#include "conntrack/lab.h"

extern const struct conntrack_table_ops conntrack_table_bucket_ops;
