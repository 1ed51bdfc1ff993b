/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/stream_choice.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const path[] = { "a.pcap" };

static struct pipeline_config config_of(enum pipeline_stream stream)
{
	struct pipeline_config config;
	pipeline_config_defaults(&config);
	config.paths = path;
	config.paths_count = 1;
	config.stream = stream;
	return config;
}

static bool choose(
	const struct pipeline_config *config, const struct stream_files *files, uint64_t available)
{
	struct stream_choice choice = { .stream = false };
	char message[PIPELINE_MESSAGE_SIZE];
	assert_int_equal(stream_choose(&choice, config, files, 1, available, message), 0);
	assert_true(strlen(choice.why) > 0);
	return choice.stream;
}

static void captures_above_a_share_of_memory_are_streamed(void **)
{
	struct pipeline_config config = config_of(PIPELINE_STREAM_AUTO);
	const uint64_t available = UINT64_C(8) << 30;
	const uint64_t limit = available / 100 * STREAM_MEMORY_PERCENT / STREAM_MEMORY_FACTOR;
	struct stream_files files = { .plain_bytes = limit - 100 };
	assert_false(choose(&config, &files, available));
	files.plain_bytes = limit + 100;
	assert_true(choose(&config, &files, available));
	assert_false(choose(&config, &files, 2 * available));
	files = (struct stream_files){ .packed_bytes = limit / STREAM_PACKED_FACTOR - 100 };
	assert_false(choose(&config, &files, available));
	files.packed_bytes += 200;
	assert_true(choose(&config, &files, available));
	files = (struct stream_files){ .plain_bytes = limit / 2 + 100,
		.packed_bytes = limit / 2 / STREAM_PACKED_FACTOR + 100 };
	assert_true(choose(&config, &files, available));
	/* sizes that would wrap */
	files = (struct stream_files){ .plain_bytes = UINT64_MAX, .packed_bytes = UINT64_MAX };
	assert_true(choose(&config, &files, available));
	assert_false(choose(&config, &files, SIZE_MAX)); /* a machine that does not say */
}

static void the_first_packets_of_a_large_capture_fit(void **)
{
	struct pipeline_config config = config_of(PIPELINE_STREAM_AUTO);
	struct stream_files files = { .plain_bytes = UINT64_C(1) << 40 };
	config.packets_max = 100000;
	assert_false(choose(&config, &files, UINT64_C(8) << 30));
	config.packets_max = UINT64_C(100000000000);
	assert_true(choose(&config, &files, UINT64_C(8) << 30));
}

static void what_is_asked_for_is_done(void **)
{
	struct stream_files small = { .plain_bytes = 1000 };
	struct stream_files large = { .plain_bytes = UINT64_C(1) << 40 };
	struct pipeline_config config = config_of(PIPELINE_STREAM_ON);
	assert_true(choose(&config, &small, 1 << 30));
	config = config_of(PIPELINE_STREAM_OFF);
	assert_false(choose(&config, &large, 1 << 30));
}

static void a_pipe_is_streamed_when_asked_for_and_only_once(void **)
{
	struct stream_choice choice;
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct stream_files files = { .once = "standard input" };
	struct pipeline_config config = config_of(PIPELINE_STREAM_AUTO);
	assert_false(choose(&config, &files, 1000));
	assert_int_equal(stream_choose(&choice, &config, &files, 5, 1000, message), 0);
	config = config_of(PIPELINE_STREAM_ON);
	assert_true(choose(&config, &files, 1000));
	assert_int_equal(stream_choose(&choice, &config, &files, 2, 1000, message), -EINVAL);
	assert_non_null(strstr(message, "stream: got standard input"));
	config = config_of(PIPELINE_STREAM_OFF);
	assert_int_equal(stream_choose(&choice, &config, &files, 2, 1000, message), 0);
}

static void files_are_told_apart(void **)
{
	static const uint8_t gzip[] = { 0x1f, 0x8b, 8, 0, 1 }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
	char folder[] = "choice-XXXXXX";
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	const char *const names[] = { "plain", "tiny", "gzip", "zstd", "nowhere", ".", "pipe",
		"-" };
	const struct {
		const void *bytes;
		size_t size;
	} contents[] = { { "plain text", 10 }, { gzip, 2 }, { gzip, 5 }, { zstd, 4 } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(contents); i++) {
		FILE *file = fopen(names[i], "wb");
		assert_int_equal(
			fwrite(contents[i].bytes, 1, contents[i].size, file), contents[i].size);
		fclose(file);
	}
	assert_int_equal(mkfifo("pipe", 0600), 0);
	struct stream_files files;
	stream_files_look(&files, names, 6);
	assert_int_equal(files.plain_bytes, 12); /* two bytes are no compressed capture */
	assert_int_equal(files.packed_bytes, 9);
	assert_null(files.once);
	stream_files_look(&files, names, BASE_ARRAY_COUNT(names));
	assert_string_equal(files.once, "pipe"); /* and nobody was waited for */
	stream_files_look(&files, names + 7, 1);
	assert_string_equal(files.once, "standard input");
	for (size_t i = 0; i < BASE_ARRAY_COUNT(contents); i++)
		unlink(names[i]);
	unlink("pipe");
	assert_int_equal(chdir(".."), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures_above_a_share_of_memory_are_streamed),
		cmocka_unit_test(the_first_packets_of_a_large_capture_fit),
		cmocka_unit_test(what_is_asked_for_is_done),
		cmocka_unit_test(a_pipe_is_streamed_when_asked_for_and_only_once),
		cmocka_unit_test(files_are_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
