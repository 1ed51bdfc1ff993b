/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/pipeline.h"

#include <errno.h>
#include <math.h>

static const char *const paths[] = { "a.pcap" };

static struct pipeline_config good(void)
{
	struct pipeline_config config;
	pipeline_config_defaults(&config);
	config.paths = paths;
	config.paths_count = 1;
	return config;
}

static void refused(const struct pipeline_config *config, const char *word)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	assert_int_equal(pipeline_config_check(config, message), -EINVAL);
	if (strstr(message, word) == NULL || strchr(message, '\n') != NULL)
		fail_msg("message '%s' does not name '%s' on one line", message, word);
}

static void defaults_with_a_capture_are_accepted(void **)
{
	char message[PIPELINE_MESSAGE_SIZE];
	struct pipeline_config config = good();
	assert_int_equal(pipeline_config_check(&config, message), 0);
	config.reframer_enabled = true;
	assert_int_equal(pipeline_config_check(&config, message), 0);
}

static void impossible_sizes_are_refused_by_name(void **)
{
	struct pipeline_config config = good();
	config.burst = 0;
	refused(&config, "burst");
	config.burst = 257;
	refused(&config, "burst");
	config = good();
	config.workers = 0;
	refused(&config, "workers");
	config = good();
	config.overlay = PIPELINE_OVERLAY_MAX + 1;
	refused(&config, "overlay");
	config = good();
	config.speed = (double)NAN;
	refused(&config, "speed");
	config = good();
	config.reframer_enabled = true;
	config.reframer.held_flows_max = config.reframer.held_packets_max + 1;
	refused(&config, "flows");
}

static void combinations_that_cannot_work_are_refused(void **)
{
	struct pipeline_config config = good();
	config.paths_count = 0;
	refused(&config, "capture");
	config = good();
	config.sink = PIPELINE_SINK_FILE;
	refused(&config, "sink");
	config.sink_path = "out.pcap";
	config.repeats = 2;
	refused(&config, "repeat");
	config = good();
	config.source = PIPELINE_SOURCE_PORT;
	config.source_port = "net_null0";
	refused(&config, "clock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_with_a_capture_are_accepted),
		cmocka_unit_test(impossible_sizes_are_refused_by_name),
		cmocka_unit_test(combinations_that_cannot_work_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
