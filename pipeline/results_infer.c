/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow inference in results: the section, and its lines for people. */
#include "pipeline/results.h"

#include <inttypes.h>

static json_t *actions(struct results_builder *builder)
{
	const struct pipeline_infer *infer = &builder->config->infer;
	json_t *list = json_array();
	for (uint32_t i = 0; i < infer->stage.actions_count; i++) {
		const struct gpu_offload_action *action = &infer->stage.actions[i];
		json_t *object = json_object();
		results_put_count(builder, object, "label", action->label);
		results_put_text(builder, object, "act", gpu_offload_act_name(action->act));
		if (action->act == GPU_OFFLOAD_ACT_MARK)
			results_put_count(builder, object, "dscp", action->value);
		if (action->act == GPU_OFFLOAD_ACT_STEER)
			results_put_text(builder, object, "backend", infer->targets[action->value]);
		results_append(builder, list, object);
	}
	return list;
}

json_t *results_infer_options(struct results_builder *builder)
{
	static const char *const fulls[] = { "newest", "oldest", "cpu" };
	static const char *const waits[] = { "poll", "yield", "block" };
	static const char *const modes[] = { "launch", "graph", "persistent" };
	const struct pipeline_infer *infer = &builder->config->infer;
	const struct gpu_offload_batcher_config *batcher = &infer->stage.batcher;
	json_t *object = json_object();
	if (!infer->enabled) {
		json_decref(object);
		return json_null();
	}
	results_put_text(builder, object, "model", infer->model);
	results_put_text(builder, object, "backend", infer->stage.backend);
	results_put_text(builder, object, "taken", builder->result->infer_note);
	results_put_text(builder, object, "mode", modes[infer->stage.server.cuda_mode]);
	results_put_text(builder, object, "wait", waits[infer->stage.server.cuda_wait]);
	results_put_count(builder, object, "watchdog_ns", infer->stage.server.watchdog_ns);
	if (builder->result->infer_lost[0] == '\0')
		results_put(builder, object, "lost", json_null());
	else
		results_put_text(builder, object, "lost", builder->result->infer_lost);
	bool asks = infer->short_flows == PIPELINE_SHORT_CLASSIFY;
	results_put_text(builder, object, "short", asks ? "classify" : "skip");
	results_put_count(builder, object, "min_packets", infer->short_packets);
	results_put_count(builder, object, "batch", batcher->batch_max);
	json_t *preferred = json_array();
	for (uint32_t i = 0; i < batcher->preferred_count; i++)
		results_append(builder, preferred, json_integer(batcher->preferred[i]));
	results_put(builder, object, "preferred", preferred);
	results_put_count(builder, object, "inflight", batcher->batches_max);
	results_put_count(builder, object, "queue", batcher->queue_max);
	results_put_text(builder, object, "full", fulls[batcher->full]);
	results_put_flag(builder, object, "idle", batcher->idle_flush);
	results_put_count(builder, object, "delay_ns", batcher->delay_ns);
	results_put_count(builder, object, "objective_ns", batcher->objective_ns);
	results_put_count(builder, object, "hold_ns", infer->stage.hold_ns);
	results_put_count(builder, object, "held", infer->stage.hold_packets);
	results_put_count(builder, object, "deadline_ns", infer->stage.deadline_ns);
	if (builder->config->clock == PIPELINE_CLOCK_VIRTUAL)
		results_put_count(builder, object, "service_ns", batcher->service_ns);
	else
		results_put(builder, object, "service_ns", json_null());
	results_put(builder, object, "actions", actions(builder));
	return object;
}

static json_t *flows(struct results_builder *builder)
{
	const struct gpu_offload_stage_stats *stats = &builder->result->infer;
	json_t *object = json_object();
	results_put_count(builder, object, "seen", stats->flows);
	results_put_count(builder, object, "short", stats->short_flows);
	results_put_count(builder, object, "too_short", stats->too_short);
	results_put_count(builder, object, "asked", stats->asked);
	results_put_count(builder, object, "answered", stats->batcher.answered);
	results_put_count(builder, object, "on_cpu", stats->batcher.on_cpu);
	results_put_count(builder, object, "rejected", stats->batcher.rejected);
	results_put_count(builder, object, "expired", stats->batcher.expired);
	results_put_count(builder, object, "failed", stats->batcher.failed);
	results_put_count(builder, object, "late", stats->batcher.late);
	results_put_count(builder, object, "applied", stats->applied);
	results_put_count(builder, object, "given_up", stats->given_up);
	results_put_count(builder, object, "stale", stats->stale);
	results_put_count(builder, object, "ended", stats->ended);
	results_put_count(builder, object, "steered", stats->steered_flows);
	results_put_count(builder, object, "unsteerable", stats->unsteerable_flows);
	results_put_count(builder, object, "verdicts", stats->verdicts);
	results_put_count(builder, object, "verdicts_lost", stats->verdicts_lost);
	return object;
}

static json_t *packets(struct results_builder *builder)
{
	const struct gpu_offload_stage_stats *stats = &builder->result->infer;
	json_t *object = json_object();
	results_put_count(builder, object, "in", stats->packets);
	results_put_count(builder, object, "untracked", stats->untracked_packets);
	results_put_count(builder, object, "before_answer", stats->waiting_packets);
	results_put_count(builder, object, "held", stats->held_packets);
	results_put_count(builder, object, "held_answered", stats->held_answered);
	results_put_count(builder, object, "held_bound", stats->held_bound);
	results_put_count(builder, object, "held_pressed", stats->held_pressed);
	results_put_count(builder, object, "held_orphaned", stats->held_orphaned);
	results_put_count(builder, object, "marked", stats->marked_packets);
	results_put_count(builder, object, "unmarkable", stats->unmarkable_packets);
	results_put_count(builder, object, "dropped", stats->dropped_packets);
	return object;
}

