/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration file: YAML with the options' names (docs/configuration.md). Hostile input is
 * refused in one line that names file, line and what was expected.
 */
#pragma once

#include "pipeline/options.h"

enum { CONFIG_FILE_BYTES_MAX = 1 << 20 };

/* Set what the file says. 0, -EINVAL, -ENOMEM or an error of the system, with message
 * (PIPELINE_MESSAGE_SIZE). */
int config_file_read(struct options *options, const char *path, char *message);

/* The same for bytes at hand; path is for messages. */
int config_file_parse(struct options *options, const char *path, const uint8_t *text,
	size_t text_size, char *message);
