/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to command_trace*.c: captures in and out. */
#pragma once

#include "pipeline/command.h"

/* Whole into memory, with progress. */
enum pipeline_exit command_trace_load(struct command *command, const struct options *options,
	const char *path, struct traces_trace **trace, struct traces_load_report *report);
/* As a stream; packets_max 0: all. */
enum pipeline_exit command_trace_open(struct command *command, const char *path,
	uint64_t packets_max, struct traces_packets **packets, struct traces_load_report *report);

/* Damage goes to the error stream, one line each; DAMAGED when there is any. */
enum pipeline_exit command_trace_tell_damage(
	struct command *command, const char *path, const struct traces_load_report *report);

/* The stream to its end into a new file, whose name tells the format. */
enum pipeline_exit command_trace_write(struct command *command, struct traces_packets *packets,
	const char *path, bool nanoseconds, uint32_t snaplen);
