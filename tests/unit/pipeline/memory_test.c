/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory before a run: what a made-up machine can give, and what is said when it is too little. */
#include "tests/unit/pipeline/test.h"

#include "pipeline/infer.h"
#include "pipeline/memory.h"
#include "pipeline/run_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MB = 1 << 20 };

/* A machine's files below a folder of its own. */
static char root[] = "/tmp/sheaf-memory-XXXXXX";

static int make_root(void **state)
{
	(void)state;
	strcpy(root + strlen(root) - 6, "XXXXXX");
	return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command); // NOLINT: a name that mkdtemp made
}

static void put(const char *path, const char *text)
{
	char whole[512];
	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		(void)mkdir(whole, 0700);
		*at = '/';
	}
	FILE *file = fopen(whole, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void put_meminfo(void)
{
	put("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  7 kB\nMemAvailable:    8192 kB\n");
}

static void nothing_known(void **state)
{
	(void)state;
	assert_true(pipeline_memory_available(root) == UINT64_MAX);
	put("proc/meminfo", "nonsense\n");
	assert_true(pipeline_memory_available(root) == UINT64_MAX);
}

static void what_the_machine_says(void **state)
{
	(void)state;
	put_meminfo();
	assert_int_equal(pipeline_memory_available(root), 8 * MB);
	put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n");
	put("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
	assert_int_equal(pipeline_memory_available(root), (8 + 6) * MB);
	assert_int_equal(pipeline_memory_plain(root), 8 * MB);
	assert_int_equal(pipeline_memory_huge_free(root), 6 * MB);
	put("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "2\n");
	assert_int_equal(pipeline_memory_huge_free(root), 2 * MB);
	put("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "5\n");
	assert_int_equal(pipeline_memory_huge_free(root), 0);
}

static void groups_of_version_2(void **state)
{
	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "0::/outer/inner\n");
	put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
	put("sys/fs/cgroup/outer/inner/memory.current", "5\n");
	assert_int_equal(pipeline_memory_available(root), 8 * MB);
	/* What the group above leaves is less; its caches can be taken back. */
	put("sys/fs/cgroup/outer/memory.max", "6291456\n");
	put("sys/fs/cgroup/outer/memory.current", "4194304\n");
	assert_int_equal(pipeline_memory_available(root), 2 * MB);
	put("sys/fs/cgroup/outer/memory.stat",
		"anon 1\nactive_file 1048576\ninactive_file 524288\n");
	assert_int_equal(pipeline_memory_available(root), 3 * MB + MB / 2);
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "2000\n");
	assert_int_equal(pipeline_memory_available(root), 0);
}

static void groups_of_version_1(void **state)
{
	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "5:cpu:/elsewhere\n4:memory:/a/b\n0::/\n");
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4194304\n");
	put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "2097152\n");
	put("sys/fs/cgroup/memory/a/b/memory.stat", "active_file 7\ntotal_inactive_file 1048576\n");
	assert_int_equal(pipeline_memory_available(root), 3 * MB);
	/* No limit stands as a number near 2^63. */
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(pipeline_memory_available(root), 8 * MB);
}

static void what_is_said(void **state)
{
	const struct pipeline_memory_part parts[] = {
		{ "connections", 100 * (uint64_t)MB, { "--conns", "--workers" } },
		{ "batches", 50 * (uint64_t)MB, { "--workers", "batch", "inflight" } },
		{ "crumbs", MB, { "--crumbs" } },
	};
	char message[PIPELINE_MESSAGE_SIZE] = "untouched";
	(void)state;
	assert_int_equal(
		pipeline_memory_check(parts, 3, 151 * (uint64_t)MB, message, sizeof(message)), 0);
	assert_string_equal(message, "untouched");
	assert_int_equal(
		pipeline_memory_check(parts, 3, 151 * (uint64_t)MB - 1, message, sizeof(message)),
		-ENOMEM);
	assert_string_equal(message,
		"the run needs 151 MB (connections 100, batches 50), the machine has 150 MB free: "
		"lower --conns, --workers, batch or inflight");
	/* A sum beyond what 64 bits hold is more than any machine has. */
	const struct pipeline_memory_part huge[] = { { .name = "a", .bytes = UINT64_MAX - 1 },
		{ .name = "b", .bytes = UINT64_MAX - 1 } };
	assert_int_equal(
		pipeline_memory_check(huge, 2, UINT64_MAX - 1, message, sizeof(message)), -ENOMEM);
}

