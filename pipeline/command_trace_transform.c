/* SPDX-License-Identifier: BSD-2-Clause */
/* What commands that make a capture out of captures have in common. */
#include "pipeline/command_trace_transform.h"

#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { TEXT_SIZE = 48, LABEL_WIDTH = 26, COLUMN_WIDTH = 16, FILES_BESIDE = 64 };

static bool is_stdio(const char *path)
{
	return strcmp(path, "-") == 0;
}

static enum pipeline_exit out_of_memory(struct transform *transform)
{
	return command_error(transform->command, PIPELINE_EXIT_RUN, "out of memory");
}

/* ---- files ---- */

static enum pipeline_exit take_files(struct transform *transform)
{
	struct options *options = transform->options;
	transform->inputs = options->files;
	if (options->command == OPTIONS_TRACE_MERGE) {
		transform->output = options->output;
		transform->inputs_count = options->files_count;
		if (options->output == NULL)
			return command_error(transform->command, PIPELINE_EXIT_USAGE,
				"--output: got nothing, expected the capture to write");
		if (options->files_count == 0)
			return command_error(transform->command, PIPELINE_EXIT_USAGE,
				"%s: got no file, expected captures", transform->name);
		return PIPELINE_EXIT_OK;
	}
	if (options->files_count != 2)
		return command_error(transform->command, PIPELINE_EXIT_USAGE,
			"%s: got %zu files, expected one to read and one to write", transform->name,
			options->files_count);
	transform->inputs_count = 1;
	transform->output = options->files[1];
	return PIPELINE_EXIT_OK;
}

static enum pipeline_exit check_files(struct transform *transform)
{
	struct command *command = transform->command;
	const char *json = transform->options->json;
	enum pipeline_exit code = command_check_once(
		command, transform->name, transform->inputs, transform->inputs_count);
	if (code != PIPELINE_EXIT_OK)
		return code;
	if (json != NULL && is_stdio(json) && is_stdio(transform->output))
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--json: got -, where the capture goes, expected a file");
	if (json != NULL && command_same_file(json, transform->output))
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--json: got %s, where the capture goes, expected another file", json);
	return command_check_output(command, transform->inputs, transform->inputs_count,
		transform->name, transform->output);
}

/* Every stream has a file open. Where so many are refused, opening says so. */
static void allow_files(uint64_t count)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + FILES_BESIDE)
		return;
	limit.rlim_cur =
		count + FILES_BESIDE < limit.rlim_max ? count + FILES_BESIDE : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

enum pipeline_exit transform_begin(struct transform *transform, struct command *command,
	struct options *options, const char *name, size_t streams_max)
{
	*transform = (struct transform){
		.command = command,
		.options = options,
		.name = name,
		.nanoseconds = options->nanoseconds,
		.streams_max = streams_max,
	};
	enum pipeline_exit code = take_files(transform);
	if (code == PIPELINE_EXIT_OK)
		code = check_files(transform);
	if (code != PIPELINE_EXIT_OK)
		return code;
	transform->streams = calloc(streams_max, sizeof(struct traces_packets *));
	transform->reports = calloc(streams_max, sizeof(*transform->reports));
	if (transform->streams == NULL || transform->reports == NULL)
		return out_of_memory(transform);
	allow_files(streams_max);
	return PIPELINE_EXIT_OK;
}

/* ---- streams ---- */

