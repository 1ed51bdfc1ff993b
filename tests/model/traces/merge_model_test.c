/* SPDX-License-Identifier: BSD-2-Clause */
/* The merge of random files against choosing the earliest file head anew for every packet. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <stdio.h>

enum { FILES_MAX = 9, PACKETS_MAX = 60 };

struct random_files {
	size_t count;
	uint32_t seconds[FILES_MAX][PACKETS_MAX];
	size_t packets[FILES_MAX];
	char text[FILES_MAX][600];
	const char *paths[FILES_MAX];
};

static void files_make(struct random_files *files, void **state, struct base_rng *rng)
{
	files->count = base_rng_below(rng, FILES_MAX) + 1;
	for (size_t i = 0; i < files->count; i++) {
		struct captures_bytes file = { 0 };
		captures_pcap_header(&file, CAPTURES_MAGIC_US, 65535, 1);
		files->packets[i] = base_rng_below(rng, PACKETS_MAX);
		uint32_t now = (uint32_t)base_rng_below(rng, 50) + 50;
		for (size_t j = 0; j < files->packets[i]; j++) {
			/* steps back, too; equal times between files are frequent */
			now += (uint32_t)base_rng_below(rng, 5);
			now -= base_rng_below(rng, 8) == 0 ? 3 : 0;
			files->seconds[i][j] = now;
			captures_pcap_record(&file, now, 0, 2, 2, (uint8_t)j);
		}
		char name[32];
		snprintf(name, sizeof(name), "%zu.pcap", i);
		snprintf(files->text[i], sizeof(files->text[i]), "%s",
			captures_write(*state, name, &file));
		files->paths[i] = files->text[i];
		captures_release(&file);
	}
}

static size_t earliest(const struct random_files *files, const size_t *next)
{
	size_t best = FILES_MAX;
	for (size_t i = 0; i < files->count; i++) {
		if (next[i] < files->packets[i] &&
			(best == FILES_MAX ||
				files->seconds[i][next[i]] < files->seconds[best][next[best]]))
			best = i;
	}
	return best;
}

static void merging_agrees_with_the_model(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		static struct random_files files;
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		files_make(&files, state, &rng);
		struct traces_load_options options;
		traces_load_options_defaults(&options);
		options.merge = true;
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		assert_int_equal(
			traces_trace_load(&trace, files.paths, files.count, &options, &report), 0);
		size_t count, next[FILES_MAX] = { 0 };
		const struct traces_record *records = traces_trace_records(trace, &count);
		for (size_t i = 0; i < count; i++) {
			size_t file = earliest(&files, next);
			if (records[i].file != file ||
				traces_trace_bytes(trace)[records[i].offset] != next[file])
				fail_msg("seed %llu: packet %zu", (unsigned long long)seed, i);
			next[file]++;
		}
		assert_int_equal(earliest(&files, next), FILES_MAX);
		traces_trace_destroy(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merging_agrees_with_the_model),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
