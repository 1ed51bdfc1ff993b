/* SPDX-License-Identifier: BSD-2-Clause */
/* One line on a terminal that tells how far loading and replaying are; silent elsewhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
	FILE *stream; /* NULL: silent */
	bool shown;   /* a line stands on the terminal */
};

/* Fits pipeline_run's callback; context is a struct progress. total 0: not known. */
void progress_show(void *context, const char *what, uint64_t done, uint64_t total);

/* Wipe the line; nothing else may be printed before. */
void progress_end(struct progress *progress);
