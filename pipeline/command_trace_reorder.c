/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace shuffle, regroup: the same packets in another order. */
#include "pipeline/command_trace_transform.h"

#include <errno.h>
#include <stdio.h>

/* ---- shuffle ---- */

static enum pipeline_exit check_shuffle(
	struct command *command, const struct traces_shuffle_options *shuffle)
{
	if (shuffle->window_packets > 0 && shuffle->window_ns > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace shuffle: got --window and --time, expected one of them");
	if (shuffle->window_packets == 0 && shuffle->window_ns == 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace shuffle: got no window, expected --window N or --time T");
	return PIPELINE_EXIT_OK;
}

static enum pipeline_exit report_shuffle(
	struct transform *transform, const struct traces_shuffle_report *report)
{
	const struct traces_shuffle_options *shuffle = &transform->options->transform.shuffle;
	struct results_builder builder = { .failed = false };
	json_t *settings = json_object(), *told = json_object();
	results_put_count(&builder, settings, "window_packets", shuffle->window_packets);
	results_put_count(&builder, settings, "window_ns", shuffle->window_ns);
	results_put_flag(&builder, settings, "keep_times", shuffle->keep_times);
	results_put_flag(&builder, settings, "flow_order", shuffle->flow_order);
	results_put_count(&builder, settings, "seed", shuffle->seed);
	results_put_count(&builder, told, "blocks", report->blocks);
	results_put_count(&builder, told, "blocks_cut", report->blocks_cut);
	transform_tell(transform, report->blocks_cut,
		"windows cut in two: they hold more than is held in memory");
	return transform_report(transform, &builder, settings, told, NULL);
}

enum pipeline_exit command_trace_shuffle(struct command *command, struct options *options)
{
	const struct traces_shuffle_options *shuffle = &options->transform.shuffle;
	struct transform transform;
	struct traces_shuffle_report report = { 0 };
	struct traces_packets *made = NULL;
	enum pipeline_exit code = transform_begin(&transform, command, options, "trace shuffle", 1);
	if (code == PIPELINE_EXIT_OK)
		code = check_shuffle(command, shuffle);
	if (code == PIPELINE_EXIT_OK)
		code = transform_open(&transform, transform.inputs[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(&transform, &transform.before, &transform.streams[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(&transform,
			traces_packets_shuffle(&made, transform.streams[0], shuffle, &report),
			&made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(&transform, &transform.after, &transform.packets);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK)
		code = report_shuffle(&transform, &report);
	return transform_end(&transform, code,
		shuffle->keep_times ? "kept with their packets" : "kept where they were");
}

/* ---- regroup ---- */

static enum pipeline_exit report_regroup(
	struct transform *transform, const struct traces_regroup_report *report)
{
	const struct traces_regroup_options *regroup = &transform->options->transform.regroup;
	struct results_builder builder = { .failed = false };
	json_t *settings = json_object(), *told = json_object();
	results_put_count(&builder, settings, "delay_ns", regroup->delay_ns);
	results_put_count(&builder, settings, "run_packets", regroup->run_packets);
	results_put_count(&builder, settings, "held_packets_max", regroup->held_max);
	results_put_flag(&builder, settings, "keep_times", regroup->keep_times);
	results_put_count(&builder, told, "groups", report->groups);
	results_put_count(&builder, told, "groups_early", report->groups_early);
	results_put_count(&builder, told, "no_flow", report->no_flow);
	results_put_count(&builder, told, "peak_held_packets", report->peak_held);
	transform_tell(transform, report->groups_early,
		"groups let go before their time: as many packets were held as may be");
	return transform_report(transform, &builder, settings, told, NULL);
}

enum pipeline_exit command_trace_regroup(struct command *command, struct options *options)
{
	const struct traces_regroup_options *regroup = &options->transform.regroup;
	struct transform transform;
	struct traces_regroup_report report = { 0 };
	struct traces_packets *made = NULL;
	enum pipeline_exit code = transform_begin(&transform, command, options, "trace regroup", 1);
	if (code == PIPELINE_EXIT_OK)
		code = transform_open(&transform, transform.inputs[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(&transform, &transform.before, &transform.streams[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(&transform,
			traces_packets_regroup(&made, transform.streams[0], regroup, &report),
			&made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_observe(&transform, &transform.after, &transform.packets);
	transform.nanoseconds =
		transform.nanoseconds || (!regroup->keep_times && regroup->delay_ns % 1000 != 0);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK)
		code = report_regroup(&transform, &report);
	return transform_end(&transform, code, "counted as simultaneous");
}
