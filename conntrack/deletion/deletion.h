/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to conntrack/deletion: one constant per strategy. */
#pragma once

#include "conntrack/lab.h"

extern const struct conntrack_deletion_ops conntrack_deletion_wheel_ops;
extern const struct conntrack_deletion_ops conntrack_deletion_none_ops;
