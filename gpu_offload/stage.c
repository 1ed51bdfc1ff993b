/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/stage.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "conntrack/conntrack.h"
#include "gpu_offload/hold.h"
#include "gpu_offload/mark.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PREFETCH_AHEAD = 8 };

/* gpu_offload_flow.phase; memory of a new connection is zero. */
enum { PHASE_TAKING, PHASE_WAITING, PHASE_LABELLED, PHASE_GIVEN_UP };

struct gpu_offload_stage {
	struct gpu_offload_stage_config config;
	const struct conntrack *tracker;
	uint32_t user_offset;
	uint32_t classes;
	struct gpu_offload_backend *backend;
	struct gpu_offload_backend *spare; /* for GPU_OFFLOAD_FULL_CPU; NULL otherwise */
	struct gpu_offload_batcher *batcher;
	struct gpu_offload_hold hold;
	struct gpu_offload_action *actions; /* by label */
	struct gpu_offload_verdict *verdicts;
	float *row;
	/* Packets that gave their flows the depth in this burst: asked when it has passed, so that
	 * no answer comes in its middle, between packets of a flow. */
	const struct base_packet *asking[BASE_BURST_MAX];
	unsigned int asking_count;
	uint64_t now_ns; /* the latest that was told */
	/* After finish: rows asked since the batcher was empty. */
	bool finished;
	uint32_t asked_since;
	struct gpu_offload_stage_stats stats;
};

