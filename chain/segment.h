/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: flow runs cut where the connection changes. A run has one key, but its
 * connection may expire and a new one begin in the middle, so per-connection work is shared
 * inside a segment, not inside a run.
 */
#pragma once

#include "base/burst.h"

#include <stdbool.h>

struct chain_segment {
	uint16_t first; /* index into burst->packets */
	uint16_t count; /* >= 1 */
	uint32_t conn;  /* BASE_CONN_NONE: untracked */
};

/* Segments cover the burst exactly, in order. With no_runs every packet is one of its own. Returns
 * how many there are. */
static inline unsigned int chain_segments_find(
	const struct base_burst *burst, bool no_runs, struct chain_segment segments[BASE_BURST_MAX])
{
	unsigned int count = 0;
	for (unsigned int r = 0; r < burst->run_count; r++) {
		unsigned int i = burst->runs[r].first;
		unsigned int end = i + burst->runs[r].count;
		while (i < end) {
			unsigned int first = i;
			uint32_t conn = burst->packets[i++]->conn;
			while (i < end && !no_runs && burst->packets[i]->conn == conn)
				i++;
			segments[count++] = (struct chain_segment){
				.first = (uint16_t)first,
				.count = (uint16_t)(i - first),
				.conn = conn,
			};
		}
	}
	return count;
}
