/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STOP_CHECK_PACKETS = 1 << 16 };

struct builder {
	struct schedule *schedule;
	uint64_t capacity[PIPELINE_WORKERS_MAX];
	uint64_t capacity_first; /* all packets when there is one worker */
	uint64_t fragments_capacity;
};

static int grow(struct builder *builder, unsigned int worker)
{
	uint64_t capacity = builder->capacity[worker] == 0 ? builder->capacity_first
							   : builder->capacity[worker] * 2;
	struct schedule_entry *entries = realloc(
		builder->schedule->entries[worker], capacity * sizeof(struct schedule_entry));
	if (entries == NULL)
		return -ENOMEM;
	builder->schedule->entries[worker] = entries;
	builder->capacity[worker] = capacity;
	return 0;
}

static int add_fragment(struct builder *builder, const struct planner_step *step, uint32_t record)
{
	struct schedule *schedule = builder->schedule;
	if (schedule->fragments_count == builder->fragments_capacity) {
		uint64_t capacity = 2 * builder->fragments_capacity + 64;
		struct schedule_fragment *fragments =
			realloc(schedule->fragments, capacity * sizeof(struct schedule_fragment));
		if (fragments == NULL)
			return -ENOMEM;
		schedule->fragments = fragments;
		builder->fragments_capacity = capacity;
	}
	schedule->fragments[schedule->fragments_count++] =
		(struct schedule_fragment){ step->time_ns, record, step->worker };
	return 0;
}

static int append(struct builder *builder, const struct planner_step *step, uint32_t record)
{
	struct schedule *schedule = builder->schedule;
	unsigned int worker = step->worker;
	if (schedule->counts[worker] == builder->capacity[worker]) {
		int error = grow(builder, worker);
		if (error != 0)
			return error;
	}
	schedule->entries[worker][schedule->counts[worker]++] =
		(struct schedule_entry){ step->time_ns, record,
			step->flags | (uint32_t)step->group << SCHEDULE_GROUP_SHIFT };
	return BASE_UNLIKELY(step->first_fragment) ? add_fragment(builder, step, record) : 0;
}

static int plan(struct builder *builder, struct planner *planner, const struct traces_trace *trace,
	const atomic_bool *stop)
{
	struct planner_step steps[PLANNER_BATCH];
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	const uint8_t *bytes = traces_trace_bytes(trace);
	for (size_t at = 0; at < count; at += PLANNER_BATCH) {
		/* no partner: a hint */
		if (at % STOP_CHECK_PACKETS == 0 &&
			atomic_load_explicit(stop, memory_order_relaxed))
			return -EINTR;
		size_t rest = count - at;
		unsigned int batch = rest < PLANNER_BATCH ? (unsigned int)rest : PLANNER_BATCH;
		int error = planner_plan(planner, records + at, bytes, batch, steps);
		for (unsigned int i = 0; i < batch && error == 0; i++)
			error = append(builder, &steps[i], (uint32_t)(at + i));
		if (error != 0)
			return error;
	}
	return 0;
}

int schedule_create(struct schedule *schedule, const struct pipeline_config *config,
	const struct traces_trace *trace, const atomic_bool *stop, char *message)
{
	struct builder builder = { .schedule = schedule, .capacity_first = 4096 };
	struct planner *planner;
	size_t count;
	traces_trace_records(trace, &count);
	memset(schedule, 0, sizeof(*schedule));
	if (count >= UINT32_MAX) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "more than 2^32 - 2 packets");
		return -EFBIG;
	}
	if (config->workers == 1)
		builder.capacity_first = count;
	int error = planner_create(&planner, config, UINT64_MAX, message);
	if (error != 0)
		return error;
	error = plan(&builder, planner, trace, stop);
	if (error == 0)
		planner_summary(planner, &schedule->plan);
	else
		schedule_destroy(schedule);
	planner_destroy(planner);
	return error;
}

void schedule_destroy(struct schedule *schedule)
{
	for (unsigned int i = 0; i < PIPELINE_WORKERS_MAX; i++)
		free(schedule->entries[i]);
	free(schedule->fragments);
	memset(schedule, 0, sizeof(*schedule));
}
