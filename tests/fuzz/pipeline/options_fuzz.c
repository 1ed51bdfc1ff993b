/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a command line: the first chooses the command, NUL and newline part arguments. Files
 * named by --config are left alone: an input must not choose what is read. */
#include "pipeline/options.h"

#include <stdlib.h>

enum { ARGUMENTS_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char message[PIPELINE_MESSAGE_SIZE] = "", *argv[ARGUMENTS_MAX];
	struct options *options;
	int argc = 0;
	if (size == 0 || options_create(&options, data[0] % OPTIONS_COMMANDS_COUNT) != 0)
		return 0;
	char *text = malloc(size);
	if (text != NULL) {
		memcpy(text, data + 1, size - 1);
		text[size - 1] = '\0';
		for (size_t i = 0; i < size - 1; i++) {
			if (text[i] == '\n')
				text[i] = '\0';
		}
		for (char *at = text; at < text + size && argc < ARGUMENTS_MAX;
			at += strlen(at) + 1) {
			if (strncmp(at, "--config", 8) != 0 && strncmp(at, "-c", 2) != 0)
				argv[argc++] = at;
		}
		int error = options_parse(options, argc, argv, message);
		if ((error != 0) != (message[0] != '\0'))
			abort();
		for (const char *at = message; *at != '\0'; at++) {
			if (*at < 0x20 || *at == 0x7f)
				abort();
		}
	}
	free(text);
	options_destroy(options);
	return 0;
}
