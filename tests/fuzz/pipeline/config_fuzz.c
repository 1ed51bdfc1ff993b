/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a configuration file: taken, or refused in one printable line. */
#include "pipeline/config_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct options *options;
	if (options_create(&options, OPTIONS_REPLAY) != 0)
		return 0;
	int error = config_file_parse(options, "x.yaml", data, size, message);
	if ((error != 0) != (message[0] != '\0'))
		abort();
	for (const char *at = message; *at != '\0'; at++) {
		if (*at < 0x20 || *at == 0x7f)
			abort();
	}
	if (error == 0) /* what was taken must bear a check */
		(void)pipeline_config_check(&options->config, message);
	options_destroy(options);
	return 0;
}
