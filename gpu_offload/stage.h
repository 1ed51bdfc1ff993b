/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stage: tracked bursts in, the same bursts out with what the model said of their flows done to
 * them.
 *
 * A flow's first `depth` packets are taken (flow_features.h); then its row goes to the batcher
 * (batcher.h), and from there to the back end (backend.h). The answer comes back later, is matched
 * by connection index and generation, and acts on the flow's packets from then on. One that comes
 * for a connection which has ended, or whose index has another user by then, is counted as stale
 * and never applied.
 *
 * Packets of a flow whose answer is awaited pass, or are held: each up to hold_ns, at most
 * hold_packets of them (the one that has waited longest goes for another). An answer lets them go,
 * in order and before later ones, and acts on them. Those of a connection that ends meanwhile go on
 * as packets without one.
 *
 * What each label does is set by the configuration; a label without an action is counted only:
 *
 *	mark   the packet's DSCP becomes a value (RFC 2474), checksums are kept right
 *	drop   BASE_DROP_INFER_VERDICT
 *	steer  once: config.steer is told the connection and a target (a backend of a load balancer)
 *
 * A flow that ends before its depth is not asked about, or, with short_packets, is asked about when
 * it ends, with what it has. Nothing is left to act on: such answers are counted and kept for the
 * file, and never applied.
 *
 * Packets without a connection pass and are counted. A flow whose row found no room, expired or
 * failed is given up: its packets pass.
 *
 * Per-connection memory is gpu_offload_flow_bytes() at user_offset of the tracker's block, which
 * the stage does not share.
 *
 * Threads: one stage per worker; the model may be shared. Several stages may stand on one tracker
 * whose workers take turns, each with connections of its own: `worker` of the configuration tells
 * them apart, gpu_offload_flow.owner says whose a connection is, and on_remove is that stage's.
 * Memory: the batcher's, and verdicts_max verdicts, at create. Cost: per packet until the depth is
 * reached as in flow_features.h, one look at the flow's head per run after that.
 *
 *	gpu_offload_stage_create(&stage, &config, why, error);
 *	tracker_config.user_bytes = ... + gpu_offload_stage_user_bytes(&config);
 *	gpu_offload_stage_attach(stage, tracker, user_offset);
 *	...
 *	gpu_offload_stage_advance(stage, now_ns);
 *	while (gpu_offload_stage_pop(stage, &let_go) > 0)   // before the burst
 *		...
 *	gpu_offload_stage_process(stage, &burst, now_ns);   // then compact the burst and use it
 *	while (gpu_offload_stage_pop(stage, &let_go) > 0)   // behind the burst
 *		...
 *	gpu_offload_stage_finish(stage, now_ns);            // before the tracker ends
 *	on_remove -> gpu_offload_stage_on_remove(stage, conn, user)
 */
#pragma once

#include "conntrack/conntrack.h"
#include "gpu_offload/batcher.h"
#include "gpu_offload/flow_features.h"
#include "gpu_offload/model.h"

enum {
	GPU_OFFLOAD_ACTIONS_MAX = 32,
	GPU_OFFLOAD_DSCP_MAX = 63,
	GPU_OFFLOAD_VERDICT_BYTES = 48,
	GPU_OFFLOAD_VERDICT_VERSION = 1,
};

enum gpu_offload_act {
	GPU_OFFLOAD_ACT_NONE,
	GPU_OFFLOAD_ACT_MARK, /* value: DSCP */
	GPU_OFFLOAD_ACT_DROP,
	GPU_OFFLOAD_ACT_STEER, /* value: the caller's */
	GPU_OFFLOAD_ACTS_COUNT
};

/* "none", "mark", ...; never NULL. */
const char *gpu_offload_act_name(enum gpu_offload_act act);

struct gpu_offload_action {
	uint32_t label;
	enum gpu_offload_act act;
	uint32_t value;
};

enum gpu_offload_stale {
	GPU_OFFLOAD_STALE_NOT,
	GPU_OFFLOAD_STALE_GONE,  /* the connection was gone when the answer came */
	GPU_OFFLOAD_STALE_ENDED, /* the flow had ended before its depth when it was asked about */
};

/* One line of the verdicts' file, little-endian. */
struct gpu_offload_verdict {
	char magic[4]; /* "SHVD" */
	uint16_t version;
	uint8_t outcome; /* enum gpu_offload_outcome */
	uint8_t stale;   /* enum gpu_offload_stale: why nothing was applied */
	uint32_t flow, generation;
	uint64_t flow_id;
	uint64_t asked_ns, answered_ns;
	uint32_t label;
	uint32_t worker;
};
static_assert(sizeof(struct gpu_offload_verdict) == GPU_OFFLOAD_VERDICT_BYTES, "no padding");
static_assert(offsetof(struct gpu_offload_verdict, flow) == 8, "format");
static_assert(offsetof(struct gpu_offload_verdict, flow_id) == 16, "format");
static_assert(offsetof(struct gpu_offload_verdict, asked_ns) == 24, "format");
static_assert(offsetof(struct gpu_offload_verdict, label) == 40, "format");