static inline struct gpu_offload_flow *flow_of(const struct gpu_offload_stage *stage, uint32_t conn)
{
	uint8_t *user = conntrack_user(stage->tracker, conn);
	return (struct gpu_offload_flow *)(user + stage->user_offset);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void keep_verdict(struct gpu_offload_stage *stage, const struct gpu_offload_answer *answer,
	enum gpu_offload_stale stale)
{
	if (stage->config.verdicts_max == 0)
		return;
	if (stage->stats.verdicts == stage->config.verdicts_max) {
		stage->stats.verdicts_lost++;
		return;
	}
	stage->verdicts[stage->stats.verdicts++] = (struct gpu_offload_verdict){
		.magic = "SHVD",
		.version = GPU_OFFLOAD_VERDICT_VERSION,
		.outcome = (uint8_t)answer->outcome,
		.stale = (uint8_t)stale,
		.flow = answer->ticket.conn,
		.generation = answer->ticket.generation,
		.flow_id = answer->ticket.flow_id,
		.asked_ns = answer->asked_ns,
		.answered_ns = answer->answered_ns,
		.label = answer->outcome == GPU_OFFLOAD_ANSWERED
				 ? gpu_offload_model_label(stage->config.model, answer->label)
				 : 0,
		.worker = stage->config.worker,
	};
}

static void steer(struct gpu_offload_stage *stage, uint32_t conn, uint32_t value)
{
	if (stage->config.steer(stage->config.steer_context, conn, value))
		stage->stats.steered_flows++;
	else
		stage->stats.unsteerable_flows++;
}

static void apply(struct gpu_offload_stage *stage, struct gpu_offload_flow *flow,
	const struct gpu_offload_answer *answer)
{
	if (flow->held_first != 0)
		stage->stats.held_answered += gpu_offload_hold_let_go(&stage->hold, flow, false);
	if (answer->outcome != GPU_OFFLOAD_ANSWERED) {
		flow->phase = PHASE_GIVEN_UP;
		stage->stats.given_up++;
		return;
	}
	const struct gpu_offload_action *action = &stage->actions[answer->label];
	flow->phase = PHASE_LABELLED;
	flow->label = (uint16_t)answer->label;
	flow->action = (uint16_t)action->act;
	stage->stats.applied++;
	if (action->act == GPU_OFFLOAD_ACT_STEER)
		steer(stage, answer->ticket.conn, action->value);
}

static enum gpu_offload_stale why_stale(
	const struct gpu_offload_stage *stage, const struct gpu_offload_ticket *ticket)
{
	if (ticket->ended)
		return GPU_OFFLOAD_STALE_ENDED;
	bool waits = conntrack_generation(stage->tracker, ticket->conn) == ticket->generation &&
		     flow_of(stage, ticket->conn)->phase == PHASE_WAITING;
	return waits ? GPU_OFFLOAD_STALE_NOT : GPU_OFFLOAD_STALE_GONE;
}

static void take_answer(void *context, const struct gpu_offload_answer *given)
{
	struct gpu_offload_stage *stage = context;
	struct gpu_offload_answer answer = *given;
	/* A back end that names a class the model does not have has failed. */
	if (answer.outcome == GPU_OFFLOAD_ANSWERED && answer.label >= stage->classes)
		answer.outcome = GPU_OFFLOAD_FAILED;
	if (answer.outcome == GPU_OFFLOAD_ANSWERED) {
		uint64_t state = answer.ticket.flow_id ^ ((uint64_t)answer.label << 48);
		stage->stats.labels[answer.label]++;
		stage->stats.labels_digest += base_rng_splitmix64(&state);
	}
	enum gpu_offload_stale stale = why_stale(stage, &answer.ticket);
	keep_verdict(stage, &answer, stale);
	if (stale == GPU_OFFLOAD_STALE_NOT)
		apply(stage, flow_of(stage, answer.ticket.conn), &answer);
	stage->stats.stale += stale == GPU_OFFLOAD_STALE_GONE;
	stage->stats.ended += stale == GPU_OFFLOAD_STALE_ENDED;
}

/* ---- packets -------------------------------------------------------------------------------- */

static bool is_about(const struct base_packet *packet)
{
	return (packet->conn_flags & BASE_CONN_RELATED) != 0;
}

/* Packets first to next - 1 of a flow with an answer. */
static void act(struct gpu_offload_stage *stage, const struct gpu_offload_flow *flow,
	struct base_burst *burst, unsigned int first, unsigned int next)
{
	uint32_t value = stage->actions[flow->label].value;
	for (unsigned int i = first; i < next; i++) {
		if (flow->action == GPU_OFFLOAD_ACT_DROP) {
			base_burst_drop(burst, i, BASE_DROP_INFER_VERDICT);
			stage->stats.dropped_packets++;
		} else if (!is_about(burst->packets[i])) {
			bool marked = gpu_offload_mark(burst->packets[i], value);
			stage->stats.marked_packets += marked;
			stage->stats.unmarkable_packets += !marked;
		}
	}
}

/* Give the flow's row to the batcher. Answers may come from within, for it and for others. */
static void ask(struct gpu_offload_stage *stage, uint32_t conn,
	const struct gpu_offload_identity *identity, bool ended)
{
	const struct gpu_offload_flow *flow = flow_of(stage, conn);
	const struct gpu_offload_ticket ticket = {
		.conn = conn,
		.generation = conntrack_generation(stage->tracker, conn),
		.flow_id = gpu_offload_flow_id(identity, flow->first_ns),
		.ended = ended,
	};
	uint64_t deadline_ns = stage->config.deadline_ns == 0 || ended
				       ? GPU_OFFLOAD_NO_DEADLINE
				       : stage->now_ns + stage->config.deadline_ns;
	gpu_offload_flow_row(stage->config.features, flow, identity, stage->row);
	stage->stats.asked++;
	gpu_offload_batcher_push(stage->batcher, &ticket, stage->row, deadline_ns, stage->now_ns);
}

/* The flow is over, short of its depth. Behind the end of the packets there is no hurry, and all
 * connections that are left come at one instant: the batcher is emptied before it is full. */
static void ask_ended(struct gpu_offload_stage *stage, uint32_t conn)
{
	struct conntrack_conn view;
	if (conntrack_conn_get(stage->tracker, conn, &view) != 0) {
		stage->stats.too_short++;
		return;
	}
	const struct gpu_offload_identity identity = { .key = view.key,
		.opener_is_1 = view.origin_reversed };
	if (stage->finished && stage->asked_since++ == stage->config.batcher.queue_max) {
		gpu_offload_batcher_finish(stage->batcher, stage->now_ns);
		stage->asked_since = 1;
	}
	ask(stage, conn, &identity, true);
}

/* Take packets out of the burst: their places are emptied. */
static void hold(struct gpu_offload_stage *stage, struct gpu_offload_flow *flow,
	struct base_burst *burst, unsigned int first, unsigned int next, uint64_t now_ns)
{
	for (unsigned int i = first; i < next; i++) {
		stage->stats.held_packets++;
		stage->stats.held_pressed += gpu_offload_hold_add(
			&stage->hold, flow, burst->packets[i], now_ns + stage->config.hold_ns);
		burst->packets[i] = NULL;
	}
}

/* The place behind the packet that gives the flow its depth: `missing` more are needed. */
static unsigned int behind_depth(
	const struct base_burst *burst, unsigned int first, unsigned int next, uint32_t missing)
{
	while (first < next && missing > 0)
		missing -= !is_about(burst->packets[first++]);
	return first;
}

/* Packets first to next - 1 are of one connection. */
static void process_segment(struct gpu_offload_stage *stage, struct base_burst *burst,
	unsigned int first, unsigned int next, uint64_t now_ns)
{
	const struct gpu_offload_stage_config *config = &stage->config;
	struct gpu_offload_flow *flow = flow_of(stage, burst->packets[first]->conn);
	if (flow->phase == PHASE_TAKING) {
		const struct base_packet *packet = burst->packets[first];
		uint32_t missing = config->depth - flow->packets;
		stage->stats.flows += flow->packets == 0;
		flow->owner = (uint8_t)config->worker;
		if (!gpu_offload_flow_take(config->features, flow, &burst->packets[first],
			    next - first, config->depth))
			return;
		flow->phase = PHASE_WAITING;
		stage->asking[stage->asking_count++] = packet;
		first = behind_depth(burst, first, next, missing);
	}
	if (flow->phase == PHASE_WAITING && config->hold_ns > 0 && !flow->ended)
		hold(stage, flow, burst, first, next, now_ns);
	else if (flow->phase == PHASE_WAITING)
		stage->stats.waiting_packets += next - first;
	else if (BASE_UNLIKELY(flow->action == GPU_OFFLOAD_ACT_DROP ||
			       flow->action == GPU_OFFLOAD_ACT_MARK))
		act(stage, flow, burst, first, next);
}

/* The tracker has asked for the first line of a block only. */
static inline void prefetch(
	const struct gpu_offload_stage *stage, const struct base_burst *burst, unsigned int index)
{
	if (index + PREFETCH_AHEAD >= burst->count)
		return;
	uint32_t conn = burst->packets[index + PREFETCH_AHEAD]->conn;
	if (conn != BASE_CONN_NONE)
		BASE_PREFETCH_W(flow_of(stage, conn));
}

/* Close the gaps that held packets have left. */
static void close_gaps(struct gpu_offload_stage *stage, struct base_burst *burst)
{
	unsigned int kept = 0;
	for (unsigned int i = 0; i < burst->count; i++) {
		if (burst->packets[i] != NULL)
			burst->packets[kept++] = burst->packets[i];
	}
	burst->count = (uint16_t)kept;
	base_burst_mark_runs(burst, stage->config.no_runs);
}

/* A tuple may begin anew within a burst: what is held of its old connection goes first. */
static void let_ended_go(struct gpu_offload_stage *stage)
{
	uint32_t count = conntrack_ended_count(stage->tracker);
	for (uint32_t i = 0; i < count; i++) {
		struct gpu_offload_flow *flow = flow_of(stage, conntrack_ended(stage->tracker, i));
		if (flow->packets > 0 && flow->owner != stage->config.worker)
			continue; /* evicted: its stage learns by on_remove */
		flow->ended = true;
		if (flow->held_first != 0)
			stage->stats.held_orphaned +=
				gpu_offload_hold_let_go(&stage->hold, flow, true);
	}
}

void gpu_offload_stage_advance(struct gpu_offload_stage *stage, uint64_t now_ns)
{
	stage->now_ns = now_ns;
	if (stage->config.hold_ns > 0)
		let_ended_go(stage);
	gpu_offload_batcher_advance(stage->batcher, now_ns);
	if (stage->hold.held > 0)
		stage->stats.held_bound += gpu_offload_hold_expire(&stage->hold, now_ns);
}

uint64_t gpu_offload_stage_horizon_ns(const struct gpu_offload_stage *stage, uint64_t now_ns)
{
	uint32_t oldest = stage->hold.oldest;
	if (oldest == 0)
		return now_ns;
	uint64_t time_ns = stage->hold.slots[oldest - 1].packet->time_ns;
	return time_ns < now_ns ? time_ns : now_ns;
}

/* A packet goes on: what its flow's answer says happens to it now. */
static void act_on_popped(
	struct gpu_offload_stage *stage, struct base_burst *burst, unsigned int index)
{
	uint32_t conn = burst->packets[index]->conn;
	if (conn == BASE_CONN_NONE)
		return;
	const struct gpu_offload_flow *flow = flow_of(stage, conn);
	if (flow->phase == PHASE_LABELLED &&
		(flow->action == GPU_OFFLOAD_ACT_DROP || flow->action == GPU_OFFLOAD_ACT_MARK))
		act(stage, flow, burst, index, index + 1);
}

unsigned int gpu_offload_stage_pop(struct gpu_offload_stage *stage, struct base_burst *burst)
{
	struct base_packet *packet;
	burst->count = burst->run_count = burst->drop_count = 0;
	if (stage->hold.let_go == 0)
		return 0;
	while (burst->count < BASE_BURST_MAX &&
		(packet = gpu_offload_hold_pop(&stage->hold)) != NULL) {
		burst->packets[burst->count++] = packet;
		act_on_popped(stage, burst, burst->count - 1u);
	}
	base_burst_mark_runs(burst, stage->config.no_runs);
	return burst->count;
}

bool gpu_offload_stage_lets_go(const struct gpu_offload_stage *stage)
{
	return stage->hold.let_go != 0;
}

void gpu_offload_stage_process(
	struct gpu_offload_stage *stage, struct base_burst *burst, uint64_t now_ns)
{
	uint64_t held = stage->stats.held_packets;
	stage->now_ns = now_ns;
	stage->asking_count = 0;
	stage->stats.packets += burst->count;
	for (unsigned int r = 0; r < burst->run_count; r++) {
		unsigned int first = burst->runs[r].first, end = first + burst->runs[r].count;
		while (first < end) {
			uint32_t conn = burst->packets[first]->conn;
			unsigned int next = first + 1;
			while (next < end && burst->packets[next]->conn == conn)
				next++;
			prefetch(stage, burst, first);
			if (conn == BASE_CONN_NONE)
				stage->stats.untracked_packets += next - first;
			else
				process_segment(stage, burst, first, next, now_ns);
			first = next;
		}
	}
	if (stage->stats.held_packets != held)
		close_gaps(stage, burst);
	for (unsigned int i = 0; i < stage->asking_count; i++) {
		const struct base_packet *packet = stage->asking[i];
		const struct gpu_offload_identity identity = gpu_offload_identity_of(packet);
		ask(stage, packet->conn, &identity, false);
	}
}

void gpu_offload_stage_finish(struct gpu_offload_stage *stage, uint64_t now_ns)
{
	stage->now_ns = now_ns;
	stage->finished = true;
	stage->asked_since = 0;
	gpu_offload_batcher_finish(stage->batcher, now_ns);
	stage->stats.held_bound += gpu_offload_hold_expire(&stage->hold, UINT64_MAX);
}

void gpu_offload_stage_on_remove(struct gpu_offload_stage *stage, uint32_t conn, void *user)
{
	struct gpu_offload_flow *flow =
		(struct gpu_offload_flow *)((uint8_t *)user + stage->user_offset);
	if (flow->held_first != 0)
		stage->stats.held_orphaned += gpu_offload_hold_let_go(&stage->hold, flow, true);
	bool ended = flow->phase == PHASE_TAKING && flow->packets > 0;
	flow->phase = PHASE_GIVEN_UP; /* an answer still to come finds nobody */
	if (!ended)
		return;
	stage->stats.short_flows++;
	if (stage->config.short_packets == 0 || flow->packets < stage->config.short_packets)
		stage->stats.too_short++;
	else
		ask_ended(stage, conn);
}

void gpu_offload_stage_hush(struct gpu_offload_stage *stage)
{
	stage->config.short_packets = 0;
}

/* ---- statistics ----------------------------------------------------------------------------- */

void gpu_offload_stage_stats(
	const struct gpu_offload_stage *stage, struct gpu_offload_stage_stats *stats)
{
	*stats = stage->stats;
	gpu_offload_batcher_stats(stage->batcher, &stats->batcher);
}

const struct gpu_offload_verdict *gpu_offload_stage_verdicts(
	const struct gpu_offload_stage *stage, uint64_t *count)
{
	*count = stage->stats.verdicts;
	return stage->verdicts;
}

const char *gpu_offload_stage_backend(const struct gpu_offload_stage *stage)
{
	return gpu_offload_backend_name(stage->backend);
}

int gpu_offload_stage_lost(const struct gpu_offload_stage *stage, char text[], size_t size)
{
	return gpu_offload_backend_lost(stage->backend, text, size);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int classify_spare(void *server, const float *row, uint32_t *label)
{
	struct gpu_offload_stage *stage = server;
	struct gpu_offload_batch batch = { .count = 1, .inputs = row, .labels = label };
	struct gpu_offload_batch *done;
	int error = gpu_offload_backend_submit(stage->spare, &batch);
	if (error != 0)
		return error;
	while (gpu_offload_backend_poll(stage->spare, &done, 1) == 0)
		; /* a back end of the CPU is done when it has taken a batch */
	return batch.status;
}

static int submit_stage(void *server, struct gpu_offload_batch *batch)
{
	struct gpu_offload_stage *stage = server;
	return gpu_offload_backend_submit(stage->backend, batch);
}

static uint32_t poll_stage(void *server, struct gpu_offload_batch *done[], uint32_t max)
{
	struct gpu_offload_stage *stage = server;
	return gpu_offload_backend_poll(stage->backend, done, max);
}

static void wait_stage(void *server)
{
	struct gpu_offload_stage *stage = server;
	gpu_offload_backend_wait(stage->backend);
}

static int check_config(
	const struct gpu_offload_stage_config *config, uint32_t classes, char why[], size_t size)
{
	uint32_t inputs = gpu_offload_features_inputs(config->features);
	uint32_t depth_max = gpu_offload_features_depth_max(config->features);
	const char *name = gpu_offload_features_name(config->features);
	if (gpu_offload_model_inputs(config->model) != inputs)
		snprintf(why, size, "the model takes %u inputs, expected %u for %s",
			gpu_offload_model_inputs(config->model), inputs, name);
	else if (config->depth > depth_max)
		snprintf(why, size, "depth: got '%u', expected 1..%u for %s", config->depth,
			depth_max, name);
	else
		why[0] = '\0';
	for (uint32_t i = 0; i < config->actions_count && why[0] == '\0'; i++) {
		if (gpu_offload_model_class(config->model, config->actions[i].label) == classes)
			snprintf(why, size, "%s: got label '%u', expected one of the model",
				gpu_offload_act_name(config->actions[i].act),
				config->actions[i].label);
	}
	return why[0] == '\0' ? 0 : -EINVAL;
}

static int allocate(struct gpu_offload_stage *stage)
{
	const struct gpu_offload_stage_config *config = &stage->config;
	stage->actions = base_arena_alloc(
		config->arena, stage->classes * sizeof(*stage->actions), BASE_CACHE_LINE);
	stage->row = base_arena_alloc(config->arena,
		gpu_offload_features_inputs(config->features) * sizeof(float),
		GPU_OFFLOAD_INPUT_ALIGNMENT);
	if (config->verdicts_max > 0)
		stage->verdicts = base_arena_map(
			config->arena, config->verdicts_max * sizeof(*stage->verdicts));
	if (config->hold_ns > 0 &&
		gpu_offload_hold_create(&stage->hold, config->hold_packets, config->arena) != 0)
		return -ENOMEM;
	if (stage->actions == NULL || stage->row == NULL ||
		(config->verdicts_max > 0 && stage->verdicts == NULL))
		return -ENOMEM;
	for (uint32_t i = 0; i < config->actions_count; i++)
		stage->actions[gpu_offload_model_class(config->model, config->actions[i].label)] =
			config->actions[i];
	return 0;
}

static int create_backends(struct gpu_offload_stage *stage, char why[], size_t size)
{
	const struct gpu_offload_stage_config *config = &stage->config;
	struct gpu_offload_backend_config backend = config->server;
	backend.model = config->model;
	backend.rows_max = config->batcher.batch_max;
	backend.batches_max = config->batcher.batches_max;
	char ignored[GPU_OFFLOAD_MESSAGE_SIZE];
	int error =
		gpu_offload_backend_create(&stage->backend, config->backend, &backend, why, size);
	if (error != 0 || config->batcher.full != GPU_OFFLOAD_FULL_CPU)
		return error;
	backend.rows_max = backend.batches_max = 1;
	return gpu_offload_backend_create(&stage->spare, "cpu", &backend, ignored, sizeof(ignored));
}

static int create_batcher(struct gpu_offload_stage *stage)
{
	struct gpu_offload_batcher_config *batcher = &stage->config.batcher;
	batcher->inputs = gpu_offload_features_inputs(stage->config.features);
	batcher->submit = submit_stage;
	batcher->poll = poll_stage;
	batcher->wait = wait_stage;
	batcher->server = stage;
	batcher->classify = classify_spare;
	batcher->answer = take_answer;
	batcher->answer_context = stage;
	batcher->arena = stage->config.arena;
	return gpu_offload_batcher_create(&stage->batcher, batcher);
}

/* So that a device takes rows from where the batcher puts them; why says when it does not. */
static void pin_inputs(struct gpu_offload_stage *stage, char why[], size_t size)
{
	size_t bytes, used = strlen(why);
	void *inputs = gpu_offload_batcher_inputs(stage->batcher, &bytes);
	int error = gpu_offload_backend_pin(stage->backend, inputs, bytes);
	if (error != 0)
		snprintf(why + used, size - used, "; inputs are copied, not pinned: %s",
			strerror(-error));
}

int gpu_offload_stage_create(struct gpu_offload_stage **out,
	const struct gpu_offload_stage_config *config, char why[], size_t size)
{
	uint32_t classes = gpu_offload_model_classes(config->model);
	int error = check_config(config, classes, why, size);
	if (error != 0)
		return error;
	struct gpu_offload_stage *stage =
		base_arena_alloc(config->arena, sizeof(*stage), BASE_CACHE_LINE);
	error = -ENOMEM;
	if (stage != NULL) {
		stage->config = *config;
		stage->classes = classes;
		if (config->depth == 0)
			stage->config.depth = gpu_offload_features_depth_default(config->features);
		error = allocate(stage);
	}
	bool told = false; /* by the back end, whose memory may be a device's */
	if (error == 0) {
		error = create_backends(stage, why, size);
		told = error != 0 && why[0] != '\0';
	}
	if (error == 0)
		error = create_batcher(stage);
	if (error == 0) {
		pin_inputs(stage, why, size);
		*out = stage;
		return 0;
	}
	if (!told)
		snprintf(why, size, "%s", strerror(-error));
	gpu_offload_stage_destroy(stage);
	return error;
}

void gpu_offload_stage_destroy(struct gpu_offload_stage *stage)
{
	if (stage == NULL)
		return;
	const struct gpu_offload_stage_config config = stage->config;
	gpu_offload_backend_destroy(stage->backend);
	gpu_offload_backend_destroy(stage->spare);
	gpu_offload_batcher_destroy(stage->batcher);
	if (stage->verdicts != NULL)
		base_arena_unmap(config.arena, stage->verdicts,
			config.verdicts_max * sizeof(*stage->verdicts));
	if (config.hold_ns > 0)
		gpu_offload_hold_destroy(&stage->hold, config.arena);
	base_arena_free(config.arena, stage->actions, stage->classes * sizeof(*stage->actions));
	base_arena_free(config.arena, stage->row,
		gpu_offload_features_inputs(config.features) * sizeof(float));
	base_arena_free(config.arena, stage, sizeof(*stage));
}

void gpu_offload_stage_attach(
	struct gpu_offload_stage *stage, const struct conntrack *tracker, uint32_t user_offset)
{
	stage->tracker = tracker;
	stage->user_offset = user_offset;
}