enum pipeline_exit transform_open(struct transform *transform, const char *path)
{
	struct traces_packets *packets;
	struct traces_batch batch;
	struct traces_load_report *report = &transform->reports[transform->reports_count];
	BASE_ASSERT(transform->streams_count < transform->streams_max);
	enum pipeline_exit code = command_trace_open(transform->command, path, 0, &packets, report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	transform->streams[transform->streams_count++] = packets;
	transform->reports_count++;
	int error = traces_packets_peek(packets, &batch);
	if (error == -EINTR)
		return command_error(transform->command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (error)
		return command_error(
			transform->command, PIPELINE_EXIT_INPUT, "%s: %s", path, strerror(-error));
	for (size_t i = 0; i < batch.count; i++)
		transform->links |= 1u << batch.records[i].link;
	transform->nanoseconds = transform->nanoseconds || report->nanoseconds;
	return PIPELINE_EXIT_OK;
}

static int see(void *context, const struct traces_batch *batch)
{
	return traces_info_collector_add(context, batch);
}

enum pipeline_exit transform_observe(struct transform *transform,
	struct traces_info_collector **collector, struct traces_packets **packets)
{
	struct traces_packets *tap;
	if (transform->options->json == NULL && transform_stream(transform) == NULL)
		return PIPELINE_EXIT_OK;
	if (traces_info_collector_create(collector, &transform->options->info) != 0 ||
		traces_packets_tap(&tap, *packets, see, *collector) != 0)
		return out_of_memory(transform);
	*packets = tap;
	return PIPELINE_EXIT_OK;
}

enum pipeline_exit transform_made(
	struct transform *transform, int error, struct traces_packets **made)
{
	if (error == -ENOMEM)
		return out_of_memory(transform);
	if (error)
		return command_error(transform->command, PIPELINE_EXIT_RUN, "%s: %s",
			transform->name, strerror(-error));
	transform->packets = *made;
	transform->streams_count = 0;
	return PIPELINE_EXIT_OK;
}

/* ---- writing ---- */

static const char *link_name(unsigned int link)
{
	return traces_link_name(traces_link_number((enum base_link)link));
}

/* pcap holds one link type; what can be known of that before anything is written, is. */
static enum pipeline_exit refuse_links(struct transform *transform)
{
	unsigned int first = (unsigned int)__builtin_ctz(transform->links);
	unsigned int second =
		(unsigned int)__builtin_ctz(transform->links & (transform->links - 1));
	return command_error(transform->command, PIPELINE_EXIT_INPUT,
		"%s: got packets of link types %s and %s, expected one: write pcapng",
		transform->output, link_name(first), link_name(second));
}

enum pipeline_exit transform_write(struct transform *transform)
{
	struct traces_writer_options options;
	traces_writer_options_defaults(&options, transform->output, transform->nanoseconds);
	options.snaplen = TRACES_RECORD_BYTES_MAX;
	if (__builtin_popcount(transform->links) > 1) {
		if (is_stdio(transform->output)) /* no name says what it should be */
			options.format = TRACES_FORMAT_PCAPNG;
		else if (options.format == TRACES_FORMAT_PCAP_US ||
			 options.format == TRACES_FORMAT_PCAP_NS)
			return refuse_links(transform);
	}
	return command_trace_write_as(
		transform->command, transform->packets, transform->output, &options);
}

/* ---- telling ---- */

/* Of several streams of one capture, the last copy's has read furthest. */
static const struct traces_load_report *report_of(const struct transform *transform, size_t input)
{
	size_t index = transform->inputs_count == 1 ? transform->reports_count - 1 : input;
	return &transform->reports[index];
}

void transform_tell(const struct transform *transform, uint64_t count, const char *what)
{
	if (count != 0)
		command_error(transform->command, PIPELINE_EXIT_OK, "%s: %" PRIu64 " %s",
			command_trace_output_name(transform->output), count, what);
}

FILE *transform_stream(const struct transform *transform)
{
	if (transform->options->quiet)
		return NULL;
	return is_stdio(transform->output)
		       ? transform->command->err
		       : command_table_stream(transform->command, transform->options);
}

static void tell_backwards(struct transform *transform, const char *path,
	const struct traces_load_report *report, const char *times_policy)
{
	if (report->time_backwards != 0)
		command_error(transform->command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets are earlier than the one before: %s",
			is_stdio(path) ? "standard input" : path, report->time_backwards,
			times_policy);
}

/* ---- table ---- */

static void row_text(FILE *stream, const char *label, const char *before, const char *after)
{
	fprintf(stream, "%-*s%*s%*s\n", LABEL_WIDTH, label, COLUMN_WIDTH, before, COLUMN_WIDTH,
		after);
}

/* "~12": what is not exact says so. */
static const char *sign(enum traces_exactness exactness)
{
	static const char *const signs[] = { "", "~", ">=", "<=" };
	return signs[exactness];
}

/* A figure with how exact it is. */
struct cell {
	uint64_t value;
	enum traces_exactness exactness;
};

static void row_count(FILE *stream, const char *label, struct cell before, struct cell after)
{
	char number[TEXT_SIZE], texts[2][2 * TEXT_SIZE];
	units_format_grouped(before.value, number, TEXT_SIZE);
	snprintf(texts[0], sizeof(texts[0]), "%s%s", sign(before.exactness), number);
	units_format_grouped(after.value, number, TEXT_SIZE);
	snprintf(texts[1], sizeof(texts[1]), "%s%s", sign(after.exactness), number);
	row_text(stream, label, texts[0], texts[1]);
}

static void row_real(FILE *stream, const char *label, int places, double before, double after)
{
	char texts[2][TEXT_SIZE];
	snprintf(texts[0], TEXT_SIZE, "%.*f", places, before);
	snprintf(texts[1], TEXT_SIZE, "%.*f", places, after);
	row_text(stream, label, texts[0], texts[1]);
}

static void row_slf(FILE *stream, const char *label, const double *values,
	const enum traces_exactness *exactness)
{
	char texts[2][TEXT_SIZE];
	for (int i = 0; i < 2; i++)
		snprintf(texts[i], TEXT_SIZE, "%s%.3f", sign(exactness[i]), values[i]);
	row_text(stream, label, texts[0], texts[1]);
}

/* Each sentence on a line of its own. */
static void print_note(FILE *stream, const char *note)
{
	for (const char *end; (end = strstr(note, ". ")) != NULL; note = end + 2)
		fprintf(stream, "%.*s\n", (int)(end + 1 - note), note);
	fprintf(stream, "%s\n", note);
}

static double per_second(uint64_t count, const struct traces_info *info)
{
	return info->duration_ns == 0 ? 0 : (double)count * 1e9 / (double)info->duration_ns;
}

static void print_rates(
	FILE *stream, const struct traces_info *before, const struct traces_info *after)
{
	row_real(stream, "seconds", 6, (double)before->duration_ns / 1e9,
		(double)after->duration_ns / 1e9);
	row_real(stream, "Mpps", 4, per_second(before->packets, before) / 1e6,
		per_second(after->packets, after) / 1e6);
	row_real(stream, "Gb/s on the wire", 4, per_second(before->wire_bytes, before) * 8e-9,
		per_second(after->wire_bytes, after) * 8e-9);
}

static void print_locality(
	FILE *stream, const struct traces_info *before, const struct traces_info *after)
{
	row_real(stream, "SLF", 3, before->slf, after->slf);
	row_slf(stream, "  grouped in 64 packets",
		(double[]){ before->slf_window_packets[0], after->slf_window_packets[0] },
		(enum traces_exactness[]){ before->slf_window_packets_exactness[0],
			after->slf_window_packets_exactness[0] });
	row_slf(stream, "  grouped in 64 us",
		(double[]){ before->slf_window_time[1], after->slf_window_time[1] },
		(enum traces_exactness[]){ before->slf_window_time_exactness[1],
			after->slf_window_time_exactness[1] });
}

static void print_table(FILE *stream, const struct traces_info *before,
	const struct traces_info *after, uint64_t idle_timeout_ns)
{
	char timeout[TEXT_SIZE], label[2 * TEXT_SIZE];
	units_format_time_ns(idle_timeout_ns, timeout, sizeof(timeout));
	row_text(stream, "", "before", "after");
	row_count(stream, "packets", (struct cell){ before->packets, TRACES_EXACT },
		(struct cell){ after->packets, TRACES_EXACT });
	print_rates(stream, before, after);
	row_count(stream, "flows", (struct cell){ before->flows, before->flows_exactness },
		(struct cell){ after->flows, after->flows_exactness });
	print_locality(stream, before, after);
	snprintf(label, sizeof(label), "insertions, %s idle", timeout);
	row_count(stream, label, (struct cell){ before->insertions, before->insertions_exactness },
		(struct cell){ after->insertions, after->insertions_exactness });
	row_count(stream, "live at once",
		(struct cell){ before->peak_live, before->peak_live_exactness },
		(struct cell){ after->peak_live, after->peak_live_exactness });
	row_count(stream, "time runs backwards",
		(struct cell){ before->time_backwards, TRACES_EXACT },
		(struct cell){ after->time_backwards, TRACES_EXACT });
}

/* ---- document ---- */

static json_t *capture(struct transform *transform, const char *path,
	const struct traces_load_report *report, const struct traces_info *info)
{
	struct traces_load_report written = { .nanoseconds = transform->nanoseconds };
	return results_trace_info(path, report != NULL ? report : &written, info);
}

enum pipeline_exit transform_report(struct transform *transform, struct results_builder *builder,
	json_t *settings, json_t *told, const char *note)
{
	struct traces_info before, after;
	FILE *stream = transform_stream(transform);
	json_t *document = json_object();
	if (transform->before == NULL || transform->after == NULL) { /* quiet, no document */
		json_decref(settings);
		json_decref(told);
		json_decref(document);
		return PIPELINE_EXIT_OK;
	}
	traces_info_collector_finish(transform->before, &before);
	traces_info_collector_finish(transform->after, &after);
	if (stream != NULL) {
		print_table(stream, &before, &after, transform->options->info.idle_timeout_ns);
		if (note != NULL)
			print_note(stream, note);
	}
	results_put_text(builder, document, "schema", RESULTS_TRANSFORM_SCHEMA);
	results_put_text(builder, document, "transform", transform->name + sizeof("trace"));
	results_put(builder, document, "options", settings);
	results_put(builder, document, "before",
		capture(transform, transform->inputs[0], report_of(transform, 0), &before));
	results_put(
		builder, document, "after", capture(transform, transform->output, NULL, &after));
	results_put(builder, document, "told", told);
	results_put_text(builder, document, "note", note);
	if (builder->failed) {
		json_decref(document);
		document = NULL;
	}
	return command_json_write(transform->command, transform->options, document);
}

/* ---- end ---- */

static enum pipeline_exit tell_inputs(struct transform *transform, const char *times_policy)
{
	enum pipeline_exit worst = PIPELINE_EXIT_OK;
	for (size_t i = 0; i < transform->inputs_count && i < transform->reports_count; i++) {
		const struct traces_load_report *report = report_of(transform, i);
		tell_backwards(transform, transform->inputs[i], report, times_policy);
		command_trace_tell_changes(transform->command, transform->inputs[i], report);
		enum pipeline_exit code =
			command_trace_tell_damage(transform->command, transform->inputs[i], report);
		worst = code != PIPELINE_EXIT_OK ? code : worst;
	}
	return worst;
}

enum pipeline_exit transform_end(
	struct transform *transform, enum pipeline_exit code, const char *times_policy)
{
	traces_packets_destroy(transform->packets);
	for (size_t i = 0; i < transform->streams_count; i++)
		traces_packets_destroy(transform->streams[i]);
	if (code == PIPELINE_EXIT_OK)
		code = tell_inputs(transform, times_policy);
	traces_info_collector_destroy(transform->before);
	traces_info_collector_destroy(transform->after);
	free(transform->streams);
	free(transform->reports);
	return code;
}
