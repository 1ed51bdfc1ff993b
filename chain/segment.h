/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: flow runs cut where the connection changes. A run has one key, but its
 * connection may expire and a new one begin in the middle, so per-connection work is shared
 * inside a segment, not inside a run.
 *
 *	for (unsigned int r = 0; r < burst->run_count; r++) {
 *		unsigned int end = burst->runs[r].first + burst->runs[r].count;
 *		for (unsigned int i = burst->runs[r].first, next; i < end; i = next) {
 *			next = chain_segment_end(burst, i, end, no_runs);
 *			... packets i to next - 1 share burst->packets[i]->conn
 */
#pragma once

#include "base/burst.h"

#include <stdbool.h>

/* The first packet at or after `first` + 1 that does not belong to the segment that begins at
 * `first`, or `end`, the run's end. With no_runs every packet is a segment of its own. */
static inline unsigned int chain_segment_end(
	const struct base_burst *burst, unsigned int first, unsigned int end, bool no_runs)
{
	uint32_t conn = burst->packets[first]->conn;
	unsigned int i = first + 1;
	while (i < end && !no_runs && burst->packets[i]->conn == conn)
		i++;
	return i;
}
