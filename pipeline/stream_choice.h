/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether captures are loaded before they are played, or streamed from their files while they are.
 * Memory is faster and what costs are measured with, so that streaming is for what would not fit:
 * captures whose estimated size in memory is above STREAM_MEMORY_PERCENT of what is available. A
 * capture takes about twice its stored size at worst (records and schedule beside small frames),
 * and a compressed one STREAM_PACKED_FACTOR times that.
 */
#pragma once

#include "pipeline/pipeline.h"

enum { STREAM_MEMORY_PERCENT = 75, STREAM_MEMORY_FACTOR = 2, STREAM_PACKED_FACTOR = 5 };

struct stream_choice {
	bool stream;
	char why[PIPELINE_NOTE_SIZE];
};

/* What is known of the captures' files. */
struct stream_files {
	uint64_t plain_bytes, packed_bytes; /* stored */
	const char *once; /* the first that can be read only once: a pipe, standard input. NULL */
};

/* A file that cannot be looked at counts as empty: opening it will tell. */
void stream_files_look(struct stream_files *files, const char *const *paths, size_t paths_count);

/* passes: how often the captures are read at least. available: bytes of memory. -EINVAL with
 * message (PIPELINE_MESSAGE_SIZE) when they are to be streamed more than once and cannot be. */
int stream_choose(struct stream_choice *choice, const struct pipeline_config *config,
	const struct stream_files *files, uint64_t passes, uint64_t available, char *message);
