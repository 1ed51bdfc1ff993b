/* SPDX-License-Identifier: BSD-2-Clause */
/* Items of --infer. */
#include "pipeline/options_private.h"
#include "pipeline/units.h"

#include <errno.h>
#include <stdlib.h>

#define INFER(field)   offsetof(struct pipeline_infer, field)
#define BATCHER(field) offsetof(struct pipeline_infer, stage.batcher.field)

int options_parse_infer(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	(void)message;
	options->config.infer.enabled = strcmp(text, "on") == 0;
	return 0;
}

/* A number up to `most` at the front of *text; *text moves behind it. */
static int take_number(const char **text, uint32_t most, uint32_t *value)
{
	uint64_t number = 0;
	const char *at = *text;
	for (; *at >= '0' && *at <= '9' && number <= most; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	if (at == *text || number > most)
		return -EINVAL;
	*text = at;
	*value = (uint32_t)number;
	return 0;
}

/* Take an action's earlier list away: the last one counts. */
static void forget(struct gpu_offload_stage_config *stage, enum gpu_offload_act act)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < stage->actions_count; i++) {
		if (stage->actions[i].act != act)
			stage->actions[kept++] = stage->actions[i];
	}
	stage->actions_count = kept;
}

/* "3", "1:46", "0:b2", by act. */
static bool take_action(struct options *options, struct pipeline_infer *infer,
	enum gpu_offload_act act, const char *word)
{
	struct gpu_offload_stage_config *stage = &infer->stage;
	struct gpu_offload_action action = { .act = act };
	if (stage->actions_count == GPU_OFFLOAD_ACTIONS_MAX ||
		take_number(&word, GPU_OFFLOAD_CLASSES_MAX - 1, &action.label) != 0)
		return false;
	for (uint32_t i = 0; i < stage->actions_count; i++) {
		if (stage->actions[i].label == action.label)
			return false; /* one label, one action */
	}
	if (act != GPU_OFFLOAD_ACT_DROP && *word++ != ':')
		return false;
	if (act == GPU_OFFLOAD_ACT_MARK &&
		take_number(&word, GPU_OFFLOAD_DSCP_MAX, &action.value) != 0)
		return false;
	if (act == GPU_OFFLOAD_ACT_STEER) {
		char *name = options_keep_text(options, word, strlen(word));
		if (name == NULL || *name == '\0')
			return false;
		/* A place that no other steering uses. */
		while (infer->targets[action.value] != NULL)
			if (++action.value == GPU_OFFLOAD_ACTIONS_MAX)
				return false;
		infer->targets[action.value] = name;
		word += strlen(word);
	}
	if (*word != '\0')
		return false;
	stage->actions[stage->actions_count++] = action;
	return true;
}

static int parse_actions(struct options *options, void *target, const char *text,
	enum gpu_offload_act act, const char *expected, char *message)
{
	struct pipeline_infer *infer = target;
	char *rest = options_keep_text(options, text, strlen(text));
	if (rest == NULL)
		return options_refuse_memory(message);
	forget(&infer->stage, act);
	if (act == GPU_OFFLOAD_ACT_STEER)
		memset(infer->targets, 0, sizeof(infer->targets));
	for (char *word; (word = options_split(&rest, "+")) != NULL;) {
		if (!take_action(options, infer, act, word))
			return options_refuse(message, text, "%s", expected);
	}
	return 0;
}

static int parse_mark(struct options *options, void *target, const char *text, char *message)
{
	return parse_actions(options, target, text, GPU_OFFLOAD_ACT_MARK,
		"LABEL:DSCP, such as 1:46+2:10, each label once", message);
}

static int parse_drop(struct options *options, void *target, const char *text, char *message)
{
	return parse_actions(options, target, text, GPU_OFFLOAD_ACT_DROP,
		"labels, such as 3+4, each label once", message);
}

static int parse_steer(struct options *options, void *target, const char *text, char *message)
{
	return parse_actions(options, target, text, GPU_OFFLOAD_ACT_STEER,
		"LABEL:BACKEND, such as 0:b1+2:b2, each label once", message);
}

static int parse_preferred(struct options *options, void *target, const char *text, char *message)
{
	struct gpu_offload_batcher_config *batcher =
		&((struct pipeline_infer *)target)->stage.batcher;
	char *rest = options_keep_text(options, text, strlen(text));
	uint32_t last = 0;
	if (rest == NULL)
		return options_refuse_memory(message);
	batcher->preferred_count = 0;
	for (char *word; (word = options_split(&rest, "+")) != NULL;) {
		const char *at = word;
		uint32_t size;
		if (batcher->preferred_count == GPU_OFFLOAD_PREFERRED_MAX ||
			take_number(&at, GPU_OFFLOAD_ROWS_MAX, &size) != 0 || *at != '\0' ||
			size <= last)
			return options_refuse(
				message, text, "up to 8 rising sizes, such as 64+128+256");
		batcher->preferred[batcher->preferred_count++] = last = size;
	}
	return 0;
}

