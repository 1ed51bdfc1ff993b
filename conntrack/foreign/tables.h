/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to conntrack/foreign: one constant per table. */
#pragma once

#include "conntrack/foreign.h"

extern const struct conntrack_table_ops conntrack_foreign_rte_hash_ops;
extern const struct conntrack_table_ops conntrack_foreign_rte_hash_rw_ops;
extern const struct conntrack_table_ops conntrack_foreign_rte_hash_lf_ops;
extern const struct conntrack_table_ops conntrack_foreign_ck_ht_ops;
extern const struct conntrack_table_ops conntrack_foreign_cds_lfht_ops;
