/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a GPU does when it is told to stop, and what the back end does when it does not answer in
 * time. gpu_check stop|watchdog [LIBCUDA]. One line of CSV for each mode: what, mode, us, text.
 *
 *	stop      from telling the back end to end until it has: the kernel that stays hears it
 *	watchdog  a bound that no device keeps (1 us): the batch comes back with -ETIMEDOUT, and the
 *	          back end ends without waiting for the device
 */
#include "gpu_offload/gpu_offload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 4096, LATE_MS = 2000 };

static uint64_t now_ns(void *unused)
{
	struct timespec time;
	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* One mode; 0: as it should be. */
static int check(
	const struct gpu_offload_model *model, int mode, bool watchdog, const char *library)
{
	static const char *const modes[] = { "launch", "graph", "persistent" };
	static _Alignas(64) float rows[ROWS * 64];
	static uint32_t labels[ROWS];
	char why[GPU_OFFLOAD_MESSAGE_SIZE], lost[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	struct gpu_offload_backend *backend;
	struct gpu_offload_batch *done;
	struct gpu_offload_batch batch = { .count = ROWS, .inputs = rows, .labels = labels };
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = ROWS,
		.batches_max = 1,
		.cuda_mode = (enum gpu_offload_cuda_mode)mode,
		.cuda_library = library,
		.clock_ns = now_ns,
		.watchdog_ns = watchdog ? 1000 : UINT64_C(10000000000),
	};
	if (gpu_offload_backend_create(&backend, "cuda", &config, why, sizeof(why)) != 0) {
		printf("%s,%s,,%s\n", watchdog ? "watchdog" : "stop", modes[mode], why);
		return 1;
	}
	bool failed = gpu_offload_backend_submit(backend, &batch) != 0;
	while (!failed && gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	int expected = watchdog ? -ETIMEDOUT : 0;
	failed = failed || batch.status != expected ||
		 gpu_offload_backend_lost(backend, lost, sizeof(lost)) != expected;
	uint64_t begin_ns = now_ns(NULL);
	gpu_offload_backend_destroy(backend);
	uint64_t took_ns = now_ns(NULL) - begin_ns;
	failed = failed || took_ns > LATE_MS * UINT64_C(1000000);
	printf("%s,%s,%.1f,%s%s\n", watchdog ? "watchdog" : "stop", modes[mode],
		(double)took_ns / 1e3, failed ? "FAILED: " : "", lost[0] != '\0' ? lost : why);
	return failed;
}

int main(int argc, char **argv)
{
	static const uint32_t widths[] = { 64, 128, 64, 16 };
	struct gpu_offload_model *model;
	int failed = 0;
	if (argc < 2 || (strcmp(argv[1], "stop") != 0 && strcmp(argv[1], "watchdog") != 0) ||
		gpu_offload_model_create_mlp(&model, widths, 4, 1) != 0) {
		fprintf(stderr, "usage: gpu_check stop|watchdog [LIBCUDA]\n");
		return 2;
	}
	for (int mode = 0; mode < 3; mode++)
		failed |= check(
			model, mode, strcmp(argv[1], "watchdog") == 0, argc > 2 ? argv[2] : NULL);
	gpu_offload_model_destroy(model);
	return failed;
}
