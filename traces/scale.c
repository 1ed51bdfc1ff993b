/* SPDX-License-Identifier: BSD-2-Clause */
/* More traffic from a capture: shifted copies with addresses of their own, and a faster clock. */
#include "base/remap.h"
#include "traces/heads.h"
#include "traces/parsing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide_time;

struct scale {
	struct traces_packets packets;
	struct traces_heads heads;
	struct traces_scale_options options;
	struct traces_scale_report *report;
	struct traces_trace *batch;
	struct base_parser *parser; /* finds headers for the address remap; NULL for one copy */
	bool started;
	uint64_t first_ns; /* of copy 0 */
	uint64_t seq;
	bool *played; /* by copy: it had packets */
};

/* Exact for whole speeds; others are rounded toward the first packet, by less than 1 ns + 1e-19 of
 * the distance. */
static wide_time divide(wide_time distance, double speed)
{
	if (speed >= 1 && speed < 1e15 && speed == floor(speed))
		return distance / (int64_t)speed;
	long double quotient = (long double)distance / speed;
	const long double limit = 4e18L; /* more than any time, less than what fits */
	if (quotient > limit)
		return (wide_time)limit * 4;
	return quotient < -limit ? -(wide_time)limit * 4 : (wide_time)quotient;
}

static uint64_t scaled_time(struct scale *scale, uint16_t copy, uint64_t time_ns)
{
	const struct traces_scale_options *options = &scale->options;
	wide_time distance = (wide_time)time_ns - scale->first_ns;
	distance += (wide_time)options->shift_ns * copy;
	distance -= (wide_time)options->window_ns * copy;
	wide_time placed = scale->first_ns + divide(distance, options->speed);
	if (BASE_LIKELY(placed >= 0 && placed <= (wide_time)TRACES_TIME_NS_MAX))
		return (uint64_t)placed;
	scale->report->time_clamped++;
	return placed < 0 ? 0 : TRACES_TIME_NS_MAX;
}

static uint64_t scale_place(struct traces_packets *packets, uint16_t copy, uint64_t time_ns)
{
	struct scale *scale = (struct scale *)packets;
	/* Copies are asked in their order: copy 0's first packet comes before all others. */
	if (BASE_UNLIKELY(!scale->started)) {
		scale->started = true;
		scale->first_ns = time_ns;
	}
	scale->played[copy] = true;
	return scaled_time(scale, copy, time_ns);
}

static void remap_batch(struct scale *scale)
{
	size_t count = traces_trace_count(scale->batch);
	const struct traces_record *records = traces_trace_mutable_records(scale->batch);
	uint8_t *bytes = scale->batch->bytes.data;
	for (size_t i = 0; i < count; i++) {
		struct base_packet packet;
		if (records[i].file == 0 || records[i].cap_len == 0)
			continue;
		traces_packet_from_record(&packet, &records[i], bytes, scale->seq++);
		if (base_parse_packet(scale->parser, &packet) == BASE_PARSE_FLOW)
			base_remap_packet(&packet, records[i].file);
	}
}

static int scale_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct scale *scale = (struct scale *)packets;
	traces_trace_clear(scale->batch);
	int error = traces_heads_take(&scale->heads, scale->batch);
	if (error)
		return error;
	if (scale->parser != NULL)
		remap_batch(scale);
	*batch = traces_trace_batch(scale->batch);
	if (batch->count == 0) {
		for (uint32_t i = 0; i < scale->options.copies; i++)
			scale->report->copies_empty += !scale->played[i];
	}
	return 0;
}

static void scale_free(struct scale *scale)
{
	traces_trace_destroy(scale->batch);
	base_parser_destroy(scale->parser);
	free(scale->played);
	free(scale);
}

static void scale_destroy(struct traces_packets *packets)
{
	struct scale *scale = (struct scale *)packets;
	traces_heads_destroy(&scale->heads);
	scale_free(scale);
}

static const struct traces_packets_ops scale_ops = { scale_next, scale_destroy };

static int scale_setup(struct scale *scale, struct traces_packets *const *inputs)
{
	uint32_t copies = scale->options.copies;
	scale->played = calloc(copies, sizeof(*scale->played));
	if (scale->played == NULL)
		return -ENOMEM;
	int error = traces_trace_create(&scale->batch);
	if (error == 0 && copies > 1)
		error = traces_parser_create(&scale->parser);
	if (error == 0)
		error = traces_heads_init(&scale->heads, inputs, copies);
	return error;
}

int traces_packets_scale(struct traces_packets **out, struct traces_packets *const *inputs,
	const struct traces_scale_options *options, struct traces_scale_report *report)
{
	if (options->copies == 0 || options->copies > TRACES_COPIES_MAX || !(options->speed > 0) ||
		!isfinite(options->speed))
		return -EINVAL;
	struct scale *scale = calloc(1, sizeof(*scale));
	memset(report, 0, sizeof(*report));
	if (scale == NULL)
		return -ENOMEM;
	scale->options = *options;
	scale->report = report;
	scale->packets.ops = &scale_ops;
	scale->heads.owner = &scale->packets;
	scale->heads.place = scale_place;
	int error = scale_setup(scale, inputs);
	if (error) {
		scale_free(scale);
		return error;
	}
	*out = &scale->packets;
	return 0;
}