static json_t *batches(struct results_builder *builder)
{
	const struct gpu_offload_batcher_stats *stats = &builder->result->infer.batcher;
	const double speed = builder->config->speed;
	json_t *object = json_object(), *delay = json_object();
	results_put_count(builder, object, "count", stats->batches);
	results_put_real(builder, object, "rows_mean",
		results_ratio(stats->in - stats->rejected - stats->expired - stats->on_cpu,
			stats->batches));
	results_put_count(builder, object, "full", stats->full);
	results_put_count(builder, object, "delay", stats->delay);
	results_put_count(builder, object, "deadline", stats->deadline);
	results_put_count(builder, object, "idle", stats->idle);
	results_put_count(builder, object, "final", stats->final);
	results_put_count(builder, object, "limit", stats->limit);
	results_put_count(
		builder, object, "waited_max_ns", (uint64_t)((double)stats->waited_max_ns / speed));
	const struct base_histogram *hold = &stats->delay_ns;
	const struct {
		const char *name;
		double quantile;
	} points[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(points); i++) {
		uint64_t ns = base_histogram_quantile(hold, points[i].quantile);
		results_put_count(builder, delay, points[i].name, (uint64_t)((double)ns / speed));
	}
	results_put(builder, object, "answer_ns", delay);
	return object;
}

/* What the model calls a class. text: GPU_OFFLOAD_LABEL_SIZE. */
static const char *label_name(const struct pipeline_result *result, uint32_t class, char text[])
{
	if (class < PIPELINE_INFER_NAMES_MAX && result->infer_names[class][0] != '\0')
		return result->infer_names[class];
	snprintf(text, GPU_OFFLOAD_LABEL_SIZE, "%" PRIu32, result->infer_labels[class]);
	return text;
}

static json_t *label_names(struct results_builder *builder)
{
	char text[GPU_OFFLOAD_LABEL_SIZE];
	json_t *names = json_array();
	for (uint32_t i = 0; i < builder->result->infer_model.classes; i++)
		results_append(builder, names, json_string(label_name(builder->result, i, text)));
	return names;
}

json_t *results_infer_section(struct results_builder *builder)
{
	const struct pipeline_result *result = builder->result;
	const struct pipeline_infer *infer = &builder->config->infer;
	const struct gpu_offload_stage_stats *stats = &result->infer;
	if (!infer->enabled)
		return json_null();
	json_t *object = json_object(), *model = json_object(), *labels = json_array();
	results_put_text(builder, model, "kind", result->infer_model.text);
	results_put_count(builder, model, "inputs", result->infer_model.inputs);
	results_put_count(builder, model, "classes", result->infer_model.classes);
	results_put_count(builder, model, "parameters", result->infer_model.parameters);
	results_put(builder, object, "model", model);
	results_put_text(
		builder, object, "features", gpu_offload_features_name(infer->stage.features));
	results_put_count(builder, object, "depth",
		infer->stage.depth != 0
			? infer->stage.depth
			: gpu_offload_features_depth_default(infer->stage.features));
	results_put(builder, object, "flows", flows(builder));
	for (uint32_t i = 0; i < result->infer_model.classes; i++)
		results_append(builder, labels, json_integer((json_int_t)stats->labels[i]));
	results_put(builder, object, "labels", labels);
	results_put(builder, object, "label_names", label_names(builder));
	char digest[20];
	snprintf(digest, sizeof(digest), "%016" PRIx64, stats->labels_digest);
	results_put_text(builder, object, "labels_digest", digest);
	results_put(builder, object, "packets", packets(builder));
	results_put(builder, object, "batches", batches(builder));
	return object;
}

void results_infer_print(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	const struct gpu_offload_stage_stats *stats = &result->infer;
	const struct gpu_offload_batcher_stats *batcher = &stats->batcher;
	if (!config->infer.enabled)
		return;
	fprintf(stream, "%-10s %s on %s   %s\n", "infer",
		gpu_offload_features_name(config->infer.stage.features), result->infer_model.text,
		result->infer_note);
	fprintf(stream,
		"%-10s %" PRIu64 " flows = %" PRIu64 " too short + %" PRIu64 " answered + %" PRIu64
		" rejected + %" PRIu64 " expired + %" PRIu64 " failed   %" PRIu64 " stale, %" PRIu64
		" ended short\n",
		"", stats->flows, stats->too_short, batcher->answered, batcher->rejected,
		batcher->expired, batcher->failed, stats->stale, stats->ended);
	fprintf(stream,
		"%-10s %" PRIu64 " batches, %.1f flows each   packets: %" PRIu64
		" before their answer, %" PRIu64 " marked, %" PRIu64 " dropped   %" PRIu64
		" flows steered\n",
		"", batcher->batches,
		results_ratio(batcher->in - batcher->rejected - batcher->expired - batcher->on_cpu,
			batcher->batches),
		stats->waiting_packets, stats->marked_packets, stats->dropped_packets,
		stats->steered_flows);
	char text[GPU_OFFLOAD_LABEL_SIZE];
	fprintf(stream, "%-10s", "labels");
	for (uint32_t i = 0, shown = 0; i < result->infer_model.classes; i++) {
		if (stats->labels[i] == 0)
			continue;
		if (shown++ == 12) {
			fprintf(stream, " ...");
			break;
		}
		fprintf(stream, " %s: %" PRIu64, label_name(result, i, text), stats->labels[i]);
	}
	fprintf(stream, "\n");
}
