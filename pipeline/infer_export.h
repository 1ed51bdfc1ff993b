/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of a capture's flows, for training: packets are parsed, tracked and made into features as in
 * a replay with one worker, and every flow gives one row, when it has its depth or when it ends.
 *
 *	infer_export_create(&export, &options, path, message);
 *	while (traces_packets_next(packets, &batch) == 0 && batch.count > 0)
 *		infer_export_add(export, &batch);
 *	infer_export_close(export, &report, message);   // or infer_export_abandon
 *
 * Output: path.npy is float32 [flows][inputs], path.rec records (gpu_offload/record.h) one behind
 * the other; beside it path.csv, a line per row with who the flow is, so that rows can be split by
 * flow and by host. Files get their names when they are whole.
 *
 * Threads: one. Memory: the tracker's.
 */
#pragma once

#include "gpu_offload/gpu_offload.h"
#include "pipeline/pipeline.h"

struct infer_export_options {
	unsigned int features; /* enum gpu_offload_features */
	uint32_t depth;        /* 0: the features' default */
	uint32_t packets_min;  /* flows with fewer give no row, default 1 */
	uint32_t conns;        /* tracked at a time */
	bool whole;            /* only flows that have their depth */
};

struct infer_export_report {
	uint64_t packets, malformed; /* read; refused by the parser, of them */
	uint64_t untracked;          /* without a connection, of them */
	uint64_t flows;              /* connections that had packets taken */
	uint64_t rows, short_flows;  /* written; left out by packets_min or whole */
	uint32_t inputs, depth;
};

struct infer_export;

void infer_export_options_defaults(struct infer_export_options *options);

/* message: one line, PIPELINE_MESSAGE_SIZE. -EINVAL (options, a name that says no format), -ENOMEM,
 * or the system's. */
int infer_export_create(struct infer_export **out, const struct infer_export_options *options,
	const char *path, char *message);
/* -errno of writing, told by infer_export_close as well. */
int infer_export_add(struct infer_export *export, const struct traces_batch *batch);
/* Ends what flows are left, gives the files their names, frees. */
int infer_export_close(
	struct infer_export *export, struct infer_export_report *report, char *message);
/* Frees; no file is left. NULL is fine. */
void infer_export_abandon(struct infer_export *export);