struct gpu_offload_stage_config {
	enum gpu_offload_features features;
	uint32_t depth; /* 0: the features' default */
	/* Ask about flows that end before their depth, with as many packets at least; 0: do not. */
	uint32_t short_packets;
	const struct gpu_offload_model *model;
	const char *backend; /* "auto", "cpu", ... */
	/* How a GPU is reached, and the watchdog: without a clock a GPU that never answers is
	 * waited for without end. model, rows_max, batches_max are the stage's. */
	struct gpu_offload_backend_config server;
	/* inputs, submit, poll, server, classify and answer are the stage's; service_ns, delay_ns
	 * and the rest the caller's. */
	struct gpu_offload_batcher_config batcher;
	uint64_t deadline_ns; /* of a row, from when it is asked; 0: none */
	struct gpu_offload_action actions[GPU_OFFLOAD_ACTIONS_MAX];
	uint32_t actions_count;
	uint64_t hold_ns;      /* 0: packets pass while an answer is awaited */
	uint32_t hold_packets; /* at a time, 1 .. 2^20 */
	bool no_runs;          /* ablation: as base_burst_mark_runs */
	uint64_t verdicts_max; /* kept for a file; 0: none */
	uint32_t worker;       /* < 256; for verdicts, and whose connections are */
	struct base_arena *arena;
	/* A steering verdict; NULL when no action steers. False: nothing to steer there. */
	bool (*steer)(void *context, uint32_t conn, uint32_t value);
	void *steer_context;
};

/* All uint64_t counters up to labels. */
struct gpu_offload_stage_stats {
	uint64_t packets, untracked_packets;
	uint64_t flows;       /* had a packet taken */
	uint64_t asked;       /* rows given to the batcher */
	uint64_t short_flows; /* ended before their depth */
	uint64_t too_short;   /* of those, not asked about: flows = asked + too_short */
	uint64_t stale;       /* answers that came too late to apply */
	uint64_t ended;       /* answers about flows that ended before their depth */
	uint64_t applied, given_up;
	uint64_t waiting_packets; /* passed while their flow's answer was awaited */
	uint64_t
		held_packets; /* = let go by an answer, the bound, for others, without connection */
	uint64_t held_answered, held_bound, held_pressed, held_orphaned;
	uint64_t marked_packets, unmarkable_packets, dropped_packets;
	uint64_t steered_flows, unsteerable_flows;
	uint64_t verdicts, verdicts_lost; /* kept for the file; no room */
	uint64_t labels_digest;           /* order-free sum over (flow id, label) */
	uint64_t labels[GPU_OFFLOAD_CLASSES_MAX];
	struct gpu_offload_batcher_stats batcher;
};

/* Memory that grows with the configuration, in bytes. */
struct gpu_offload_stage_memory {
	uint64_t queue_bytes, batches_bytes, hold_bytes, verdicts_bytes;
};

/* What a stage of this configuration will take; of one that create would refuse, too. */
void gpu_offload_stage_memory(
	const struct gpu_offload_stage_config *config, struct gpu_offload_stage_memory *memory);

struct gpu_offload_stage;

/* why (size bytes): the back end that was taken and the reason, or, on failure, what was wrong.
 * -EINVAL: a model that does not fit the features, a label beyond the model's; -ENOMEM; else
 * gpu_offload_backend_create's. */
int gpu_offload_stage_create(struct gpu_offload_stage **out,
	const struct gpu_offload_stage_config *config, char why[], size_t size);
void gpu_offload_stage_destroy(struct gpu_offload_stage *stage);

/* Of every stage of that configuration. */
uint32_t gpu_offload_stage_user_bytes(const struct gpu_offload_stage_config *config);
/* user_offset: of this stage's part of a connection's block, a multiple of 8. */
void gpu_offload_stage_attach(
	struct gpu_offload_stage *stage, const struct conntrack *tracker, uint32_t user_offset);

/* Answers and bounds that are due. */
void gpu_offload_stage_advance(struct gpu_offload_stage *stage, uint64_t now_ns);
/* Take packets, act on them, hold them: what is left in the burst goes on. Nothing waits to be
 * popped when this is called. */
void gpu_offload_stage_process(
	struct gpu_offload_stage *stage, struct base_burst *burst, uint64_t now_ns);
/* A burst of packets that were held and may go, with the actions on them done: compact it. Returns
 * their number; none are left when it is 0. */
unsigned int gpu_offload_stage_pop(struct gpu_offload_stage *stage, struct base_burst *burst);
/* Whether pop has any. */
bool gpu_offload_stage_lets_go(const struct gpu_offload_stage *stage);
/* No held packet is earlier; now_ns when none is held. */
uint64_t gpu_offload_stage_horizon_ns(const struct gpu_offload_stage *stage, uint64_t now_ns);
/* All answers are in afterwards, and nothing is held. Called again when the tracker has removed
 * what was left: flows that ended so have their answers then. Of these none is rejected for want
 * of room. */
void gpu_offload_stage_finish(struct gpu_offload_stage *stage, uint64_t now_ns);
/* From now on no flow that ends is asked about: for a run that is to stop soon. */
void gpu_offload_stage_hush(struct gpu_offload_stage *stage);
/* user: the tracker's whole block. May ask, so answers may come from within. */
void gpu_offload_stage_on_remove(struct gpu_offload_stage *stage, uint32_t conn, void *user);

void gpu_offload_stage_stats(
	const struct gpu_offload_stage *stage, struct gpu_offload_stage_stats *stats);
/* Sums, but for the largest wait and the least limit. */
void gpu_offload_stage_stats_add(
	struct gpu_offload_stage_stats *sum, const struct gpu_offload_stage_stats *part);
/* Kept verdicts in the order they came; *count of them. */
const struct gpu_offload_verdict *gpu_offload_stage_verdicts(
	const struct gpu_offload_stage *stage, uint64_t *count);
const char *gpu_offload_stage_backend(const struct gpu_offload_stage *stage);
/* As gpu_offload_backend_lost: flows that were asked of it since have failed. */
int gpu_offload_stage_lost(const struct gpu_offload_stage *stage, char text[], size_t size);
