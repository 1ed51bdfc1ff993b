/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the command share: cmocka in the order it wants, options from one line. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/config_file.h"
#include "pipeline/options.h"

enum { TEST_ARGUMENTS_MAX = 64, TEST_LINE_SIZE = 2048 };

/* Read a command line, cut at spaces; fails the test when it is refused. */
static inline struct options *test_options(enum options_command command, const char *line)
{
	static char message[PIPELINE_MESSAGE_SIZE];
	char text[TEST_LINE_SIZE], *argv[TEST_ARGUMENTS_MAX];
	struct options *options;
	int argc = 0;
	assert_int_equal(options_create(&options, command), 0);
	snprintf(text, sizeof(text), "%s", line);
	for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;) {
		if (*word != '\0')
			argv[argc++] = word;
	}
	if (options_parse(options, argc, argv, message) != 0)
		fail_msg("'%s' is refused: %s", line, message);
	return options;
}
