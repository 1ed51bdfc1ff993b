/* SPDX-License-Identifier: BSD-2-Clause */
/* From workers to one result: sums over workers, medians over repeats. */
#pragma once

#include "pipeline/worker.h"

/* What one repeat cost. */
struct collect_sample {
	struct worker_cycles cycles; /* summed over workers */
	uint64_t elapsed_cycles;     /* of the slowest worker */
	uint64_t elapsed_sum_cycles; /* of all workers */
	struct worker_waits waits;   /* summed over workers */
	struct sharing_waits locks;  /* summed over workers */
	uint64_t start_cycles;       /* when its workers began */
	uint64_t packets, wire_bytes;
	struct counters_sum counted; /* summed over workers */
};

/* Start the parts that are summed afresh (for the next repeat). */
void collect_reset(struct pipeline_result *result);
void collect_worker(struct pipeline_result *result, struct collect_sample *sample,
	const struct worker *worker, const struct pipeline_config *config);

/* The same for parts of what one worker tells. */
void collect_add_conntrack(struct conntrack_stats *sum, const struct conntrack_stats *part);
void collect_add_function(
	struct chain_function_stats *sum, const struct chain_function_stats *part);

/* Whether results must be the same in every repeat under the virtual clock. Not when workers share
 * what ran short, a table's room or the NAT's ports, nor what a load balancer counts: who got it
 * depends on how far workers were apart. */
bool collect_is_repeatable(
	const struct pipeline_result *result, const struct pipeline_config *config);

/* Hash over every result that must not change between such repeats. */
uint64_t collect_fingerprint(
	const struct pipeline_result *result, const struct pipeline_config *config);

/* first_cycles: when the first repeat of all configurations began. */
void collect_cost(struct pipeline_cost *cost, const struct collect_sample *samples,
	uint32_t repeats, uint64_t first_cycles, double tsc_hz);
