/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One worker: owns a source queue, a parser, a reframer, a tracker, a chain and a sink queue, and
 * runs packets through them to completion. Created and run in its own thread. Under a sharing model
 * tracker and chain are the workers' together, and its own between sharing_enter and sharing_leave.
 */
#pragma once

#include "pipeline/order_check.h"
#include "pipeline/port.h"
#include "pipeline/sharing.h"
#include "pipeline/sink.h"
#include "pipeline/source.h"
#include "pipeline/state.h"

/* TSC cycles per stage. */
struct worker_cycles {
	uint64_t source, parse, reframer, conntrack, infer, sink;
	uint64_t chain[CHAIN_FUNCTIONS_MAX];
	uint64_t total; /* of iterations that did work */
};

/* Waiting for the reader of a stream. */
struct worker_waits {
	uint64_t since;  /* cycles; 0: not waiting */
	uint64_t pauses; /* the reader's when the latest chunk came */
	uint64_t polls;  /* in vain, of this wait */
	/* ended waits: the reader had not read fast enough, ... */
	uint64_t starved_times, starved_polls, starved_cycles;
	uint64_t held_up_cycles; /* ... or waited for another worker to make room */
};

struct worker_shared {
	const struct pipeline_config *config;
	const struct schedule *schedule;
	const struct traces_trace *trace;      /* NULL unless played from memory */
	struct reader *reader;                 /* NULL unless captures are streamed */
	struct sharing *sharing;               /* NULL: each worker keeps its own connections */
	const struct gpu_offload_model *model; /* NULL unless flows are classified */
	const struct plan *plan;               /* where time starts, the first packet's link type */
	const struct port *source_port, *sink_port; /* NULL unless used */
	const atomic_bool *stop; /* of the user; partner: the signal handler's store */
	atomic_bool failed;      /* a worker could not be set up: all leave */
	bool huge;
	uint64_t start_cycles; /* wall clock's zero, set between two barriers */
	double tsc_hz;
};

struct worker {
	struct worker_shared *shared;
	unsigned int index;
	int error; /* of setup or finish, with message */
	char message[PIPELINE_MESSAGE_SIZE];

	struct base_arena *arena;
	struct source *source;
	struct base_parser *parser;
	struct reframer *reframer; /* NULL when off */
	struct state own;          /* empty when connections are shared */
	struct sharing *sharing;   /* NULL: they are not */
	struct conntrack *tracker;
	struct gpu_offload_stage *infer; /* NULL when off */
	struct chain *chain;             /* NULL when empty */
	struct chain_target steering[GPU_OFFLOAD_ACTIONS_MAX];
	uint32_t chain_count;
	bool translates; /* the chain has a nat */
	struct sink *sink;
	struct order_check *order;
	struct order_check *own_order; /* order is a group's when groups change workers */

	struct base_burst in, out;
	struct base_burst part;   /* of a burst: packets of one state, when several are shared */
	struct base_burst let_go; /* packets that the inference stage had held */
	struct base_packet *dropped[BASE_BURST_MAX];

	struct worker_cycles cycles;
	struct worker_waits waits;
	struct counters counters;
	struct counters_sum counted; /* of worker_loop */
	struct sharing_waits lock_waits;
	/* sharing: how far this worker has run timers, its own horizon then, entries that it has
	 * not looked at since, and whether the table was crowded */
	uint64_t timers_ns, asked_ns;
	unsigned int looks;
	bool crowded;
	/* handover: the epoch, where it ends, and the first of others' fragments after it */
	uint64_t turn, turn_end_ns, fragments_at;
	struct pipeline_books books;
	uint64_t runs_in, runs_in_packets, flow_runs_out;
	uint32_t last_hash_in, last_hash_out;
	uint64_t now_ns; /* latest capture time known */
	uint64_t elapsed_cycles;
	struct base_histogram lateness;

	/* filled by worker_finish */
	struct base_parse_stats parse_stats;
	struct reframer_stats reframer_stats;
	struct conntrack_stats conntrack_stats;
	struct gpu_offload_stage_stats infer_stats;
	char infer_note[GPU_OFFLOAD_MESSAGE_SIZE];
	char infer_lost[GPU_OFFLOAD_MESSAGE_SIZE]; /* empty: not lost */
	struct chain_function_stats chain_stats[CHAIN_FUNCTIONS_MAX];
	uint64_t flow_digest;

	/* read by the main thread for progress; relaxed, no partner */
	atomic_uint_least64_t progress BASE_ALIGNED(64);
};

/* Build the stages. On failure worker->error and message are set; destroy is still due. */
int worker_setup(struct worker *worker);
/* Run to the end of the input or until asked to stop. */
void worker_loop(struct worker *worker);
/* Flush what is held, run timers out, collect statistics. */
void worker_finish(struct worker *worker);
void worker_destroy(struct worker *worker);

/* inserted = live + expired + closed + evicted + purged */
bool worker_connections_balance(const struct conntrack_stats *stats);
