/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory, asked about before it is taken: what the machine can give and what a run will need. What
 * does not fit is refused in one line, instead of failing half-way or having the system end
 * processes.
 *
 * Threads: pure but for the files read. Cost: a few files, at start.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	PIPELINE_MEMORY_PARTS_MAX = 16,
	PIPELINE_MEMORY_KNOBS_MAX = 4,
	/* Of one connection, user_bytes apart: at most (conntrack/conntrack.h), and about what the
	 * laboratory's tables, strategies and sharing models take. */
	PIPELINE_MEMORY_CONN_BYTES = 105,
	PIPELINE_MEMORY_LAB_BYTES = 256,
};

/* One thing that a run takes memory for, and the options that make it smaller. */
struct pipeline_memory_part {
	const char *name; /* "connections" */
	uint64_t bytes;
	const char *knobs[PIPELINE_MEMORY_KNOBS_MAX]; /* NULL behind the last */
};

/*
 * Bytes that can be had now: the least of MemAvailable and of what the process's control groups
 * (version 1 or 2, with all that they lie in) leave, and free huge pages on top, which neither
 * counts. What a group's files hold in caches can be taken back. UINT64_MAX when nothing says.
 * root: "" for this machine, or a folder that holds proc/ and sys/, for tests.
 */
uint64_t pipeline_memory_available(const char *root);

/* The same without huge pages: what there is for who takes none. */
uint64_t pipeline_memory_plain(const char *root);

/* Bytes of explicit huge pages that are free and promised to nobody, over all sizes. */
uint64_t pipeline_memory_huge_free(const char *root);

/*
 * 0 when the parts fit into `available` bytes, else -ENOMEM and one line that names
 *  the sum, the large parts, what there is, and what to lower.
 */
int pipeline_memory_check(const struct pipeline_memory_part *parts, size_t count,
	uint64_t available, char message[], size_t size);

/* The same on this machine, for `conns` connections of `bytes` each. knob: "--conns". */
int pipeline_memory_check_conns(
	uint64_t conns, uint64_t bytes, const char *knob, char message[], size_t size);
