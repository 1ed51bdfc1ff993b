/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow inference in a run: the model, each worker's stage, the file of verdicts, and whether its
 * books balance.
 */
#pragma once

#include "pipeline/worker.h"

enum { INFER_VERDICTS_MAX = 1 << 22 }; /* of one worker, for a file */

void infer_defaults(struct pipeline_infer *infer);

/* What pipeline_config_check has to say of it. 0 or -EINVAL with message. */
int infer_check(const struct pipeline_config *config, char *message);

/* NULL in *model when inference is off. PIPELINE_EXIT_OK, or why not. */
enum pipeline_exit infer_load(struct gpu_offload_model **model,
	const struct pipeline_config *config, struct pipeline_result *result);

/* Make the worker's stage; its chain is there. On failure worker->error and message are set. */
int infer_setup(struct worker *worker);

/* After the tracker's end: collect, and whether everything asked was answered. */
bool infer_settle(struct worker *worker);

/* Verdicts of all workers into the configuration's file, one worker behind the other. -errno with
 * message. */
int infer_verdicts_write(
	const struct worker *workers, const struct pipeline_config *config, char *message);