static uint64_t connections_bytes(const struct pipeline_config *config)
{
	struct pipeline_memory_part parts[PIPELINE_MEMORY_PARTS_MAX];
	(void)run_memory_parts(parts, config, 1518, 4096, 1000);
	assert_string_equal(parts[0].name, "connections");
	return parts[0].bytes;
}

/* A tracker of 2 M connections took 142 bytes for each, and 226 with windows. */
static void connections_are_counted(void **state)
{
	struct pipeline_config config;
	(void)state;
	pipeline_config_defaults(&config);
	config.conntrack.entries_max = 2000000;
	config.workers = 2;
	uint64_t plain = connections_bytes(&config);
	assert_in_range(plain / 4000000, 135, 160);
	config.sharing = PIPELINE_SHARING_MUTEX;
	assert_int_equal(connections_bytes(&config), plain);
	config.sharing = PIPELINE_SHARING_BUCKET_LOCK;
	assert_true(connections_bytes(&config) >= plain + plain / 4);
	config.sharing = PIPELINE_SHARING_SHARD;
	config.conntrack.tcp_windows = CONNTRACK_TCP_WINDOWS_STRICT;
	assert_in_range(connections_bytes(&config) / 4000000, 215, 240);
}

/* The largest values that --infer allows, on a machine of 16 GB: each is named. */
static void inference_is_counted(void **state)
{
	struct pipeline_memory_part parts[PIPELINE_MEMORY_PARTS_MAX];
	struct pipeline_config config;
	char message[PIPELINE_MESSAGE_SIZE];
	uint64_t before = 0, after = 0;
	(void)state;
	pipeline_config_defaults(&config);
	size_t count = run_memory_parts(parts, &config, 1518, 4096, 1000);
	for (size_t i = 0; i < count; i++)
		before += parts[i].bytes;
	config.infer.enabled = true;
	config.infer.stage.features = GPU_OFFLOAD_IMG1600;
	config.infer.stage.batcher.queue_max = GPU_OFFLOAD_QUEUE_MAX;
	config.infer.stage.batcher.batch_max = GPU_OFFLOAD_ROWS_MAX;
	config.infer.stage.batcher.batches_max = GPU_OFFLOAD_BATCHES_MAX;
	config.infer.stage.hold_ns = 1;
	config.infer.stage.hold_packets = 1 << 20;
	count = run_memory_parts(parts, &config, 1518, 4096, 1000);
	for (size_t i = 0; i < count; i++)
		after += parts[i].bytes;
	/* Rows alone: 2^20 wait, and 64 batches of 2^16. */
	assert_true(after - before > ((UINT64_C(1) << 20) + (UINT64_C(1) << 22)) * 6400);
	assert_int_equal(
		pipeline_memory_check(parts, count, UINT64_C(16) << 30, message, sizeof(message)),
		-ENOMEM);
	assert_non_null(strstr(message, "--infer queue="));
	assert_non_null(strstr(message, "--infer inflight="));
	assert_non_null(strstr(message, "16384 MB free"));
	/* Twice the workers, twice the memory. */
	config.workers = 2;
	uint64_t twice = 0;
	count = run_memory_parts(parts, &config, 1518, 4096, 1000);
	for (size_t i = 0; i < count; i++)
		twice += parts[i].bytes;
	assert_int_equal(twice, 2 * after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_are_counted),
		cmocka_unit_test_setup_teardown(nothing_known, make_root, remove_root),
		cmocka_unit_test_setup_teardown(what_the_machine_says, make_root, remove_root),
		cmocka_unit_test_setup_teardown(groups_of_version_2, make_root, remove_root),
		cmocka_unit_test_setup_teardown(groups_of_version_1, make_root, remove_root),
		cmocka_unit_test(what_is_said),
		cmocka_unit_test(inference_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
