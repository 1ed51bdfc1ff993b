/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to command_trace*.c: captures in and out. */
#pragma once

#include "pipeline/command.h"

/* As a stream; packets_max 0: all. */
enum pipeline_exit command_trace_open(struct command *command, const char *path,
	uint64_t packets_max, struct traces_packets **packets, struct traces_load_report *report);

struct command_trace_progress {
	struct progress line; /* progress_end(&line) before anything else is printed */
	uint64_t next_bytes;
};

/* The same, and how far it was read stands on a terminal; *progress must outlive the stream. */
enum pipeline_exit command_trace_open_shown(struct command *command, const struct options *options,
	const char *path, struct command_trace_progress *progress, struct traces_packets **packets,
	struct traces_load_report *report);

enum pipeline_exit command_trace_open_as(struct command *command, const char *path,
	const struct traces_load_options *options, struct traces_packets **packets,
	struct traces_load_report *report);

/* What is not as the input had it goes to the error stream: times that were set, columns and
 * packets that have no place. */
void command_trace_tell_changes(
	struct command *command, const char *path, const struct traces_load_report *report);

/* Damage goes to the error stream, one line each; DAMAGED when there is any. */
enum pipeline_exit command_trace_tell_damage(
	struct command *command, const char *path, const struct traces_load_report *report);

/* The stream to its end into a new file, whose name tells the format. */
enum pipeline_exit command_trace_write(struct command *command, struct traces_packets *packets,
	const char *path, bool nanoseconds, uint32_t snaplen);
/* The same as asked for. What the format could not hold is told on the error stream. */
enum pipeline_exit command_trace_write_as(struct command *command, struct traces_packets *packets,
	const char *path, const struct traces_writer_options *options);

/* For messages. */
const char *command_trace_output_name(const char *path);

/* ---- command_trace_convert.c: from and to other formats ---- */

void command_convert_load_options(
	struct traces_load_options *load, const struct options_convert *convert);
/* nanoseconds: what the times need. */
void command_convert_writer_options(struct traces_writer_options *writer, const char *path,
	const struct options_convert *convert, bool nanoseconds);
