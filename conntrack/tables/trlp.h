/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the table "trlp" and the deletion strategy of the same name: cells know due times. */
#pragma once

#include "conntrack/lab.h"

extern const struct conntrack_table_ops conntrack_table_trlp_ops;

/* Cells that are due by then count as free. */
void conntrack_trlp_pass_time(void *table, uint64_t now_ns);
/* Of a connection that is in the table; UINT64_MAX for never, as after insertion. */
void conntrack_trlp_set_due(void *table, uint32_t conn, uint64_t due_ns);
/* The cell of that index will be read soon. */
void conntrack_trlp_prefetch(const void *table, uint32_t conn);
/* The first connection at or behind the home of `mixed` that is due and still there, within max
 * cells; BASE_CONN_NONE. nearest: look no further than the cell that an insertion would take. */
uint32_t conntrack_trlp_due(const void *table, uint64_t mixed, uint32_t max, bool nearest);