static int parse_backend(struct options *options, void *target, const char *text, char *message)
{
	struct pipeline_infer *infer = target;
	char names[256] = "auto";
	for (size_t i = 0; gpu_offload_backend_nth(i) != NULL; i++) {
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "|%s",
			gpu_offload_backend_nth(i)->name);
	}
	if (strcmp(text, "auto") != 0 && gpu_offload_backend_by_name(text) == NULL)
		return options_refuse(message, text, "%s", names);
	infer->stage.backend = options_keep_text(options, text, strlen(text));
	return infer->stage.backend != NULL ? 0 : options_refuse_memory(message);
}

const struct options_row options_infer_items[OPTIONS_INFER_ITEMS] = {
	{ "model", "FILE", "what classifies flows, an ONNX file", OPTIONS_KIND_TEXT,
		.offset = INFER(model) },
	{ "features", "NAME", "what it is given: spi30|stat67|n3ic20|img1600", OPTIONS_KIND_CHOICE,
		.offset = INFER(stage.features), .choices = "spi30|stat67|n3ic20|img1600" },
	{ "depth", "N", "packets of a flow that are looked at", OPTIONS_KIND_COUNT32,
		.offset = INFER(stage.depth), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "short", "WHAT", "flows that end before their depth: skip|classify when they end",
		OPTIONS_KIND_CHOICE, .offset = INFER(short_flows), .choices = "skip|classify" },
	{ "min", "N", "packets that a short flow must have to be classified", OPTIONS_KIND_COUNT32,
		.offset = INFER(short_packets), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "backend", "NAME", "what runs the model: auto, cpu-ref, cpu, ...", OPTIONS_KIND_CUSTOM,
		.parse = parse_backend, .otherwise = "auto" },
	{ "mode", "NAME", "how batches reach a GPU: launch|graph|persistent", OPTIONS_KIND_CHOICE,
		.offset = INFER(stage.server.cuda_mode), .choices = "launch|graph|persistent" },
	{ "wait", "HOW", "how to wait for a GPU: poll|yield|block", OPTIONS_KIND_CHOICE,
		.offset = INFER(stage.server.cuda_wait), .choices = "poll|yield|block" },
	{ "watchdog", "T", "give a GPU up that does not answer a batch within T", OPTIONS_KIND_TIME,
		.offset = INFER(stage.server.watchdog_ns), .low = 1000000,
		.high = OPTIONS_YEAR_NS },
	{ "cuda-library", "FILE", "instead of libcuda.so.1, such as a test double",
		OPTIONS_KIND_TEXT, .offset = INFER(stage.server.cuda_library) },
	{ "batch", "N", "flows in a batch at most", OPTIONS_KIND_COUNT32,
		.offset = BATCHER(batch_max), .low = 1, .high = GPU_OFFLOAD_ROWS_MAX },
	{ "preferred", "LIST", "sizes at which a batch leaves at once, such as 64+128",
		OPTIONS_KIND_CUSTOM, .parse = parse_preferred },
	{ "delay", "T", "longest time that a flow waits for its batch", OPTIONS_KIND_TIME,
		.offset = BATCHER(delay_ns), .low = 0, .high = OPTIONS_YEAR_NS },
	{ "inflight", "N", "batches with the back end at a time", OPTIONS_KIND_COUNT32,
		.offset = BATCHER(batches_max), .low = 1, .high = GPU_OFFLOAD_BATCHES_MAX },
	{ "queue", "N", "flows that wait at a time", OPTIONS_KIND_COUNT32,
		.offset = BATCHER(queue_max), .low = 1, .high = GPU_OFFLOAD_QUEUE_MAX },
	{ "full", "WHAT", "when the queue is full: newest|oldest is given up, cpu classifies it",
		OPTIONS_KIND_CHOICE, .offset = BATCHER(full), .choices = "newest|oldest|cpu" },
	{ "idle", NULL, "send at once what waits when nothing is with the back end",
		OPTIONS_KIND_SWITCH, .offset = BATCHER(idle_flush) },
	{ "objective", "T", "adapt the batch to answer within T; 0 means not", OPTIONS_KIND_TIME,
		.offset = BATCHER(objective_ns), .low = 0, .high = OPTIONS_YEAR_NS },
	{ "deadline", "T", "give a flow up that did not leave within T; 0 means never",
		OPTIONS_KIND_TIME, .offset = INFER(stage.deadline_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "hold", "T", "hold packets of a flow while its answer is awaited; 0 means they pass",
		OPTIONS_KIND_TIME, .offset = INFER(stage.hold_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "held", "N", "packets held so at a time", OPTIONS_KIND_COUNT32,
		.offset = INFER(stage.hold_packets), .low = 1, .high = 1 << 20 },
	{ "service", "T", "with the virtual clock: when answers come after a batch left",
		OPTIONS_KIND_TIME, .offset = BATCHER(service_ns), .low = 0,
		.high = OPTIONS_YEAR_NS },
	{ "mark", "LIST", "LABEL:DSCP+...: packets of such flows get a DSCP", OPTIONS_KIND_CUSTOM,
		.parse = parse_mark },
	{ "drop", "LIST", "LABEL+...: packets of such flows are dropped", OPTIONS_KIND_CUSTOM,
		.parse = parse_drop },
	{ "steer", "LIST", "LABEL:BACKEND+...: such flows go to a backend of the chain's lb",
		OPTIONS_KIND_CUSTOM, .parse = parse_steer },
	{ "verdicts", "FILE", "write what was said of each flow", OPTIONS_KIND_TEXT,
		.offset = INFER(verdicts) },
};
