/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_clock.h"

#include "base/cycles.h"

#include <time.h>

double bench_clock_tsc_hz(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	uint64_t start = base_cycles();
	nanosleep(&pause, NULL);
	uint64_t cycles = base_cycles() - start;
	clock_gettime(CLOCK_MONOTONIC, &after);
	double seconds = (double)(after.tv_sec - before.tv_sec) +
			 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
	return (double)cycles / seconds;
}

uint64_t bench_clock_wall_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

uint64_t bench_clock_process_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

uint64_t bench_clock_thread_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}
