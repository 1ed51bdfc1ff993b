/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace slice, merge, filter: packets as they are, fewer or more of them. */
#include "pipeline/command_trace_transform.h"

#include "pipeline/units.h"

#include <errno.h>
#include <stdio.h>

enum { TEXT_SIZE = 48 };

static void print_kept(struct transform *transform, uint64_t kept, uint64_t read)
{
	char texts[2][TEXT_SIZE];
	FILE *stream = transform_stream(transform);
	if (stream == NULL)
		return;
	units_format_grouped(kept, texts[0], TEXT_SIZE);
	units_format_grouped(read, texts[1], TEXT_SIZE);
	fprintf(stream, "kept %s of the %s packets read\n", texts[0], texts[1]);
}

/* ---- slice ---- */

static enum pipeline_exit check_slice(struct command *command, const struct options *options)
{
	const struct traces_slice_options *slice = &options->transform.slice;
	if (!slice->from.given && !slice->to.given && !slice->one_flow && slice->flows_max == 0 &&
		slice->packets_skip == 0 && slice->packets_max == 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace slice: got nothing to do, expected --from, --to, --flow, --flows, "
			"--skip or --packets");
	if (slice->from.given && slice->to.given && slice->from.absolute == slice->to.absolute &&
		slice->to.time_ns <= slice->from.time_ns)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--to: got a time that is not behind --from, expected a later one");
	return PIPELINE_EXIT_OK;
}

enum pipeline_exit command_trace_slice(struct command *command, struct options *options)
{
	struct transform transform;
	struct traces_slice_report report = { 0 };
	struct traces_packets *made = NULL;
	enum pipeline_exit code = transform_begin(&transform, command, options, "trace slice", 1);
	if (code == PIPELINE_EXIT_OK)
		code = check_slice(command, options);
	if (code == PIPELINE_EXIT_OK)
		code = transform_open(&transform, transform.inputs[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(&transform,
			traces_packets_slice(
				&made, transform.streams[0], &options->transform.slice, &report),
			&made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK) {
		print_kept(&transform, report.packets_out, report.packets_in);
		transform_tell(&transform, report.no_flow,
			"packets without a flow left out, as flows were asked for");
	}
	return transform_end(&transform, code, "judged by their own time");
}

/* ---- merge ---- */

static void print_merged(struct transform *transform)
{
	char text[TEXT_SIZE];
	uint64_t packets = 0;
	FILE *stream = transform_stream(transform);
	for (size_t i = 0; i < transform->reports_count; i++)
		packets += transform->reports[i].packets;
	if (stream == NULL)
		return;
	units_format_grouped(packets, text, TEXT_SIZE);
	fprintf(stream, "merged %s packets of %zu captures\n", text, transform->inputs_count);
}

enum pipeline_exit command_trace_merge(struct command *command, struct options *options)
{
	struct transform transform;
	struct traces_packets *made = NULL;
	enum pipeline_exit code =
		transform_begin(&transform, command, options, "trace merge", options->files_count);
	for (size_t i = 0; i < transform.inputs_count && code == PIPELINE_EXIT_OK; i++)
		code = transform_open(&transform, transform.inputs[i]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(&transform,
			traces_packets_merge(&made, transform.streams, transform.streams_count),
			&made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK)
		print_merged(&transform);
	return transform_end(&transform, code, "kept behind it");
}

/* ---- filter ---- */

static enum pipeline_exit compile(
	struct command *command, const char *expression, struct traces_filter **filter)
{
	char message[TRACES_MESSAGE_SIZE] = "", quoted[TEXT_SIZE];
	if (expression == NULL)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--match: got nothing, expected a pcap filter such as 'tcp port 80'");
	int error = traces_filter_create(filter, expression, message);
	if (error == 0)
		return PIPELINE_EXIT_OK;
	if (error != -EINVAL)
		return command_error(command, PIPELINE_EXIT_RUN, "%s", strerror(-error));
	units_quote(expression, quoted, sizeof(quoted));
	return command_error(command, PIPELINE_EXIT_USAGE,
		"--match: got '%s', expected a pcap filter: %s", quoted, message);
}

enum pipeline_exit command_trace_filter(struct command *command, struct options *options)
{
	struct transform transform;
	struct traces_filter *filter = NULL;
	struct traces_filter_report report = { 0 };
	struct traces_packets *made = NULL;
	enum pipeline_exit code = transform_begin(&transform, command, options, "trace filter", 1);
	if (code == PIPELINE_EXIT_OK)
		code = compile(command, options->transform.expression, &filter);
	if (code == PIPELINE_EXIT_OK)
		code = transform_open(&transform, transform.inputs[0]);
	if (code == PIPELINE_EXIT_OK)
		code = transform_made(&transform,
			traces_packets_filter(&made, transform.streams[0], filter, &report), &made);
	if (code == PIPELINE_EXIT_OK)
		code = transform_write(&transform);
	if (code == PIPELINE_EXIT_OK)
		print_kept(&transform, report.packets_out, report.packets_in);
	code = transform_end(&transform, code, "kept where they were");
	traces_filter_destroy(filter);
	return code;
}
